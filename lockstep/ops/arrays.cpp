#include <algorithm>
#include <optional>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/index.h>
#include <ATen/ops/index_put.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/array_dtype.h"
#include "lockstep/ops/arrays_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {
namespace {

bool is_whole(DType dtype) { return dtype == DType::kBool || is_integer(dtype); }
bool is_unsigned(DType dtype) { return dtype_name(dtype).starts_with('u'); }

DType of_integers(DType a, DType b) {
  if (is_unsigned(a) == is_unsigned(b)) return dtype_size(a) >= dtype_size(b) ? a : b;
  const DType with_sign = is_unsigned(a) ? b : a, without = is_unsigned(a) ? a : b;
  if (dtype_size(with_sign) > dtype_size(without)) return with_sign;
  switch (dtype_size(without)) {
    case 1: return DType::kInt16;
    case 2: return DType::kInt32;
    case 4: return DType::kInt64;
    default: return DType::kFloat64;
  }
}

DType of_fraction_and_integer(DType fraction, DType integer) {
  if (dtype_size(integer) == 1) return fraction;
  if (dtype_size(integer) == 2) return dtype_size(fraction) == 2 ? DType::kFloat32 : fraction;
  return DType::kFloat64;
}

// Of an array that a tape watches, the result stays a tensor: the tape has recorded it.
Tensor array_of(const Tensor& result) {
  const bool is_recorded = result.is_value() && result.dtype() != DType::kString && aten(result).requires_grad();
  return is_recorded ? result : result.numpy();
}

}  // namespace

DType array_dtype(DType a, DType b) {
  if (a == b || b == DType::kBool) return a;
  if (a == DType::kBool) return b;
  if (is_complex(a) || is_complex(b)) {
    const auto is_wide = [](DType dtype) {
      return dtype == DType::kComplex128 || dtype == DType::kFloat64 || (is_integer(dtype) && dtype_size(dtype) > 2);
    };
    return is_wide(a) || is_wide(b) ? DType::kComplex128 : DType::kComplex64;
  }
  if (is_whole(a) && is_whole(b)) return of_integers(a, b);
  if (is_whole(a) != is_whole(b)) return is_whole(a) ? of_fraction_and_integer(b, a) : of_fraction_and_integer(a, b);
  return dtype_size(a) >= dtype_size(b) ? a : b;
}

Tensor like(const Tensor& x, const Tensor& result) { return is_array(x) ? array_of(result) : result; }

Tensor like(const Tensor& a, const Tensor& b, const Tensor& result) {
  const auto is_operand = [](const Tensor& x) { return is_array(x) || x.is_number(); };
  return (is_array(a) || is_array(b)) && is_operand(a) && is_operand(b) ? array_of(result) : result;
}

namespace {

at::Tensor index_of(const Tensor& entries) {
  const at::Tensor& given = aten(entries);
  return given.scalar_type() == at::kBool ? given : given.to(at::kLong);
}

using Elements = std::vector<c10::optional<at::Tensor>>;

// The part as a view of the memory. Of axes with several indices all elements, and the indices in `elements`.
at::Tensor view_of(at::Tensor memory, const std::vector<SliceSpec>& index, Elements& elements) {
  std::int64_t axis = 0;
  for (const SliceSpec& spec : index) {
    switch (spec.kind) {
      case SliceSpec::Kind::kEllipsis: throw_internal("view_of: an ellipsis is not an entry of one axis");
      case SliceSpec::Kind::kNewAxis: memory = memory.unsqueeze(axis++); break;
      case SliceSpec::Kind::kIndex: memory = memory.select(axis, spec.begin.number().value()); break;
      case SliceSpec::Kind::kRange: {
        const auto place = [](const Place& given) {
          return given.number() ? c10::optional<std::int64_t>(*given.number()) : c10::nullopt;
        };
        memory = memory.slice(axis++, place(spec.begin), place(spec.end), spec.stride);
        break;
      }
      case SliceSpec::Kind::kElements:
        elements.resize(static_cast<std::size_t>(axis));
        elements.push_back(index_of(spec.elements));
        ++axis;
        break;
    }
  }
  return memory;
}

Tensor part_of(const Tensor& x, const Tensor& part, decltype(ArrayPart::write) write) {
  if (!is_array(x) || x.dtype() == DType::kString) return like(x, part);
  auto out = std::make_shared<TensorImpl>();
  out->dtype = part.dtype();
  out->shape = part.shape();
  out->value = aten(part);
  out->is_array = true;
  out->part = std::make_shared<const ArrayPart>(ArrayPart{x.impl(), std::move(write)});
  return Tensor(std::shared_ptr<const TensorImpl>(std::move(out)));
}

// Writes values to the elements of the array, and of the array that it is a part of.
void write_part(const ArrayPart& part, const at::Tensor& values) {
  auto& array = const_cast<TensorImpl&>(*part.array);
  if (!array.owns_memory) {
    array.value = array.value.clone(at::MemoryFormat::Contiguous);
    array.owns_memory = true;
  }
  part.write(array.value, values.to(array.value.scalar_type()));
  if (array.part) write_part(*array.part, array.value);
}

}  // namespace

std::optional<Tensor> array_slice(const Tensor& x, const std::vector<SliceSpec>& index) {
  const auto is_known = [](const SliceSpec& spec) {
    return spec.stride > 0 && !spec.begin.tensor().defined() && !spec.end.tensor().defined() &&
           (!spec.elements.defined() || spec.elements.is_value());
  };
  if (x.dtype() == DType::kString || !std::ranges::all_of(index, is_known)) return std::nullopt;
  // Not by an operation, after which the array's memory would count as shared.
  Elements elements;
  at::Tensor part;
  try {
    part = view_of(aten(x), index, elements);
    part = elements.empty() ? part.clone(at::MemoryFormat::Contiguous)
                            : at::index(part, c10::List<c10::optional<at::Tensor>>(elements));
  } catch (const c10::Error&) {
    throw_out_of_range(fmt::format("an index is out of range for an array of shape {}", x.shape().to_string()));
  }
  return part_of(x, wrap(part), [index](const at::Tensor& memory, const at::Tensor& values) {
    Elements chosen;
    at::Tensor target = view_of(memory, index, chosen);
    if (chosen.empty()) {
      target.copy_(values);
    } else {
      at::index_put_(target, c10::List<c10::optional<at::Tensor>>(chosen), values);
    }
  });
}

Tensor array_elements(const Tensor& x, const Tensor& entries, const Tensor& part) {
  return part_of(x, part, [entries](const at::Tensor& memory, const at::Tensor& values) {
    memory.index_put_({index_of(entries)}, values);
  });
}

void assign_part(const Tensor& part, const Tensor& values) {
  if (!is_array(part) || !part.impl()->part) {
    throw_failed_precondition(
        "tensors are immutable: a part of one cannot be assigned to; use an array (np::zeros, x.numpy()), a variable "
        "(v.index({...}).assign(y)) or x = ops::tensor_scatter_nd_update(x, ...)");
  }
  try {
    const at::NoGradGuard guard;
    at::Tensor given = aten(values).detach();
    // As in NumPy, leading axes of extent 1 that the elements do not have are left out.
    while (part.rank() > 0 && given.dim() > part.rank() && given.size(0) == 1) given = given[0];
    write_part(*part.impl()->part, given);
  } catch (const c10::Error&) {
    throw_invalid_argument(fmt::format("values of shape {} cannot be assigned to elements of shape {}",
                                       values.shape().to_string(), part.shape().to_string()));
  }
}

Tensor array_next_to(const Tensor& x, Number number) {
  if (!is_array(x)) return x;
  if (is_whole(x.dtype()) && !number.is_integer()) return x.astype(DType::kFloat64);
  return x.dtype() == DType::kBool && !number.is_bool() ? x.astype(DType::kInt64) : x;
}

}  // namespace lockstep::ops
