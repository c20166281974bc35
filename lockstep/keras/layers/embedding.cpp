// Embedding and ReversibleEmbedding.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/keras/layers/core.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/kernel_layer_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// A layer with a table of rows.
template <typename Derived, typename Options>
class TableLayer : public MatrixLayer<Derived, Options> {
 public:
  void enable_lora(const LoraOptions& options) override {
    auto& o = this->options_;
    const VariablePtr& variable = quantized_.active() ? quantized_.values() : embeddings_;
    lora_.enable({*this,
                  "embeddings",
                  variable,
                  {o.input_dim, o.output_dim},
                  o.embeddings_regularizer.object(),
                  o.embeddings_constraint.object()},
                 options, adder());
    remember_lora(o, options);
  }
  OwnState own_state() const override { return this->matrix_state(embeddings_, {}); }

 protected:
  using Base = MatrixLayer<Derived, Options>;
  using Base::adder;
  using Base::lora_;
  using Base::quantized_;
  template <typename V>
  static void table_fields(V& v, Options& o) {
    v("input_dim", o.input_dim, Field::kRequired);
    v("output_dim", o.output_dim, Field::kRequired);
    v("embeddings_initializer", o.embeddings_initializer);
    v("embeddings_regularizer", o.embeddings_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("embeddings_constraint", o.embeddings_constraint);
    v("mask_zero", o.mask_zero);
    v.dropped("input_length");
    v.dropped("dropout");
    v.dropped("weights");
    Base::matrix_fields(v, o);
  }
  explicit TableLayer(Options options) : Base(std::move(options)) {
    const auto& o = this->options_;
    if (o.input_dim < 1 || o.output_dim < 1) {
      throw_invalid_argument(fmt::format("{} '{}': input_dim {} and output_dim {} must be at least 1", Derived::kClass,
                                         this->name(), o.input_dim, o.output_dim));
    }
  }
  // Each row has its scales.
  QuantizedLayout layout() const {
    const auto& o = this->options_;
    return {.name = "embeddings",
            .shape = {o.input_dim, o.output_dim},
            .summed = {1},
            .summed_axis = 1,
            .scale_shape = {o.input_dim}};
  }
  void build(const Nested<Shape>&) override {
    const auto& o = this->options_;
    const DTypePolicy& policy = this->dtype_policy();
    refuse_float8(policy.quantization_mode());
    if (!policy.quantization_mode().empty()) {
      quantized_.build(layout(), policy.quantization_mode(), policy.block_size(), adder());
    } else {
      embeddings_ = this->add_weight({.shape = {o.input_dim, o.output_dim},
                                      .initializer = o.embeddings_initializer.object(),
                                      .regularizer = o.embeddings_regularizer.object(),
                                      .constraint = o.embeddings_constraint.object(),
                                      .name = "embeddings"});
    }
    if (o.lora_rank.value_or(0) != 0) enable_lora({.rank = *o.lora_rank});
  }
  void refuse_float8(const std::string& mode) const {
    if (mode == "float8")
      throw_unimplemented(
          fmt::format("{} '{}' has no float8, only Dense and EinsumDense have", this->class_name(), this->name()));
  }
  void quantize_weights(const quantizers::QuantizationConfig& config) override {
    refuse_float8(config.mode());
    this->quantize_variable(embeddings_, quantized_, layout(), config);
    this->options_.quantization_config = config;
  }
  // The values of a table that is not quantized, with LoRA's part.
  Tensor table() const {
    if (!lora_.enabled()) return this->value(embeddings_);
    return lora_.add_to(embeddings_->read(), lora_.a()->read(), lora_.b()->read(), this->compute_dtype());
  }
  Tensor look_up(Tensor indices) const {
    if (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64)
      indices = ops::cast(indices, DType::kInt32);
    if (quantized_.active()) return look_up_integers(indices);
    auto* const servers = distribute::ParameterServers::current();
    if (servers && indices.is_value()) servers->pull_rows(embeddings_, indices);
    return ops::gather(table(), indices);
  }
  // Of indices, where 0 is padding.
  Tensor mask_of(const Tensor& x) const {
    if (!this->options_.mask_zero) return {};
    return ops::not_equal(x, Tensor::scalar(0.0, x.dtype()));
  }

  VariablePtr embeddings_;

 private:
  Tensor look_up_integers(const Tensor& indices) const {
    // Keras does not cast the scales, so results have the wider dtype.
    const DType dtype = quantized_.scale_dtype();
    const Tensor rows = quantized_.rows(indices, dtype);
    if (!lora_.enabled()) return rows;
    const Tensor added = ops::matmul(ops::gather(lora_.a()->read(), indices), lora_.b()->read()) * lora_.scale();
    return ops::cast(ops::cast(rows, added.dtype()) + added, this->compute_dtype());
  }
};

class EmbeddingLayer : public TableLayer<EmbeddingLayer, EmbeddingOptions> {
 public:
  static constexpr const char* kClass = "Embedding";
  template <typename V>
  static void fields(V& v, EmbeddingOptions& o) {
    table_fields(v, o);
  }
  explicit EmbeddingLayer(EmbeddingOptions options) : TableLayer(std::move(options)) {}
  bool supports_masking() const override { return options_.mask_zero; }
  Structure call(const Structure& inputs, const CallContext&) override { return look_up(inputs); }
  Structure compute_mask(const Structure& inputs, const Structure&, const Structure&) override {
    return mask_of(inputs.leaf());
  }
};

class ReversibleEmbeddingLayer : public TableLayer<ReversibleEmbeddingLayer, ReversibleEmbeddingOptions> {
 public:
  static constexpr const char* kClass = "ReversibleEmbedding";
  template <typename V>
  static void fields(V& v, ReversibleEmbeddingOptions& o) {
    table_fields(v, o);
    v("tie_weights", o.tie_weights);
    v("reverse_dtype", o.reverse_dtype);
    v("logit_soft_cap", o.logit_soft_cap);
  }
  explicit ReversibleEmbeddingLayer(ReversibleEmbeddingOptions options) : TableLayer(std::move(options)) {
    if (!options_.reverse_dtype) return;
    reverse_dtype_ = parse_dtype(*options_.reverse_dtype);
    if (!reverse_dtype_ || !is_floating(*reverse_dtype_))
      throw_invalid_argument(fmt::format("ReversibleEmbedding '{}': reverse_dtype is '{}', expected a floating dtype",
                                         name(), *options_.reverse_dtype));
  }
  bool supports_masking() const override { return options_.mask_zero; }
  std::vector<std::string> call_parameters() const override { return {"inputs", "reverse"}; }
  void build(const Nested<Shape>& shapes) override {
    TableLayer::build(shapes);
    if (options_.tie_weights) return;
    const DTypePolicy& policy = dtype_policy();
    if (!policy.quantization_mode().empty()) {
      reverse_quantized_.build(reverse_layout(), policy.quantization_mode(), policy.block_size(), adder());
      return;
    }
    reverse_embeddings_ = add_weight({.shape = {options_.output_dim, options_.input_dim},
                                      .initializer = options_.embeddings_initializer.object(),
                                      .name = "reverse_embeddings"});
  }
  OwnState own_state() const override {
    OwnState state = TableLayer::own_state();
    if (reverse_quantized_.active()) {
      state.entries.push_back({reverse_quantized_.values()});
      for (const VariablePtr& variable : reverse_quantized_.parameters()) state.entries.push_back({variable});
    }
    return state;
  }
  Structure call(const Structure& inputs, const CallContext& context) override {
    const Json reverse = context.value("reverse");
    if (!reverse.is_boolean() || !reverse.get<bool>()) {
      Tensor rows = look_up(inputs);
      rows.set_mask(mask_of(inputs.leaf()));
      return rows;
    }
    const Tensor logits = quantized_.active() ? logits_of_integers(inputs.leaf()) : logits_of(inputs.leaf());
    if (!options_.logit_soft_cap) return logits;
    const double cap = *options_.logit_soft_cap;
    return ops::tanh(logits / cap) * cap;
  }
  // call() decides about the mask.
  Structure compute_mask(const Structure&, const Structure&, const Structure& outputs) override {
    return outputs.leaf().mask();
  }

 protected:
  void quantize_weights(const quantizers::QuantizationConfig& config) override {
    TableLayer::quantize_weights(config);
    if (options_.tie_weights) return;
    quantize_variable(reverse_embeddings_, reverse_quantized_, reverse_layout(), config);
  }

 private:
  // A kernel whose columns have their scales; Keras packs its rows, and has floating zero points for it.
  QuantizedLayout reverse_layout() const {
    return {.name = "reverse_embeddings",
            .shape = {options_.output_dim, options_.input_dim},
            .summed = {0},
            .packed_axis = 0,
            .scale_shape = {options_.input_dim},
            .own_groups = false,
            .zero_dtype = variable_dtype()};
  }
  DType variable_dtype() const { return dtype_policy().variable_dtype(); }
  Tensor logits_of(Tensor x) const {
    Tensor kernel = options_.tie_weights ? table() : value(reverse_embeddings_);
    x = ops::cast(x, reverse_dtype_.value_or(x.dtype()));
    kernel = ops::cast(kernel, reverse_dtype_.value_or(kernel.dtype()));
    return options_.tie_weights ? ops::matmul(x, kernel, false, true) : ops::matmul(x, kernel);
  }
  Tensor logits_of_integers(const Tensor& x) const {
    const bool tied = options_.tie_weights;
    const QuantizedMatrix& matrix = tied ? quantized_ : reverse_quantized_;
    const DType dtype = matrix.scale_dtype();
    const auto quantizer = activation_quantizer(options_.quantization_config, true);
    const auto product = [&](const Tensor& a, const Tensor& b) { return ops::matmul(a, b, false, tied); };
    if (!quantizer) {
      const Tensor wide = ops::cast(x, dtype);
      return matrix.in_groups() ? product(wide, matrix.dequantized(dtype))
                                : product(wide, matrix.integers(dtype)) / matrix.scale(dtype);
    }
    const auto [values, scale] = quantizers::abs_max_quantize(x, {-1}, *quantizer);
    if (matrix.in_groups())
      return product(ops::cast(values, dtype), matrix.dequantized(dtype)) / ops::cast(scale, dtype);
    const DType exact = quantizers::exact_product_dtype(options_.output_dim);
    const Tensor y = product(ops::cast(values, exact), matrix.integers(exact));
    return ops::cast(y, dtype) / (ops::cast(scale, dtype) * matrix.scale(dtype));
  }

  std::optional<DType> reverse_dtype_;
  VariablePtr reverse_embeddings_;
  QuantizedMatrix reverse_quantized_;
};

}  // namespace

void register_embedding_layers(ClassTable& registry) {
  registry.add(layer_row<EmbeddingLayer>());
  registry.add(layer_row<ReversibleEmbeddingLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Embedding(std::int64_t input_dim, std::int64_t output_dim, EmbeddingOptions options) {
  options.input_dim = input_dim;
  options.output_dim = output_dim;
  return std::make_shared<keras::EmbeddingLayer>(std::move(options));
}
LayerHandle ReversibleEmbedding(std::int64_t input_dim, std::int64_t output_dim, ReversibleEmbeddingOptions options) {
  options.input_dim = input_dim;
  options.output_dim = output_dim;
  return std::make_shared<keras::ReversibleEmbeddingLayer>(std::move(options));
}

}  // namespace lockstep::layers
