#include "lockstep/keras/losses/loss.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/fields_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::losses {
namespace {

// Keras computes losses in floatx. The cast drops the logits of a softmax or sigmoid, as in Keras.
Tensor to_float32(const Tensor& x) { return x.dtype() == DType::kFloat32 ? x : ops::cast(x, DType::kFloat32); }

Tensor weight_and_mask(const Tensor& weight, const Tensor& mask) {
  if (!mask.defined()) return weight;
  if (!weight.defined()) return mask;
  auto [a, b] = squeeze_or_expand_to_same_rank(mask, weight);
  return a * b;
}

Tensor count_of(const Tensor& values) {
  if (!values.shape().fully_known()) return ops::cast(ops::size_of(values), DType::kFloat32);
  return Tensor::scalar(static_cast<float>(*values.shape().num_elements()));
}

}  // namespace

Loss::~Loss() = default;

Reduction parse_reduction(std::string_view text) {
  if (text == "sum_over_batch_size" || text == "auto") return Reduction::kSumOverBatchSize;
  if (text == "mean") return Reduction::kMean;
  if (text == "sum") return Reduction::kSum;
  if (text == "none" || text.empty()) return Reduction::kNone;
  if (text == "mean_with_sample_weight") return Reduction::kMeanWithSampleWeight;
  throw_invalid_argument(fmt::format(
      "unknown loss reduction '{}', expected sum_over_batch_size, mean, mean_with_sample_weight, sum or none", text));
}

std::string_view reduction_name(Reduction reduction) {
  switch (reduction) {
    case Reduction::kNone: return "none";
    case Reduction::kSum: return "sum";
    case Reduction::kSumOverBatchSize: return "sum_over_batch_size";
    case Reduction::kMean: return "mean";
    case Reduction::kMeanWithSampleWeight: return "mean_with_sample_weight";
  }
  return "none";
}

std::pair<Tensor, Tensor> squeeze_or_expand_to_same_rank(Tensor a, Tensor b, bool expand_rank_1) {
  if (a.rank() == b.rank() + 1 && a.dim(-1) == 1) {
    if (b.rank() == 1 && expand_rank_1) {
      b = ops::expand_dims(b, -1);
    } else {
      a = ops::squeeze(a, {-1});
    }
  } else if (b.rank() == a.rank() + 1 && b.dim(-1) == 1) {
    if (a.rank() == 1 && expand_rank_1) {
      a = ops::expand_dims(a, -1);
    } else {
      b = ops::squeeze(b, {-1});
    }
  }
  return {std::move(a), std::move(b)};
}

Tensor Loss::valid_mask(const Tensor&, const Tensor&, const Tensor&) const { return {}; }

Reduced Loss::reduce(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                     const Tensor& mask) const {
  // As in Keras, the targets are converted too, including integers.
  const Tensor prediction = to_float32(y_pred);
  const bool numeric = y_true.defined() && y_true.dtype() != DType::kString;
  const Tensor target = numeric ? to_float32(y_true) : y_true;
  Tensor values = call(target, prediction);
  const DType dtype = values.dtype();
  Tensor counted = mask.defined() ? ops::cast(mask, dtype) : Tensor();
  const Tensor valid = valid_mask(target, prediction, values);
  if (valid.defined()) counted = weight_and_mask(ops::cast(valid, dtype), counted);

  Tensor weight = sample_weight.defined() ? ops::cast(sample_weight, dtype) : Tensor();
  weight = weight_and_mask(weight, counted);
  if (weight.defined()) {
    std::tie(values, weight) = squeeze_or_expand_to_same_rank(values, weight);
    values = values * weight;
  }
  if (reduction_ == Reduction::kNone) return {values, {}};
  if (values.rank() == 0) return {values, reduction_ == Reduction::kSum ? Tensor() : ops::ones_like(values)};
  Reduced parts{ops::reduce_sum(values), {}};
  if (reduction_ == Reduction::kSum) return parts;
  parts.averages = true;
  const bool weights_count = weight.defined() && reduction_ == Reduction::kMeanWithSampleWeight;
  if (keeps_rows(prediction.rank()) && values.shape().fully_known() && !counted.defined() && !weights_count &&
      values.dim(0) > 0) {
    parts.per_row = static_cast<double>(*values.shape().num_elements()) / static_cast<double>(values.dim(0));
  }
  if (reduction_ == Reduction::kMeanWithSampleWeight) {
    parts.denominator = weight.defined() ? ops::reduce_sum(weight) : count_of(values);
    return parts;
  }
  // Keras scales the mask by total / valid and divides by the number of values: the same as dividing by
  // the number of valid ones where mask and values have one shape.
  parts.denominator = count_of(values);
  if (counted.defined()) {
    parts.denominator = parts.denominator * (ops::reduce_sum(counted) + keras::backend::epsilon()) / count_of(counted);
  }
  return parts;
}

Tensor Loss::finish(const Reduced& parts) {
  if (!parts.denominator.defined()) return parts.weighted_sum;
  return ops::div_no_nan(parts.weighted_sum, parts.denominator);
}

Tensor Loss::operator()(const Tensor& y_true, const Tensor& y_pred, const Tensor& sample_weight,
                        const Tensor& mask) const {
  const Reduced parts = reduce(y_true, y_pred, sample_weight, mask.defined() ? mask : y_pred.mask());
  const Tensor loss = finish(parts);
  const int replicas = distribute::get_strategy().num_replicas_in_sync();
  return parts.averages && replicas > 1 ? loss * (1.0 / replicas) : loss;
}

std::string Loss::name() const { return name_.empty() ? keras::to_snake_case(class_name()) : name_; }

Json Loss::get_config() const { return {{"name", name()}, {"reduction", std::string(reduction_name(reduction_))}}; }

void Loss::set_base_config(const Json& config) {
  keras::FieldReader reader(class_name(), config);
  reader("name", name_);
  std::string reduction(reduction_name(reduction_));
  reader("reduction", keras::NullAs{reduction, "none"});
  reduction_ = parse_reduction(reduction);
}

}  // namespace lockstep::losses
