// Ragged tensors as variants: how tf.map_fn passes the rows of one to a loop.
#include "lockstep/ops/variants_internal.h"

#include <algorithm>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

Tensor with_list(Tensors elements, Shape shape) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = DType::kVariant;
  impl->shape = std::move(shape);
  impl->list = std::make_shared<TensorListValue>();
  impl->list->elements = std::move(elements);
  impl->list->element_shape = Shape::unknown_rank();
  impl->list->element_dtype = DType::kVariant;
  return Tensor(std::move(impl));
}

at::ScalarType splits_type(const Call& call) { return to_scalar_type(call.attr<DType>("Tsplits")); }

Tensor rows_between(const Tensor& values, std::int64_t begin, std::int64_t end) {
  if (begin < 0 || end < begin || end > values.dim(0))
    throw_invalid_argument(fmt::format("invalid row splits: rows {} to {} of {} values", begin, end, values.dim(0)));
  if (values.dtype() != DType::kString) return wrap(dense(values).slice(0, begin, end));
  Ints rows;
  for (std::int64_t i = begin; i < end; ++i) rows.push_back(i);
  return take_rows(values, rows);
}

Tensors to_variant(const Call& call) {
  const auto levels = static_cast<std::size_t>(call.attr<std::int64_t>("RAGGED_RANK"));
  const Tensor& values = call.input(static_cast<int>(levels));
  const Tensors all(call.inputs().begin(), call.inputs().end());
  if (!call.attr<bool>("batched_input")) return {variant_of(all)};
  if (values.rank() < 1) throw_invalid_argument("values must have rows");
  if (levels == 0) {  // the rows of a dense tensor
    Tensors elements;
    for (std::int64_t i = 0; i < values.dim(0); ++i) {
      const Tensor row = rows_between(values, i, i + 1);
      const Shape shape(Ints(values.shape().dims().begin() + 1, values.shape().dims().end()));
      elements.push_back(variant_of({values.dtype() == DType::kString ? Tensor::strings(row.string_values(), shape)
                                                                      : wrap(dense(row).squeeze(0))}));
    }
    return {variants(elements)};
  }
  std::vector<Ints> splits;
  for (std::size_t i = 0; i < levels; ++i) {
    splits.push_back(ints_in(call, static_cast<int>(i)));
    const Ints& level = splits.back();
    if (level.empty() || level[0] != 0 || !std::is_sorted(level.begin(), level.end()))
      throw_invalid_argument("invalid row splits: expected to go from 0 and never back");
  }
  Tensors elements;
  for (std::size_t row = 0; row + 1 < splits[0].size(); ++row) {
    std::int64_t begin = splits[0][row], end = splits[0][row + 1];
    Tensors parts;
    for (std::size_t level = 1; level < levels; ++level) {
      if (end >= static_cast<std::int64_t>(splits[level].size()))
        throw_invalid_argument("the row splits do not fit the level above");
      Ints own;
      for (std::int64_t i = begin; i <= end; ++i)
        own.push_back(splits[level][static_cast<std::size_t>(i)] - splits[level][static_cast<std::size_t>(begin)]);
      begin = splits[level][static_cast<std::size_t>(begin)], end = splits[level][static_cast<std::size_t>(end)];
      parts.push_back(wrap(int64_tensor(own).to(splits_type(call))));
    }
    parts.push_back(rows_between(values, begin, end));
    elements.push_back(variant_of(std::move(parts)));
  }
  return {variants(elements)};
}

// Joins ragged tensors of the same rank as rows of one with another level.
Tensors from_variant(const Call& call) {
  const auto levels = static_cast<std::size_t>(call.attr<std::int64_t>("output_ragged_rank"));
  const Tensor& given = call.input(0);
  const auto wanted = call.attr<DType>("Tvalues");
  const auto check = [&](const Tensors& parts, std::size_t expected) {
    if (parts.size() != expected + 1) {
      throw_invalid_argument(
          fmt::format("the variant has a ragged rank of {}, expected {}", parts.size() - 1, expected));
    }
    if (parts.back().dtype() != wanted) {
      throw_invalid_argument(fmt::format("the variant holds {}, the call expects {}", dtype_name(parts.back().dtype()),
                                         dtype_name(wanted)));
    }
  };
  if (given.rank() == 0) {
    const Tensors& parts = parts_of(given);
    check(parts, levels);
    return parts;
  }
  const auto outer = static_cast<std::size_t>(given.rank());
  if (outer > levels) throw_invalid_argument("output_ragged_rank must be at least the rank of the variants");
  const Tensors& elements = variants_in(given);
  const std::size_t inner = levels - outer;
  std::vector<Ints> splits(levels, Ints{0});
  // The axes of the variants themselves are rows of equal length.
  std::int64_t rows = 1;
  for (std::size_t axis = 0; axis + 1 < outer; ++axis) {
    rows *= given.dim(static_cast<int>(axis));
    const std::int64_t width = given.dim(static_cast<int>(axis) + 1);
    for (std::int64_t i = 1; i <= rows; ++i) splits[axis].push_back(i * width);
  }
  Tensors values;
  for (const Tensor& element : elements) {
    const Tensors& parts = parts_of(element);
    check(parts, inner);
    std::int64_t count = parts[0].rank() < 1 ? 1 : parts[0].dim(0) - (inner > 0 ? 1 : 0);
    splits[outer - 1].push_back(splits[outer - 1].back() + count);
    for (std::size_t level = 0; level < inner; ++level) {
      const Ints own = ints_of(dense(parts[level]));
      Ints& target = splits[outer + level];
      const std::int64_t base = target.back();
      for (std::size_t i = 1; i < own.size(); ++i) target.push_back(base + own[i]);
    }
    if (parts.back().rank() < 1) throw_invalid_argument("the values of the variants must have rows");
    values.push_back(parts.back());
  }
  Tensors out;
  for (const Ints& level : splits) out.push_back(wrap(int64_tensor(level).to(splits_type(call))));
  if (values.empty()) {
    out.push_back(wanted == DType::kString ? Tensor::strings({}, Shape{0}) : Tensor::zeros(Shape{0}, wanted));
  } else {
    out.push_back(concat_rows(values));
  }
  return out;
}

// The gradient of the values: those of the rows behind each other.
Tensors variant_gradient(const Call& call) {
  const Ints shape = ints_in(call, 2);
  const Tensor& given = call.input(0);
  Tensors values;
  if (given.rank() == 0) return {parts_of(given).back()};
  for (const Tensor& element : variants_in(given)) {
    const Tensor& part = parts_of(element).back();
    values.push_back(part);
  }
  if (values.empty()) return {Tensor::zeros(Shape(shape), call.attr<DType>("Tvalues"))};
  return one(dense(concat_rows(values)).reshape(shape));
}

}  // namespace

Tensor variant_of(Tensors parts) { return with_list(std::move(parts), Shape{}); }

const Tensors& parts_of(const Tensor& variant) {
  if (!variant.defined() || variant.dtype() != DType::kVariant || variant.rank() != 0 || !variant.impl()->list ||
      variant.impl()->list->elements.empty() || variant.impl()->list->element_dtype != DType::kVariant) {
    throw_invalid_argument("the variant is not a ragged tensor");
  }
  return variant.impl()->list->elements;
}

Tensor variants(const Tensors& elements) {
  Ints shape = {static_cast<std::int64_t>(elements.size())};
  for (const Tensor& element : elements) {
    if (element.rank() == 0) {  // of a ragged or sparse tensor, or a list
      if (!element.impl()->list || element.dtype() != DType::kVariant)
        throw_invalid_argument("the element is not a variant");
    } else {
      variants_in(element);
    }
    if (element.shape() != elements[0].shape()) throw_invalid_argument("the variants differ in their shapes");
  }
  if (!elements.empty())
    shape.insert(shape.end(), elements[0].shape().dims().begin(), elements[0].shape().dims().end());
  return with_list(elements, Shape(std::move(shape)));
}

const Tensors& variants_in(const Tensor& vector) {
  if (vector.dtype() != DType::kVariant || !vector.impl()->list || vector.rank() < 1)
    throw_invalid_argument("expected a vector of variants");
  return vector.impl()->list->elements;
}

void register_ragged_variant(Table& table) {
  table.add("RaggedTensorToVariant", nullptr, to_variant);
  table.add("RaggedTensorFromVariant", nullptr, from_variant);
  table.add("RaggedTensorToVariantGradient", nullptr, variant_gradient);
}

}  // namespace lockstep::ops
