// BatchNormalization over several axes, which Keras 2 has: weights of the rank of the inputs, 1 along the other axes.
#include "lockstep/keras/layers/multi_axis_normalization_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/layers/batch_normalization_internal.h"
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
    batch_normalization_fields(v, o);
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
    weights_ = add_batch_normalization_weights(options_, shape,
                                               [&](WeightOptions weight) { return add_weight(std::move(weight)); });
  }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const DType dtype = wide(inputs.leaf().dtype());
    const Tensor x = ops::cast(inputs.leaf(), dtype);
    Tensor mean = read_as(weights_.moving_mean, dtype), variance = read_as(weights_.moving_variance, dtype);
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
      assign_as(weights_.moving_mean, moving_average(mean, found, options_.momentum));
      assign_as(weights_.moving_variance, moving_average(variance, spread, options_.momentum));
      mean = found;
      variance = spread;
    }
    Tensor factor = ops::rsqrt(variance + options_.epsilon.value);
    if (weights_.gamma) factor = factor * read_as(weights_.gamma, dtype);
    Tensor shift = ops::neg(mean * factor);
    if (weights_.beta) shift = shift + read_as(weights_.beta, dtype);
    return ops::cast(x * factor + shift, compute_dtype());
  }

 private:
  bool kept(std::int64_t axis) const {
    return std::find(options_.axes.begin(), options_.axes.end(), axis) != options_.axes.end();
  }

  BatchNormalizationWeights weights_;
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
