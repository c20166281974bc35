#include "lockstep/tensor/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/memory_order_internal.h"
#include "lockstep/tensor/array_internal.h"
#include "lockstep/tensor/aten_internal.h"
#include "lockstep/tensor/quantized_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep {
namespace {

template <typename T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::kBool;
}
template <>
constexpr DType dtype_of<std::int8_t>() {
  return DType::kInt8;
}
template <>
constexpr DType dtype_of<std::int16_t>() {
  return DType::kInt16;
}
template <>
constexpr DType dtype_of<std::int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType dtype_of<std::int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType dtype_of<std::uint8_t>() {
  return DType::kUInt8;
}
template <>
constexpr DType dtype_of<std::uint16_t>() {
  return DType::kUInt16;
}
template <>
constexpr DType dtype_of<std::uint32_t>() {
  return DType::kUInt32;
}
template <>
constexpr DType dtype_of<std::uint64_t>() {
  return DType::kUInt64;
}

at::Tensor host_contiguous(const Tensor& tensor) { return aten(tensor).detach().cpu().contiguous(); }

// Throws InvalidArgument for a shape with unknown dimensions, or one whose strides do not fit 63 bits, which those of a
// shape without elements may not either: (0, 2^62, 4).
void check_shape(const Shape& shape) {
  std::int64_t stride = 1;
  bool fits = shape.fully_known();
  for (const std::int64_t dim : shape.dims())
    fits = fits && dim >= 0 && !__builtin_mul_overflow(stride, std::max<std::int64_t>(dim, 1), &stride);
  if (!fits) {
    throw_invalid_argument(fmt::format(
        "invalid shape of a tensor: found {}, expected known dimensions that fit into memory", shape.to_string()));
  }
}

// Zeros that the system hands out as they are touched: a variable that is about to be loaded costs neither time nor
// memory.
at::Tensor lazy_zeros(const Shape& shape, at::ScalarType type) {
  constexpr std::size_t kLarge = 1 << 20;
  check_shape(shape);
  const std::size_t bytes = static_cast<std::size_t>(shape.num_elements().value_or(0)) * c10::elementSize(type);
  if (bytes < kLarge) return at::zeros(shape.dims(), type);
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    throw_resource_exhausted(fmt::format("out of memory: {} bytes for zeros of shape {}", bytes, shape.to_string()));
  struct Block {
    void* data;
    std::size_t bytes;
  };
  const auto unmap = [](void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    ::munmap(block->data, block->bytes);
  };
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes,
                       c10::DataPtr(data, new Block{data, bytes}, unmap, at::kCPU), c10::GetAllocator(at::kCPU),
                       /*resizable=*/true);
  at::Tensor out = at::empty({0}, type);
  out.set_(std::move(storage), 0, shape.dims());
  return out;
}

const TensorImpl& checked(const Tensor& tensor, bool ok, const char* wanted) {
  if (!tensor.defined())
    throw_invalid_argument(fmt::format("an undefined tensor was given where {} is needed", wanted));
  if (!ok) {
    throw_invalid_argument(fmt::format("a {}{} tensor of shape {} was given where {} is needed",
                                       tensor.is_symbolic() ? "symbolic " : "", dtype_name(tensor.dtype()),
                                       tensor.shape().to_string(), wanted));
  }
  return *tensor.impl();
}

}  // namespace

Tensor::Tensor(std::initializer_list<Values> values, DType dtype) {
  using Kind = Values::Kind;
  std::vector<std::int64_t> dims;
  std::vector<const Values*> leaves;
  const std::function<void(const Values*, std::size_t, std::size_t)> collect =
      [&](const Values* items, std::size_t count, std::size_t axis) {
        if (axis == dims.size()) {
          if (!leaves.empty()) throw_invalid_argument("invalid tensor: a list contains both numbers and lists");
          dims.push_back(static_cast<std::int64_t>(count));
        } else if (dims[axis] != static_cast<std::int64_t>(count)) {
          throw_uneven_lists(dims[axis], count, axis);
        }
        for (std::size_t i = 0; i < count; ++i) {
          if (items[i].kind_ == Kind::kList) {
            collect(items[i].items_.data(), items[i].items_.size(), axis + 1);
          } else if (axis + 1 != dims.size()) {
            throw_invalid_argument("invalid tensor: a list contains both numbers and lists");
          } else {
            leaves.push_back(&items[i]);
          }
        }
      };
  collect(values.begin(), values.size(), 0);
  const Shape shape(dims);
  const auto any = [&](Kind kind) {
    return std::any_of(leaves.begin(), leaves.end(), [&](const Values* leaf) { return leaf->kind_ == kind; });
  };
  if (any(Kind::kText)) {
    std::vector<std::string> texts;
    for (const Values* leaf : leaves) {
      if (leaf->kind_ != Kind::kText)
        throw_invalid_argument("invalid tensor: a list contains both numbers and strings");
      texts.push_back(leaf->text_);
    }
    *this = strings(std::move(texts), shape);
    return;
  }
  if (any(Kind::kBool) && (any(Kind::kInt) || any(Kind::kLong) || any(Kind::kReal)))
    throw_invalid_argument("invalid tensor: a list contains both numbers and booleans");
  if (any(Kind::kReal)) {
    std::vector<double> numbers;
    for (const Values* leaf : leaves) numbers.push_back(leaf->number_.value());
    *this =
        wrap(aten(from_vector(numbers, shape)).to(to_scalar_type(dtype == DType::kInvalid ? DType::kFloat32 : dtype)));
    return;
  }
  if (dtype == DType::kInvalid) {
    dtype = any(Kind::kBool)   ? DType::kBool
            : any(Kind::kLong) ? DType::kInt64
            : leaves.empty()   ? DType::kFloat32
                               : DType::kInt32;
  }
  std::vector<std::int64_t> numbers;
  for (const Values* leaf : leaves) numbers.push_back(leaf->number_.integer());
  *this = wrap(aten(from_vector(numbers, shape)).to(to_scalar_type(dtype)));
}

void Tensor::throw_uneven_lists(std::int64_t first, std::size_t other, std::size_t axis) {
  throw_invalid_argument(fmt::format("invalid tensor: lists of {} and of {} elements on axis {}", first, other, axis));
}

Tensor Tensor::of_number(const Values& number) {
  const Number& value = number.number_;
  const auto as_tensor = [&] {
    switch (number.kind_) {
      case Values::Kind::kBool: return scalar(value.integer() != 0);
      case Values::Kind::kInt: return scalar(static_cast<std::int32_t>(value.integer()));
      case Values::Kind::kLong: return scalar(value.integer());
      default: return scalar(value.value(), DType::kFloat32);
    }
  };
  Tensor out = as_tensor();
  out.impl()->is_number = true;
  return out;
}
bool Tensor::is_number() const { return impl_ && impl_->is_number; }

template <typename E>
Tensor Tensor::scalar(E value) {
  return from_vector(std::vector<E>{value}, Shape{});
}

Tensor Tensor::scalar(double value, DType dtype) {
  // A number too large for a floating type becomes infinite, as in NumPy; LibTorch would throw.
  if (dtype == DType::kFloat32 && std::abs(value) > std::numeric_limits<float>::max())
    value = std::copysign(std::numeric_limits<double>::infinity(), value);
  if (lockstep::is_integer(dtype) && dtype_size(dtype) <= 4) {
    const bool has_sign = dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32;
    const double most = std::ldexp(1.0, static_cast<int>(8 * dtype_size(dtype)) - (has_sign ? 1 : 0));
    if (!(value < most && value >= -most))
      throw_invalid_argument(fmt::format("{} does not fit into {}", value, dtype_name(dtype)));
  }
  return wrap(at::scalar_tensor(value, at::TensorOptions().dtype(to_scalar_type(dtype))));
}

template <typename E>
Tensor Tensor::from_vector(const std::vector<E>& values, const Shape& shape) {
  const auto count = shape.num_elements();
  if (!count || *count != static_cast<std::int64_t>(values.size())) {
    throw_invalid_argument(fmt::format("{} values do not fill shape {}", values.size(), shape.to_string()));
  }
  check_shape(shape);
  at::Tensor out = at::empty(shape.dims(), at::TensorOptions().dtype(to_scalar_type(dtype_of<E>())));
  if constexpr (std::is_same_v<E, bool>) {
    bool* target = out.data_ptr<bool>();
    for (std::size_t i = 0; i < values.size(); ++i) target[i] = values[i];
  } else if (!values.empty()) {
    std::memcpy(out.data_ptr(), values.data(), values.size() * sizeof(E));
  }
  return wrap(std::move(out));
}

Tensor Tensor::from_data(const formats::TensorData& data) {
  if (data.dtype == DType::kString) return strings(data.strings, data.shape);
  const auto options = at::TensorOptions().dtype(to_scalar_type(data.dtype));
  check_shape(data.shape);
  if (data.bytes.empty()) return wrap_as(at::empty(data.shape.dims(), options), data.dtype);
  // LibTorch takes a mutable pointer; values are never written through it.
  return wrap_as(
      at::from_blob(
          const_cast<std::byte*>(data.bytes.data()), data.shape.dims(), [owner = data.owner](void*) {}, options),
      data.dtype);
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) { return wrap(lazy_zeros(shape, to_scalar_type(dtype))); }

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  if (value == 0 && !std::signbit(value)) return zeros(shape, dtype);
  check_shape(shape);
  return wrap(at::full(shape.dims(), value, at::TensorOptions().dtype(to_scalar_type(dtype))));
}

Tensor Tensor::strings(std::vector<std::string> values, Shape shape) {
  const auto count = shape.num_elements();
  if (!count || *count != static_cast<std::int64_t>(values.size())) {
    throw_invalid_argument(fmt::format("{} strings do not fill shape {}", values.size(), shape.to_string()));
  }
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = DType::kString;
  impl->shape = std::move(shape);
  impl->strings = std::move(values);
  return Tensor(std::move(impl));
}

Tensor Tensor::resource(std::shared_ptr<Resource> resource) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = DType::kResource;
  impl->resource = std::move(resource);
  return Tensor(std::move(impl));
}

Tensor Tensor::list(Tensors elements, Shape element_shape, DType element_dtype) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = DType::kVariant;
  impl->list =
      std::make_shared<TensorListValue>(TensorListValue{std::move(elements), std::move(element_shape), element_dtype});
  return Tensor(std::move(impl));
}

Tensor Tensor::symbol(std::shared_ptr<const Symbol> symbol) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = symbol->dtype();
  impl->shape = symbol->shape();
  impl->symbol = std::move(symbol);
  return Tensor(std::move(impl));
}

void Tensor::throw_no_such_axis(int axis) const {
  throw_out_of_range(fmt::format("axis {} is out of range for shape {}", axis, shape().to_string()));
}

bool Tensor::is_symbolic() const { return impl_ && impl_->symbol; }
bool Tensor::is_value() const {
  return impl_ && !impl_->symbol && (impl_->value.defined() || impl_->slices || impl_->dtype == DType::kString);
}
DType Tensor::dtype() const { return impl_ ? impl_->dtype : DType::kInvalid; }

const Shape& Tensor::shape() const& {
  static const Shape kUnknown = Shape::unknown_rank();
  return impl_ ? impl_->shape : kUnknown;
}

std::int64_t Tensor::num_elements() const { return *checked(*this, is_value(), "a value").shape.num_elements(); }

template <typename E>
std::vector<E> Tensor::to_vector() const {
  const bool raw16 = std::is_same_v<E, std::uint16_t> && dtype_size(dtype()) == 2;
  if (!raw16 && is_value() && dtype() != dtype_of<E>()) {
    throw_invalid_argument(fmt::format("the elements are {}, not {}", dtype_name(dtype()), dtype_name(dtype_of<E>())));
  }
  checked(*this, is_value() && dtype() != DType::kString, "a dense value");
  const at::Tensor host = host_contiguous(*this);
  const E* begin = static_cast<const E*>(host.const_data_ptr());
  return std::vector<E>(begin, begin + host.numel());
}

template <typename E>
E Tensor::item() const {
  checked(*this, is_value() && dtype() != DType::kString && num_elements() == 1, "one number");
  return aten(*this).item().to<E>();
}

Item Tensor::item() const {
  if (dtype() == DType::kBool) return item<bool>();
  return is_integer(dtype()) ? Item(item<std::int64_t>()) : Item(item<double>());
}

template <>
std::vector<std::string> Tensor::to_vector<std::string>() const {
  return string_values();
}
template <>
std::string Tensor::item<std::string>() const {
  checked(*this, string_values().size() == 1, "one text");
  return string_values()[0];
}

formats::TensorData Tensor::to_data() const {
  checked(*this, is_value(), "a value");
  share_memory(*this);
  formats::TensorData data;
  data.dtype = dtype();
  data.shape = shape();
  if (dtype() == DType::kString) {
    data.strings = impl_->strings;
    return data;
  }
  struct Owner {
    at::Tensor host;
    ~Owner() { done_reading(host.const_data_ptr()); }
  };
  const auto owner = std::make_shared<Owner>();
  owner->host = host_contiguous(*this);
  data.bytes = {static_cast<const std::byte*>(owner->host.const_data_ptr()), owner->host.nbytes()};
  data.owner = owner;
  return data;
}

const std::vector<std::string>& Tensor::string_values() const& {
  return checked(*this, is_value() && dtype() == DType::kString, "a string tensor").strings;
}
const std::shared_ptr<Resource>& Tensor::resource_value() const {
  return checked(*this, impl_ && impl_->resource, "a resource").resource;
}
const Tensors& Tensor::list_elements() const& {
  return checked(*this, impl_ && impl_->list, "a TensorList").list->elements;
}
const Shape& Tensor::list_element_shape() const {
  return checked(*this, impl_ && impl_->list, "a TensorList").list->element_shape;
}
DType Tensor::list_element_dtype() const {
  return checked(*this, impl_ && impl_->list, "a TensorList").list->element_dtype;
}
const std::shared_ptr<const Symbol>& Tensor::symbol_value() const {
  return checked(*this, is_symbolic(), "a symbolic tensor").symbol;
}

Tensor Tensor::mask() const { return impl_ ? impl_->mask : Tensor(); }
Tensor Tensor::logits() const { return impl_ ? impl_->logits : Tensor(); }
void Tensor::set_mask(const Tensor& mask) const { checked(*this, defined(), "a tensor").mask = mask; }
void Tensor::set_logits(const Tensor& logits) const { checked(*this, defined(), "a tensor").logits = logits; }

std::optional<Tensor> constant_value(const Tensor& tensor) {
  if (tensor.is_symbolic()) return tensor.symbol_value()->constant_value();
  if (tensor.is_value()) return tensor;
  return std::nullopt;
}

std::optional<Shape> constant_value_as_shape(const Tensor& tensor) {
  if (auto value = constant_value(tensor)) {
    if (value->dtype() == DType::kInt64) return Shape(value->to_vector<std::int64_t>());
    if (value->dtype() == DType::kInt32) {
      const auto dims = value->to_vector<std::int32_t>();
      return Shape(std::vector<std::int64_t>(dims.begin(), dims.end()));
    }
    return std::nullopt;
  }
  return tensor.is_symbolic() ? tensor.symbol_value()->value_as_shape() : std::nullopt;
}

#define LOCKSTEP_INSTANTIATE(T)                                                \
  template Tensor Tensor::scalar<T>(T);                                        \
  template Tensor Tensor::from_vector<T>(const std::vector<T>&, const Shape&); \
  template std::vector<T> Tensor::to_vector<T>() const;                        \
  template T Tensor::item<T>() const;
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(double)
LOCKSTEP_INSTANTIATE(bool)
LOCKSTEP_INSTANTIATE(std::int8_t)
LOCKSTEP_INSTANTIATE(std::int16_t)
LOCKSTEP_INSTANTIATE(std::int32_t)
LOCKSTEP_INSTANTIATE(std::int64_t)
LOCKSTEP_INSTANTIATE(std::uint8_t)
LOCKSTEP_INSTANTIATE(std::uint16_t)
LOCKSTEP_INSTANTIATE(std::uint32_t)
LOCKSTEP_INSTANTIATE(std::uint64_t)
#undef LOCKSTEP_INSTANTIATE

namespace {

Tensor copy_of(const Tensor& tensor, bool is_array) {
  auto copy = std::make_shared<TensorImpl>();
  copy->dtype = tensor.dtype();
  copy->shape = tensor.shape();
  copy->strings = tensor.impl()->strings;
  if (tensor.dtype() != DType::kString) copy->value = is_array ? aten(tensor).detach() : aten(tensor);
  copy->is_array = is_array;
  return Tensor(std::shared_ptr<const TensorImpl>(std::move(copy)));
}

}  // namespace

bool is_array(const Tensor& tensor) { return tensor.defined() && tensor.impl()->is_array; }
void share_memory(const Tensor& array) {
  if (is_array(array)) array.impl()->owns_memory = false;
}
Tensor as_tensor(const Tensor& array) {
  share_memory(array);
  return is_array(array) ? copy_of(array, false) : array;
}
Tensor Tensor::copy() const {
  share_memory(*this);
  return is_array(*this) ? copy_of(*this, true) : *this;
}
Tensor Tensor::numpy() const { return !is_value() || is_array(*this) ? *this : copy_of(*this, true); }

std::string Tensor::name() const {
  if (!is_symbolic()) throw_invalid_argument("a tensor that has a value has no name");
  return symbol_value()->name();
}

void Tensor::set_shape(const Shape& expected) const {
  if (!shape().compatible_with(expected)) {
    throw_invalid_argument(
        fmt::format("set_shape: the tensor has shape {}, expected {}", shape().to_string(), expected.to_string()));
  }
}

}  // namespace lockstep
