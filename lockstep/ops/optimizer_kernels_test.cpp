// The fused optimizer kernels on gradients with slices: the square of a row is the sum of its slices' squares.
#include "lockstep/ops/optimizer_kernels_internal.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/list_sums_internal.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::ops {
namespace {

constexpr std::int64_t kRows = 3000, kColumns = 37, kSlices = 500;

struct State {
  Tensor value, momentum, velocity;
};

Tensor pattern(std::int64_t rows, double scale, double offset) {
  const at::Tensor x = at::arange(rows * kColumns, at::kFloat).mul_(0.7).sin_().mul_(scale).add_(offset);
  return wrap(x.view({rows, kColumns}).contiguous());
}

State updated(const Tensor& gradient, const FusedRule& rule, int threads) {
  const int before = intra_op_threads();
  set_intra_op_threads(threads);
  State state{pattern(kRows, 1.0, 0.0), pattern(kRows, 0.1, 0.0), pattern(kRows, 0.01, 0.02)};
  FusedUpdate update{state.value, gradient, {}, 0.0f};
  if (std::holds_alternative<AdamRule>(rule)) {
    update.slots[0] = state.momentum, update.slots[1] = state.velocity;
  } else if (const auto* const sgd = std::get_if<SgdRule>(&rule)) {
    if (sgd->momentum != 0) update.slots[0] = state.momentum;
  } else {
    update.slots[0] = state.velocity, update.slots[1] = state.momentum;
  }
  update_fused({&update, 1}, rule);
  set_intra_op_threads(before);
  return state;
}

TEST(FusedOptimizers, SquareEachSlice) {
  const Tensor values = pattern(kSlices, 1.0, 0.1);
  const at::Tensor indices = at::arange(kSlices, at::kLong).mul_(7).remainder_(kRows / 10).mul_(9);
  const Tensor gradient = tensor_of_rows({wrap(indices), values}, {kRows, kColumns});
  const at::Tensor squares = at::zeros({kRows, kColumns}, at::kFloat).index_add_(0, indices, aten(values).square());
  ASSERT_GT((squares - aten(gradient).square()).abs().max().item<float>(), 0.1f);

  const AdamRule adam{.alpha = 0.01f, .one_minus_beta_1 = 0.1f, .one_minus_beta_2 = 0.2f, .epsilon = 1e-3f};
  const RmspropRule rmsprop{.learning_rate = 0.01f, .rho = 0.8f, .momentum = 0.5f, .epsilon = 1e-3f};
  for (const FusedRule& rule : {FusedRule(adam), FusedRule(rmsprop)}) {
    const State start{pattern(kRows, 1.0, 0.0), pattern(kRows, 0.1, 0.0), pattern(kRows, 0.01, 0.02)};
    const at::Tensor velocity = aten(start.velocity) * 0.8 + squares * 0.2;
    at::Tensor momentum, value;
    if (std::holds_alternative<AdamRule>(rule)) {
      momentum = aten(start.momentum) * 0.9 + aten(gradient) * 0.1;
      value = aten(start.value) - momentum * 0.01 / (velocity.sqrt() + 1e-3);
    } else {
      momentum = aten(start.momentum) * 0.5 + aten(gradient) * 0.01 / (velocity + 1e-3).sqrt();
      value = aten(start.value) - momentum;
    }
    const State one = updated(gradient, rule, 1);
    EXPECT_TRUE(at::allclose(aten(one.velocity), velocity, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(aten(one.momentum), momentum, 1e-5, 1e-6));
    EXPECT_TRUE(at::allclose(aten(one.value), value, 1e-5, 1e-6));
    for (const int threads : {2, 5}) {
      const State other = updated(gradient, rule, threads);
      EXPECT_TRUE(at::equal(aten(other.value), aten(one.value))) << threads;
      EXPECT_TRUE(at::equal(aten(other.velocity), aten(one.velocity))) << threads;
    }
  }
}

// Rows alone, without a dense gradient, give the bits that the dense gradient gives.
TEST(FusedOptimizers, RowsAloneAreTheDenseGradient) {
  const Tensor values = pattern(kSlices, 1.0, 0.1);
  const at::Tensor once = at::arange(kSlices, at::kLong).mul_(5), repeated = once.remainder(400).mul_(7);
  const AdamRule adam{.alpha = 0.01f, .one_minus_beta_1 = 0.1f, .one_minus_beta_2 = 0.2f, .epsilon = 1e-3f};
  const auto compare = [&](const at::Tensor& indices, const FusedRule& rule) {
    const Tensor rows = tensor_of_rows({wrap(indices), values}, Shape{kRows, kColumns});
    const Tensor dense = wrap(at::zeros({kRows, kColumns}, at::kFloat).index_add_(0, indices, aten(values)));
    const State expected = updated(dense, rule, 1), found = updated(rows, rule, 3);
    EXPECT_TRUE(has_rows_only(rows));
    EXPECT_TRUE(at::equal(aten(found.value), aten(expected.value)));
    EXPECT_TRUE(at::equal(aten(found.momentum), aten(expected.momentum)));
    EXPECT_TRUE(at::equal(aten(found.velocity), aten(expected.velocity)));
  };
  for (const at::Tensor& indices : {once, repeated}) {
    compare(indices, SgdRule{.learning_rate = 0.1f, .momentum = 0.9f, .nesterov = true});
    compare(indices, SgdRule{.learning_rate = 0.1f});
  }
  compare(once, adam);
}

TEST(FusedOptimizers, GradientsWithoutRowsUpdateMomenta) {
  const Tensor none = tensor_of_rows({wrap(at::empty({0}, at::kLong)), wrap(at::empty({0, kColumns}, at::kFloat))},
                                     Shape{kRows, kColumns});
  const SgdRule rule{.learning_rate = 0.1f, .momentum = 0.9f};
  const State expected = updated(Tensor::zeros(Shape{kRows, kColumns}), rule, 1), found = updated(none, rule, 2);
  EXPECT_TRUE(at::equal(aten(found.value), aten(expected.value)));
}

// Lists of gradients: large, small, with a missing one, of another dtype, not contiguous, with slices, missing at all.
TEST(SumLists, AsAddN) {
  const auto list = [](double scale) {
    const Tensor large = pattern(kRows, scale, 0.3);
    const at::Tensor rows = at::arange(kSlices, at::kLong);
    return Tensors{large,
                   wrap(aten(large).narrow(0, 0, 3).clone()),
                   scale == 2 ? Tensor() : large,
                   wrap(aten(large).to(at::kDouble)),
                   wrap(aten(large).t()),
                   tensor_of_rows({wrap(rows), pattern(kSlices, scale, 0.1)}, {kRows, kColumns}),
                   Tensor(),
                   Tensor::scalar(static_cast<float>(scale))};
  };
  const std::vector<Tensors> lists = {list(1), list(2), list(0.7)};
  const int before = intra_op_threads();
  for (const int threads : {1, 2, 5}) {
    set_intra_op_threads(threads);
    const Tensors sums = sum_lists({&lists[0], &lists[1], &lists[2]});
    ASSERT_EQ(sums.size(), lists[0].size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      at::Tensor sum;
      for (const Tensors& given : lists) {
        if (given[i].defined()) sum = sum.defined() ? sum + aten(given[i]) : aten(given[i]);
      }
      ASSERT_EQ(sums[i].defined(), sum.defined()) << i;
      if (!sum.defined()) continue;
      EXPECT_EQ(aten(sums[i]).scalar_type(), sum.scalar_type()) << i;
      EXPECT_TRUE(at::equal(aten(sums[i]), sum)) << i << ", " << threads << " threads";
      EXPECT_EQ(static_cast<bool>(slices_of(sums[i])), i == 5) << i;
    }
  }
  set_intra_op_threads(before);
}

}  // namespace
}  // namespace lockstep::ops
