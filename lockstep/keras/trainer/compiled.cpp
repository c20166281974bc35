#include "lockstep/keras/trainer/compiled.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/losses/function_loss_internal.h"
#include "lockstep/keras/metrics/bases.h"
#include "lockstep/keras/metrics/mean_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/trainer/metric_state_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

// The item of each output in an argument of compile: one leaf serves all outputs when `repeat` is set.
template <typename Tree>
std::vector<const Tree*> per_output(const Tree& tree, const std::vector<std::string>& names, const char* what,
                                    bool repeat) {
  std::vector<const Tree*> items(names.size(), nullptr);
  if (tree.is_leaf()) {
    if (names.size() == 1 || repeat) {
      std::fill(items.begin(), items.end(), &tree);
    } else if (!tree.empty()) {
      throw_invalid_argument(
          fmt::format("compile: invalid {}: found one value, expected one for each of the {} outputs ({})", what,
                      names.size(), fmt::join(names, ", ")));
    }
    return items;
  }
  if (tree.is_list()) {
    if (tree.items().size() != names.size()) {
      throw_invalid_argument(
          fmt::format("compile: invalid {}: found {} entries, expected one for each of the {} outputs ({})", what,
                      tree.items().size(), names.size(), fmt::join(names, ", ")));
    }
    for (std::size_t i = 0; i < names.size(); ++i) items[i] = &tree.items()[i];
    return items;
  }
  for (std::size_t i = 0; i < tree.names().size(); ++i) {
    const auto name = std::find(names.begin(), names.end(), tree.names()[i]);
    if (name == names.end()) {
      throw_invalid_argument(fmt::format("compile: invalid {}: unknown output '{}'; the outputs of the model are {}",
                                         what, tree.names()[i], fmt::join(names, ", ")));
    }
    items[static_cast<std::size_t>(name - names.begin())] = &tree.items()[i];
  }
  return items;
}

double weight_of(const Json& weights, std::size_t output, const std::vector<std::string>& names) {
  if (weights.is_null()) return 1.0;
  if (weights.is_number()) {
    if (names.size() != 1) {
      throw_invalid_argument(fmt::format(
          "compile: invalid loss_weights: found one number, expected a list or dict for the {} outputs of the model",
          names.size()));
    }
    return weights.get<double>();
  }
  if (weights.is_array()) {
    if (weights.size() != names.size()) {
      throw_invalid_argument(
          fmt::format("compile: invalid loss_weights: found {} entries, expected one for each of the {} outputs",
                      weights.size(), names.size()));
    }
    return weights[output].is_null() ? 1.0 : weights[output].get<double>();
  }
  for (const auto& [name, value] : weights.items()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw_invalid_argument(
          fmt::format("compile: invalid loss_weights: unknown output '{}'; the outputs of the model are {}", name,
                      fmt::join(names, ", ")));
    }
  }
  return weights.contains(names[output]) ? weights[names[output]].get<double>() : 1.0;
}

// Keras 3 gives weights by name to a list of losses in the order of the names, whichever outputs these are.
Json weights_of_list(const Json& weights) {
  std::map<std::string, Json> by_name;
  for (const auto& [name, value] : weights.items()) by_name[name] = value;
  Json out = Json::array();
  for (const auto& [name, value] : by_name) out.push_back(value);
  return out;
}

// Keras 2 computes a metric, or a list of metrics without lists inside, for each output.
bool is_for_each_output(const MetricTree& tree) {
  return tree.is_leaf() || (tree.is_list() && std::ranges::all_of(tree.items(), &MetricTree::is_leaf));
}

// The leaf of `leaves` that belongs to an output; one leaf serves all.
Tensor leaf_for(const Tensors& leaves, std::size_t output) {
  if (leaves.empty()) return {};
  return leaves.size() == 1 ? leaves[0] : output < leaves.size() ? leaves[output] : Tensor();
}

}  // namespace

void Compiled::resolve_losses(const std::vector<std::string>& names) {
  if (options_.loss.empty()) return;
  // Keras 2, and Keras 3 if the outputs are a dict, train outputs without an entry with no loss.
  if (options_.loss.is_dict() && model_.keras_version() > 2 && !model_.is_subclassed() && !model_.outputs().is_dict()) {
    for (const std::string& name : names) {
      if (!options_.loss.find(name)) {
        throw_invalid_argument(
            fmt::format("compile: invalid loss: the dict has no entry for output '{}'; give it a loss or null", name));
      }
    }
  }
  const auto items = per_output(options_.loss, names, "loss", true);
  const bool by_order = options_.loss_weights.is_object() && options_.loss.is_list() && model_.keras_version() > 2;
  const Json weights = by_order ? weights_of_list(options_.loss_weights) : options_.loss_weights;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!items[i] || items[i]->empty()) continue;
    losses::LossPtr loss;
    if (items[i]->is_leaf()) {
      loss = losses::get(items[i]->leaf());
    } else if (items[i]->items().size() == 1) {
      loss = losses::get(items[i]->items()[0].leaf());
    } else {
      throw_invalid_argument(
          fmt::format("compile: invalid loss: output '{}' has several losses, expected one", names[i]));
    }
    losses_.push_back({i, std::move(loss), weight_of(weights, i, names)});
  }
}

bool Compiled::metrics_depend_on_outputs() const {
  const std::function<bool(const MetricTree&)> depends = [&](const MetricTree& tree) {
    if (!tree.is_leaf()) return std::any_of(tree.items().begin(), tree.items().end(), depends);
    return tree.leaf().name() && metrics::depends_on_outputs(*tree.leaf().name());
  };
  return depends(options_.metrics) || depends(options_.weighted_metrics);
}

void Compiled::add_metric(const MetricTree& item, std::size_t output, bool weighted,
                          const std::vector<std::string>& names, const Tensors& y, const Tensors& y_pred) {
  if (item.empty()) return;
  if (!item.is_leaf()) {
    for (const MetricTree& each : item.items()) add_metric(each, output, weighted, names, y, y_pred);
    return;
  }
  const Shape any = Shape::unknown_rank();
  const bool known = y_pred[output].defined();
  metrics::MetricPtr metric = metrics::get_for_compile(item.leaf(), known ? leaf_for(y, output).shape() : any,
                                                       known ? y_pred[output].shape() : any, model_.keras_version());
  const bool used = std::ranges::any_of(metrics_, [&](const OutputMetric& m) { return m.metric == metric; });
  if (used) metric = metrics::deserialize(metrics::serialize(metric));
  std::string name = metric->name();
  // Those in an .h5 file of Keras 2 have the name of the output already.
  const bool complete = model_.keras_version() < 3 && name.starts_with(names[output] + "_");
  if (names.size() > 1 && !complete) name = names[output] + "_" + name;
  const auto taken = [&](const std::string& candidate) {
    return std::any_of(metrics_.begin(), metrics_.end(),
                       [&](const OutputMetric& m) { return m.log_name == candidate; });
  };
  if (weighted && taken(name))
    name = names.size() > 1 ? names[output] + "_weighted_" + metric->name() : "weighted_" + name;
  const std::string base = name;
  for (int i = 1; taken(name); ++i) name = fmt::format("{}_{}", base, i);
  metrics_.push_back({output, std::move(metric), std::move(name), weighted});
}

void Compiled::resolve_metrics(const MetricTree& tree, bool weighted, const std::vector<std::string>& names,
                               const Tensors& y, const Tensors& y_pred) {
  if (tree.empty()) return;
  if (!tree.is_dict() && (names.size() == 1 || (model_.keras_version() < 3 && is_for_each_output(tree)))) {
    for (std::size_t i = 0; i < names.size(); ++i) add_metric(tree, i, weighted, names, y, y_pred);
    return;
  }
  const auto items = per_output(tree, names, weighted ? "weighted_metrics" : "metrics", false);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (items[i]) add_metric(*items[i], i, weighted, names, y, y_pred);
  }
}

void Compiled::resolve(const std::vector<std::string>& output_names, const Structure& y, const Structure& y_pred) {
  const std::lock_guard lock(mutex_);
  if (resolved_) return;
  const Tensors outputs = y_pred.flatten();
  output_names_ = output_names;
  if (output_names_.size() != outputs.size()) {
    output_names_.clear();
    if (y_pred.is_dict() && y_pred.size() == outputs.size()) {
      for (const auto& [name, output] : y_pred.entries()) output_names_.push_back(name);
      std::sort(output_names_.begin(), output_names_.end());
    }
    for (std::size_t i = output_names_.size(); i < outputs.size(); ++i) {
      output_names_.push_back(fmt::format("output_{}", i));
    }
  }
  options_.name_outputs(output_names_);
  losses_.clear();
  metrics_.clear();
  resolve_losses(output_names_);
  const Tensors targets = by_output(y, y_pred);
  resolve_metrics(options_.metrics, false, output_names_, targets, outputs);
  resolve_metrics(options_.weighted_metrics, true, output_names_, targets, outputs);
  output_trackers_.resize(losses_.size());
  resolved_ = true;
}

Tensors Compiled::by_output(const Structure& values, const Structure& y_pred) const {
  const Tensors given = values.flatten();
  if (!values.is_dict() || output_names_.size() != y_pred.num_leaves()) return given;
  // Undefined for an output that has none: one with a loss needs it.
  Tensors ordered(output_names_.size());
  std::size_t found = 0;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    const Structure* const value = values.find(output_names_[i]);
    if (!value || !value->is_leaf()) continue;
    ordered[i] = value->leaf();
    ++found;
  }
  return found == given.size() ? ordered : given;
}

namespace {

Tensor gather_output(const Tensor& rows, const WholeBatch& whole) {
  Tensor all = whole.gather(rows);
  if (rows.mask().defined())
    all.set_mask(ops::cast(whole.gather(ops::cast(rows.mask(), DType::kFloat32)), DType::kBool));
  if (rows.logits().defined()) all.set_logits(whole.gather(rows.logits()));
  return all;
}

}  // namespace

Compiled::Counted Compiled::counted_of(const Tensors& weights, std::size_t output, const Tensor& predicted) const {
  Counted counted{leaf_for(weights, output), predicted.mask()};
  if (model_.keras_version() > 2) {
    // Keras's steps do not know how many rows there are, so weights of one row are not squeezed to a scalar.
    if (counted.weight.defined() && counted.weight.rank() == 1 && counted.weight.dim(0) == 1)
      counted.weight = ops::expand_dims(counted.weight, -1);
    return counted;
  }
  const auto expand = [](Tensor& values, int rank) {
    if (values.defined() && values.rank() > 0 && values.rank() == rank - 1) values = ops::expand_dims(values, -1);
  };
  if (counted.mask.defined()) expand(counted.weight, counted.mask.rank());
  expand(counted.weight, predicted.rank() - 1);
  expand(counted.mask, predicted.rank() - 1);
  return counted;
}

namespace {

// The focal loss of Keras 2 treats the logits of any activation, including sigmoid, as those of softmax. Losses of
// Keras 2 compute in the dtype of the outputs, so all outputs have their logits.
Tensor read_in_keras2(const losses::Loss& loss, const Tensor& output) {
  if (output.logits().defined() && output.dtype() != DType::kFloat32) {
    Tensor wide = ops::cast(output, DType::kFloat32);
    wide.set_logits(ops::cast(output.logits(), DType::kFloat32));
    wide.set_mask(output.mask());
    return read_in_keras2(loss, wide);
  }
  if (loss.class_name() != "CategoricalFocalCrossentropy" || !output.logits().defined()) return output;
  const Json config = loss.get_config();
  const bool from_logits = config.value("from_logits", Json(false)) == Json(true);
  if (from_logits) return output.logits();
  const Json axis = config.value("axis", Json(-1));
  return ops::softmax(output.logits(), axis.is_number() ? axis.get<int>() : -1);
}

}  // namespace

std::vector<LossPart> Compiled::loss_parts(const Structure& y, const Structure& y_pred, const Structure& sample_weight,
                                           const WholeBatch* whole) const {
  const Tensors targets = by_output(y, y_pred), outputs = y_pred.flatten(), weights = by_output(sample_weight, y_pred);
  const losses::Keras2Logarithms rules(model_.keras_version() < 3);
  std::vector<LossPart> parts;
  for (const OutputLoss& item : losses_) {
    const Tensor target = leaf_for(targets, item.output);
    if (!target.defined()) {
      throw_invalid_argument(
          fmt::format("the loss of output '{}' requires a target: give y for it", output_names_[item.output]));
    }
    const Tensor& output = outputs[item.output];
    const Tensor read = model_.keras_version() < 3 ? read_in_keras2(*item.loss, output) : output;
    if (whole && item.loss->mixes_rows(output.rank())) {
      const Tensor all = gather_output(read, *whole);
      const auto [weight, mask] = counted_of(by_output(whole->sample_weight, y_pred), item.output, all);
      parts.push_back({item.loss->reduce(leaf_for(by_output(whole->y, y_pred), item.output), all, weight, mask),
                       item.weight, true});
      continue;
    }
    const auto [weight, mask] = counted_of(weights, item.output, output);
    parts.push_back({item.loss->reduce(target, read, weight, mask), item.weight});
  }
  return parts;
}

bool Compiled::is_unreduced(const OutputLoss& item) { return item.loss->reduction() == losses::Reduction::kNone; }

void Compiled::update(const Structure& y, const Structure& y_pred, const Structure& sample_weight, double loss,
                      const std::vector<double>& output_losses, std::int64_t rows) {
  double n = static_cast<double>(rows);
  // Keras 2 counts each value of a loss that is not reduced with the number of rows.
  if (model_.keras_version() < 3 && std::ranges::any_of(losses_, is_unreduced)) n *= n;
  loss_tracker_.total += loss * n;
  loss_tracker_.count += n;
  last_rows_ = n;
  add_output_losses(output_losses, rows);
  if (!saved_.is_null()) restore_metrics(y, y_pred, sample_weight);
  update_metrics(y, y_pred, sample_weight);
}

void Compiled::add_output_losses(const std::vector<double>& output_losses, std::int64_t rows) {
  const double n = static_cast<double>(rows);
  const bool keras2 = model_.keras_version() < 3;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < output_losses.size(); ++i) {
    const bool unreduced = is_unreduced(losses_[i]);
    // In a graph Keras 3 does not know the number of rows of a batch, so the mean of a reduced loss is a mean over
    // batches.
    const double weight = keras2 ? (unreduced ? n * n : n) : options_.run_eagerly || unreduced ? n : 1.0;
    output_trackers_[i].total += output_losses[i] * weight;
    output_trackers_[i].count += weight;
  }
}

void Compiled::count_again(bool static_rows) {
  if (static_rows) loss_tracker_.count += last_rows_;
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    if (!is_unreduced(losses_[i])) output_trackers_[i].count += 1;
  }
  for (const OutputMetric& item : metrics_) {
    if (auto* mean = dynamic_cast<metrics::MeanMetric*>(item.metric.get())) mean->count_again(static_rows);
  }
}

namespace {

// The targets that count in a mean of Keras 2 which ignores a class; Keras 3 counts the others as 0.
Tensor targets_of_mean(const metrics::Metric& metric, const Tensor& target, const Tensor& predicted) {
  if (metric.class_name() != "SparseCategoricalCrossentropy") return {};
  const Json ignored = metric.get_config().value("ignore_class", Json());
  return ignored.is_number() ? metrics::not_ignored(target, predicted, ignored.get<double>()) : Tensor();
}

}  // namespace

void Compiled::update_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight) {
  const Tensors targets = by_output(y, y_pred), outputs = y_pred.flatten(), weights = by_output(sample_weight, y_pred);
  const losses::Keras2Logarithms rules(model_.keras_version() < 3);
  for (const OutputMetric& item : metrics_) {
    Tensor target = leaf_for(targets, item.output);
    if (!target.defined()) continue;
    auto [weight, mask] = counted_of(item.weighted ? weights : Tensors(), item.output, outputs[item.output]);
    // A weight of all metrics in Keras 2; in Keras 3 only some look for it.
    if (model_.keras_version() < 3) {
      // Its steps add an axis to targets that are vectors, along which categorical_accuracy takes the maximum:
      // "accuracy" in an .h5 of a model that saw no targets is this metric, whatever the loss is.
      if (target.rank() == 1 && outputs[item.output].rank() == 2) target = ops::expand_dims(target, -1);
      weight = metrics::weight_and_mask(weight, std::exchange(mask, Tensor()));
      weight = metrics::weight_and_mask(weight, targets_of_mean(*item.metric, target, outputs[item.output]));
    }
    item.metric->update_state(target, outputs[item.output], weight, mask);
  }
}

// Keras's list has a value for the name of each metric. If a weighted metric has the same name as another metric, whose
// value is then listed for both, its own value follows.
Results Compiled::with_repeated_names(Results results) const {
  std::vector<std::string> names;
  for (const OutputMetric& item : metrics_) names.push_back(item.metric->name());
  const auto repeated = [&](const std::string& name) { return std::ranges::count(names, name) > 1; };
  if (std::ranges::none_of(names, repeated)) return results;
  Results ordered;
  const auto take = [&](const std::string& name) {
    const auto found = std::ranges::find(results, name, [](const auto& item) { return item.first; });
    if (found != results.end()) ordered.push_back(*found);
  };
  take("loss");
  for (const std::string& name : names) take(name);
  for (const std::string& name : output_loss_names()) take(name);
  std::vector<std::pair<std::string, LogValue>> rest;
  for (const auto& item : results) {
    const auto same = [&](const auto& taken) { return taken.first == item.first; };
    if (std::ranges::none_of(ordered, same)) rest.push_back(item);
  }
  std::ranges::sort(rest, {}, [](const auto& item) { return item.first; });
  ordered.insert(ordered.end(), rest.begin(), rest.end());
  return ordered;
}

std::vector<std::string> Compiled::output_loss_names() const {
  std::vector<std::string> names;
  // Keras 2 also reports the loss of an output if the model has several outputs but only one loss.
  if (losses_.size() > 1 || (model_.keras_version() < 3 && output_names_.size() > 1)) {
    for (const OutputLoss& item : losses_) names.push_back(output_names_[item.output] + "_loss");
  }
  return names;
}

Results Compiled::results() const {
  Results results{{"loss", loss_tracker_.result()}};
  results.set_flat();
  // Outputs may share a name (a layer called twice): the last of them is reported, as in Keras's logs.
  const auto report = [&results](const std::string& name, LogValue value) {
    const auto known =
        std::find_if(results.begin(), results.end(), [&](const auto& item) { return item.first == name; });
    if (known != results.end()) {
      known->second = std::move(value);
    } else {
      results.emplace_back(name, std::move(value));
    }
  };
  {
    const std::vector<std::string> names = output_loss_names();
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < names.size(); ++i) report(names[i], output_trackers_[i].result());
  }
  const std::size_t first_metric = results.size();
  for (const OutputMetric& item : metrics_) {
    results.emplace_back(item.log_name, metric_log_value(*item.metric));
  }
  if (output_names_.size() > 1) {
    std::sort(results.begin() + static_cast<std::ptrdiff_t>(first_metric), results.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return results;
}

void Compiled::reset() {
  loss_tracker_ = {};
  saved_ = nullptr;
  for (Tracker& tracker : output_trackers_) tracker = {};
  for (const OutputMetric& item : metrics_) item.metric->reset_state();
}

Json Compiled::save_state() const {
  if (!saved_.is_null()) return saved_;
  const auto sums = [](const Tracker& tracker) { return Json{tracker.total, tracker.count}; };
  Json state{{"loss", sums(loss_tracker_)}, {"outputs", Json::array()}, {"metrics", Json::array()}};
  for (const Tracker& tracker : output_trackers_) state["outputs"].push_back(sums(tracker));
  for (const OutputMetric& item : metrics_) {
    state["metrics"].push_back(save_metric_state(*item.metric));
  }
  return state;
}

void Compiled::restore_state(const Json& state) {
  const auto tracker = [](const Json& sums) { return Tracker{sums.at(0).get<double>(), sums.at(1).get<double>()}; };
  loss_tracker_ = tracker(state.at("loss"));
  output_trackers_.clear();
  for (const Json& sums : state.at("outputs")) output_trackers_.push_back(tracker(sums));
  saved_ = state;
}

void Compiled::set_state(const Json& state) {
  restore_state(state);
  const Json saved = std::exchange(saved_, nullptr);
  const Json& metrics = saved.at("metrics");
  for (std::size_t i = 0; i < metrics_.size() && i < metrics.size(); ++i)
    restore_metric_state(*metrics_[i].metric, metrics[i]);
}

// Some metrics make their variables when they see their first batch: such a batch is taken, and then forgotten.
void Compiled::restore_metrics(const Structure& y, const Structure& y_pred, const Structure& sample_weight) {
  const Json& saved = saved_.at("metrics");
  const auto ready = [&] {
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      if (metrics_[i].metric->variables().size() != saved[i].size()) return false;
    }
    return true;
  };
  if (saved.size() != metrics_.size()) {
    throw_invalid_argument(
        fmt::format("invalid saved state of metrics: found {} metrics, expected {}: compile the model as before",
                    saved.size(), metrics_.size()));
  }
  if (!ready()) update_metrics(y, y_pred, sample_weight);
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    if (metrics_[i].metric->variables().size() == saved[i].size()) {
      restore_metric_state(*metrics_[i].metric, saved[i]);
    } else if (saved[i].empty()) {
      metrics_[i].metric->reset_state();
    }
  }
  saved_ = nullptr;
}

namespace {

// A metric of compile's `metrics`, which Keras never weights, as custom steps see it.
class UnweightedMetric : public metrics::BuiltInMetric {
 public:
  explicit UnweightedMetric(metrics::MetricPtr metric) : BuiltInMetric(metric), class_name_(metric->class_name()) {}
  std::string class_name() const override { return class_name_; }
  void update_state(const Tensor& y_true, const Tensor& y_pred, const Tensor&, const Tensor& mask) override {
    BuiltInMetric::update_state(y_true, y_pred, {}, mask);
  }

 private:
  std::string class_name_;
};

}  // namespace

std::vector<metrics::MetricPtr> Compiled::metrics() const {
  std::vector<metrics::MetricPtr> all;
  for (const OutputMetric& item : metrics_)
    all.push_back(item.weighted ? item.metric : std::make_shared<UnweightedMetric>(item.metric));
  return all;
}

}  // namespace lockstep::keras
