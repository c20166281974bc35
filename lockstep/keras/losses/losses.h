// keras.losses: the losses themselves, and the functions that give per-sample values.
//
// Options carry Keras's keyword names and defaults. y_true and y_pred are (batch, …); the average is
// over the last axis unless `axis` is set (None: over all). Probabilities are clipped to [1e-7, 1 - 1e-7].
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/losses/loss.h"
#include "lockstep/tensor/axes.h"
#include "lockstep/tensor/optional_list.h"

namespace lockstep::losses {

// "sum_over_batch_size", "sum", "mean", "mean_with_sample_weight" or "none", which is also None: std::nullopt.
class ReductionArg : public std::string {
 public:
  ReductionArg(const char* name) : std::string(name) {}
  ReductionArg(std::string name) : std::string(std::move(name)) {}
  ReductionArg(std::nullopt_t) : std::string("none") {}
  ReductionArg(std::nullptr_t) : std::string("none") {}
};
#define LOCKSTEP_REDUCTION ReductionArg reduction = "sum_over_batch_size"

struct LossOptions {
  LOCKSTEP_REDUCTION;
  std::string name = {};  // default: the class's own name
};
struct BinaryCrossentropyOptions {
  bool from_logits = false;
  double label_smoothing = 0.0;
  ops::Axes axis = -1;
  LOCKSTEP_REDUCTION;
  std::string name = {};
};
using CategoricalCrossentropyOptions = BinaryCrossentropyOptions;
struct SparseCategoricalCrossentropyOptions {
  bool from_logits = false;
  std::optional<std::int64_t> ignore_class = std::nullopt;
  LOCKSTEP_REDUCTION;
  int axis = -1;
  std::string name = {};
};
struct BinaryFocalCrossentropyOptions {
  bool apply_class_balancing = false;
  double alpha = 0.25;
  double gamma = 2.0;
  bool from_logits = false;
  double label_smoothing = 0.0;
  ops::Axes axis = -1;
  LOCKSTEP_REDUCTION;
  std::string name = {};
};
// A number for all classes, or one for each.
struct ClassFactors {
  ClassFactors(double all) : values{all} {}
  ClassFactors(std::initializer_list<double> each) : values(each) {}
  ClassFactors(std::vector<double> each) : values(std::move(each)) {}
  std::vector<double> values;
};
struct CategoricalFocalCrossentropyOptions {
  ClassFactors alpha = 0.25;
  double gamma = 2.0;
  bool from_logits = false;
  double label_smoothing = 0.0;
  ops::Axes axis = -1;
  LOCKSTEP_REDUCTION;
  std::string name = {};
};
struct HuberOptions {
  double delta = 1.0;
  LOCKSTEP_REDUCTION;
  std::string name = {};
};
struct CosineSimilarityOptions {
  ops::Axes axis = -1;
  LOCKSTEP_REDUCTION;
  std::string name = {};
};
struct DiceOptions {
  LOCKSTEP_REDUCTION;
  std::string name = {};
  OptionalList<std::int64_t> axis = std::nullopt;  // none: all axes, one scalar
};
struct TverskyOptions {
  double alpha = 0.5;
  double beta = 0.5;
  LOCKSTEP_REDUCTION;
  std::string name = {};
  OptionalList<std::int64_t> axis = std::nullopt;
};
struct CategoricalGeneralizedCrossEntropyOptions {
  double q = 0.5;
  LOCKSTEP_REDUCTION;
  std::string name = {};
};
struct CircleOptions {
  double gamma = 80.0;
  double margin = 0.4;
  bool remove_diagonal = true;
  LOCKSTEP_REDUCTION;
  std::string name = {};
};
#undef LOCKSTEP_REDUCTION

LossPtr MeanSquaredError(LossOptions options = {});
LossPtr MeanAbsoluteError(LossOptions options = {});
LossPtr MeanAbsolutePercentageError(LossOptions options = {});
LossPtr MeanSquaredLogarithmicError(LossOptions options = {});
LossPtr CosineSimilarity(CosineSimilarityOptions options = {});
LossPtr Huber(HuberOptions options = {});
LossPtr LogCosh(LossOptions options = {});
LossPtr Hinge(LossOptions options = {});
LossPtr SquaredHinge(LossOptions options = {});
LossPtr CategoricalHinge(LossOptions options = {});
LossPtr KLDivergence(LossOptions options = {});
LossPtr Poisson(LossOptions options = {});
LossPtr BinaryCrossentropy(BinaryCrossentropyOptions options = {});
LossPtr BinaryFocalCrossentropy(BinaryFocalCrossentropyOptions options = {});
LossPtr CategoricalCrossentropy(CategoricalCrossentropyOptions options = {});
LossPtr CategoricalFocalCrossentropy(CategoricalFocalCrossentropyOptions options = {});
LossPtr CategoricalGeneralizedCrossEntropy(CategoricalGeneralizedCrossEntropyOptions options = {});
LossPtr SparseCategoricalCrossentropy(SparseCategoricalCrossentropyOptions options = {});
LossPtr Dice(DiceOptions options = {});
LossPtr Tversky(TverskyOptions options = {});
LossPtr Circle(CircleOptions options = {});

Tensor mean_squared_error(const Tensor& y_true, const Tensor& y_pred);
Tensor mean_absolute_error(const Tensor& y_true, const Tensor& y_pred);
Tensor mean_absolute_percentage_error(const Tensor& y_true, const Tensor& y_pred);
Tensor mean_squared_logarithmic_error(const Tensor& y_true, const Tensor& y_pred);
Tensor cosine_similarity(const Tensor& y_true, const Tensor& y_pred, const ops::Axes& axis);
Tensor huber(const Tensor& y_true, const Tensor& y_pred, double delta);
Tensor log_cosh(const Tensor& y_true, const Tensor& y_pred);
Tensor hinge(const Tensor& y_true, const Tensor& y_pred);
Tensor squared_hinge(const Tensor& y_true, const Tensor& y_pred);
Tensor categorical_hinge(const Tensor& y_true, const Tensor& y_pred);
Tensor kl_divergence(const Tensor& y_true, const Tensor& y_pred);
Tensor poisson(const Tensor& y_true, const Tensor& y_pred);
// Of each element; the others are means over an axis. As Keras's, of the logits if y_pred comes from sigmoid or
// softmax.
Tensor elementwise_binary_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool from_logits = false);
Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool from_logits, double label_smoothing = 0.0,
                           const ops::Axes& axis = -1);
Tensor binary_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool apply_class_balancing,
                                 double alpha = 0.25, double gamma = 2.0, bool from_logits = false,
                                 double label_smoothing = 0.0, const ops::Axes& axis = -1);
Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool from_logits,
                                double label_smoothing = 0.0, const ops::Axes& axis = -1);
// The keyword arguments of the functions above.
struct CrossentropyKeywords {
  FieldNamesOnly names_only = {};
  bool from_logits = false;
  double label_smoothing = 0.0;
  ops::Axes axis = -1;
};
inline Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred, const CrossentropyKeywords& o) {
  return binary_crossentropy(y_true, y_pred, o.from_logits, o.label_smoothing, o.axis);
}
inline Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred, const CrossentropyKeywords& o) {
  return categorical_crossentropy(y_true, y_pred, o.from_logits, o.label_smoothing, o.axis);
}
Tensor categorical_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred, const ClassFactors& alpha,
                                      double gamma = 2.0, bool from_logits = false, double label_smoothing = 0.0,
                                      const ops::Axes& axis = -1);
Tensor categorical_generalized_cross_entropy(const Tensor& y_true, const Tensor& y_pred, double q);
// Labels are integers (any dtype); entries equal to ignore_class give 0.
Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred, bool from_logits,
                                       std::optional<std::int64_t> ignore_class = std::nullopt, int axis = -1);
struct SparseCrossentropyKeywords {
  FieldNamesOnly names_only = {};
  bool from_logits = false;
  std::optional<std::int64_t> ignore_class = std::nullopt;
  int axis = -1;
};
inline Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred,
                                              const SparseCrossentropyKeywords& o) {
  return sparse_categorical_crossentropy(y_true, y_pred, o.from_logits, o.ignore_class, o.axis);
}
Tensor dice(const Tensor& y_true, const Tensor& y_pred, const std::optional<std::vector<std::int64_t>>& axis);
Tensor tversky(const Tensor& y_true, const Tensor& y_pred, double alpha, double beta = 0.5,
               const std::optional<std::vector<std::int64_t>>& axis = {});
Tensor circle(const Tensor& y_true, const Tensor& y_pred, bool remove_diagonal, double gamma = 80.0,
              double margin = 0.4);

// With the defaults of Keras: binary_crossentropy(y, p), and where a function is given: .loss = binary_crossentropy.
Tensor cosine_similarity(const Tensor& y_true, const Tensor& y_pred);                // axis -1
Tensor huber(const Tensor& y_true, const Tensor& y_pred);                            // delta 1
Tensor binary_crossentropy(const Tensor& y_true, const Tensor& y_pred);              // of probabilities
Tensor binary_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred);        // alpha 0.25, gamma 2
Tensor categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred);         // of probabilities
Tensor categorical_focal_crossentropy(const Tensor& y_true, const Tensor& y_pred);   // alpha 0.25, gamma 2
Tensor sparse_categorical_crossentropy(const Tensor& y_true, const Tensor& y_pred);  // of probabilities
Tensor dice(const Tensor& y_true, const Tensor& y_pred);                             // over all axes
Tensor tversky(const Tensor& y_true, const Tensor& y_pred);                          // alpha and beta 0.5
Tensor circle(const Tensor& y_true, const Tensor& y_pred);                           // gamma 80, margin 0.4

}  // namespace lockstep::losses
