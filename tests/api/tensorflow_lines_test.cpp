// Lines of TensorFlow's guides on tensors, variables and automatic differentiation, as literally as C++ permits.
// Expected numbers: TensorFlow 2.21.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace ops = lockstep::ops;
using ls::GradientTape;
using ls::Tensor;
using ls::Variable;

// Named: units of a build hold several files.
namespace tensorflow_lines {

std::string text(const auto& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// ---- tensors ----

TEST(TensorFlowLines, ConstantsHaveTheDtypesOfTensorFlow) {
  EXPECT_EQ(ls::constant(4).dtype(), ls::int32);
  EXPECT_EQ(ls::constant(4.0).dtype(), ls::float32);
  EXPECT_EQ(ls::constant(4).ndim(), 0);
  const auto half = ls::constant({{1, 2}, {3, 4}, {5, 6}}, ls::float16);
  EXPECT_EQ(half.shape(), (ls::Shape{3, 2}));
  EXPECT_EQ(text(half.dtype()), "<dtype: 'float16'>");
  EXPECT_EQ(ls::constant("Gray wolf").string_values()[0], "Gray wolf");
  EXPECT_EQ(ops::fill({2}, 7).dtype(), ls::int32);
  EXPECT_EQ(ops::range(1, 5).dtype(), ls::int32);
  expect_near(ops::range(0.0, 1.0, 0.25), {0, 0.25, 0.5, 0.75});
  expect_near(ops::linspace(0.0, 1.0, 5), {0, 0.25, 0.5, 0.75, 1});
  expect_near(ops::eye(2, 3), {1, 0, 0, 0, 1, 0});
  EXPECT_THROW(ops::convert_to_tensor({1, 2}, ls::float32), ls::errors::InvalidArgumentError);
}

TEST(TensorFlowLines, SeveralAxesAreIndexed) {
  const auto x = ls::constant({{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}});
  expect_near(x.index({ls::all, 1}), {1, 5, 9});
  expect_near(x.index({ls::ellipsis, -1}), {3, 7, 11});
  expect_near(x.index({{{}, -1}, {1, 3}}), {1, 2, 5, 6});
  expect_near(x.index({2, {{}, {}, 2}}), {8, 10});
  expect_near(x.index({1, 2}), {6});
  EXPECT_EQ(x.index({ls::newaxis, 0}).shape(), (ls::Shape{1, 4}));
  EXPECT_THROW(x.index({0, 4}), ls::Error);
  Variable v({{1.0, 2.0}, {3.0, 4.0}});
  GradientTape tape;
  const auto y = v.index({ls::all, 1}) * 2.0 + v[0];
  expect_near(tape.gradient(y, v), {1, 3, 0, 2});
}

TEST(TensorFlowLines, ComparisonsAndLogicAreElementwise) {
  const auto x = ls::constant({-7, 7, 3});
  EXPECT_EQ((x > 3).to_vector<bool>(), (std::vector<bool>{false, true, false}));
  EXPECT_EQ((3 >= x).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ((x == 3).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ((x != ls::constant({-7, 0, 3})).to_vector<bool>(), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(((x > 0) & ~(x == 3)).to_vector<bool>(), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(((x < 0) | (x == 3)).to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(((x < 0) ^ (x < 4)).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  expect_near(x % 3, {2, 1, 0});
  expect_near(ops::floor_div(x, 2), {-4, 3, 1});
  expect_near(ls::constant({6}) & ls::constant({3}), {2});
  expect_near(~ls::constant({6}), {-7});
  expect_near(ops::where(x > 0, x, 0), {0, 7, 3});
  bool positive = false;
  if (ls::constant(1.0) > 0.0) positive = true;
  EXPECT_TRUE(positive);
  EXPECT_THROW(x > 0.5, ls::errors::InvalidArgumentError);
  const Variable v(2.0), w(3.0);
  EXPECT_TRUE(bool(v < w));
  EXPECT_TRUE(bool(v < 2.5));
  EXPECT_FALSE(v == w);
}

TEST(TensorFlowLines, ComposedFunctions) {
  const auto c = ls::constant({{4.0, 5.0}, {10.0, 1.0}});
  expect_near(ops::norm(c), {11.916375});
  expect_near(ops::norm(c, 1, 0), {14, 6});
  expect_near(ops::norm(c, 3, 1), {5.738794, 10.003332}, 1e-5);
  expect_near(ops::norm(c, std::numeric_limits<double>::infinity(), 1), {5, 10});
  EXPECT_THROW(ops::norm(c, 3, {0, 1}), ls::errors::InvalidArgumentError);
  expect_near(ops::reduce_std(c, 0), {3, 2});
  expect_near(ops::reduce_variance(c), {10.5});
  expect_near(ops::reduce_euclidean_norm(c, 1), {6.4031243, 10.049875}, 1e-5);
  expect_near(ops::tensordot(c, c, 1), {66, 25, 50, 51});
  expect_near(ops::tensordot(c, c, 2), {142});
  EXPECT_EQ(ops::tensordot(c, c, 0).shape(), (ls::Shape{2, 2, 2, 2}));
  EXPECT_THROW(ops::tensordot(c, ops::ones({3, 2}), 1), ls::errors::InvalidArgumentError);
  expect_near(ops::trace(c), {5});
  expect_near(ops::count_nonzero({{0, 1}, {2, 0}}, 0), {1, 1});
  expect_near(ops::boolean_mask(c, {{true, false}, {false, true}}), {4, 1});
  expect_near(ops::boolean_mask(c, {false, true}), {10, 1});
  EXPECT_THROW(ops::boolean_mask(c, {true, false, true}), ls::errors::InvalidArgumentError);
  expect_near(ops::argmax(c), {1, 0});
  const auto x = ls::constant({2, 7, 0});
  expect_near(ops::tensor_scatter_nd_update(x, {{0}}, {5}), {5, 7, 0});
  expect_near(ops::tensor_scatter_nd_add(x, {{0}, {0}}, {5, 1}), {8, 7, 0});
}

TEST(TensorFlowLines, Strings) {
  const auto s = ls::constant({"Hello, World!", "  a b "});
  EXPECT_EQ(ls::strings::lower(s).string_values()[0], "hello, world!");
  EXPECT_EQ(ls::strings::upper(s).string_values()[1], "  A B ");
  EXPECT_EQ(ls::strings::strip(s).string_values()[1], "a b");
  expect_near(ls::strings::length(s), {13, 6});
  EXPECT_EQ(ls::strings::regex_replace(s, "[,!]", "-").string_values()[0], "Hello- World-");
  EXPECT_EQ(ls::strings::join({s, s}, "+").string_values()[1], "  a b +  a b ");
  EXPECT_EQ(ls::strings::regex_full_match(s, ".*b.*").to_vector<bool>(), (std::vector<bool>{false, true}));
  expect_near(ls::strings::to_number({"1.5", "2"}), {1.5, 2});
  EXPECT_EQ(ls::strings::as_string({1, 2}).string_values()[1], "2");
}

// ---- variables ----

TEST(TensorFlowLines, AssignmentsReturnTheVariableAndTakeItsDtype) {
  const Variable a({2.0, 3.0});
  a.assign({1, 2});
  expect_near(a.assign_add({2, 3}).numpy(), {3, 5});
  expect_near(a.assign_sub(1).numpy(), {2, 4});
  EXPECT_EQ(a.dtype(), ls::float32);
  expect_near(a[1], {4});
  expect_near(a[{0, 1}], {2});
  EXPECT_THROW(a.assign({1.0, 2.0, 3.0}), ls::errors::InvalidArgumentError);
}

// ---- gradients ----

TEST(TensorFlowLines, SourcesComeInAnyForm) {
  const Variable w(waves({3, 2}, 0.3)), b(ops::zeros({2}));
  const auto x = ls::constant({{1.0, 2.0, 3.0}});
  GradientTape tape({.persistent = true});
  const auto loss = ops::reduce_mean(ops::square(ops::matmul(x, w) + b));
  const auto [dl_dw, dl_db] = tape.gradient(loss, {w, b});
  const std::vector<double> expected_b = {3.9254019, 4.8546591};
  expect_near(dl_db, expected_b, 1e-5);
  EXPECT_EQ(dl_dw.shape(), w.shape());
  const auto by_name = tape.gradient(loss, {{"w", w}, {"b", b}});
  expect_near(by_name.at("b"), expected_b, 1e-5);
  expect_near(by_name["w"], numbers(dl_dw));
  expect_near(tape.gradient(loss, {b})[0], expected_b, 1e-5);
  const ls::Tensors list = tape.gradient(loss, std::vector{w, b});
  expect_near(list[1], expected_b, 1e-5);
  ls::optimizers::SGD(1.0).apply(tape.gradient(loss, {b}), {b});
  expect_near(b, {-expected_b[0], -expected_b[1]}, 1e-5);
}

TEST(TensorFlowLines, TargetsAreAddedUp) {
  const Variable x(2.0);
  GradientTape tape;
  const auto y0 = ops::pow(x, 2), y1 = 1 / x;
  expect_near(tape.gradient({y0, y1}, x), {3.75});
}

TEST(TensorFlowLines, WatchedVariablesAreListedAndForgotten) {
  const Variable x0(3.0, {.name = "x0"}), x1(3.0, {.name = "x1"}), fixed(3.0, {.trainable = false, .name = "fixed"});
  GradientTape tape({.persistent = true});
  auto y = x1 * fixed + x0 * x1;
  ASSERT_EQ(tape.watched_variables().size(), 2);
  EXPECT_EQ(tape.watched_variables()[0].name(), "x1");
  EXPECT_EQ(tape.watched_variables()[1].name(), "x0");
  EXPECT_FALSE(tape.gradient(y, fixed).defined());
  tape.reset();
  EXPECT_TRUE(tape.watched_variables().empty());
  y = y + x0 * x0;
  expect_near(tape.gradient(y, x0), {6});
  EXPECT_FALSE(tape.gradient(y, x1).defined());
}

TEST(TensorFlowLines, UnconnectedGradientsMayBeZero) {
  const Variable x({2.0, 2.0}), y(3.0);
  GradientTape tape({.persistent = true});
  const auto z = y * y;
  EXPECT_FALSE(tape.gradient(z, x).defined());
  expect_near(tape.gradient(z, x, {.unconnected_gradients = "zero"}), {0, 0});
  EXPECT_THROW(tape.gradient(z, x, {.unconnected_gradients = "ones"}), ls::errors::InvalidArgumentError);
  const auto [dx, dy] = tape.gradient(z, {x, y}, {.unconnected_gradients = ls::UnconnectedGradients::ZERO});
  expect_near(dx, {0, 0});
  expect_near(dy, {6});
}

// Numbers of the guide on automatic differentiation: 2 x - 1 / x^2 at 2.
TEST(TensorFlowLines, ADictOfTargetsCountsAsItsSum) {
  const Variable x(2.0);
  GradientTape tape;
  const auto square = ls::function([](const Tensor& value) { return value * value; });
  const auto y0 = square(x), y1 = 1 / x;
  expect_near(tape.gradient({{"y0", y0}, {"y1", y1}}, x), {3.75});
}

TEST(TensorFlowLines, BatchJacobiansAreThoseOfRows) {
  auto x = waves({3, 4}, 0.4);
  const auto w = waves({4, 2}, 0.7);
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const auto y = ops::tanh(ops::matmul(x, w));
  const auto rows = tape.batch_jacobian(y, x);
  ASSERT_EQ(rows.shape(), (ls::Shape{3, 2, 4}));
  expect_near(rows, {0, 0.9513239, 0.3233876, -0.8413933, 0.3453631, 0.4627638, -0.1880538, -0.5266897,
                     0, 0.5288721, 0.1797817, -0.4677581, 0.3306215, 0.4430111, -0.1800269, -0.5042084,
                     0, 0.9664404, 0.3285262, -0.8547631, 0.3693857, 0.4949526, -0.2011344, -0.5633251},
              1e-6);
  const auto all = tape.jacobian(y, x);
  for (int i = 0; i < 3; ++i) expect_near(rows[i], numbers(all.index({i, ls::all, i})), 1e-6);
  EXPECT_THROW(tape.batch_jacobian(y[{0, 2}], x), ls::errors::InvalidArgumentError);
}

TEST(TensorFlowLines, GradientsAreWrittenByHand) {
  const auto clip_gradients = ls::custom_gradient(
      [](const Tensor& x) { return std::pair(x, [](const Tensor& dy) { return ops::clip_by_norm(dy, 0.5); }); });
  const Variable v(2.0);
  GradientTape tape;
  const auto output = clip_gradients(v * v);
  expect_near(output, {4});
  expect_near(tape.gradient(output, v), {2});
}

TEST(TensorFlowLines, IntegersAreWatchedInVain) {
  auto x = ls::constant(5);
  GradientTape tape;
  tape.watch(x);
  EXPECT_FALSE(tape.gradient(x * x, x).defined());
  Tensor nothing;
  EXPECT_THROW(tape.watch(nothing), ls::errors::InvalidArgumentError);
}

// ---- structures and results ----

TEST(TensorFlowLines, AnOutputIsATensor) {
  const auto y = ls::layers::Dense(3)(ops::ones({2, 4}));
  EXPECT_EQ(y.shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(y.dtype(), ls::float32);
  auto [a, b] = ls::keras::Structure{ops::ones({1}), ops::zeros({2})};
  EXPECT_EQ(b.shape(), (ls::Shape{2}));
  const ls::keras::Structure of_variable = Variable(2.0);
  expect_near(of_variable, {2});
}

TEST(TensorFlowLines, ResultsAreAListToo) {
  const ls::keras::Sequential model({ls::layers::Dense(1, {.kernel_initializer = "ones"})});
  model.build_for({ls::kUnknownDim, 2});
  model.compile({.loss = "mse", .metrics = {"mae"}});
  const auto score = model.evaluate(Tensor{{1.0, 2.0}}, Tensor{{1.0}}, {.verbose = 0});
  EXPECT_DOUBLE_EQ(score[0], 4);
  EXPECT_DOUBLE_EQ(score[1], 2);
  EXPECT_THROW(score[2], ls::errors::OutOfRangeError);
  const auto [loss, mae] = score;
  EXPECT_DOUBLE_EQ(loss, 4);
  EXPECT_DOUBLE_EQ(mae, 2);
}

TEST(TensorFlowLines, KeywordsOfDatasets) {
  using ls::data::Dataset;
  const auto range = Dataset::range(7);
  EXPECT_EQ(range.batch(3, {.drop_remainder = true}).cardinality(), 2);
  EXPECT_EQ(Dataset::from_tensor_slices({8, 3, 0})
                .reduce(0, [](const Tensor& s, const Tensor& x) { return s + x; })
                .leaf()
                .item<int>(),
            11);
  const auto fill = [](const Tensor& x) { return ops::fill(ops::reshape(x, {1}), x); };
  const auto padded = range.map(fill, {.num_parallel_calls = ls::data::AUTOTUNE})
                          .padded_batch(4, {.padded_shapes = {{5}}, .padding_values = -1});
  expect_near((*padded.begin()).leaf()[2], {2, 2, -1, -1, -1});
  std::vector<std::int64_t> order;
  for (const Tensor& x : range.interleave([](const Tensor& x) { return Dataset::from_tensors(x).repeat(2); },
                                          {.cycle_length = 2, .block_length = 1}))
    order.push_back(x.item<std::int64_t>());
  EXPECT_EQ(order, (std::vector<std::int64_t>{0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 6}));
  std::vector<std::int64_t> evens;
  for (const auto& x : range.filter([](const Tensor& x) { return x % 2 == 0; }).as_numpy_iterator())
    evens.push_back(x.leaf().item<std::int64_t>());
  EXPECT_EQ(evens, (std::vector<std::int64_t>{0, 2, 4, 6}));
}

TEST(TensorFlowLines, NumbersAsFirstArguments) {
  expect_near(ops::pow(2.0, Tensor{1.0, -2.0}), {2, 0.25});
  expect_near(ops::pow(2, Tensor{1, 3}), {2, 8});
  expect_near(ops::maximum(0.5, Tensor{0.25, 4.0}), {0.5, 4});
  expect_near(ops::minimum(0.5, Tensor{0.25, 4.0}), {0.25, 0.5});
  EXPECT_EQ(ops::cast(64, ls::float32).dtype(), ls::float32);
  expect_near(ops::math::sqrt(ops::cast(64, ls::float32)), {8});
  expect_near(ops::cumsum({1, 2, 3}), {1, 3, 6});
}

TEST(TensorFlowLines, MatricesSegmentsAndOrder) {
  const auto a = waves({2, 3}, 0.7), b = waves({2, 3}, 0.4);
  expect_near(ops::tensordot(a, b, {{1}, {1}}), {0.95778853, 1.54000986, -0.12118595, 0.82042384});
  expect_near(ops::tensordot(a, b, {{0, 1}, {0, -1}}), {1.77821243});
  EXPECT_THROW(ops::tensordot(a, b, {{0, 1}, {0}}), ls::Error);
  EXPECT_THROW(ops::tensordot(a, b, {{2}, {0}}), ls::Error);
  expect_near(ops::einsum("ij,kj->ik", a, b), {0.95778853, 1.54000986, -0.12118595, 0.82042384});
  const Tensor m = {{2.0, 1.0}, {1.0, 3.0}};
  expect_near(ops::linalg::solve(m, {{1.0}, {2.0}}), {0.2, 0.6});
  expect_near(ops::linalg::inv(m), {0.6, -0.2, -0.2, 0.4});
  expect_near(ops::linalg::det(m), {5});
  expect_near(ops::linalg::cholesky(m), {1.41421354, 0, 0.70710677, 1.58113885});
  const Tensor data = {1.0, 2.0, 3.0, 4.0, 5.0}, ids = {0, 0, 1, 1, 3};
  expect_near(ops::math::segment_sum(data, ids), {3, 7, 0, 5});
  expect_near(ops::math::segment_mean(data, ids), {1.5, 3.5, 0, 5});
  expect_near(ops::math::segment_max(data, ids), {2, 4, 0, 5});
  expect_near(ops::math::segment_min(data, ids), {1, 3, 0, 5});
  const Tensor mixed = {1.0, -2.0, 3.0, -4.0, 5.0};
  expect_near(ops::sort(mixed, {.direction = "DESCENDING"}), {5, 3, 1, -2, -4});
  expect_near(ops::argsort(mixed, {.direction = "DESCENDING"}), {4, 2, 0, 1, 3});
  EXPECT_THROW(ops::sort(mixed, {.direction = "DOWN"}), ls::Error);
  const auto [y, idx] = ops::unique({3, 1, 3, 2});
  expect_near(y, {3, 1, 2});
  expect_near(idx, {0, 1, 0, 2});
}

TEST(TensorFlowLines, FunctionsTakeNumbersAndDtypes) {
  const Tensor x = {7, -7, 3};
  EXPECT_EQ(ops::zeros_like(x, ls::float32).dtype(), ls::float32);
  EXPECT_EQ(ops::ones_like(x, {.dtype = ls::int64}).dtype(), ls::int64);
  expect_near(ops::ones_like(ls::constant({"a", "b"}), ls::int32), {1, 1});
  expect_near(ops::math::floordiv(x, 2), {3, -4, 1});
  expect_near(ops::math::floormod(x, 2), {1, 1, 1});
  expect_near(ops::add(x, 1), {8, -6, 4});
  expect_near(ops::subtract(1, x), {-6, 8, -2});
  expect_near(ops::multiply(x, 2), {14, -14, 6});
  expect_near(ops::divide(x, 2), {3.5, -3.5, 1.5});
  const Tensor y = {0.0, 2.0};
  expect_near(ops::math::squared_difference(y, 0.5), {0.25, 2.25});
  expect_near(ops::math::div_no_nan(1.0, y), {0, 0.5});
  expect_near(ls::keras::ops::arange({.start = 1, .stop = ops::shape(x)[0]}), {1, 2});
  expect_near(ls::keras::ops::mean(ls::constant({{1.0, 2.0}, {3.0, 6.0}}), {.axis = std::vector<int>{0, 1}}), {3});
  double sum = 0;
  for (const auto& [a, b, c] :
       ls::zip(std::vector<int>{1, 2}, std::vector<Tensor>{y[0], y[1]}, std::vector<double>{3, 4}))
    sum += a * float(b) * c;
  EXPECT_EQ(sum, 16);
  EXPECT_EQ(ls::sum(std::vector<double>{1, 2.5}), 3.5);
}

}  // namespace tensorflow_lines
