// Convolutions of float32 volumes as convolutions of images: the window's cells along the depth become channels.
#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/conv_direct_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

// [n, depth, height, width, channels] to [n · output's depth, height, width, cells · channels], zero outside of the
// volume.
class DepthCells : public Composite {
 public:
  explicit DepthCells(const ConvWindow& w)
      : cells_(w.kernel[0]),
        stride_(w.strides[0]),
        dilation_(w.dilations[0]),
        before_(w.before[0]),
        after_(w.after[0]),
        depth_(w.input[0]),
        output_(w.output[0]) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    const std::int64_t channels = x.size(4), pixels = x.size(2) * x.size(3), row = cells_ * channels;
    at::Tensor y = at::empty({x.size(0) * output_, x.size(2), x.size(3), row}, x.options());
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, y.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t image = begin; image < end; ++image) {
        for (std::int64_t cell = 0; cell < cells_; ++cell) {
          const std::int64_t d = image % output_ * stride_ + cell * dilation_ - before_;
          const bool inside = d >= 0 && d < depth_;
          const float* const pixel = from + (image / output_ * depth_ + d) * pixels * channels;
          float* const place = to + image * pixels * row + cell * channels;
          for (std::int64_t p = 0; p < pixels; ++p) {
            if (inside) {
              std::copy_n(pixel + p * channels, channels, place + p * row);
            } else {
              std::fill_n(place + p * row, channels, 0.0f);
            }
          }
        }
      }
    });
    return {{y}, {}};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor &x = recorded.inputs[0], dy = dys[0].contiguous();
    const std::int64_t channels = x.size(4), pixels = x.size(2) * x.size(3), row = cells_ * channels;
    at::Tensor dx = at::empty(x.sizes(), x.options());
    const float* const from = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, x.size(0) * depth_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slice = begin; slice < end; ++slice) {
        float* const sums = to + slice * pixels * channels;
        std::fill_n(sums, pixels * channels, 0.0f);
        for (std::int64_t cell = 0; cell < cells_; ++cell) {
          const std::int64_t at = slice % depth_ + before_ - cell * dilation_;
          if (at < 0 || at % stride_ != 0 || at / stride_ >= output_) continue;
          const float* const place = from + (slice / depth_ * output_ + at / stride_) * pixels * row + cell * channels;
          for (std::int64_t p = 0; p < pixels; ++p) {
            for (std::int64_t c = 0; c < channels; ++c) sums[p * channels + c] += place[p * row + c];
          }
        }
      }
    });
    return {dx};
  }

  Values plain(const Values& inputs) const override {
    const at::Tensor& x = inputs[0];
    const at::Tensor padded = at::constant_pad_nd(x, {0, 0, 0, 0, 0, 0, before_, after_});
    Values cells;
    for (std::int64_t cell = 0; cell < cells_; ++cell) {
      const std::int64_t first = cell * dilation_;
      cells.push_back(padded.slice(1, first, first + (output_ - 1) * stride_ + 1, stride_));
    }
    return {at::cat(cells, -1).reshape({x.size(0) * output_, x.size(2), x.size(3), cells_ * x.size(4)})};
  }

 private:
  std::int64_t cells_, stride_, dilation_, before_, after_, depth_, output_;
};

}  // namespace

std::optional<at::Tensor> try_volume_conv(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  if (x.scalar_type() != at::kFloat || kernel.scalar_type() != at::kFloat || !x.is_cpu() || w.channels_first ||
      w.groups != 1 || x.numel() == 0 || kernel.numel() == 0)
    return std::nullopt;
  ConvWindow images;
  const auto rest = [](const Ints& all) { return Ints(all.begin() + 1, all.end()); };
  images.strides = rest(w.strides), images.dilations = rest(w.dilations);
  images.before = rest(w.before), images.after = rest(w.after);
  images.input = rest(w.input), images.kernel = rest(w.kernel), images.output = rest(w.output);
  if (*std::min_element(w.output.begin(), w.output.end()) <= 0) return std::nullopt;
  // [depth, h, w, I, O] to [h, w, depth · I, O].
  const at::Tensor weights =
      kernel.permute({1, 2, 0, 3, 4})
          .reshape({kernel.size(1), kernel.size(2), kernel.size(0) * kernel.size(3), kernel.size(4)});
  const bool recorded = at::GradMode::is_enabled() && (x.requires_grad() || kernel.requires_grad());
  if (!is_direct(weights, images) || (recorded && !has_direct_adjoint(weights, images))) return std::nullopt;
  const at::Tensor cells = run(std::make_shared<DepthCells>(w), {x})[0];
  const at::Tensor y = recorded ? fused_conv(cells, weights, {}, false, images)
                                : direct_forward(cells, weights, at::Tensor(), false, images);
  return y.reshape({x.size(0), w.output[0], w.output[1], w.output[2], kernel.size(4)});
}

}  // namespace lockstep::ops
