#include "lockstep/graph/executor_internal.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/test_builder_internal.h"

namespace lockstep::graph {
namespace {

const ops::Attrs kFloat{{"T", DType::kFloat32}};

TEST(Executor, RunsOnlyWhatIsAskedFor) {
  Builder g;
  g("x", "Placeholder", {}, {{"dtype", DType::kFloat32}});
  g("unfed", "Placeholder", {}, {{"dtype", DType::kFloat32}});
  g("sum", "AddV2", {"x", "x"}, kFloat);
  g("other", "AddV2", {"x", "unfed"}, kFloat);
  EXPECT_EQ(g.run({{"x", Tensor::scalar(2.0f)}}, {"sum"})[0].item<float>(), 4.0f);
  EXPECT_EQ(g.run({{"sum", Tensor::scalar(7.0f)}}, {"sum"})[0].item<float>(), 7.0f);
  try {
    g.run({{"x", Tensor::scalar(2.0f)}}, {"other"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_NE(error.message().find("unfed"), std::string::npos) << error.message();
  }
}

TEST(Executor, NamesWhatIsNotImplemented) {
  Builder g;
  g("a", "NoSuchOperation");
  try {
    g.run({}, {"a"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnimplemented);
    EXPECT_NE(error.message().find("NoSuchOperation"), std::string::npos);
  }
}

// As in TensorFlow, whose kernels have a generator each. Its numbers for the seeds (1, 2).
TEST(Executor, NodesOfOneSeedDrawEqualNumbers) {
  Builder g;
  g.resources->separate_random_states();
  g.constant("shape", Tensor::from_vector(std::vector<std::int32_t>{2}));
  for (const char* name : {"a", "b"}) {
    g(name, "RandomUniform", {"shape"},
      {{"T", DType::kInt32}, {"dtype", DType::kFloat32}, {"seed", std::int64_t{1}}, {"seed2", std::int64_t{2}}});
  }
  for (const auto& expected : {std::vector<float>{.40639675f, .8575996f}, {.6038654f, .52610815f}}) {
    for (const Tensor& drawn : g.run({}, {"a", "b"})) EXPECT_EQ(drawn.to_vector<float>(), expected);
  }
}

// One thread assigns to a variable of the graph while another reads it.
TEST(Executor, ThreadsShareAVariable) {
  Builder g;
  g.constant("x", Tensor::zeros(Shape{4}));
  g("v", "VariableV2", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{4}}});
  g("set", "Assign", {"v", "x"}, kFloat);
  g.run({}, {"set"});
  const auto all = g.resources->all("variable");
  ASSERT_EQ(all.size(), 1U);
  const auto variable = std::dynamic_pointer_cast<VariableResource>(all[0].second);
  ASSERT_TRUE(variable);
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int i = 0; i < 100000; ++i) variable->assign(Tensor::zeros(Shape{4}));
    over = true;
  });
  while (!over) ASSERT_EQ(variable->read().shape(), (Shape{4}));
  writer.join();
}

TEST(Executor, RefusesCycles) {
  Builder g;
  g("a", "Identity", {"b"}, kFloat);
  g("b", "Identity", {"a"}, kFloat);
  EXPECT_THROW(g.finish(), Error);
}

// while (i < 3) x = x * 2, in TensorFlow 1's way.
void add_v1_loop(Builder& g, const std::string& x) {
  g.constant("zero", Tensor::scalar(std::int32_t{0}));
  g("i_enter", "Enter", {"zero"}, {{"T", DType::kInt32}, {"frame_name", std::string("loop")}});
  g("x_enter", "Enter", {x}, {{"T", DType::kFloat32}, {"frame_name", std::string("loop")}});
  g("i", "Merge", {"i_enter", "i_next"}, {{"T", DType::kInt32}, {"N", std::int64_t{2}}});
  g("x", "Merge", {"x_enter", "x_next"}, {{"T", DType::kFloat32}, {"N", std::int64_t{2}}});
  g.constant("limit", Tensor::scalar(std::int32_t{3}), {"^i"});
  g("less", "Less", {"i", "limit"}, {{"T", DType::kInt32}});
  g("cond", "LoopCond", {"less"});
  g("i_switch", "Switch", {"i", "cond"}, {{"T", DType::kInt32}});
  g("x_switch", "Switch", {"x", "cond"}, kFloat);
  g("i_body", "Identity", {"i_switch:1"}, {{"T", DType::kInt32}});
  g.constant("one", Tensor::scalar(std::int32_t{1}), {"^i_body"});
  g.constant("two", Tensor::scalar(2.0f), {"^i_body"});
  g("i_add", "AddV2", {"i_body", "one"}, {{"T", DType::kInt32}});
  g("x_mul", "Mul", {"x_switch:1", "two"}, kFloat);
  g("i_next", "NextIteration", {"i_add"}, {{"T", DType::kInt32}});
  g("x_next", "NextIteration", {"x_mul"}, kFloat);
  g("i_exit", "Exit", {"i_switch"}, {{"T", DType::kInt32}});
  g("x_exit", "Exit", {"x_switch"}, kFloat);
}

TEST(Executor, V1WhileLoop) {
  Builder g;
  g("in", "Placeholder", {}, {{"dtype", DType::kFloat32}});
  add_v1_loop(g, "in");
  const Tensors out = g.run({{"in", Tensor::scalar(1.0f)}}, {"x_exit", "i_exit"});
  EXPECT_EQ(out[0].item<float>(), 8.0f);
  EXPECT_EQ(out[1].item<std::int32_t>(), 3);
}

TEST(Executor, V1LoopInsideABranch) {
  for (const bool taken : {true, false}) {
    Builder g;
    g("p", "Placeholder", {}, {{"dtype", DType::kBool}});
    g.constant("start", Tensor::scalar(5.0f));
    g("switch", "Switch", {"start", "p"}, kFloat);
    add_v1_loop(g, "switch:1");
    g("else", "Neg", {"switch"}, kFloat);
    g("merge", "Merge", {"else", "x_exit"}, {{"T", DType::kFloat32}, {"N", std::int64_t{2}}});
    const Tensors out = g.run({{"p", Tensor::scalar(taken)}}, {"merge", "merge:1"});
    EXPECT_EQ(out[0].item<float>(), taken ? 40.0f : -5.0f);
    EXPECT_EQ(out[1].item<std::int32_t>(), taken ? 1 : 0);
  }
}

TEST(Executor, ABranchNotTakenHasNoValue) {
  Builder g;
  g.constant("p", Tensor::scalar(true));
  g.constant("v", Tensor::scalar(1.0f));
  g("switch", "Switch", {"v", "p"}, kFloat);
  g("dead", "Neg", {"switch"}, kFloat);
  EXPECT_EQ(g.run({}, {"switch:1"})[0].item<float>(), 1.0f);
  EXPECT_THROW(g.run({}, {"dead"}), Error);
}

TEST(Executor, V1VariablesAndControlInputs) {
  Builder g;
  g("v", "VariableV2", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{}}});
  g.constant("three", Tensor::scalar(3.0f));
  g("set", "Assign", {"v", "three"}, kFloat);
  g("read", "Identity", {"v", "^set"}, kFloat);
  g("twice", "Mul", {"v", "read"}, kFloat);
  EXPECT_EQ(g.run({}, {"twice"})[0].item<float>(), 9.0f);
  EXPECT_EQ(g.run({}, {"v"})[0].item<float>(), 3.0f);  // a fetched variable is its value, as in a session
}

TEST(Executor, Tables) {
  Builder g;
  g("table", "HashTableV2", {},
    {{"key_dtype", DType::kString}, {"value_dtype", DType::kInt64}, {"shared_name", std::string("t")}});
  g.constant("keys", Tensor::strings({"a", "b"}, {2}));
  g.constant("values", Tensor::from_vector(std::vector<std::int64_t>{10, 20}));
  g("init", "LookupTableImportV2", {"table", "keys", "values"}, {{"Tin", DType::kString}, {"Tout", DType::kInt64}});
  g("x", "Placeholder", {}, {{"dtype", DType::kString}});
  g.constant("default", Tensor::scalar(std::int64_t{-1}));
  g("find", "LookupTableFindV2", {"table", "x", "default", "^init"},
    {{"Tin", DType::kString}, {"Tout", DType::kInt64}});
  g("size", "LookupTableSizeV2", {"table", "^init"});
  const Tensors out = g.run({{"x", Tensor::strings({"b", "z", "a"}, {3, 1})}}, {"find", "size"});
  EXPECT_EQ(out[0].to_vector<std::int64_t>(), (std::vector<std::int64_t>{20, -1, 10}));
  EXPECT_EQ(out[0].shape(), (Shape{3, 1}));
  EXPECT_EQ(out[1].item<std::int64_t>(), 2);
}

TEST(Executor, NoFileOutsideTheAssets) {
  Builder g;
  g("table", "HashTableV2", {}, {{"key_dtype", DType::kString}, {"value_dtype", DType::kInt64}});
  g.constant("file", Tensor::strings({"/etc/passwd"}, {}));
  g("init", "InitializeTableFromTextFileV2", {"table", "file"},
    {{"key_index", std::int64_t{-2}}, {"value_index", std::int64_t{-1}}});
  g("done", "LookupTableSizeV2", {"table", "^init"});
  g.resources->asset_directory = "/tmp/model/assets";
  EXPECT_THROW(g.run({}, {"done"}), Error);
  g.resources->asset_directory = "";
  EXPECT_THROW(g.run({}, {"done"}), Error);
}

std::shared_ptr<Function> unary(const std::string& name, const std::string& op, ops::Attrs attrs = kFloat) {
  auto function = std::make_shared<Function>();
  function->name = name;
  function->arguments = {{"x", DType::kFloat32}};
  Node arg{"x", "_Arg", {}, {}, {}, ""};
  Node node{"y", op, {{0, 0}}, {}, std::move(attrs), ""};
  function->body.add(arg);
  function->body.add(node);
  function->results = {{"y", DType::kFloat32, {1, 0}}};
  return function;
}

TEST(Executor, CallsFunctionsInEveryWay) {
  Builder g;
  g.library->add(unary("negate", "Neg"));
  g.library->add(unary("square", "Square"));
  g.constant("x", Tensor::scalar(3.0f));
  const std::vector<DType> one{DType::kFloat32};
  g("direct", "negate", {"x"});
  g("call", "PartitionedCall", {"x"}, {{"Tin", one}, {"Tout", one}, {"f", ops::FunctionName{"square", nullptr}}});
  g.constant("p", Tensor::scalar(std::int32_t{0}));
  g("if", "StatelessIf", {"p", "x"},
    {{"Tcond", DType::kInt32},
     {"Tin", one},
     {"Tout", one},
     {"then_branch", ops::FunctionName{"negate", nullptr}},
     {"else_branch", ops::FunctionName{"square", nullptr}}});
  g.constant("seven", Tensor::scalar(std::int32_t{7}));
  g("case", "Case", {"seven", "x"},
    {{"Tin", one},
     {"Tout", one},
     {"branches", std::vector<ops::FunctionName>{{"negate", nullptr}, {"square", nullptr}}}});
  const Tensors out = g.run({}, {"direct", "call", "if", "case"});
  EXPECT_EQ(out[0].item<float>(), -3.0f);
  EXPECT_EQ(out[1].item<float>(), 9.0f);
  EXPECT_EQ(out[2].item<float>(), 9.0f);
  EXPECT_EQ(out[3].item<float>(), 9.0f);  // out of range: the last
}

TEST(Executor, EndlessRecursionIsAnError) {
  Builder g;
  const std::vector<DType> one{DType::kFloat32};
  g.library->add(
      unary("self", "PartitionedCall", {{"Tin", one}, {"Tout", one}, {"f", ops::FunctionName{"self", nullptr}}}));
  g.constant("x", Tensor::scalar(3.0f));
  g("call", "self", {"x"});
  EXPECT_THROW(g.run({}, {"call"}), Error);
}

TEST(Executor, FailedAssertionsAreErrors) {
  Builder g;
  g.constant("p", Tensor::scalar(false));
  g.constant("data", Tensor::strings({"x must be positive"}, {}));
  g("assert", "Assert", {"p", "data"}, {{"T", std::vector<DType>{DType::kString}}});
  g.constant("x", Tensor::scalar(1.0f));
  g("y", "Identity", {"x", "^assert"}, kFloat);
  try {
    g.run({}, {"y"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_NE(error.message().find("x must be positive"), std::string::npos) << error.message();
  }
  EXPECT_EQ(g.run({}, {"x"})[0].item<float>(), 1.0f);
}

}  // namespace
}  // namespace lockstep::graph
