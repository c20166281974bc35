// Sequences of operations on small tensors without a tensor for each intermediate value: a call of LibTorch costs half
// a microsecond, a number of a small tensor some nanoseconds. Internal to lockstep.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/ops/check_internal.h"
#include "lockstep/ops/op.h"

namespace lockstep::ops {

// A tensor with more elements than this is not small.
inline constexpr std::int64_t kSmallElements = 512;
inline constexpr int kSmallRank = 6;

// A value of a running program: a dense array in row-major order. `data` is null where only the shape is at hand.
struct SmallValue {
  const void* data = nullptr;
  std::int64_t count = 1;
  DType dtype = DType::kInvalid;
  int rank = 0;
  std::array<std::int64_t, kSmallRank> dims{};

  template <typename T>
  const T* as() const {
    return static_cast<const T*>(data);
  }
  std::span<const std::int64_t> shape() const { return {dims.data(), static_cast<std::size_t>(rank)}; }
};

struct SmallInstruction;

// The memory of one run.
class SmallFrame {
 public:
  SmallFrame(std::span<SmallValue> values, std::span<const SmallValue> constants, std::span<std::byte> memory)
      : values_(values), constants_(constants), memory_(memory) {}

  const SmallValue& value(int number) const {
    return number >= 0 ? values_[static_cast<std::size_t>(number)] : constants_[static_cast<std::size_t>(~number)];
  }
  SmallValue& result(int number) { return values_[static_cast<std::size_t>(number)]; }

  // Memory for a result of the dtype and shape that `out` has; null for one that is not small.
  void* allocate(SmallValue& out);

 private:
  std::span<SmallValue> values_;
  std::span<const SmallValue> constants_;
  std::span<std::byte> memory_;
};

// Computes the outputs of an instruction. False where this kernel cannot: the operation's own kernel then computes, or
// reports the error.
using SmallKernel = bool (*)(const SmallInstruction& instruction, SmallFrame& frame);

struct SmallInstruction {
  SmallKernel kernel = nullptr;
  std::vector<int> operands;           // numbers of values; ~i for constant i
  std::vector<DType> operand_types;    // as the signature has them
  std::span<const InputLimit> limits;  // of each operand, or none; where no argument is a list
  int output = 0;                      // number of the first output
  int num_outputs = 1;
  DType dtype = DType::kInvalid;      // of the outputs
  std::vector<std::int64_t> numbers;  // from the attributes, as the kernel needs them

  const SmallValue& in(const SmallFrame& frame, std::size_t i) const { return frame.value(operands[i]); }
};

class SmallProgram {
 public:
  // Whether an operation has a kernel here, by its checked attributes and the dtypes of its inputs.
  static bool supports(const Op& op, const Attrs& attrs, std::span<const DType> input_types);

  // Each returns the number of the value, that of the first output.
  int add_input(DType dtype);
  int add_constant(const Tensor& value);
  int add_instruction(const Op& op, const Attrs& attrs, std::span<const DType> input_types, std::vector<int> operands,
                      int num_outputs);
  void add_output(int value) { outputs_.push_back(value); }

  DType input_type(std::size_t i) const { return input_types_[i]; }

  std::size_t num_inputs() const { return input_types_.size(); }
  std::size_t num_outputs() const { return outputs_.size(); }

  // The outputs, valid until the thread runs another program. False where an instruction gives up.
  bool compute(std::span<const SmallValue> inputs, std::span<SmallValue> outputs) const;

  // The same of tensors. False, with `outputs` untouched, where an input is not a small tensor in host memory or is
  // tied to a tape, where a result is not small, and where an instruction gives up.
  bool run(std::span<const Tensor* const> inputs, std::span<Tensor> outputs) const;

 private:
  std::vector<DType> input_types_;
  std::vector<SmallValue> constants_;
  Tensors kept_;  // the memory of the constants
  std::vector<SmallInstruction> instructions_;
  std::vector<int> outputs_;
  int num_values_ = 0;
};

// The tensor as an input of the dtype. False for a tensor that no program takes.
bool as_small_value(const Tensor& tensor, DType dtype, SmallValue& value);
// A tensor with the numbers of `value`.
Tensor from_small_value(const SmallValue& value);

// Builds the instruction of an operation: fills kernel, dtype and numbers; false if no kernel has these
// attributes and dtypes.
using SmallBuilder = bool (*)(const Attrs& attrs, std::span<const DType> input_types, SmallInstruction& instruction);
// Null for an operation without small kernels.
SmallBuilder find_small_elementwise(std::string_view op);
SmallBuilder find_small_array(std::string_view op);
SmallBuilder find_small_reduction(std::string_view op);

}  // namespace lockstep::ops
