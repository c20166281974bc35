#include "lockstep/formats/tensor_data.h"

#include <cstring>
#include <new>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::formats {

TensorData TensorData::allocate(DType dtype, Shape shape, std::span<std::byte>& mutable_bytes) {
  const auto count = shape.num_elements();
  std::size_t size = 0;
  if (!count || __builtin_mul_overflow(static_cast<std::size_t>(*count), dtype_size(dtype), &size)) {
    throw_invalid_argument(fmt::format("a tensor of shape {} does not fit into memory", shape.to_string()));
  }
  auto* memory = static_cast<std::byte*>(::operator new (size, std::align_val_t{64}, std::nothrow));
  if (memory == nullptr) {
    throw_resource_exhausted(fmt::format("no memory for a tensor of {} bytes (shape {})", size, shape.to_string()));
  }
  TensorData tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.owner = std::shared_ptr<const void>(
      memory, [](const void* p) { ::operator delete (const_cast<void*>(p), std::align_val_t{64}); });
  mutable_bytes = {memory, size};
  tensor.bytes = mutable_bytes;
  return tensor;
}

TensorData TensorData::copy_of(DType dtype, Shape shape, std::span<const std::byte> bytes) {
  std::span<std::byte> target;
  TensorData tensor = allocate(dtype, std::move(shape), target);
  if (bytes.size() != target.size()) {
    throw_invalid_argument(fmt::format("{} bytes given for a tensor of shape {}, expected {}", bytes.size(),
                                       tensor.shape.to_string(), target.size()));
  }
  if (!bytes.empty()) std::memcpy(target.data(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace lockstep::formats
