// Regularizers, constraints, initializers and others whose arguments are given by name too: L1L2({.l1 = 1e-5}),
// MaxNorm({.max_value = 2}). The keywords for layers are in layers/keywords.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/text_arg.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/keras/callbacks/tensor_board.h"
#include "lockstep/keras/constraints/constraints.h"
#include "lockstep/keras/initializers/initializers.h"
#include "lockstep/keras/layers/merging.h"
#include "lockstep/keras/nn.h"
#include "lockstep/keras/regularizers/regularizers.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/random/generator.h"
#include "lockstep/random/random.h"

namespace lockstep::regularizers {

struct L1Keywords {
  FieldNamesOnly names_only = {};
  double l1 = 0.01;
};
struct L2Keywords {
  FieldNamesOnly names_only = {};
  double l2 = 0.01;
};
struct L1L2Keywords {
  FieldNamesOnly names_only = {};
  double l1 = 0.0;
  double l2 = 0.0;
};
struct OrthogonalKeywords {
  FieldNamesOnly names_only = {};
  double factor = 0.01;
  std::string mode = "rows";
};
inline RegularizerPtr L1(const L1Keywords& o) { return L1(o.l1); }
inline RegularizerPtr l1(const L1Keywords& o) { return L1(o.l1); }
inline RegularizerPtr L2(const L2Keywords& o) { return L2(o.l2); }
inline RegularizerPtr l2(const L2Keywords& o) { return L2(o.l2); }
inline RegularizerPtr L1L2(const L1L2Keywords& o) { return L1L2(o.l1, o.l2); }
inline RegularizerPtr l1_l2(const L1L2Keywords& o) { return L1L2(o.l1, o.l2); }
inline RegularizerPtr OrthogonalRegularizer(const OrthogonalKeywords& o) {
  return OrthogonalRegularizer(o.factor, o.mode);
}

}  // namespace lockstep::regularizers

namespace lockstep::activations {

struct AxisKeywords {
  FieldNamesOnly names_only = {};
  int axis = -1;
};
struct ReluKeywords {
  FieldNamesOnly names_only = {};
  double negative_slope = 0.0;
  std::optional<double> max_value = std::nullopt;
  double threshold = 0.0;
};
struct SlopeKeywords {
  FieldNamesOnly names_only = {};
  double negative_slope = 0.2;
};
struct AlphaKeywords {
  FieldNamesOnly names_only = {};
  double alpha = 1.0;
};
struct GeluKeywords {
  FieldNamesOnly names_only = {};
  bool approximate = false;
};
inline Tensor softmax(const Tensor& x, const AxisKeywords& o) { return softmax(x, o.axis); }
inline Tensor log_softmax(const Tensor& x, const AxisKeywords& o) { return log_softmax(x, o.axis); }
inline Tensor sparsemax(const Tensor& x, const AxisKeywords& o) { return sparsemax(x, o.axis); }
inline Tensor glu(const Tensor& x, const AxisKeywords& o) { return glu(x, o.axis); }
inline Tensor relu(const Tensor& x, const ReluKeywords& o) {
  return relu(x, o.negative_slope, o.max_value, o.threshold);
}
inline Tensor leaky_relu(const Tensor& x, const SlopeKeywords& o) { return leaky_relu(x, o.negative_slope); }
inline Tensor elu(const Tensor& x, const AlphaKeywords& o) { return elu(x, o.alpha); }
inline Tensor celu(const Tensor& x, const AlphaKeywords& o) { return celu(x, o.alpha); }
inline Tensor gelu(const Tensor& x, const GeluKeywords& o) { return gelu(x, o.approximate); }

}  // namespace lockstep::activations

namespace lockstep::nn {

inline Tensor softmax(const Tensor& logits, const activations::AxisKeywords& o) { return softmax(logits, o.axis); }
inline Tensor log_softmax(const Tensor& logits, const activations::AxisKeywords& o) {
  return log_softmax(logits, o.axis);
}
inline Tensor gelu(const Tensor& features, const activations::GeluKeywords& o) { return gelu(features, o.approximate); }
inline Tensor swish(const Tensor& features) { return silu(features); }

}  // namespace lockstep::nn

namespace lockstep::constraints {

struct MaxNormKeywords {
  FieldNamesOnly names_only = {};
  double max_value = 2;
  Axes axis = 0;
};
struct MinMaxNormKeywords {
  FieldNamesOnly names_only = {};
  double min_value = 0.0;
  double max_value = 1.0;
  double rate = 1.0;
  Axes axis = 0;
};
inline ConstraintPtr MaxNorm(const MaxNormKeywords& o) { return MaxNorm(o.max_value, o.axis); }
inline ConstraintPtr MinMaxNorm(const MinMaxNormKeywords& o) {
  return MinMaxNorm(o.min_value, o.max_value, o.rate, o.axis);
}

}  // namespace lockstep::constraints

namespace lockstep::initializers {

struct GainKeywords {
  FieldNamesOnly names_only = {};
  double gain = 1.0;
};
struct ConstantKeywords {
  FieldNamesOnly names_only = {};
  double value = 0.0;
};
inline InitializerPtr Identity(const GainKeywords& o) { return Identity(o.gain); }
inline InitializerPtr Constant(const ConstantKeywords& o) { return Constant(o.value); }

// VarianceScaling(0.1, {.mode = "fan_avg"}).
template <std::floating_point T>
InitializerPtr VarianceScaling(T scale, VarianceScalingOptions options = {}) {
  options.scale = scale;
  return VarianceScaling(std::move(options));
}

}  // namespace lockstep::initializers

namespace lockstep::callbacks {

struct ScheduleKeywords {
  FieldNamesOnly names_only = {};
  std::function<double(int epoch, double rate)> schedule = {};
  int verbose = 0;
};
inline CallbackPtr LearningRateScheduler(const ScheduleKeywords& o) {
  return LearningRateScheduler(o.schedule, o.verbose);
}
// The first argument by position: EarlyStopping("val_loss", {.patience = 3}), TensorBoard("logs").
inline EarlyStoppingPtr EarlyStopping(const TextArg& monitor, EarlyStoppingOptions options = {}) {
  options.monitor = monitor;
  return EarlyStopping(std::move(options));
}
inline CallbackPtr ReduceLROnPlateau(const TextArg& monitor, ReduceLROnPlateauOptions options = {}) {
  options.monitor = monitor;
  return ReduceLROnPlateau(std::move(options));
}
inline CallbackPtr TensorBoard(const TextArg& log_dir, TensorBoardOptions options = {}) {
  options.log_dir = log_dir;
  return TensorBoard(std::move(options));
}

}  // namespace lockstep::callbacks

// tf.stack(list(features.values()), axis=1).
namespace lockstep::ops {

template <std::same_as<Nested<Tensor>::List> Parts>
Tensor stack(const Parts& values, const OneAxisKeywords& keywords = {}) {
  return stack(Tensors(values.begin(), values.end()), keywords);
}
template <std::same_as<Nested<Tensor>::List> Parts>
Tensor concat(const Parts& values, const OneAxisKeywords& keywords) {
  return concat(Tensors(values.begin(), values.end()), keywords);
}

}  // namespace lockstep::ops

namespace lockstep::layers {

template <std::same_as<Nested<Tensor>::List> Parts>
Tensor concatenate(const Parts& inputs, ConcatenateOptions options = {}) {
  return concatenate(Tensors(inputs.begin(), inputs.end()), -1, std::move(options));
}

}  // namespace lockstep::layers
