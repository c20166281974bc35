#include "lockstep/keras/trainer/compile.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::keras {

template <typename Arg>
ArgTree<Arg> ArgTree<Arg>::from_config(const Json& config) {
  if (config.is_null()) return {};
  if (config.is_string()) return ArgTree(Arg(config.get<std::string>()));
  if (config.is_array()) {
    std::vector<ArgTree> items;
    for (const Json& item : config) items.push_back(from_config(item));
    return ArgTree(std::move(items));
  }
  if (!config.is_object()) throw_invalid_argument(fmt::format("compile_config: a loss or metric cannot be {}", dump_json(config)));
  if (config.contains("class_name")) return ArgTree(Arg(config));
  std::vector<std::pair<std::string, ArgTree>> entries;
  for (const auto& [name, item] : config.items()) entries.emplace_back(name, from_config(item));
  return dict(std::move(entries));
}

template class ArgTree<losses::LossArg>;
template class ArgTree<metrics::MetricArg>;

Json compile_config(const CompileOptions& options, const optimizers::OptimizerPtr& optimizer) {
  Json config = Json::object();
  config["optimizer"] = optimizers::serialize(optimizer);
  config["loss"] = options.loss.to_config([](const losses::LossArg& loss) { return losses::serialize(losses::get(loss)); });
  config["loss_weights"] = options.loss_weights;
  const auto metric = [](const metrics::MetricArg& arg) { return metrics::serialize(metrics::get(arg)); };
  config["metrics"] = options.metrics.to_config(metric);
  config["weighted_metrics"] = options.weighted_metrics.to_config(metric);
  config["run_eagerly"] = options.run_eagerly;
  config["steps_per_execution"] = options.steps_per_execution;
  config["jit_compile"] = options.jit_compile.is_boolean() ? options.jit_compile : Json(false);
  return config;
}

CompileOptions parse_compile_config(const Json& config) {
  if (!config.is_object()) throw_invalid_argument("compile_config: expected an object");
  static const std::vector<std::string> kKnown = {
      "optimizer",   "loss",        "loss_weights", "metrics",            "weighted_metrics",
      "run_eagerly", "jit_compile", "auto_scale_loss", "steps_per_execution",
      // Keras 1 and 2
      "optimizer_config", "sample_weight_mode", "target_tensors", "weighted_metrics_names", "is_compiled",
      "class_weight", "pss_evaluation_shards", "experimental_run_tf_function"};
  for (const auto& [key, value] : config.items()) {
    if (std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end()) {
      throw_invalid_argument(fmt::format("compile_config: unknown key '{}'{}", key, did_you_mean(key, kKnown)));
    }
  }
  const auto get = [&](const char* key) { return config.contains(key) ? config[key] : Json(nullptr); };
  CompileOptions options;
  const Json optimizer = config.contains("optimizer_config") ? get("optimizer_config") : get("optimizer");
  if (!optimizer.is_null()) options.optimizer = optimizers::OptimizerArg(optimizer);
  options.loss = LossTree::from_config(get("loss"));
  options.loss_weights = get("loss_weights");
  options.metrics = MetricTree::from_config(get("metrics"));
  options.weighted_metrics = MetricTree::from_config(get("weighted_metrics"));
  if (get("run_eagerly").is_boolean()) options.run_eagerly = get("run_eagerly");
  if (get("steps_per_execution").is_number_integer()) options.steps_per_execution = get("steps_per_execution");
  options.jit_compile = get("jit_compile");
  if (get("auto_scale_loss").is_boolean()) options.auto_scale_loss = get("auto_scale_loss");
  return options;
}

}  // namespace lockstep::keras
