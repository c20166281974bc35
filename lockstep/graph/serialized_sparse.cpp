// Sparse tensors as vectors of three tensors, the indices, the values and the shape: serialized, or variants, as
// datasets have them.
#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/graph/plan_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/variants_internal.h"

namespace lockstep::graph {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr std::size_t kParts = 3;

std::string serialized(const Tensor& tensor) {
  tensorflow::TensorProto proto;
  tensor_to_proto(tensor, &proto);
  if (tensor.dtype() == DType::kString) {  // here TensorFlow writes strings as content, too
    std::string content;
    for (const std::string& value : tensor.string_values()) formats::append_varint(content, value.size());
    for (const std::string& value : tensor.string_values()) content += value;
    proto.clear_string_val();
    proto.set_tensor_content(std::move(content));
  }
  return formats::serialize_proto(proto, "a tensor");
}

Tensor parsed(const std::string& bytes) {
  tensorflow::TensorProto proto;
  formats::parse_proto(proto, io::as_bytes(bytes), "a serialized sparse tensor");
  return tensor_from_proto(proto, "a serialized sparse tensor");
}

Tensor int64s(const Ints& values, const Shape& shape) { return Tensor::from_vector(values, shape); }

struct Sparse {
  Tensor values;
  Ints indices, shape;  // rows of as many numbers as the shape has
};

void check(bool fits) {
  if (!fits)
    throw_invalid_argument("a sparse tensor needs int64 indices [n, rank], n values and an int64 shape [rank]");
}

void check_extents(const Ints& shape) {
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw_invalid_argument(fmt::format("the shape of a sparse tensor has the extent {}", extent));
  }
}

Sparse sparse_of(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  check(indices.dtype() == DType::kInt64 && indices.rank() == 2 && shape.dtype() == DType::kInt64 && shape.rank() == 1);
  check(values.rank() == 1 && values.dim(0) == indices.dim(0) && indices.dim(1) == shape.dim(0));
  return {values, indices.to_vector<std::int64_t>(), shape.to_vector<std::int64_t>()};
}

bool as_variants(const Step& step) { return step.attr<DType>("out_type") == DType::kVariant; }

Tensor triple_of_variants(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  return ops::variants({ops::variant_of({indices}), ops::variant_of({values}), ops::variant_of({shape})});
}

// The scalars of a tensor of variants, in order.
void collect_scalars(const Tensor& tensor, Tensors& out) {
  if (tensor.rank() == 0) return out.push_back(tensor);
  for (const Tensor& element : ops::variants_in(tensor)) collect_scalars(element, out);
}

Tensors serialize_sparse(const Step& step, const Tensors& inputs, RunContext&) {
  sparse_of(inputs[0], inputs[1], inputs[2]);
  if (as_variants(step)) return {triple_of_variants(inputs[0], inputs[1], inputs[2])};
  return {Tensor::strings({serialized(inputs[0]), serialized(inputs[1]), serialized(inputs[2])}, Shape{3})};
}

// Each row of the first axis by itself: its indices, values and shape.
std::vector<std::array<Tensor, kParts>> rows_of(const Tensors& inputs, RunContext& context) {
  const Sparse all = sparse_of(inputs[0], inputs[1], inputs[2]);
  const std::size_t rank = all.shape.size();
  if (rank < 2) throw_invalid_argument("the rank of the sparse tensor must be at least 2");
  check_extents(all.shape);
  for (std::size_t i = 0; i < all.indices.size(); ++i) {
    const std::int64_t index = all.indices[i], extent = all.shape[i % rank];
    if (index < 0 || index >= extent)
      throw_invalid_argument(fmt::format("index {} of the sparse tensor is outside of its extent {}", index, extent));
    if (i >= rank && i % rank == 0) {
      const auto at = all.indices.begin() + static_cast<std::ptrdiff_t>(i),
                 end = at + static_cast<std::ptrdiff_t>(rank);
      if (!std::lexicographical_compare(at - static_cast<std::ptrdiff_t>(rank), at, at, end))
        throw_invalid_argument("the indices of the sparse tensor must be in order, and none may be there twice");
    }
  }
  const std::int64_t rows = all.shape[0], count = inputs[1].dim(0);
  const Tensor shape = int64s(Ints(all.shape.begin() + 1, all.shape.end()), Shape{static_cast<std::int64_t>(rank) - 1});
  std::vector<std::array<Tensor, kParts>> out;
  std::int64_t next = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    context.budget.count_iteration();
    const std::int64_t first = next;
    Ints indices;
    for (; next < count && all.indices[static_cast<std::size_t>(next) * rank] == row; ++next) {
      const auto at = all.indices.begin() + next * static_cast<std::int64_t>(rank);
      indices.insert(indices.end(), at + 1, at + static_cast<std::int64_t>(rank));
    }
    const Tensor values =
        ops::call1("Slice", {all.values, int64s({first}, Shape{1}), int64s({next - first}, Shape{1})});
    out.push_back({int64s(indices, Shape{next - first, static_cast<std::int64_t>(rank) - 1}), values, shape});
  }
  if (next != count) throw_invalid_argument("the indices must be within the shape and in the order of their rows");
  return out;
}

Tensors serialize_many_sparse(const Step& step, const Tensors& inputs, RunContext& context) {
  const auto rows = rows_of(inputs, context);
  if (as_variants(step)) {
    Tensors variants;
    for (const auto& [indices, values, shape] : rows) variants.push_back(triple_of_variants(indices, values, shape));
    return {ops::variants(variants)};
  }
  std::vector<std::string> out;
  for (const auto& row : rows) {
    for (const Tensor& part : row) out.push_back(serialized(part));
  }
  return {Tensor::strings(std::move(out), Shape{static_cast<std::int64_t>(rows.size()), kParts})};
}

// Sparse tensors of one rank as one, with the axes `outer` in front of theirs.
Tensors joined(const std::vector<Sparse>& all, const Ints& outer, DType dtype) {
  Ints indices, shape;
  Tensors values;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Sparse& each = all[i];
    if (each.values.dtype() != dtype)
      throw_invalid_argument(fmt::format("the values of sparse tensor {} are {}, expected {}", i,
                                         dtype_name(each.values.dtype()), dtype_name(dtype)));
    if (i == 0) shape.assign(each.shape.size(), 0);
    if (shape.size() != each.shape.size())
      throw_invalid_argument(
          fmt::format("sparse tensor {} has rank {}, expected {}", i, each.shape.size(), shape.size()));
    for (std::size_t k = 0; k < shape.size(); ++k)
      shape[k] = i == 0 ? each.shape[k] : std::max(shape[k], each.shape[k]);
    Ints place(outer.size());
    std::size_t rest = i;
    for (std::size_t k = outer.size(); k-- > 0; rest /= static_cast<std::size_t>(outer[k]))
      place[k] = static_cast<std::int64_t>(rest % static_cast<std::size_t>(outer[k]));
    for (std::int64_t n = 0; n < each.values.dim(0); ++n) {
      const auto at = each.indices.begin() + n * static_cast<std::int64_t>(shape.size());
      indices.insert(indices.end(), place.begin(), place.end());
      indices.insert(indices.end(), at, at + static_cast<std::int64_t>(shape.size()));
    }
    values.push_back(each.values);
  }
  shape.insert(shape.begin(), outer.begin(), outer.end());
  const auto rank = static_cast<std::int64_t>(shape.size());
  values.push_back(Tensor::scalar<std::int32_t>(0));
  const Tensor together = all.size() == 1 ? values[0] : ops::call1("ConcatV2", values);
  return {int64s(indices, Shape{together.dim(0), rank}), together, int64s(shape, Shape{rank})};
}

// Tensors of one rank become one with the axes of `serialized_sparse`, except its last, in front of theirs.
Tensors deserialize_sparse(const Step& step, const Tensors& inputs, RunContext&) {
  const Shape& given = inputs[0].shape();
  if (given.rank() < 1 || given[-1] != static_cast<std::int64_t>(kParts))
    throw_invalid_argument(fmt::format("serialized_sparse must end with an axis of 3, found {}", given.to_string()));
  const bool variant = inputs[0].dtype() == DType::kVariant;
  Tensors scalars;
  if (variant) collect_scalars(inputs[0], scalars);
  const auto part = [&](std::size_t i) {
    return variant ? ops::parts_of(scalars[i])[0] : parsed(inputs[0].string_values()[i]);
  };
  const Ints outer(given.dims().begin(), given.dims().end() - 1);
  const std::size_t count = (variant ? scalars.size() : inputs[0].string_values().size()) / kParts;
  if (count == 0) throw_invalid_argument("serialized_sparse must hold at least one tensor");
  std::vector<Sparse> all;
  for (std::size_t i = 0; i < count; ++i)
    all.push_back(sparse_of(part(i * kParts), part(i * kParts + 1), part(i * kParts + 2)));
  return joined(all, outer, step.attr<DType>("dtype"));
}

// ---- sparse tensors that are kept under a number -----------------------------------------------------------------
// Thread-safe.
class SparseTensors final : public Resource {
 public:
  std::string resource_name() const override { return "SparseTensorsMap"; }

  std::int64_t put(const std::array<Tensor, kParts>& parts) {
    const std::lock_guard lock(mutex_);
    constexpr std::size_t kMost = 1 << 20;
    if (kept_.size() >= kMost) throw_resource_exhausted("sparse tensors are put into a map and not taken out");
    kept_.emplace(next_, parts);
    return next_++;
  }
  std::array<Tensor, kParts> take(std::int64_t handle) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.extract(handle);
    if (found.empty()) throw_invalid_argument(fmt::format("Unable to find SparseTensor: {} in map", handle));
    return found.mapped();
  }

 private:
  std::mutex mutex_;
  std::int64_t next_ = 0;
  std::map<std::int64_t, std::array<Tensor, kParts>> kept_;
};

SparseTensors& map_of(const Step& step, RunContext& context) {
  const std::string& shared = step.attr<std::string>("shared_name");
  const std::string name =
      fmt::format("{}/{}", step.attr<std::string>("container"), shared.empty() ? step.node->name : shared);
  return dynamic_cast<SparseTensors&>(
      *context.resources.find_or_put("sparse tensors", name, [] { return std::make_shared<SparseTensors>(); }));
}

Tensors add_sparse(const Step& step, const Tensors& inputs, RunContext& context) {
  check_extents(sparse_of(inputs[0], inputs[1], inputs[2]).shape);
  return {Tensor::scalar(map_of(step, context).put({inputs[0], inputs[1], inputs[2]}))};
}

Tensors add_many_sparse(const Step& step, const Tensors& inputs, RunContext& context) {
  Ints handles;
  for (const auto& row : rows_of(inputs, context)) handles.push_back(map_of(step, context).put(row));
  return {int64s(handles, Shape{static_cast<std::int64_t>(handles.size())})};
}

Tensors take_many_sparse(const Step& step, const Tensors& inputs, RunContext& context) {
  if (inputs[0].rank() != 1 || inputs[0].num_elements() == 0)
    throw_invalid_argument("sparse_handles must be a vector with at least one number");
  std::vector<Sparse> all;
  for (const std::int64_t handle : inputs[0].to_vector<std::int64_t>()) {
    const auto [indices, values, shape] = map_of(step, context).take(handle);
    all.push_back(sparse_of(indices, values, shape));
  }
  return joined(all, {static_cast<std::int64_t>(all.size())}, step.attr<DType>("dtype"));
}

}  // namespace

ExecutorOp find_sparse_serialization(std::string_view op) {
  if (op == "SerializeSparse") return serialize_sparse;
  if (op == "SerializeManySparse") return serialize_many_sparse;
  if (op == "DeserializeSparse" || op == "DeserializeManySparse") return deserialize_sparse;
  if (op == "AddSparseToTensorsMap") return add_sparse;
  if (op == "AddManySparseToTensorsMap") return add_many_sparse;
  if (op == "TakeManySparseFromTensorsMap") return take_many_sparse;
  return nullptr;
}

}  // namespace lockstep::graph
