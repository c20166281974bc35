// Graphs that break the contract of an operation, as a damaged or hostile file may hold them. Each is an Error.
#include <future>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/run_budget_internal.h"
#include "lockstep/graph/test_builder_internal.h"

namespace lockstep::graph {
namespace {

Error error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return errors::UnknownError("");
}

void expect_error(Builder& g, const std::vector<std::string>& fetches, std::string_view part) {
  const Error error = error_of([&] { g.run({}, fetches); });
  EXPECT_EQ(error.code(), Code::kInvalidArgument);
  EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
}

const ops::Attrs kFloatType{{"T", DType::kFloat32}};

TEST(GraphContract, AttributesAreCheckedWhenThePlanIsMade) {
  Builder g;
  g.constant("x", Tensor::zeros(Shape{1, 4, 4, 1}));
  g("missing", "Softmax", {"x"}, {});
  g("kind", "Softmax", {"x"}, {{"T", std::string("float")}});
  g("value", "SpaceToDepth", {"x"}, {{"T", DType::kFloat32}, {"block_size", std::int64_t{0}}});
  expect_error(g, {"missing"}, "Softmax: attribute 'T' is missing [node 'missing'");
  expect_error(g, {"kind"}, "expected type, found string [node 'kind'");
  expect_error(g, {"value"}, "0 is below the minimum 2 [node 'value'");
}

TEST(GraphContract, InputsHaveTheDeclaredDtypes) {
  Builder g;
  g.constant("x", Tensor::scalar(1.0f));
  g.constant("n", Tensor::scalar(std::int32_t{1}));
  g("sum", "AddV2", {"x", "n"}, kFloatType);
  g("few", "AddV2", {"x"}, kFloatType);
  expect_error(g, {"sum"}, "AddV2: input 1 is int32, expected float32 [node 'sum'");
  expect_error(g, {"few"}, "AddV2 takes 2 inputs, 1 given [node 'few'");
}

// Also those of operations that the executor runs itself.
TEST(GraphContract, InputsHaveTheDeclaredRanks) {
  Builder g;
  g.constant("indices", Tensor::from_vector(std::vector<std::int64_t>{2, 3}));
  g.constant("values", Tensor::zeros(Shape{2}));
  g("map", "AddSparseToTensorsMap", {"indices", "values", "indices"}, kFloatType);
  expect_error(g, {"map"}, "AddSparseToTensorsMap: input 'sparse_indices' has shape (2,), expected 2 axes [node 'map'");
}

TEST(GraphContract, OutputNumbersAreBounded) {
  Builder g;
  g.constant("x", Tensor::scalar(1.0f));
  EXPECT_THROW(g.graph.parse_output("x:2147483647"), Error);
  g("y", "Identity", {"x:1"}, kFloatType);
  expect_error(g, {"y"}, "has 1 outputs; output 1 is requested");
  Node node;
  node.name = "z";
  node.op = "Identity";
  node.attrs = kFloatType;
  node.inputs = {{0, -5}};
  g.graph.add(node);
  expect_error(g, {"z"}, "output -5");
}

// Both ways of running check the number of outputs: the second has a Switch.
TEST(GraphContract, OutputsAreCounted) {
  for (const bool dataflow : {false, true}) {
    Builder g;
    g.constant("x", Tensor::zeros(Shape{4}));
    g.constant("sizes", Tensor::from_vector(std::vector<std::int32_t>{4}));
    g.constant("axis", Tensor::scalar(std::int32_t{0}));
    g.constant("yes", Tensor::scalar(true));
    g("taken", "Switch", {"x", "yes"}, kFloatType);
    g("split", "SplitV", {dataflow ? "taken:1" : "x", "sizes", "axis"},
      {{"T", DType::kFloat32}, {"Tlen", DType::kInt32}, {"num_split", std::int64_t{200000}}});
    expect_error(g, {"split:199999"}, "[node 'split'");
  }
}

TEST(GraphContract, ResultsOfFunctionsAreCounted) {
  Builder g;
  auto function = std::make_shared<Function>();
  function->name = "one";
  Node constant;
  constant.name = "c";
  constant.op = "Const";
  constant.attrs = {{"dtype", DType::kFloat32}, {"value", Tensor::scalar(1.0f)}};
  function->body.add(constant);
  function->results = {{"r", DType::kFloat32, {0, 0}}};
  g.library->add(function);
  g("two", "PartitionedCall", {},
    {{"Tin", std::vector<DType>{}},
     {"Tout", std::vector<DType>{DType::kFloat32, DType::kFloat32}},
     {"f", ops::FunctionName{"one", nullptr}}});
  expect_error(g, {"two:1"}, "gave 1 outputs, expected 2");
}

TEST(GraphContract, VariablesKeepTheirDtype) {
  Builder g;
  g.constant("n", Tensor::scalar(std::int32_t{1}));
  g("v", "VariableV2", {}, {{"dtype", DType::kFloat32}, {"shape", Shape{}}});
  g("set", "Assign", {"v", "n"}, {{"T", DType::kInt32}});
  expect_error(g, {"set"}, "variable 'v' is float32; a value of int32 cannot be assigned to it");
}

void add_function(Builder& g, const std::string& name, const std::vector<std::string>& calls) {
  auto function = std::make_shared<Function>();
  function->name = name;
  function->arguments.push_back({"x", DType::kFloat32, Shape{}, std::nullopt, ""});
  function->body.add({"x", "_Arg", {}, {}, {{"T", DType::kFloat32}, {"index", std::int64_t{0}}}, ""});
  int last = 0;
  for (const std::string& callee : calls) {
    Node node{"call", callee, {{last, 0}}, {}, {}, ""};
    if (callee == "AddV2") node.inputs.push_back({last, 0});
    if (callee == "AddV2") node.attrs = kFloatType;
    node.name = function->body.unique_name("call");
    last = function->body.add(node);
  }
  function->results = {{"r", DType::kFloat32, {last, 0}}};
  g.library->add(function);
}

// An Exit that takes a value in each iteration.
TEST(GraphContract, InputsArriveOnce) {
  Builder g;
  const ops::Attrs frame{{"T", DType::kFloat32}, {"frame_name", std::string("f")}};
  g.constant("x", Tensor::scalar(1.0f));
  g("enter", "Enter", {"x"}, frame);
  g("merge", "Merge", {"enter", "next"}, {{"T", DType::kFloat32}, {"N", std::int64_t{2}}});
  g("next", "NextIteration", {"merge"}, kFloatType);
  g("exit", "Exit", {"merge"}, kFloatType);
  g("sum", "AddV2", {"exit", "exit"}, kFloatType);
  expect_error(g, {"sum"}, "node 'sum' gets an input twice in one iteration");
}

Error limit_error(Builder& g, const RunLimits& limits, const std::vector<std::string>& fetches) {
  g.resources->limits = limits;
  return error_of([&] { g.run({}, fetches); });
}

// Functions that call each other twice at each of 40 levels: 2^40 calls.
TEST(RunLimits, TimeEndsManyCalls) {
  Builder g;
  g.constant("x", Tensor::scalar(1.0f));
  for (int level = 0; level < 40; ++level) {
    const std::string next = level == 39 ? "AddV2" : fmt::format("f{}", level + 1);
    add_function(g, fmt::format("f{}", level), {next, next});
  }
  g("y", "f0", {"x"});
  const Error error = limit_error(g, {.max_seconds = 0.2}, {"y"});
  EXPECT_EQ(error.code(), Code::kDeadlineExceeded);
  EXPECT_NE(error.message().find("took more than 0.2 s"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("[node '"), std::string::npos) << error.message();
}

TEST(RunLimits, DefaultTimeIsThatOfTheCpu) {
  EXPECT_TRUE(RunBudget::is_over(5, true, 5.1, 0.1));
  EXPECT_FALSE(RunBudget::is_over(5, true, 4.9, 9.8));
  EXPECT_FALSE(RunBudget::is_over(5, false, 5.1, 0.1));  // on a busy machine
  EXPECT_FALSE(RunBudget::is_over(5, false, 4.9, 9.8));  // on two cores
  EXPECT_TRUE(RunBudget::is_over(5, false, 5.1, 5.1));
  EXPECT_TRUE(RunBudget::is_over(5, false, 60.1, 0.1));  // it waits
}

TEST(RunLimits, WatchdogReportsAnOperationThatTakesTooLong) {
  const std::string node = "slow";
  RunBudget budget({.max_seconds = 0.3}, 0);
  std::promise<std::string> message;
  const RunWatchdog watchdog(0.3, [&](const std::string& text) { message.set_value(text); });
  budget.begin_step(node);
  EXPECT_EQ(message.get_future().get(),
            "the run took more than 0.3 s; raise max_seconds (--max-seconds) if it needs more [node 'slow']");
}

TEST(RunLimits, DepthOfCalls) {
  Builder g;
  g.constant("x", Tensor::scalar(1.0f));
  add_function(g, "f", {"f"});
  g("y", "f", {"x"});
  const Error error = limit_error(g, {}, {"y"});
  EXPECT_EQ(error.code(), Code::kResourceExhausted);
  EXPECT_NE(error.message().find("more than 64 deep"), std::string::npos) << error.message();
}

TEST(RunLimits, IterationsOfBothKindsOfLoop) {
  Builder g;
  auto condition = std::make_shared<Function>();
  condition->name = "always";
  condition->arguments.push_back({"x", DType::kFloat32, Shape{}, std::nullopt, ""});
  condition->body.add({"x", "_Arg", {}, {}, {{"T", DType::kFloat32}, {"index", std::int64_t{0}}}, ""});
  condition->body.add({"c", "Const", {}, {}, {{"dtype", DType::kBool}, {"value", Tensor::scalar(true)}}, ""});
  condition->results = {{"r", DType::kBool, {1, 0}}};
  g.library->add(condition);
  add_function(g, "body", {"AddV2"});
  g.constant("x", Tensor::scalar(1.0f));
  g.constant("yes", Tensor::scalar(true));
  g("loop", "While", {"x"},
    {{"T", std::vector<DType>{DType::kFloat32}},
     {"cond", ops::FunctionName{"always", nullptr}},
     {"body", ops::FunctionName{"body", nullptr}}});
  const ops::Attrs frame{{"T", DType::kFloat32}, {"frame_name", std::string("f")}};
  g("enter", "Enter", {"x"}, frame);
  g("go", "Enter", {"yes"}, {{"T", DType::kBool}, {"frame_name", std::string("f")}, {"is_constant", true}});
  g("merge", "Merge", {"enter", "next"}, {{"T", DType::kFloat32}, {"N", std::int64_t{2}}});
  g("test", "LoopCond", {"go"});
  g("switch", "Switch", {"merge", "test"}, kFloatType);
  g("next", "NextIteration", {"switch:1"}, kFloatType);
  g("exit", "Exit", {"switch"}, kFloatType);
  for (const char* fetch : {"loop", "exit"}) {
    const Error error = limit_error(g, {.max_iterations = 100}, {fetch});
    EXPECT_EQ(error.code(), Code::kResourceExhausted);
    EXPECT_NE(error.message().find("more than 100 iterations"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("[node '"), std::string::npos) << error.message();
  }
}

TEST(RunLimits, Memory) {
  Builder g;
  g.constant("dims", Tensor::from_vector(std::vector<std::int32_t>{1 << 10, 1 << 10}));
  g.constant("x", Tensor::scalar(1.0f));
  g("big", "Fill", {"dims", "x"}, {{"T", DType::kFloat32}, {"index_type", DType::kInt32}});
  EXPECT_EQ(g.run({}, {"big"})[0].num_elements(), 1 << 20);
  const Error error = limit_error(g, {.max_memory = 1 << 20}, {"big"});
  EXPECT_EQ(error.code(), Code::kResourceExhausted);
  EXPECT_NE(error.message().find("exceed the limit of 1048576 bytes"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("[node 'big'"), std::string::npos) << error.message();
  EXPECT_EQ(limit_error(g, {.max_depth = 0}, {"big"}).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep::graph
