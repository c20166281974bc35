// More of NumPy: sets, statistics, linear algebra, text files, print options, and assignments to elements. The expected
// texts are those of NumPy 2.4.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace np = lockstep::np;
using ls::all;
using ls::None;
using ls::Tensor;

namespace numpy_programs {

template <typename... T>
void expect(const std::string& text, const T&... values) {
  std::ostringstream printed;
  const char* separator = "";
  ((printed << separator << values, separator = " "), ...);
  EXPECT_EQ(printed.str(), text);
}

TEST(NumpyPrograms, SetsAndCounts) {
  const auto x = np::array({3, 1, 2, 3, 3});
  expect("[1 2 3]", np::unique(x));
  const auto u = np::unique(x, {.return_index = true, .return_inverse = true, .return_counts = true});
  expect("[1 2 3]", u[0]);
  expect("[1 2 0]", u[1]);
  expect("[2 0 1 2 2]", u[2]);
  expect("[1 1 3]", u[3]);
  expect("[1.5 2. ]", np::unique(np::array({{1.5, 2.}, {2., 1.5}})));
  expect("[b'a' b'b']", np::unique(np::array({"b", "a", "b"})));
  expect("[False  True  True False False]", np::isin(x, {1, 2}));
  expect("[1 3]", np::intersect1d(x, {3, 7, 1}));
  expect("[1 2 3 9]", np::union1d(x, {9}));
  expect("[1 2]", np::setdiff1d(x, {3}));
  expect("[0 1 1 3]", np::bincount(x));
  expect("[0 1 1 3 0 0]", np::bincount(x, {.minlength = 6}));
  expect("[0.  1.  1.  3.5]", np::bincount(x, {.weights = np::array({.5, 1., 1., 1., 2.})}));
  const auto [h, e] = np::histogram(np::array({1., 2., 2., 3., 5.}), {.bins = 4});
  expect("[1 2 1 1]", h);
  expect("[1. 2. 3. 4. 5.]", e);
  const auto [h2, e2] = np::histogram({1, 2, 2, 3, 5}, {.bins = {0, 2, 4, 6}});
  expect("[1 3 1]", h2);
  expect("[0.3 0.2]", np::histogram(np::array({1., 2., 2., 3., 5.}), {.bins = 2, .density = true}).hist);
  expect("[0 1 1]", np::histogram({1, 2, 9}, {.bins = 3, .range = {{0, 3}}}).hist);
  expect("[0 1 3]", np::searchsorted(np::array({1, 3, 5}), np::array({0, 3, 6})));
  expect("2", np::searchsorted({1, 3, 5}, 3, {.side = "right"}));
  expect("[1 4 3]", np::digitize(np::array({0.2, 6.4, 3.0}), np::array({0., 1., 2.5, 4., 10.})));
  expect("[[0 1]\n [1 0]]", np::argwhere(np::array({{0, 1}, {2, 0}})));
  expect("[1 2]", np::flatnonzero(np::array({0, 1, 2})));
  expect("2", np::count_nonzero(np::array({{0, 1}, {2, 0}})));
  expect("[1 2]", np::count_nonzero(np::array({{0, 1}, {2, 2}}), {.axis = 0}));
}

TEST(NumpyPrograms, Statistics) {
  expect("[3 5]", np::diff(np::array({1, 4, 9})));
  expect("[2 2]", np::diff(np::array({1, 4, 9, 16}), {.n = 2}));
  expect("[[ 8 12]]", np::diff(np::array({{1, 4}, {9, 16}}), {.axis = 0}));
  expect("2.3333333333333335", np::average(np::array({1, 2, 4})));
  expect("1.25", np::average(np::array({1., 2., 4.}), {.weights = {{3, 1, 0}}}));
  expect("[2.5 3.5]", np::average(np::array({{1., 2.}, {3., 4.}}), {.axis = 0, .weights = np::array({1, 3})}));
  const auto a = np::array({{1., 2., 4.}, {2., 1., 0.}});
  expect("[[ 2.33333333 -1.5       ]\n [-1.5         1.        ]]", np::cov(a));
  expect("[[ 1.         -0.98198051]\n [-0.98198051  1.        ]]", np::corrcoef(a));
  expect("2.333333333333333", np::cov(np::array({1., 2., 4.})));
  expect("[[ 1.         -0.98198051]\n [-0.98198051  1.        ]]",
         np::corrcoef(np::array({1., 2., 4.}), np::array({2., 1., 0.})));
  expect("1.5", np::quantile(np::array({1, 2, 4}), 0.25));
  expect("4", np::ptp(np::array({1, 5})));
  expect("2.0", np::nanmean(np::array({1., np::nan, 3.})));
  expect("[1. 7.]", np::nansum(np::array({{1., np::nan}, {3., 4.}}), {.axis = 1}));
}

TEST(NumpyPrograms, NumbersAndShapes) {
  expect("3.0", np::cbrt(27));
  expect("5.0", np::hypot(3, 4));
  expect("[-3  6 -3]", np::cross(np::array({1, 2, 3}), np::array({4, 5, 6})));
  expect("11", np::inner(np::array({1, 2}), np::array({3, 4})));
  expect("[ True False]", np::isclose(np::array({1., 2.}), np::array({1., 2.1})));
  expect("[[0. 1.]\n [2. 3.]]", np::einsum("ij,jk->ik", np::arange(4).reshape(2, 2), np::eye(2)));
  expect("3.0", np::trace(np::eye(3)));
  expect("[2 1]", np::flipud(np::array({{1}, {2}})).ravel());
  expect("[[1 3]\n [2 4]]", np::column_stack({np::array({1, 2}), np::array({3, 4})}));
  expect("[0 2 3]", np::delete_(np::arange(5), {1, -1}));
  expect("[[0 1]\n [4 5]]", np::delete_(np::arange(6).reshape(3, 2), 1, 0));
  expect("1", np::unravel_index(np::array(5), {2, 3})[0]);
  expect("[  1.  10. 100.]", np::logspace(0, 2, 3));
  expect("[10. 15. 30.]", np::interp(np::array({0, 1.5, 9}), np::array({1, 2, 3}), np::array({10, 20, 30})));
  expect("[0.  1.  2.5 4.  1.5]", np::convolve(np::array({1, 2, 3}), np::array({0, 1, 0.5})));
  expect("[1 3 5]", np::convolve({1, 2, 3}, {1, 1}, "same"));
  expect("[3 5]", np::convolve({1, 2, 3}, {1, 1}, "valid"));
}

TEST(NumpyPrograms, FourierTransformsAndLinearAlgebra) {
  expect("[10.          2.82842712  2.        ]", np::abs(np::fft::rfft(np::array({1., 2., 3., 4.}))));
  expect("[ 0.   0.2  0.4 -0.4 -0.2]", np::fft::fftfreq(5));
  expect("[0.  0.5 1. ]", np::fft::rfftfreq(4, 0.5));
  expect("[1. 2.]", np::real(np::fft::ifft(np::fft::fft(np::array({1., 2.})))));
  const auto m = np::array({{2., 1.}, {1., 3.}});
  expect("[[ 0.6 -0.2]\n [-0.2  0.4]]", np::linalg::inv(m));
  expect("5.0", np::linalg::det(m).round(6));
  expect("[0.8 1.4]", np::linalg::solve(m, np::array({3., 5.})));
  expect("[1.38196601 3.61803399]", np::linalg::eigh(m)[0]);
  expect("[3.61803399 1.38196601]", np::linalg::svd(m)[1]);
  expect("3.872983346207417", np::linalg::norm(m));
}

TEST(NumpyPrograms, TextFiles) {
  const auto folder = std::filesystem::temp_directory_path() / ("numpy" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "t.csv";
  np::savetxt(path, np::array({{1., 2.5}, {3., 4.}}), {.fmt = "%.2f", .delimiter = ",", .header = "a,b"});
  {
    std::ifstream f(path);
    std::stringstream s;
    s << f.rdbuf();
    expect("# a,b\n1.00,2.50\n3.00,4.00\n", s.str());
  }
  expect("[[1.  2.5]\n [3.  4. ]]", np::loadtxt(path, {.delimiter = ","}));
  expect("[2.5 4. ]", np::loadtxt(path, {.delimiter = ",", .usecols = {1}}));
  EXPECT_THROW(np::loadtxt(path), ls::errors::InvalidArgumentError);
  EXPECT_THROW(np::loadtxt(folder / "none.csv"), ls::errors::NotFoundError);
  EXPECT_THROW(np::savetxt(path, np::arange(2), {.fmt = "%s%n"}), ls::errors::InvalidArgumentError);
  std::filesystem::remove_all(folder);
}

TEST(NumpyPrograms, PrintOptions) {
  np::set_printoptions({.precision = 3, .suppress = true});
  expect("[     0.       123.457 100000.   ]", np::array({1e-7, 123.45678, 1e5}));
  expect("[0.333]", np::array({1. / 3}));
  np::set_printoptions({.precision = 2, .suppress = false});
  expect("[1.e-07 1.e+00]", np::array({1e-7, 1.}));
  np::set_printoptions({.precision = 8, .threshold = 5, .edgeitems = 2, .linewidth = 40});
  expect("[0 1 ... 8 9]", np::arange(10));
  expect("[0.  1.5 3.  4.5 6. ]", np::arange(5) * 1.5);
  np::set_printoptions({.threshold = 1000, .linewidth = 30});
  expect("[ 0  1  2  3  4  5  6  7  8\n  9 10 11]", np::arange(12));
  np::set_printoptions({.precision = 8, .threshold = 1000, .edgeitems = 3, .linewidth = 75, .suppress = false});
}

TEST(NumpyPrograms, ElementsAreAssignedTo) {
  auto x = np::zeros({2, 3});
  x[0] = 1;
  expect("[[1. 1. 1.]\n [0. 0. 0.]]", x);
  x.index({0, 1}) = 2.5;
  expect("[[1.  2.5 1. ]\n [0.  0.  0. ]]", x);
  x[x > 1] = 0;
  expect("[[1. 0. 1.]\n [0. 0. 0.]]", x);
  x[0] += 1;
  x.index({all, 1}) *= 3;
  expect("[[2. 3. 2.]\n [0. 0. 0.]]", x);
  x[-1] = {1, 2, 3};
  expect("[[2. 3. 2.]\n [1. 2. 3.]]", x);
  x[{0, 1}] = np::arange(3);
  expect("[[0. 1. 2.]\n [1. 2. 3.]]", x);
  auto y = x;
  y.index({0, 0}) = 9;
  expect("9.0", x.index({0, 0}));
  auto z = x.copy();
  z.index({0, 0}) = 7;
  expect("9.0 7.0", x.index({0, 0}), z.index({0, 0}));
  x[0][2] = 5;
  expect("[[9. 1. 5.]\n [1. 2. 3.]]", x);
  auto row = x[1];
  row[0] = -1;
  expect("[-1.  2.  3.]", row);
  auto i = np::zeros(4, {.dtype = "int32"});
  i[1] = 3.7;
  i[np::array({0, 2})] = {5, 6};
  expect("[5 3 6 0]", i);
  i[{1, None}] -= 1;
  expect("[ 5  2  5 -1]", i);
  i[-1] += 10;
  expect("[5 2 5 9]", i);
  auto t = tf::constant({1., 2.});
  auto a = t.numpy().copy();
  a[0] = 0.1;
  expect("[0.1 2. ] tf.Tensor([1. 2.], shape=(2,), dtype=float32)", a, t);
  auto b = np::array(a);
  b[1] = 0;
  expect("[0.1 2. ] [0.1 0. ]", a, b);
  auto v = np::zeros(3);
  v[1] = 0.1;
  expect("True", v.sum() == 0.1);
  auto u = tf::constant(v);
  v[1] = 5;
  expect("tf.Tensor([0.  0.1 0. ], shape=(3,), dtype=float64)", u);
  auto d = tf::data::Dataset::from_tensor_slices(v);
  v[0] = 1;
  auto m = np::zeros({2, 2, 2}, {.dtype = "bool"});
  m.index({0, 1, 0}) = true;
  m[1] = true;
  expect("[0 0 1 0 1 1 1 1]", m.astype("int64").ravel());
  std::string text = "hello";
  std::set<char> cs(text.begin(), text.end());
  std::vector<char> chars(cs.begin(), cs.end());
  auto oh = np::zeros({5, int(chars.size())});
  for (int k = 0; k < 5; ++k) oh.index({k, std::find(chars.begin(), chars.end(), text[k]) - chars.begin()}) = 1.0;
  expect("[[0. 1. 0. 0.]\n [1. 0. 0. 0.]\n [0. 0. 1. 0.]\n [0. 0. 1. 0.]\n [0. 0. 0. 1.]]", oh);
  auto g = np::zeros({4, 4});
  g.index({{1, 3}, {1, 3}}) = np::ones({2, 2});
  g.index({all, 0}) = np::arange(4);
  g.index({{None, None, 2}, 3}) = 8;
  expect("[[0. 0. 0. 8.]\n [1. 1. 1. 0.]\n [2. 1. 1. 8.]\n [3. 0. 0. 0.]]", g);
  g.index({ls::ellipsis, 1}) = 7;
  expect("[7. 7. 7. 7.]", g.index({all, 1}));
  auto w = np::arange(6).reshape(2, 3).astype("float32");
  w.index({1, ls::ellipsis}) = 0;
  expect("[[0. 1. 2.]\n [0. 0. 0.]]", w);
  EXPECT_THROW(t[0] = 5, ls::errors::FailedPreconditionError);
  EXPECT_THROW(w[0] = tf::constant({1, 2}), ls::errors::InvalidArgumentError);
}

TEST(NumpyPrograms, SeveralIndicesOfAxes) {
  const Tensor x = np::arange(24).reshape(2, 3, 4), i = np::array({0, 1}), j = np::array({2, -1});
  const auto expect_elements = [](const Tensor& found, const ls::Shape& shape,
                                  const std::vector<std::int64_t>& values) {
    EXPECT_EQ(found.shape(), shape);
    EXPECT_EQ(found.flatten().to_vector<std::int64_t>(), values);
  };
  for (const Tensor& a : {x, ls::constant(x)}) {
    expect_elements(a.index({i, j}), {2, 4}, {8, 9, 10, 11, 20, 21, 22, 23});
    expect_elements(a.index({i, j, 1}), {2}, {9, 21});
    expect_elements(a.index({i, all, j}), {2, 3}, {2, 6, 10, 15, 19, 23});
    expect_elements(a.index({all, j}), {2, 2, 4}, {8, 9, 10, 11, 8, 9, 10, 11, 20, 21, 22, 23, 20, 21, 22, 23});
    expect_elements(a.index({all, np::array({true, false, true})}), {2, 2, 4},
                    {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23});
    expect_elements(a.index({0, j, i}), {2}, {8, 9});
    expect_elements(a.index({ls::ellipsis, j}), {2, 3, 2}, {2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23});
    expect_elements(a.index({i.index({all, None}), j}), {2, 2, 4},
                    {8, 9, 10, 11, 8, 9, 10, 11, 20, 21, 22, 23, 20, 21, 22, 23});
    expect_elements(a.index({1, all, j}), {2, 3}, {14, 18, 22, 15, 19, 23});
    expect_elements(a.index({all, None, j}), {2, 1, 2, 4},
                    {8, 9, 10, 11, 8, 9, 10, 11, 20, 21, 22, 23, 20, 21, 22, 23});
  }
  auto y = np::zeros({3, 4});
  y.index({np::arange(3), np::array({1, 0, 3})}) = 1;
  y.index({all, np::array({2, 2})}) += 5;
  y.index({np::array({0, 2}), {1, 3}}) = 7;
  expect("[0. 7. 7. 0. 1. 0. 5. 0. 0. 7. 7. 1.]", y.flatten());
  EXPECT_THROW(x.index({0, 3}), ls::errors::OutOfRangeError);
}

}  // namespace numpy_programs
