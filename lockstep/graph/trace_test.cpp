#include "lockstep/graph/trace_internal.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/graph/executor_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::graph {
namespace {

Tensor floats(const std::vector<float>& values, const Shape& shape) { return Tensor::from_vector(values, shape); }
Tensor ints(const std::vector<std::int32_t>& values) { return Tensor::from_vector(values); }

class Counter : public VariableResource {
 public:
  std::string resource_name() const override { return "counter"; }
  DType dtype() const override { return DType::kFloat32; }
  Shape shape() const override { return Shape{}; }
  bool is_initialized() const override { return true; }
  Tensor read() override { return value; }
  void assign(const Tensor& next) override { value = next; }

  Tensor value = Tensor::scalar(1.0f);
};

Tensor read(const std::shared_ptr<Counter>& counter) {
  return ops::call1("ReadVariableOp", {Tensor::resource(counter)}, {{"dtype", DType::kFloat32}});
}

void assign(const std::shared_ptr<Counter>& counter, const Tensor& value) {
  ops::call("AssignVariableOp", {Tensor::resource(counter), value}, {{"dtype", DType::kFloat32}});
}

TEST(Scratch, InfersShapesWithUnknownBatch) {
  ScratchScope scratch;
  const Tensor y = ops::call1("MatMul", {scratch.input(DType::kFloat32, {kUnknownDim, 3}), Tensor::zeros({3, 5})});
  EXPECT_EQ(y.shape(), (Shape{kUnknownDim, 5}));
  EXPECT_EQ(y.dtype(), DType::kFloat32);
}

TEST(Scratch, LeavesVariablesAlone) {
  const auto counter = std::make_shared<Counter>();
  {
    ScratchScope scratch;
    assign(counter, ops::call1("AddV2", {read(counter), scratch.input(DType::kFloat32, {})}));
  }
  EXPECT_EQ(counter->value.item<float>(), 1.0f);
}

TEST(Scratch, ShapeArithmeticKeepsKnownEntries) {
  ScratchScope scratch;
  const Tensor x = scratch.input(DType::kFloat32, {kUnknownDim, 4, 5});
  const Tensor shape = ops::call1("Shape", {x});
  const Tensor tail = ops::call1("StridedSlice", {shape, ints({1}), ints({3}), ints({1})});
  ASSERT_FALSE(tail.is_symbolic());  // (4, 5) is known
  const Tensor batch =
      ops::call1("StridedSlice", {shape, ints({0}), ints({1}), ints({1})}, {{"shrink_axis_mask", std::int64_t{1}}});
  const Tensor target = ops::call1("Pack", {batch, Tensor::scalar(std::int32_t{20})});
  EXPECT_EQ(ops::call1("Reshape", {x, target}).shape(), (Shape{kUnknownDim, 20}));
}

TEST(Trace, RunsAsTheCodeDid) {
  const TracedFunction traced =
      trace("f",
            [](const Tensors& in) {
              return Tensors{ops::call1("AddV2", {ops::call1("Mul", {in[0], in[0]}), Tensor::scalar(2.0f)})};
            },
            {{Shape{kUnknownDim}, DType::kFloat32, "X in"}});
  EXPECT_EQ(traced.function->arguments[0].name, "x_in");
  EXPECT_EQ(traced.outputs[0].shape, Shape{kUnknownDim});
  EXPECT_EQ(call(traced, {floats({1, 2, 3}, {3})})[0].to_vector<float>(), (std::vector<float>{3, 6, 11}));
}

TEST(Trace, VariablesBecomeCapturesAndKeepTheirOrder) {
  const auto counter = std::make_shared<Counter>();
  const TracedFunction traced = trace("step",
                                      [&](const Tensors& in) {
                                        const Tensor before = read(counter);
                                        assign(counter, ops::call1("AddV2", {before, in[0]}));
                                        const Tensor after = read(counter);
                                        return Tensors{before, after};
                                      },
                                      {{Shape{}, DType::kFloat32, "x"}});
  ASSERT_EQ(traced.captures.size(), 1u);
  EXPECT_TRUE(traced.function->stateful);
  EXPECT_EQ(traced.function->effects.size(), 1u);
  EXPECT_EQ(counter->value.item<float>(), 1.0f);  // tracing itself changes nothing
  const Tensors out = call(traced, {Tensor::scalar(5.0f)});
  EXPECT_EQ(out[0].item<float>(), 1.0f);
  EXPECT_EQ(out[1].item<float>(), 6.0f);
  EXPECT_EQ(counter->value.item<float>(), 6.0f);
}

TEST(Trace, DropsWhatNothingNeeds) {
  const TracedFunction traced = trace("f",
                                      [](const Tensors& in) {
                                        ops::call1("Mul", {in[0], in[0]});
                                        return Tensors{ops::call1("Neg", {in[0]})};
                                      },
                                      {{Shape{2}, DType::kFloat32, "x"}});
  EXPECT_EQ(traced.function->body.size(), 2);
}

TEST(Trace, AnEscapedTensorIsNamed) {
  Tensor escaped;
  trace("f", [&](const Tensors& in) { return Tensors{escaped = in[0]}; }, {{Shape{2}, DType::kFloat32, "x"}});
  try {
    ops::call1("Neg", {escaped});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kFailedPrecondition);
  }
}

TEST(Trace, LoopsAndBranchesBecomeNodes) {
  const auto counter = std::make_shared<Counter>();
  const auto power = [&](const Tensors& in) {
    const Tensors results = while_loop(
        [&](const Tensors& v) {
          return ops::call1("Less", {v[0], in[1]});
        },
        [&](const Tensors& v) {
          return Tensors{ops::call1("AddV2", {v[0], Tensor::scalar(std::int32_t{1})}),
                         ops::call1("Mul", {v[1], ops::call1("Mul", {in[0], read(counter)})})};
        },
        {Tensor::scalar(std::int32_t{0}), Tensor::scalar(1.0f)});
    const Tensor big = ops::call1("Greater", {results[1], Tensor::scalar(100.0f)});
    return cond(
        big, [&] { return Tensors{ops::call1("Neg", {results[1]})}; }, [&] { return Tensors{results[1]}; });
  };
  const TracedFunction traced = trace("power", power, {{Shape{}, DType::kFloat32, "x"}, {Shape{}, DType::kInt32, "n"}});
  EXPECT_EQ(traced.library.functions().size(), 4u);
  EXPECT_EQ(call(traced, {Tensor::scalar(2.0f), Tensor::scalar(std::int32_t{5})})[0].item<float>(), 32.0f);
  EXPECT_EQ(call(traced, {Tensor::scalar(2.0f), Tensor::scalar(std::int32_t{8})})[0].item<float>(), -256.0f);
  EXPECT_EQ(call(traced, {Tensor::scalar(2.0f), Tensor::scalar(std::int32_t{0})})[0].item<float>(), 1.0f);
  EXPECT_EQ(power({Tensor::scalar(2.0f), Tensor::scalar(std::int32_t{5})})[0].item<float>(), 32.0f);  // plain C++
}

TEST(Trace, LoopVariablesMayGrow) {
  const auto grow = [](const Tensors& in) {
    return while_loop(
        [](const Tensors& v) {
          return ops::call1("Less", {ops::call1("Size", {v[0]}), Tensor::scalar(std::int32_t{20})});
        },
        [](const Tensors& v) {
          return Tensors{
              ops::call1("ConcatV2", {v[0], v[0], Tensor::scalar(std::int32_t{0})}, {{"N", std::int64_t{2}}})};
        },
        in);
  };
  const TracedFunction traced = trace("grow", grow, {{Shape{3}, DType::kFloat32, "x"}});
  EXPECT_EQ(traced.outputs[0].shape, Shape{kUnknownDim});
  EXPECT_EQ(call(traced, {floats({1, 2, 3}, {3})})[0].num_elements(), 24);
}

TEST(Trace, SurvivesGraphDef) {
  const TracedFunction traced = trace("f",
                                      [](const Tensors& in) {
                                        return Tensors{ops::call1("Transpose", {in[0], ints({1, 0})})};
                                      },
                                      {{Shape{2, 3}, DType::kFloat32, "x"}});
  FunctionLibrary library;
  library.add(traced.function);
  tensorflow::GraphDef proto;
  function_to_proto(*traced.function, library, proto.mutable_library()->add_function());
  const GraphAndLibrary read = parse_graph_def(formats::serialize_proto(proto, "GraphDef"), "test");
  const auto function = read.library.find("f");
  ASSERT_TRUE(function);
  const auto executable =
      Executable::prepare(function, std::make_shared<FunctionLibrary>(read.library), std::make_shared<Resources>());
  EXPECT_EQ(executable->run({floats({1, 2, 3, 4, 5, 6}, {2, 3})})[0].to_vector<float>(),
            (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

}  // namespace
}  // namespace lockstep::graph
