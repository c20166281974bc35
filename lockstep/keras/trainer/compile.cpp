#include "lockstep/keras/trainer/compile.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"

namespace lockstep::keras {

namespace {

// The value when it has the kind asked for, the default when it is null or not there.
template <typename T>
T value_or(const Json& config, const char* key, T otherwise, bool (*fits)(const Json&), const char* expected) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return otherwise;
  if (!fits(*found))
    throw_invalid_argument(
        fmt::format("compile_config: invalid {}: found {}, expected {}", key, dump_json(*found), expected));
  return found->get<T>();
}

bool is_bool(const Json& value) {
  return value.is_boolean() || (value.is_number_integer() && (value == 0 || value == 1));
}
bool is_count(const Json& value) { return value.is_number_integer() && value.get<std::int64_t>() >= 1; }

}  // namespace

void check_loss_weights(const Json& weights) {
  const auto single = [](const Json& value) { return value.is_null() || value.is_number(); };
  const auto all = [&] { return std::all_of(weights.begin(), weights.end(), single); };
  if (single(weights) || (weights.is_structured() && all())) return;
  throw_invalid_argument(
      fmt::format("compile_config: invalid loss_weights: found {}, expected a number, or a list or dict with a number "
                  "for each output",
                  dump_json(weights)));
}

template <typename Arg>
ArgTree<Arg> ArgTree<Arg>::from_config(const Json& config, const char* key) {
  if (config.is_null()) return {};
  if (config.is_string()) return ArgTree(Arg(config.get<std::string>()));
  if (config.is_array()) {
    std::vector<ArgTree> items;
    for (const Json& item : config) items.push_back(from_config(item, key));
    return ArgTree(std::move(items));
  }
  if (!config.is_object())
    throw_invalid_argument(fmt::format("compile_config: invalid {}: found {}", key, dump_json(config)));
  if (config.contains("class_name")) return ArgTree(Arg(config));
  std::vector<std::pair<std::string, ArgTree>> entries;
  for (const auto& [name, item] : config.items()) entries.emplace_back(name, from_config(item, key));
  return dict(std::move(entries));
}

template <typename Arg>
ArgTree<Arg> ArgTree<Arg>::dict(std::vector<std::pair<std::string, ArgTree>> entries) {
  ArgTree tree;
  tree.kind_ = Kind::kDict;
  for (auto& [name, item] : entries) {
    tree.names_.push_back(name);
    tree.items_.push_back(std::move(item));
  }
  return tree;
}

template <typename Arg>
ArgTree<Arg> ArgTree<Arg>::with_output_names(const std::vector<std::string>& outputs) const {
  const auto names_output = [&](const ArgTree& item) {
    const std::string* const name = item.is_list() && item.items_.size() == 2 ? item.items_[0].leaf_.name() : nullptr;
    return name && std::find(outputs.begin(), outputs.end(), *name) != outputs.end();
  };
  if (!is_list() || items_.empty() || !std::all_of(items_.begin(), items_.end(), names_output)) return *this;
  std::vector<std::pair<std::string, ArgTree>> entries;
  for (const ArgTree& item : items_) entries.emplace_back(*item.items_[0].leaf_.name(), item.items_[1]);
  return dict(std::move(entries));
}

template <typename Arg>
const ArgTree<Arg>* ArgTree<Arg>::find(const std::string& name) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return &items_[i];
  }
  return nullptr;
}

template <typename Arg>
Json ArgTree<Arg>::to_config(const std::function<Json(const Arg&)>& serialize) const {
  if (is_leaf()) {
    if (leaf_.empty()) return nullptr;
    if (leaf_.name()) return *leaf_.name();
    return leaf_.config() && leaf_.config()->contains("module") ? *leaf_.config() : serialize(leaf_);
  }
  Json out = is_list() ? Json::array() : Json::object();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (is_list()) {
      out.push_back(items_[i].to_config(serialize));
    } else {
      out[names_[i]] = items_[i].to_config(serialize);
    }
  }
  return out;
}

template class ArgTree<losses::LossArg>;
template class ArgTree<metrics::MetricArg>;

void CompileOptions::name_outputs(const std::vector<std::string>& outputs) {
  loss = loss.with_output_names(outputs);
  for (MetricTree* tree : {&metrics, &weighted_metrics}) *tree = tree->with_output_names(outputs);
}

Json compile_config(const CompileOptions& options, const optimizers::OptimizerPtr& optimizer) {
  Json config = Json::object();
  config["optimizer"] = optimizers::serialize(optimizer);
  config["loss"] =
      options.loss.to_config([](const losses::LossArg& loss) { return losses::serialize(losses::get(loss)); });
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
  if (!config.is_object()) throw_invalid_argument("invalid compile_config: expected an object");
  static const std::vector<std::string> kKnown = {
      "optimizer", "loss", "loss_weights", "metrics", "weighted_metrics", "run_eagerly", "jit_compile",
      "auto_scale_loss", "steps_per_execution",
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
  options.loss = LossTree::from_config(get("loss"), "loss");
  options.loss_weights = get("loss_weights");
  options.metrics = MetricTree::from_config(get("metrics"), "metrics");
  options.weighted_metrics = MetricTree::from_config(get("weighted_metrics"), "weighted_metrics");
  check_loss_weights(options.loss_weights);
  options.run_eagerly = value_or(config, "run_eagerly", options.run_eagerly, is_bool, "true or false");
  options.steps_per_execution =
      value_or(config, "steps_per_execution", options.steps_per_execution, is_count, "a positive integer");
  options.jit_compile = get("jit_compile");
  options.auto_scale_loss = value_or(config, "auto_scale_loss", options.auto_scale_loss, is_bool, "true or false");
  return options;
}

}  // namespace lockstep::keras
