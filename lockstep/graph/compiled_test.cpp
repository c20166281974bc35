// What programs promise besides their results: threads, variables, limits, and what they leave to the plain operations.
#include "lockstep/graph/compiled_internal.h"

#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/compiled_test_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::graph::compiled_test {
namespace {

class Variable : public VariableResource {
 public:
  explicit Variable(Tensor value) : value_(std::move(value)) {}
  std::string resource_name() const override { return "v"; }
  DType dtype() const override { return value_.dtype(); }
  Shape shape() const override { return value_.shape(); }
  bool is_initialized() const override { return true; }
  Tensor read() override { return value_; }
  void assign(const Tensor& value) override { value_ = value; }

 private:
  Tensor value_;
};

// OpenMP's threads would spin while the thread pool works. OpenMP keeps the threads that a thread has started.
TEST(CompiledPlan, StartsNoThreadsOfOpenMP) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  // LibTorch copies every other element after the kernel has ended, which gives a view.
  Prepared prepared({"every other element of a whole batch", {80000}, [](Network& g) {
                       g.constant("zero", Tensor::scalar(0.0f));
                       g("above", "Greater", {"x", "zero"}, kFloats);
                       g.integers("all", {0, 0});
                       g.integers("steps", {1, 2});
                       g("half", "StridedSlice", {"above", "all", "all", "steps"},
                         {{"T", DType::kBool},
                          {"Index", DType::kInt32},
                          {"begin_mask", std::int64_t{3}},
                          {"end_mask", std::int64_t{3}}});
                       g("a", "Cast", {"half"}, {{"SrcT", DType::kBool}, {"DstT", DType::kFloat32}});
                       g.reduce("m", "Mean", "a", {0}, true);
                       g.binary("y", "Sub", "a", "m");
                     }});
  const Tensor x = numbers({8, 80000}, 3, -1, 1);
  ops::set_parallel_threads(2);
  ASSERT_TRUE(prepared.as_program(x));  // starts our own threads
  std::thread([&] {
    const ops::GradientsOff off;
    const auto before = threads();
    EXPECT_TRUE(prepared.as_program(x));
    EXPECT_LE(threads(), before);
  }).join();
  ops::set_parallel_threads(0);
}

TEST(CompiledPlan, FollowsItsVariables) {
  Prepared prepared({"variable", {3}, [](Network& g) {
                       g("v", "VarHandleOp", {},
                         {{"dtype", DType::kFloat32}, {"shape", Shape{3, 2}}, {"shared_name", std::string("v")}});
                       g("w", "ReadVariableOp", {"v"}, {{"dtype", DType::kFloat32}});
                       g("y", "MatMul", {"x", "w"}, {{"T", DType::kFloat32}});
                     }});
  const auto variable = std::make_shared<Variable>(numbers({3, 2}, 1));
  prepared.g.resources->put("variable", "/v", variable);
  const Tensor x = numbers({4, 3}, 2);
  const Tensor before = (*prepared.as_program(x))[0];
  expect_close(before, prepared.plainly(x));
  variable->assign(numbers({3, 2}, 5));
  const Tensor after = (*prepared.as_program(x))[0];
  expect_close(after, prepared.plainly(x));
  EXPECT_NE(before.to_vector<float>(), after.to_vector<float>());
}

TEST(CompiledPlan, LeavesGraphsWithEffectsToThePlainOperations) {
  Prepared prepared({"assignment", {3}, [](Network& g) {
                       g("v", "VarHandleOp", {},
                         {{"dtype", DType::kFloat32}, {"shape", Shape{2, 3}}, {"shared_name", std::string("v")}});
                       g("a", "AssignVariableOp", {"v", "x"}, {{"dtype", DType::kFloat32}});
                       g("y", "Identity", {"x", "^a"}, kFloats);
                     }});
  prepared.g.resources->put("variable", "/v", std::make_shared<Variable>(numbers({2, 3}, 1)));
  EXPECT_FALSE(prepared.as_program(numbers({2, 3}, 2)));
}

// A variable that the program does not read, such as the state of a seed generator, is incremented in each run.
TEST(CompiledPlan, SetsVariablesThatDoNotDependOnInputs) {
  Prepared prepared({"counter", {3}, [](Network& g) {
                       g("v", "VarHandleOp", {},
                         {{"dtype", DType::kFloat32}, {"shape", Shape{2}}, {"shared_name", std::string("v")}});
                       g("now", "ReadVariableOp", {"v"}, {{"dtype", DType::kFloat32}});
                       g.constant("two", Tensor::from_vector<float>({2, 2}));
                       g.binary("next", "Mul", "now", "two");
                       g("a", "AssignVariableOp", {"v", "next"}, {{"dtype", DType::kFloat32}});
                       g("y", "Relu", {"x", "^a"}, kFloats);
                     }});
  const auto variable = std::make_shared<Variable>(numbers({2}, 1));
  prepared.g.resources->put("variable", "/v", variable);
  const std::vector<float> first = variable->read().to_vector<float>();
  const Tensor x = numbers({4, 3}, 2, 0, 1);
  for (const float factor : {2.0f, 4.0f, 8.0f}) {
    const auto results = prepared.as_program(x);
    ASSERT_TRUE(results);
    expect_close((*results)[0], x);
    EXPECT_EQ(variable->read().to_vector<float>(), (std::vector<float>{first[0] * factor, first[1] * factor}));
  }
}

// A chain of products that takes longer than it may ends between two of them, while constants are folded and in a run.
TEST(CompiledPlan, KeepsTheLimitOfTime) {
  for (const bool folded : {true, false}) {
    Network g;
    g.input();
    g.constant("w", numbers({700, 700}, 1));
    std::string last = folded ? "w" : "x";
    for (int i = 0; i < 400; ++i) {
      const std::string name = "p" + std::to_string(i);
      g.binary(name, "MatMul", last, "w");
      last = name;
    }
    g.binary("y", "MatMul", folded ? "x" : last, folded ? last : "w");
    g.resources->limits.max_seconds = 0.05;
    try {
      g.run({{"x", numbers({700, 700}, 2)}}, {"y"});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDeadlineExceeded) << error.message();
    }
  }
}

// The plain operations report the error, with its node.
TEST(CompiledPlan, LeavesWrongIndicesToThePlainOperations) {
  Network g;
  g("x", "Placeholder", {}, {{"dtype", DType::kInt32}});
  g.constant("table", numbers({4, 3}, 1));
  g.constant("axis", Tensor::scalar(std::int32_t{0}));
  g("y", "GatherV2", {"table", "x", "axis"},
    {{"Tparams", DType::kFloat32}, {"Tindices", DType::kInt32}, {"Taxis", DType::kInt32}});
  g.finish();
  const Plan plan(g.graph, *g.library, {g.graph.parse_output("x")}, {g.graph.parse_output("y")}, {}, "test");
  RunBudget budget(RunLimits::none(), 0);
  RunContext context{*g.resources, *g.library, budget};
  CompiledPlan compiled;
  for (const std::int64_t batch : {1, 8}) {
    std::vector<std::int32_t> good(static_cast<std::size_t>(batch), 3), wrong = good;
    wrong.back() = 4;
    const auto results = compiled.run(plan, {Tensor::from_vector(good)}, context);
    ASSERT_TRUE(results);
    expect_close((*results)[0], plan.run({Tensor::from_vector(good)}, context)[0]);
    EXPECT_FALSE(compiled.run(plan, {Tensor::from_vector(wrong)}, context));
  }
}

// Whether the graph, from "x" of shape [2, 4] to "y", runs as a program.
bool is_compiled(Network& g) {
  g.finish();
  const Plan plan(g.graph, *g.library, {g.graph.parse_output("x")}, {g.graph.parse_output("y")}, {}, "test");
  RunBudget budget(RunLimits::none(), 0);
  RunContext context{*g.resources, *g.library, budget};
  CompiledPlan compiled;
  return compiled.run(plan, {numbers({2, 4}, 1)}, context).has_value();
}

// Axes and places outside of the tensor, or an axis named twice, are for the plain operations, too.
TEST(CompiledPlan, LeavesWrongAxesToThePlainOperations) {
  using Numbers = std::vector<std::int32_t>;
  const auto compiles = [](const Numbers& first, const Numbers& second) {
    Network g;
    g.input();
    g.integers("first", first);
    if (second.empty()) {
      g("y", "ReverseV2", {"x", "first"}, {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}});
    } else {
      g.integers("second", second);
      g("y", "Slice", {"x", "first", "second"}, {{"T", DType::kFloat32}, {"Index", DType::kInt32}});
    }
    return is_compiled(g);
  };
  EXPECT_TRUE(compiles({0, -1}, {}));
  EXPECT_TRUE(compiles({1, 0}, {1, 4}));
  const std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  for (const Numbers& axes : {Numbers{lowest}, Numbers{2}, Numbers{-3}, Numbers{0, 0}, Numbers{1, -1}})
    EXPECT_FALSE(compiles(axes, {}));
  const std::pair<Numbers, Numbers> slices[] = {{{0, 0}, {3, 4}},  {{1, 0}, {2, 4}},      {{0, 3}, {2, 2}},
                                                {{-1, 0}, {1, 1}}, {{lowest, 0}, {1, 1}}, {{5, 0}, {1, 1}}};
  for (const auto& [begin, size] : slices) EXPECT_FALSE(compiles(begin, size));
}

// So are more elements than memory can have: their number does not fit in 64 bits.
TEST(CompiledPlan, LeavesTooManyElementsToThePlainOperations) {
  const auto compiles = [](std::int64_t rows, std::int64_t columns) {
    Network g;
    g.input();
    g.constant("shape", Tensor::from_vector(std::vector<std::int64_t>{rows, columns, 2, 4}));
    g("y", "BroadcastTo", {"x", "shape"}, {{"T", DType::kFloat32}, {"Tidx", DType::kInt64}});
    return is_compiled(g);
  };
  EXPECT_TRUE(compiles(3, 5));
  EXPECT_FALSE(compiles((std::int64_t{1} << 32) + 5, (std::int64_t{1} << 32) - 1));
}

// So are tensors with axes where a scalar is expected.
TEST(CompiledPlan, LeavesWrongScalarsToThePlainOperations) {
  const auto compiles = [](const std::string& op, const Tensor& number) {
    Network g;
    g.input();
    g.constant("number", number);
    if (op == "OneHot") {
      g.constant("axis", Tensor::scalar(std::int32_t{1}));
      g("places", "ArgMax", {"x", "axis"},
        {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}, {"output_type", DType::kInt64}});
      g.constant("depth", Tensor::scalar(std::int32_t{3}));
      g.constant("on", Tensor::scalar(1.0f));
      g("y", op, {"places", "depth", "on", "number"},
        {{"T", DType::kFloat32}, {"TI", DType::kInt64}, {"axis", std::int64_t{-1}}});
    } else {
      g.constant("amounts", Tensor::from_vector(std::vector<std::int32_t>{0, 0, 1, 1}, {2, 2}));
      g("y", op, {"x", "amounts", "number"}, {{"T", DType::kFloat32}, {"Tpaddings", DType::kInt32}});
    }
    return is_compiled(g);
  };
  for (const char* op : {"OneHot", "PadV2"}) {
    EXPECT_TRUE(compiles(op, Tensor::scalar(0.5f))) << op;
    for (const Shape& shape : {Shape{0}, Shape{1}, Shape{2}})
      EXPECT_FALSE(compiles(op, Tensor::zeros(shape, DType::kFloat32))) << op << shape.to_string();
  }
}

TEST(CompiledPlan, KeepsNotANumber) {
  Prepared prepared({"nan", {4, 4, 3}, [](Network& g) {
                       g.conv("c", "x", {3, 3, 3, 5}, 1, "SAME");
                       g.unary("y", "Relu6", "c");
                     }});
  std::vector<float> values(48, 1.0f);
  values[0] = std::nanf("");
  const Tensor x = Tensor::from_vector(values, {1, 4, 4, 3});
  const auto ours = (*prepared.as_program(x))[0].to_vector<float>(), plain = prepared.plainly(x).to_vector<float>();
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(std::isnan(ours[i]), std::isnan(plain[i])) << i;
}

// Windows with strides and large ones, which run as windows of 2 x 2 or 3 x 3 over more channels: as the plain
// operation computes them, in the same bytes with any number of threads; infinities are left to it.
TEST(CompiledPlan, UnfoldsWindows) {
  struct Window {
    std::int64_t height, width, rows, columns, in, out, stride;
    std::string padding;
  };
  const Window windows[] = {{33, 31, 4, 4, 16, 40, 2, "SAME"},  {34, 34, 4, 4, 20, 32, 2, "VALID"},
                            {32, 33, 5, 5, 16, 33, 2, "SAME"},  {20, 24, 5, 5, 24, 48, 1, "SAME"},
                            {26, 23, 7, 7, 16, 32, 1, "VALID"}, {40, 40, 8, 8, 3, 32, 4, "SAME"},
                            {41, 37, 6, 5, 17, 50, 2, "SAME"},  {18, 18, 5, 4, 32, 20, 1, "SAME"}};
  for (const Window& w : windows) {
    Prepared prepared({"window", {w.height, w.width, w.in}, [&](Network& g) {
                         g.conv("c", "x", {w.rows, w.columns, w.in, w.out}, w.stride, w.padding);
                         g.scale_shift("n", "c", w.out);
                         g.unary("y", "Relu", "n");
                       }});
    for (const std::int64_t batch : {1, 2, 7, 26}) {
      SCOPED_TRACE(fmt::format("{} x {} of {}, batch {}", w.rows, w.columns, w.in, batch));
      const Shape shape{batch, w.height, w.width, w.in};
      const Tensor x = numbers(shape, static_cast<unsigned>(batch), -2, 2);
      std::vector<float> first;
      for (const int threads : {1, 2, 5}) {
        ops::set_parallel_threads(threads);
        const auto results = prepared.as_program(x);
        ASSERT_TRUE(results);
        expect_close((*results)[0], prepared.plainly(x));
        if (first.empty()) first = (*results)[0].to_vector<float>();
        EXPECT_EQ((*results)[0].to_vector<float>(), first) << threads << " threads";
      }
      std::vector<float> values = x.to_vector<float>();
      values[values.size() / 2] = std::numeric_limits<float>::infinity();
      const Tensor infinite = Tensor::from_vector(values, shape);
      const auto results = prepared.as_program(infinite);
      if (!results) continue;
      const auto ours = (*results)[0].to_vector<float>(), plain = prepared.plainly(infinite).to_vector<float>();
      for (std::size_t i = 0; i < ours.size(); ++i) {
        ASSERT_EQ(std::isnan(ours[i]), std::isnan(plain[i])) << i;
        ASSERT_EQ(std::isinf(ours[i]), std::isinf(plain[i])) << i;
      }
    }
  }
  ops::set_parallel_threads(0);
}

// The numbers in the table are those of the run, not of the time when the program is made.
TEST(CompiledPlan, SearchesTables) {
  const ops::Attrs types{{"Tin", DType::kInt64}, {"Tout", DType::kFloat32}};
  Prepared prepared(
      {"table", {3}, [&](Network& g) {
         g("table", "MutableHashTableV2", {},
           {{"key_dtype", DType::kInt64}, {"value_dtype", DType::kFloat32}, {"shared_name", std::string("t")}});
         g.constant("keys", Tensor::from_vector<std::int64_t>({3, 5}));
         g.constant("values", Tensor::from_vector<float>({0.5f, 2}));
         g("import", "LookupTableImportV2", {"table", "keys", "values"}, types);
         g.constant("one", Tensor::from_vector<std::int64_t>({5}));
         g.constant("ten", Tensor::from_vector<float>({10}));
         g("insert", "LookupTableInsertV2", {"table", "one", "ten"}, types);
         g.constant("default", Tensor::scalar(-1.0f));
         g("i", "Cast", {"x"}, {{"SrcT", DType::kFloat32}, {"DstT", DType::kInt64}});
         g("found", "LookupTableFindV2", {"table", "i", "default"}, types);
         g.binary("y", "Mul", "found", "x");
       }});
  const Tensor x = Tensor::from_vector<float>({3, 4, 5, 5, 3, 6, 1, 2, 3, 3, 5, 3}, {4, 3});
  const auto run = [&](const std::string& target) {
    Plan(prepared.g.graph, *prepared.g.library, {}, {}, {prepared.g.graph.parse_output(target).node}, "test")
        .run({}, prepared.context);
  };
  for (const std::string change : {"import", "insert"}) {
    run(change);
    const auto results = prepared.as_program(x);
    ASSERT_TRUE(results);
    const float five = change == "import" ? 2 : 10;
    EXPECT_EQ((*results)[0].to_vector<float>(),
              (std::vector<float>{1.5f, -4, 5 * five, 5 * five, 1.5f, -6, -1, -2, 1.5f, 1.5f, 5 * five, 1.5f}));
    expect_close((*results)[0], prepared.plainly(x));
  }
}

}  // namespace
}  // namespace lockstep::graph::compiled_test
