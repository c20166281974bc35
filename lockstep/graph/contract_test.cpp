// Graphs that break the contract of an operation, as a damaged or hostile file may hold them. Each is an Error.
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
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

TEST(GraphContract, OutputNumbersAreBounded) {
  Builder g;
  g.constant("x", Tensor::scalar(1.0f));
  EXPECT_THROW(g.graph.parse_output("x:2147483647"), Error);
  g("y", "Identity", {"x:1"}, kFloatType);
  expect_error(g, {"y"}, "has 1 outputs; number 1 is asked for");
  Node node;
  node.name = "z";
  node.op = "Identity";
  node.attrs = kFloatType;
  node.inputs = {{0, -5}};
  g.graph.add(node);
  expect_error(g, {"z"}, "number -5");
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

}  // namespace
}  // namespace lockstep::graph
