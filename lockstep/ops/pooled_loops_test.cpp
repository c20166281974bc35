// LibTorch's loops in pieces: results as without, bit by bit, for any number of threads.
#include "lockstep/ops/pooled_loops_internal.h"

#include <cstring>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/ops/call.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/library_threads_internal.h"
#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/runtime.h"

namespace lockstep::ops {
namespace {

struct ThreadsOfLoops {
  explicit ThreadsOfLoops(int threads) { set_parallel_threads(threads); }
  ~ThreadsOfLoops() { set_parallel_threads(0); }
};

void expect_same(const at::Tensor& got, const at::Tensor& want, const std::string& what) {
  ASSERT_EQ(got.scalar_type(), want.scalar_type()) << what;
  ASSERT_EQ(got.sizes(), want.sizes()) << what;
  const at::Tensor a = got.contiguous(), b = want.contiguous();
  EXPECT_TRUE(a.nbytes() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0) << what;
}

struct LoopCase {
  std::string name;
  std::function<at::Tensor(const at::Tensor&, const at::Tensor&)> run;
};

// `x` and `y` can be broadcast to each other.
const std::vector<LoopCase>& loop_cases() {
  static const std::vector<LoopCase> cases = {
      {"add", [](const at::Tensor& x, const at::Tensor& y) { return at::add(x, y, 0.3); }},
      {"multiply by a number", [](const at::Tensor& x, const at::Tensor&) { return at::mul(x, 1.7); }},
      {"exp", [](const at::Tensor& x, const at::Tensor&) { return at::exp(x); }},
      {"tanh", [](const at::Tensor& x, const at::Tensor&) { return at::tanh(x); }},
      {"pow", [](const at::Tensor& x, const at::Tensor&) { return at::pow(at::abs(x), 1.3); }},
      {"less", [](const at::Tensor& x, const at::Tensor& y) { return at::lt(x, y); }},
      {"where", [](const at::Tensor& x, const at::Tensor& y) { return at::where(x < y, x, y); }},
      {"a double scalar tensor", [](const at::Tensor& x, const at::Tensor&) { return x + at::ones({}, at::kDouble); }},
      {"a double tensor", [](const at::Tensor& x, const at::Tensor& y) { return x * y.to(at::kDouble); }},
      {"bfloat16", [](const at::Tensor& x, const at::Tensor& y) { return x.to(at::kBFloat16) - y.to(at::kBFloat16); }},
      {"integers", [](const at::Tensor& x, const at::Tensor&) { return x.mul(100).to(at::kLong).div(7, "floor"); }},
      {"add in place", [](const at::Tensor& x, const at::Tensor&) { return x.clone().add_(x); }},
      {"clamp in place", [](const at::Tensor& x, const at::Tensor&) { return x.clone().clamp_(-0.5, 0.5); }},
      {"contiguous", [](const at::Tensor& x, const at::Tensor&) { return x.transpose(0, -1).contiguous(); }},
      {"cat of first axes",
       [](const at::Tensor& x, const at::Tensor&) {
         return at::cat({x, x, x}, 0);
       }},
      {"cat of last axes",
       [](const at::Tensor& x, const at::Tensor&) {
         return at::cat({x, x}, -1);
       }},
      {"sum of the first axis", [](const at::Tensor& x, const at::Tensor&) { return x.sum({0}); }},
      {"sum of the last axis", [](const at::Tensor& x, const at::Tensor&) { return x.sum({-1}, true); }},
      {"sum", [](const at::Tensor& x, const at::Tensor&) { return x.sum(); }},
      {"mean of two axes",
       [](const at::Tensor& x, const at::Tensor&) {
         return x.dim() > 1 ? x.mean({0, -1}) : x.mean({0});
       }},
      {"largest", [](const at::Tensor& x, const at::Tensor&) { return x.amax({0}); }},
      {"smallest", [](const at::Tensor& x, const at::Tensor&) { return x.amin({-1}, true); }},
  };
  return cases;
}

TEST(PooledLoops, ResultsAsWithoutThem) {
  at::manual_seed(3);
  const auto normal = [](at::IntArrayRef shape) { return at::randn(shape, at::kFloat); };
  const at::Tensor image = normal({6, 37, 21, 33});
  const std::vector<std::pair<at::Tensor, at::Tensor>> operands = {
      {normal({131071}), normal({131071})},
      {normal({1, 200003}), normal({200003})},
      {normal({5, 70, 301}), normal({70, 1})},
      {normal({5, 70, 301}), normal({5, 1, 301})},
      {normal({2, 100000}), normal({2, 1})},
      {normal({100000, 3}), normal({3})},
      {image, image.mul(0.5)},
      {image.permute({0, 2, 3, 1}), normal({37})},
      {image.permute({3, 2, 0, 1}), normal({21, 1, 37})},
      {image.slice(3, 1, 30, 2), normal({15})},
      {normal({40, 50}), normal({40, 50})},  // few elements
      {normal({300, 1, 1}), normal({1, 20, 50})},
      {normal({0, 70000}), normal({1})},
  };
  for (const LoopCase& c : loop_cases()) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto& [x, y] = operands[i];
      if (x.numel() == 0 && (c.name == "largest" || c.name == "smallest")) continue;
      const LibraryThreads one(0);
      const at::Tensor want = c.run(x, y);
      for (const int threads : {1, 2, 5}) {
        const ThreadsOfLoops scope(threads);
        const PooledLoops loops(true);
        expect_same(c.run(x, y), want,
                    c.name + ", operands " + std::to_string(i) + ", threads " + std::to_string(threads));
      }
    }
  }
}

TEST(PooledLoops, GradientsAsWithoutThem) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({64, 40, 50}), y = at::randn({40, 1});
  for (const LoopCase& c : loop_cases()) {
    const auto gradients = [&](int threads) {
      const ThreadsOfLoops scope(threads);
      set_grad_enabled(true);
      const Tensor a = make_leaf(wrap(x)), b = make_leaf(wrap(y));
      const Tensor z = wrap(c.run(aten(a), aten(b)));
      const Tensors found = aten(z).requires_grad() ? grad({z}, {a, b}, {}, false, false) : Tensors(2);
      set_grad_enabled(false);
      return found;
    };
    const Tensors want = gradients(1);
    for (const int threads : {2, 5}) {
      const Tensors got = gradients(threads);
      for (std::size_t i = 0; i < want.size(); ++i) {
        ASSERT_EQ(got[i].defined(), want[i].defined()) << c.name;
        if (want[i].defined()) expect_same(aten(got[i]), aten(want[i]), c.name + ", gradient " + std::to_string(i));
      }
    }
  }
}

TEST(PooledLoops, FailuresAreThrownToTheCaller) {
  const ThreadsOfLoops scope(3);
  const PooledLoops loops(true);
  const at::Tensor whole = at::arange(100000);
  EXPECT_THROW(at::pow(whole, -1), c10::Error);
  EXPECT_THROW(at::add(at::ones({100000}), at::ones({99999})), c10::Error);
}

}  // namespace
}  // namespace lockstep::ops
