// Borders of zeros around float32 images, one pass each way.
#include <algorithm>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

class ZeroPadding : public Composite {
 public:
  explicit ZeroPadding(std::vector<std::int64_t> amounts) : amounts_(std::move(amounts)) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous();
    std::vector<std::int64_t> shape = x.sizes().vec();
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] += amounts_[2 * i] + amounts_[2 * i + 1];
    at::Tensor y = at::empty(shape, x.options());
    float* const to = y.mutable_data_ptr<float>();
    const float* const from = x.const_data_ptr<float>();
    for_each_image(x, y, [&](std::int64_t small, std::int64_t large) {
      place(
          x, y, 1, small, large,
          [&](std::int64_t begin, std::int64_t end, std::int64_t at) { std::copy(from + begin, from + end, to + at); },
          [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, 0.0f); });
    });
    return {{y}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor &x = recorded.inputs[0], dy = dys[0].contiguous();
    at::Tensor dx = at::empty(x.sizes(), x.options());
    float* const to = dx.mutable_data_ptr<float>();
    const float* const from = dy.const_data_ptr<float>();
    for_each_image(dx, dy, [&](std::int64_t small, std::int64_t large) {
      place(
          dx, dy, 1, small, large,
          [&](std::int64_t begin, std::int64_t end, std::int64_t at) {
            std::copy(from + at, from + at + (end - begin), to + begin);
          },
          [](std::int64_t, std::int64_t) {});
    });
    return {dx};
  }
  Values plain(const Values& inputs) const override {
    std::vector<std::int64_t> reversed;
    for (std::size_t i = amounts_.size() / 2; i-- > 0;)
      reversed.push_back(amounts_[2 * i]), reversed.push_back(amounts_[2 * i + 1]);
    return {at::constant_pad_nd(inputs[0], reversed)};
  }

 private:
  // Calls each(offset in small, offset in large) for the entries of the first axis.
  template <typename Each>
  static void for_each_image(const at::Tensor& small, const at::Tensor& large, const Each& each) {
    parallel_for(0, small.size(0), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) each(n * small.stride(0), n * large.stride(0));
    });
  }
  // One part of an image, from `axis` on: calls copy(begin and end in small, begin in large) and zero(begin and end in
  // large) for its rows and borders.
  template <typename Copy, typename Zero>
  void place(const at::Tensor& small, const at::Tensor& large, std::int64_t axis, std::int64_t from, std::int64_t to,
             const Copy& copy, const Zero& zero) const {
    const auto at = static_cast<std::size_t>(2 * axis);
    const std::int64_t inner = large.stride(axis), outer = small.stride(axis), before = amounts_[at] * inner;
    zero(to, to + before);
    to += before;
    if (outer == inner) {  // no border further in
      copy(from, from + small.size(axis) * outer, to);
      to += small.size(axis) * inner;
    } else {
      for (std::int64_t i = 0; i < small.size(axis); ++i, from += outer, to += inner)
        place(small, large, axis + 1, from, to, copy, zero);
    }
    zero(to, to + amounts_[at + 1] * inner);
  }

  std::vector<std::int64_t> amounts_;  // before and after, of each axis
};

}  // namespace

std::optional<at::Tensor> try_zero_padding(const at::Tensor& x, const std::vector<std::int64_t>& amounts) {
  const std::size_t last = amounts.size() - 1;
  if (!is_large_float(x) || x.dim() < 3) return std::nullopt;
  if (amounts[0] + amounts[1] + amounts[last - 1] + amounts[last] != 0) return std::nullopt;
  return run(std::make_shared<ZeroPadding>(amounts), {x})[0];
}

}  // namespace lockstep::ops
