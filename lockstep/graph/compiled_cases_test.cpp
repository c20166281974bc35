// Graphs as programs and by the plain operations, which are compared with TensorFlow elsewhere: both give the same.
#include "lockstep/graph/compiled_test_internal.h"
#include "lockstep/ops/parallel_internal.h"

namespace lockstep::graph::compiled_test {
namespace {

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
  for (const std::int64_t columns : {2, 7, 16, 29}) {
    all.push_back({"reductions of rows of " + std::to_string(columns), {13, 3, columns}, [](Network& g) {
                     g.reduce("sum", "Sum", "x", {-1}, true);
                     g.reduce("largest", "Max", "x", {-1}, true);
                     g.reduce("least", "Min", "x", {-1}, true);
                     g.binary("range", "Sub", "largest", "least");
                     g.binary("y", "Mul", "sum", "range");
                   }});
  }
  // The phases have windows of 2 x 2 and of 3 x 3.
  for (const std::int64_t window : {4, 6}) {
    all.push_back(
        {"transposed " + std::to_string(window), {16, 17, 16}, [=](Network& g) {
           g.constant("kernel", numbers({window, window, 24, 16}, 4));
           g("shape", "Shape", {"x"}, {{"T", DType::kFloat32}, {"out_type", DType::kInt32}});
           g.integers("zero", {0});
           g.integers("one", {1});
           g("rows", "StridedSlice", {"shape", "zero", "one", "one"}, {{"T", DType::kInt32}, {"Index", DType::kInt32}});
           g.integers("rest", {32, 34, 24});
           g.constant("axis", Tensor::scalar(std::int32_t{0}));
           g("sizes", "ConcatV2", {"rows", "rest", "axis"},
             {{"T", DType::kInt32}, {"Tidx", DType::kInt32}, {"N", std::int64_t{2}}});
           g("c", "Conv2DBackpropInput", {"sizes", "kernel", "x"},
             {{"T", DType::kFloat32}, {"strides", Ints{1, 2, 2, 1}}, {"padding", std::string("SAME")}});
           g.scale_shift("n", "c", 24);
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
  // Lengths with factors 4, 2 and odd ones, with lines that are not a multiple of eight, and (74) with a large factor.
  for (const Shape& row : {Shape{40, 24}, Shape{7, 15}, Shape{3, 16, 18}, Shape{1, 31}, Shape{9, 74}}) {
    for (const std::string transform : {"FFT2D", "FFT"}) {
      all.push_back({transform + " of " + row.to_string(), row, [=](Network& g) {
                       const ops::Attrs types{{"T", DType::kFloat32}, {"Tout", DType::kComplex64}},
                           parts{{"T", DType::kComplex64}, {"Tout", DType::kFloat32}},
                           complex{{"Tcomplex", DType::kComplex64}};
                       g.unary("zeros", "ZerosLike", "x");
                       g("c", "Complex", {"x", "zeros"}, types);
                       g("f", transform, {"c"}, complex);
                       g("re", "Real", {"f"}, parts);
                       g("im", "Imag", {"f"}, parts);
                       g.unary("t", "Tanh", "im");
                       g("d", "Complex", {"re", "t"}, types);
                       g("i", "I" + transform, {"d"}, complex);
                       g("j", "Imag", {"i"}, parts);
                       g.binary("y", "AddV2", "j", "re");
                     }});
    }
  }
  for (const std::string padding : {"SAME", "VALID"}) {
    all.push_back({"patches " + padding, {9, 11, 3}, [=](Network& g) {
                     g("p", "ExtractImagePatches", {"x"},
                       {{"T", DType::kFloat32},
                        {"ksizes", Ints{1, 3, 2, 1}},
                        {"strides", Ints{1, 2, 3, 1}},
                        {"rates", Ints{1, 2, 1, 1}},
                        {"padding", padding}});
                     g.unary("y", "Tanh", "p");
                   }});
  }
  for (const bool turned : {false, true}) {
    all.push_back({"long products", {150, 260}, [=](Network& g) {
                     g("p", "BatchMatMulV2", {"x", "x"}, {{"T", DType::kFloat32}, {turned ? "adj_x" : "adj_y", true}});
                     g.unary("y", "Tanh", "p");
                   }});
  }
  // One dilated convolution, or where more is cut off than was added, a convolution between copies.
  for (const bool wide : {false, true}) {
    all.push_back({"dilated",
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
                   !wide});
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

}  // namespace
}  // namespace lockstep::graph::compiled_test
