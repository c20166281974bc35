#include "lockstep/ops/kernels_internal.h"

#include "lockstep/ops/memory_limit_internal.h"

namespace lockstep::ops {

const at::Tensor& dense(const Tensor& tensor) {
  if (!tensor.defined()) throw_invalid_argument("a tensor is missing");
  if (!tensor.impl()->value.defined() && !tensor.impl()->slices) {
    throw_invalid_argument(fmt::format("found a tensor of dtype {}, expected numbers", dtype_name(tensor.dtype())));
  }
  return aten(tensor);
}

Ints ints_of(const at::Tensor& x) {
  const at::Tensor host = x.to(at::kLong).contiguous();
  const auto* data = host.const_data_ptr<std::int64_t>();
  return Ints(data, data + host.numel());
}

std::int64_t int_in(const Call& call, int i) {
  const at::Tensor& x = in(call, i);
  if (x.numel() != 1) throw_invalid_argument(fmt::format("input {} must be one number", i));
  return x.item().to<std::int64_t>();
}

std::int64_t element_count(const Ints& shape, std::int64_t size) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 46;
  std::int64_t count = 1;
  for (auto dim : shape) {
    if (dim < 0) throw_invalid_argument(fmt::format("a shape must not be negative: {}", dim));
    if (dim > kMaxElements || __builtin_mul_overflow(count, dim, &count) || count > kMaxElements)
      throw_invalid_argument(fmt::format("the shape {} has too many elements", Shape(shape).to_string()));
  }
  MemoryLimit::check(count, size);
  return count;
}

std::int64_t whole_axis(std::int64_t axis, std::int64_t rank) {
  const std::int64_t whole = axis < 0 ? axis + rank : axis;
  if (whole < 0 || whole >= rank) throw_invalid_argument(fmt::format("axis {} of a tensor of rank {}", axis, rank));
  return whole;
}

Ints whole_axes(const Ints& axes, std::int64_t rank) {
  Ints whole;
  for (std::int64_t axis : axes) {
    const std::int64_t next = whole_axis(axis, rank);
    if (std::find(whole.begin(), whole.end(), next) != whole.end()) {
      throw_invalid_argument(fmt::format("axis {} is given twice", axis));
    }
    whole.push_back(next);
  }
  return whole;
}

}  // namespace lockstep::ops
