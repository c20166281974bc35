#include "lockstep/ops/conv_sparse_internal.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kSparse = 16;             // elements for which there is at most one that is not zero
constexpr std::int64_t kSummedImages = 8;        // whose kernel gradients are added up in one buffer
constexpr std::int64_t kSummedFloats = 8 << 20;  // of all buffers

// The places of the elements that are not zero, or nothing where they are more than `most`.
std::optional<std::vector<std::int64_t>> places(const float* dy, std::int64_t size, std::int64_t most) {
  constexpr std::int64_t kBlock = 32;
  std::vector<std::int64_t> found;
  for (std::int64_t begin = 0; begin < size; begin += kBlock) {
    const std::int64_t end = std::min(size, begin + kBlock);
    std::uint32_t any = 0;
    for (std::int64_t i = begin; i < end; ++i) any |= std::bit_cast<std::uint32_t>(dy[i]) << 1;  // without the sign
    if (any == 0) continue;
    for (std::int64_t i = begin; i < end; ++i) {
      if (!(dy[i] == 0)) found.push_back(i);
    }
    if (static_cast<std::int64_t>(found.size()) > most) return std::nullopt;
  }
  return found;
}

void add_scaled(std::int64_t count, float factor, const float* from, float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

// One image: the windows that its gradients see.
struct SparseImage {
  const WindowGeometry& g;
  const float *x, *kernel;  // kernel: [out_channels, taps], or null
  float *dx, *dk;           // dk: [out_channels, taps]; each null where it is not wanted

  void add(std::int64_t place, float value) const {
    const std::int64_t pixel = place / g.out_channels, channel = place % g.out_channels;
    const std::int64_t top = pixel / g.out_w * g.stride_h - g.pad_top, left = pixel % g.out_w * g.stride_w - g.pad_left;
    const auto inside = [](std::int64_t at, std::int64_t size) { return at >= 0 && at < size; };
    for (std::int64_t i = 0; i < g.window_h; ++i) {
      const std::int64_t row = top + i * g.dilation_h;
      if (!inside(row, g.height)) continue;
      for (std::int64_t j = 0; j < g.window_w;) {
        std::int64_t cells = 0;  // neighbours in memory
        const std::int64_t column = left + j * g.dilation_w;
        while (j + cells < g.window_w && inside(column + cells, g.width) && (cells == 0 || g.dilation_w == 1)) ++cells;
        if (cells > 0) {
          const std::int64_t in = (row * g.width + column) * g.channels, count = cells * g.channels;
          const std::int64_t tap = channel * g.taps() + (i * g.window_w + j) * g.channels;
          if (dk) add_scaled(count, value, x + in, dk + tap);
          if (dx) add_scaled(count, value, kernel + tap, dx + in);
        }
        j += std::max<std::int64_t>(1, cells);
      }
    }
  }
};

}  // namespace

std::optional<Gradients> sparse_backward(const WindowGeometry& g, const at::Tensor& x, const at::Tensor& kernel,
                                         const at::Tensor& y, const at::Tensor& dy, Wanted wanted) {
  const std::int64_t count = x.size(0), size = g.out_h * g.out_w * g.out_channels, most = size / kSparse;
  const float* const d = dy.const_data_ptr<float>();
  std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(count));
  if (auto first = places(d, size, most)) {
    found[0] = std::move(*first);
  } else {
    return std::nullopt;
  }
  std::atomic<bool> dense = false;
  parallel_for(1, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      auto own = places(d + n * size, size, most);
      if (own) found[static_cast<std::size_t>(n)] = std::move(*own);
      if (!own) dense = true;
    }
  });
  if (dense) return std::nullopt;

  const std::int64_t limit = std::max<std::int64_t>(1, kSummedFloats / std::max<std::int64_t>(1, kernel.numel()));
  const std::int64_t chunk = std::max(kSummedImages, (count + limit - 1) / limit), chunks = (count + chunk - 1) / chunk;
  const auto zeros = [&](bool needed, at::IntArrayRef shape) {
    return needed ? at::zeros(shape, x.options()) : at::Tensor();
  };
  const at::Tensor dx = zeros(wanted.images, x.sizes()), dk = zeros(wanted.kernel, {chunks, g.out_channels, g.taps()}),
                   db = zeros(wanted.bias, {chunks, g.out_channels});
  const at::Tensor weights = wanted.images ? kernel.reshape({g.taps(), g.out_channels}).t().contiguous() : at::Tensor();
  const float* const output = y.defined() ? y.const_data_ptr<float>() : nullptr;
  parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin * chunk; n < std::min(count, end * chunk); ++n) {
      const std::int64_t part = n / chunk, image = n * g.height * g.width * g.channels;
      const SparseImage one{g, x.const_data_ptr<float>() + image,
                            weights.defined() ? weights.const_data_ptr<float>() : nullptr,
                            dx.defined() ? dx.mutable_data_ptr<float>() + image : nullptr,
                            dk.defined() ? dk.mutable_data_ptr<float>() + part * kernel.numel() : nullptr};
      float* const bias = db.defined() ? db.mutable_data_ptr<float>() + part * g.out_channels : nullptr;
      for (const std::int64_t place : found[static_cast<std::size_t>(n)]) {
        if (output && !(output[n * size + place] > 0)) continue;
        const float value = d[n * size + place];
        one.add(place, value);
        if (bias) bias[place % g.out_channels] += value;
      }
    }
  });
  Gradients out;
  out.images = dx;
  if (wanted.kernel) out.kernel = dk.sum(0).t().contiguous().view(kernel.sizes());
  if (wanted.bias) out.bias = db.sum(0);
  return out;
}

}  // namespace lockstep::ops
