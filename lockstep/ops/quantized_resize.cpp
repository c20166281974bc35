// Images of quantized numbers resized between two pixels, in integers.
#include <algorithm>
#include <cmath>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/tensor/quantized_internal.h"

namespace lockstep::ops {
namespace {

struct Between {
  std::int64_t below, above;
  float share;
};

std::vector<Between> pixels_of_axis(const Call& call, std::int64_t from, std::int64_t to) {
  const bool corners = call.attr<bool>("align_corners") && to > 1;
  const float scale = corners ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                              : static_cast<float>(from) / static_cast<float>(to);
  std::vector<Between> out;
  for (std::int64_t i = 0; i < to; ++i) {
    const float place = call.attr<bool>("half_pixel_centers") ? (static_cast<float>(i) + 0.5F) * scale - 0.5F
                                                              : static_cast<float>(i) * scale;
    const float whole = std::floor(place);
    const std::int64_t above = std::min(static_cast<std::int64_t>(std::ceil(place)), from - 1);
    out.push_back({std::min(std::max<std::int64_t>(static_cast<std::int64_t>(whole), 0), above), above, place - whole});
  }
  return out;
}

// Between four pixels, with shares of 1 / 2^kBits and in the width that TensorFlow computes with.
template <int kBits, typename Share, typename Wide, typename T>
T between(T top_left, T top_right, T bottom_left, T bottom_right, float across, float down) {
  constexpr Wide kUnit = Wide{1} << kBits;
  const auto x = static_cast<Share>(across * (1 << kBits)), y = static_cast<Share>(down * (1 << kBits));
  const auto row = [&](T left, T right) {
    return static_cast<Wide>(static_cast<Wide>(left) * kUnit +
                             static_cast<Wide>((static_cast<Wide>(right) - static_cast<Wide>(left)) * x));
  };
  const Wide top = row(top_left, top_right), bottom = row(bottom_left, bottom_right);
  const auto value = static_cast<Wide>(top + (bottom - top) / kUnit * y);
  return static_cast<T>((value + kUnit / 2) / kUnit);
}
float between_floats(float top_left, float top_right, float bottom_left, float bottom_right, float across, float down) {
  const float top = top_left + (top_right - top_left) * across;
  const float bottom = bottom_left + (bottom_right - bottom_left) * across;
  return top + (bottom - top) * down;
}

template <typename T, typename Rule>
at::Tensor resize(const at::Tensor& x, const std::vector<Between>& rows, const std::vector<Between>& columns,
                  const Rule& rule) {
  const std::int64_t batch = x.size(0), height = x.size(1), width = x.size(2), depth = x.size(3);
  at::Tensor y = at::empty(
      {batch, static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns.size()), depth}, x.options());
  T* out = y.mutable_data_ptr<T>();
  for (std::int64_t n = 0; n < batch; ++n) {
    const T* const image = x.const_data_ptr<T>() + n * height * width * depth;
    for (const Between& row : rows) {
      const T *const low = image + row.below * width * depth, *const high = image + row.above * width * depth;
      for (const Between& column : columns) {
        const std::int64_t left = column.below * depth, right = column.above * depth;
        for (std::int64_t c = 0; c < depth; ++c)
          *out++ = rule(low[left + c], low[right + c], high[left + c], high[right + c], column.share, row.share);
      }
    }
  }
  return y;
}

Tensors quantized_resize(const Call& call) {
  const at::Tensor x = in(call, 0).contiguous();
  const Ints size = ints_in(call, 1);
  if (x.dim() != 4 || size.size() != 2 || size[0] < 1 || size[1] < 1 || x.size(1) < 1 || x.size(2) < 1)
    throw_invalid_argument("images must have four axes and pixels, size two positive numbers");
  for (const int bound : {2, 3}) {
    if (call.input(bound).rank() != 0) throw_invalid_argument("min and max must be scalars");
  }
  const bool same_size = size[0] == x.size(1) && size[1] == x.size(2);
  if (same_size) return {call.input(0), call.input(2), call.input(3)};
  element_count({x.size(0), size[0], size[1], x.size(3)}, static_cast<std::int64_t>(x.element_size()));
  const auto rows = pixels_of_axis(call, x.size(1), size[0]), columns = pixels_of_axis(call, x.size(2), size[1]);
  const DType dtype = call.input(0).dtype();
  at::Tensor y;
  if (dtype == DType::kQUInt8) {
    y = resize<std::uint8_t>(x, rows, columns, between<7, std::int16_t, std::int16_t, std::uint8_t>);
  } else if (dtype == DType::kQInt32) {
    y = resize<std::int32_t>(x, rows, columns, between<30, std::int32_t, std::int64_t, std::int32_t>);
  } else {
    y = resize<float>(x, rows, columns, between_floats);
  }
  return {wrap_as(y, dtype), call.input(2), call.input(3)};
}

}  // namespace

void register_quantized_resize(Table& table) { table.add("QuantizedResizeBilinear", nullptr, quantized_resize); }

}  // namespace lockstep::ops
