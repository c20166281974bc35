#include "lockstep/keras/layers/attention.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/activation.h"
#include "lockstep/keras/layers/families.h"
#include "lockstep/keras/layers/regularization.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// Ones on and below the diagonal: [1, rows of a, rows of b].
Tensor causal_mask(const Tensor& a, const Tensor& b) {
  const Tensor ones = ops::fill(ops::stack({ops::dim_of(a, 1), ops::dim_of(b, 1)}), Tensor::scalar(1.0, DType::kFloat32));
  return ops::expand_dims(ops::cast(ops::matrix_band_part(ones, -1, 0), DType::kBool), 0);
}

Tensor both(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? ops::logical_and(a, b) : a;
}

class MultiHeadAttentionLayer : public ConfiguredLayer<MultiHeadAttentionLayer, MultiHeadAttentionOptions> {
 public:
  static constexpr const char* kClass = "MultiHeadAttention";
  template <typename V>
  static void fields(V& v, MultiHeadAttentionOptions& o) {
    v("num_heads", o.num_heads);
    v("key_dim", o.key_dim);
    v("value_dim", o.value_dim);
    v("dropout", o.dropout);
    v("use_bias", o.use_bias);
    constant(v, "use_gate", false);
    v("output_shape", o.output_shape);
    constant(v, "attention_axes", nullptr);
    constant(v, "sliding_window", nullptr);
    v("kernel_initializer", o.kernel_initializer);
    v("bias_initializer", o.bias_initializer);
    v("kernel_regularizer", o.kernel_regularizer);
    v("bias_regularizer", o.bias_regularizer);
    v("activity_regularizer", o.activity_regularizer);
    v("kernel_constraint", o.kernel_constraint);
    v("bias_constraint", o.bias_constraint);
    v("seed", o.seed);
  }
  static void read_legacy(FieldReader& reader, MultiHeadAttentionOptions&) {
    for (const char* key : {"query_shape", "key_shape", "value_shape", "softmax_robust_masking"}) reader.drop(key);
  }
  explicit MultiHeadAttentionLayer(MultiHeadAttentionOptions options) : ConfiguredLayer(std::move(options)) {
    if (!options_.value_dim) options_.value_dim = options_.key_dim;
    if (options_.num_heads < 1 || options_.key_dim < 1 || *options_.value_dim < 1) {
      throw_invalid_argument(fmt::format("MultiHeadAttention '{}': num_heads {}, key_dim {} and value_dim {} must be at least 1",
                                         name(), options_.num_heads, options_.key_dim, *options_.value_dim));
    }
  }
  Json get_config() const override {
    Json config = ConfiguredLayer::get_config();
    if (built()) config["attention_axes"] = Json::array({1});
    return config;
  }

  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  std::vector<std::string> argument_names() const override { return {"query", "value", "key"}; }

  void build(const Nested<Shape>& shapes) override {
    const std::vector<Shape> all = shapes.flatten();
    for (const Shape& shape : all) {
      if (shape.rank() != 3) {
        throw_unimplemented(fmt::format("MultiHeadAttention '{}' takes (batch, steps, features), found shape {}", name(), shape.to_string()));
      }
    }
    if (all.size() < 2) throw_invalid_argument(fmt::format("MultiHeadAttention '{}' is called on {{query, value}} or {{query, value, key}}", name()));
    const Shape &query = all[0], &value = all[1], &key = all.size() > 2 ? all[2] : all[1];
    const std::int64_t heads = options_.num_heads, key_dim = options_.key_dim, value_dim = *options_.value_dim;
    query_ = projection("query", "query_dense", "abc,cde->abde", {kUnknownDim, heads, key_dim}, "de", query);
    key_ = projection("key", "key_dense", "abc,cde->abde", {kUnknownDim, heads, key_dim}, "de", key);
    value_ = projection("value", "value_dense", "abc,cde->abde", {kUnknownDim, heads, value_dim}, "de", value);
    softmax_ = Softmax({.axis = {3}, .dtype = dtype_policy()}).ptr();
    track("_softmax", softmax_);
    dropout_ = Dropout(options_.dropout, {.seed = options_.seed, .dtype = dtype_policy()}).ptr();
    track("_dropout_layer", dropout_);
    const std::int64_t out = options_.output_shape.is_null() ? query[-1] : output_size();
    output_ = projection("attention_output", "output_dense", "abcd,cde->abe", {kUnknownDim, out}, "e",
                         Shape{query[0], query[1], heads, value_dim});
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& query = inputs[0].leaf();
    const Tensor& value = inputs[1].leaf();
    const Tensor& key = inputs.items().size() > 2 ? inputs[2].leaf() : value;
    const Tensor query_mask = query.mask().defined() ? query.mask() : context.tensor("query_mask");
    const Tensor mask = attention_mask(query, value, inputs.items().size() > 2, query_mask, context);
    const Tensor q = (*query_)(query).leaf() * (1.0 / std::sqrt(static_cast<double>(options_.key_dim)));
    const Tensor k = (*key_)(key), v = (*value_)(value);
    const Tensor scores = ops::einsum("aecd,abcd->acbe", {k, q});
    CallOptions masked;
    if (mask.defined()) masked.mask = broadcast_mask(ops::expand_dims(mask, 1), scores);
    Tensor weights = (*softmax_)(scores, masked);
    const Tensor dropped = (*dropout_)(weights, {.training = context.training});
    Tensor output = (*output_)(ops::einsum("acbe,aecd->abcd", {dropped, v}));
    if (query_mask.defined()) output.set_mask(query_mask);
    if (const Json scores_too = context.value("return_attention_scores"); scores_too.is_boolean() && scores_too.get<bool>()) {
      return Structure::list({Structure(output), Structure(weights)});
    }
    return output;
  }
  // The query's mask is the output's.
  Structure compute_mask(const Structure& inputs, const Structure&, const Structure& outputs) override {
    if (!outputs.is_leaf()) return Tensor();
    return inputs[0].leaf().mask();
  }

 private:
  template <typename V>
  static void constant(V& v, const char* key, const Json& value) {
    if constexpr (std::is_same_v<V, FieldWriter>) {
      v(key, value);
    } else if constexpr (std::is_same_v<V, FieldReader>) {
      if (const Json* found = v.take(key); found && !found->is_null() && *found != value && *found != Json::array({1})) {
        throw_unimplemented(fmt::format("MultiHeadAttention: {} = {} is not supported", key, dump_json(*found)));
      }
    }
  }
  std::int64_t output_size() const {
    const Json& shape = options_.output_shape;
    if (shape.is_number_integer()) return shape.get<std::int64_t>();
    if (shape.is_array() && shape.size() == 1 && shape[0].is_number_integer()) return shape[0].get<std::int64_t>();
    throw_unimplemented(fmt::format("MultiHeadAttention '{}': output_shape {} must have one axis", name(), dump_json(shape)));
  }
  LayerPtr projection(const char* name, const char* attribute, const char* equation, std::vector<std::int64_t> shape,
                      const char* bias_axes, const Shape& input) {
    // Each projection draws its own seed, as a copy of the initializer made from its config does.
    EinsumDenseOptions o{.kernel_initializer = initializers::serialize(options_.kernel_initializer.object()),
                         .bias_initializer = initializers::serialize(options_.bias_initializer.object()),
                         .kernel_regularizer = options_.kernel_regularizer.object(),
                         .bias_regularizer = options_.bias_regularizer.object(),
                         .kernel_constraint = options_.kernel_constraint.object(),
                         .bias_constraint = options_.bias_constraint.object(),
                         .name = name,
                         .trainable = trainable(),
                         .dtype = dtype_policy()};
    if (options_.use_bias) o.bias_axes = bias_axes;
    LayerPtr layer = EinsumDense(equation, std::move(shape), std::move(o)).ptr();
    track(attribute, layer);
    layer->ensure_built(input);
    return layer;
  }
  static Tensor broadcast_mask(const Tensor& mask, const Tensor& scores) {
    return ops::broadcast_to(mask, ops::shape_of(scores));
  }
  Tensor attention_mask(const Tensor& query, const Tensor& value, bool has_key, const Tensor& query_mask, const CallContext& context) const {
    const auto boolean = [](const Tensor& t) { return ops::cast(t, DType::kBool); };
    Tensor mask;
    if (query_mask.defined()) mask = ops::expand_dims(boolean(query_mask), -1);
    if (const Tensor m = context.tensor("value_mask"); m.defined()) mask = both(mask, ops::expand_dims(boolean(m), -2));
    if (const Tensor m = context.tensor("key_mask"); has_key && m.defined()) mask = both(mask, ops::expand_dims(boolean(m), -2));
    if (const Json causal = context.value("use_causal_mask"); causal.is_boolean() && causal.get<bool>()) mask = both(mask, causal_mask(query, value));
    if (const Tensor m = context.tensor("attention_mask"); m.defined()) mask = both(boolean(m), mask);
    return mask;
  }

  LayerPtr query_, key_, value_, output_, softmax_, dropout_;
};

// Luong's and Bahdanau's attention differ in how a query and a key score.
template <typename Derived, typename Options>
class SequenceAttention : public ConfiguredLayer<Derived, Options> {
 public:
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultFalse; }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& q = inputs[0].leaf();
    const Tensor& v = inputs[1].leaf();
    Tensor scores = this->scores(q, inputs.items().size() > 2 ? inputs[2].leaf() : v);
    const std::vector<Tensor> masks = context.mask.flatten();
    Tensor mask = masks.size() > 1 && masks[1].defined() ? ops::expand_dims(ops::cast(masks[1], DType::kBool), -2) : Tensor();
    if (const Json causal = context.value("use_causal_mask"); causal.is_boolean() && causal.get<bool>()) mask = both(mask, causal_mask(q, v));
    if (mask.defined()) {
      const double low = scores.dtype() == DType::kFloat16 ? 65504.0 : 1e9;
      scores = scores - (1.0 - ops::cast(mask, scores.dtype())) * low;
    }
    Tensor weights = ops::softmax(scores, -1);
    const Tensor dropped = dropout_ ? (*dropout_)(weights, {.training = context.training}).leaf() : weights;
    Tensor output = ops::matmul(dropped, v);
    if (!masks.empty() && masks[0].defined()) output = output * ops::cast(ops::expand_dims(masks[0], -1), output.dtype());
    if (const Json too = context.value("return_attention_scores"); too.is_boolean() && too.get<bool>()) {
      return Structure::list({Structure(output), Structure(weights)});
    }
    return output;
  }
  Structure compute_mask(const Structure&, const Structure& mask, const Structure&) override {
    const std::vector<Tensor> masks = mask.flatten();
    return masks.empty() ? Tensor() : masks[0];
  }

 protected:
  explicit SequenceAttention(Options options) : ConfiguredLayer<Derived, Options>(std::move(options)) {
    const auto& o = this->options_;
    if (o.dropout > 0) dropout_ = Dropout(o.dropout, {.seed = o.seed, .dtype = this->dtype_policy()}).ptr();
  }
  virtual Tensor scores(const Tensor& query, const Tensor& key) const = 0;
  void check_inputs(const Nested<Shape>& shapes) const {
    if (!shapes.is_list() || shapes.items().size() < 2 || shapes.items().size() > 3) {
      throw_invalid_argument(fmt::format("{} '{}' takes a list of {{query, value}} or {{query, value, key}}", Derived::kClass, this->name()));
    }
  }

 private:
  LayerPtr dropout_;
};

class AttentionLayer : public SequenceAttention<AttentionLayer, AttentionOptions> {
 public:
  static constexpr const char* kClass = "Attention";
  template <typename V>
  static void fields(V& v, AttentionOptions& o) {
    v("use_scale", o.use_scale);
    v("score_mode", o.score_mode);
    v("dropout", o.dropout);
    v("seed", o.seed);
  }
  explicit AttentionLayer(AttentionOptions options) : SequenceAttention(std::move(options)) {
    if (options_.score_mode != "dot" && options_.score_mode != "concat") {
      throw_invalid_argument(fmt::format("Attention '{}': score_mode is '{}', expected 'dot' or 'concat'", name(), options_.score_mode));
    }
  }
  void build(const Nested<Shape>& shapes) override {
    check_inputs(shapes);
    if (options_.use_scale) scale_ = add_weight({.name = "scale", .shape = {}, .initializer = initializers::Ones()});
    if (options_.score_mode == "concat") weight_ = add_weight({.name = "concat_score_weight", .shape = {}, .initializer = initializers::Ones()});
  }

 private:
  Tensor scores(const Tensor& q, const Tensor& k) const override {
    if (!weight_) {
      const Tensor products = ops::matmul(q, k, false, true);
      return scale_ ? products * value(scale_) : products;
    }
    Tensor sum = ops::expand_dims(q, -2) + ops::expand_dims(k, -3);
    if (scale_) sum = sum * value(scale_);
    return value(weight_) * ops::reduce_sum(ops::tanh(sum), ops::Ints{-1});
  }
  VariablePtr scale_, weight_;
};

class AdditiveAttentionLayer : public SequenceAttention<AdditiveAttentionLayer, AdditiveAttentionOptions> {
 public:
  static constexpr const char* kClass = "AdditiveAttention";
  template <typename V>
  static void fields(V& v, AdditiveAttentionOptions& o) {
    v("use_scale", o.use_scale);
    v("dropout", o.dropout);
    v("seed", o.seed);
  }
  explicit AdditiveAttentionLayer(AdditiveAttentionOptions options) : SequenceAttention(std::move(options)) {}
  void build(const Nested<Shape>& shapes) override {
    check_inputs(shapes);
    if (!options_.use_scale) return;
    scale_ = add_weight({.name = "scale", .shape = {shapes.items()[0].leaf()[-1]}, .initializer = initializers::GlorotUniform()});
  }

 private:
  Tensor scores(const Tensor& q, const Tensor& k) const override {
    const Tensor sum = ops::tanh(ops::expand_dims(q, -2) + ops::expand_dims(k, -3));
    return ops::reduce_sum(scale_ ? value(scale_) * sum : sum, ops::Ints{-1});
  }
  VariablePtr scale_;
};

}  // namespace

void register_attention_layers(LayerRegistry& registry) {
  registry.add(layer_row<MultiHeadAttentionLayer>());
  registry.add(layer_row<AttentionLayer>());
  registry.add(layer_row<AdditiveAttentionLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle MultiHeadAttention(std::int64_t num_heads, std::int64_t key_dim, MultiHeadAttentionOptions options) {
  options.num_heads = num_heads;
  options.key_dim = key_dim;
  return std::make_shared<keras::MultiHeadAttentionLayer>(std::move(options));
}
LayerHandle Attention(AttentionOptions options) { return std::make_shared<keras::AttentionLayer>(std::move(options)); }
LayerHandle AdditiveAttention(AdditiveAttentionOptions options) {
  return std::make_shared<keras::AdditiveAttentionLayer>(std::move(options));
}

}  // namespace lockstep::layers
