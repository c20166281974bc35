// The arguments of Model.compile and their form in files (compile_config).
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/keras/losses/loss.h"
#include "lockstep/keras/metrics/metric.h"
#include "lockstep/keras/optimizers/optimizer.h"
#include "lockstep/tensor/none.h"

namespace lockstep::keras {

// One argument, a list of arguments (one for each output) or a dict of them by output name: {{"label", "mse"},
// {"score", "mae"}}. An empty argument stands for None.
template <typename Arg>
class ArgTree {
 public:
  ArgTree() = default;
  ArgTree(NoneType) {}
  ArgTree(std::nullopt_t) {}
  template <typename U>
  requires(std::is_convertible_v<U, Arg> && !std::is_same_v<std::remove_cvref_t<U>, ArgTree> &&
           !std::is_same_v<std::remove_cvref_t<U>, Json>) ArgTree(U&& leaf)
      : leaf_(std::forward<U>(leaf)) {}
  // Also one of several overloads: .loss = losses::binary_crossentropy.
  template <typename A = Arg>
  ArgTree(typename A::FunctionPointer function) : leaf_(function) {}
  ArgTree(std::initializer_list<ArgTree> items) : kind_(Kind::kList), items_(items) {}
  ArgTree(std::vector<ArgTree> items) : kind_(Kind::kList), items_(std::move(items)) {}
  template <std::convertible_to<Arg> U>
  ArgTree(const std::vector<U>& items) : ArgTree(std::vector<ArgTree>(items.begin(), items.end())) {}
  static ArgTree dict(std::vector<std::pair<std::string, ArgTree>> entries);
  // A string, an object with "class_name", an array, an object of output names, or null. `key` names the argument in
  // errors.
  static ArgTree from_config(const Json& config, const char* key);

  bool is_leaf() const { return kind_ == Kind::kLeaf; }
  bool is_list() const { return kind_ == Kind::kList; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool empty() const { return is_leaf() ? leaf_.empty() : items_.empty(); }
  const Arg& leaf() const { return leaf_; }
  const std::vector<ArgTree>& items() const { return items_; }
  const std::vector<std::string>& names() const { return names_; }  // of a dict, parallel to items()
  // The same tree, where a list of pairs whose first parts are names of outputs is the dict that such pairs are in
  // braces:
  // {{"label", "mse"}, {"score", "mae"}}.
  ArgTree with_output_names(const std::vector<std::string>& outputs) const;
  const ArgTree* find(const std::string& name) const;
  // Strings stay strings, Keras 3's configs configs; objects, and configs of Keras 1 and 2, are written by `serialize`.
  Json to_config(const std::function<Json(const Arg&)>& serialize) const;

 private:
  enum class Kind { kLeaf, kList, kDict };
  Kind kind_ = Kind::kLeaf;
  Arg leaf_;
  std::vector<ArgTree> items_;
  std::vector<std::string> names_;
};

using LossTree = ArgTree<losses::LossArg>;
using MetricTree = ArgTree<metrics::MetricArg>;

// Keras's keyword arguments with its defaults.
struct CompileOptions {
  optimizers::OptimizerArg optimizer = "rmsprop";
  LossTree loss = {};                // empty: the model's own losses only
  Json loss_weights = nullptr;       // null, a list, or a dict by output name
  MetricTree metrics = {};           // never weighted
  MetricTree weighted_metrics = {};  // weighted by sample_weight
  bool run_eagerly = false;
  std::int64_t steps_per_execution = 1;
  Json jit_compile = "auto";  // there is no XLA here: "auto" and false are the same
  bool auto_scale_loss = true;

  // Converts lists of pairs in braces to dicts where their keys are these outputs.
  void name_outputs(const std::vector<std::string>& outputs);
};

// Throws InvalidArgument for anything but a number, null, or a list or dict of these.
void check_loss_weights(const Json& weights);

// The compile_config of a file, keys in Keras 3.15's order. `optimizer` is the object in use.
Json compile_config(const CompileOptions& options, const optimizers::OptimizerPtr& optimizer);
// The inverse; reads Keras 3's compile_config and Keras 1 and 2's training_config (optimizer_config,
// loss, metrics, loss_weights, sample_weight_mode). Throws InvalidArgument for unknown keys.
CompileOptions parse_compile_config(const Json& config);

}  // namespace lockstep::keras
