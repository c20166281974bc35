#include "lockstep/keras/layers/core.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/kernel_layer_internal.h"
#include "lockstep/keras/layers/weight_fields_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class DenseLayer : public KernelLayer<DenseLayer, DenseOptions> {
 public:
  static constexpr const char* kClass = "Dense";
  template <typename V>
  static void fields(V& v, DenseOptions& o) {
    v("units", o.units, Field::kRequired);
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    v("kernel_initializer", o.kernel_initializer);
    v("bias_initializer", o.bias_initializer);
    v("kernel_regularizer", o.kernel_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("bias_constraint", o.bias_constraint);
    matrix_fields(v, o);
  }
  explicit DenseLayer(DenseOptions options) : KernelLayer(std::move(options)) {
    if (options_.units < 1) {
      throw_invalid_argument(fmt::format("Dense '{}': units is {}, expected at least 1", name(), options_.units));
    }
    if (auto layer = options_.activation.object()->layer()) track("activation", std::static_pointer_cast<Layer>(layer));
  }

  bool supports_masking() const override { return true; }
  std::vector<InputSpec> input_spec() const override {
    InputSpec spec{.min_ndim = 2};
    if (inputs_ > 0) spec.axes = {{-1, inputs_}};
    return {spec};
  }
  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    const std::int64_t in = shape.known_rank() && shape.rank() > 0 ? shape[-1] : kUnknownDim;
    if (in == kUnknownDim) {
      throw_invalid_argument(fmt::format("Dense '{}': the last axis of its input must be known, found shape {}", name(),
                                         shape.to_string()));
    }
    build_kernel({.name = "kernel", .shape = {in, options_.units}, .summed = {0}, .scale_shape = {options_.units}},
                 options_.kernel_initializer.object());
    if (options_.use_bias) build_bias({options_.units});
    inputs_ = in;
    if (const auto rank = options_.lora_rank; rank.value_or(0) != 0) enable_lora({.rank = *rank});
  }
  Structure call(const Structure& inputs, const CallContext& context) override {
    if (float8_.active()) {
      return float8_outputs(inputs.leaf(), context,
                            [](const Tensor& x, const Tensor& kernel) { return ops::matmul(x, kernel); });
    }
    if (quantized_.active()) {
      const Tensor& x = inputs.leaf();
      return finish_quantized(quantized_product(x), [&](const Tensor& a) { return ops::matmul(x, a); });
    }
    const auto& activation = *options_.activation.object();
    const bool fused = activation.name() == "relu";
    const Tensor kernel = kernel_value();
    Tensor x = inputs.leaf();
    if (!is_floating(x.dtype())) x = ops::cast(x, kernel.dtype());
    Tensor y = ops::dense_bias_act(x, kernel, bias_value(), fused ? "relu" : "");
    return fused ? y : activation(y);
  }

 private:
  Tensor quantized_product(const Tensor& x) const {
    const DType dtype = compute_dtype();
    if (quantized_.in_groups()) return ops::matmul(x, quantized_.dequantized(dtype));
    const auto quantizer = input_quantizer();
    if (!quantizer) return ops::matmul(x, quantized_.integers(dtype)) / quantized_.scale(dtype);
    const auto [values, scale] = quantizers::abs_max_quantize(without_gradient(x), {-1}, *quantizer);
    const DType exact = quantizers::exact_product_dtype(inputs_);
    const Tensor y = ops::matmul(ops::cast(values, exact), quantized_.integers(exact));
    return with_straight_gradient(x, ops::cast(y, dtype) / (quantized_.scale(dtype) * scale),
                                  [matrix = quantized_, dtype](const Tensor& dy) {
                                    return ops::matmul(dy, matrix.dequantized(dtype), false, true);
                                  });
  }

  std::int64_t inputs_ = 0;
};

// Shapes of an EinsumDense from its equation and input.
struct EinsumShapes {
  Shape kernel, bias;
  // Letters of all axes; those that an ellipsis stands for are digits.
  std::string input_letters, kernel_letters, output_letters;
  initializers::Axes kernel_input_axes, kernel_output_axes;
};

EinsumShapes analyze_einsum(const std::string& who, std::string equation, const std::optional<std::string>& bias_axes,
                            const Shape& input, const Ints& output) {
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const auto bad = [&](const std::string& why) {
    throw_invalid_argument(fmt::format("EinsumDense '{}': equation '{}': {}", who, equation, why));
  };
  const auto comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) bad("expected the form 'ab,bc->ac'");
  std::string in = equation.substr(0, comma), kernel = equation.substr(comma + 1, arrow - comma - 1),
              out = equation.substr(arrow + 2);
  const auto count_dots = [](const std::string& s) { return s.find("...") != std::string::npos; };
  std::map<char, std::int64_t> extent;
  std::vector<std::int64_t> full_output(output.begin(), output.end());
  bool left_dots = in.starts_with("..."), right_dots = !left_dots && count_dots(in);
  const auto letters = [&](std::string s) {
    const auto at = s.find("...");
    if (at != std::string::npos) s.erase(at, 3);
    return s;
  };
  const std::string in_letters = letters(in), out_letters = letters(out);
  const int extra = input.rank() - static_cast<int>(in_letters.size());
  if (extra < 0 || (extra > 0 && !left_dots && !right_dots))
    bad(fmt::format("does not fit the input's shape {}", input.to_string()));
  for (std::size_t i = 0; i < in_letters.size(); ++i) {
    const int at = left_dots ? static_cast<int>(i) + extra : static_cast<int>(i);
    extent[in_letters[i]] = input[at];
  }
  // The output's letters: the batch is not part of output_shape unless an ellipsis covers it.
  Ints sizes = full_output;
  std::string named = out_letters;
  if (left_dots) {
    // "...x": output_shape begins with the letters; Keras does not use entries behind them.
    if (sizes.size() < named.size()) bad("output_shape has too few entries");
    sizes.resize(named.size());
  } else {
    sizes.insert(sizes.begin(), kUnknownDim);
    if (sizes.size() < named.size()) bad("output_shape has too few entries");
  }
  std::map<char, std::int64_t> out_extent;
  for (std::size_t i = 0; i < named.size(); ++i) {
    std::int64_t size = sizes[i];
    const auto known = extent.find(named[i]);
    if (size == kUnknownDim && known != extent.end()) size = known->second;
    if (known != extent.end() && known->second != kUnknownDim && size != kUnknownDim && size != known->second) {
      bad(fmt::format("the letter '{}' is {} in the input and {} in output_shape", named[i], known->second, size));
    }
    out_extent[named[i]] = size;
  }
  EinsumShapes result;
  std::string elided;
  for (int i = 0; i < extra; ++i) elided += static_cast<char>('0' + i);
  result.input_letters = left_dots ? elided + in_letters : in_letters + elided;
  result.output_letters = left_dots ? elided + out_letters : out_letters + elided;
  result.kernel_letters = kernel;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const char letter = kernel[i];
    if (extent.contains(letter)) {
      result.kernel.push_back(extent[letter]);
    } else if (out_extent.contains(letter)) {
      result.kernel.push_back(out_extent[letter]);
    } else {
      bad(fmt::format("the kernel's letter '{}' is neither in the input nor in the output", letter));
    }
    if (out_letters.find(letter) == std::string::npos) {
      result.kernel_input_axes.push_back(static_cast<std::int64_t>(i));
    } else if (in_letters.find(letter) == std::string::npos) {
      result.kernel_output_axes.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (bias_axes) {
    std::size_t first = std::string::npos;
    for (char letter : *bias_axes) {
      const auto at = out_letters.find(letter);
      if (at == std::string::npos) bad(fmt::format("bias_axes letter '{}' is not in the output", letter));
      first = std::min(first, at);
    }
    for (std::size_t i = first; i < out_letters.size(); ++i) {
      result.bias.push_back(bias_axes->find(out_letters[i]) != std::string::npos ? out_extent[out_letters[i]] : 1);
    }
    if (right_dots) {
      for (int i = 0; i < extra; ++i) result.bias.push_back(1);
    }
  }
  return result;
}

class EinsumDenseLayer : public KernelLayer<EinsumDenseLayer, EinsumDenseOptions> {
 public:
  static constexpr const char* kClass = "EinsumDense";
  template <typename V>
  static void fields(V& v, EinsumDenseOptions& o) {
    v("output_shape", o.output_shape, Field::kRequired);
    v("equation", o.equation, Field::kRequired);
    v("activation", o.activation);
    v("bias_axes", o.bias_axes);
    kernel_and_bias_fields(v, o);
    matrix_fields(v, o);
  }
  explicit EinsumDenseLayer(EinsumDenseOptions options) : KernelLayer(std::move(options)) {
    if (options_.output_shape.is_number_integer())
      options_.output_shape = std::vector<std::int64_t>{options_.output_shape.get<std::int64_t>()};
    output_ = shape_from_json(options_.output_shape, fmt::format("EinsumDense '{}': output_shape", name())).dims();
  }
  void build(const Nested<Shape>& shapes) override {
    shapes_ = analyze_einsum(name(), options_.equation, options_.bias_axes, shapes.leaf(), output_);
    build_kernel(layout(), initializers::with_axes(options_.kernel_initializer.object(), shapes_.kernel_input_axes,
                                                   shapes_.kernel_output_axes));
    if (options_.bias_axes) build_bias(shapes_.bias);
    if (const auto rank = options_.lora_rank; rank.value_or(0) != 0)
      enable_lora({.rank = *rank, .lora_alpha = options_.lora_alpha});
  }
  Structure call(const Structure& inputs, const CallContext& context) override {
    if (float8_.active()) {
      return float8_outputs(inputs.leaf(), context, [this](const Tensor& x, const Tensor& kernel) {
        return ops::einsum(options_.equation, {x, kernel});
      });
    }
    if (quantized_.active()) {
      const Tensor& x = inputs.leaf();
      return finish_quantized(quantized_product(x), [&](const Tensor& a) {
        return ops::einsum(options_.equation, {x, a});
      });
    }
    const Tensor kernel = kernel_value(), bias = bias_value();
    const Tensor x = is_floating(inputs.leaf().dtype()) ? inputs.leaf() : ops::cast(inputs, compute_dtype());
    // A bias that ends in the last axis is added along its own axes in any case.
    if (!bias.defined() || bias.rank() == 1 || bias.dim(bias.rank() - 1) != 1) {
      if (auto fused = ops::try_einsum_bias(options_.equation, x, kernel, bias))
        return (*options_.activation.object())(*fused);
    }
    Tensor y = ops::einsum(options_.equation, {x, kernel});
    if (bias.defined()) y = biased(y, bias);
    return (*options_.activation.object())(y);
  }

 private:
  // A scale has the output's axes.
  QuantizedLayout layout() const {
    QuantizedLayout made{.name = "kernel", .shape = shapes_.kernel, .summed = shapes_.kernel_input_axes};
    for (const char letter : shapes_.output_letters) {
      const auto at = shapes_.kernel_letters.find(letter);
      made.scale_shape.push_back(at == std::string::npos ? 1 : shapes_.kernel[static_cast<int>(at)]);
      if (at != std::string::npos) made.kept.push_back(static_cast<std::int64_t>(at));
    }
    return made;
  }
  // The axes of the input that are not in the output.
  Ints summed_inputs() const {
    Ints axes;
    for (std::size_t i = 0; i < shapes_.input_letters.size(); ++i) {
      if (shapes_.output_letters.find(shapes_.input_letters[i]) == std::string::npos)
        axes.push_back(static_cast<std::int64_t>(i));
    }
    return axes;
  }
  // A scale of the inputs with the output's axes.
  Tensor as_output(const Tensor& scale) const {
    std::string kept = shapes_.input_letters;
    const Ints summed = summed_inputs();
    for (auto axis = summed.rbegin(); axis != summed.rend(); ++axis) kept.erase(static_cast<std::size_t>(*axis), 1);
    Ints order;
    for (const char letter : shapes_.output_letters) {
      if (const auto at = kept.find(letter); at != std::string::npos) order.push_back(static_cast<std::int64_t>(at));
    }
    Tensor made = summed.empty() ? scale : ops::squeeze(scale, summed);
    made = ops::transpose(made, order);
    for (std::size_t i = 0; i < shapes_.output_letters.size(); ++i) {
      if (kept.find(shapes_.output_letters[i]) == std::string::npos) made = ops::expand_dims(made, static_cast<int>(i));
    }
    return made;
  }
  Tensor quantized_product(const Tensor& x) const {
    const DType dtype = compute_dtype();
    const auto quantizer = input_quantizer();
    const bool int8 = dtype_policy().quantization_mode() == "int8";
    const auto product = [&](const Tensor& inputs, const Tensor& kernel) {
      return ops::einsum(options_.equation, {inputs, kernel});
    };
    if (!quantizer || quantized_.in_groups())
      return int8 ? product(x, quantized_.integers(dtype)) / quantized_.scale(dtype)
                  : product(x, quantized_.dequantized(dtype));
    const auto [values, scale] = quantizers::abs_max_quantize(without_gradient(x), summed_inputs(), *quantizer);
    Tensor y;
    if (int8) {
      std::int64_t terms = 1;
      for (const std::int64_t axis : shapes_.kernel_input_axes) terms *= shapes_.kernel[static_cast<int>(axis)];
      const DType exact = quantizers::exact_product_dtype(terms);
      y = ops::cast(product(ops::cast(values, exact), quantized_.integers(exact)), dtype) /
          (as_output(scale) * quantized_.scale(dtype));
    } else {
      y = product(values, quantized_.dequantized(dtype)) / as_output(scale);
    }
    const std::string back =
        fmt::format("{},{}->{}", shapes_.output_letters, shapes_.kernel_letters, shapes_.input_letters);
    return with_straight_gradient(x, y, [matrix = quantized_, dtype, back](const Tensor& dy) {
      return ops::einsum(back, {dy, matrix.dequantized(dtype)});
    });
  }

  Ints output_;
  EinsumShapes shapes_;
};

class MaskingLayer : public ConfiguredLayer<MaskingLayer, MaskingOptions> {
 public:
  static constexpr const char* kClass = "Masking";
  template <typename V>
  static void fields(V& v, MaskingOptions& o) {
    v("mask_value", o.mask_value);
  }
  explicit MaskingLayer(MaskingOptions options) : ConfiguredLayer(std::move(options)) { set_built_in_constructor(); }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    const Tensor kept = ops::reduce_any(ops::not_equal(x, options_.mask_value.value), ops::Ints{-1}, true);
    Tensor y = x.dtype() == DType::kBool ? ops::logical_and(x, kept) : x * ops::cast(kept, x.dtype());
    y.set_mask(ops::squeeze(kept, {-1}));
    return y;
  }
  Structure compute_mask(const Structure& inputs, const Structure&, const Structure&) override {
    return ops::reduce_any(ops::not_equal(inputs.leaf(), options_.mask_value.value), ops::Ints{-1});
  }
};

class IdentityLayer : public ConfiguredLayer<IdentityLayer, NamedOptions>, public MaskSupport {
 public:
  static constexpr const char* kClass = "Identity";
  template <typename V>
  static void fields(V&, NamedOptions&) {}
  explicit IdentityLayer(NamedOptions options) : ConfiguredLayer(std::move(options)) { set_built_in_constructor(); }
  bool supports_masking() const override { return keeps_masks_; }
  Structure call(const Structure& inputs, const CallContext&) override {
    if (keeps_masks_) return inputs;
    // Another tensor of the same values, which has no mask.
    return inputs.map([](const Tensor& x) { return ops::squeeze(ops::expand_dims(x, 0), {0}); });
  }
};

}  // namespace

void register_core_layers(ClassTable& registry) {
  registry.add({"InputLayer",
                {},
                [](const Json& config) -> LayerPtr { return InputLayer::from_config(config); },
                describe_input_layer});
  registry.add(layer_row<DenseLayer>());
  registry.add(layer_row<EinsumDenseLayer>());
  registry.add(layer_row<MaskingLayer>());
  registry.add(mask_dropping_row<IdentityLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Dense(std::int64_t units, DenseOptions options) {
  options.units = units;
  if (options.input_dim) options.input_shape = {*options.input_dim};
  return std::make_shared<keras::DenseLayer>(std::move(options));
}
LayerHandle EinsumDense(std::string equation, std::vector<std::int64_t> output_shape, EinsumDenseOptions options) {
  options.equation = std::move(equation);
  options.output_shape = keras::shape_to_json(Shape(std::move(output_shape)));
  return std::make_shared<keras::EinsumDenseLayer>(std::move(options));
}
LayerHandle Masking(MaskingOptions options) { return std::make_shared<keras::MaskingLayer>(std::move(options)); }
LayerHandle Identity(NamedOptions options) { return std::make_shared<keras::IdentityLayer>(std::move(options)); }

}  // namespace lockstep::layers
