#include "lockstep/keras/layers/attention.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/attention_masks_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/regularization.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// Luong's and Bahdanau's attention differ in how a query and a key score.
template <typename Derived, typename Options>
class SequenceAttention : public ConfiguredLayer<Derived, Options> {
 public:
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultFalse; }
  std::vector<std::string> call_parameters() const override {
    return {"inputs", "mask", "training", "return_attention_scores", "use_causal_mask"};
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& q = inputs[0].leaf();
    const Tensor& v = inputs[1].leaf();
    Tensor scores = this->scores(q, inputs.parts().size() > 2 ? inputs[2].leaf() : v);
    const std::vector<Tensor> masks = context.mask.flatten();
    Tensor mask =
        masks.size() > 1 && masks[1].defined() ? ops::expand_dims(ops::cast(masks[1], DType::kBool), -2) : Tensor();
    if (const Json causal = context.value("use_causal_mask"); causal.is_boolean() && causal.get<bool>())
      mask = both_masks(mask, causal_mask(q, v));
    if (mask.defined()) {
      const double low = scores.dtype() == DType::kFloat16 ? 65504.0 : 1e9;
      scores = scores - (1.0 - ops::cast(mask, scores.dtype())) * low;
    }
    Tensor weights = ops::softmax(scores, -1);
    if (dropout_) weights = (*dropout_)(weights, {.training = context.training}).leaf();
    const bool number = is_floating(v.dtype());
    Tensor output = ops::matmul(weights, number ? v : ops::cast(v, weights.dtype()));
    if (!masks.empty() && masks[0].defined())
      output = output * ops::cast(ops::expand_dims(masks[0], -1), output.dtype());
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
    if (!shapes.is_list() || shapes.parts().size() < 2 || shapes.parts().size() > 3) {
      throw_invalid_argument(fmt::format("{} '{}' takes a list of {{query, value}} or {{query, value, key}}",
                                         Derived::kClass, this->name()));
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
      throw_invalid_argument(
          fmt::format("Attention '{}': score_mode is '{}', expected 'dot' or 'concat'", name(), options_.score_mode));
    }
  }
  void build(const Nested<Shape>& shapes) override {
    check_inputs(shapes);
    if (options_.use_scale) scale_ = add_weight({.shape = {}, .initializer = initializers::Ones(), .name = "scale"});
    if (options_.score_mode == "concat")
      weight_ = add_weight({.shape = {}, .initializer = initializers::Ones(), .name = "concat_score_weight"});
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
    scale_ = add_weight(
        {.shape = {shapes.parts()[0].leaf()[-1]}, .initializer = initializers::GlorotUniform(), .name = "scale"});
  }

 private:
  Tensor scores(const Tensor& q, const Tensor& k) const override {
    const Tensor both = ops::expand_dims(q, -2) + ops::expand_dims(k, -3);
    const Tensor sum = ops::tanh(is_floating(both.dtype()) ? both : ops::cast(both, DType::kFloat32));
    return ops::reduce_sum(scale_ ? value(scale_) * sum : sum, ops::Ints{-1});
  }
  VariablePtr scale_;
};

}  // namespace

void register_attention_layers(ClassTable& registry) {
  register_multi_head_attention(registry);
  registry.add(layer_row<AttentionLayer>());
  registry.add(layer_row<AdditiveAttentionLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Attention(AttentionOptions options) { return std::make_shared<keras::AttentionLayer>(std::move(options)); }
LayerHandle AdditiveAttention(AdditiveAttentionOptions options) {
  return std::make_shared<keras::AdditiveAttentionLayer>(std::move(options));
}

}  // namespace lockstep::layers
