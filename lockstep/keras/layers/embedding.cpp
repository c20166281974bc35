// Embedding and ReversibleEmbedding.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/parameter_servers_internal.h"
#include "lockstep/keras/layers/core.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// A layer with a table of rows.
template <typename Derived, typename Options>
class TableLayer : public ConfiguredLayer<Derived, Options> {
 public:
  Json get_config() const override {
    Json config = ConfiguredLayer<Derived, Options>::get_config();
    config["quantization_config"] = nullptr;
    return config;
  }

 protected:
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
  }
  explicit TableLayer(Options options) : ConfiguredLayer<Derived, Options>(std::move(options)) {
    const auto& o = this->options_;
    if (o.input_dim < 1 || o.output_dim < 1) {
      throw_invalid_argument(fmt::format("{} '{}': input_dim {} and output_dim {} must be at least 1", Derived::kClass,
                                         this->name(), o.input_dim, o.output_dim));
    }
  }
  void build(const Nested<Shape>&) override {
    const auto& o = this->options_;
    embeddings_ = this->add_weight({.shape = {o.input_dim, o.output_dim},
                                    .initializer = o.embeddings_initializer.object(),
                                    .regularizer = o.embeddings_regularizer.object(),
                                    .constraint = o.embeddings_constraint.object(),
                                    .name = "embeddings"});
  }
  Tensor look_up(Tensor indices) const {
    if (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64)
      indices = ops::cast(indices, DType::kInt32);
    auto* const servers = distribute::ParameterServers::current();
    if (servers && indices.is_value()) servers->pull_rows(embeddings_, indices);
    return ops::gather(this->value(embeddings_), indices);
  }
  // Of indices, where 0 is padding.
  Tensor mask_of(const Tensor& x) const {
    if (!this->options_.mask_zero) return {};
    return ops::not_equal(x, Tensor::scalar(0.0, x.dtype()));
  }

  VariablePtr embeddings_;
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
    reverse_embeddings_ = add_weight({.shape = {options_.output_dim, options_.input_dim},
                                      .initializer = options_.embeddings_initializer.object(),
                                      .name = "reverse_embeddings"});
  }
  Structure call(const Structure& inputs, const CallContext& context) override {
    const Json reverse = context.value("reverse");
    if (!reverse.is_boolean() || !reverse.get<bool>()) {
      Tensor rows = look_up(inputs);
      rows.set_mask(mask_of(inputs.leaf()));
      return rows;
    }
    Tensor x = inputs.leaf(), kernel = value(options_.tie_weights ? embeddings_ : reverse_embeddings_);
    x = ops::cast(x, reverse_dtype_.value_or(x.dtype()));
    kernel = ops::cast(kernel, reverse_dtype_.value_or(kernel.dtype()));
    const Tensor logits = options_.tie_weights ? ops::matmul(x, kernel, false, true) : ops::matmul(x, kernel);
    if (!options_.logit_soft_cap) return logits;
    const double cap = *options_.logit_soft_cap;
    return ops::tanh(logits / cap) * cap;
  }
  // call() decides about the mask.
  Structure compute_mask(const Structure&, const Structure&, const Structure& outputs) override {
    return outputs.leaf().mask();
  }

 private:
  std::optional<DType> reverse_dtype_;
  VariablePtr reverse_embeddings_;
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
