// From a plan to a program of lockstep/inference: calls inlined, variables and all that follows from constants
// computed, shapes fixed. Internal to lockstep/graph.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/graph/plan_internal.h"
#include "lockstep/inference/program_internal.h"

namespace lockstep::ops {
class TableResource;
}

namespace lockstep::graph {

// A TensorList: `count` tensors of one dtype and shape, one after the other in a value of the program.
struct LoweredList {
  DType dtype = DType::kInvalid;
  inference::Dims dims, other_dims;  // of an element; unknown before the first is written
  std::int64_t count = 0;
  int value = -1;     // -1: nothing is written, or
  int variable = -1;  // in the body of a loop: the loop variable that it is
  int writes = 0;     // of this iteration, to that variable
};

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
  bool rowwise = true;  // one row more in the batch gives one more of this, along
  int row_axis = 0;
  // Not of the program: the number of the value that its effects compute, or kLost: not even these.
  int later = -1;
  static constexpr int kLost = -2;
  // The number of the value that the program's preprocessing computes.
  int before = -1;
  // In the body of a loop, a constant that is not the same in all iterations; `constant` is the first.
  std::shared_ptr<const Tensors> series;
  std::shared_ptr<const LoweredList> list;

  bool is_constant() const { return constant.defined(); }
  bool is_later() const { return later != -1; }
};

// What a run changes: variables that are set to what follows from variables and constants alone, such as the states of
// seed generators. Run after the program, which reads none of them, by the operations of the table.
class Effects {
 public:
  // The number of the first output. Inputs are constants, or later values.
  int add(const Step& step, std::span<const Lowered> inputs);
  // Removes values that are not assigned to a variable.
  void finish();
  bool empty() const { return items_.empty(); }
  void run() const;

 private:
  struct Item {
    const ops::Op* op;
    ops::Attrs attrs;
    Tensors constants;        // by input; undefined: a value
    std::vector<int> values;  // by input
    int first_output, num_outputs;
  };
  std::vector<Item> items_;
  int num_values_ = 0;
};
using VariableSet = std::set<const VariableResource*>;

// What runs before a program, on whole batches: operations on strings, by those of the table. Its values begin with the
// inputs of the graph.
class Preprocessing {
 public:
  // While the program is made, values are those of `feeds`. `batch`: their rows, where the program is for some of them;
  // else 0. `integers`: so are steps that compute integers from its values.
  void begin(std::span<const Tensor> feeds, std::int64_t batch, bool integers) {
    values_.assign(feeds.begin(), feeds.end());
    feeds_ = feeds.size(), batch_ = batch, integers_ = integers;
  }
  bool takes_integers() const { return integers_; }
  const Tensor& value(int number) const { return values_[static_cast<std::size_t>(number)]; }
  bool is_feed(int number) const { return static_cast<std::size_t>(number) < feeds_; }
  std::int64_t batch() const { return batch_; }
  // Computes the step; the number of the first output. Inputs are constants, or values.
  int add(const Step& step, std::span<const Lowered> inputs);
  // The value is an input of the program.
  void take(int number) { taken_.push_back(number); }
  // Removes values that the program does not need.
  void finish();
  // The values that were taken, in this order; nothing where their shapes are not those that the program is for.
  std::optional<Tensors> run(std::span<const Tensor> feeds, std::int64_t batch) const;

 private:
  struct Item {
    const ops::Op* op;
    ops::Attrs attrs;
    std::shared_ptr<ops::TableResource> table;  // of a search
    Tensors constants;                          // by input; undefined: a value
    std::vector<int> values;                    // by input
    int first_output, num_outputs;
  };
  static Tensors compute(const Item& item, const Tensors& values);

  std::vector<Item> items_;
  std::vector<int> taken_;
  std::vector<Shape> shapes_;  // of those
  Tensors values_;             // while the program is made
  std::size_t feeds_ = 0, num_values_ = 0;
  std::int64_t batch_ = 0;
  bool integers_ = false;
};

// The graph has something that programs do not have, or only for whole batches: thrown, and caught by CompiledPlan.
struct NotCompiled {};
struct NotByRows {};
// A variable that the graph sets was found: the lowering starts again with it.
struct SetsVariable {};

// A variable, and the value that a program was made with.
struct VariableRead {
  std::shared_ptr<VariableResource> variable;
  Tensor value;
};

struct LoopFrame;  // of the loop whose body is lowered

class Lowering {
 public:
  // `rows`: of the batch that the program takes at once, which may be any rows of it; 0: whole batches only.
  // `large_batch`: it has many of them. `set`: the variables that the graph sets, as far as they are known.
  Lowering(RunContext& context, inference::Program& program, std::int64_t rows, bool large_batch, VariableSet& set)
      : context_(context), program_(program), rows_(rows), large_batch_(large_batch), set_(set) {}

  // Throws NotCompiled, NotByRows, SetsVariable, and the errors of folded operations.
  std::vector<Lowered> lower(const Plan& plan, std::vector<Lowered> feeds);
  const std::vector<VariableRead>& variables() const { return variables_; }
  Effects& effects() { return effects_; }
  Preprocessing& preprocessing() { return before_; }
  // The inputs of the program that the preprocessing gives, in its order.
  const std::vector<int>& values_before() const { return values_before_; }
  // A value of the preprocessing as an input of the program; others as they are.
  Lowered as_input(const Lowered& known);

  // For the functions of one operation each.
  inference::Program& program() { return program_; }
  bool by_rows() const { return rows_ > 0; }
  bool has_large_batch() const { return large_batch_; }
  void require(bool condition) const {
    if (!condition) throw NotCompiled{};
  }
  void require_by_rows(bool condition) const {
    if (by_rows() && !condition) throw NotByRows{};
  }
  // A new value with the dtype and dims of `like`, and the number of it as float32.
  Lowered result(const Lowered& like);
  // The elements of a float32 constant; the only one of a scalar; those of a constant of integers.
  inference::Constant floats(const Lowered& known) const;
  float float_number(const Lowered& known) const;
  inference::Dims integers(const Lowered& known) const;
  // The value's number; constants become values too.
  int number(const Lowered& known);
  // The same of any dtype, where each row of a batch finds the same in the constant.
  int start(const Lowered& known);
  // The value's number, of any dtype; a constant is the same for all rows of a batch.
  int bytes(const Lowered& known);
  // For elementwise operations, a constant whose rows of a batch are all alike as one row; others as they are.
  Lowered as_one_row(const Lowered& known) const;
  // A value that no step gives, for `like`.
  Lowered place(const Lowered& like);
  // Whether an elementwise operation on the operand takes each row of a batch to that row of `like`.
  bool keeps_rows(const Lowered& operand, const Lowered& like) const;
  // `operands` as the elements of `like` see them: float32, and each row of a batch sees its own only.
  inference::Chain chain(const Lowered& like, std::span<const Lowered> operands);
  Lowered elementwise(const Lowered& like, inference::Function function, std::span<const Lowered> operands,
                      float alpha = 0);
  // An operation of the table run on the program's memory. `rowwise`: each row of the result follows from that row of
  // the inputs.
  Lowered custom(const Step& step, std::span<const Lowered> inputs, const Lowered& like, bool rowwise);
  // The same with any number of results.
  std::vector<Lowered> customs(const Step& step, std::span<const Lowered> inputs, std::span<const Lowered> like,
                               bool rowwise);
  // A padding with zeros whose result is `padded`, and the tensor before it, for its consumers.
  struct Padding {
    Lowered from;
    inference::Dims before, after;
  };
  void note_padding(const Lowered& padded, Padding padding) {
    paddings_[{padded.value, padded.dims}] = std::move(padding);
  }
  const Padding* padding_of(const Lowered& known) const;
  // A tensor of zeros, with a one for each index along a new last axis, for sums and maxima over it.
  struct Hot {
    Lowered indices;
    inference::Dims dims;
  };
  void note_hot(const Lowered& known, const Lowered& indices) { hots_[known.value] = {indices, known.dims}; }
  const Hot* hot_of(const Lowered& known) const;
  // A tensor that repeats the elements of axes of one, and the tensor before it, for consumers that broadcast.
  void note_repeated(const Lowered& repeated, const Lowered& from) {
    repeated_[repeated.value] = {from, repeated.dims};
  }
  const Lowered& before_repeating(const Lowered& known) const;
  // The tensor of `dtype` and `dims` at an address, which it does not own.
  static Tensor view_of(const float* address, DType dtype, const inference::Dims& dims);

 private:
  // lowering_loops.cpp
  std::vector<Lowered> lower_loop(const Step& step, std::vector<Lowered> inputs);
  std::optional<std::vector<Lowered>> lower_list(const Step& step, std::span<const Lowered> inputs);
  Lowered get_item(const LoweredList& list, const Lowered& index);
  Lowered set_item(const Lowered& handle, const Lowered& index, const Lowered& item);
  Lowered at_iteration(const Lowered& series);
  void add_series(const Step& step, std::span<const Lowered> inputs, std::vector<Lowered>& outputs) const;

  std::vector<Lowered> lower_step(const Step& step, std::vector<Lowered> inputs);
  // lowering_matrices.cpp: a ConcatV2 of convolutions, one for each group of channels, as one convolution.
  std::optional<std::vector<Lowered>> lower_groups(const Plan& plan, const Step& concat,
                                                   std::span<const Lowered> values);
  // lowering_dilated.cpp: a BatchToSpaceND after a convolution of a SpaceToBatchND, as one dilated convolution.
  std::optional<std::vector<Lowered>> lower_dilated(const Plan& plan, const Step& last,
                                                    std::span<const Lowered> values);
  std::vector<Lowered> call(const std::string& function, std::vector<Lowered> inputs);
  std::vector<Lowered> fold(const Step& step, std::span<const Lowered> inputs);
  bool holds_for_all_rows(const Step& step, std::span<const Lowered> inputs) const;
  Lowered read(const Lowered& resource);
  // lowering_effects.cpp: steps that variables depend on which the graph sets.
  bool is_for_later(const Step& step, std::span<const Lowered> inputs) const;
  std::vector<Lowered> lower_later(const Step& step, std::vector<Lowered> inputs);
  // lowering_preprocessing.cpp: steps on strings.
  bool is_before(const Step& step, std::span<const Lowered> inputs) const;
  std::vector<Lowered> lower_before(const Step& step, std::span<const Lowered> inputs);
  bool can_be_input(const Lowered& known) const;
  // lowering_limits.cpp: steps whose result is known whatever they read, by node, and those that need not run.
  static std::map<int, Tensor> find_settled(const Plan& plan);
  // What shape rules see: constants, and tensors without values; `other`: as they were with one row more.
  static Tensors symbols_of(std::span<const Lowered> inputs, bool other);
  std::vector<Lowered> infer(const Step& step, std::span<const Lowered> inputs) const;
  Lowered shape_constant(const Step& step, const Lowered& input) const;

  RunContext& context_;
  inference::Program& program_;
  std::int64_t rows_;
  bool large_batch_;
  std::vector<VariableRead> variables_;
  std::map<std::pair<int, inference::Dims>, Padding> paddings_;  // by value and its dims
  std::map<int, Hot> hots_;
  struct Repeated {
    Lowered from;
    inference::Dims dims;  // of the result; a reshape of it is something else
  };
  std::map<int, Repeated> repeated_;
  VariableSet& set_;
  Effects effects_;
  Preprocessing before_;
  std::map<int, Lowered> inputs_before_;  // by number
  std::vector<int> values_before_;
  LoopFrame* frame_ = nullptr;
  int depth_ = 0, steps_ = 0;
  std::int64_t iterations_ = 0;  // of all loops
};

// The lowered form of an operation; `like` are its outputs without values.
using LoweringRule = std::vector<Lowered> (*)(Lowering& lowering, const Step& step, std::span<const Lowered> inputs,
                                              std::span<const Lowered> like);
// Null where programs have nothing for the operation.
LoweringRule find_lowering_rule(std::string_view op);
LoweringRule find_matrix_rule(std::string_view op);  // convolutions, products, pools
LoweringRule find_array_rule(std::string_view op);   // elementwise operations, reductions, shapes
LoweringRule find_row_rule(std::string_view op);     // axes, segments, matrices by the kernels of the table
LoweringRule find_move_rule(std::string_view op);    // the same elements in other places

// Whether the rows of a batch of all operands are those of an elementwise result.
bool is_rowwise(const Lowering& lowering, std::span<const Lowered> operands, const Lowered& like);

// Copies move elements of this size as they are.
bool is_word(DType dtype);
// Of a tensor whose elements lie one after the other, in elements.
inference::Dims strides_of(const inference::Dims& dims);

// The sums or maxima over axes of such zeros and ones: how many there are of each index, or which, without the tensor.
Lowered reduce_hot(Lowering& lowering, const Lowering::Hot& hot, const inference::Dims& axes, bool sums,
                   const Lowered& like);

// A call that computes a recurrent layer, as one step. Nothing for other calls.
std::optional<std::vector<Lowered>> lower_recurrence(Lowering& lowering, const Step& step,
                                                     std::span<const Lowered> inputs);

// A search of the keys of a program in a table with numbers alone, which is read when the program runs. Nothing for
// other operations.
std::optional<std::vector<Lowered>> lower_lookup(Lowering& lowering, const Step& step, std::span<const Lowered> inputs);

// Operations whose result is their first input.
bool passes_on(std::string_view op);
// Shape, Size and Rank, which need no elements of their input.
bool gives_shape(std::string_view op);
bool has_bytes(DType dtype);
std::int64_t floats_of(DType dtype, const inference::Dims& dims);
Lowered known_constant(Tensor value);
bool same_bytes(const Tensor& a, const Tensor& b);

}  // namespace lockstep::graph
