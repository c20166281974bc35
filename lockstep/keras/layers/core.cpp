#include "lockstep/keras/layers/core.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class DenseLayer : public ConfiguredLayer<DenseLayer, DenseOptions> {
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
  }
  explicit DenseLayer(DenseOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.units < 1) {
      throw_invalid_argument(fmt::format("Dense '{}': units is {}, expected at least 1", name(), options_.units));
    }
    if (auto layer = options_.activation.object()->layer()) track("activation", std::static_pointer_cast<Layer>(layer));
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    config["quantization_config"] = nullptr;
    return config;
  }

  bool supports_masking() const override { return true; }
  std::vector<InputSpec> input_spec() const override {
    InputSpec spec{.min_ndim = 2};
    if (kernel_) spec.axes = {{-1, kernel_->shape()[0]}};
    return {spec};
  }
  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    const std::int64_t in = shape.known_rank() && shape.rank() > 0 ? shape[-1] : kUnknownDim;
    if (in == kUnknownDim) {
      throw_invalid_argument(fmt::format("Dense '{}': the last axis of its input must be known, found shape {}", name(),
                                         shape.to_string()));
    }
    kernel_ = add_weight({.shape = {in, options_.units},
                          .initializer = options_.kernel_initializer.object(),
                          .regularizer = options_.kernel_regularizer.object(),
                          .constraint = options_.kernel_constraint.object(),
                          .name = "kernel"});
    if (options_.use_bias) {
      bias_ = add_weight({.shape = {options_.units},
                          .initializer = options_.bias_initializer.object(),
                          .regularizer = options_.bias_regularizer.object(),
                          .constraint = options_.bias_constraint.object(),
                          .name = "bias"});
    }
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& activation = *options_.activation.object();
    const bool fused = activation.name() == "relu";
    Tensor y = ops::dense_bias_act(inputs, value(kernel_), bias_ ? value(bias_) : Tensor(), fused ? "relu" : "");
    return fused ? y : activation(y);
  }

 private:
  VariablePtr kernel_, bias_;
};

// Shapes of an EinsumDense from its equation and input.
struct EinsumShapes {
  Shape kernel, bias;
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
    // "...x" : output_shape names the letters (from the right).
    if (sizes.size() < named.size()) bad("output_shape has too few entries");
    sizes.erase(sizes.begin(), sizes.end() - static_cast<std::ptrdiff_t>(named.size()));
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

class EinsumDenseLayer : public ConfiguredLayer<EinsumDenseLayer, EinsumDenseOptions> {
 public:
  static constexpr const char* kClass = "EinsumDense";
  template <typename V>
  static void fields(V& v, EinsumDenseOptions& o) {
    v("output_shape", o.output_shape, Field::kRequired);
    v("equation", o.equation, Field::kRequired);
    v("activation", o.activation);
    v("bias_axes", o.bias_axes);
    v("kernel_initializer", o.kernel_initializer);
    v("bias_initializer", o.bias_initializer);
    v("kernel_regularizer", o.kernel_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("bias_constraint", o.bias_constraint);
  }
  explicit EinsumDenseLayer(EinsumDenseOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.output_shape.is_number_integer())
      options_.output_shape = std::vector<std::int64_t>{options_.output_shape.get<std::int64_t>()};
    output_ = shape_from_json(options_.output_shape, fmt::format("EinsumDense '{}': output_shape", name())).dims();
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    config["quantization_config"] = nullptr;
    return config;
  }
  void build(const Nested<Shape>& shapes) override {
    const EinsumShapes found = analyze_einsum(name(), options_.equation, options_.bias_axes, shapes.leaf(), output_);
    kernel_ = add_weight({.shape = found.kernel,
                          .initializer = initializers::with_axes(options_.kernel_initializer.object(),
                                                                 found.kernel_input_axes, found.kernel_output_axes),
                          .regularizer = options_.kernel_regularizer.object(),
                          .constraint = options_.kernel_constraint.object(),
                          .name = "kernel"});
    if (options_.bias_axes) {
      bias_ = add_weight({.shape = found.bias,
                          .initializer = options_.bias_initializer.object(),
                          .regularizer = options_.bias_regularizer.object(),
                          .constraint = options_.bias_constraint.object(),
                          .name = "bias"});
    }
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor kernel = value(kernel_), bias = bias_ ? value(bias_) : Tensor();
    if (auto fused = ops::try_einsum_bias(options_.equation, inputs, kernel, bias))
      return (*options_.activation.object())(*fused);
    Tensor y = ops::einsum(options_.equation, {inputs.leaf(), kernel});
    if (bias_) y = y + bias;
    return (*options_.activation.object())(y);
  }

 private:
  Ints output_;
  VariablePtr kernel_, bias_;
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
    Tensor y = x * ops::cast(kept, x.dtype());
    y.set_mask(ops::squeeze(kept, {-1}));
    return y;
  }
  Structure compute_mask(const Structure& inputs, const Structure&, const Structure&) override {
    return ops::reduce_any(ops::not_equal(inputs.leaf(), options_.mask_value.value), ops::Ints{-1});
  }
};

class IdentityLayer : public ConfiguredLayer<IdentityLayer, NamedOptions> {
 public:
  static constexpr const char* kClass = "Identity";
  template <typename V>
  static void fields(V&, NamedOptions&) {}
  explicit IdentityLayer(NamedOptions options) : ConfiguredLayer(std::move(options)) { set_built_in_constructor(); }
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override { return inputs; }
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
  registry.add(layer_row<IdentityLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Dense(std::int64_t units, DenseOptions options) {
  options.units = units;
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
