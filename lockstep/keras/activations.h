// keras.activations: functions of a tensor, and how layers name them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/keras/handle.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::activations {

// The activation of a layer: a function of this header, a custom function, or a layer.
class Activation {
 public:
  // A function of this page, or of the same name of ops, is what its name stands for; another one is written as a
  // custom function "<lambda>".
  using KerasFunction = Tensor(const Tensor&);
  static std::shared_ptr<Activation> of_function(std::function<KerasFunction> function);
  virtual ~Activation() = default;
  virtual std::string name() const = 0;
  virtual Tensor operator()(const Tensor& x) const = 0;
  // The value in the layer's config: the name, or an object.
  virtual Json serialize() const = 0;
  // The layer behind it, when it is one (keras::Layer as void, to keep this page below layers).
  virtual std::shared_ptr<void> layer() const { return nullptr; }
};

// A handle of an activation: activation(x).
class ActivationPtr : public keras::Handle<Activation> {
 public:
  using Handle::Handle;
  Tensor operator()(const Tensor& x) const { return object()(x); }
  std::string name() const { return object().name(); }
};
using ActivationArg = keras::ObjectArg<Activation>;

// From "relu", "swish" (which is "silu"), a config or an object; nothing is "linear". Throws
// InvalidArgument for an unknown name, with the nearest known one.
ActivationPtr get(const ActivationArg& identifier);
Json serialize(const ActivationPtr& activation);
bool is_linear(const ActivationPtr& activation);
// A user-defined function; it is written as a custom function of this name.
ActivationPtr custom(std::string name, std::function<Tensor(const Tensor&)> fn);

// Formulas: Keras 3.15. Softmax and sigmoid note their input as the result's logits(). Each can be a layer's
// activation: .activation = activations::relu.
Tensor relu(const Tensor& x, double negative_slope, std::optional<double> max_value = std::nullopt,
            double threshold = 0.0);
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope);
Tensor leaky_relu(const Tensor& x);
Tensor relu6(const Tensor& x);
Tensor softmax(const Tensor& x, int axis);
Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x, int axis);
Tensor log_softmax(const Tensor& x);
Tensor elu(const Tensor& x, double alpha);
Tensor elu(const Tensor& x);
Tensor selu(const Tensor& x);
Tensor celu(const Tensor& x, double alpha);
Tensor celu(const Tensor& x);
Tensor gelu(const Tensor& x, bool approximate);
Tensor gelu(const Tensor& x);
Tensor glu(const Tensor& x, int axis);
Tensor glu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor log_sigmoid(const Tensor& x);
Tensor hard_sigmoid(const Tensor& x);  // relu6(x + 3) / 6
Tensor silu(const Tensor& x);          // x · sigmoid(x)
inline Tensor swish(const Tensor& x) { return silu(x); }
Tensor hard_silu(const Tensor& x);  // x · hard_sigmoid(x)
inline Tensor hard_swish(const Tensor& x) { return hard_silu(x); }
inline Tensor linear(const Tensor& x) { return x; }
Tensor hard_tanh(const Tensor& x);                      // clip(x, -1, 1)
Tensor hard_shrink(const Tensor& x, double threshold);  // x where |x| > threshold, else 0
Tensor hard_shrink(const Tensor& x);
Tensor soft_shrink(const Tensor& x, double threshold);  // sign(x) · max(|x| - threshold, 0)
Tensor soft_shrink(const Tensor& x);
Tensor tanh_shrink(const Tensor& x);  // x - tanh(x)
Tensor threshold(const Tensor& x, double threshold, double default_value);
Tensor mish(const Tensor& x);                  // x · tanh(softplus(x))
Tensor squareplus(const Tensor& x, double b);  // (x + √(x² + b)) / 2
Tensor squareplus(const Tensor& x);
Tensor sparse_plus(const Tensor& x);
Tensor sparse_sigmoid(const Tensor& x);
Tensor sparsemax(const Tensor& x, int axis);
Tensor sparsemax(const Tensor& x);
Tensor exponential(const Tensor& x);
Tensor softplus(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor tanh(const Tensor& x);

}  // namespace lockstep::activations
