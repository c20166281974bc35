// Attention of several heads as one operation: softmax(scale · query keysᵀ) values, without copies of its operands.
#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/direct_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kScoresInCache = 1 << 16;  // floats
constexpr std::int64_t kFewestRows = 48;          // for which packing keys and values pays

// The steps of one head in [batch, steps, heads, size].
struct Head {
  float* data;
  std::int64_t stride;  // floats from step to step
};
Head head_of(const at::Tensor& x, std::int64_t batch, std::int64_t head) {
  const std::int64_t stride = x.size(2) * x.size(3);
  return {const_cast<float*>(x.const_data_ptr<float>()) + batch * x.size(1) * stride + head * x.size(3), stride};
}

void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const Head& a, bool transpose_a,
              const Head& b, bool transpose_b, const Head& c) {
  Product p;
  p.rows = rows, p.columns = columns, p.depth = depth;
  p.a = a.data, p.a_stride = a.stride, p.transpose_a = transpose_a;
  p.b = b.data, p.b_stride = b.stride, p.transpose_b = transpose_b;
  p.c = c.data, p.c_stride = c.stride;
  direct_kernels().matrix_product(p, 0, rows, 0, columns);
}

class Attention : public Composite {
 public:
  enum Input { kQuery, kKey, kValue, kMask, kFactors };

  Attention(double scale, bool blind_rows_are_zero) : scale_(scale), zero_(blind_rows_are_zero) {}

  Made forward(const Values& inputs, bool keep) const override {
    const Operands o(inputs);
    at::Tensor y = at::empty({o.batch, o.rows, o.heads, o.value_size}, o.q.options());
    const at::Tensor kept = keep ? at::empty({o.batch, o.heads, o.rows, o.columns}, o.q.options()) : at::Tensor();
    const std::int64_t block = std::clamp(kScoresInCache / o.columns, std::min(kFewestRows, o.rows), o.rows);
    const SoftmaxRows softmax = rows_of(o);
    parallel_for(0, o.batch * o.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(keep ? 0 : static_cast<std::size_t>(block * o.columns)),
          dropped(o.factors.defined() ? static_cast<std::size_t>(block * o.columns) : 0);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t n = unit / o.heads, head = unit % o.heads;
        const Head q = head_of(o.q, n, head), k = head_of(o.k, n, head), v = head_of(o.v, n, head),
                   out = head_of(y, n, head);
        for (std::int64_t first = 0; first < o.rows; first += block) {
          const std::int64_t rows = std::min(block, o.rows - first);
          const std::int64_t place = (unit * o.rows + first) * o.columns;
          Head p{keep ? kept.mutable_data_ptr<float>() + place : scratch.data(), o.columns};
          multiply(rows, o.columns, o.size, {q.data + first * q.stride, q.stride}, false, k, true, p);
          row_kernels().softmax_rows(softmax, rows, o.mask_of(n, head, first), p.data);
          if (o.factors.defined()) {
            row_kernels().multiply(rows * o.columns, p.data, o.factors.const_data_ptr<float>() + place, dropped.data());
            p.data = dropped.data();
          }
          multiply(rows, o.value_size, o.columns, p, false, v, false, {out.data + first * out.stride, out.stride});
        }
      }
    });
    return {{y}, {kept}};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const Operands o(recorded.inputs);
    const at::Tensor dy = dys[0].contiguous(), &kept = recorded.kept[0];
    const auto gradient = [&](Input i, const at::Tensor& like) {
      return recorded.wanted[i] ? at::empty_like(like) : at::Tensor();
    };
    const Values gradients = {gradient(kQuery, o.q), gradient(kKey, o.k), gradient(kValue, o.v), {}, {}};
    const SoftmaxRows softmax = rows_of(o);
    const std::int64_t scores = o.rows * o.columns;
    parallel_for(0, o.batch * o.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(scores)), dropped(o.factors.defined() ? scratch.size() : 0);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t n = unit / o.heads, head = unit % o.heads;
        const float* const p = kept.const_data_ptr<float>() + unit * scores;
        const float* const factors = o.factors.defined() ? o.factors.const_data_ptr<float>() + unit * scores : nullptr;
        const Head out = head_of(dy, n, head), q = head_of(o.q, n, head), k = head_of(o.k, n, head),
                   v = head_of(o.v, n, head), ds{scratch.data(), o.columns};
        Head used{const_cast<float*>(p), o.columns};
        if (factors) row_kernels().multiply(scores, p, factors, dropped.data()), used.data = dropped.data();
        if (recorded.wanted[kValue])
          multiply(o.columns, o.value_size, o.rows, used, true, out, false, head_of(gradients[kValue], n, head));
        if (!recorded.wanted[kQuery] && !recorded.wanted[kKey]) continue;
        multiply(o.rows, o.columns, o.value_size, out, false, v, true, ds);
        if (factors) row_kernels().multiply(scores, ds.data, factors, ds.data);
        row_kernels().softmax_rows_gradient(softmax, o.rows, o.mask_of(n, head, 0), p, ds.data);
        if (recorded.wanted[kQuery])
          multiply(o.rows, o.size, o.columns, ds, false, k, false, head_of(gradients[kQuery], n, head));
        if (recorded.wanted[kKey])
          multiply(o.columns, o.size, o.rows, ds, true, q, false, head_of(gradients[kKey], n, head));
      }
    });
    return gradients;
  }

  Values plain(const Values& inputs) const override {
    const at::Tensor &mask = inputs[kMask], &factors = inputs[kFactors];
    const auto by_head = [](const at::Tensor& x) { return x.permute({0, 2, 1, 3}); };
    at::Tensor scores = at::matmul(by_head(inputs[kQuery]), by_head(inputs[kKey]).transpose(2, 3)) * scale_;
    const at::Tensor low = at::full({}, -0.7 * std::numeric_limits<float>::max(), scores.options());
    if (mask.defined()) scores = at::where(mask, scores, low);
    at::Tensor weights = at::softmax(scores, -1);
    if (mask.defined() && zero_) weights = at::where(mask, weights, at::zeros({}, weights.options()));
    if (factors.defined()) weights = weights * factors;
    return {by_head(at::matmul(weights, by_head(inputs[kValue]))).contiguous()};
  }

 private:
  struct Operands {
    at::Tensor q, k, v, mask, factors;
    std::int64_t batch, rows, columns, heads, size, value_size;
    std::int64_t mask_strides[3] = {0, 0, 0};  // of batch, heads and rows: 0 where one serves all

    explicit Operands(const Values& inputs)
        : q(inputs[kQuery].contiguous()),
          k(inputs[kKey].contiguous()),
          v(inputs[kValue].contiguous()),
          factors(inputs[kFactors].defined() ? inputs[kFactors].contiguous() : at::Tensor()),
          batch(q.size(0)),
          rows(q.size(1)),
          columns(k.size(1)),
          heads(q.size(2)),
          size(q.size(3)),
          value_size(v.size(3)) {
      if (!inputs[kMask].defined()) return;
      const at::Tensor& given = inputs[kMask];
      mask = given.expand({given.size(0), given.size(1), given.size(2), columns}).contiguous();
      for (int i = 0; i < 3; ++i) mask_strides[i] = mask.size(i) > 1 ? mask.stride(i) : 0;
    }
    const std::uint8_t* mask_of(std::int64_t n, std::int64_t head, std::int64_t row) const {
      if (!mask.defined()) return nullptr;
      return reinterpret_cast<const std::uint8_t*>(mask.const_data_ptr<bool>()) + n * mask_strides[0] +
             head * mask_strides[1] + row * mask_strides[2];
    }
  };
  SoftmaxRows rows_of(const Operands& o) const {
    return {o.columns, static_cast<float>(scale_), o.mask_strides[2], zero_};
  }

  double scale_;
  bool zero_;
};

bool is_heads_value(const Tensor& x) {
  return x.is_value() && x.dtype() == DType::kFloat32 && x.rank() == 4 && aten(x).is_cpu() && aten(x).numel() > 0;
}

}  // namespace

std::optional<Tensor> try_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                    const Tensor& factors, const AttentionOptions& options) {
  if (!is_heads_value(query) || !is_heads_value(key) || !is_heads_value(value)) return std::nullopt;
  const std::int64_t batch = query.dim(0), rows = query.dim(1), heads = query.dim(2), columns = key.dim(1);
  if (key.shape() != Shape{batch, columns, heads, query.dim(3)} ||
      value.shape() != Shape{batch, columns, heads, value.dim(3)})
    return std::nullopt;
  const Shape scores{batch, heads, rows, columns};
  if (mask.defined()) {
    if (!mask.is_value() || mask.dtype() != DType::kBool || mask.rank() != 4) return std::nullopt;
    for (int axis = 0; axis < 4; ++axis) {
      if (mask.dim(axis) != 1 && mask.dim(axis) != scores[axis]) return std::nullopt;
    }
  }
  if (factors.defined() && (!is_heads_value(factors) || factors.shape() != scores)) return std::nullopt;
  const auto optional = [](const Tensor& x) { return x.defined() ? aten(x) : at::Tensor(); };
  return wrap(run(std::make_shared<Attention>(options.scale, options.blind_rows_are_zero),
                  {aten(query), aten(key), aten(value), optional(mask), optional(factors)})[0]);
}

}  // namespace lockstep::ops
