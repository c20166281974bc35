#include "lockstep/saving/bin_boundaries_internal.h"

#include <map>

#include <fmt/format.h>

#include "lockstep/keras/naming_internal.h"
#include "lockstep/keras/preprocessing/categories_internal.h"

namespace lockstep::saving {
namespace {

// The summary of the layer of that name, which is saved at `path` in .keras files.
using SummaryOf = std::function<std::optional<Tensor>(const std::string& name, const std::string& path)>;

void add_boundaries(Json& model, const std::string& path, const SummaryOf& summary_of) {
  if (!model.is_object() || !model.contains("layers") || !model["layers"].is_array()) return;
  std::map<std::string, int> counts;
  for (Json& layer : model["layers"]) {
    if (!layer.is_object() || !layer.value("class_name", Json()).is_string() || !layer.contains("config")) continue;
    const std::string class_name = layer["class_name"].text();
    const std::string group = keras::to_snake_case(class_name);
    const int number = counts[group]++;
    const std::string inner = fmt::format("{}layers/{}{}", path, group, number ? fmt::format("_{}", number) : "");
    Json& config = layer["config"];
    if (class_name != "Discretization") {
      add_boundaries(config, inner + "/", summary_of);
      continue;
    }
    const Json name = config.value("name", Json()), bins = config.value("num_bins", Json());
    if (!config.value("bin_boundaries", Json()).is_null() || !name.is_string() || !bins.is_number_integer()) continue;
    const std::optional<Tensor> summary = summary_of(name.text(), inner);
    if (!summary || summary->rank() != 2 || summary->dim(0) != 2 || summary->dim(1) == 0 ||
        bins.get<std::int64_t>() < 1)
      continue;
    config["bin_boundaries"] = keras::bin_boundaries(*summary, bins.get<std::int64_t>());
  }
}

Json with_summaries(Json object, const SummaryOf& summary_of) {
  if (object.is_object() && object.contains("config")) add_boundaries(object["config"], "", summary_of);
  return object;
}

}  // namespace

Json with_bin_boundaries(Json config, const formats::KerasWeights& weights) {
  return with_summaries(std::move(config), [&](const std::string&, const std::string& path) -> std::optional<Tensor> {
    const auto stored = weights.variables(path);
    if (stored.size() != 1) return {};
    return Tensor::from_data(weights.read(stored[0].name));
  });
}

Json with_bin_boundaries(Json config, const formats::LegacyH5& file) {
  return with_summaries(std::move(config), [&](const std::string& name, const std::string&) -> std::optional<Tensor> {
    const std::string end = "/" + name + "/summary:0";
    for (const formats::LegacyLayer& layer : file.layers()) {
      for (const formats::TensorInfo& weight : layer.weights) {
        const bool own = layer.name == name && weight.name.ends_with("/summary:0");
        if (own || weight.name.ends_with(end)) return Tensor::from_data(file.read(weight.name));
      }
    }
    return {};
  });
}

}  // namespace lockstep::saving
