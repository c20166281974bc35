// keras.losses.Loss: from per-sample values to one number.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/handle.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::losses {

enum class Reduction { kNone, kSum, kSumOverBatchSize, kMean, kMeanWithSampleWeight };
// "sum_over_batch_size", "mean", "sum", "none" (also ""), "mean_with_sample_weight", Keras 2's "auto".
// Throws InvalidArgument for another word.
Reduction parse_reduction(std::string_view text);
std::string_view reduction_name(Reduction reduction);

// A loss before its division. Replicas add both parts and get exactly the loss of one replica with the whole batch.
struct Reduced {
  Tensor weighted_sum;    // differentiable; for kNone the weighted values themselves
  Tensor denominator;     // undefined for kNone and kSum, which divide by nothing
  bool averages = false;  // a mean over values, which the replicas of a strategy share
  double per_row = 0;     // positive: the denominator is this times the number of rows, for any rows of the batch
};

class LossPtr;

//   const auto loss_fn = losses::MeanSquaredError();
//   Tensor loss = loss_fn(y_true, y_pred);
class Loss {
 public:
  using KerasFamily = Loss;
  // Per-sample values of (y_true, y_pred).
  using KerasFunction = Tensor(const Tensor&, const Tensor&);
  static LossPtr of_function(std::function<KerasFunction> function);
  virtual ~Loss();
  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  std::string name() const;
  Reduction reduction() const { return reduction_; }

  // Per-sample values, (batch, …) without the axis the loss averages itself, or a scalar.
  virtual Tensor call(const Tensor& y_true, const Tensor& y_pred) const = 0;

  // Values × sample_weight × mask, reduced. sample_weight may have one trailing axis more or less than the
  // values. mask is the mask of y_pred. call() gets y_true and y_pred as float32. Differentiable with respect to
  // y_pred. Throws InvalidArgument for shapes that do not fit.
  // Inside a strategy's scope or run() a mean is divided by num_replicas_in_sync, as in Keras 3: the sum of the
  // replicas' losses is the loss of the global batch. reduce() does not do that.
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                    const Tensor& mask = {}) const;
  Reduced reduce(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                 const Tensor& mask = {}) const;
  // weighted_sum / denominator, 0 where the denominator is 0.
  static Tensor finish(const Reduced& parts);

  // Whether a value depends on several rows of the batch, so that replicas need all of them; `rank` is y_pred's.
  virtual bool mixes_rows(int) const { return false; }
  // Whether all rows of the batch are known to give equally many values. Not known for custom losses.
  virtual bool keeps_rows(int) const { return false; }

  // {"name", "reduction", …} as Keras 3.15 writes it.
  virtual Json get_config() const;

 protected:
  struct Options {
    FieldNamesOnly names_only = {};
    std::string name = {};  // default: the class's in snake case
    std::string_view reduction = "sum_over_batch_size";
  };
  Loss() : Loss(Options{}) {}
  explicit Loss(const Options& options) : name_(options.name), reduction_(parse_reduction(options.reduction)) {}
  // A template, because GCC would take {.reduction = "none"} for a name.
  template <std::convertible_to<std::string> Name>
  explicit Loss(Name&& name, std::string_view reduction = "sum_over_batch_size")
      : Loss(Options{{}, std::forward<Name>(name), reduction}) {}
  // The values that count, in addition to the mask of y_pred (ignore_class); undefined: all.
  virtual Tensor valid_mask(const Tensor& y_true, const Tensor& y_pred, const Tensor& values) const;

 private:
  friend class BuiltInLoss;
  friend LossPtr deserialize(const Json& config);
  void set_base_config(const Json& config);

  std::string name_;
  Reduction reduction_;
};

// A handle of a loss, which functions return and take.
class LossPtr : public keras::Handle<Loss> {
 public:
  using Handle::Handle;
  Tensor operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight = {},
                    const Tensor& mask = {}) const {
    return object()(y_true, y_pred, sample_weight, mask);
  }
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const { return object().call(y_true, y_pred); }
  std::string name() const { return object().name(); }
  Reduction reduction() const { return object().reduction(); }
  Json get_config() const { return object().get_config(); }
};
using LossArg = keras::ObjectArg<Loss>;
using LossFunction = std::function<Loss::KerasFunction>;

// From "mse", "sparse_categorical_crossentropy", "MeanSquaredError", …, a config, or an object; null for
// nothing. A function's name gives that function with the default reduction.
LossPtr get(const LossArg& identifier);
LossPtr deserialize(const Json& config);
Json serialize(const LossPtr& loss);
// Of an object of a user-defined class.
template <std::derived_from<Loss> T>
Json serialize(const T& object) {
  return serialize(LossPtr(std::shared_ptr<Loss>(std::shared_ptr<Loss>(), const_cast<T*>(&object))));
}
// A custom loss from a function. compile takes functions as they are.
LossPtr from_function(LossFunction function, std::string name, std::string_view reduction = "sum_over_batch_size");

// The loss function of that name with its default arguments; empty for an unknown name.
LossFunction find_function(std::string_view name);

// Keras's rule for two tensors whose ranks differ by one: a trailing axis of 1 is removed, or added to the
// one of rank 1.
std::pair<Tensor, Tensor> squeeze_or_expand_to_same_rank(Tensor a, Tensor b, bool expand_rank_1 = true);

}  // namespace lockstep::losses
