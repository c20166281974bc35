// Reductions of ragged tensors: reduce_sum, reduce_max, ..., and strings.reduce_join.
#include <algorithm>

#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/ragged_functions.h"
#include "lockstep/ops/ragged_rows_internal.h"
#include "lockstep/ops/string_functions.h"

namespace lockstep::ops {
namespace {

constexpr std::string_view kJoin = "Join";

// One tensor for each group of the values along axis 0; `group_of` has the group of each.
Tensor reduce_groups(const Tensor& values, std::string_view how, const Tensor& group_of, std::int64_t groups) {
  const auto segments = [&](const char* op, const Tensor& x) {
    return call1(op, {x, group_of, Tensor::scalar(groups)});
  };
  if (how == "Any") return segments("UnsortedSegmentMax", cast(values, DType::kInt32)) > 0;
  if (how == "All") return segments("UnsortedSegmentMin", cast(values, DType::kInt32)) > 0;
  if (how.starts_with(kJoin)) {
    return call("UnsortedSegmentJoin", {values, group_of, Tensor::scalar(groups)},
                {{"separator", std::string(how.substr(kJoin.size()))}})[0];
  }
  return segments(how == "Max"    ? "UnsortedSegmentMax"
                  : how == "Min"  ? "UnsortedSegmentMin"
                  : how == "Prod" ? "UnsortedSegmentProd"
                                  : "UnsortedSegmentSum",
                  values);
}

Tensor reduce_values(const Tensor& values, std::string_view how, const Axes& axes) {
  if (how.starts_with(kJoin)) {
    const std::string_view separator = how.substr(kJoin.size());
    return axes ? strings::reduce_join(values, static_cast<int>((*axes)[0]), false, separator)
                : strings::reduce_join(values, separator);
  }
  return how == "Max"    ? reduce_max(values, axes)
         : how == "Min"  ? reduce_min(values, axes)
         : how == "Prod" ? reduce_prod(values, axes)
         : how == "Any"  ? reduce_any(values, axes)
         : how == "All"  ? reduce_all(values, axes)
                         : reduce_sum(values, axes);
}

RaggedTensor reduce_one_axis(const RaggedTensor& ragged, std::string_view how, int axis) {
  const int ragged_rank = ragged.ragged_rank();
  const Tensor& values = ragged.flat_values();
  if (ragged_rank == 0) return RaggedTensor(reduce_values(values, how, axis));
  if (axis > ragged_rank) {
    return ragged.with_flat_values(reduce_values(values, how, axis - ragged_rank));
  }
  const Tensors& nested = ragged.nested_row_splits();
  const auto level = [&](int i) { return nested[static_cast<std::size_t>(i)]; };
  // Parts of the axis are merged level by level: elements at the same position of parts with the same parent are one
  // group.
  Ints group_of(static_cast<std::size_t>(ragged.nrows()), 0);
  std::int64_t groups = 1;
  if (axis > 0) {
    const Ints parents = read(level(axis - 1));
    groups = static_cast<std::int64_t>(parents.size()) - 1;
    group_of.clear();
    for (std::size_t i = 0; i + 1 < parents.size(); ++i) {
      group_of.insert(group_of.end(), static_cast<std::size_t>(parents[i + 1] - parents[i]),
                      static_cast<std::int64_t>(i));
    }
  }
  Tensors splits(nested.begin(), nested.begin() + std::max(axis - 1, 0));
  for (int i = axis; i < ragged_rank; ++i) {
    const Ints own = read(level(i));
    Ints lengths(static_cast<std::size_t>(groups), 0);
    for (std::size_t part = 0; part < group_of.size(); ++part) {
      std::int64_t& longest = lengths[static_cast<std::size_t>(group_of[part])];
      longest = std::max(longest, own[part + 1] - own[part]);
    }
    const Ints merged = running_total(lengths);
    Ints below;
    for (std::size_t part = 0; part < group_of.size(); ++part) {
      const std::int64_t first = merged[static_cast<std::size_t>(group_of[part])];
      for (std::int64_t place = 0; place < own[part + 1] - own[part]; ++place) below.push_back(first + place);
    }
    if (i > 0) splits.push_back(ints(merged));
    group_of = std::move(below);
    groups = merged.back();
  }
  RaggedTensor out(reduce_groups(values, how, ints(group_of), groups));
  for (auto each = splits.rbegin(); each != splits.rend(); ++each) out = RaggedTensor::from_row_splits(out, *each);
  return out;
}

RaggedTensor reduce_axes(RaggedTensor ragged, std::string_view how, const Axes& axes) {
  if (!axes) return RaggedTensor(reduce_values(ragged.flat_values(), how, std::nullopt));
  const int rank = ragged.shape().rank();
  Ints along;
  for (const std::int64_t axis : *axes) {
    along.push_back(axis < 0 ? axis + rank : axis);
    if (along.back() < 0 || along.back() >= rank) {
      throw_invalid_argument(fmt::format("invalid axis {} of a ragged tensor of rank {}", axis, rank));
    }
  }
  std::sort(along.rbegin(), along.rend());
  for (const std::int64_t axis : along) ragged = reduce_one_axis(ragged, how, static_cast<int>(axis));
  return ragged;
}

}  // namespace

RaggedRow reduce_ragged(const RaggedTensor& ragged, std::string_view how, const Axes& axes) {
  if (how == "Std") {
    return RaggedRow(sqrt(reduce_ragged(ragged, "Variance", axes)));
  }
  if (how == "Variance") {
    const RaggedRow mean = reduce_ragged(ragged, "Mean", axes);
    // As in TensorFlow, whose result is not exact and never negative.
    return maximum(reduce_ragged(square(ragged), "Mean", axes) - square(mean), 0);
  }
  if (how != "Mean") return RaggedRow(reduce_axes(ragged, how, axes));
  if (ragged.ragged_rank() == 0) return RaggedRow(RaggedTensor(reduce_mean(ragged.flat_values(), axes)));
  const RaggedTensor sums = reduce_axes(ragged, "Sum", axes);
  const RaggedTensor counts = reduce_axes(ragged.with_flat_values(ones_like(ragged.flat_values())), "Sum", axes);
  const DType dtype = is_floating(sums.dtype()) ? sums.dtype() : DType::kFloat64;
  const Tensor means = div(cast(sums.flat_values(), dtype), cast(counts.flat_values(), dtype));
  return RaggedRow(sums.ragged_rank() > 0 ? sums.with_flat_values(means) : RaggedTensor(means));
}

RaggedRow reduce_ragged(const RaggedTensor& ragged, std::string_view how, const RaggedAxisKeywords& keywords) {
  const RaggedRow reduced = reduce_ragged(ragged, how, keywords.axis);
  if (!keywords.keepdims) return reduced;
  if (!keywords.axis || keywords.axis->size() != 1)
    throw_invalid_argument("keepdims of a ragged tensor requires one axis");
  const std::int64_t axis = (*keywords.axis)[0];
  return RaggedRow(expand_ragged_dims(reduced, static_cast<int>(axis < 0 ? axis + ragged.shape().rank() : axis)));
}

}  // namespace lockstep::ops
