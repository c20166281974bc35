// Loops and lists of tensors as programs, and as plain C++ loops over the same operations: both give the same.
#include <cmath>
#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/executor_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::graph {
namespace {

using ops::call1;

Tensor random_floats(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
  for (float& value : values) value = uniform(random);
  return Tensor::from_vector(values, shape);
}
Tensor loop_integer(std::int32_t value) { return Tensor::scalar(value); }
Tensor loop_integers(const std::vector<std::int32_t>& values) { return Tensor::from_vector(values); }
const ops::Attrs kFloatElements{{"element_dtype", DType::kFloat32}};

Tensor times(const Tensor& a, const Tensor& b) { return call1("MatMul", {a, b}); }
Tensor plus(const Tensor& a, const Tensor& b) { return call1("AddV2", {a, b}); }
Tensor less(const Tensor& a, std::int32_t b) { return call1("Less", {a, loop_integer(b)}); }
Tensor next(const Tensor& i) { return plus(i, loop_integer(1)); }
Tensor transposed(const Tensor& x) { return call1("Transpose", {x, loop_integers({1, 0, 2})}); }
Tensor unstacked(const Tensor& x) { return call1("TensorListFromTensor", {x, loop_integer(-1)}, kFloatElements); }
Tensor reserved(std::int32_t count) {
  return call1("TensorListReserve", {loop_integer(-1), loop_integer(count)}, kFloatElements);
}
Tensor list_item(const Tensor& list, const Tensor& i) {
  return call1("TensorListGetItem", {list, i, loop_integer(-1)}, kFloatElements);
}
Tensor stacked(const Tensor& list, std::int32_t count) {
  return call1("TensorListStack", {list, loop_integer(-1)},
               {{"element_dtype", DType::kFloat32}, {"num_elements", std::int64_t{count}}});
}
Tensor zeros_like_rows(const Tensor& x, std::int32_t units) {
  const Tensor rows =
      call1("StridedSlice", {call1("Shape", {x}), loop_integers({0}), loop_integers({1}), loop_integers({1})},
            {{"shrink_axis_mask", std::int64_t{1}}});
  return call1("Fill", {call1("Pack", {rows, loop_integer(units)}), Tensor::scalar(0.0f)});
}

constexpr std::int32_t kSteps = 5, kUnits = 6, kDepth = 3;

struct LoopCase {
  const char* name;
  std::function<Tensors(const Tensors&)> body;  // of x [batch, steps, depth]
};

std::vector<LoopCase> loop_cases() {
  const Tensor w = random_floats({kDepth, kUnits}, 1), u = random_floats({kUnits, kUnits}, 2);
  std::vector<LoopCase> all;
  all.push_back({"a recurrent layer", [=](const Tensors& in) {
                   const Tensor list = unstacked(transposed(in[0]));
                   const Tensors last = while_loop(
                       [](const Tensors& v) { return less(v[0], kSteps); },
                       [=](const Tensors& v) {
                         const Tensor h = call1("Tanh", {plus(times(list_item(list, v[0]), w), times(v[1], u))});
                         return Tensors{next(v[0]), h, call1("TensorListSetItem", {v[2], v[0], h}, kFloatElements)};
                       },
                       {loop_integer(0), zeros_like_rows(in[0], kUnits), reserved(kSteps)});
                   return Tensors{transposed(stacked(last[2], kSteps)), last[1], last[0]};
                 }});
  all.push_back(
      {"backwards, every other element written", [=](const Tensors& in) {
         const Tensor list = unstacked(call1("ReverseV2", {transposed(in[0]), loop_integers({0})}));
         const Tensors last = while_loop(
             [](const Tensors& v) { return less(v[0], kSteps - 1); },
             [=](const Tensors& v) {
               const Tensor y = call1("Mul", {list_item(list, v[0]), Tensor::scalar(2.0f)});
               return Tensors{plus(v[0], loop_integer(2)), call1("TensorListSetItem", {v[1], v[0], y}, kFloatElements)};
             },
             {loop_integer(0), reserved(kSteps)});
         return Tensors{transposed(stacked(last[1], kSteps))};
       }});
  all.push_back(
      {"numbers that follow from the counter", [=](const Tensors& in) {
         const Tensor start = call1(
             "StridedSlice", {in[0], loop_integers({0, 1}), loop_integers({0, 2}), loop_integers({1, 1})},
             {{"begin_mask", std::int64_t{1}}, {"end_mask", std::int64_t{1}}, {"shrink_axis_mask", std::int64_t{2}}});
         const Tensors last = while_loop(
             [](const Tensors& v) { return less(v[0], 4); },
             [=](const Tensors& v) {
               const Tensor factor = call1("Cast", {call1("Mul", {v[0], v[0]})}, {{"DstT", DType::kFloat32}});
               return Tensors{next(v[0]), plus(call1("Mul", {v[1], factor}), v[2]), v[1]};
             },
             {loop_integer(1), start, start});
         return Tensors{last[1], last[2]};
       }});
  all.push_back(
      {"states that change places", [=](const Tensors& in) {
         const Tensor a = call1("Sum", {in[0], loop_integers({1})}), b = call1("Max", {in[0], loop_integers({1})});
         return while_loop([](const Tensors& v) { return less(v[0], 3); },
                           [=](const Tensors& v) {
                             return Tensors{next(v[0]), v[2], v[1]};
                           },
                           {loop_integer(0), a, b});
       }});
  all.push_back({"a loop in a loop", [=](const Tensors& in) {
                   const Tensor start = call1("Sum", {in[0], loop_integers({1})});
                   return while_loop([](const Tensors& v) { return less(v[0], 3); },
                                     [=](const Tensors& v) {
                                       const Tensors inner =
                                           while_loop([](const Tensors& w) { return less(w[0], 2); },
                                                      [](const Tensors& w) {
                                                        return Tensors{next(w[0]), call1("Sin", {w[1]})};
                                                      },
                                                      {loop_integer(0), v[1]});
                                       return Tensors{next(v[0]), plus(inner[1], v[1])};
                                     },
                                     {loop_integer(0), start});
                 }});
  all.push_back({"no iteration", [=](const Tensors& in) {
                   return while_loop([](const Tensors& v) { return less(v[0], 0); },
                                     [](const Tensors& v) {
                                       return Tensors{next(v[0]), call1("Neg", {v[1]})};
                                     },
                                     {loop_integer(0), in[0]});
                 }});
  return all;
}

// By a program. Nothing where the graph has none.
std::optional<Tensors> looped_program(const std::function<Tensors(const Tensors&)>& body, const Tensor& x,
                                      const RunLimits& limits = RunLimits::none()) {
  Shape shape = x.shape();
  shape[0] = kUnknownDim;
  const TracedFunction function = trace("f", body, {{shape, x.dtype()}});
  Tensors feeds{x};
  feeds.insert(feeds.end(), function.captures.begin(), function.captures.end());
  const auto resources = std::make_shared<Resources>();
  resources->limits = limits;
  return Executable::prepare(function.function, std::make_shared<FunctionLibrary>(function.library), resources)
      ->run_compiled(feeds);
}

void expect_alike(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  if (a.dtype() != DType::kFloat32) {
    EXPECT_EQ(a.to_vector<std::int32_t>(), b.to_vector<std::int32_t>());
    return;
  }
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5f) << i;
}

TEST(CompiledLoops, GiveWhatTheirIterationsGive) {
  for (const LoopCase& c : loop_cases()) {
    for (const int threads : {1, 2, 3}) {
      ops::set_parallel_threads(threads);
      for (const std::int64_t batch : {1, 2, 3, 11, 26}) {
        SCOPED_TRACE(c.name + (", batch " + std::to_string(batch)) + ", threads " + std::to_string(threads));
        const Tensor x = random_floats({batch, kSteps, kDepth}, static_cast<unsigned>(batch));
        const Tensors expected = c.body({x});
        const auto results = looped_program(c.body, x);
        ASSERT_TRUE(results);
        ASSERT_EQ(results->size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i) expect_alike((*results)[i], expected[i]);
      }
    }
  }
  ops::set_parallel_threads(0);
}

// What no program can know before it runs is left to the plain operations.
TEST(CompiledLoops, LeaveTheRest) {
  const Tensor x = random_floats({2, kSteps, kDepth}, 1);
  const auto until_large = [](const Tensors& in) {
    return while_loop(
        [](const Tensors& v) {
          return call1("Less", {call1("Sum", {v[0], loop_integers({0, 1, 2})}), Tensor::scalar(10.0f)});
        },
        [](const Tensors& v) { return Tensors{plus(v[0], Tensor::scalar(1.0f))}; }, in);
  };
  EXPECT_FALSE(looped_program(until_large, x));
  const auto outside_of_the_list = [](const Tensors& in) {
    const Tensor list = unstacked(transposed(in[0]));
    return while_loop([](const Tensors& v) { return less(v[0], kSteps + 1); },
                      [=](const Tensors& v) {
                        return Tensors{next(v[0]), plus(v[1], list_item(list, v[0]))};
                      },
                      {loop_integer(0), call1("Sum", {in[0], loop_integers({1})})});
  };
  EXPECT_FALSE(looped_program(outside_of_the_list, x));
  const auto forever = [](const Tensors& in) {
    return while_loop([](const Tensors&) { return Tensor::scalar(true); },
                      [](const Tensors& v) { return Tensors{call1("Neg", {v[0]})}; }, in);
  };
  EXPECT_FALSE(looped_program(forever, x));
  RunLimits few = RunLimits::none();
  few.max_iterations = 3;
  EXPECT_FALSE(looped_program(loop_cases()[0].body, x, few));
}

}  // namespace
}  // namespace lockstep::graph
