#include "lockstep/keras/layers/recurrent_cells.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/random/random.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

using layers::RecurrentOptions;

RecurrentCell::RecurrentCell(std::string class_name, std::string name, const RecurrentOptions& options, int gates, int states)
    : Layer(std::move(class_name), {.name = std::move(name), .trainable = options.trainable, .dtype = options.dtype}),
      options_(options), gates_(gates), states_(states) {
  if (options.units < 1) throw_invalid_argument(fmt::format("{}: units is {}, expected at least 1", this->class_name(), options.units));
}

Tensor RecurrentCell::initial_bias() const { return {}; }

void RecurrentCell::build(const Nested<Shape>& shapes) {
  const Shape& input = shapes.is_leaf() ? shapes.leaf() : shapes[0].leaf();
  const std::int64_t features = input[-1];
  if (features < 0) throw_invalid_argument(fmt::format("{} '{}': the number of features must be known, found input shape {}",
                                                       class_name(), name(), input.to_string()));
  const std::int64_t width = gates_ * options_.units;
  kernel_ = add_weight({.name = "kernel", .shape = {features, width}, .initializer = options_.kernel_initializer.object(),
                        .regularizer = options_.kernel_regularizer.object(), .constraint = options_.kernel_constraint.object()});
  recurrent_kernel_ = add_weight({.name = "recurrent_kernel", .shape = {options_.units, width},
                                  .initializer = options_.recurrent_initializer.object(),
                                  .regularizer = options_.recurrent_regularizer.object(),
                                  .constraint = options_.recurrent_constraint.object()});
  if (!options_.use_bias) return;
  bias_ = add_weight({.name = "bias", .shape = bias_shape(), .initializer = options_.bias_initializer.object(),
                      .regularizer = options_.bias_regularizer.object(), .constraint = options_.bias_constraint.object()});
  const Tensor initial = initial_bias();
  if (initial.defined() && !LoadScope::current()) bias_->assign(ops::cast(initial, bias_->dtype()));
}

RecurrentDrops RecurrentCell::draw_drops(const Tensor& x, const random::SeedGeneratorPtr& seeds) const {
  RecurrentDrops drops;
  const bool per_gate = options_.recurrent_dropout > 0 && gates_ > 1;
  const int count = per_gate ? gates_ : 1;
  if (options_.dropout > 0) {
    for (int i = 0; i < count; ++i) {
      drops.input.push_back(random::dropout_mask(Shape{x.dim(0), x.dim(-1)}, options_.dropout, x.dtype(), seeds));
    }
  }
  if (options_.recurrent_dropout > 0) {
    for (int i = 0; i < count; ++i) {
      drops.recurrent.push_back(random::dropout_mask(Shape{x.dim(0), options_.units}, options_.recurrent_dropout, x.dtype(), seeds));
    }
  }
  return drops;
}

Tensor RecurrentCell::project(const Tensor& x, const RecurrentDrops& drops) const {
  const auto dropped = [&](const Tensor& factor) { return x * (x.rank() == 3 ? ops::expand_dims(factor, 1) : factor); };
  const Tensor kernel = value(kernel_);
  Tensor out;
  if (drops.input.size() <= 1) {
    out = ops::tensordot_last(drops.input.empty() ? x : dropped(drops.input[0]), kernel);
  } else {
    const Tensors kernels = ops::split(kernel, gates_, 1);
    Tensors parts;
    for (std::size_t i = 0; i < kernels.size(); ++i) parts.push_back(ops::tensordot_last(dropped(drops.input[i]), kernels[i]));
    out = ops::concat(parts, -1);
  }
  return bias_ ? out + input_bias() : out;
}

Tensor RecurrentCell::recur(const Tensor& h, const RecurrentDrops& drops) const {
  const Tensor kernel = value(recurrent_kernel_);
  if (drops.recurrent.empty()) return ops::matmul(h, kernel);
  if (drops.recurrent.size() == 1) return ops::matmul(h * drops.recurrent[0], kernel);
  const Tensors kernels = ops::split(kernel, gates_, 1);
  Tensors parts;
  for (std::size_t i = 0; i < kernels.size(); ++i) parts.push_back(ops::matmul(h * drops.recurrent[i], kernels[i]));
  return ops::concat(parts, -1);
}

Structure RecurrentCell::call(const Structure& inputs, const CallContext&) {
  Tensors list = inputs.flatten();
  const Tensor x = list[0];
  list.erase(list.begin());
  Tensors states = step(project(x, {}), list, {});
  Structure::List out{Structure(states[0])};
  for (const Tensor& state : states) out.push_back(Structure(state));
  return Structure::list(std::move(out));
}

namespace {

class SimpleRnnCell : public RecurrentCell {
 public:
  explicit SimpleRnnCell(const RecurrentOptions& options) : RecurrentCell("SimpleRNNCell", "simple_rnn_cell", options, 1, 1) {}
  Tensors step(const Tensor& projected, const Tensors& states, const RecurrentDrops& drops) const override {
    return {activate(projected + recur(states[0], drops))};
  }
};

// Gates in order i, f, c, o; states h and c.
class LstmCell : public RecurrentCell {
 public:
  explicit LstmCell(const RecurrentOptions& options) : RecurrentCell("LSTMCell", "lstm_cell", options, 4, 2) {}
  Tensors step(const Tensor& projected, const Tensors& states, const RecurrentDrops& drops) const override {
    const Tensors z = ops::split(projected + recur(states[0], drops), 4, 1);
    const Tensor c = gate(z[1]) * states[1] + gate(z[0]) * activate(z[2]);
    return {gate(z[3]) * activate(c), c};
  }

 protected:
  Tensor initial_bias() const override {
    if (!options_.unit_forget_bias) return {};
    const Shape one{options_.units}, two{2 * options_.units};
    const initializers::InitializerPtr zeros = options_.bias_initializer.object();
    return ops::concat({(*zeros)(one), Tensor::full(one, 1.0), (*zeros)(two)}, 0);
  }
};

// Gates in order z, r, h.
class GruCell : public RecurrentCell {
 public:
  explicit GruCell(const RecurrentOptions& options) : RecurrentCell("GRUCell", "gru_cell", options, 3, 1) {}
  Tensors step(const Tensor& projected, const Tensors& states, const RecurrentDrops& drops) const override {
    const Tensor& h = states[0];
    const Tensors x = ops::split(projected, 3, 1);
    Tensor z, candidate;
    if (options_.reset_after) {
      Tensor inner = recur(h, drops);
      if (bias_) inner = inner + ops::unstack(value(bias_), 0)[1];
      const Tensors u = ops::split(inner, 3, 1);
      z = gate(x[0] + u[0]);
      candidate = activate(x[2] + gate(x[1] + u[1]) * u[2]);
    } else {
      const Tensors kernels = ops::split(value(recurrent_kernel_), 3, 1);
      const auto dropped = [&](std::size_t i) { return drops.recurrent.empty() ? h : h * drops.recurrent[i]; };
      z = gate(x[0] + ops::matmul(dropped(0), kernels[0]));
      const Tensor r = gate(x[1] + ops::matmul(dropped(1), kernels[1]));
      candidate = activate(x[2] + ops::matmul(r * dropped(2), kernels[2]));
    }
    return {z * h + (1.0 - z) * candidate};
  }

 protected:
  Shape bias_shape() const override {
    return options_.reset_after ? Shape{2, 3 * options_.units} : Shape{3 * options_.units};
  }
  Tensor input_bias() const override {
    return options_.reset_after ? ops::unstack(value(bias_), 0)[0] : value(bias_);
  }
};

}  // namespace

std::shared_ptr<RecurrentCell> simple_rnn_cell(const RecurrentOptions& options) { return std::make_shared<SimpleRnnCell>(options); }
std::shared_ptr<RecurrentCell> lstm_cell(const RecurrentOptions& options) { return std::make_shared<LstmCell>(options); }
std::shared_ptr<RecurrentCell> gru_cell(const RecurrentOptions& options) { return std::make_shared<GruCell>(options); }

}  // namespace lockstep::keras
