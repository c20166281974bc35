// lockstep new: models of known architectures.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/applications/applications.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/engine_commands_internal.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/target_kind_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::cli {

int new_model(const Arguments& arguments) {
  const auto architecture = arguments.maybe("ARCHITECTURE");
  const std::vector<std::string> names = applications::names();
  if (!architecture) {
    for (const std::string& name : names) fmt::print("{}\n", name);
    return 0;
  }
  if (std::ranges::find(names, *architecture) == names.end()) {
    throw_usage(fmt::format("unknown architecture '{}'{}; 'lockstep new' lists all of them", *architecture,
                            did_you_mean(*architecture, names)));
  }
  const auto out = arguments.maybe("OUT");
  if (!out) throw_usage(fmt::format("OUT is missing: the file to write, such as {}.keras", *architecture));
  const formats::Kind kind = target_kind(*out, std::nullopt);
  applications::ArchitectureOptions options;
  applications::ApplicationOptions& common = options.common;
  common.include_top = !arguments.has("--no-top");
  common.classes = arguments.integer("--classes");
  if (const auto shape = arguments.maybe("--input-shape"))
    common.input_shape = parse_image_shape("--input-shape", *shape);
  common.pooling = arguments.maybe("--pooling");
  common.classifier_activation = arguments.text("--activation");
  common.name = arguments.text("--name");
  if (const auto alpha = arguments.maybe("--alpha")) options.alpha = parse_factor("--alpha", *alpha);
  if (arguments.has("--minimalistic")) options.minimalistic = true;
  if (arguments.has("--no-preprocessing")) options.include_preprocessing = false;
  if (const auto seed = arguments.maybe_integer("--seed")) random::set_random_seed(*seed);

  const keras::Model model = applications::make(*architecture, options);
  apply_weights(model, arguments);
  apply_compile_overrides(model, arguments);
  write_model(model, *out, kind);
  const std::string mode = applications::preprocessing_mode(*architecture);
  fmt::print("{} -> {}: {} parameters, input {}, output {}{}\n", *architecture, *out, model.count_params(),
             model.input().leaf().shape().to_string(), model.output().leaf().shape().to_string(),
             mode.empty() ? "" : fmt::format(", preprocessing '{}'", mode));
  return 0;
}

}  // namespace lockstep::cli
