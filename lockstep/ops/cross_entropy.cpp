// Softmax and cross entropy as one operation, by class numbers or by a distribution over the classes.
#include <algorithm>

#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/fused_loss_internal.h"
#include "lockstep/ops/gradients_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kPiece = 32768;  // elements for which a thread is worth waking

struct LogitsLossNode : torch::autograd::Function<LogitsLossNode> {
  static variable_list forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels,
                               const at::Tensor& loss, const at::Tensor& backprop) {
    context->save_for_backward({backprop, logits, labels});
    context->set_materialize_grads(false);
    return {loss, backprop.alias()};
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const auto saved = context->get_saved_variables();
    at::Tensor to_logits, to_labels;
    if (dy[0].defined()) {
      const at::Tensor weight = dy[0].unsqueeze(-1);
      if (at::GradMode::is_enabled()) {
        // A gradient of the gradient needs the softmax as a function of the logits.
        const at::Tensor y = saved[2].dim() == 2 ? saved[2] : at::one_hot(saved[2].to(at::kLong), saved[1].size(1));
        to_logits = weight * (at::softmax(saved[1], -1) - y.to(saved[1].scalar_type()));
      } else {
        to_logits = weight * saved[0];
      }
      if (context->needs_input_grad(1)) to_labels = -weight * at::log_softmax(saved[1], -1);
    }
    if (dy[1].defined()) {  // the second output is the softmax less the labels
      const at::Tensor p = at::softmax(saved[1], -1), slope = (dy[1] - (dy[1] * p).sum(-1, true)) * p;
      to_logits = to_logits.defined() ? to_logits + slope : slope;
    }
    return {to_logits, to_labels, at::Tensor(), at::Tensor()};
  }
};

// Records the values as one node. As in TensorFlow, the second output has no gradient with respect to the labels.
CrossEntropy tie(const at::Tensor& logits, const at::Tensor& labels, CrossEntropy values) {
  if (!at::GradMode::is_enabled() || !(logits.requires_grad() || labels.requires_grad())) return values;
  const auto out = LogitsLossNode::apply(logits, labels, values.loss, values.backprop);
  return {out[0], out[1]};
}

// Class numbers as int64; throws InvalidArgument for those that are not in [0, classes).
at::Tensor checked_labels(const at::Tensor& labels, std::int64_t classes) {
  at::Tensor index = labels.to(at::kLong).contiguous();
  const auto* data = index.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    if (data[i] < 0 || data[i] >= classes) {
      throw_invalid_argument(fmt::format("label {} at row {} is outside the {} classes: valid labels are [0, {})",
                                         data[i], i, classes, classes));
    }
  }
  return index;
}

bool has_kernel(const at::Tensor& logits) {
  return logits.scalar_type() == at::kFloat && logits.is_cpu() && logits.numel() > 0;
}

// The loops of row_kernels_internal.h over all rows of contiguous logits; labels are int64, or of the logits' shape.
class Loops {
 public:
  Loops(const at::Tensor& logits, const at::Tensor& labels)
      : x_(logits.const_data_ptr<float>()), rows_(logits.size(0)), columns_(logits.size(1)) {
    if (labels.scalar_type() == at::kLong) {
      classes_ = labels.const_data_ptr<std::int64_t>();
    } else {
      shares_ = labels.const_data_ptr<float>();
    }
  }

  void forward(float* loss, float* tops, float* logs) const {
    parallel_for(0, rows_, grain(), [&](std::int64_t begin, std::int64_t end) {
      row_kernels().cross_entropy_rows(from(begin), end - begin, loss + begin, tops + begin, logs + begin);
    });
  }
  // `weights` null: 1.
  void backward(const float* tops, const float* logs, const float* weights, float* dx) const {
    parallel_for(0, rows_, grain(), [&](std::int64_t begin, std::int64_t end) {
      row_kernels().cross_entropy_rows_gradient(from(begin), end - begin, tops + begin, logs + begin,
                                                weights ? weights + begin : nullptr, dx + begin * columns_);
    });
  }

 private:
  std::int64_t grain() const { return std::max<std::int64_t>(1, kPiece / columns_); }
  CrossEntropyRows from(std::int64_t row) const {
    return {columns_, x_ + row * columns_, classes_ ? classes_ + row : nullptr,
            shares_ ? shares_ + row * columns_ : nullptr};
  }

  const float* x_;
  const std::int64_t* classes_ = nullptr;
  const float* shares_ = nullptr;
  std::int64_t rows_, columns_;
};

CrossEntropy values_by_loops(const at::Tensor& logits, const at::Tensor& labels) {
  const at::Tensor terms = at::empty({2, logits.size(0)}, logits.options());
  CrossEntropy out{at::empty({logits.size(0)}, logits.options()), at::empty(logits.sizes(), logits.options())};
  const Loops loops(logits, labels);
  float *const tops = terms.mutable_data_ptr<float>(), *const logs = tops + logits.size(0);
  loops.forward(out.loss.mutable_data_ptr<float>(), tops, logs);
  loops.backward(tops, logs, nullptr, out.backprop.mutable_data_ptr<float>());
  return out;
}

// The loss alone: its gradient follows from the logits.
class CrossEntropyLoss : public Composite {
 public:
  Made forward(const Values& inputs, bool keep) const override {
    const at::Tensor logits = inputs[0].contiguous(), labels = inputs[1].contiguous();
    at::Tensor loss = at::empty({logits.size(0)}, logits.options());
    const at::Tensor terms = at::empty({2, logits.size(0)}, logits.options());
    float* const tops = terms.mutable_data_ptr<float>();
    Loops(logits, labels).forward(loss.mutable_data_ptr<float>(), tops, tops + logits.size(0));
    return {{loss}, {keep ? terms : at::Tensor()}};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor logits = recorded.inputs[0].contiguous(), labels = recorded.inputs[1].contiguous(),
                     weights = dys[0].contiguous();
    Values gradients(2);
    if (recorded.wanted[0]) {
      gradients[0] = at::empty(logits.sizes(), logits.options());
      const float* const tops = recorded.kept[0].const_data_ptr<float>();
      Loops(logits, labels)
          .backward(tops, tops + logits.size(0), weights.const_data_ptr<float>(),
                    gradients[0].mutable_data_ptr<float>());
    }
    if (recorded.wanted[1]) gradients[1] = -weights.unsqueeze(-1) * at::log_softmax(logits, -1);
    return gradients;
  }

  Values plain(const Values& inputs) const override {
    const at::Tensor log_p = at::log_softmax(inputs[0], -1);
    if (inputs[1].scalar_type() == at::kLong) return {-log_p.gather(1, inputs[1].unsqueeze(1)).squeeze(1)};
    return {-(inputs[1] * log_p).sum(-1)};
  }
};

class Softmax : public Composite {
 public:
  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    at::Tensor y = at::empty(x.sizes(), x.options());
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    for_each_piece(x, [&](const SoftmaxRows& s, std::int64_t rows, std::int64_t at) {
      for (std::int64_t r = 0; r < rows; ++r) {  // a row at a time stays in the cache
        float* const row = to + at + r * s.columns;
        std::copy_n(from + at + r * s.columns, s.columns, row);
        row_kernels().softmax_rows(s, 1, nullptr, row);
      }
    });
    return {{y}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor y = recorded.outputs[0].contiguous(), dy = dys[0].contiguous();
    at::Tensor dx = at::empty(y.sizes(), y.options());
    const float *const value = y.const_data_ptr<float>(), *const d = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    for_each_piece(y, [&](const SoftmaxRows& s, std::int64_t rows, std::int64_t at) {
      for (std::int64_t r = 0; r < rows; ++r, at += s.columns) {
        std::copy_n(d + at, s.columns, to + at);
        row_kernels().softmax_rows_gradient(s, 1, nullptr, value + at, to + at);
      }
    });
    return {dx};
  }
  Values plain(const Values& inputs) const override { return {at::softmax(inputs[0], -1)}; }

 private:
  // Calls each(rows to compute, their number, first element).
  template <typename Each>
  static void for_each_piece(const at::Tensor& x, const Each& each) {
    SoftmaxRows s;
    s.columns = x.size(-1);
    parallel_for(0, x.numel() / s.columns, std::max<std::int64_t>(1, kPiece / s.columns),
                 [&](std::int64_t begin, std::int64_t end) { each(s, end - begin, begin * s.columns); });
  }
};

}  // namespace

std::optional<at::Tensor> try_softmax(const at::Tensor& x) {
  if (!is_large_float(x)) return std::nullopt;
  return run(std::make_shared<Softmax>(), {x})[0];
}

CrossEntropy softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const auto y_and_x = at::broadcast_tensors({labels, logits});
  CrossEntropy values;
  {
    at::NoGradGuard guard;
    if (has_kernel(y_and_x[1]) && labels.scalar_type() == at::kFloat) {
      values = values_by_loops(y_and_x[1].contiguous(), y_and_x[0].contiguous());
    } else {
      const at::Tensor log_p = at::log_softmax(y_and_x[1], -1);
      values = {-(y_and_x[0] * log_p).sum(-1), log_p.exp() - y_and_x[0]};
    }
  }
  return tie(y_and_x[1], y_and_x[0], std::move(values));
}

CrossEntropy sparse_softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& labels) {
  const std::int64_t classes = logits.size(-1);
  CrossEntropy values;
  {
    at::NoGradGuard guard;
    const at::Tensor index = checked_labels(labels, classes);
    if (has_kernel(logits)) {
      values = values_by_loops(logits.contiguous(), index);
    } else {
      const at::Tensor log_p = at::log_softmax(logits, -1), column = index.unsqueeze(1);
      values.loss = -log_p.gather(1, column).squeeze(1);
      values.backprop = log_p.exp();
      values.backprop.scatter_add_(1, column, at::full({}, -1, log_p.options()).expand(column.sizes()));
    }
  }
  return tie(logits, labels, std::move(values));
}

std::optional<Tensor> try_softmax_cross_entropy(const Tensor& logits, const Tensor& labels) {
  if (!logits.is_value() || !labels.is_value() || logits.rank() != 2 || !has_kernel(aten(logits)) ||
      !aten(labels).is_cpu())
    return std::nullopt;
  const bool shares = labels.rank() == 2;
  if (shares ? labels.dtype() != DType::kFloat32 || labels.shape() != logits.shape()
             : (labels.dtype() != DType::kInt64 && labels.dtype() != DType::kInt32) ||
                   labels.shape() != Shape{logits.dim(0)})
    return std::nullopt;
  const at::Tensor given = shares ? aten(labels) : checked_labels(aten(labels), logits.dim(1));
  return wrap(run(std::make_shared<CrossEntropyLoss>(), {aten(logits), given})[0]);
}

}  // namespace lockstep::ops
