#include "lockstep/graph/serialized_tensor.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/graph/serialized_tensor_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/call.h"

namespace lockstep {

Tensor graph::serialized(const Tensor& tensor) {
  tensorflow::TensorProto proto;
  tensor_to_proto(tensor, &proto);
  return Tensor::strings({formats::serialize_proto(proto, "a tensor")}, Shape{});
}

Tensor graph::parsed(const Tensor& bytes, DType dtype) {
  const std::vector<std::string>& texts = bytes.string_values();
  if (texts.size() != 1) throw_invalid_argument("a serialized tensor must be a single string");
  tensorflow::TensorProto proto;
  formats::parse_proto(proto, io::as_bytes(texts[0]), "a serialized tensor");
  Tensor value = tensor_from_proto(proto, "a serialized tensor");
  if (value.dtype() != dtype) {
    throw_invalid_argument(
        fmt::format("the serialized tensor is {}, expected {}", dtype_name(value.dtype()), dtype_name(dtype)));
  }
  return value;
}

Tensor io::serialize_tensor(const Tensor& tensor) {
  return tensor.is_symbolic() ? ops::call1("SerializeTensor", {tensor}) : graph::serialized(tensor);
}
Tensor io::parse_tensor(const Tensor& serialized, DTypeLike out_type) {
  if (serialized.is_symbolic()) return ops::call1("ParseTensor", {serialized}, {{"out_type", out_type}});
  return graph::parsed(serialized, out_type);
}

}  // namespace lockstep
