// One step of a recurrent layer.
#pragma once

#include "lockstep/keras/layers/configured_layer_internal.h"
#include "lockstep/keras/layers/recurrent.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

// The dropout masks of one call of a layer, which belong to the call: replicas call one cell at the same time.
// All empty where nothing is dropped.
struct CellMasks {
  Tensors input, recurrent;      // one for all gates, or one for each
  std::vector<CellMasks> cells;  // of stacked cells

  // Those of stacked cell i; none where there are none.
  const CellMasks& of_cell(std::size_t i) const { return cells.empty() ? *this : cells[i]; }
};

// How a cell is run over time.
struct Unroll {
  bool return_sequences = false;
  bool go_backwards = false;
  bool zero_output_for_mask = false;
  bool return_state = true;  // false: nobody reads the states
};
struct Outcome {
  Tensor last, all;  // the one that was requested, perhaps both
  Tensors states;
};

// A cell computes in two halves, so that the part without states runs for all time steps at once:
// project(x) of (batch, features) or (batch, time, features), then step(projected, states) of one step.
class RnnCell : public Layer {
 public:
  // Sizes of the states; the first is also the output's unless output_size() is overridden.
  virtual Ints state_sizes() const = 0;
  virtual std::int64_t output_size() const { return state_sizes()[0]; }
  virtual std::vector<DType> state_dtypes() const { return std::vector<DType>(state_sizes().size(), compute_dtype()); }
  // Draws the masks of one call of the layer, for inputs like x (batch, features). As in Keras they are drawn in
  // inference too, and not used then.
  virtual CellMasks draw_masks(const Tensor& x) = 0;
  virtual bool draws_masks() const { return false; }
  // In the cell's compute dtype, whatever that of x is.
  virtual Tensor project(const Tensor& x, const CellMasks& masks) = 0;
  struct Result {
    Tensor output;
    Tensors states;
  };
  virtual Result step(const Tensor& projected, const Tensors& states, const CellMasks& masks) = 0;
  // All steps of x (batch, time, features) at once; empty if no kernel exists for the arguments. mask: bool (batch,
  // time) or undefined.
  virtual std::optional<Outcome> try_run(const Tensor& x, const Tensor& mask, const Tensors& states, const Unroll& how,
                                         const CellMasks& masks) {
    (void)x, (void)mask, (void)states, (void)how, (void)masks;
    return std::nullopt;
  }

  // The states as Keras nests them: a list of tensors; for stacked cells, a list with an item for each cell. The item
  // of a cell with one state is the tensor if is_tensor(its index), else a list of it.
  using IsTensor = std::function<bool(std::size_t cell)>;
  virtual Structure::List nested(const Tensors& states, const IsTensor& is_tensor) const {
    (void)is_tensor;
    return {states.begin(), states.end()};
  }
  // Whether the initial state of a cell of a stack is a tensor, which is so for classes without get_initial_state().
  virtual bool begins_as_tensor(std::size_t) const { return false; }
  Structure get_initial_state(const Extent& batch_size) const override;

  std::vector<std::string> argument_names() const override { return {"inputs", "states"}; }
  TrainingArgument training_argument() const override { return TrainingArgument::kDefaultFalse; }
  virtual const layers::RNNOptions* cell_options() const { return nullptr; }
  // What is built, tracked and saved: the cell itself, or the user's layer that it runs.
  virtual LayerHandle layer() { return std::static_pointer_cast<RnnCell>(shared_from_this()); }
  // One step of x (batch, features): {output, {state, …}}. Within a sequence that RNN runs, with its dropout masks.
  // As in Keras, the next states are nested as the given ones, whose tensors `states` are.
  Structure run_step(const Tensor& x, const Tensors& states, bool training, const Structure& given);
  // Called by itself: on {inputs, state, …}.
  Structure call(const Structure& inputs, const CallContext& context) override;

 protected:
  using Layer::Layer;
};

// A loop in the graph, for traces with a number of steps that is unknown or large.
Outcome run_loop(RnnCell& cell, const Tensor& projected, const Tensor& mask, const Tensors& states, const Unroll& how,
                 const CellMasks& drop);

// The cell of a layer: itself, or one that runs a layers::Cell of the user's, or a class derived from one of Keras's
// cells. Null for other layers.
std::shared_ptr<RnnCell> as_cell(const LayerHandle& layer);
std::shared_ptr<RnnCell> make_lstm_cell(layers::RNNOptions options);
std::shared_ptr<RnnCell> make_gru_cell(layers::RNNOptions options);
std::shared_ptr<RnnCell> make_simple_rnn_cell(layers::RNNOptions options);
std::shared_ptr<RnnCell> make_stacked_cells(std::vector<LayerHandle> cells, layers::NamedOptions options = {});

// The bias of an LSTM: as `rest` gives it, with ones for the forget gate.
class ForgetBias : public initializers::Initializer {
 public:
  ForgetBias(initializers::InitializerPtr rest, std::int64_t units) : rest_(std::move(rest)), units_(units) {
    if (!rest_) throw_invalid_argument("unit_forget_bias requires a bias_initializer, found None");
  }
  std::string class_name() const override { return "ForgetBias"; }
  Tensor operator()(const Shape&, DType dtype) const override {
    const Tensor first = (*rest_)({units_}, dtype), last = (*rest_)({units_ * 2}, dtype);
    return ops::concat({first, ops::ones_like(first), last}, 0);
  }
  Json get_config() const override { return Json::object(); }

 private:
  initializers::InitializerPtr rest_;
  std::int64_t units_;
};

// The keywords of a family of cells in the order of Keras's configs.
enum class CellKind { kLstm, kGru, kSimple };
template <CellKind kKind, bool kOfCell, typename V>
void cell_fields(V& v, layers::RNNOptions& o) {
  v.dropped("implementation");
  v.dropped("time_major", false);
  v.dropped("input_length");
  v.dropped("consume_less");
  v.dropped("use_cudnn");
  v.renamed("dropout_W", "dropout", o.dropout);  // Keras 1
  v.renamed("dropout_U", "recurrent_dropout", o.recurrent_dropout);
  v.renamed("inner_activation", "recurrent_activation", o.recurrent_activation);
  v.renamed("output_dim", "units", o.units);
  v("units", o.units, Field::kRequired);
  v("activation", o.activation);
  if constexpr (kKind != CellKind::kSimple) v("recurrent_activation", o.recurrent_activation);
  v("use_bias", o.use_bias);
  if constexpr (kKind == CellKind::kLstm && kOfCell) v("unit_forget_bias", o.unit_forget_bias);
  v("kernel_initializer", o.kernel_initializer);
  v("recurrent_initializer", o.recurrent_initializer);
  v("bias_initializer", o.bias_initializer);
  if constexpr (kKind == CellKind::kLstm && !kOfCell) v("unit_forget_bias", o.unit_forget_bias);
  v("kernel_regularizer", o.kernel_regularizer);
  v("recurrent_regularizer", o.recurrent_regularizer);
  v("bias_regularizer", o.bias_regularizer);
  if constexpr (!kOfCell) v("activity_regularizer", o.activity_regularizer);
  v("kernel_constraint", o.kernel_constraint);
  v("recurrent_constraint", o.recurrent_constraint);
  v("bias_constraint", o.bias_constraint);
  v("dropout", o.dropout);
  v("recurrent_dropout", o.recurrent_dropout);
  if constexpr (kKind == CellKind::kGru) v("reset_after", o.reset_after);
  v("seed", o.seed, kKind == CellKind::kSimple && !kOfCell ? Field::kUnwritten : Field::kOptional);
}

// The resolved options of an LSTM, GRU or SimpleRNN cell put into `options`: the layer around the cell writes
// the same objects into its config.
void take_objects(const RnnCell& cell, layers::RNNOptions& options);

// Options of the loop over time that all recurrent layers have.
struct LoopOptions {
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool stateful = false;
  bool unroll = false;
  bool zero_output_for_mask = false;
  bool time_major = false;  // (time, batch, features), in Keras 2
};
// What the wrappers and loaders of recurrent layers need of them.
class LoopsOverTime {
 public:
  virtual ~LoopsOverTime() = default;
  virtual LoopOptions loop() const = 0;
  virtual void set_zero_output_for_mask(bool zero) = 0;
  // Whether a call draws masks of dropout, as Keras's do in inference too.
  virtual bool draws_masks() const = 0;
  // The states that a stateful layer keeps between batches: a list; for stacked cells, one list for each cell.
  virtual Nested<VariablePtr> kept_states() const = 0;
};
// For a stateful layer, whose states have the extent of the batch.
[[noreturn]] void throw_unknown_batch(const Layer& layer);
// Empty for a layer that is not recurrent.
std::optional<LoopOptions> loop_options(const Layer& layer);
bool draws_masks(const Layer& layer);  // false for a layer that is not recurrent
Nested<VariablePtr> kept_states(const Layer& layer);
void set_zero_output_for_mask(Layer& layer, bool zero);

void register_recurrent_cells(ClassTable& registry);
void register_wrappers(ClassTable& registry);

}  // namespace lockstep::keras
