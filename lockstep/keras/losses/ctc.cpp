#include "lockstep/keras/losses/ctc.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/dense_ctc_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::losses {
namespace {

class CtcLoss : public Loss {
 public:
  explicit CtcLoss(const LossOptions& options) : Loss(options.name.empty() ? "ctc" : options.name, options.reduction) {}
  std::string class_name() const override { return "CTC"; }
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override { return ctc(y_true, y_pred); }
  bool mixes_rows(int) const override { return false; }
  bool keeps_rows(int) const override { return true; }
};

}  // namespace

Tensor ctc(const Tensor& y_true, const Tensor& y_pred) {
  if (y_true.rank() != 2 || y_pred.rank() != 3)
    throw_invalid_argument(
        fmt::format("CTC: found labels of shape {} and logits of shape {}, expected (batch, labels) "
                    "and (batch, steps, classes)",
                    y_true.shape().to_string(), y_pred.shape().to_string()));
  const Tensor labels = ops::cast(y_true, DType::kInt32);
  const Tensor lengths = ops::reduce_sum(ops::cast(ops::not_equal(labels, 0.0), DType::kInt32), ops::Ints{1});
  const Tensor steps = ops::fill(ops::reshape(ops::dim_of(y_pred, 0), {1}), ops::dim_of(y_pred, 1));
  return ctc_of_lengths(labels, y_pred, lengths, steps, 0);
}

Tensor ctc_of_lengths(const Tensor& labels, const Tensor& y_pred, const Tensor& label_lengths, const Tensor& steps,
                      std::int64_t blank) {
  const std::int64_t classes = y_pred.dim(2), place = blank < 0 ? blank + classes : blank;
  if (place < 0 || (classes != kUnknownDim && place >= classes))
    throw_invalid_argument(fmt::format("CTC: the class without a label is {} of {}", blank, classes));
  const DType dtype = y_pred.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const auto symbolic = [](const Tensor& x) { return x.is_symbolic(); };
  if (!symbolic(y_pred) && !symbolic(labels) && !symbolic(label_lengths) && !symbolic(steps)) {
    const Tensor logits = ops::cast(ops::transpose(y_pred, {1, 0, 2}), DType::kFloat32);
    return ops::cast(ops::dense_ctc_loss(logits, labels, label_lengths, steps, place), dtype);
  }
  // A graph has TensorFlow's operation, which rejects labels that do not fit.
  const Tensor places =
      ops::range(Tensor::scalar(std::int32_t{0}), ops::dim_of(labels, 1), Tensor::scalar(std::int32_t{1}));
  const Tensor indices = ops::where(ops::less(ops::expand_dims(places, 0), ops::expand_dims(label_lengths, 1)));
  // TensorFlow's operation has the blank as its last class.
  const Tensor given = ops::gather_nd(labels, indices), one = Tensor::scalar(std::int32_t{1});
  // The blank index is not a valid label: it becomes -1, which the operation rejects.
  const Tensor below = ops::less(given, static_cast<double>(place));
  const Tensor blanks = ops::equal(given, static_cast<double>(place));
  const Tensor values = ops::where(below, given, ops::where(blanks, -ops::ones_like(given), given - one));
  const Tensor logits =
      ops::concat({ops::slice_axis(y_pred, 2, 0, place), ops::slice_axis(y_pred, 2, place + 1, std::nullopt),
                   ops::slice_axis(y_pred, 2, place, place + 1)},
                  2);
  const Tensors results =
      ops::call("CTCLoss", {ops::cast(ops::transpose(logits, {1, 0, 2}), DType::kFloat32), indices, values, steps},
                {{"preprocess_collapse_repeated", false},
                 {"ctc_merge_repeated", true},
                 {"ignore_longer_outputs_than_inputs", false}});
  return ops::cast(results[0], dtype);
}

LossPtr CTC(LossOptions options) { return std::make_shared<CtcLoss>(options); }

}  // namespace lockstep::losses
