// A layer with a kernel that may get LoRA and may be quantized, and a bias.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/keras/layers/configured_layer_internal.h"
#include "lockstep/keras/layers/float8_product_internal.h"
#include "lockstep/keras/layers/lora_internal.h"
#include "lockstep/keras/layers/quantized_matrix_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

template <>
struct FieldType<std::optional<quantizers::QuantizationConfig>> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "quantization config or null"; }
  static bool read(const Json& found, std::optional<quantizers::QuantizationConfig>& v) {
    v.reset();
    if (!found.is_null()) v = quantizers::QuantizationConfig::from_config(found);
    return true;
  }
  static Json write(const std::optional<quantizers::QuantizationConfig>& v) { return v ? v->serialize() : Json(); }
};

// Lists the argument quantization_config; errors in a config name the layer.
template <typename V>
void quantization_field(V& v, std::optional<quantizers::QuantizationConfig>& config) {
  constexpr const char* kKey = "quantization_config";
  if constexpr (std::is_same_v<V, FieldReader>) {
    const Json* const found = v.take(kKey);
    const Json name = v.config().value("name", Json());
    if (!found || found->is_null()) return;
    config = quantizers::QuantizationConfig::from_config(
        *found, fmt::format("{} '{}': ", v.class_name(), name.is_string() ? name.get<std::string>() : ""));
  } else {
    v(kKey, config);
  }
}

// The quantizer of the inputs of products with a kernel; nothing where they stay floating.
inline std::optional<quantizers::AbsMaxQuantizer> activation_quantizer(
    const std::optional<quantizers::QuantizationConfig>& config, bool by_default) {
  if (config) return config->activation_quantizer();
  return by_default ? std::optional(quantizers::AbsMaxQuantizer()) : std::nullopt;
}

// The state of a layer whose integers are saved with LoRA's part added, if it has one.
inline void add_quantized_state(OwnState& state, const QuantizedMatrix& matrix, const Lora& lora, DType dtype,
                                const std::vector<VariablePtr>& between) {
  const auto entry = [&](const VariablePtr& variable, Tensor QuantizedMatrix::Stored::*part) {
    if (!lora.enabled() || variable->name() == "g_idx") return OwnState::Entry{variable};
    return OwnState::Entry{variable, [matrix, lora, dtype, part, variable] {
                             const ops::ScopedRecorder eager(nullptr);
                             const Tensor merged = lora.add_to(matrix.dequantized(dtype), lora.a()->numpy(),
                                                               lora.b()->numpy(), DType::kFloat32);
                             return ops::cast(matrix.store(merged).*part, variable->dtype());
                           }};
  };
  state.entries.push_back(entry(matrix.values(), &QuantizedMatrix::Stored::values));
  for (const VariablePtr& variable : between) state.entries.push_back({variable});
  const std::vector<VariablePtr> parameters = matrix.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    state.entries.push_back(
        entry(parameters[i], i == 0 ? &QuantizedMatrix::Stored::scale : &QuantizedMatrix::Stored::zero));
  }
  if (lora.enabled()) state.zeroed = {lora.a(), lora.b()};
}

// A layer with a variable that may get LoRA and may be quantized.
template <typename Derived, typename Options>
class MatrixLayer : public ConfiguredLayer<Derived, Options> {
 public:
  Json get_config() const override {
    Json config = ConfiguredLayer<Derived, Options>::get_config();
    write_lora(config, this->options_.lora_rank, this->options_.lora_alpha);
    return config;
  }
  bool can_be_quantized() const override { return true; }
  void set_activation(const activations::ActivationPtr& activation) override {
    if constexpr (requires { this->options_.activation = activation; }) {
      this->options_.activation = activation;
    } else {
      Layer::set_activation(activation);
    }
  }

 protected:
  explicit MatrixLayer(Options options) : ConfiguredLayer<Derived, Options>(std::move(options)) {}
  // The arguments after those of the layer's own.
  template <typename V>
  static void matrix_fields(V& v, Options& o) {
    v("lora_rank", o.lora_rank, Field::kUnwritten);
    v("lora_alpha", o.lora_alpha, Field::kUnwritten);
    quantization_field(v, o.quantization_config);
  }
  AddWeight adder() {
    return [this](WeightOptions weight) { return this->add_weight(std::move(weight)); };
  }
  // The state with `floating`, the variable while it is not quantized, and variables that come after the integers.
  OwnState matrix_state(const VariablePtr& floating, const std::vector<VariablePtr>& between) const {
    if (!quantized_.active()) return state_with_lora(*this, lora_, floating);
    OwnState state;
    add_quantized_state(state, quantized_, lora_, this->compute_dtype(), between);
    return state;
  }
  // Puts integers in the place of a floating variable.
  void quantize_variable(VariablePtr& floating, QuantizedMatrix& matrix, const QuantizedLayout& layout,
                         const quantizers::QuantizationConfig& config) {
    const Tensor values = floating->numpy();
    this->remove_weight(floating);
    floating = nullptr;
    matrix.build(layout, config.mode(), config.block_size(), adder());
    matrix.assign(matrix.store(values, config.weight_quantizer()));
  }

  QuantizedMatrix quantized_;
  Lora lora_;
};

template <typename Derived, typename Options>
class KernelLayer : public MatrixLayer<Derived, Options>, public BiasAdder {
 public:
  void enable_lora(const LoraOptions& options) override {
    auto& o = this->options_;
    const bool quantized = quantized_.active();
    const VariablePtr& variable = quantized ? quantized_.values() : kernel_;
    const Shape shape = quantized ? quantized_.layout().shape : kernel_ ? kernel_->shape() : Shape();
    lora_.enable({*this, "kernel", variable, shape, o.kernel_regularizer.object(), o.kernel_constraint.object()},
                 options, adder());
    remember_lora(o, options);
  }
  OwnState own_state() const override {
    if (float8_.active()) return float8_state();
    return this->matrix_state(kernel_, bias_ ? std::vector<VariablePtr>{bias_} : std::vector<VariablePtr>());
  }
  // Keras makes the scales of float8 as trainable variables, before the others where the policy comes from the config.
  std::vector<VariablePtr> own_variables() const override {
    if (!float8_.active()) return Base::own_variables();
    std::vector<VariablePtr> all;
    for (const Weight& weight : this->own_weights()) all.push_back(weight.variable);
    return all;
  }

 protected:
  using Base = MatrixLayer<Derived, Options>;
  using Base::adder;
  using Base::lora_;
  using Base::quantized_;
  explicit KernelLayer(Options options) : Base(std::move(options)) {}
  void build_kernel(const QuantizedLayout& layout, const initializers::InitializerPtr& initializer) {
    auto& o = this->options_;
    layout_ = layout;
    const DTypePolicy& policy = this->dtype_policy();
    if (policy.quantization_mode() == "float8") {
      float8_.build(policy.amax_history_length(), adder());
    } else if (!policy.quantization_mode().empty()) {
      quantized_.build(layout_, policy.quantization_mode(), policy.block_size(), adder());
      return;
    }
    kernel_ = this->add_weight({.shape = layout.shape,
                                .initializer = initializer,
                                .regularizer = o.kernel_regularizer.object(),
                                .constraint = o.kernel_constraint.object(),
                                .name = "kernel"});
  }
  void build_bias(const Shape& shape) {
    auto& o = this->options_;
    bias_ = this->add_weight({.shape = shape,
                              .initializer = o.bias_initializer.object(),
                              .regularizer = o.bias_regularizer.object(),
                              .constraint = o.bias_constraint.object(),
                              .name = "bias"});
  }
  void quantize_weights(const quantizers::QuantizationConfig& config) override {
    if (config.mode() == "float8") {
      float8_.build(this->dtype_policy().amax_history_length(), adder());
    } else {
      this->quantize_variable(kernel_, quantized_, layout_, config);
    }
    this->options_.quantization_config = config;
  }
  // Of a layer that is not quantized.
  Tensor kernel_value() const {
    const Tensor kernel = this->value(kernel_);
    if (!lora_.enabled()) return kernel;
    return lora_.add_to(kernel, this->value(lora_.a()), this->value(lora_.b()), this->compute_dtype());
  }
  Tensor bias_value() const { return bias_ ? this->value(bias_) : Tensor(); }
  std::optional<quantizers::AbsMaxQuantizer> input_quantizer() const {
    return activation_quantizer(this->options_.quantization_config, this->dtype_policy().quantization_mode() == "int8");
  }
  // A quantized layer's outputs from the product of its inputs and its integers. `with_a` multiplies inputs and LoRA's
  // first matrix.
  template <typename Product>
  Tensor finish_quantized(Tensor y, const Product& with_a) const {
    if (lora_.enabled()) {
      const Tensor added = ops::matmul(with_a(this->value(lora_.a())), this->value(lora_.b())) * lora_.scale();
      y = ops::cast(y + added, this->compute_dtype());
    }
    if (bias_) y = biased(y, bias_value());
    return (*this->options_.activation.object())(y);
  }

  // A float8 layer's outputs.
  Tensor float8_outputs(const Tensor& x, const CallContext& context, const Float8Product::Multiply& multiply) const {
    if (lora_.enabled())
      throw_unimplemented(fmt::format("{} '{}': float8 does not support LoRA", this->class_name(), this->name()));
    const DType dtype = this->compute_dtype();
    Tensor y = float8_(x, this->value(kernel_), dtype, context.training && this->trainable(), multiply);
    if (bias_) {
      const Tensor bias = bias_value();
      y = biased(y, dtype == DType::kFloat32 ? ops::cast(ops::cast(bias, DType::kBFloat16), dtype) : bias);
    }
    return (*this->options_.activation.object())(y);
  }

  VariablePtr kernel_, bias_;
  Float8Product float8_;

 private:
  OwnState float8_state() const {
    OwnState state;
    for (const VariablePtr& variable : {kernel_, bias_}) {
      if (variable) state.entries.push_back({variable});
    }
    for (const VariablePtr& variable : float8_.variables()) state.entries.push_back({variable});
    return state;
  }

  QuantizedLayout layout_;
};

// A product of quantized inputs has the gradient of the product with the floating kernel: `y` is computed from
// without_gradient(x), and a gradient dy becomes adjoint(dy). In graphs, which are for inference, they change nothing.
Tensor without_gradient(const Tensor& x);
Tensor with_straight_gradient(const Tensor& x, const Tensor& y, std::function<Tensor(const Tensor&)> adjoint);

}  // namespace lockstep::keras
