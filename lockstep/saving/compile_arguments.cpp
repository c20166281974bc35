#include "lockstep/saving/compile_arguments_internal.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/base/log_internal.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/losses/loss.h"
#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/saving/keras2_optimizer_internal.h"

namespace lockstep::saving {
namespace {

using keras::ModelImpl;

bool is_object_of_class(const Json& value) { return value.is_object() && value.contains("class_name"); }

// A tree of arguments with each leaf changed; leaves that become null are left out of lists.
template <typename Change>
Json changed(const Json& tree, const Change& change) {
  if (tree.is_null()) return tree;
  if (tree.is_array()) {
    Json out = Json::array();
    for (const Json& item : tree) {
      if (Json leaf = changed(item, change); item.is_null() || !leaf.is_null()) out.push_back(std::move(leaf));
    }
    return out;
  }
  if (!tree.is_object() || is_object_of_class(tree)) return change(tree);
  Json out = Json::object();
  for (const auto& [name, item] : tree.items()) out[name] = changed(item, change);
  return out;
}

// ---- for Keras 3 ------------------------------------------------------------------------------------------

// Names of functions that only Keras 2 knows.
Json loss_of_keras3(const Json& loss) {
  static const std::map<std::string, std::string> kRenamed = {
      {"kullback_leibler_divergence", "kl_divergence"}, {"logcosh", "log_cosh"}, {"huber_loss", "huber"}};
  if (loss.is_string()) {
    const auto renamed = kRenamed.find(loss.text());
    return renamed == kRenamed.end() ? loss : Json(renamed->second);
  }
  const Json config = loss.value("config", Json());
  const bool old = config.is_object() && (config.contains("fn") || config.value("reduction", Json()) == Json("auto"));
  return old ? losses::serialize(losses::deserialize(loss)) : loss;
}

bool is_metric_name_of_keras3(const std::string& name) {
  static const std::set<std::string> kShort = {"accuracy", "acc", "crossentropy", "ce",   "bce",  "BCE",  "mse",
                                               "MSE",      "mae", "MAE",          "mape", "MAPE", "msle", "MSLE"};
  if (kShort.contains(name)) return true;
  if (!metrics::classes().contains(name)) return false;
  const std::string& of_class = metrics::classes().find(name)->name;
  return name == of_class || name == keras::to_snake_case(of_class);
}

// Keras 3 takes the function of a MeanMetricWrapper as an object; where a class has the function, it is that class.
Json wrapper_of_keras3(Json metric) {
  if (metric.value("class_name", Json()) != Json("MeanMetricWrapper")) return metric;
  Json& config = metric["config"];
  if (!config.is_object() || !config.contains("fn") || !config["fn"].is_string()) return metric;
  const std::string function = config["fn"].text();
  if (metrics::classes().contains(function)) {
    metric["class_name"] = metrics::classes().find(function)->name;
    config.erase("fn");
  } else {
    const Json renamed = loss_of_keras3(Json(function));
    config["fn"] = {
        {"module", "keras.losses"}, {"class_name", "function"}, {"config", renamed}, {"registered_name", renamed}};
  }
  return metric;
}

Json metric_of_keras3(const Json& metric, const std::string& model) {
  if (metric.is_string()) {
    if (is_metric_name_of_keras3(metric.text())) return metric;
    return wrapper_of_keras3(metrics::serialize(metrics::get_named(metric.text(), 2)));
  }
  if (!is_object_of_class(metric)) return metric;
  if (metric.at("class_name") == Json("MeanRelativeError")) {
    log_warning("model '{}' is written without the metric MeanRelativeError, which Keras 3 does not have", model);
    return nullptr;
  }
  return wrapper_of_keras3(metric);
}

// ---- for Keras 2 ------------------------------------------------------------------------------------------

struct Output {
  std::string name;
  Shape shape;
};

std::vector<Output> outputs_of(const ModelImpl& model, int keras_version) {
  std::vector<Output> outputs;
  if (model.is_subclassed()) return outputs;
  const keras::Structure& structure = model.outputs();
  if (structure.is_dict()) {
    for (const auto& [name, value] : structure.entries()) {
      if (value.is_leaf()) outputs.push_back({name, value.leaf().shape()});
    }
    std::ranges::sort(outputs, {}, &Output::name);
    return outputs;
  }
  std::vector<std::string> names;
  structure.visit([&](const Tensor& output) {
    const keras::KerasTensor* symbol = keras::as_keras_tensor(output);
    names.push_back(symbol ? symbol->operation()->name() : "output");
    outputs.push_back({"", output.shape()});
  });
  if (keras_version < 3) names = keras::numbered_names(std::move(names));
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].name = names[i];
  return outputs;
}

std::vector<Output> outputs_of(const ModelImpl& model) { return outputs_of(model, model.keras_version()); }

// The part of an argument of compile that belongs to output `i`; one leaf is for all.
Json part_of(const Json& tree, const std::vector<Output>& outputs, std::size_t i) {
  if (tree.is_object() && !is_object_of_class(tree)) return tree.value(outputs[i].name, Json());
  return outputs.size() > 1 && tree.is_array() && i < tree.size() ? tree[i] : tree;
}

// Metrics of several outputs; `tree` is that of Keras 2, which computes a metric, or a list of metrics without lists
// inside, for each output.
Json for_each_output(Json tree, const std::vector<Output>& outputs) {
  const auto is_leaf = [](const Json& item) { return !item.is_structured() || is_object_of_class(item); };
  const bool one = !tree.is_null() && is_leaf(tree);
  if (outputs.size() < 2 || !(one || (tree.is_array() && std::ranges::all_of(tree, is_leaf)))) return tree;
  Json out = Json::array();
  for (std::size_t i = 0; i < outputs.size(); ++i) out.push_back(one ? Json::array({tree}) : tree);
  return out;
}

// Metrics of several outputs, which Keras 2 names in files with their output.
Json without_output_names(Json tree, const std::vector<Output>& outputs) {
  if (outputs.size() < 2 || !tree.is_structured() || is_object_of_class(tree)) return tree;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (tree.is_array() ? i >= tree.size() : !tree.contains(outputs[i].name)) continue;
    Json& part = tree.is_array() ? tree[i] : tree[outputs[i].name];
    part = changed(part, [&](Json metric) {
      if (!metric.is_object()) return metric;
      Json& config = metric["config"];
      const std::string prefix = outputs[i].name + "_";
      if (!config.is_object() || !config.value("name", Json()).is_string()) return metric;
      const std::string name = config["name"].text();
      if (name.size() > prefix.size() && name.starts_with(prefix)) config["name"] = name.substr(prefix.size());
      return metric;
    });
  }
  return tree;
}

bool has_sparse_targets(Json loss) {
  if (loss.is_array() && loss.size() == 1) loss = loss[0];
  if (!loss.is_string() && !is_object_of_class(loss)) return false;
  const losses::LossPtr made = losses::deserialize(loss);
  return made->class_name() == "SparseCategoricalCrossentropy" || made->name() == "sparse_categorical_crossentropy";
}

metrics::MetricPtr metric_for(const Json& metric, const Output& output, bool sparse, int keras_version) {
  if (!metric.is_string()) return metrics::deserialize(metric);
  const std::string& name = metric.text();
  Shape targets = output.shape;
  if (sparse && targets.rank() > 0) targets = Shape(std::vector(targets.begin(), targets.end() - 1));
  return metrics::get_for_compile(name, targets, output.shape, keras_version);
}

}  // namespace

Json compile_config_of_keras3(const Json& compile, const ModelImpl& model) {
  const Json optimizer = compile.is_object() ? compile.value("optimizer", Json()) : Json();
  const Json arguments = optimizer.is_object() ? optimizer.value("config", Json()) : Json();
  if (arguments.is_object() && is_decayed_schedule(arguments.value("learning_rate", Json()))) {
    log_warning("model '{}' is written without compile arguments: Keras 3 has no optimizer with a schedule and decay",
                model.name());
    return Json::object();
  }
  Json known = compile;
  if (!known.is_object()) return known;
  if (known.contains("loss")) known["loss"] = changed(known["loss"], loss_of_keras3);
  for (const char* key : {"metrics", "weighted_metrics"}) {
    if (!known.contains(key)) continue;
    Json& tree = known[key];
    if (model.keras_version() < 3) {
      const std::vector<Output> outputs = outputs_of(model);
      tree = without_output_names(for_each_output(std::move(tree), outputs), outputs);
    }
    tree = changed(tree, [&](const Json& metric) { return metric_of_keras3(metric, model.name()); });
  }
  return known;
}

Json compile_config_of_keras2(Json compile, const ModelImpl& model) {
  const std::vector<Output> outputs = outputs_of(model, 2);
  if (!compile.is_object() || outputs.size() < 2) return compile;
  for (const char* key : {"metrics", "weighted_metrics"}) {
    if (!compile.contains(key)) continue;
    Json& tree = compile[key];
    if (!tree.is_structured() || is_object_of_class(tree)) continue;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (tree.is_array() ? i >= tree.size() : !tree.contains(outputs[i].name)) continue;
      Json& part = tree.is_array() ? tree[i] : tree[outputs[i].name];
      part = changed(part, [prefix = outputs[i].name + "_"](Json metric) {
        Json* const config = metric.is_object() && metric.contains("config") ? &metric["config"] : nullptr;
        if (!config || !config->is_object() || !config->value("name", Json()).is_string()) return metric;
        const std::string name = (*config)["name"].text();
        if (name.starts_with(prefix)) (*config)["name"] = prefix + name;
        return metric;
      });
    }
  }
  return compile;
}

Json keras2_metrics(const Json& compile, const std::string& key, const ModelImpl& model, std::set<std::string>& taken) {
  const Json loss = compile.value("loss", Json());
  const int version = model.keras_version();
  const std::vector<Output> outputs = outputs_of(model);
  Json tree = compile.value(key, Json());
  if (version < 3) tree = for_each_output(std::move(tree), outputs);
  if (tree.is_null()) return tree;
  if (outputs.empty()) {
    return changed(tree, [&](const Json& metric) {
      return metric.is_string() ? metrics::serialize(metrics::get_named(metric.text(), version)) : metric;
    });
  }
  const bool weighted = key == "weighted_metrics";
  Json out = Json::object();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool sparse = has_sparse_targets(part_of(loss, outputs, i));
    Json& list = out[outputs[i].name] = Json::array();
    changed(part_of(tree, outputs, i), [&](const Json& leaf) {
      metrics::MetricPtr metric = metric_for(leaf, outputs[i], sparse, version);
      const std::string own = metric->name(), prefix = outputs.size() > 1 ? outputs[i].name + "_" : "";
      const bool complete = version < 3 && own.starts_with(prefix);
      std::string name = complete ? own : prefix + own;
      if (weighted && taken.contains(name)) name = prefix + "weighted_" + own;
      taken.insert(name);
      metric->set_name(name);
      list.push_back(metrics::serialize(metric));
      return leaf;
    });
  }
  return outputs.size() == 1 ? out[outputs[0].name] : out;
}

Json with_metric_objects(Json config) {
  static const std::set<std::string> kOfTargets = {"accuracy", "acc", "crossentropy", "ce"};
  if (!config.is_object()) return config;
  for (const char* key : {"metrics", "weighted_metrics"}) {
    if (!config.contains(key)) continue;
    config[key] = changed(config[key], [](const Json& metric) {
      if (!metric.is_string() || kOfTargets.contains(metric.text())) return metric;
      const auto* row = metrics::classes().find(metric.text());
      if (!row) return metric;
      return metrics::serialize(metrics::deserialize({{"class_name", row->name}, {"config", Json::object()}}));
    });
  }
  return config;
}

}  // namespace lockstep::saving
