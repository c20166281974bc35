// TensorProto, in all the ways its writers put values into it.
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/four_bits_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::graph {
namespace {

constexpr std::size_t kMaxRepeated = std::size_t{256} << 20;
constexpr std::size_t kMaxRepeatedTogether = std::size_t{512} << 20;

// What the constants of the graph that this thread reads have repeated; null outside of a RepeatedConstants.
thread_local std::size_t* t_repeated = nullptr;

// Throws before a constant that repeats a value takes more than its graph may.
void check_repeated(std::size_t count, std::size_t size, const Shape& shape, std::string_view what) {
  if (count > kMaxRepeated / size) {
    throw_resource_exhausted(fmt::format("{}: a constant of shape {} repeats one value; at most 256 MiB are allowed",
                                         what, shape.to_string()));
  }
  if (!t_repeated) return;
  *t_repeated += count * size;
  if (*t_repeated > kMaxRepeatedTogether) {
    throw_resource_exhausted(
        fmt::format("{}: the constants of the graph repeat values for more than 512 MiB together", what));
  }
}

// Typed values, the last one repeated to fill the shape.
template <typename T, typename Values>
formats::TensorData repeat(DType dtype, const Shape& shape, std::size_t count, const Values& values,
                           std::string_view what) {
  if (static_cast<std::size_t>(values.size()) < count) check_repeated(count, sizeof(T), shape, what);
  std::span<std::byte> bytes;
  formats::TensorData data = formats::TensorData::allocate(dtype, shape, bytes);
  const std::size_t given = std::min(count, static_cast<std::size_t>(values.size()));
  T last{};
  for (std::size_t i = 0; i < count; ++i) {
    if (i < given) last = static_cast<T>(values[static_cast<int>(i)]);
    std::memcpy(bytes.data() + i * sizeof(T), &last, sizeof(T));
  }
  return data;
}

// Pairs (re, im), contiguous.
template <typename T, typename Values>
formats::TensorData repeat_pairs(DType dtype, const Shape& shape, std::size_t count, const Values& values,
                                 std::string_view what) {
  struct Pairs {
    const Values& values;
    int size() const { return values.size() / 2; }
    std::pair<T, T> operator[](int i) const { return {values[2 * i], values[2 * i + 1]}; }
  };
  return repeat<std::pair<T, T>>(dtype, shape, count, Pairs{values}, what);
}

formats::TensorData typed_values(const tensorflow::TensorProto& proto, DType dtype, const Shape& shape,
                                 std::size_t count, std::string_view what) {
  switch (dtype) {
    case DType::kFloat32: return repeat<float>(dtype, shape, count, proto.float_val(), what);
    case DType::kFloat64: return repeat<double>(dtype, shape, count, proto.double_val(), what);
    case DType::kInt32: return repeat<std::int32_t>(dtype, shape, count, proto.int_val(), what);
    case DType::kInt64: return repeat<std::int64_t>(dtype, shape, count, proto.int64_val(), what);
    case DType::kInt16: return repeat<std::int16_t>(dtype, shape, count, proto.int_val(), what);
    case DType::kUInt16: return repeat<std::uint16_t>(dtype, shape, count, proto.int_val(), what);
    case DType::kInt8: return repeat<std::int8_t>(dtype, shape, count, proto.int_val(), what);
    case DType::kUInt8: return repeat<std::uint8_t>(dtype, shape, count, proto.int_val(), what);
    case DType::kUInt32: return repeat<std::uint32_t>(dtype, shape, count, proto.uint32_val(), what);
    case DType::kUInt64: return repeat<std::uint64_t>(dtype, shape, count, proto.uint64_val(), what);
    case DType::kBool: return repeat<std::uint8_t>(dtype, shape, count, proto.bool_val(), what);
    case DType::kFloat16:
    case DType::kBFloat16: return repeat<std::uint16_t>(dtype, shape, count, proto.half_val(), what);
    case DType::kFloat8E5M2:
    case DType::kFloat8E4M3FN: return repeat<std::uint8_t>(dtype, shape, count, proto.float8_val(), what);
    case DType::kComplex64: return repeat_pairs<float>(dtype, shape, count, proto.scomplex_val(), what);
    case DType::kComplex128: return repeat_pairs<double>(dtype, shape, count, proto.dcomplex_val(), what);
    default: throw_unimplemented(fmt::format("{}: a constant of type {} cannot be read", what, dtype_name(dtype)));
  }
}

Tensor string_tensor(const tensorflow::TensorProto& proto, const Shape& shape, std::size_t count,
                     std::string_view what) {
  if (static_cast<std::size_t>(proto.string_val_size()) < count) {
    const std::size_t last = proto.string_val_size() == 0 ? 0 : proto.string_val().rbegin()->size();
    check_repeated(count, sizeof(std::string) + last, shape, what);
  }
  std::vector<std::string> values;
  values.reserve(count);
  if (!proto.tensor_content().empty()) {  // the lengths of all strings, and then their bytes
    std::span<const std::byte> rest = io::as_bytes(proto.tensor_content());
    std::vector<std::uint64_t> lengths;
    for (std::size_t i = 0; i < count; ++i) {
      const auto length = formats::take_varint(rest);
      if (!length) throw_data_loss(fmt::format("{}: a constant of {} strings has too few lengths", what, count));
      lengths.push_back(*length);
    }
    for (const std::uint64_t length : lengths) {
      if (length > rest.size()) throw_data_loss(fmt::format("{}: a constant of {} strings is cut off", what, count));
      values.emplace_back(reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(length));
      rest = rest.subspan(static_cast<std::size_t>(length));
    }
    return Tensor::strings(std::move(values), shape);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const int at = std::min(static_cast<int>(i), proto.string_val_size() - 1);
    values.push_back(at < 0 ? std::string() : proto.string_val(at));
  }
  return Tensor::strings(std::move(values), shape);
}

}  // namespace

RepeatedConstants::RepeatedConstants() : outermost_(!t_repeated) {
  if (outermost_) t_repeated = &bytes_;
}
RepeatedConstants::~RepeatedConstants() {
  if (outermost_) t_repeated = nullptr;
}

// int4 and uint4 are held as int8 and uint8.
DType dtype_from_proto(int number) {
  if (number > 100) number -= 100;
  if (number == tensorflow::DT_INT4) return DType::kInt8;
  if (number == tensorflow::DT_UINT4) return DType::kUInt8;
  return number >= 0 && number <= static_cast<int>(DType::kFloat8E4M3FN) ? static_cast<DType>(number) : DType::kInvalid;
}

Shape shape_from_proto(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return Shape::unknown_rank();
  constexpr int kMostAxes = 254;  // TensorFlow's
  if (proto.dim_size() > kMostAxes)
    throw_invalid_argument(fmt::format("a shape has {} axes, at most {} are possible", proto.dim_size(), kMostAxes));
  Shape shape;
  for (const auto& dim : proto.dim()) shape.push_back(dim.size() < 0 ? kUnknownDim : dim.size());
  return shape;
}

void shape_to_proto(const Shape& shape, tensorflow::TensorShapeProto* proto) {
  proto->Clear();
  if (!shape.known_rank()) {
    proto->set_unknown_rank(true);
    return;
  }
  for (std::int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
}

Tensor tensor_from_proto(const tensorflow::TensorProto& proto, std::string_view what, const Owner& owner) {
  const Shape shape = shape_from_proto(proto.tensor_shape());
  const auto elements = shape.num_elements();
  if (!elements) throw_data_loss(fmt::format("{}: a constant of shape {}", what, shape.to_string()));
  const auto count = static_cast<std::size_t>(*elements);
  const DType dtype = dtype_from_proto(proto.dtype());
  if (dtype == DType::kString) return string_tensor(proto, shape, count, what);
  const std::size_t size = dtype_size(dtype);
  if (size == 0) {
    const auto name = tensorflow::DataType_Name(proto.dtype());
    throw_unimplemented(fmt::format("{}: a constant of type {} cannot be read", what, name.empty() ? "unknown" : name));
  }
  const std::string& content = proto.tensor_content();
  if (content.empty()) return Tensor::from_data(typed_values(proto, dtype, shape, count, what));
  if (count > content.size() / size || count * size != content.size()) {
    throw_data_loss(fmt::format("{}: a constant of shape {} and type {} has {} bytes, expected {}", what,
                                shape.to_string(), dtype_name(dtype), content.size(), count * size));
  }
  const auto bytes = std::as_bytes(std::span(content.data(), content.size()));
  if (proto.dtype() == tensorflow::DT_INT4) {
    std::vector<std::byte> values(bytes.begin(), bytes.end());
    formats::extend_int4(values);
    return Tensor::from_data(formats::TensorData::copy_of(dtype, shape, values));
  }
  if (!owner || reinterpret_cast<std::uintptr_t>(content.data()) % alignof(std::max_align_t) != 0) {
    return Tensor::from_data(formats::TensorData::copy_of(dtype, shape, bytes));
  }
  formats::TensorData data;
  data.dtype = dtype;
  data.shape = shape;
  data.bytes = bytes;
  data.owner = owner;
  return Tensor::from_data(data);
}

void tensor_to_proto(const Tensor& tensor, tensorflow::TensorProto* proto) {
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  shape_to_proto(tensor.shape(), proto->mutable_tensor_shape());
  if (tensor.dtype() == DType::kString) {
    for (const std::string& value : tensor.string_values()) proto->add_string_val(value);
    return;
  }
  const formats::TensorData data = tensor.to_data();
  proto->set_tensor_content(data.bytes.data(), data.bytes.size());
}

}  // namespace lockstep::graph
