#include "lockstep/ops/small_program_internal.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::size_t kLargestValue = static_cast<std::size_t>(kSmallElements) * 8 + kAlignment;

// Scratch memory of a thread. Programs do not call each other.
struct Scratch {
  std::vector<SmallValue> values;
  std::unique_ptr<std::byte[]> memory;
  std::size_t size = 0;

  std::span<std::byte> at_least(std::size_t bytes) {
    if (size < bytes) {
      memory.reset(new std::byte[bytes]);  // NOLINT: must not be cleared
      size = bytes;
    }
    return {memory.get(), size};
  }
};
thread_local Scratch t_scratch;

// A graph may connect an output to an input of another dtype or rank, which the operation's own kernel reports.
bool has_declared_types(const SmallInstruction& instruction, const SmallFrame& frame) {
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (instruction.in(frame, i).dtype != instruction.operand_types[i]) return false;
  }
  for (std::size_t i = 0; i < instruction.limits.size(); ++i) {
    const InputLimit& limit = instruction.limits[i];
    const SmallValue& value = instruction.in(frame, i);
    if (value.rank < limit.min_rank || value.rank > limit.max_rank) return false;
    if (limit.same_shape_as < 0) continue;
    const SmallValue& other = instruction.in(frame, static_cast<std::size_t>(limit.same_shape_as));
    if (!std::ranges::equal(value.shape(), other.shape())) return false;
  }
  return true;
}

SmallBuilder find_builder(std::string_view op) {
  for (const auto find : {find_small_elementwise, find_small_array, find_small_reduction}) {
    if (const SmallBuilder found = find(op)) return found;
  }
  return nullptr;
}

}  // namespace

bool as_small_value(const Tensor& tensor, DType dtype, SmallValue& value) {
  if (!tensor.defined() || tensor.dtype() != dtype) return false;
  const at::Tensor& dense = tensor.impl()->value;
  const auto& dims = tensor.impl()->shape.dims();
  if (!dense.defined() || dims.size() > kSmallRank || !dense.device().is_cpu()) return false;
  if (dense.requires_grad() && at::GradMode::is_enabled()) return false;
  value.dtype = dtype;
  value.rank = static_cast<int>(dims.size());
  value.count = dense.numel();
  std::copy(dims.begin(), dims.end(), value.dims.begin());
  const bool narrow = std::ranges::all_of(dims, [](std::int64_t dim) { return dim <= kSmallElements; });
  value.data = narrow && value.count <= kSmallElements && dense.is_contiguous() ? dense.const_data_ptr() : nullptr;
  return true;
}

Tensor from_small_value(const SmallValue& value) {
  at::Tensor out = at::empty(value.shape(), at::TensorOptions(to_scalar_type(value.dtype)));
  const std::size_t bytes = static_cast<std::size_t>(value.count) * static_cast<std::size_t>(out.element_size());
  if (bytes > 0) std::memcpy(out.mutable_data_ptr(), value.data, bytes);
  return wrap(std::move(out));
}

void* SmallFrame::allocate(SmallValue& out) {
  out.count = 1;
  for (const std::int64_t dim : out.shape()) {
    if (dim < 0 || dim > kSmallElements) return nullptr;
    out.count *= dim;
    if (out.count > kSmallElements) return nullptr;
  }
  const std::size_t bytes =
      (static_cast<std::size_t>(out.count) * dtype_size(out.dtype) + kAlignment - 1) / kAlignment * kAlignment;
  void* data = memory_.data();
  memory_ = memory_.subspan(bytes);
  out.data = data;
  return data;
}

bool SmallProgram::supports(const Op& op, const Attrs& attrs, std::span<const DType> input_types) {
  const SmallBuilder builder = find_builder(op.signature->name);
  SmallInstruction instruction;
  return builder && builder(attrs, input_types, instruction);
}

int SmallProgram::add_input(DType dtype) {
  if (!instructions_.empty()) throw_internal("a small program gets its inputs before its instructions");
  input_types_.push_back(dtype);
  return num_values_++;
}

int SmallProgram::add_constant(const Tensor& value) {
  kept_.push_back(value.is_value() && value.dtype() != DType::kString ? wrap(dense(value).contiguous()) : value);
  constants_.emplace_back();
  if (!as_small_value(kept_.back(), value.dtype(), constants_.back())) throw_internal("no constant of a small program");
  return ~static_cast<int>(constants_.size() - 1);
}

int SmallProgram::add_instruction(const Op& op, const Attrs& attrs, std::span<const DType> input_types,
                                  std::vector<int> operands, int num_outputs) {
  SmallInstruction instruction;
  if (!find_builder(op.signature->name)(attrs, input_types, instruction)) {
    throw_internal(fmt::format("{} is not an operation of small programs", op.signature->name));
  }
  instruction.operands = std::move(operands);
  instruction.operand_types.assign(input_types.begin(), input_types.end());
  if (op.signature->inputs.size() == instruction.operands.size()) instruction.limits = input_limits(*op.signature);
  instruction.output = num_values_;
  instruction.num_outputs = num_outputs;
  num_values_ += num_outputs;
  instructions_.push_back(std::move(instruction));
  return instructions_.back().output;
}

bool SmallProgram::compute(std::span<const SmallValue> inputs, std::span<SmallValue> outputs) const {
  Scratch& scratch = t_scratch;
  if (scratch.values.size() < static_cast<std::size_t>(num_values_)) {
    scratch.values.resize(static_cast<std::size_t>(num_values_));
  }
  std::copy(inputs.begin(), inputs.end(), scratch.values.begin());
  const std::size_t results = static_cast<std::size_t>(num_values_) - inputs.size();
  SmallFrame frame(scratch.values, constants_, scratch.at_least(results * kLargestValue));
  for (const SmallInstruction& instruction : instructions_) {
    if (!has_declared_types(instruction, frame) || !instruction.kernel(instruction, frame)) return false;
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    outputs[i] = frame.value(outputs_[i]);
    if (outputs[i].data == nullptr) return false;
  }
  return true;
}

bool SmallProgram::run(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const {
  thread_local std::vector<SmallValue> given, results;
  given.resize(inputs.size());
  results.resize(outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!as_small_value(*inputs[i], input_types_[i], given[i])) return false;
  }
  if (!compute(given, results)) return false;
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = from_small_value(results[i]);
  return true;
}

}  // namespace lockstep::ops
