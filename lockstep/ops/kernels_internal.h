// Shared by the kernels of the op table. Includes LibTorch: for sources of lockstep/ops only.
#pragma once

#include <limits>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/op.h"
#include "lockstep/ops/shape_rules_internal.h"
#include "lockstep/ops/table_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {

using Ints = std::vector<std::int64_t>;

// The LibTorch value of a tensor. Throws InvalidArgument where it has none: strings, a resource, a list.
const at::Tensor& dense(const Tensor& tensor);

// That of input i.
inline const at::Tensor& in(const Call& call, int i) { return dense(call.input(i)); }
inline Tensors one(at::Tensor value) {
  Tensors out;
  out.push_back(wrap(std::move(value)));
  return out;
}

// The numbers of an integer tensor of any integer dtype.
Ints ints_of(const at::Tensor& x);
inline Ints ints_in(const Call& call, int i) { return ints_of(in(call, i)); }
// The single number of an integer tensor with one element.
std::int64_t int_in(const Call& call, int i);

// The number of elements of a tensor that a kernel makes. Throws InvalidArgument for a negative extent, and for more
// elements than any machine can hold; ResourceExhausted for more than the thread's MemoryLimit leaves at `size` bytes
// each.
std::int64_t element_count(const Ints& shape, std::int64_t size = 1);

// axis in [-rank, rank) made non-negative; throws InvalidArgument.
std::int64_t whole_axis(std::int64_t axis, std::int64_t rank);
// Distinct whole axes; throws InvalidArgument for repeated ones.
Ints whole_axes(const Ints& axes, std::int64_t rank);

// LibTorch computes little with uint16, uint32 and uint64: such values as int64, and back.
inline bool is_odd_unsigned(at::ScalarType type) {
  return type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64;
}
inline at::Tensor widen(const at::Tensor& x) { return is_odd_unsigned(x.scalar_type()) ? x.to(at::kLong) : x; }
// For comparing: uint64 in order as int64 (the sign bit flipped), other types as widen() gives them.
inline at::Tensor ordered(const at::Tensor& x) {
  if (x.scalar_type() != at::kUInt64) return widen(x);
  return at::bitwise_xor(x.view(at::kLong), std::numeric_limits<std::int64_t>::min());
}
inline at::Tensor from_ordered(const at::Tensor& x, at::ScalarType type) {
  if (type != at::kUInt64) return x.scalar_type() == type ? x : x.to(type);
  return at::bitwise_xor(x, std::numeric_limits<std::int64_t>::min()).view(type);
}
inline at::Tensor narrow_to(const at::Tensor& x, at::ScalarType type) {
  return x.scalar_type() == type ? x : x.to(type);
}

inline bool is_float(const at::Tensor& x) { return at::isFloatingType(x.scalar_type()); }
// The lowest finite number of float16, bfloat16, float64, or float32 (also for other types).
inline double lowest_number(at::ScalarType type) {
  switch (type) {
    case at::kHalf: return std::numeric_limits<at::Half>::lowest();
    case at::kBFloat16: return std::numeric_limits<at::BFloat16>::lowest();
    case at::kDouble: return std::numeric_limits<double>::lowest();
    default: return std::numeric_limits<float>::lowest();
  }
}
inline bool has_complex(const at::Tensor& x) { return at::isComplexType(x.scalar_type()); }

}  // namespace lockstep::ops
