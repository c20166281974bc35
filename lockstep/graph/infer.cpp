#include "lockstep/graph/infer_internal.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "lockstep/graph/trace_internal.h"

namespace lockstep::graph {
namespace {

constexpr std::int64_t kMaxFolded = 1024;  // elements

using Entries = std::vector<std::int64_t>;
using Known = std::optional<Entries>;

// Entries of an integer vector or scalar, unknown ones as kUnknownDim.
Known entries(const Tensor& tensor) {
  const auto shape = constant_value_as_shape(tensor);
  if (!shape || !shape->known_rank()) return std::nullopt;
  return shape->dims();
}

// All entries of a true constant, which may be negative.
Known constants(const Tensor& tensor) {
  const auto value = constant_value(tensor);
  if (!value || (value->dtype() != DType::kInt32 && value->dtype() != DType::kInt64)) return std::nullopt;
  if (value->num_elements() > kMaxFolded) return std::nullopt;
  return constant_value_as_shape(*value)->dims();
}

Known shape_entries(const ops::Call& call) {
  const Shape& shape = call.input(0).shape();
  return shape.known_rank() ? Known(shape.dims()) : std::nullopt;
}

Known same_entries(const ops::Call& call) { return entries(call.input(0)); }

Known join(std::span<const Tensor> parts) {
  Entries all;
  for (const Tensor& part : parts) {
    const auto some = entries(part);
    if (!some) {
      // The length may be known although the entries are not.
      const auto count = part.shape().num_elements();
      if (!count || *count > kMaxFolded) return std::nullopt;
      all.insert(all.end(), static_cast<std::size_t>(*count), kUnknownDim);
      continue;
    }
    all.insert(all.end(), some->begin(), some->end());
  }
  return all;
}

Known concat_entries(const ops::Call& call) { return join(call.inputs().first(call.inputs().size() - 1)); }

Known slice_entries(const ops::Call& call) {
  const auto all = entries(call.input(0));
  const auto begin = constants(call.input(1));
  const auto size = constants(call.input(2));
  if (!all || !begin || !size || begin->size() != 1 || size->size() != 1) return std::nullopt;
  const auto count = static_cast<std::int64_t>(all->size());
  const std::int64_t first = begin->front();
  const std::int64_t length = size->front() < 0 ? count - first : size->front();
  if (first < 0 || length < 0 || first > count || length > count - first) return std::nullopt;
  return Entries(all->begin() + first, all->begin() + first + length);
}

Known strided_slice_entries(const ops::Call& call) {
  const auto all = entries(call.input(0));
  const auto begin = constants(call.input(1));
  const auto end = constants(call.input(2));
  const auto strides = constants(call.input(3));
  if (!all || !begin || !end || !strides || begin->size() != 1 || end->size() != 1 || strides->size() != 1) {
    return std::nullopt;
  }
  if (call.attr<std::int64_t>("ellipsis_mask") != 0 || call.attr<std::int64_t>("new_axis_mask") != 0) {
    return std::nullopt;
  }
  const auto count = static_cast<std::int64_t>(all->size());
  const std::int64_t stride = strides->front();
  if (stride == 0) return std::nullopt;
  if (call.attr<std::int64_t>("shrink_axis_mask") & 1) {
    const std::int64_t at = begin->front() < 0 ? begin->front() + count : begin->front();
    if (at < 0 || at >= count) return std::nullopt;
    return Entries{(*all)[static_cast<std::size_t>(at)]};
  }
  const std::int64_t low = stride > 0 ? 0 : -1;
  const std::int64_t high = stride > 0 ? count : count - 1;
  const auto place = [&](std::int64_t at) { return std::clamp(at < 0 ? at + count : at, low, high); };
  const bool from_start = call.attr<std::int64_t>("begin_mask") & 1;
  const bool to_end = call.attr<std::int64_t>("end_mask") & 1;
  const std::int64_t first = from_start ? (stride > 0 ? low : high) : place(begin->front());
  const std::int64_t last = to_end ? (stride > 0 ? high : low) : place(end->front());
  Entries out;
  for (std::int64_t i = first; stride > 0 ? i < last : i > last; i += stride) {
    out.push_back((*all)[static_cast<std::size_t>(i)]);
  }
  return out;
}

Known gather_entries(const ops::Call& call) {
  const auto all = entries(call.input(0));
  const auto indices = constants(call.input(1));
  if (!all || !indices || call.input(1).rank() > 1) return std::nullopt;
  Entries out;
  for (std::int64_t index : *indices) {
    if (index < 0 || index >= static_cast<std::int64_t>(all->size())) return std::nullopt;
    out.push_back((*all)[static_cast<std::size_t>(index)]);
  }
  return out;
}

Known product_entries(const ops::Call& call) {
  const auto all = entries(call.input(0));
  if (!all || (call.inputs().size() > 1 && call.input(0).rank() != 1)) return std::nullopt;
  const auto product = Shape(*all).num_elements();
  return Entries{product.value_or(kUnknownDim)};
}

using Binary = std::int64_t (*)(std::int64_t, std::int64_t);

template <Binary function>
Known elementwise_entries(const ops::Call& call) {
  const auto a = entries(call.input(0));
  const auto b = entries(call.input(1));
  if (!a || !b) return std::nullopt;
  const std::size_t count = std::max(a->size(), b->size());
  if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1)) return std::nullopt;
  Entries out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t x = (*a)[a->size() == 1 ? 0 : i];
    const std::int64_t y = (*b)[b->size() == 1 ? 0 : i];
    constexpr std::int64_t kLarge = std::int64_t{1} << 31;
    const bool usable = x >= 0 && y >= 0 && x < kLarge && y < kLarge;
    out.push_back(usable ? std::max<std::int64_t>(function(x, y), kUnknownDim) : kUnknownDim);
  }
  return out;
}

std::int64_t add(std::int64_t x, std::int64_t y) { return x + y; }
std::int64_t subtract(std::int64_t x, std::int64_t y) { return x - y; }
std::int64_t multiply(std::int64_t x, std::int64_t y) { return x * y; }
std::int64_t divide(std::int64_t x, std::int64_t y) { return y == 0 ? kUnknownDim : x / y; }
std::int64_t larger(std::int64_t x, std::int64_t y) { return std::max(x, y); }
std::int64_t smaller(std::int64_t x, std::int64_t y) { return std::min(x, y); }

using EntriesRule = std::function<Known(const ops::Call&)>;

const std::unordered_map<std::string_view, EntriesRule>& entries_rules() {
  static const std::unordered_map<std::string_view, EntriesRule> rules = {
      {"Shape", shape_entries},
      {"Identity", same_entries},
      {"StopGradient", same_entries},
      {"EnsureShape", same_entries},
      {"Cast", same_entries},
      {"Reshape", same_entries},
      {"Squeeze", same_entries},
      {"ExpandDims", same_entries},
      {"Pack", [](const ops::Call& call) { return join(call.inputs()); }},
      {"ConcatV2", concat_entries},
      {"Slice", slice_entries},
      {"StridedSlice", strided_slice_entries},
      {"GatherV2", gather_entries},
      {"Prod", product_entries},
      {"Size",
       [](const ops::Call& call) -> Known {
         return Entries{call.input(0).shape().num_elements().value_or(kUnknownDim)};
       }},
      {"Rank",
       [](const ops::Call& call) -> Known {
         return Entries{call.input(0).shape().known_rank() ? call.input(0).shape().rank() : kUnknownDim};
       }},
      {"Add", elementwise_entries<add>},
      {"AddV2", elementwise_entries<add>},
      {"Sub", elementwise_entries<subtract>},
      {"Mul", elementwise_entries<multiply>},
      {"FloorDiv", elementwise_entries<divide>},
      {"Maximum", elementwise_entries<larger>},
      {"Minimum", elementwise_entries<smaller>},
  };
  return rules;
}

bool is_index(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

// Entries are only meaningful for scalars and vectors of that length.
bool fits(const Entries& values, const Shape& shape) {
  if (!shape.known_rank()) return false;
  if (shape.rank() == 0) return values.size() == 1;
  return shape.rank() == 1 && (shape[0] == kUnknownDim || shape[0] == static_cast<std::int64_t>(values.size()));
}

Tensor value_of(const Entries& values, DType dtype, const Shape& shape) {
  const Shape full = shape.rank() == 0 ? Shape{} : Shape{static_cast<std::int64_t>(values.size())};
  if (dtype == DType::kInt64) return Tensor::from_vector(values, full);
  return Tensor::from_vector(std::vector<std::int32_t>(values.begin(), values.end()), full);
}

void infer_entries(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs,
                   std::vector<Inferred>& outputs) {
  if (outputs.size() != 1 || !is_index(outputs[0].dtype)) return;
  const auto rule = entries_rules().find(op.signature->name);
  if (rule == entries_rules().end()) return;
  const auto values = rule->second(ops::Call(*op.signature, inputs, attrs));
  if (!values || static_cast<std::int64_t>(values->size()) > kMaxFolded || !fits(*values, outputs[0].shape)) return;
  if (outputs[0].shape.rank() == 1) outputs[0].shape[0] = static_cast<std::int64_t>(values->size());
  outputs[0].as_shape = Shape(*values);
}

void infer_handles(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs,
                   std::vector<Inferred>& outputs) {
  const std::string& name = op.signature->name;
  if (name == "LookupTableFindV2" && inputs[2].rank() == 0) outputs[0].shape = inputs[1].shape();  // scalar values
  if (name != "ReadVariableOp" && name != "ResourceGather") return;
  VariableResource* variable = variable_of(inputs[0]);
  if (!variable) return;
  const Shape& shape = variable->shape();
  if (name == "ReadVariableOp") {
    outputs[0].shape = shape;
    return;
  }
  const ops::Call call(*op.signature, inputs, attrs);
  const Shape& indices = inputs[1].shape();
  if (!indices.known_rank() || shape.rank() == 0 || call.attr<std::int64_t>("batch_dims") != 0) return;
  outputs[0].shape = indices;
  for (int axis = 1; axis < shape.rank(); ++axis) outputs[0].shape.push_back(shape[axis]);
}

}  // namespace

VariableResource* variable_of(const Tensor& handle) {
  if (!handle.defined() || handle.dtype() != DType::kResource) return nullptr;
  if (!handle.is_symbolic()) return dynamic_cast<VariableResource*>(handle.resource_value().get());
  const auto* edge = dynamic_cast<const Edge*>(handle.symbol_value().get());
  return edge ? dynamic_cast<VariableResource*>(edge->resource.get()) : nullptr;
}

std::vector<Inferred> infer(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs) {
  std::vector<Inferred> outputs;
  for (ops::OutputType& type : ops::infer_outputs(op, inputs, attrs)) {
    outputs.push_back({type.dtype, std::move(type.shape), std::nullopt});
  }
  if (const ops::Attr* shapes = attrs.find("output_shapes")) {
    const auto* list = std::get_if<std::vector<Shape>>(shapes);
    for (std::size_t i = 0; list && i < outputs.size() && list->size() == outputs.size(); ++i) {
      outputs[i].shape = (*list)[i];
    }
  }
  infer_handles(op, inputs, attrs, outputs);
  infer_entries(op, inputs, attrs, outputs);
  return outputs;
}

std::optional<Tensors> fold(const ops::Op& op, std::span<const Tensor> inputs, const ops::Attrs& attrs,
                            std::span<const Inferred> inferred) {
  if (op.signature->stateful || inferred.empty()) return std::nullopt;
  if (inferred.size() == 1 && inferred[0].as_shape && inferred[0].as_shape->fully_known()) {
    return Tensors{value_of(inferred[0].as_shape->dims(), inferred[0].dtype, inferred[0].shape)};
  }
  if (!op.kernel) return std::nullopt;
  for (const Inferred& output : inferred) {
    if (!is_index(output.dtype) && output.dtype != DType::kBool) return std::nullopt;
    const auto count = output.shape.num_elements();
    if (!count || *count > kMaxFolded) return std::nullopt;
  }
  Tensors values;
  for (const Tensor& input : inputs) {
    const auto value = constant_value(input);
    if (!value || value->dtype() == DType::kString || value->num_elements() > kMaxFolded) return std::nullopt;
    values.push_back(*value);
  }
  if (inputs.empty()) return std::nullopt;
  return ops::run_kernel(op, values, attrs);
}

}  // namespace lockstep::graph
