// keras.ops.nn: activations, losses and normalizations
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/activations.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/keras/losses/losses.h"

namespace lockstep::keras::tensor_ops {
namespace {

struct WithNumber {
  const char* class_name;
  const char* key;
  double otherwise;
  Tensor (*fn)(const Tensor&, double);
};

double epsilon_of(const Json& config) {
  const Json given = get(config, "epsilon");
  return given.is_null() ? backend::epsilon() : given.get<double>();
}

// With its logits: Keras computes losses of the outputs of sigmoid and softmax from the inputs of these functions.
Tensor output_of(const CallArguments& call) {
  const Tensor output = tensor_operand(call, 1, "output");
  return is_floating(output.dtype()) ? output : ops::cast(output, DType::kFloat32);
}
std::pair<Tensor, Tensor> target_and_output(const CallArguments& call) {
  return {floating_operand(call, 0, "target"), output_of(call)};
}

}  // namespace

void add_nn(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.nn", std::move(run)}; };
  for (const auto& [class_name, activation] : {std::pair{"Relu", "relu"},
                                               {"Relu6", "relu6"},
                                               {"Sigmoid", "sigmoid"},
                                               {"Softplus", "softplus"},
                                               {"Softsign", "softsign"},
                                               {"Silu", "silu"},
                                               {"LogSigmoid", "log_sigmoid"},
                                               {"HardSigmoid", "hard_sigmoid"},
                                               {"HardSilu", "hard_silu"},
                                               {"Selu", "selu"},
                                               {"HardTanh", "hard_tanh"},
                                               {"TanhShrink", "tanh_shrink"}}) {
    row(class_name, [name = std::string(activation)](const CallArguments& call, const Json&) {
      return Structure((*activations::get(activations::ActivationArg(name)))(tensor_operand(call)));
    });
  }
  row("LeakyRelu", [](const CallArguments& call, const Json& config) {
    return Structure(activations::leaky_relu(floating_operand(call), get(config, "negative_slope", 0.2).get<double>()));
  });
  row("Elu", [](const CallArguments& call, const Json& config) {
    return Structure(activations::elu(tensor_operand(call), get(config, "alpha", 1.0).get<double>()));
  });
  row("Gelu", [](const CallArguments& call, const Json& config) {
    return Structure(activations::gelu(tensor_operand(call), get(config, "approximate", true).get<bool>()));
  });
  row("Softmax", [](const CallArguments& call, const Json& config) {
    return Structure(activations::softmax(tensor_operand(call), axis_or(config, -1)));
  });
  row("LogSoftmax", [](const CallArguments& call, const Json& config) {
    return Structure(ops::log_softmax(tensor_operand(call), axis_or(config, -1)));
  });
  row("OneHot", [](const CallArguments& call, const Json& config) {
    return Structure(ops::one_hot(ops::cast(tensor_operand(call), DType::kInt64),
                                  get(config, "num_classes").get<std::int64_t>(), dtype_or(config, DType::kFloat32),
                                  axis_or(config, -1)));
  });
  for (const auto& [class_name, fn] : {std::pair<const char*, Unary>{"SparsePlus", activations::sparse_plus},
                                       {"SparseSigmoid", activations::sparse_sigmoid}}) {
    row(class_name, floating(fn));
  }
  for (const auto& [class_name, key, otherwise, fn] : {WithNumber{"Celu", "alpha", 1.0, activations::celu},
                                                       {"HardShrink", "threshold", 0.5, activations::hard_shrink},
                                                       {"SoftShrink", "threshold", 0.5, activations::soft_shrink},
                                                       {"Squareplus", "b", 4.0, activations::squareplus}}) {
    row(class_name, [key = key, otherwise = otherwise, fn = fn](const CallArguments& call, const Json& config) {
      return Structure(fn(floating_operand(call), get(config, key, otherwise).get<double>()));
    });
  }
  row("Threshold", [](const CallArguments& call, const Json& config) {
    return Structure(activations::threshold(floating_operand(call), get(config, "threshold").get<double>(),
                                            get(config, "default_value").get<double>()));
  });
  row("Glu", [](const CallArguments& call, const Json& config) {
    return Structure(activations::glu(floating_operand(call), axis_or(config, -1)));
  });
  row("Sparsemax", [](const CallArguments& call, const Json& config) {
    return Structure(activations::sparsemax(floating_operand(call), axis_or(config, -1)));
  });
  row("BinaryCrossentropy", [](const CallArguments& call, const Json& config) {
    const auto [target, output] = target_and_output(call);
    return Structure(
        losses::elementwise_binary_crossentropy(target, output, get(config, "from_logits", false).get<bool>()));
  });
  row("CategoricalCrossentropy", [](const CallArguments& call, const Json& config) {
    const auto [target, output] = target_and_output(call);
    const bool from_logits = get(config, "from_logits", false).get<bool>();
    return Structure(losses::categorical_crossentropy(target, output, from_logits, 0.0, axis_or(config, -1)));
  });
  row("SparseCategoricalCrossentropy", [](const CallArguments& call, const Json& config) {
    const bool from_logits = get(config, "from_logits", false).get<bool>();
    return Structure(losses::sparse_categorical_crossentropy(tensor_operand(call, 0, "target"), output_of(call),
                                                             from_logits, std::nullopt, axis_or(config, -1)));
  });
  row("MultiHot", [](const CallArguments& call, const Json& config) {
    const Tensor x = tensor_operand(call, 0, "inputs");
    const Tensor hot = ops::one_hot(x, get(config, "num_classes").get<std::int64_t>(),
                                    dtype_or(config, DType::kFloat32), axis_or(config, -1));
    return Structure(ops::reduce_max(hot, ops::Ints{x.rank() > 1 ? 1 : 0}, false));
  });
  row("Moments", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    const ops::Axes axes = int_list(get(config, "axes"), "axes");
    const Tensor mean = ops::reduce_mean(x, axes, true);
    const Tensor variance = ops::reduce_mean(ops::square(x - mean), axes, keepdims_of(config));
    return Structure::list({keepdims_of(config) ? mean : ops::squeeze(mean, *axes), variance});
  });
  row("Normalize", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    const ops::Axes axes = int_list(get(config, "axis", -1), "axis");
    const Json order = get(config, "order", 2);
    const double epsilon = epsilon_of(config);
    if (order == 2) {
      const Tensor sum = ops::reduce_sum(ops::square(x), axes, true);
      return Structure(x * ops::minimum(ops::rsqrt(sum), 1.0 / epsilon));
    }
    if (!order.is_number_integer() || order < 1)
      bad(fmt::format("order of Normalize is {}, expected an integer of at least 1", dump_json(order)));
    return Structure(x / ops::maximum(norm(x, order, axes, true), epsilon));
  });
  row("RMSNorm", [](const CallArguments& call, const Json& config) {
    const Tensor given = tensor_operand(call), x = widened(given);
    const ops::Axes axes = int_list(get(config, "axis", -1), "axis");
    Tensor y = x * ops::rsqrt(ops::reduce_mean(ops::square(x), axes, true) + epsilon_of(config));
    if (is_given(call, 1, "scale")) y = y * ops::cast(tensor_operand(call, 1, "scale"), x.dtype());
    return Structure(ops::cast(y, given.dtype()));
  });
  row("LayerNorm", [](const CallArguments& call, const Json& config) {
    const Tensor given = tensor_operand(call), x = widened(given);
    const ops::Axes axes = int_list(get(config, "axis", -1), "axis");
    const bool rms = get(config, "rms_scaling", false) == true;  // which divides by the deviation too
    const Tensor centred = x - ops::reduce_mean(x, axes, true);
    const Tensor factor = ops::rsqrt(ops::reduce_mean(ops::square(centred), axes, true) + epsilon_of(config));
    const auto number = [&](std::size_t index, const char* keyword) {
      const Tensor value = ops::cast(tensor_operand(call, index, keyword), x.dtype());
      if (value.rank() == x.rank()) return value;
      ops::Ints shape(static_cast<std::size_t>(x.rank()), 1);
      for (const std::int64_t axis : *axes) shape[static_cast<std::size_t>(positive_axis(x, axis))] = -1;
      return axes->size() == 1 ? ops::reshape(value, shape) : value;
    };
    Tensor y = (rms ? x : centred) * factor;
    if (is_given(call, 1, "gamma")) y = y * number(1, "gamma");
    if (!rms && is_given(call, 2, "beta")) y = y + number(2, "beta");
    return Structure(ops::cast(y, given.dtype()));
  });
  row("BatchNorm", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    ops::Ints shape(static_cast<std::size_t>(x.rank()), 1);
    shape[static_cast<std::size_t>(positive_axis(x, get(config, "axis", -1).get<std::int64_t>()))] = -1;
    const auto number = [&](std::size_t index, const char* keyword) {
      return ops::cast(ops::reshape(tensor_operand(call, index, keyword), shape), x.dtype());
    };
    const Json epsilon = get(config, "epsilon", 1e-3);
    Tensor factor = ops::rsqrt(number(2, "variance") + epsilon.get<double>());
    if (is_given(call, 4, "scale")) factor = factor * number(4, "scale");
    const Tensor shift = -number(1, "mean") * factor;
    return Structure(x * factor + (is_given(call, 3, "offset") ? shift + number(3, "offset") : shift));
  });
  row("PSNR", [](const CallArguments& call, const Json& config) {
    const auto [a, b] = operands(call, "x1", "x2");
    const double most = get(config, "max_val").get<double>();
    const Tensor error = ops::reduce_mean(ops::square(to_floating(a) - to_floating(b)));
    return Structure(20.0 * std::log10(most) - ops::log(error) * (10.0 / std::numbers::ln10));
  });
}

}  // namespace lockstep::keras::tensor_ops
