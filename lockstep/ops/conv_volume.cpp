// Convolutions of float32 volumes as sums of convolutions of their slices: one for each cell of the window along the
// depth.
#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/conv_adjoint_internal.h"
#include "lockstep/ops/conv_winograd_internal.h"
#include "lockstep/ops/packing_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kSlicesOfPart = 16;           // whose gradients of the kernel are added up together
constexpr std::int64_t kVolumePartsLimit = 4 << 20;  // floats

// The window over a slice.
ConvWindow slice_window(const ConvWindow& w) {
  const auto rest = [](const Ints& all) { return Ints(all.begin() + 1, all.end()); };
  ConvWindow slices;
  slices.strides = rest(w.strides), slices.dilations = rest(w.dilations);
  slices.before = rest(w.before), slices.after = rest(w.after);
  slices.input = rest(w.input), slices.kernel = rest(w.kernel), slices.output = rest(w.output);
  return slices;
}

// Slices with their border; those of the last positions are kept for the next cells of the window.
class PaddedSlices {
 public:
  PaddedSlices(const WindowGeometry& border, std::int64_t kept) : border_(border) {
    if (!border.padded()) return;
    slices_.resize(static_cast<std::size_t>(kept));
    numbers_.assign(static_cast<std::size_t>(kept), -1);
  }
  // Slice `number` of x.
  const float* of(const float* x, std::int64_t number) {
    const float* const from = x + number * image_size(border_);
    if (slices_.empty()) return from;
    const std::size_t place = static_cast<std::size_t>(number) % slices_.size();
    if (numbers_[place] == number) return slices_[place].of(0);
    numbers_[place] = number;
    return padded(border_, from, slices_[place]);
  }

 private:
  const WindowGeometry border_;
  std::vector<Scratch> slices_;
  std::vector<std::int64_t> numbers_;
};

// A convolution of volumes: x [n, w.input, I], kernel [d, h, w, I, O] and y [n, w.output, O], all contiguous.
class Volumes {
 public:
  Volumes(const at::Tensor& kernel, const ConvWindow& w)
      : cells_(w.kernel[0]),
        stride_(w.strides[0]),
        dilation_(w.dilations[0]),
        before_(w.before[0]),
        input_(w.input[0]),
        output_(w.output[0]),
        reach_((cells_ - 1) * dilation_ + 1),
        slices_(slice_window(w)),
        g_(window_geometry(kernel[0], slices_)),
        adjoint_geometry_(adjoint_geometry(g_)),
        way_(g_),
        way_back_(adjoint_geometry_) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& kernel) const {
    std::vector<at::Tensor> weights;
    for (std::int64_t cell = 0; cell < cells_; ++cell)
      weights.push_back(way_ ? winograd_weights(g_, way_.outputs, kernel[cell], false) : pack_weights(kernel[cell]));
    at::Tensor y = at::empty({x.size(0), output_, g_.out_h, g_.out_w, g_.out_channels}, x.options());
    const float* const from = x.const_data_ptr<float>();
    float* const to = y.mutable_data_ptr<float>();
    parallel_for(0, x.size(0) * output_, 1, [&](std::int64_t begin, std::int64_t end) {
      PaddedSlices slices(g_, reach_);
      for (std::int64_t slice = begin; slice < end; ++slice) {
        float* const sums = to + slice * output_size(g_);
        bool adds = false;
        for (std::int64_t cell = 0; cell < cells_; ++cell) {
          const std::int64_t depth = seen(slice % output_, cell);
          if (depth < 0) continue;
          const std::int64_t number = slice / output_ * input_ + depth;
          const float* const packed = weights[static_cast<std::size_t>(cell)].const_data_ptr<float>();
          const ConvOutput out{sums, g_.out_channels, g_.out_w * g_.out_channels, 0, adds};
          if (way_) {
            winograd_slice(g_, way_, from + number * image_size(g_), packed, out);
          } else {
            direct_kernels().conv_forward(g_, slices.of(from, number), packed, nullptr, false, 0, g_.out_h * g_.out_w,
                                          out);
          }
          adds = true;
        }
        if (!adds) std::fill_n(sums, output_size(g_), 0.0f);
      }
    });
    return y;
  }

  // The gradient of x, which is also the transposed convolution of dy.
  at::Tensor adjoint(const at::Tensor& dy, const at::Tensor& kernel) const {
    std::vector<Adjoint> adjoints;
    std::vector<at::Tensor> flipped;  // instead of these, by Winograd's algorithm
    for (std::int64_t cell = 0; cell < cells_; ++cell) {
      if (way_back_) {
        flipped.push_back(winograd_weights(adjoint_geometry_, way_back_.outputs, kernel[cell], true));
      } else {
        adjoints.emplace_back(g_, kernel[cell]);
      }
    }
    at::Tensor dx = at::empty({dy.size(0), input_, g_.height, g_.width, g_.channels}, dy.options());
    const float* const from = dy.const_data_ptr<float>();
    float* const to = dx.mutable_data_ptr<float>();
    parallel_for(0, dy.size(0) * input_, 1, [&](std::int64_t begin, std::int64_t end) {
      PaddedSlices slices(way_back_ ? WindowGeometry() : adjoints[0].border(), reach_);
      for (std::int64_t slice = begin; slice < end; ++slice) {
        float* const sums = to + slice * image_size(g_);
        bool adds = false;
        for (std::int64_t cell = cells_; cell-- > 0;) {
          const std::int64_t at = slice % input_ + before_ - cell * dilation_;
          if (at < 0 || at % stride_ != 0 || at / stride_ >= output_) continue;
          const std::int64_t number = slice / input_ * output_ + at / stride_;
          const auto place = static_cast<std::size_t>(cell);
          if (way_back_) {
            winograd_slice(adjoint_geometry_, way_back_, from + number * output_size(g_),
                           flipped[place].const_data_ptr<float>(),
                           {sums, g_.channels, g_.width * g_.channels, 0, adds});
          } else {
            adjoints[place].padded_image(slices.of(from, number), nullptr, false, adds, 0, 1, sums);
          }
          adds = true;
        }
        if (!adds) std::fill_n(sums, image_size(g_), 0.0f);
      }
    });
    return dx;
  }

  // Slices are added up in fixed groups, so the result does not depend on the number of threads.
  at::Tensor kernel_gradient(const at::Tensor& x, const at::Tensor& dy, at::IntArrayRef shape) const {
    const std::int64_t slices = dy.size(0) * output_, size_of_dk = g_.taps() * g_.out_channels;
    const std::int64_t of_cell = way_ ? winograd_kernels().packed_size(g_, way_.outputs) : size_of_dk;
    const std::int64_t size = cells_ * of_cell;
    const std::int64_t most = std::max<std::int64_t>(1, kVolumePartsLimit / size);
    const std::int64_t together = std::max(kSlicesOfPart, (slices + most - 1) / most);
    const at::Tensor parts = zero_parts((slices + together - 1) / together, {size}, x.options());
    const float *const from = x.const_data_ptr<float>(), *const d = dy.const_data_ptr<float>();
    float* const to = parts.mutable_data_ptr<float>();
    parallel_for(0, parts.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      static thread_local Scratch copy;
      PaddedSlices padded_slices(g_, reach_);
      for (std::int64_t slice = begin * together; slice < std::min(slices, end * together); ++slice) {
        const float* of_slice = d + slice * output_size(g_);
        if (!way_ && slice + 1 == slices) of_slice = readable(of_slice, output_size(g_), g_.out_channels, copy);
        for (std::int64_t cell = 0; cell < cells_; ++cell) {
          const std::int64_t depth = seen(slice % output_, cell);
          if (depth < 0) continue;
          const std::int64_t number = slice / output_ * input_ + depth;
          float* const sums = to + slice / together * size + cell * of_cell;
          if (way_) {
            winograd_kernels().filter_gradient(g_, way_.outputs, from + number * image_size(g_), of_slice, 0,
                                               way_.tiles, sums);
          } else {
            direct_kernels().conv_filter_gradient(g_, padded_slices.of(from, number), of_slice, sums);
          }
        }
      }
    });
    const at::Tensor total = total_of(parts);
    if (!way_) return total.reshape(shape);
    at::Tensor dk = at::empty(shape, x.options());
    for (std::int64_t cell = 0; cell < cells_; ++cell)
      finish_filter_gradient(g_, way_.outputs, total.const_data_ptr<float>() + cell * of_cell,
                             dk.mutable_data_ptr<float>() + cell * size_of_dk);
    return dk;
  }

 private:
  static void winograd_slice(const WindowGeometry& g, const WinogradWay& way, const float* x, const float* packed,
                             const ConvOutput& to) {
    winograd_kernels().forward(g, way.outputs, x, packed, nullptr, false, {0, way.tiles, 0, g.out_channels}, to);
  }

  // Where the window at `output` has this cell along the depth; negative: outside of the volume.
  std::int64_t seen(std::int64_t output, std::int64_t cell) const {
    const std::int64_t depth = output * stride_ + cell * dilation_ - before_;
    return depth < input_ ? depth : -1;
  }

  const std::int64_t cells_, stride_, dilation_, before_, input_, output_, reach_;
  const ConvWindow slices_;
  const WindowGeometry g_, adjoint_geometry_;
  const WinogradWay way_, way_back_;  // of slices
};

// Inputs: volumes and the kernel.
class VolumeConv : public Composite {
 public:
  VolumeConv(ConvWindow window, bool transposed) : window_(std::move(window)), transposed_(transposed) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous(), kernel = inputs[1].contiguous();
    const Volumes volumes(kernel, window_);
    return {{transposed_ ? volumes.adjoint(x, kernel) : volumes.forward(x, kernel)}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), kernel = recorded.inputs[1].contiguous(),
                     dy = dys[0].contiguous();
    const Volumes volumes(kernel, window_);
    Values gradients(2);
    if (recorded.wanted[0]) gradients[0] = transposed_ ? volumes.forward(dy, kernel) : volumes.adjoint(dy, kernel);
    if (recorded.wanted[1])
      gradients[1] = volumes.kernel_gradient(transposed_ ? dy : x, transposed_ ? x : dy, kernel.sizes());
    return gradients;
  }
  Values plain(const Values& inputs) const override {
    return {transposed_ ? plain_transposed(inputs[0], inputs[1], window_, false)
                        : plain_convolution(inputs[0], inputs[1], window_, false)};
  }

 private:
  ConvWindow window_;
  bool transposed_;
};

bool fits(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w, bool needs_adjoint) {
  if (x.scalar_type() != at::kFloat || kernel.scalar_type() != at::kFloat || !x.is_cpu() || w.channels_first ||
      w.spatial != 3 || w.groups != 1 || x.numel() == 0 || kernel.numel() == 0)
    return false;
  if (*std::min_element(w.output.begin(), w.output.end()) <= 0) return false;
  const ConvWindow slices = slice_window(w);
  return is_direct(kernel[0], slices) && (!needs_adjoint || has_direct_adjoint(kernel[0], slices));
}

}  // namespace

std::optional<at::Tensor> try_volume_conv(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  const bool recorded = at::GradMode::is_enabled() && (x.requires_grad() || kernel.requires_grad());
  if (!fits(x, kernel, w, recorded)) return std::nullopt;
  if (w.kernel[0] == 1 && w.strides[0] == 1 && w.before[0] == 0 && w.after[0] == 0) {  // slices are images
    const at::Tensor images = x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3), x.size(4)});
    return fused_conv(images, kernel.squeeze(0), {}, false, slice_window(w))
        .reshape({x.size(0), w.output[0], w.output[1], w.output[2], kernel.size(4)});
  }
  return run(std::make_shared<VolumeConv>(w, false), {x, kernel})[0];
}

std::optional<at::Tensor> try_volume_transposed(const at::Tensor& x, const at::Tensor& kernel, const ConvWindow& w) {
  if (!fits(x, kernel, w, true)) return std::nullopt;
  return run(std::make_shared<VolumeConv>(w, true), {x, kernel})[0];
}

std::optional<at::Tensor> try_volume_kernel_gradient(const at::Tensor& x, const at::Tensor& dy, const ConvWindow& w,
                                                     const Ints& kernel_sizes) {
  const at::Tensor kernel = at::empty(kernel_sizes, x.options());
  if (x.scalar_type() != dy.scalar_type() || !fits(x, kernel, w, false)) return std::nullopt;
  return Volumes(kernel, w).kernel_gradient(x.contiguous(), dy.contiguous(), kernel_sizes);
}

}  // namespace lockstep::ops
