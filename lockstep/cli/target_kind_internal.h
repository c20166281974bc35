// The format that `convert` and `--save` write, from an option or from the path.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/formats/detect.h"

namespace lockstep::cli {

// By `to` ("keras", "h5", …), else by the extension of `path`: .keras, .h5 and .hdf5, .weights.h5, .safetensors, .ckpt;
// a path without extension is a SavedModel. Throws UsageError.
inline formats::Kind target_kind(const std::string& path, const std::optional<std::string>& to) {
  using formats::Kind;
  constexpr std::array kKinds{Kind::kKeras,      Kind::kKerasH5,      Kind::kWeightsH5,
                              Kind::kSavedModel, Kind::kTfCheckpoint, Kind::kSafetensors};
  std::vector<std::string> names;
  for (const Kind kind : kKinds) names.emplace_back(formats::kind_name(kind));
  if (to) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == *to) return kKinds[i];
    }
    throw_usage(fmt::format("--to: unknown kind '{}'{}; expected one of {}", *to, did_you_mean(*to, names),
                            fmt::join(names, ", ")));
  }
  const auto ends = [&](std::string_view end) { return path.ends_with(end); };
  if (ends(".weights.h5")) return Kind::kWeightsH5;
  if (ends(".keras")) return Kind::kKeras;
  if (ends(".h5") || ends(".hdf5")) return Kind::kKerasH5;
  if (ends(".safetensors")) return Kind::kSafetensors;
  if (ends(".ckpt")) return Kind::kTfCheckpoint;
  const std::size_t slash = path.rfind('/');
  const std::string name = path.substr(slash == std::string::npos ? 0 : slash + 1);
  if (name.find('.') == std::string::npos) return Kind::kSavedModel;
  throw_usage(fmt::format("{}: unknown extension; give the kind with --to ({})", path, fmt::join(names, ", ")));
}

}  // namespace lockstep::cli
