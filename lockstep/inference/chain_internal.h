// Elementwise functions of several tensors in one pass: blocks that stay in the first cache go through all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/inference/kernels_internal.h"

namespace lockstep::inference {

using Dims = std::vector<std::int64_t>;
std::int64_t product_of(const Dims& dims);
// Numpy's rule; the dims must be compatible.
Dims broadcast_dims(const Dims& a, const Dims& b);

// Numbers that nobody changes while `owner` lives.
struct Constant {
  const float* data = nullptr;
  std::int64_t size = 0;
  std::shared_ptr<const void> owner;

  static Constant of(std::vector<float> values);
  explicit operator bool() const { return data != nullptr; }
};

// Where the values of a program are during one run, by number.
using Memory = std::vector<float*>;

class Chain {
 public:
  // A tensor that is read, as the result's elements see it.
  struct Operand {
    int value = -1;  // of the program, or
    Constant constant;
    Dims dims;  // as it is; broadcast to those of the chain
  };
  // Registers 0 … are the operands, those after them the results of the instructions before.
  struct Instruction {
    Function function;
    int a = 0, b = 0;
    float alpha = 0;
  };

  Chain() = default;
  explicit Chain(Dims dims) : dims_(std::move(dims)) {}

  const Dims& dims() const { return dims_; }
  const std::vector<Operand>& operands() const { return operands_; }
  const std::vector<Instruction>& code() const { return code_; }
  bool empty() const { return code_.empty(); }

  // Operands come before instructions; the last instruction's result is the chain's. Both return the register.
  int add_operand(Operand operand);
  int add(Instruction instruction);
  // Whether operand i has the elements of the result in the same order.
  bool is_whole(int i) const { return product_of(operands_[static_cast<std::size_t>(i)].dims) == product_of(dims_); }
  // The operand that is `value`, read whole; -1: none, or read in another way too.
  int whole_operand(int value) const;
  // Whether after() keeps the meaning of inner's operands and the limits of run().
  bool can_follow(const Chain& inner) const;
  // Reads the result of `inner` instead of operand `at`, which is whole.
  Chain after(const Chain& inner, int at) const;
  // Leaves out a first instruction `function` of operand `at` that nothing else reads: the operand is given with it
  // done. False where the chain begins otherwise.
  bool drop_first(Function function, int at);
  // To be called when it is complete; before run().
  void prepare();

  // Elements begin … end of the result, to to[begin …]. `own`, unless null, is read for operand `own_operand`.
  void run(const Memory& memory, std::int64_t begin, std::int64_t end, float* to, int own_operand = -1,
           const float* own = nullptr) const;

 private:
  struct Layout {  // of one operand: floats from one index to the next of each collapsed axis
    Dims strides;
    bool is_row = true;  // or the same number along the last axis
  };
  // Elements of consecutive rows.
  struct Block {
    std::int64_t rows, columns;
  };
  struct Slot {
    int buffer = -1;  // -1: an operand's own memory; -2: the result's
    bool is_row = true;
  };
  void join_gelu();
  void join_silu();
  void drop_unread();
  void collapse_axes();
  void lengthen_rows();
  bool join_last_axes();  // whether the last two axes have become one
  void assign_buffers();
  Block block_at(std::int64_t position, std::int64_t end) const;
  void gather(const Block& block, const float** operands) const;
  void run_row(const float* const* operands, std::int64_t count, float* to) const;

  Dims dims_;
  std::vector<Operand> operands_;
  std::vector<Instruction> code_;
  // Made by prepare().
  Dims axes_;             // of the result, those that all operands go through alike joined
  bool gathers_ = false;  // rows are so short that a block has several: operands are brought into one order
  std::vector<Layout> layouts_;
  std::vector<Slot> slots_;  // by register
};

}  // namespace lockstep::inference
