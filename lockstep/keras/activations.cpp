#include "lockstep/keras/activations.h"

#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layer_activation_internal.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::activations {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

class Named : public Activation {
 public:
  Named(std::string name, Function fn) : name_(std::move(name)), fn_(std::move(fn)) {}
  std::string name() const override { return name_; }
  Tensor operator()(const Tensor& x) const override { return fn_(x); }
  Json serialize() const override { return name_; }

 protected:
  std::string name_;
  Function fn_;
};

constexpr const char* kUnnamed = "<lambda>";

class Custom : public Named {
 public:
  using Named::Named;
  // A function without a name may have got one since, of a CustomObjectScope.
  Json serialize() const override {
    std::string written = name_;
    if (name_ == kUnnamed) {
      const std::string given = keras::function_name(fn_);
      if (!given.empty()) written = given;
    }
    return {{"module", "builtins"},
            {"class_name", "function"},
            {"config", std::move(written)},
            {"registered_name", "function"}};
  }
};

// Keras 1's and 2's hard_sigmoid, which files of these versions name. Keras 3 has no function for it, but takes layers
// where an activation is expected.
class HardSigmoidOfKeras2 : public Named {
 public:
  static constexpr const char* kName = "keras2_hard_sigmoid";
  HardSigmoidOfKeras2() : Named(kName, [](const Tensor& x) { return ops::clip_by_value(x * 0.2 + 0.5, 0.0, 1.0); }) {}
  Json serialize() const override {
    const auto layer = [](const char* class_name, Json config) {
      return Json{{"module", "keras.layers"},
                  {"class_name", class_name},
                  {"config", std::move(config)},
                  {"registered_name", nullptr}};
    };
    Json layers = Json::array({layer("Rescaling", {{"name", "rescaling"}, {"scale", 0.2}, {"offset", 0.5}}),
                               layer("ReLU", {{"name", "re_lu"}, {"max_value", 1.0}})});
    return layer("Pipeline", {{"layers", std::move(layers)}, {"name", kName}});
  }
};

const std::map<std::string, Function, std::less<>>& table() {
  static const std::map<std::string, Function, std::less<>> kTable = {
      {"linear", [](const Tensor& x) { return x; }},
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
      {"relu6", relu6},
      {"softmax", [](const Tensor& x) { return softmax(x); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x); }},
      {"elu", [](const Tensor& x) { return elu(x); }},
      {"selu", selu},
      {"celu", [](const Tensor& x) { return celu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"glu", [](const Tensor& x) { return glu(x); }},
      {"sigmoid", sigmoid},
      {"log_sigmoid", log_sigmoid},
      {"hard_sigmoid", hard_sigmoid},
      {"silu", silu},
      {"hard_silu", hard_silu},
      {"hard_tanh", hard_tanh},
      {"hard_shrink", [](const Tensor& x) { return hard_shrink(x); }},
      {"soft_shrink", [](const Tensor& x) { return soft_shrink(x); }},
      {"tanh_shrink", tanh_shrink},
      {"mish", mish},
      {"squareplus", [](const Tensor& x) { return squareplus(x); }},
      {"sparse_plus", sparse_plus},
      {"sparse_sigmoid", sparse_sigmoid},
      {"sparsemax", [](const Tensor& x) { return sparsemax(x); }},
      {"exponential", exponential},
      {"softplus", softplus},
      {"softsign", softsign},
      {"tanh", tanh},
  };
  return kTable;
}

ActivationPtr by_name(std::string name) {
  if (name == "swish") name = "silu";
  if (name == "hard_swish") name = "hard_silu";
  if (name == HardSigmoidOfKeras2::kName) return std::make_shared<HardSigmoidOfKeras2>();
  const auto it = table().find(name);
  if (it != table().end()) return std::make_shared<Named>(it->first, it->second);
  if (Function function = keras::function_named<Activation::KerasFunction>(name))
    return custom(name, std::move(function));
  std::vector<std::string> known;
  for (const auto& [key, fn] : table()) known.push_back(key);
  keras::throw_unknown_object("activation", name, known);
}

Tensor zeros(const Tensor& x) { return ops::zeros_like(x); }
Tensor as_floating(const Tensor& x) { return is_floating(x.dtype()) ? x : ops::cast(x, DType::kFloat32); }

}  // namespace

ActivationPtr get(const ActivationArg& identifier) {
  if (identifier.empty()) return by_name("linear");
  if (auto object = identifier.object()) return object;
  if (const std::string* name = identifier.name()) return by_name(*name);
  const auto object = keras::parse_object_config(*identifier.config());
  if (!object) throw_invalid_argument(fmt::format("{} is not an activation", dump_json(*identifier.config())));
  if (object->class_name == "function") {
    if (object->config.is_string()) return by_name(object->config.get<std::string>());
    throw_invalid_argument(fmt::format("{} is not an activation function", dump_json(*identifier.config())));
  }
  if (is_hard_sigmoid_of_keras2(*identifier.config())) return std::make_shared<HardSigmoidOfKeras2>();
  return layer_as_activation(*identifier.config());
}

bool is_hard_sigmoid_of_keras2(const Json& object) {
  const auto is_layer = [](const Json& json, const char* class_name) {
    return json.is_object() && json.value("class_name", Json()) == Json(class_name) && json.contains("config") &&
           json["config"].is_object();
  };
  if (!is_layer(object, "Pipeline")) return false;
  const Json layers = object["config"].value("layers", Json());
  if (!layers.is_array() || layers.size() != 2) return false;
  if (!is_layer(layers[0], "Rescaling") || !is_layer(layers[1], "ReLU")) return false;
  const Json &scaling = layers[0]["config"], &bounds = layers[1]["config"];
  return scaling.value("scale", Json()) == Json(0.2) && scaling.value("offset", Json()) == Json(0.5) &&
         bounds.value("max_value", Json()) == Json(1.0) && bounds.value("negative_slope", Json(0.0)) == Json(0.0) &&
         bounds.value("threshold", Json(0.0)) == Json(0.0);
}

Json serialize(const ActivationPtr& activation) { return activation ? activation->serialize() : Json("linear"); }
bool is_linear(const ActivationPtr& activation) { return !activation || activation->name() == "linear"; }

std::shared_ptr<Activation> Activation::of_function(std::function<KerasFunction> function) {
  using Pointer = KerasFunction*;
  static const std::pair<Pointer, const char*> kNamed[] = {
      {activations::relu, "relu"},
      {ops::relu, "relu"},
      {activations::leaky_relu, "leaky_relu"},
      {activations::relu6, "relu6"},
      {ops::relu6, "relu6"},
      {activations::softmax, "softmax"},
      {activations::log_softmax, "log_softmax"},
      {activations::elu, "elu"},
      {ops::elu, "elu"},
      {activations::selu, "selu"},
      {ops::selu, "selu"},
      {activations::celu, "celu"},
      {activations::gelu, "gelu"},
      {activations::glu, "glu"},
      {activations::sigmoid, "sigmoid"},
      {ops::sigmoid, "sigmoid"},
      {activations::log_sigmoid, "log_sigmoid"},
      {activations::hard_sigmoid, "hard_sigmoid"},
      {activations::silu, "silu"},
      {activations::hard_silu, "hard_silu"},
      {activations::hard_tanh, "hard_tanh"},
      {activations::hard_shrink, "hard_shrink"},
      {activations::soft_shrink, "soft_shrink"},
      {activations::tanh_shrink, "tanh_shrink"},
      {activations::mish, "mish"},
      {activations::squareplus, "squareplus"},
      {activations::sparse_plus, "sparse_plus"},
      {activations::sparse_sigmoid, "sparse_sigmoid"},
      {activations::sparsemax, "sparsemax"},
      {activations::exponential, "exponential"},
      {activations::softplus, "softplus"},
      {ops::softplus, "softplus"},
      {activations::softsign, "softsign"},
      {ops::softsign, "softsign"},
      {activations::tanh, "tanh"},
      {ops::tanh, "tanh"},
  };
  if (const Pointer* const pointer = function.target<Pointer>()) {
    for (const auto& [known, name] : kNamed) {
      if (*pointer == known) return by_name(name);
    }
  }
  const std::string registered = keras::function_name(function);
  return custom(registered.empty() ? kUnnamed : registered, std::move(function));
}

ActivationPtr custom(std::string name, Function fn) { return std::make_shared<Custom>(std::move(name), std::move(fn)); }

// Not inline: functions given as activations are recognized by their address.
Tensor relu(const Tensor& x) { return relu(x, 0.0); }
Tensor leaky_relu(const Tensor& x) { return leaky_relu(x, 0.2); }
Tensor softmax(const Tensor& x) { return softmax(x, -1); }
Tensor log_softmax(const Tensor& x) { return log_softmax(x, -1); }
Tensor elu(const Tensor& x) { return elu(x, 1.0); }
Tensor celu(const Tensor& x) { return celu(x, 1.0); }
Tensor gelu(const Tensor& x) { return gelu(x, false); }
Tensor glu(const Tensor& x) { return glu(x, -1); }
Tensor hard_shrink(const Tensor& x) { return hard_shrink(x, 0.5); }
Tensor soft_shrink(const Tensor& x) { return soft_shrink(x, 0.5); }
Tensor squareplus(const Tensor& x) { return squareplus(x, 4); }
Tensor sparsemax(const Tensor& x) { return sparsemax(x, -1); }

Tensor relu(const Tensor& x, double negative_slope, std::optional<double> max_value, double threshold) {
  if (negative_slope != 0.0) {
    if (!max_value && threshold == 0) return leaky_relu(x, negative_slope);
    Tensor negative = ops::relu(threshold != 0 ? ops::neg(x) + threshold : ops::neg(x));
    Tensor positive = threshold != 0 ? x * ops::cast(ops::greater(x, threshold), x.dtype()) : ops::relu(x);
    if (max_value) positive = ops::minimum(positive, *max_value);
    return positive - negative * negative_slope;
  }
  Tensor y = threshold != 0 ? x * ops::cast(ops::greater(as_floating(x), threshold), x.dtype())
                            : (max_value && *max_value == 6 ? relu6(x) : ops::relu(x));
  if (max_value && !(threshold == 0 && *max_value == 6)) y = ops::clip_by_value(y, 0.0, *max_value);
  return y;
}

Tensor leaky_relu(const Tensor& x, double negative_slope) { return ops::leaky_relu(as_floating(x), negative_slope); }
Tensor relu6(const Tensor& x) {
  if (auto fused = ops::try_unary("relu6", x)) return *fused;
  return ops::relu6(x);
}

Tensor softmax(const Tensor& x, int axis) {
  Tensor y = ops::softmax(x, axis);
  y.set_logits(x);
  return y;
}

Tensor log_softmax(const Tensor& x, int axis) { return ops::log_softmax(x, axis); }

Tensor elu(const Tensor& x, double alpha) {
  Tensor y = ops::elu(x);
  return alpha == 1.0 ? y : ops::where(ops::greater(x, 0.0), y, y * alpha);
}

Tensor selu(const Tensor& x) { return ops::selu(x); }

Tensor celu(const Tensor& x, double alpha) {
  return ops::maximum(x, 0.0) + ops::minimum(ops::expm1(x / alpha) * alpha, 0.0);
}

Tensor gelu(const Tensor& x, bool approximate) {
  if (auto fused = ops::try_unary(approximate ? "gelu_tanh" : "gelu", x)) return *fused;
  if (approximate) {
    return x * 0.5 * (ops::tanh((x + ops::pow(x, 3.0) * 0.044715) * 0.7978845608028654) + 1.0);
  }
  return x * 0.5 * (ops::erf(x / 1.4142135623730951) + 1.0);
}

Tensor glu(const Tensor& x, int axis) {
  const Tensors halves = ops::split(x, 2, axis);
  return halves[0] * ops::sigmoid(halves[1]);
}

Tensor sigmoid(const Tensor& x) {
  Tensor y = ops::sigmoid(x);
  y.set_logits(x);
  return y;
}

Tensor log_sigmoid(const Tensor& x) { return ops::neg(ops::softplus(ops::neg(x))); }
Tensor hard_sigmoid(const Tensor& x) {
  if (auto fused = ops::try_unary("hard_sigmoid", x)) return *fused;
  return ops::relu6(x + 3.0) / 6.0;
}
Tensor silu(const Tensor& x) {
  if (auto fused = ops::try_unary("silu", x)) return *fused;
  return x * ops::sigmoid(x);
}
Tensor hard_silu(const Tensor& x) {
  if (auto fused = ops::try_unary("hard_silu", x)) return *fused;
  return x * hard_sigmoid(x);
}
Tensor hard_tanh(const Tensor& x) { return ops::clip_by_value(x, -1.0, 1.0); }
Tensor hard_shrink(const Tensor& x, double threshold) {
  return ops::where(ops::greater(ops::abs(x), threshold), x, zeros(x));
}
Tensor soft_shrink(const Tensor& x, double threshold) {
  return ops::where(ops::greater(x, threshold), x - threshold,
                    ops::where(ops::less(x, -threshold), x + threshold, zeros(x)));
}
Tensor tanh_shrink(const Tensor& x) { return x - ops::tanh(x); }
Tensor threshold(const Tensor& x, double threshold, double default_value) {
  return ops::where(ops::greater(x, threshold), x, zeros(x) + default_value);
}
Tensor mish(const Tensor& x) { return x * ops::tanh(ops::softplus(x)); }
Tensor squareplus(const Tensor& x, double b) { return (x + ops::sqrt(ops::square(x) + b)) / 2.0; }

Tensor sparse_plus(const Tensor& x) {
  return ops::where(ops::less_equal(x, -1.0), zeros(x), ops::where(ops::less(x, 1.0), ops::square(x + 1.0) * 0.25, x));
}

Tensor sparse_sigmoid(const Tensor& x) {
  return ops::where(ops::less_equal(x, -1.0), zeros(x),
                    ops::where(ops::greater_equal(x, 1.0), ops::ones_like(x), (x + 1.0) * 0.5));
}

Tensor sparsemax(const Tensor& x, int axis) {
  const Tensor sorted = ops::sort(x, axis, true);
  const Tensor sums = ops::cumsum(sorted, axis);
  const int at = axis < 0 ? axis + x.rank() : axis;
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.rank()), 1);
  shape[static_cast<std::size_t>(at)] = -1;
  const Tensor rank = ops::reshape(
      ops::cast(ops::range(ops::constant(1, DType::kInt32), ops::dim_of(x, at) + 1.0, ops::constant(1, DType::kInt32)),
                x.dtype()),
      shape);
  const Tensor support = ops::greater(sorted * rank - sums + 1.0, 0.0);
  const Tensor count = ops::reduce_sum(ops::cast(support, x.dtype()), ops::Ints{at}, true);
  // Keras adds up the running sums of the support, not its values, so what it gives does not always add up to one.
  const Tensor total = ops::reduce_sum(ops::where(support, sums, zeros(sums)), ops::Ints{at}, true);
  return ops::maximum(x - (total - 1.0) / count, 0.0);
}

Tensor exponential(const Tensor& x) { return ops::exp(x); }
Tensor softplus(const Tensor& x) { return ops::softplus(x); }
Tensor softsign(const Tensor& x) { return ops::softsign(x); }
Tensor tanh(const Tensor& x) { return ops::tanh(x); }

}  // namespace lockstep::activations
