// Gradients of operations that only graphs from files use, against differences in float64.
#include <cmath>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep::ops
