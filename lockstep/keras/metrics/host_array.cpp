#include "lockstep/keras/metrics/host_array_internal.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::metrics {
namespace {

constexpr std::int64_t kPiece = 65536;  // elements for which a thread is worth waking

template <typename T>
std::vector<float> converted(const Tensor& tensor) {
  const std::vector<T> values = tensor.to_vector<T>();
  return std::vector<float>(values.begin(), values.end());
}

Shape without_last(const Shape& shape) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.pop_back();
  return Shape(std::move(dims));
}

// As std::max_element, several elements at a time: the first of the largest, 0 where the first one is not a number.
std::size_t position_of_largest(const float* row, std::size_t width) {
  constexpr std::size_t kLanes = 32;
  float best = row[0];
  if (std::isnan(best)) return 0;
  std::size_t i = 0;
  if (width >= kLanes) {
    float lanes[kLanes];
    std::fill_n(lanes, kLanes, best);
    for (; i + kLanes <= width; i += kLanes) {
      for (std::size_t k = 0; k < kLanes; ++k) lanes[k] = row[i + k] > lanes[k] ? row[i + k] : lanes[k];
    }
    best = *std::max_element(lanes, lanes + kLanes);
  }
  for (; i < width; ++i) best = std::max(best, row[i]);
  return static_cast<std::size_t>(std::find(row, row + width, best) - row);
}

HostArray argmax_of(const float* values, const Shape& shape) {
  if (shape.rank() == 0 || shape[-1] == 0) {
    throw_invalid_argument(fmt::format("no largest element in an array of shape {}", shape.to_string()));
  }
  HostArray out{without_last(shape), {}};
  const std::int64_t width = shape[-1], rows = shape.num_elements().value() / width;
  out.values.resize(static_cast<std::size_t>(rows));
  ops::parallel_for(0, rows, std::max<std::int64_t>(1, kPiece / width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::size_t at = position_of_largest(values + row * width, static_cast<std::size_t>(width));
      out.values[static_cast<std::size_t>(row)] = static_cast<float>(at);
    }
  });
  return out;
}

}  // namespace

HostArray to_host(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat32: return {tensor.shape(), tensor.to_vector<float>()};
    case DType::kFloat64: return {tensor.shape(), converted<double>(tensor)};
    case DType::kInt32: return {tensor.shape(), converted<std::int32_t>(tensor)};
    case DType::kInt64: return {tensor.shape(), converted<std::int64_t>(tensor)};
    case DType::kUInt8: return {tensor.shape(), converted<std::uint8_t>(tensor)};
    case DType::kBool: return {tensor.shape(), converted<bool>(tensor)};
    default: return {tensor.shape(), ops::cast(tensor, DType::kFloat32).to_vector<float>()};
  }
}

Tensor to_tensor(const HostArray& array) { return Tensor::from_vector(array.values, array.shape); }

void squeeze_or_expand(HostArray& a, HostArray& b) {
  if (a.rank() == b.rank() + 1 && a.shape[-1] == 1) {
    if (b.rank() == 1) {
      b.shape.push_back(1);
    } else {
      a.shape = without_last(a.shape);
    }
  } else if (b.rank() == a.rank() + 1 && b.shape[-1] == 1) {
    if (a.rank() == 1) {
      a.shape.push_back(1);
    } else {
      b.shape = without_last(b.shape);
    }
  }
}

HostArray broadcast_to(const HostArray& a, const Shape& shape, const char* what) {
  if (a.shape == shape) return a;
  const int extra = shape.rank() - a.rank();
  bool fits = extra >= 0;
  for (int axis = 0; axis < a.rank() && fits; ++axis) {
    fits = a.shape[axis] == 1 || a.shape[axis] == shape[axis + extra];
  }
  if (!fits) {
    throw_invalid_argument(
        fmt::format("{} of shape {} does not fit values of shape {}", what, a.shape.to_string(), shape.to_string()));
  }
  HostArray out{shape, {}};
  const auto size = static_cast<std::size_t>(*shape.num_elements());
  out.values.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    std::size_t rest = i, stride = 1, at = 0;
    for (int axis = shape.rank() - 1; axis >= extra; --axis) {
      const auto extent = static_cast<std::size_t>(shape[axis]);
      const auto own = static_cast<std::size_t>(a.shape[axis - extra]);
      if (own != 1) at += rest % extent * stride;
      rest /= extent;
      stride *= own;
    }
    out.values[i] = a.values[at];
  }
  return out;
}

namespace {

// The sums over all axes from `axis` on, divided by the number of elements where `mean`.
HostArray reduce_from(const HostArray& a, int axis, bool mean) {
  if (a.rank() <= axis) return a;
  HostArray out;
  std::size_t rows = 1;
  for (int i = 0; i < axis; ++i) {
    out.shape.push_back(a.shape[i]);
    rows *= static_cast<std::size_t>(a.shape[i]);
  }
  const std::size_t width = rows == 0 ? 0 : a.size() / rows;
  out.values.resize(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < width; ++i) sum += a.values[row * width + i];
    out.values[row] = static_cast<float>(mean ? sum / static_cast<double>(width) : sum);
  }
  return out;
}

}  // namespace

HostArray mean_from(const HostArray& a, int axis) { return reduce_from(a, axis, true); }
HostArray sum_from(const HostArray& a, int axis) { return reduce_from(a, axis, false); }

HostArray argmax_last(const HostArray& a) { return argmax_of(a.values.data(), a.shape); }

HostArray argmax_last(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat32) return argmax_last(to_host(tensor));
  const formats::TensorData data = tensor.to_data();
  return argmax_of(reinterpret_cast<const float*>(data.bytes.data()), tensor.shape());
}

HostArray move_to_end(const HostArray& a, int axis) {
  if (axis < 0) axis += a.rank();
  if (axis < 0 || axis >= a.rank()) {
    throw_invalid_argument(fmt::format("axis {} is outside of an array of shape {}", axis, a.shape.to_string()));
  }
  if (axis == a.rank() - 1) return a;
  std::vector<std::int64_t> dims = a.shape.dims();
  const auto extent = static_cast<std::size_t>(dims[static_cast<std::size_t>(axis)]);
  std::size_t inner = 1;
  for (int i = axis + 1; i < a.rank(); ++i) inner *= static_cast<std::size_t>(a.shape[i]);
  dims.erase(dims.begin() + axis);
  dims.push_back(static_cast<std::int64_t>(extent));
  HostArray out{Shape(dims), std::vector<float>(a.size())};
  const std::size_t block = extent * inner;
  for (std::size_t at = 0; at < a.size(); at += block) {
    for (std::size_t e = 0; e < extent; ++e) {
      for (std::size_t i = 0; i < inner; ++i) out.values[at + i * extent + e] = a.values[at + e * inner + i];
    }
  }
  return out;
}

}  // namespace lockstep::metrics
