// Attention with several heads. Its einsum equations are those of Keras's MultiHeadAttention.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/activation.h"
#include "lockstep/keras/layers/attention.h"
#include "lockstep/keras/layers/attention_masks_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/regularization.h"
#include "lockstep/keras/layers/weight_fields_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {

Tensor causal_mask(const Tensor& query, const Tensor& key) {
  const Tensor ones =
      ops::fill(ops::stack({ops::dim_of(query, 1), ops::dim_of(key, 1)}), Tensor::scalar(1.0, DType::kFloat32));
  return ops::expand_dims(ops::cast(ops::matrix_band_part(ones, -1, 0), DType::kBool), 0);
}

Tensor sliding_window_mask(const Tensor& query, const Tensor& key, std::int64_t window) {
  const auto steps = [](const Tensor& x, int axis) {
    return ops::expand_dims(ops::range(Tensor::scalar(0), ops::dim_of(x, 1), Tensor::scalar(1)), axis);
  };
  const Tensor apart = ops::abs(steps(query, 1) - steps(key, 0));
  return ops::expand_dims(
      ops::less(apart, Tensor::scalar(static_cast<std::int32_t>(std::min<std::int64_t>(window, INT32_MAX)))), 0);
}

Tensor both_masks(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? ops::logical_and(a, b) : a;
}

namespace {

using namespace layers;

Tensor boolean(const Tensor& t) { return ops::cast(t, DType::kBool); }

bool is_true(const Json& value) { return value.is_boolean() && value.get<bool>(); }

// Letters of einsum equations, counted from 'a'.
std::string letters(int begin, int count) {
  std::string out;
  for (int i = begin; i < begin + count; ++i) out += static_cast<char>('a' + i);
  return out;
}

struct Projection {
  std::string equation, bias_axes;
};
// The last `bound` axes of the input are summed over; `free` ones before them stay, `made` new ones follow.
Projection projection_equation(int free, int bound, int made) {
  const std::string kept = letters(0, free), summed = letters(free, bound), fresh = letters(free + bound, made);
  return {kept + summed + "," + summed + fresh + "->" + kept + fresh, fresh};
}

// What MultiHeadAttention and GroupQueryAttention do alike: projections, masks, and the attention itself.
template <typename Derived, typename Options>
class HeadsLayer : public ConfiguredLayer<Derived, Options>, public MaskedSoftmax {
 public:
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kOptional; }
  std::vector<std::string> argument_names() const override { return {"query", "value", "key"}; }
  std::vector<std::string> call_parameters() const override {
    return {"query",
            "value",
            "key",
            "query_mask",
            "value_mask",
            "key_mask",
            "attention_mask",
            "return_attention_scores",
            "training",
            "use_causal_mask"};
  }
  // With the policies of projections that are quantized, without which such a layer could not be read again.
  Json get_config() const override {
    Json config = ConfiguredLayer<Derived, Options>::get_config();
    std::vector<std::pair<std::string, DTypePolicy>> quantized;
    for (const LayerPtr& layer : this->sublayers()) {
      const DTypePolicy& policy = layer->dtype_policy();
      if (policy.quantization_mode().empty() || policy.is_map()) continue;
      const std::string& path = layer->own_weights().front().variable->path();
      quantized.emplace_back(path.substr(0, path.rfind('/')), policy);
    }
    if (!quantized.empty()) config["dtype"] = DTypePolicy::map(this->dtype_policy(), std::move(quantized)).serialize();
    return config;
  }
  // The query's mask is the output's.
  Structure compute_mask(const Structure& inputs, const Structure&, const Structure& outputs) override {
    const Tensor mask = inputs[0].leaf().mask();
    if (takes_masks()) take_masks(inputs);
    if (masks_ != Masks::kZero && outputs.is_list()) return Structure::list({Structure(mask), Structure(Tensor())});
    return outputs.is_leaf() ? mask : Tensor();
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& query = inputs[0].leaf();
    const Tensor& value = inputs[1].leaf();
    const bool has_key = inputs.parts().size() > 2;
    const Tensor query_mask = query.mask();  // Keras puts it in the place of a query_mask that was given
    const Tensor mask = attention_mask(query, value, has_key, query_mask, context);
    if (takes_masks()) take_masks(inputs);
    const bool scores_too = is_true(context.value("return_attention_scores"));
    const Tensor gate = gate_ ? (*gate_)(query).leaf() : Tensor();
    const Tensor q = (*query_)(query), k = heads_of((*key_)(has_key ? inputs[2].leaf() : value)),
                 v = heads_of((*value_)(value));
    Tensor weights, heads;
    const bool old = masks_ != Masks::kZero;
    // Where a number is added, gradients pass rows that see nothing.
    const bool passes = masks_ == Masks::kAdded && mask.defined() && ops::grad_enabled();
    if (auto fused = scores_too || passes ? std::nullopt : fused_attention(q, k, v, mask, context)) {
      heads = *std::move(fused);
    } else {
      heads = old || this->options_.dropout > 0 || scores_too || q.rank() != 4
                  ? explicit_attention(q, k, v, mask, context, weights)
                  : dot_product_attention(q, k, v, mask);
    }
    if (gate.defined()) heads = heads * gate;
    Tensor output = (*output_)(heads);
    if (query_mask.defined()) output.set_mask(query_mask);
    const auto& regularizer = this->options_.activity_regularizer;
    if (old && scores_too && !regularizer.empty())
      this->add_loss(
          ops::div_no_nan((*regularizer.object())(weights), ops::cast(ops::dim_of(weights, 0), weights.dtype())));
    if (scores_too) return Structure::list({Structure(output), Structure(weights)});
    return output;
  }

 protected:
  explicit HeadsLayer(Options options) : ConfiguredLayer<Derived, Options>(std::move(options)) {
    const auto& window = this->options_.sliding_window;
    if (window && *window < 1) {
      throw_invalid_argument(fmt::format("{} '{}': sliding_window is {}, expected a positive integer", Derived::kClass,
                                         this->name(), *window));
    }
    // Keras copies them for each projection.
    if (this->options_.kernel_initializer.empty() || this->options_.bias_initializer.empty()) {
      throw_invalid_argument(
          fmt::format("{} '{}': kernel_initializer and bias_initializer must be initializers, found None",
                      Derived::kClass, this->name()));
    }
  }
  std::vector<Shape> input_shapes(const Nested<Shape>& shapes) const {
    std::vector<Shape> all = shapes.flatten();
    if (all.size() < 2)
      throw_invalid_argument(
          fmt::format("{} '{}' is called on {{query, value}} or {{query, value, key}}", Derived::kClass, this->name()));
    if (all.size() == 2) all.push_back(all[1]);
    return all;
  }
  // As in Keras, the constructor's `trainable` does not reach the projections.
  // Each projection draws its own seed, as a copy of the initializer made from its config does.
  LayerPtr projection(const char* name, const std::string& attribute, const Projection& how,
                      std::vector<std::int64_t> shape, const Shape& input, const char* activation = nullptr) {
    const auto& own = this->options_;
    // In Keras 2 the activity regularizer is that of the whole layer.
    const bool regularizes = masks_ == Masks::kZero || std::string_view(name) == "attention_output";
    EinsumDenseOptions o{.kernel_initializer = initializers::serialize(own.kernel_initializer.object()),
                         .bias_initializer = initializers::serialize(own.bias_initializer.object()),
                         .kernel_regularizer = own.kernel_regularizer.object(),
                         .bias_regularizer = own.bias_regularizer.object(),
                         .activity_regularizer = regularizes ? own.activity_regularizer.object() : nullptr,
                         .kernel_constraint = own.kernel_constraint.object(),
                         .bias_constraint = own.bias_constraint.object(),
                         .name = name,
                         .dtype = this->dtype_policy()};
    if (activation) o.activation = activation;
    if (own.use_bias) o.bias_axes = how.bias_axes;
    LayerPtr layer = EinsumDense(how.equation, std::move(shape), std::move(o)).ptr();
    this->track(attribute, layer);
    layer->ensure_built(input);
    return layer;
  }
  void make_softmax(std::vector<std::int64_t> axes) {
    softmax_ = Softmax({.axis = std::move(axes), .dtype = this->dtype_policy()}).ptr();
    if (masks_ != Masks::kZero) dynamic_cast<MaskedSoftmax&>(*softmax_).add_masks(masks_ == Masks::kReplaced);
    this->track("_softmax", softmax_);
    dropout_ = Dropout(this->options_.dropout, {.seed = this->options_.seed, .dtype = this->dtype_policy()}).ptr();
    this->track("_dropout_layer", dropout_);
  }
  // Keys and values of each query head.
  virtual Tensor heads_of(const Tensor& projected) const { return projected; }
  virtual double head_size() const = 0;

  LayerPtr query_, key_, gate_, value_, output_, softmax_, dropout_;
  std::string scores_equation_, combine_equation_;  // of (key, query), and of (scores, value)
  int mask_axis_ = -3;                              // where a mask gets axes for the heads

 private:
  // In Keras 2 other layers still see them.
  bool takes_masks() const { return Derived::kTakesMasks && masks_ == Masks::kZero; }
  static void take_masks(const Structure& inputs) {
    for (const Tensor& given : inputs.flatten()) given.set_mask(Tensor());
  }
  Tensor attention_mask(const Tensor& query, const Tensor& value, bool has_key, const Tensor& query_mask,
                        const CallContext& context) const {
    Tensor mask;
    if (query_mask.defined()) mask = ops::expand_dims(boolean(query_mask), -1);
    if (const Tensor m = context.tensor("value_mask"); m.defined())
      mask = both_masks(mask, ops::expand_dims(boolean(m), -2));
    if (const Tensor m = context.tensor("key_mask"); has_key && m.defined())
      mask = both_masks(mask, ops::expand_dims(boolean(m), -2));
    if (is_true(context.value("use_causal_mask"))) mask = both_masks(mask, causal_mask(query, value));
    if (this->options_.sliding_window)
      mask = both_masks(mask, sliding_window_mask(query, value, *this->options_.sliding_window));
    if (const Tensor m = context.tensor("attention_mask"); m.defined()) mask = both_masks(boolean(m), mask);
    return mask;
  }
  Tensor expanded(Tensor mask, const Tensor& scores) const {
    while (mask.rank() < scores.rank()) mask = ops::expand_dims(mask, mask_axis_);
    return ops::broadcast_to(mask, ops::shape_of(scores));
  }
  // Both of the following as one operation.
  std::optional<Tensor> fused_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor mask,
                                        const CallContext& context) const {
    if (!q.is_value() || q.dtype() != DType::kFloat32 || q.rank() != 4) return std::nullopt;
    while (mask.defined() && mask.rank() < 4) mask = ops::expand_dims(mask, mask_axis_);
    const bool drops = this->options_.dropout > 0;
    Tensor factors;
    if (drops && context.training) {
      const Tensor ones = Tensor::full({q.dim(0), q.dim(2), q.dim(1), k.dim(1)}, 1.0, DType::kFloat32);
      factors = (*dropout_)(ones, {.training = true}).leaf();
    }
    return ops::try_attention(
        q, k, v, mask, factors,
        {.scale = 1.0 / std::sqrt(head_size()), .blind_rows_are_zero = drops && masks_ == Masks::kZero});
  }
  // As keras.ops.dot_product_attention: a row that sees nothing sees everything alike.
  Tensor dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) const {
    Tensor scores = ops::einsum("bqhd,bkhd->bhqk", {q, k});
    if (scores.dtype() != DType::kFloat64) scores = ops::cast(scores, DType::kFloat32);
    scores = scores * (1.0 / std::sqrt(head_size()));
    if (mask.defined()) {
      const double low = -0.7 * (scores.dtype() == DType::kFloat64 ? std::numeric_limits<double>::max()
                                                                   : std::numeric_limits<float>::max());
      scores = ops::where(expanded(mask, scores), scores, ops::zeros_like(scores) + low);
    }
    return ops::einsum("bhqk,bkhd->bqhd", {ops::cast(ops::softmax(scores, -1), k.dtype()), v});
  }
  // With scores that are dropped or returned: a row that sees nothing is zero, but in Keras 2.
  Tensor explicit_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                            const CallContext& context, Tensor& weights) {
    const Tensor scores = ops::einsum(scores_equation_, {k, q * (1.0 / std::sqrt(head_size()))});
    CallOptions masked;
    if (mask.defined()) masked.mask = expanded(mask, scores);
    weights = (*softmax_)(scores, masked);
    return ops::einsum(combine_equation_, {(*dropout_)(weights, {.training = context.training}).leaf(), v});
  }
};

template <typename V, typename Options>
void regularized_fields(V& v, Options& o) {
  kernel_and_bias_fields(v, o);
  v("seed", o.seed);
}

class MultiHeadAttentionLayer : public HeadsLayer<MultiHeadAttentionLayer, MultiHeadAttentionOptions> {
 public:
  static constexpr const char* kClass = "MultiHeadAttention";
  // As in Keras, tensors that went through it have no mask any more, for other layers neither.
  static constexpr bool kTakesMasks = true;
  static constexpr bool kRegularizesParts = true;
  template <typename V>
  static void fields(V& v, MultiHeadAttentionOptions& o) {
    v("num_heads", o.num_heads, Field::kRequired);
    v("key_dim", o.key_dim, Field::kRequired);
    v("value_dim", o.value_dim);
    v("dropout", o.dropout);
    v("use_bias", o.use_bias);
    v("use_gate", o.use_gate);
    v("output_shape", o.output_shape);
    v("attention_axes", o.attention_axes);
    v("sliding_window", o.sliding_window);
    regularized_fields(v, o);
    v.dropped("query_shape");
    v.dropped("key_shape");
    v.dropped("value_shape");
    v.dropped("softmax_robust_masking");
  }
  explicit MultiHeadAttentionLayer(MultiHeadAttentionOptions options) : HeadsLayer(std::move(options)) {
    if (!options_.value_dim) options_.value_dim = options_.key_dim;
    if (options_.num_heads < 1 || options_.key_dim < 1 || *options_.value_dim < 1) {
      throw_invalid_argument(
          fmt::format("MultiHeadAttention '{}': num_heads {}, key_dim {} and value_dim {} must be at least 1", name(),
                      options_.num_heads, options_.key_dim, *options_.value_dim));
    }
  }

  void build(const Nested<Shape>& shapes) override {
    const std::vector<Shape> all = input_shapes(shapes);
    for (const Shape& shape : all) {
      if (shape.rank() < 3 || shape.rank() > 9 || shape.rank() != all[0].rank()) {
        throw_invalid_argument(
            fmt::format("MultiHeadAttention '{}' takes inputs (batch, steps, features) of one rank, found {}", name(),
                        shape.to_string()));
      }
    }
    const Shape& query = all[0];
    const int free = query.rank() - 1;
    const std::int64_t heads = options_.num_heads, key_dim = options_.key_dim, value_dim = *options_.value_dim;
    const Projection into = projection_equation(free, 1, 2);
    query_ = projection("query", "query_dense", into, with_unknown(free - 1, {heads, key_dim}), query);
    key_ = projection("key", "key_dense", into, with_unknown(free - 1, {heads, key_dim}), all[2]);
    if (options_.use_gate)
      gate_ = projection("gate", "_gate_dense", into, with_unknown(free - 1, {heads, value_dim}), query, "sigmoid");
    value_ = projection("value", "value_dense", into, with_unknown(free - 1, {heads, value_dim}), all[1]);
    build_equations(query.rank() + 1);
    const std::vector<std::int64_t> out = output_sizes(query[-1]);
    Shape combined = query;
    combined[-1] = heads;
    combined.push_back(value_dim);
    output_ = projection("attention_output", "output_dense", projection_equation(free, 2, static_cast<int>(out.size())),
                         with_unknown(free - 1, out), combined);
  }

 private:
  double head_size() const override { return static_cast<double>(options_.key_dim); }
  static std::vector<std::int64_t> with_unknown(int count, std::vector<std::int64_t> sizes) {
    sizes.insert(sizes.begin(), static_cast<std::size_t>(count), kUnknownDim);
    return sizes;
  }
  std::vector<std::int64_t> output_sizes(std::int64_t query_size) const {
    const Json& shape = options_.output_shape;
    if (shape.is_null()) return {query_size};
    if (shape.is_number_integer()) return {shape.get<std::int64_t>()};
    const std::vector<std::int64_t> sizes =
        shape_from_json(shape, fmt::format("MultiHeadAttention '{}': output_shape", name())).dims();
    return sizes.empty() ? std::vector<std::int64_t>{query_size} : sizes;
  }
  // Of projected tensors of this rank: (batch…, attention axes…, heads, size).
  void build_equations(int rank) {
    std::vector<std::int64_t>& axes =
        options_.attention_axes.emplace(options_.attention_axes.value_or(std::vector<std::int64_t>{}));
    if (axes.empty()) {
      for (int i = 1; i < rank - 2; ++i) axes.push_back(i);
    }
    std::string product, seen, target = letters(0, rank), source = target;
    for (std::int64_t& axis : axes) {
      if (axis < 0) axis += rank - 1;
      if (axis < 0 || axis >= rank - 1 ||
          source[static_cast<std::size_t>(axis)] != target[static_cast<std::size_t>(axis)]) {
        throw_invalid_argument(fmt::format("MultiHeadAttention '{}': attention_axes {} do not fit inputs of {} axes",
                                           name(), Json(axes).dump(), rank - 1));
      }
      const auto at = static_cast<std::size_t>(axis);
      source[at] = static_cast<char>('a' + rank + static_cast<int>(seen.size()));
      seen += source[at];
    }
    for (std::size_t i = 0; i + 1 < target.size(); ++i) {
      if (source[i] == target[i]) product += target[i];
    }
    for (std::int64_t axis : axes) product += target[static_cast<std::size_t>(axis)];
    product += seen;
    scores_equation_ = source + "," + target + "->" + product;
    combine_equation_ = product + "," + source + "->" + target;
    const int count = static_cast<int>(axes.size());
    mask_axis_ = -2 * count - 1;
    std::vector<std::int64_t> normalized;
    for (int i = 0; i < count; ++i) normalized.push_back(static_cast<int>(product.size()) - count + i);
    make_softmax(std::move(normalized));
  }
};

class GroupedQueryAttentionLayer : public HeadsLayer<GroupedQueryAttentionLayer, GroupQueryAttentionOptions> {
 public:
  static constexpr const char* kClass = "GroupQueryAttention";
  static constexpr bool kTakesMasks = false;
  template <typename V>
  static void fields(V& v, GroupQueryAttentionOptions& o) {
    v("head_dim", o.head_dim, Field::kRequired);
    v("num_query_heads", o.num_query_heads, Field::kRequired);
    v("num_key_value_heads", o.num_key_value_heads, Field::kRequired);
    v("use_bias", o.use_bias);
    v("use_gate", o.use_gate);
    v("sliding_window", o.sliding_window);
    v("dropout", o.dropout);
    regularized_fields(v, o);
  }
  explicit GroupedQueryAttentionLayer(GroupQueryAttentionOptions options) : HeadsLayer(std::move(options)) {
    const auto& o = options_;
    if (o.head_dim < 1 || o.num_query_heads < 1 || o.num_key_value_heads < 1 ||
        o.num_query_heads % o.num_key_value_heads != 0) {
      throw_invalid_argument(
          fmt::format("GroupQueryAttention '{}': head_dim {} must be at least 1, and num_query_heads {} a multiple of "
                      "num_key_value_heads {}",
                      name(), o.head_dim, o.num_query_heads, o.num_key_value_heads));
    }
  }
  void build(const Nested<Shape>& shapes) override {
    const std::vector<Shape> all = input_shapes(shapes);
    for (const Shape& shape : all) {
      if (shape.rank() != 3)
        throw_invalid_argument(fmt::format("GroupQueryAttention '{}' takes (batch, steps, features), found {}", name(),
                                           shape.to_string()));
    }
    const Shape& query = all[0];
    const std::int64_t heads = options_.num_query_heads, groups = options_.num_key_value_heads,
                       size = options_.head_dim;
    query_ = projection("query", "_query_dense", {"bqm,muh->bquh", "uh"}, {kUnknownDim, heads, size}, query);
    key_ = projection("key", "_key_dense", {"bkm,mvh->bkvh", "vh"}, {kUnknownDim, groups, size}, all[2]);
    if (options_.use_gate)
      gate_ = projection("gate", "_gate_dense", {"bqm,muh->bquh", "uh"}, {kUnknownDim, heads, size}, query, "sigmoid");
    value_ = projection("value", "_value_dense", {"bkm,mvh->bkvh", "vh"}, {kUnknownDim, groups, size}, all[1]);
    scores_equation_ = "bkuh,bquh->buqk";
    combine_equation_ = "buqk,bkuh->bquh";
    make_softmax({-1});
    output_ = projection("attention_output", "_output_dense", {"bquh,uhm->bqm", "m"}, {kUnknownDim, query[-1]},
                         Shape{query[0], query[1], heads, size});
  }

 private:
  double head_size() const override { return static_cast<double>(options_.head_dim); }
  Tensor heads_of(const Tensor& projected) const override {
    const std::int64_t copies = options_.num_query_heads / options_.num_key_value_heads;
    if (copies == 1) return projected;
    const Tensor copied = ops::tile(ops::expand_dims(projected, 3), {1, 1, 1, copies, 1});
    const Tensor rows = ops::dim_of(projected, 0), steps = ops::dim_of(projected, 1);
    return ops::reshape(
        copied,
        ops::concat({ops::stack({rows, steps}), ops::constant_ints({options_.num_query_heads, options_.head_dim})}, 0));
  }
};

}  // namespace

void register_multi_head_attention(ClassTable& registry) {
  registry.add(masked_softmax_row<MultiHeadAttentionLayer>());
  registry.add(layer_row<GroupedQueryAttentionLayer>({"GroupedQueryAttention"}));
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle MultiHeadAttention(std::int64_t num_heads, std::int64_t key_dim, MultiHeadAttentionOptions options) {
  options.num_heads = num_heads;
  options.key_dim = key_dim;
  return std::make_shared<keras::MultiHeadAttentionLayer>(std::move(options));
}
LayerHandle GroupQueryAttention(std::int64_t head_dim, std::int64_t num_query_heads, std::int64_t num_key_value_heads,
                                GroupQueryAttentionOptions options) {
  options.head_dim = head_dim;
  options.num_query_heads = num_query_heads;
  options.num_key_value_heads = num_key_value_heads;
  return std::make_shared<keras::GroupedQueryAttentionLayer>(std::move(options));
}

}  // namespace lockstep::layers
