// Batch, layer, group and RMS normalization as one operation each.
#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/ops/composite_internal.h"
#include "lockstep/ops/elementwise_internal.h"
#include "lockstep/ops/fused_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/row_kernels_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kNormGrain = 32768;  // elements of a piece

const float* read(const at::Tensor& x) { return x.defined() ? x.const_data_ptr<float>() : nullptr; }
float* write(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr<float>() : nullptr; }
at::Tensor dense(const at::Tensor& x) { return x.defined() ? x.contiguous() : x; }

// Rows in pieces of a fixed size, so that sums over them do not depend on the number of threads.
struct Rows {
  std::int64_t count, columns, per_piece, pieces;
  explicit Rows(const at::Tensor& x)
      : count(x.numel() / x.size(-1)),
        columns(x.size(-1)),
        per_piece(std::max<std::int64_t>(32, kNormGrain / columns)),
        pieces((count + per_piece - 1) / per_piece) {}

  // Calls each(piece, first row, rows).
  template <typename Each>
  void for_each(const Each& each) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kNormGrain / (per_piece * columns));
    parallel_for(0, pieces, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece)
        each(piece, piece * per_piece, std::min(per_piece, count - piece * per_piece));
    });
  }
};

// Adds the rows of parts [pieces, columns] up in double, in order: each(column, sum). Columns are divided among the
// threads.
template <typename Each>
void for_totals(std::int64_t pieces, std::int64_t columns, const float* parts, const Each& each) {
  const std::int64_t grain = std::max<std::int64_t>(64, kNormGrain / pieces);
  parallel_for(0, columns, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(static_cast<std::size_t>(end - begin));
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const float* const row = parts + piece * columns + begin;
      for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += row[c];
    }
    for (std::size_t c = 0; c < sums.size(); ++c) each(begin + static_cast<std::int64_t>(c), sums[c]);
  });
}
at::Tensor total(const at::Tensor& parts) {
  const at::Tensor sums = at::empty({parts.size(1)}, parts.options());
  float* const to = write(sums);
  for_totals(parts.size(0), parts.size(1), read(parts),
             [&](std::int64_t c, double sum) { to[c] = static_cast<float>(sum); });
  return sums;
}

struct Sums {
  std::vector<double> of_dy, of_products;  // of each column
};
Sums column_sums(const Rows& rows, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& dy,
                 const ColumnActivation& act) {
  const at::Tensor parts = at::empty({2, rows.pieces, rows.columns}, x.options());
  float* const to = write(parts);
  rows.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t count) {
    row_kernels().column_sums(count, rows.columns, read(x) + first * rows.columns, read(mean),
                              read(dy) + first * rows.columns, act, to + piece * rows.columns,
                              to + (rows.pieces + piece) * rows.columns);
  });
  Sums sums{std::vector<double>(static_cast<std::size_t>(rows.columns)), {}};
  sums.of_products = sums.of_dy;
  for_totals(rows.pieces, rows.columns, to,
             [&](std::int64_t c, double sum) { sums.of_dy[static_cast<std::size_t>(c)] = sum; });
  for_totals(rows.pieces, rows.columns, to + rows.pieces * rows.columns,
             [&](std::int64_t c, double sum) { sums.of_products[static_cast<std::size_t>(c)] = sum; });
  return sums;
}
at::Tensor as_floats(const std::vector<double>& values) {
  const at::Tensor out = at::empty({static_cast<std::int64_t>(values.size())}, at::kFloat);
  std::transform(values.begin(), values.end(), write(out), [](double value) { return static_cast<float>(value); });
  return out;
}

ColumnActivation column_activation(const FollowingActivation& act, const at::Tensor& factor, const at::Tensor& shift) {
  return {act.kind, static_cast<float>(act.alpha), read(factor), read(shift)};
}

void scale(const Rows& rows, const at::Tensor& x, const ColumnActivation& act, const at::Tensor& y) {
  const float* const from = read(x);
  float* const to = write(y);
  rows.for_each([&](std::int64_t, std::int64_t first, std::int64_t count) {
    row_kernels().scale_columns(count, rows.columns, from + first * rows.columns, act, to + first * rows.columns);
  });
}

class BatchNormalizing : public Composite {
 public:
  enum Input { kX, kGamma, kBeta };

  BatchNormalizing(double epsilon, FollowingActivation act) : epsilon_(epsilon), act_(act) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[kX].contiguous();
    const Rows rows(x);
    const at::Tensor parts = at::empty({2, rows.pieces, rows.columns}, x.options());
    float* const to = write(parts);
    rows.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t count) {
      row_kernels().column_moments(count, rows.columns, read(x) + first * rows.columns, to + piece * rows.columns,
                                   to + (rows.pieces + piece) * rows.columns);
    });
    const at::Tensor gamma = dense(inputs[kGamma]), beta = dense(inputs[kBeta]);
    const at::Tensor mean = at::empty({rows.columns}, x.options()), variance = at::empty_like(mean),
                     factor = at::empty_like(mean), shift = at::empty_like(mean);
    const Columns out{write(mean), write(variance), write(factor), write(shift)};
    combine(rows, to, to + rows.pieces * rows.columns, [&](std::int64_t c, double m, double v) {
      const double by = (gamma.defined() ? read(gamma)[c] : 1.0) / std::sqrt(v + epsilon_);
      out.mean[c] = static_cast<float>(m), out.variance[c] = static_cast<float>(v);
      out.factor[c] = static_cast<float>(by);
      out.shift[c] = static_cast<float>((beta.defined() ? read(beta)[c] : 0.0) - m * by);
    });
    at::Tensor y = at::empty_like(x);
    scale(rows, x, column_activation(act_, factor, shift), y);
    return {{y, mean, variance}, {factor, shift}};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[kX].contiguous(), gamma = dense(recorded.inputs[kGamma]);
    const at::Tensor mean = recorded.outputs[1].contiguous();
    const at::Tensor dy = dys[0].defined() ? dys[0].contiguous() : at::zeros_like(x);
    const Rows rows(x);
    const auto count = static_cast<double>(rows.count);
    const ColumnActivation act = column_activation(act_, recorded.kept[0], recorded.kept[1]);
    const Sums sums = column_sums(rows, x, mean, dy, act);
    const at::Tensor variance = recorded.outputs[2].contiguous(), d_mean = dense(dys[1]), d_variance = dense(dys[2]);
    const at::Tensor terms = at::empty({4, rows.columns}, x.options());  // of dy, of x, the rest; gradients of gamma
    float *const of_dy = write(terms), *const of_x = of_dy + rows.columns, *const rest = of_x + rows.columns,
                 *const of_gamma = rest + rows.columns;
    for (std::int64_t c = 0; c < rows.columns; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double inverse = 1 / std::sqrt(read(variance)[c] + epsilon_), products = sums.of_products[at] * inverse;
      const double by = gamma.defined() ? inverse * read(gamma)[c] : inverse;
      of_gamma[c] = static_cast<float>(products);
      of_dy[c] = static_cast<float>(by);
      of_x[c] = static_cast<float>(((d_variance.defined() ? 2 * read(d_variance)[c] : 0.0) - by * inverse * products) /
                                   count);
      rest[c] = static_cast<float>(((d_mean.defined() ? read(d_mean)[c] : 0.0) - by * sums.of_dy[at]) / count);
    }
    Values gradients(3);
    if (recorded.wanted[kGamma]) gradients[kGamma] = terms[3];
    if (recorded.wanted[kBeta]) gradients[kBeta] = as_floats(sums.of_dy);
    if (!recorded.wanted[kX]) return gradients;
    const ColumnTerms each{read(mean), of_dy, of_x, rest};
    at::Tensor dx = at::empty_like(x);
    const float *from = read(x), *d = read(dy);
    float* const to = write(dx);
    rows.for_each([&](std::int64_t, std::int64_t first, std::int64_t some) {
      const std::int64_t at = first * rows.columns;
      row_kernels().column_gradient(some, rows.columns, from + at, d + at, act, each, to + at);
    });
    gradients[kX] = std::move(dx);
    return gradients;
  }

  Values plain(const Values& inputs) const override {
    const at::Tensor x = inputs[kX].reshape({-1, inputs[kX].size(-1)});
    const at::Tensor mean = x.mean(0), variance = (x - mean).square().mean(0);
    at::Tensor factor = at::rsqrt(variance + epsilon_);
    if (inputs[kGamma].defined()) factor = factor * inputs[kGamma];
    at::Tensor y = (x - mean) * factor;
    if (inputs[kBeta].defined()) y = y + inputs[kBeta];
    return {plain_unary(act_.kind, act_.alpha, y).reshape(inputs[kX].sizes()), mean, variance};
  }

 private:
  struct Columns {
    float *mean, *variance, *factor, *shift;
  };

  // The means and summed squares of pieces, each [pieces, columns], to the mean and variance of all rows: each(column,
  // mean, variance).
  template <typename Each>
  static void combine(const Rows& rows, const float* means, const float* squares, const Each& each) {
    const auto count = static_cast<double>(rows.count);
    const auto size = [&](std::int64_t piece) {
      return static_cast<double>(std::min(rows.per_piece, rows.count - piece * rows.per_piece));
    };
    const std::int64_t grain = std::max<std::int64_t>(64, kNormGrain / rows.pieces);
    parallel_for(0, rows.columns, grain, [&](std::int64_t begin, std::int64_t end) {
      const auto some = static_cast<std::size_t>(end - begin);
      std::vector<double> mean(some), around(some);
      for (std::int64_t piece = 0; piece < rows.pieces; ++piece) {
        const float* const row = means + piece * rows.columns + begin;
        for (std::size_t c = 0; c < some; ++c) mean[c] += row[c] * size(piece);
      }
      for (double& m : mean) m /= count;
      for (std::int64_t piece = 0; piece < rows.pieces; ++piece) {
        const float *const row = means + piece * rows.columns + begin, *const square = squares + (row - means);
        for (std::size_t c = 0; c < some; ++c) {
          const double apart = row[c] - mean[c];
          around[c] += square[c] + apart * apart * size(piece);
        }
      }
      for (std::size_t c = 0; c < some; ++c) each(begin + static_cast<std::int64_t>(c), mean[c], around[c] / count);
    });
  }

  double epsilon_;
  FollowingActivation act_;
};

class ScaleShift : public Composite {
 public:
  explicit ScaleShift(FollowingActivation act) : act_(act) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous(), factor = inputs[1].contiguous(), shift = inputs[2].contiguous();
    at::Tensor y = at::empty_like(x);
    scale(Rows(x), x, column_activation(act_, factor, shift), y);
    return {{y}, {}};
  }
  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), dy = dys[0].contiguous(),
                     factor = recorded.inputs[1].contiguous(), shift = recorded.inputs[2].contiguous();
    const Rows rows(x);
    const ColumnActivation act = column_activation(act_, factor, shift);
    Values gradients(3);
    if (recorded.wanted[0]) {
      const at::Tensor none = at::zeros_like(factor);
      const ColumnTerms terms{read(none), read(factor), read(none), read(none)};
      gradients[0] = at::empty_like(x);
      const float *const from = read(x), *const d = read(dy);
      float* const to = write(gradients[0]);
      rows.for_each([&](std::int64_t, std::int64_t first, std::int64_t some) {
        const std::int64_t at = first * rows.columns;
        row_kernels().column_gradient(some, rows.columns, from + at, d + at, act, terms, to + at);
      });
    }
    if (recorded.wanted[1] || recorded.wanted[2]) {
      const Sums sums = column_sums(rows, x, {}, dy, act);
      gradients[1] = as_floats(sums.of_products), gradients[2] = as_floats(sums.of_dy);
    }
    return gradients;
  }
  Values plain(const Values& inputs) const override {
    return {plain_unary(act_.kind, act_.alpha, inputs[0] * inputs[1] + inputs[2])};
  }

 private:
  FollowingActivation act_;
};

class NormalizedRows : public Composite {
 public:
  NormalizedRows(double epsilon, bool centered) : epsilon_(epsilon), centered_(centered) {}

  Made forward(const Values& inputs, bool keep) const override {
    const at::Tensor x = inputs[0].contiguous(), gamma = dense(inputs[1]), beta = dense(inputs[2]);
    const Rows rows(x);
    at::Tensor y = at::empty_like(x);
    Values kept(2);
    if (keep) kept = {at::empty({rows.count}, x.options()), at::empty({rows.count}, x.options())};
    const RowNormalization n{rows.columns, centered_, static_cast<float>(epsilon_), read(gamma), read(beta)};
    const float* const from = read(x);
    float *const to = write(y), *const means = write(kept[0]), *const inverses = write(kept[1]);
    rows.for_each([&](std::int64_t, std::int64_t first, std::int64_t count) {
      const std::int64_t at = first * rows.columns;
      row_kernels().normalize_rows(n, count, from + at, to + at, means ? means + first : nullptr,
                                   inverses ? inverses + first : nullptr);
    });
    return {{y}, std::move(kept)};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), dy = dys[0].contiguous(), gamma = dense(recorded.inputs[1]);
    const Rows rows(x);
    const RowNormalization n{rows.columns, centered_, static_cast<float>(epsilon_), read(gamma), nullptr};
    at::Tensor dx = at::empty_like(x);
    const auto parts = [&](bool wanted) {
      return wanted ? at::zeros({rows.pieces, rows.columns}, x.options()) : at::Tensor();
    };
    const at::Tensor of_gamma = parts(recorded.wanted[1]), of_beta = parts(recorded.wanted[2]);
    const float *from = read(x), *d = read(dy), *means = read(recorded.kept[0]), *inverses = read(recorded.kept[1]);
    float *const to = write(dx), *const d_gamma = write(of_gamma), *const d_beta = write(of_beta);
    rows.for_each([&](std::int64_t piece, std::int64_t first, std::int64_t count) {
      const std::int64_t at = first * rows.columns;
      row_kernels().normalize_rows_gradient(n, count, from + at, d + at, means + first, inverses + first, to + at,
                                            d_gamma ? d_gamma + piece * rows.columns : nullptr,
                                            d_beta ? d_beta + piece * rows.columns : nullptr);
    });
    Values gradients = {dx, at::Tensor(), at::Tensor()};
    if (of_gamma.defined()) gradients[1] = total(of_gamma);
    if (of_beta.defined()) gradients[2] = total(of_beta);
    return gradients;
  }

  Values plain(const Values& inputs) const override {
    const at::Tensor& x = inputs[0];
    const at::Tensor around = centered_ ? x - x.mean(-1, true) : x;
    at::Tensor y = around * at::rsqrt(around.square().mean(-1, true) + epsilon_);
    if (inputs[1].defined()) y = y * inputs[1];
    if (inputs[2].defined()) y = y + inputs[2];
    return {y};
  }

 private:
  double epsilon_;
  bool centered_;
};

// Moments of the channels of each group of an image: x [images, positions…, channels].
class GroupNormalizing : public Composite {
 public:
  GroupNormalizing(std::int64_t groups, double epsilon) : groups_(groups), epsilon_(epsilon) {}

  Made forward(const Values& inputs, bool) const override {
    const at::Tensor x = inputs[0].contiguous(), gamma = dense(inputs[1]), beta = dense(inputs[2]);
    const Extents e(x, groups_);
    at::Tensor y = at::empty_like(x), means = at::empty({e.images, e.channels}, x.options()),
               inverses = at::empty_like(means);
    const float *const from = read(x), *const scales = read(gamma), *const shifts = read(beta);
    float *const to = write(y), *const mean = write(means), *const inverse = write(inverses);
    parallel_for(0, e.images, e.grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> around(static_cast<std::size_t>(e.channels)), factor(around), shift(around);
      for (std::int64_t n = begin; n < end; ++n) {
        float *const of_channel = mean + n * e.channels, *const scale = inverse + n * e.channels;
        row_kernels().column_moments(e.positions, e.channels, from + n * e.size, of_channel, around.data());
        for (std::int64_t first = 0; first < e.channels; first += e.in_group) {
          const std::int64_t last = first + e.in_group;
          double sum = 0, squares = 0;
          for (std::int64_t c = first; c < last; ++c) sum += of_channel[c];
          const double center = sum / static_cast<double>(e.in_group);
          for (std::int64_t c = first; c < last; ++c) {
            const double apart = of_channel[c] - center;
            squares += around[static_cast<std::size_t>(c)] + apart * apart * static_cast<double>(e.positions);
          }
          const double by = 1 / std::sqrt(squares / e.count() + epsilon_);
          for (std::int64_t c = first; c < last; ++c) {
            of_channel[c] = static_cast<float>(center), scale[c] = static_cast<float>(by);
            const double f = scales ? by * scales[c] : by;
            factor[static_cast<std::size_t>(c)] = static_cast<float>(f);
            shift[static_cast<std::size_t>(c)] = static_cast<float>((shifts ? shifts[c] : 0) - center * f);
          }
        }
        row_kernels().scale_columns(e.positions, e.channels, from + n * e.size,
                                    {Unary::kLinear, 0, factor.data(), shift.data()}, to + n * e.size);
      }
    });
    return {{y}, {means, inverses}};
  }

  Values backward(const Recorded& recorded, const Values& dys) const override {
    const at::Tensor x = recorded.inputs[0].contiguous(), gamma = dense(recorded.inputs[1]), dy = dys[0].contiguous();
    const Extents e(x, groups_);
    const at::Tensor dx = at::empty_like(x), of_gamma = at::empty({e.images, e.channels}, x.options()),
                     of_beta = at::empty_like(of_gamma);
    const float *const from = read(x), *const d = read(dy), *const scales = read(gamma);
    const float *const means = read(recorded.kept[0]), *const inverses = read(recorded.kept[1]);
    float *const to = write(dx), *const d_gamma = write(of_gamma), *const d_beta = write(of_beta);
    parallel_for(0, e.images, e.grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> of_dy(static_cast<std::size_t>(e.channels)), of_x(of_dy), rest(of_dy);
      for (std::int64_t n = begin; n < end; ++n) {
        const float *const mean = means + n * e.channels, *const inverse = inverses + n * e.channels;
        float *const sum = d_beta + n * e.channels, *const product = d_gamma + n * e.channels;
        row_kernels().column_sums(e.positions, e.channels, from + n * e.size, mean, d + n * e.size, {}, sum, product);
        for (std::int64_t first = 0; first < e.channels; first += e.in_group) {
          double sums = 0, products = 0;
          for (std::int64_t c = first; c < first + e.in_group; ++c) {
            const double scale = scales ? scales[c] : 1;
            sums += scale * sum[c], products += scale * product[c];
          }
          const double by = inverse[first];
          for (std::int64_t c = first; c < first + e.in_group; ++c) {
            const auto at = static_cast<std::size_t>(c);
            of_dy[at] = static_cast<float>(scales ? by * scales[c] : by);
            of_x[at] = static_cast<float>(-by * by * by * products / e.count());
            rest[at] = static_cast<float>(-by * sums / e.count());
          }
        }
        for (std::int64_t c = 0; c < e.channels; ++c) product[c] *= inverse[c];
        row_kernels().column_gradient(e.positions, e.channels, from + n * e.size, d + n * e.size, {},
                                      {mean, of_dy.data(), of_x.data(), rest.data()}, to + n * e.size);
      }
    });
    Values gradients = {dx, at::Tensor(), at::Tensor()};
    if (recorded.wanted[1]) gradients[1] = total(of_gamma);
    if (recorded.wanted[2]) gradients[2] = total(of_beta);
    return gradients;
  }

  Values plain(const Values& inputs) const override {
    const at::Tensor x = inputs[0].reshape({inputs[0].size(0), -1, groups_, inputs[0].size(-1) / groups_});
    const at::Tensor around = x - x.mean({1, 3}, true);
    at::Tensor y = (around * at::rsqrt(around.square().mean({1, 3}, true) + epsilon_)).reshape(inputs[0].sizes());
    if (inputs[1].defined()) y = y * inputs[1];
    if (inputs[2].defined()) y = y + inputs[2];
    return {y};
  }

 private:
  struct Extents {
    std::int64_t images, channels, size, positions, in_group, grain;
    Extents(const at::Tensor& x, std::int64_t groups)
        : images(x.size(0)),
          channels(x.size(-1)),
          size(x.numel() / images),
          positions(size / channels),
          in_group(channels / groups),
          grain(std::max<std::int64_t>(1, kNormGrain / size)) {}
    double count() const { return static_cast<double>(positions * in_group); }  // numbers of a group
  };
  std::int64_t groups_;
  double epsilon_;
};

bool is_dense_float(const Tensor& x) {
  return x.is_value() && x.dtype() == DType::kFloat32 && x.rank() >= 1 && aten(x).is_cpu() && aten(x).numel() > 0;
}
// One number for each element of the last axis of x, or undefined.
bool fits_columns(const Tensor& x, const Tensor& numbers) {
  return !numbers.defined() || (is_dense_float(numbers) && numbers.rank() == 1 && numbers.dim(0) == x.dim(-1));
}
at::Tensor value_or_none(const Tensor& x) { return x.defined() ? aten(x) : at::Tensor(); }

}  // namespace

std::optional<BatchNormalized> try_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                              double epsilon) {
  if (!is_dense_float(x) || !fits_columns(x, gamma) || !fits_columns(x, beta)) return std::nullopt;
  Values made = run(std::make_shared<BatchNormalizing>(epsilon, take_follower()),
                    {aten(x), value_or_none(gamma), value_or_none(beta)});
  return BatchNormalized{wrap(std::move(made[0])), wrap(std::move(made[1])), wrap(std::move(made[2]))};
}

std::optional<Tensor> try_scale_shift(const Tensor& x, const Tensor& factor, const Tensor& shift) {
  if (!is_dense_float(x) || !factor.defined() || !shift.defined() || !fits_columns(x, factor) ||
      !fits_columns(x, shift))
    return std::nullopt;
  return wrap(run(std::make_shared<ScaleShift>(take_follower()), {aten(x), aten(factor), aten(shift)})[0]);
}

std::optional<Tensor> try_normalize_rows(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                                         bool centered) {
  if (!is_dense_float(x) || !fits_columns(x, gamma) || !fits_columns(x, beta)) return std::nullopt;
  return wrap(run(std::make_shared<NormalizedRows>(epsilon, centered),
                  {aten(x), value_or_none(gamma), value_or_none(beta)})[0]);
}

std::optional<Tensor> try_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta,
                                     double epsilon) {
  if (!is_dense_float(x) || x.rank() < 2 || !fits_columns(x, gamma) || !fits_columns(x, beta)) return std::nullopt;
  return wrap(run(std::make_shared<GroupNormalizing>(groups, epsilon),
                  {aten(x), value_or_none(gamma), value_or_none(beta)})[0]);
}

}  // namespace lockstep::ops
