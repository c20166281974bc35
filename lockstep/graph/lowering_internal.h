// From a plan to a program of lockstep/inference: calls inlined, variables and all that follows from constants
// computed, shapes fixed. Internal to lockstep/graph.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/graph/plan_internal.h"
#include "lockstep/inference/program_internal.h"

namespace lockstep::graph {

// The known facts about a tensor: a constant (a value or a resource), or the value of the program that will hold it.
struct Lowered {
  Tensor constant;
  int value = -1;  // with neither, the tensor cannot be read
  DType dtype = DType::kInvalid;
  inference::Dims dims;
  // While a program for some rows of a batch is made: the constant, and the dims, if there were one row more. Where a
  // constant is the same, `other` is undefined.
  Tensor other;
  inference::Dims other_dims;
  bool rowwise = true;  // one row more in the batch gives one more of this

  bool is_constant() const { return constant.defined(); }
};

// The graph has something that programs do not have, or only for whole batches: thrown, and caught by CompiledPlan.
struct NotCompiled {};
struct NotByRows {};

// A variable, and the value that a program was made with.
struct VariableRead {
  std::shared_ptr<VariableResource> variable;
  Tensor value;
};

class Lowering {
 public:
  // `rows`: of the batch that the program takes at once, which may be any rows of it; 0: whole batches only.
  Lowering(RunContext& context, inference::Program& program, std::int64_t rows)
      : context_(context), program_(program), rows_(rows) {}

  // Throws NotCompiled, NotByRows, and the errors of folded operations.
  std::vector<Lowered> lower(const Plan& plan, std::vector<Lowered> feeds);
  const std::vector<VariableRead>& variables() const { return variables_; }

  // For the functions of one operation each.
  inference::Program& program() { return program_; }
  bool by_rows() const { return rows_ > 0; }
  void require(bool condition) const {
    if (!condition) throw NotCompiled{};
  }
  void require_by_rows(bool condition) const {
    if (by_rows() && !condition) throw NotByRows{};
  }
  // A new value with the dtype and dims of `like`, and the number of it as float32.
  Lowered result(const Lowered& like);
  // The elements of a float32 constant; those of an integer one.
  inference::Constant floats(const Lowered& known) const;
  inference::Dims integers(const Lowered& known) const;
  // The value's number; constants become values too.
  int number(const Lowered& known);
  // Whether an elementwise operation on the operand takes each row of a batch to that row of `like`.
  bool keeps_rows(const Lowered& operand, const Lowered& like) const;
  // `operands` as the elements of `like` see them: float32, and each row of a batch sees its own only.
  inference::Chain chain(const Lowered& like, std::span<const Lowered> operands);
  Lowered elementwise(const Lowered& like, inference::Function function, std::span<const Lowered> operands,
                      float alpha = 0);
  // An operation of the table run on the program's memory. `rowwise`: each row of the result follows from that row of
  // the inputs.
  Lowered custom(const Step& step, std::span<const Lowered> inputs, const Lowered& like, bool rowwise);
  // A padding with zeros whose result is `padded`, and the tensor before it, for what reads it.
  struct Padding {
    Lowered from;
    inference::Dims before, after, dims;
  };
  void note_padding(const Lowered& padded, Padding padding) { paddings_[padded.value] = std::move(padding); }
  const Padding* padding_of(const Lowered& known) const;

 private:
  std::vector<Lowered> lower_step(const Plan& plan, const Step& step, std::vector<Lowered> inputs);
  std::vector<Lowered> call(const std::string& function, std::vector<Lowered> inputs);
  std::vector<Lowered> fold(const Step& step, std::span<const Lowered> inputs);
  Lowered read(const Lowered& resource);
  std::vector<Lowered> infer(const Step& step, std::span<const Lowered> inputs) const;
  Lowered shape_constant(const Step& step, const Lowered& input) const;

  RunContext& context_;
  inference::Program& program_;
  std::int64_t rows_;
  std::vector<VariableRead> variables_;
  std::map<int, Padding> paddings_;
  int depth_ = 0, steps_ = 0;
};

// The lowered form of an operation; `like` are its outputs without values.
using LoweringRule = std::vector<Lowered> (*)(Lowering& lowering, const Step& step, std::span<const Lowered> inputs,
                                              std::span<const Lowered> like);
// Null where programs have nothing for the operation.
LoweringRule find_lowering_rule(std::string_view op);
LoweringRule find_matrix_rule(std::string_view op);  // convolutions, products, pools
LoweringRule find_array_rule(std::string_view op);   // elementwise operations, reductions, shapes

}  // namespace lockstep::graph
