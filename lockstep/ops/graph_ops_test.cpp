// Gradients of operations that only graphs from files use, against differences in float64.
#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::ops {
namespace {

Tensor spread(const Shape& shape, double first, double step) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < *shape.num_elements(); ++i)
    values.push_back(std::sin(first + step * static_cast<double>(i)) + 0.1 * static_cast<double>(i % 3));
  return Tensor::from_vector(values, shape);
}
Tensor ints(const std::vector<std::int64_t>& values, const Shape& shape) { return Tensor::from_vector(values, shape); }

using Ints = std::vector<std::int64_t>;
using Function = std::function<Tensors(const Tensor&)>;

// The sum of all outputs, each entry with a different weight.
double weighted(const Tensors& outputs, Tensors* weights) {
  double total = 0;
  for (const Tensor& y : outputs) {
    const Tensor w = spread(y.shape(), 0.3, 0.7);
    if (weights) weights->push_back(w);
    const auto a = y.to_vector<double>(), b = w.to_vector<double>();
    for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  }
  return total;
}

void expect_gradient(const char* what, const Function& f, const Tensor& x) {
  const Tensor leaf = make_leaf(x);
  set_grad_enabled(true);
  const Tensors y = f(leaf);
  Tensors weights;
  weighted(y, &weights);
  const Tensors found = grad(y, {leaf}, weights, false, false);
  set_grad_enabled(false);
  ASSERT_TRUE(found[0].defined()) << what;
  const auto gradient = found[0].to_vector<double>();
  auto values = x.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    constexpr double kStep = 1e-6;
    const double middle = values[i];
    values[i] = middle + kStep;
    const double above = weighted(f(Tensor::from_vector(values, x.shape())), nullptr);
    values[i] = middle - kStep;
    const double below = weighted(f(Tensor::from_vector(values, x.shape())), nullptr);
    values[i] = middle;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-5 * (1 + std::abs(gradient[i]))) << what << " " << i;
  }
}

TEST(GraphOps, SparseTensorsHaveGradients) {
  const Tensor indices = ints({0, 1, 0, 3, 2, 0, 2, 2, 4, 3}, Shape{5, 2}), shape = ints({5, 4}, Shape{2});
  const Tensor values = spread(Shape{5}, 0.2, 0.9);
  const Tensor other = ints({0, 1, 1, 1}, Shape{2, 2});
  const auto first = [](const char* name, std::size_t output) {
    return [=](std::initializer_list<Tensor> inputs, Attrs attrs = {}) {
      return Tensors{call(name, inputs, std::move(attrs))[output]};
    };
  };
  expect_gradient(
      "fill",
      [&](const Tensor& x) {
        return first("SparseFillEmptyRows", 1)({indices, x, shape, Tensor::scalar(2.0)});
      },
      values);
  expect_gradient(
      "slice",
      [&](const Tensor& x) {
        return first("SparseSlice", 1)({indices, x, shape, ints({0, 1}, Shape{2}), ints({3, 3}, Shape{2})});
      },
      values);
  expect_gradient(
      "add",
      [&](const Tensor& x) {
        return first("SparseAdd", 1)({indices, x, shape, other, spread(Shape{2}, 1, 1), shape, Tensor::scalar(0.0)});
      },
      values);
  expect_gradient(
      "softmax",
      [&](const Tensor& x) {
        return first("SparseSoftmax", 0)({indices, x, shape});
      },
      values);
  expect_gradient(
      "sum",
      [&](const Tensor& x) {
        return first("SparseReduceSum", 0)({indices, x, shape, Tensor::from_vector(std::vector<std::int32_t>{1})});
      },
      values);
  const Tensor dense = spread(Shape{4, 3}, 0.4, 1.1);
  expect_gradient(
      "matmul",
      [&](const Tensor& x) {
        return first("SparseTensorDenseMatMul", 0)({indices, x, shape, dense});
      },
      values);
  expect_gradient(
      "matmul b",
      [&](const Tensor& b) {
        return first("SparseTensorDenseMatMul", 0)({indices, values, shape, b});
      },
      dense);
  const Tensor rows = ints({2, 0, 0, 1}, Shape{4}), ids = ints({0, 0, 2, 2}, Shape{4});
  for (const char* name : {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"})
    expect_gradient(
        name,
        [&](const Tensor& x) {
          return call(name, {x, rows, ids});
        },
        dense);
}

TEST(GraphOps, MovedRowsHaveGradients) {
  const Tensor x = spread(Shape{4, 3}, 0.4, 1.1), parts = Tensor::from_vector(std::vector<std::int32_t>{1, 0, 1, 2});
  expect_gradient(
      "partition",
      [&](const Tensor& v) {
        return call("DynamicPartition", {v, parts}, {{"num_partitions", std::int64_t{3}}});
      },
      x);
  const Tensor places = Tensor::from_vector(std::vector<std::int32_t>{3, 0, 1, 2});
  expect_gradient(
      "stitch",
      [&](const Tensor& v) {
        return call("DynamicStitch", {places, v}, {{"N", std::int64_t{1}}});
      },
      x);
  expect_gradient(
      "patches",
      [&](const Tensor& v) {
        const Ints one_each = {1, 1, 1, 1}, sizes = {1, 2, 3, 1};
        return call("ExtractImagePatches", {v},
                    {{"ksizes", sizes}, {"strides", one_each}, {"rates", one_each}, {"padding", std::string("SAME")}});
      },
      spread(Shape{1, 3, 4, 2}, 0.1, 0.8));
}

TEST(GraphOps, MatricesHaveGradients) {
  Tensor x = spread(Shape{2, 3, 3}, 0.4, 1.3);
  const Tensor b = spread(Shape{2, 3, 2}, 0.9, 0.6);
  const Tensor definite = call1(
      "AddV2", {call1("BatchMatMulV2", {x, x}, {{"adj_y", true}}), Tensor::full(Shape{3, 3}, 0.0, DType::kFloat64)});
  expect_gradient(
      "inverse", [&](const Tensor& v) { return call("MatrixInverse", {v}); }, definite);
  expect_gradient(
      "determinant", [&](const Tensor& v) { return call("MatrixDeterminant", {v}); }, x);
  expect_gradient(
      "solve",
      [&](const Tensor& v) {
        return call("MatrixSolve", {v, b});
      },
      definite);
  expect_gradient(
      "triangular",
      [&](const Tensor& v) {
        return call("MatrixTriangularSolve", {v, b});
      },
      definite);
  expect_gradient(
      "least squares",
      [&](const Tensor& v) {
        return call("MatrixSolveLs", {v, b, Tensor::scalar(0.5)});
      },
      x);
}

TEST(GraphOps, SpecialFunctionsHaveGradients) {
  const Tensor x = Tensor::from_vector(std::vector<double>{0.2, 0.7, 1.5, 3.0, 6.0});
  for (const char* name : {"BesselI0", "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1", "BesselK0",
                           "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1"})
    expect_gradient(
        name, [&](const Tensor& v) { return call(name, {v}); }, x);
  const Tensor a = Tensor::from_vector(std::vector<double>{0.5, 1.0, 2.0, 4.0, 3.0});
  expect_gradient(
      "Igamma",
      [&](const Tensor& v) {
        return call("Igamma", {a, v});
      },
      x);
  expect_gradient(
      "Igammac",
      [&](const Tensor& v) {
        return call("Igammac", {a, v});
      },
      x);
  expect_gradient(
      "Betainc",
      [&](const Tensor& v) {
        return call("Betainc", {a, x, v});
      },
      Tensor::from_vector(std::vector<double>{0.1, 0.3, 0.5, 0.7, 0.9}));
  const Tensor orders = Tensor::from_vector(std::vector<double>{0, 1, 2, 3, 1});
  expect_gradient(
      "Polygamma",
      [&](const Tensor& v) {
        return call("Polygamma", {orders, v});
      },
      x);
  expect_gradient(
      "Zeta",
      [&](const Tensor& v) {
        return call("Zeta", {Tensor::full(Shape{5}, 2.5, DType::kFloat64), v});
      },
      x);
}

// Numbers of TensorFlow 2.21 in graphs with oneDNN (TF_ENABLE_ONEDNN_OPTS=1), inputs of NumPy's default_rng(20).
TEST(GraphOps, QuantizedProductsWithBias) {
  const std::vector<std::uint8_t> x = {53, 16, 15, 27, 53, 7, 14, 31, 14, 24, 20, 4};
  const std::vector<std::int8_t> w = {-119, -102, 41, 124, 110, 49, 108, -13, 13, 36, -24, -59, 51, -51, 14, -109};
  const std::vector<std::int8_t> of_depth = {-119, 41, 110, 108, 13, -24, 51, 14};
  const std::vector<std::int8_t> matrix = {-119, -102, 110, 49, 13, 36, 51, -51};
  const auto as = [](const Tensor& values, DType type) { return call1("Bitcast", {values}, {{"type", type}}); };
  const auto number = [](float value) { return Tensor::scalar(value); };
  const auto pair = [](float a, float b) { return Tensor::from_vector(std::vector<float>{a, b}); };
  const Tensor image = as(Tensor::from_vector(x, Shape{1, 2, 3, 2}), DType::kQUInt8),
               filter = as(Tensor::from_vector(w, Shape{2, 2, 2, 2}), DType::kQInt8),
               thin = as(Tensor::from_vector(of_depth, Shape{2, 2, 2, 1}), DType::kQInt8),
               rows = as(Tensor::from_vector(std::vector<std::uint8_t>(x.begin(), x.begin() + 8), Shape{2, 4}),
                         DType::kQUInt8),
               columns = as(Tensor::from_vector(matrix, Shape{4, 2}), DType::kQInt8), bias = pair(0.3F, -0.25F);
  struct Row {
    const char* name;
    Tensor second, low, high;
    bool has_bias;
    DType type;
    std::vector<float> expected;  // levels, then the range of qint32
  };
  const Tensor low = number(-1), high = number(0.5F), lows = pair(-1, -0.25F), highs = pair(0.5F, 0.5F);
  const DType q32 = DType::kQInt32, q8 = DType::kQInt8, u8 = DType::kQUInt8;
  const float range = 99466.59375F, half = 49733.296875F;
  const std::vector<Row> table = {
      {"QuantizedConv2DPerChannel",
       filter,
       lows,
       highs,
       false,
       q32,
       {-597, -3846, 6590, 978, -5856, -2027, 3737, 1395, 1950, 1238, -2216, -772, -range, -half, range, half}},
      {"QuantizedConv2DAndRelu",
       filter,
       low,
       high,
       false,
       q32,
       {0, 0, 6590, 1956, 0, 0, 3737, 2790, 1950, 2476, 0, 0, -range, range}},
      {"QuantizedConv2DWithBias",
       filter,
       low,
       high,
       true,
       q32,
       {4261, -11741, 11448, -2092, -998, -8102, 8595, -1258, 6808, -1572, 2642, -5592, -range, range}},
      {"QuantizedConv2DWithBias",
       filter,
       lows,
       highs,
       true,
       q32,
       {4261, -7895, 11448, -3070, -998, -6075, 8595, -2653, 6808, -2810, 2642, -4820, -range, -half, range, half}},
      {"QuantizedConv2DAndRequantize",
       filter,
       low,
       high,
       false,
       q8,
       {-5, -60, 52, 15, -46, -32, 29, 22, 15, 19, -17, -12, -1, 0.75F}},
      {"QuantizedConv2DAndReluAndRequantize",
       filter,
       lows,
       highs,
       false,
       u8,
       {0, 0, 104, 15, 0, 0, 59, 22, 31, 19, 0, 0, -1, 0.75F}},
      {"QuantizedConv2DWithBiasAndRequantize",
       filter,
       lows,
       highs,
       true,
       q8,
       {33, -62, 90, -24, -8, -48, 67, -21, 53, -22, 21, -38, -1, 0.75F}},
      {"QuantizedConv2DWithBiasAndReluAndRequantize",
       filter,
       low,
       high,
       true,
       u8,
       {67, 0, 180, 0, 0, 0, 135, 0, 107, 0, 42, 0, -1, 0.75F}},
      {"QuantizedDepthwiseConv2D",
       thin,
       low,
       high,
       false,
       q32,
       {-3761, 3164, 5247, 1343, -6047, 191, -126, 3863, 534, 1416, -2380, 164, -range, range}},
      {"QuantizedDepthwiseConv2DWithBiasAndRelu",
       thin,
       low,
       high,
       true,
       q32,
       {1097, 0, 10105, 0, 0, 0, 4732, 0, 5392, 0, 2478, 0, -range, range}},
      {"QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize",
       thin,
       low,
       high,
       true,
       u8,
       {17, 0, 159, 0, 0, 0, 75, 0, 85, 0, 39, 0, -1, 0.75F}},
      {"QuantizedMatMulWithBias", columns, low, high, true, q32, {1883, -9507, 1084, -10188, -range, range}},
      {"QuantizedMatMulWithBiasAndDequantize",
       columns,
       low,
       high,
       true,
       DType::kFloat32,
       {0.11627297F, -0.58713138F, 0.06692913F, -0.62918794F}},
      {"QuantizedMatMulWithBiasAndReluAndRequantize", columns, low, high, true, u8, {30, 0, 17, 0, -1, 0.75F}},
  };
  for (const Row& row : table) {
    const std::string name = row.name;
    const bool product = name.starts_with("QuantizedMatMul");
    std::vector<Tensor> inputs = {product ? rows : image, row.second};
    if (row.has_bias) inputs.push_back(bias);
    for (const Tensor& each : {number(0), number(2), row.low, row.high}) inputs.push_back(each);
    if (name.find("equantize") != std::string::npos)
      for (const float each : {-1.0F, 0.75F}) inputs.push_back(number(each));
    Attrs attrs{{product ? "Toutput" : "out_type", row.type}};
    if (!product) attrs.set("strides", Ints{1, 1, 1, 1}), attrs.set("padding", std::string("SAME"));
    std::vector<float> found;
    for (const Tensor& output : call(name, inputs, attrs)) {
      const Tensor plain = output.dtype() == q32  ? as(output, DType::kInt32)
                           : output.dtype() == q8 ? as(output, DType::kInt8)
                           : output.dtype() == u8 ? as(output, DType::kUInt8)
                                                  : output;
      for (const float value : call1("Cast", {plain}, {{"DstT", DType::kFloat32}}).to_vector<float>())
        found.push_back(value);
    }
    ASSERT_EQ(found.size(), row.expected.size()) << name;
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], row.expected[i], 1e-6F * std::max(1.0F, std::abs(row.expected[i]))) << name << " " << i;
  }
  EXPECT_THROW(call("QuantizedMatMulWithBias", {rows, columns, bias, number(-1), number(2), low, high}), Error);
}

}  // namespace
}  // namespace lockstep::ops
