// Graphs as programs and by the plain operations, which are compared with TensorFlow elsewhere: both give the same.
#include "lockstep/graph/compiled_internal.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/test_builder_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::graph {
namespace {

using Ints = std::vector<std::int64_t>;

const ops::Attrs kFloats{{"T", DType::kFloat32}};

Tensor numbers(const Shape& shape, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
  for (float& value : values) value = uniform(random);
  return Tensor::from_vector(values, shape);
}

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

// A graph from "x" to "y".
struct Network : Builder {
  void input() { (*this)("x", "Placeholder", {}, {{"dtype", DType::kFloat32}}); }
  void unary(const std::string& name, const std::string& op, const std::string& x) { (*this)(name, op, {x}, kFloats); }
  void binary(const std::string& name, const std::string& op, const std::string& a, const std::string& b) {
    (*this)(name, op, {a, b}, kFloats);
  }
  void integers(const std::string& name, const std::vector<std::int32_t>& values) {
    constant(name, Tensor::from_vector(values));
  }
  void conv(const std::string& name, const std::string& x, const Shape& kernel, std::int64_t stride,
            const std::string& padding, const std::string& op = "Conv2D", std::int64_t dilation = 1) {
    constant(name + "/kernel", numbers(kernel, static_cast<unsigned>(name.size() + 7)));
    (*this)(name, op, {x, name + "/kernel"},
            {{"T", DType::kFloat32},
             {"strides", Ints{1, stride, stride, 1}},
             {"dilations", Ints{1, dilation, dilation, 1}},
             {"padding", padding}});
  }
  void scale_shift(const std::string& name, const std::string& x, std::int64_t channels) {
    constant(name + "/scale", numbers({channels}, 3, 0.5f, 2));
    constant(name + "/shift", numbers({channels}, 4));
    binary(name + "/mul", "Mul", x, name + "/scale");
    binary(name, "AddV2", name + "/mul", name + "/shift");
  }
  void reduce(const std::string& name, const std::string& op, const std::string& x,
              const std::vector<std::int32_t>& axes, bool keep) {
    integers(name + "/axes", axes);
    (*this)(name, op, {x, name + "/axes"}, {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}, {"keep_dims", keep}});
  }
};

struct Case {
  std::string name;
  Shape row;  // of the input
  std::function<void(Network&)> build;
  bool by_rows = true;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* padding : {"SAME", "VALID"}) {
    for (const std::int64_t stride : {1, 2}) {
      all.push_back({"conv " + std::string(padding) + std::to_string(stride), {11, 13, 5}, [=](Network& g) {
                       g.conv("c", "x", {3, 3, 5, 70}, stride, padding);
                       g.scale_shift("n", "c", 70);
                       g.unary("y", "Relu6", "n");
                     }});
      all.push_back({"depthwise " + std::string(padding) + std::to_string(stride), {9, 10, 19}, [=](Network& g) {
                       g.conv("c", "x", {5, 3, 19, 1}, stride, padding, "DepthwiseConv2dNative");
                       g.scale_shift("n", "c", 19);
                       g.unary("s", "Sigmoid", "n");
                       g.binary("y", "Mul", "n", "s");
                     }});
    }
  }
  for (const std::int64_t channels : {1, 6}) {
    all.push_back(
        {"depthwise with 3 results for each of " + std::to_string(channels), {8, 9, channels}, [=](Network& g) {
           g.conv("c", "x", {3, 5, channels, 3}, 1, "SAME", "DepthwiseConv2dNative");
           g.scale_shift("n", "c", channels * 3);
           g.unary("y", "Relu", "n");
         }});
  }
  all.push_back({"depthwise as groups", {8, 8, 12}, [](Network& g) { g.conv("y", "x", {7, 7, 1, 12}, 1, "SAME"); }});
  all.push_back({"groups", {8, 8, 12}, [](Network& g) { g.conv("y", "x", {3, 3, 4, 9}, 1, "SAME"); }});
  // One convolution for each group; in another order, they are not one convolution of groups.
  for (const bool in_order : {true, false}) {
    all.push_back({std::string("split groups") + (in_order ? "" : " in another order"), {8, 8, 12}, [=](Network& g) {
                     const ops::Attrs thirds{{"T", DType::kFloat32}, {"num_split", std::int64_t{3}}};
                     g.constant("axis", Tensor::scalar(std::int32_t{-1}));
                     g.constant("kernel", numbers({3, 3, 4, 6}, 4));
                     g("parts", "Split", {"axis", "x"}, thirds);
                     g("kernels", "Split", {"axis", "kernel"}, thirds);
                     for (const std::string i : {"0", "1", "2"}) {
                       g("part" + i, "Conv2D", {"parts:" + i, "kernels:" + i},
                         {{"T", DType::kFloat32}, {"strides", Ints{1, 2, 2, 1}}, {"padding", std::string("SAME")}});
                     }
                     g("joined", "ConcatV2",
                       {"part0", in_order ? "part1" : "part2", in_order ? "part2" : "part1", "axis"},
                       {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}, {"N", std::int64_t{3}}});
                     g.scale_shift("y", "joined", 6);
                   }});
  }
  using Volume = std::tuple<Shape, Ints, Ints, std::string>;
  for (const auto& [kernel, strides, dilations, padding] :
       {Volume{{3, 3, 3, 3, 9}, {1, 1, 1}, {1, 1, 1}, "SAME"}, Volume{{3, 3, 3, 3, 20}, {2, 2, 2}, {1, 1, 1}, "VALID"},
        Volume{{2, 3, 3, 16, 20}, {1, 1, 1}, {1, 1, 1}, "SAME"}, Volume{{3, 3, 3, 8, 40}, {2, 1, 1}, {1, 1, 1}, "SAME"},
        Volume{{2, 3, 2, 5, 6}, {1, 1, 1}, {2, 1, 2}, "SAME"}, Volume{{1, 3, 3, 4, 6}, {1, 2, 2}, {1, 1, 1}, "SAME"},
        Volume{{3, 1, 1, 4, 18}, {1, 1, 1}, {2, 1, 1}, "SAME"}, Volume{{3, 1, 5, 6, 18}, {1, 1, 1}, {1, 1, 1}, "SAME"},
        Volume{{1, 1, 1, 4, 18}, {2, 2, 2}, {1, 1, 1}, "VALID"}}) {
    const std::int64_t channels = kernel[3], filters = kernel[4];
    all.push_back({"volume " + std::to_string(all.size()),
                   {6, 9, 8, channels},
                   [=, kernel = kernel, strides = strides, dilations = dilations, padding = padding](Network& g) {
                     g.constant("kernel", numbers(kernel, 5));
                     g("c", "Conv3D", {"x", "kernel"},
                       {{"T", DType::kFloat32},
                        {"strides", Ints{1, strides[0], strides[1], strides[2], 1}},
                        {"dilations", Ints{1, dilations[0], dilations[1], dilations[2], 1}},
                        {"padding", padding}});
                     g.scale_shift("n", "c", filters);
                     g.unary("y", "Relu", "n");
                   }});
  }
  all.push_back({"dilated", {12, 12, 3}, [](Network& g) { g.conv("y", "x", {3, 3, 3, 8}, 1, "SAME", "Conv2D", 2); }});
  all.push_back({"large weights", {6, 6, 160}, [](Network& g) {
                   g.conv("c", "x", {3, 3, 160, 150}, 1, "SAME");
                   g.scale_shift("n", "c", 150);
                   g.unary("y", "Relu", "n");
                 }});
  all.push_back({"3 x 3 with a residual", {21, 18, 20}, [](Network& g) {
                   g.conv("a", "x", {3, 3, 20, 36}, 1, "SAME");
                   g.scale_shift("n", "a", 36);
                   g.unary("a/relu", "Relu", "n");
                   g.conv("b", "a/relu", {3, 3, 36, 20}, 1, "SAME");
                   g.binary("sum", "AddV2", "x", "b");
                   g.unary("s", "Sigmoid", "sum");
                   g.conv("y", "s", {3, 3, 20, 90}, 1, "VALID");
                 }});
  all.push_back({"residual", {7, 9, 16}, [](Network& g) {
                   g.conv("a", "x", {1, 1, 16, 32}, 1, "SAME");
                   g.unary("a/relu", "Relu", "a");
                   g.conv("b", "a/relu", {3, 3, 32, 16}, 1, "SAME");
                   g.scale_shift("n", "b", 16);
                   g.binary("sum", "AddV2", "x", "n");
                   g.unary("y", "Relu", "sum");
                 }});
  all.push_back({"padding, pool, concat", {10, 11, 6}, [](Network& g) {
                   g.constant("amounts", Tensor::from_vector<std::int32_t>({0, 0, 1, 2, 2, 1, 0, 0}, {4, 2}));
                   g("pad", "Pad", {"x", "amounts"}, {{"T", DType::kFloat32}, {"Tpaddings", DType::kInt32}});
                   g.conv("c", "pad", {3, 3, 6, 8}, 2, "VALID");
                   const ops::Attrs window{{"T", DType::kFloat32},
                                           {"ksize", Ints{1, 3, 3, 1}},
                                           {"strides", Ints{1, 2, 2, 1}},
                                           {"padding", std::string("SAME")}};
                   g("max", "MaxPool", {"x"}, window);
                   g("mean", "AvgPool", {"x"}, window);
                   g.constant("axis", Tensor::scalar(std::int32_t{-1}));
                   g("joined", "ConcatV2", {"max", "mean", "max", "axis"},
                     {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}, {"N", std::int64_t{3}}});
                   g.reduce("a", "Mean", "joined", {1, 2}, false);
                   g.reduce("b", "Max", "c", {1, 2}, false);
                   g("y", "ConcatV2", {"a", "b", "axis"},
                     {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}, {"N", std::int64_t{2}}});
                 }});
  all.push_back({"squeeze and excite", {6, 5, 24}, [](Network& g) {
                   g.reduce("m", "Mean", "x", {1, 2}, true);
                   g.conv("s", "m", {1, 1, 24, 24}, 1, "SAME");
                   g.unary("e", "Sigmoid", "s");
                   g.binary("scaled", "Mul", "x", "e");
                   g.conv("y", "scaled", {1, 1, 24, 10}, 1, "SAME");
                 }});
  all.push_back({"batch norm", {5, 5, 7}, [](Network& g) {
                   for (const char* name : {"gamma", "beta", "mean"}) g.constant(name, numbers({7}, 11));
                   g.constant("variance", numbers({7}, 12, 0.1f, 2));
                   g("y", "FusedBatchNormV3", {"x", "gamma", "beta", "mean", "variance"},
                     {{"T", DType::kFloat32}, {"U", DType::kFloat32}, {"epsilon", 1e-3f}, {"is_training", false}});
                 }});
  all.push_back({"layer norm and gelu", {6, 40}, [](Network& g) {
                   g.reduce("m", "Mean", "x", {-1}, true);
                   g.binary("d", "SquaredDifference", "x", "m");
                   g.reduce("v", "Mean", "d", {-1}, true);
                   g.constant("epsilon", Tensor::scalar(1e-3f));
                   g.binary("ve", "AddV2", "v", "epsilon");
                   g.unary("r", "Rsqrt", "ve");
                   g.constant("gamma", numbers({40}, 5));
                   g.binary("rg", "Mul", "r", "gamma");
                   g.binary("xr", "Mul", "x", "rg");
                   g.binary("mr", "Mul", "m", "rg");
                   g.binary("n", "Sub", "xr", "mr");
                   g.constant("half", Tensor::scalar(0.5f));
                   g.constant("root", Tensor::scalar(-0.70710678f));
                   g.binary("h", "Mul", "n", "half");
                   g.binary("w", "Mul", "n", "root");
                   g.unary("f", "Erfc", "w");
                   g.binary("y", "Mul", "h", "f");
                 }});
  all.push_back(
      {"attention", {10, 3, 8}, [](Network& g) {
         const auto einsum = [&](const std::string& name, const std::string& a, const std::string& b,
                                 const std::string& equation) {
           g(name, "Einsum", {a, b}, {{"T", DType::kFloat32}, {"N", std::int64_t{2}}, {"equation", equation}});
         };
         g.constant("w", numbers({3, 8, 3, 8}, 9));
         einsum("q", "x", "w", "abcd,cdef->abef");
         einsum("scores", "x", "q", "aecd,abcd->acbe");
         g.unary("p", "Softmax", "scores");
         einsum("y", "p", "x", "acbe,aecd->abcd");
       }});
  all.push_back({"products", {4, 6}, [](Network& g) {
                   g.constant("order", Tensor::from_vector<std::int32_t>({0, 2, 1}));
                   g("t", "Transpose", {"x", "order"}, {{"T", DType::kFloat32}, {"Tperm", DType::kInt32}});
                   g("p", "BatchMatMulV2", {"x", "t"}, {{"T", DType::kFloat32}});
                   g("q", "BatchMatMulV2", {"p", "x"}, {{"T", DType::kFloat32}, {"adj_x", true}});
                   g.constant("w", numbers({5, 6}, 8));
                   g("r", "BatchMatMulV2", {"q", "w"}, {{"T", DType::kFloat32}, {"adj_y", true}});
                   g.constant("flat", Tensor::from_vector<std::int32_t>({-1, 20}));
                   g("s", "Reshape", {"r", "flat"}, {{"T", DType::kFloat32}, {"Tshape", DType::kInt32}});
                   g.constant("v", numbers({20, 3}, 8));
                   g("y", "MatMul", {"s", "v"}, {{"T", DType::kFloat32}});
                 }});
  all.push_back({"shape arithmetic", {4, 6}, [](Network& g) {
                   g("shape", "Shape", {"x"}, {{"T", DType::kFloat32}, {"out_type", DType::kInt32}});
                   g.integers("zero", {0});
                   g.integers("one", {1});
                   g("batch", "StridedSlice", {"shape", "zero", "one", "one"},
                     {{"T", DType::kInt32}, {"Index", DType::kInt32}, {"shrink_axis_mask", std::int64_t{1}}});
                   g.constant("width", Tensor::scalar(std::int32_t{24}));
                   g("wanted", "Pack", {"batch", "width"}, {{"T", DType::kInt32}, {"N", std::int64_t{2}}});
                   g("y", "Reshape", {"x", "wanted"}, {{"T", DType::kFloat32}, {"Tshape", DType::kInt32}});
                 }});
  all.push_back({"a number of more axes than the result", {5}, [](Network& g) {
                   g.integers("many", {-1, 1, 1, 1, 1, 1, 1, 5});
                   g("r", "Reshape", {"x", "many"}, {{"T", DType::kFloat32}, {"Tshape", DType::kInt32}});
                   g.constant("number", numbers({1, 1, 1, 1, 1, 1, 1, 1}, 3));
                   g.binary("m", "Mul", "r", "number");
                   g.integers("few", {-1, 5});
                   g("s", "Reshape", {"m", "few"}, {{"T", DType::kFloat32}, {"Tshape", DType::kInt32}});
                   g.unary("y", "Relu", "s");
                 }});
  all.push_back({"along axes", {7, 6}, [](Network& g) {
                   g.constant("k", Tensor::scalar(std::int32_t{3}));
                   g("top", "TopKV2", {"x", "k"}, {{"T", DType::kFloat32}});
                   g.constant("axis", Tensor::scalar(std::int32_t{1}));
                   g("sums", "Cumsum", {"top:0", "axis"}, {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}});
                   g.constant("depth", Tensor::scalar(std::int32_t{6}));
                   g.constant("on", Tensor::scalar(2.0f));
                   g.constant("off", Tensor::scalar(-1.0f));
                   g("hot", "OneHot", {"top:1", "depth", "on", "off"},
                     {{"T", DType::kFloat32}, {"TI", DType::kInt32}, {"axis", std::int64_t{-1}}});
                   g.reduce("products", "Prod", "hot", {3}, false);
                   g.unary("a", "Atan", "products");
                   g.binary("y", "AddV2", "sums", "a");
                 }});
  for (const std::string op : {"UnsortedSegmentSum", "UnsortedSegmentMax"}) {
    all.push_back({op, {5, 3}, [=](Network& g) {
                     g.integers("order", {1, 0, 2});
                     const ops::Attrs turned{{"T", DType::kFloat32}, {"Tperm", DType::kInt32}};
                     g("t", "Transpose", {"x", "order"}, turned);
                     g.integers("ids", {3, 0, -1, 3, 1});
                     g.constant("count", Tensor::scalar(std::int32_t{4}));
                     g("s", op, {"t", "ids", "count"},
                       {{"T", DType::kFloat32}, {"Tindices", DType::kInt32}, {"Tnumsegments", DType::kInt32}});
                     g("u", "Transpose", {"s", "order"}, turned);
                     g.constant("most", Tensor::scalar(10.0f));
                     g.constant("least", Tensor::scalar(-10.0f));
                     g.binary("m", "Minimum", "u", "most");  // the maximum of no rows is the least number
                     g.binary("y", "Maximum", "m", "least");
                   }});
  }
  all.push_back({"windows of shifted images", {4, 6, 3}, [](Network& g) {
                   g.integers("shifts", {-1, 9});
                   g.integers("axes", {1, -2});
                   g("r", "Roll", {"x", "shifts", "axes"},
                     {{"T", DType::kFloat32}, {"Tshift", DType::kInt32}, {"Taxis", DType::kInt32}});
                   const ops::Attrs blocks{{"T", DType::kFloat32}, {"block_size", std::int64_t{2}}};
                   g("s", "SpaceToDepth", {"r"}, blocks);
                   g.unary("e", "Neg", "s");
                   g("d", "DepthToSpace", {"e"}, blocks);
                   g.integers("times", {1, 1, 2, 3});
                   g("t", "Tile", {"d", "times"}, {{"T", DType::kFloat32}, {"Tmultiples", DType::kInt32}});
                   g.reduce("m", "Max", "t", {1}, true);
                   g("shape", "Shape", {"t"}, {{"T", DType::kFloat32}, {"out_type", DType::kInt32}});
                   g("b", "BroadcastTo", {"m", "shape"}, {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}});
                   g.conv("c", "b", {2, 2, 9, 5}, 1, "SAME");
                   g.reduce("n", "Sum", "t", {-1}, true);
                   g.binary("y", "Mul", "c", "n");
                 }});
  for (const bool wide : {false, true}) {
    all.push_back({"dilated by copies",
                   {9, 7, 3},
                   [=](Network& g) {
                     g.integers("block", wide ? std::vector<std::int32_t>{2, 4} : std::vector<std::int32_t>{3, 1});
                     g.constant("border",
                                Tensor::from_vector<std::int32_t>(wide ? std::vector<std::int32_t>{5, 2, 0, 9}
                                                                       : std::vector<std::int32_t>{0, 3, 1, 1},
                                                                  {2, 2}));
                     g.constant("crops", Tensor::from_vector<std::int32_t>(wide ? std::vector<std::int32_t>{3, 0, 1, 2}
                                                                                : std::vector<std::int32_t>{0, 2, 1, 0},
                                                                           {2, 2}));
                     const ops::Attrs types{{"T", DType::kFloat32}, {"Tblock_shape", DType::kInt32}};
                     g("s", "SpaceToBatchND", {"x", "block", "border"}, types);
                     g.conv("c", "s", {2, 2, 3, 5}, 1, "VALID");
                     g("y", "BatchToSpaceND", {"c", "block", "crops"}, types);
                   },
                   false});
  }
  // Constants along other axes than the last are repeated, so that loops are long.
  for (const Shape& angles : {Shape{5, 1, 8}, Shape{1, 4, 8}, Shape{5, 4, 1}, Shape{5, 1, 1}, Shape{4, 1}, Shape{8}}) {
    all.push_back({"angles " + angles.to_string(), {5, 4, 8}, [=](Network& g) {
                     g.constant("cos", numbers(angles, 21));
                     g.constant("sin", numbers({5, 1, 8}, 22));
                     g.binary("a", "Mul", "x", "cos");
                     g.unary("t", "Tanh", "x");
                     g.binary("b", "Mul", "t", "sin");
                     g.binary("y", "AddV2", "a", "b");
                   }});
  }
  // What another row of the batch changes.
  all.push_back({"mean over the batch",
                 {4},
                 [](Network& g) {
                   g.reduce("m", "Mean", "x", {0}, true);
                   g.binary("y", "Sub", "x", "m");
                 },
                 false});
  all.push_back({"divided by the batch size",
                 {4},
                 [](Network& g) {
                   g("size", "Size", {"x"}, {{"T", DType::kFloat32}, {"out_type", DType::kInt32}});
                   g("f", "Cast", {"size"}, {{"SrcT", DType::kInt32}, {"DstT", DType::kFloat32}});
                   g.binary("y", "RealDiv", "x", "f");
                 },
                 false});
  all.push_back({"reversed batch",
                 {4},
                 [](Network& g) {
                   g.integers("zero", {0});
                   g.integers("back", {-1});
                   g("y", "StridedSlice", {"x", "zero", "zero", "back"},
                     {{"T", DType::kFloat32},
                      {"Index", DType::kInt32},
                      {"begin_mask", std::int64_t{1}},
                      {"end_mask", std::int64_t{1}}});
                 },
                 false});
  all.push_back({"sums along the batch",
                 {4},
                 [](Network& g) {
                   g.constant("axis", Tensor::scalar(std::int32_t{0}));
                   g("y", "Cumsum", {"x", "axis"}, {{"T", DType::kFloat32}, {"Tidx", DType::kInt32}});
                 },
                 false});
  all.push_back({"softmax over the batch", {}, [](Network& g) { g.unary("y", "Softmax", "x"); }, false});
  return all;
}

struct Prepared {
  Network g;
  std::unique_ptr<Plan> plan;
  CompiledPlan compiled;

  explicit Prepared(const Case& c) {
    g.input();
    c.build(g);
    g.finish();
    plan = std::make_unique<Plan>(g.graph, *g.library, std::vector<Output>{g.graph.parse_output("x")},
                                  std::vector<Output>{g.graph.parse_output("y")}, std::vector<int>{}, "test");
  }
  RunBudget budget{RunLimits::none(), 0};
  RunContext context{*g.resources, *g.library, budget};
  std::optional<Tensors> as_program(const Tensor& x) { return compiled.run(*plan, {x}, context); }
  Tensor plainly(const Tensor& x) { return plan->run({x}, context)[0]; }
};

void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  float largest = 0;
  for (const float value : y) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], 1e-5f * largest) << i;
}

TEST(CompiledPlan, GivesWhatThePlainOperationsGive) {
  for (const Case& c : cases()) {
    for (const int threads : {1, 2, 3}) {
      ops::set_parallel_threads(threads);
      Prepared prepared(c);
      for (const std::int64_t batch : {1, 2, 3, 9, 26}) {
        SCOPED_TRACE(c.name + ", batch " + std::to_string(batch) + ", threads " + std::to_string(threads));
        Ints dims = {batch};
        for (const std::int64_t dim : c.row.dims()) dims.push_back(dim);
        const Tensor x = numbers(Shape(dims), static_cast<unsigned>(batch), -2, 2);
        const auto results = prepared.as_program(x);
        ASSERT_TRUE(results);
        expect_close((*results)[0], prepared.plainly(x));
      }
    }
  }
  ops::set_parallel_threads(0);
}

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
    g.finish();
    const Plan plan(g.graph, *g.library, {g.graph.parse_output("x")}, {g.graph.parse_output("y")}, {}, "test");
    RunBudget budget(RunLimits::none(), 0);
    RunContext context{*g.resources, *g.library, budget};
    CompiledPlan compiled;
    return compiled.run(plan, {numbers({2, 4}, 1)}, context).has_value();
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

}  // namespace
}  // namespace lockstep::graph
