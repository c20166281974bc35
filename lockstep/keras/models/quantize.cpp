// Model::quantize().
#include <algorithm>

#include <fmt/format.h>
#include <re2/re2.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::keras {

void Model::quantize(const quantizers::QuantizationConfig& config, const QuantizeOptions& options) const {
  for (const std::string& filter : options.filters) {
    if (const RE2 pattern(filter, RE2::Quiet); !pattern.ok())
      throw_invalid_argument(
          fmt::format("quantize: filter '{}' is not a regular expression of RE2: {}", filter, pattern.error()));
  }
  std::vector<Layer*> chosen;
  for (Layer* const layer : impl()->flatten_layers()) {
    if (!layer->can_be_quantized() || !layer->sublayers().empty()) continue;
    const auto matches = [&](const std::string& filter) {
      return RE2::PartialMatch(layer->name(), RE2(filter, RE2::Quiet));
    };
    if (options.filters.empty() || std::ranges::any_of(options.filters, matches)) chosen.push_back(layer);
  }
  if (chosen.empty()) log_warning("quantize: model '{}' has no layer to be quantized", name());
  for (Layer* const layer : chosen) {
    try {
      layer->quantize(config);
    } catch (const Error& error) {
      if (error.code() != Code::kUnimplemented) throw;
      log_warning("{}", error.message());
    }
  }
}

}  // namespace lockstep::keras
