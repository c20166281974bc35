// BatchNormalization over several axes, which Keras 2 has: weights of the rank of the inputs, 1 along the other axes.
#include "lockstep/keras/layers/multi_axis_normalization_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/layers/normalization.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

struct MultiAxisOptions : BatchNormalizationOptions {
  std::vector<std::int64_t> axes = {};
};

class MultiAxisNormalizationLayer : public ConfiguredLayer<MultiAxisNormalizationLayer, MultiAxisOptions> {
 public:
  static constexpr const char* kClass = "BatchNormalization";
  template <typename V>
  static void fields(V& v, MultiAxisOptions& o) {
    v.dropped("fused", false);
    v.dropped("fused_statistics");
    v.dropped("virtual_batch_size", -1);
    v.dropped("synchronized", false);
    v.dropped("renorm", false);
    v("axis", o.axes);
    v("momentum", o.momentum);
    v("epsilon", o.epsilon);
    v("center", o.center);
    v("scale", o.scale);
    v("beta_initializer", o.beta_initializer);
    v("gamma_initializer", o.gamma_initializer);
    v("moving_mean_initializer", o.moving_mean_initializer);
    v("moving_variance_initializer", o.moving_variance_initializer);
    v("beta_regularizer", o.beta_regularizer);
    v("gamma_regularizer", o.gamma_regularizer);
    v("beta_constraint", o.beta_constraint);
    v("gamma_constraint", o.gamma_constraint);
  }
  explicit MultiAxisNormalizationLayer(MultiAxisOptions options) : ConfiguredLayer(std::move(options)) {}

  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  std::vector<std::string> call_parameters() const override { return {"inputs", "training", "mask"}; }

  void build(const Nested<Shape>& shapes) override {
    const Shape& given = shapes.leaf();
    const auto rank = static_cast<std::int64_t>(given.rank());
    Shape shape(std::vector<std::int64_t>(static_cast<std::size_t>(rank), 1));
    std::vector<std::int64_t> axes;
    for (const std::int64_t axis : options_.axes) {
      const std::int64_t at = axis < 0 ? axis + rank : axis;
      if (at < 1 || at >= rank || given[static_cast<int>(at)] == kUnknownDim ||
          std::find(axes.begin(), axes.end(), at) != axes.end()) {
        throw_invalid_argument(
            fmt::format("BatchNormalization '{}': axis {} of its inputs, {}, must be known, other than the batch, and "
                        "named once",
                        name(), axis, given.to_string()));
      }
      shape[static_cast<int>(at)] = given[static_cast<int>(at)];
      axes.push_back(at);
    }
    options_.axes = std::move(axes);
    const auto add = [&](const char* weight, const initializers::InitializerArg& initializer, bool trainable,
                         regularizers::RegularizerPtr regularizer = nullptr,
                         constraints::ConstraintPtr constraint = nullptr) {
      return add_weight(
          {.shape = shape,
           .initializer = initializer.object(),
           .trainable = trainable,
           .autocast = false,
           .regularizer = std::move(regularizer),
           .constraint = std::move(constraint),
           .aggregation = trainable ? distribute::VariableAggregation::kNone : distribute::VariableAggregation::kMean,
           .name = weight});
    };
    if (options_.scale)
      gamma_ = add("gamma", options_.gamma_initializer, true, options_.gamma_regularizer.object(),
                   options_.gamma_constraint.object());
    if (options_.center)
      beta_ = add("beta", options_.beta_initializer, true, options_.beta_regularizer.object(),
                  options_.beta_constraint.object());
    moving_mean_ = add("moving_mean", options_.moving_mean_initializer, false);
    moving_variance_ = add("moving_variance", options_.moving_variance_initializer, false);
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const DType dtype = inputs.leaf().dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const Tensor x = ops::cast(inputs.leaf(), dtype);
    Tensor mean = ops::cast(moving_mean_->read(), dtype), variance = ops::cast(moving_variance_->read(), dtype);
    if (context.training && trainable()) {
      ops::Ints others;
      for (int i = 0; i < x.rank(); ++i) {
        if (!kept(i)) others.push_back(i);
      }
      const Tensor mask = context.mask.is_leaf() ? context.mask.leaf() : Tensor();
      const Tensor weight = mask.defined() ? ops::expand_dims(ops::cast(mask, dtype), -1) : ops::ones_like(x);
      const auto sum = [&](const Tensor& t) { return ops::reduce_sum(t, others, true); };
      const Tensor count = sum(ops::broadcast_to(weight, ops::shape_of(x)));
      const Tensor total = mask.defined() ? count + backend::epsilon() : count;
      const Tensor found = sum(x * weight) / total;
      const Tensor spread = sum(ops::square(x - found) * weight) / total;
      update(moving_mean_, mean, found);
      update(moving_variance_, variance, spread);
      mean = found;
      variance = spread;
    }
    Tensor factor = ops::rsqrt(variance + options_.epsilon.value);
    if (gamma_) factor = factor * ops::cast(gamma_->read(), dtype);
    Tensor shift = ops::neg(mean * factor);
    if (beta_) shift = shift + ops::cast(beta_->read(), dtype);
    return ops::cast(x * factor + shift, compute_dtype());
  }

 private:
  bool kept(std::int64_t axis) const {
    return std::find(options_.axes.begin(), options_.axes.end(), axis) != options_.axes.end();
  }
  void update(const VariablePtr& moving, const Tensor& old, const Tensor& batch) const {
    const double momentum = options_.momentum;
    const Tensor value = old * momentum + batch * (1.0 - momentum);
    moving->assign(ops::cast(ops::stop_gradient(value), moving->dtype()));
  }

  VariablePtr gamma_, beta_, moving_mean_, moving_variance_;
};

}  // namespace

ClassRow with_several_axes(ClassRow row) {
  row.make = [make = row.make, several = layer_row<MultiAxisNormalizationLayer>().make](const Json& config) {
    const bool list = config.is_object() && config.contains("axis") && config["axis"].is_array();
    return list && config["axis"].size() > 1 ? several(config) : make(config);
  };
  return row;
}

}  // namespace lockstep::keras
