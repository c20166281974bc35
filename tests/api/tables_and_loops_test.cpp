// tf.lookup, tf.cond, tf.while_loop, tf.map_fn and the like, those of keras.ops, and what a tape knows of tensors.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace kops = lockstep::keras::ops;
using ls::Tensor;

namespace tables_and_loops {

namespace tf = lockstep::ops;

TEST(TablesTest, StaticAndMutableTablesLookUpWhatWasPutIn) {
  const ls::lookup::KeyValueTensorInitializer init(ls::constant({"a", "b", "c"}), ls::constant({1, 2, 3}));
  const ls::lookup::StaticHashTable table(init, {.default_value = -1});
  EXPECT_EQ(numbers(table.lookup(ls::constant({{"a", "z"}, {"c", "b"}}))), (Numbers{1, -1, 3, 2}));
  EXPECT_EQ(table.lookup(ls::constant({{"a", "z"}, {"c", "b"}})).shape(), (ls::Shape{2, 2}));
  EXPECT_EQ(numbers(table[ls::constant({"b"})]), (Numbers{2}));
  EXPECT_EQ(table.size(), 3);
  EXPECT_EQ(table.value_dtype(), ls::int32);
  EXPECT_NE(error_of([&] { table.lookup(ls::constant({1})); }).find("found int32, expected string"), std::string::npos);
  EXPECT_NE(error_of([] {
              ls::lookup::StaticHashTable({ls::constant({"a", "a"}), ls::constant({1, 2})}, 0);
            }).find("two values for key 'a'"),
            std::string::npos);

  ls::lookup::StaticHashTable later;  // a member of a class, made in its constructor
  EXPECT_NE(error_of([&] { later.lookup(ls::constant({"a"})); }).find("used before it was made"), std::string::npos);
  later = table;
  EXPECT_EQ(numbers(later.lookup(ls::constant({"b"}))), (Numbers{2}));

  ls::lookup::experimental::MutableHashTable counts(ls::int64, ls::float32, 0.5);
  counts.insert(ls::constant({7, 8}), ls::constant({1.0, 2.0}));
  counts.insert(ls::constant({8}), ls::constant({3.0}));
  EXPECT_EQ(numbers(counts.lookup(ls::constant({7, 8, 9}))), (Numbers{1, 3, 0.5}));
  counts.remove(ls::constant({7}));
  EXPECT_EQ(counts.size(), 1);
  const auto [keys, values] = counts.export_all();
  EXPECT_EQ(numbers(keys), (Numbers{8}));
  EXPECT_EQ(numbers(values), (Numbers{3}));

  // Erased rows leave nothing behind, and an entry costs the same in a table of any size.
  for (int i = 0; i < 20000; ++i) counts.insert(ls::constant({i}), ls::constant({1.0 * i}));
  for (int i = 0; i < 20000; i += 2) counts.remove(ls::constant({i}));
  EXPECT_EQ(counts.size(), 10000);
  EXPECT_EQ(numbers(counts.lookup(ls::constant({0, 1, 19998, 19999}))), (Numbers{0.5, 1, 0.5, 19999}));
  EXPECT_EQ(counts.export_all().first.shape(), (ls::Shape{10000}));

  // tf.lookup.StaticVocabularyTable(init, 4).lookup(["emerson", "lake", "palmer", "and", "king"]): 0, 1, 2, 4, 5.
  const ls::lookup::StaticVocabularyTable ids(
      {ls::constant({"emerson", "lake", "palmer"}), tf::cast(ls::constant({0, 1, 2}), ls::int64)}, 4);
  EXPECT_EQ(numbers(ids.lookup(ls::constant({"emerson", "lake", "palmer", "and", "king"}))), (Numbers{0, 1, 2, 4, 5}));
  EXPECT_EQ(ids.size(), 7);
}

TEST(LoopsTest, FunctionsOfTensorFlowRunAtOnceAndAreDifferentiated) {
  const auto [i, sum] = ls::while_loop([](const Tensor& i, const Tensor&) { return i < 5; },
                                       [](const Tensor& i, const Tensor& s) {
                                         return std::pair{i + 1, s + tf::cast(i, ls::float32)};
                                       },
                                       {ls::constant(0), ls::constant(0.0)});
  EXPECT_EQ(sum.item<float>(), 10);
  EXPECT_EQ(i.item<int>(), 5);
  EXPECT_EQ(tf::cond(
                ls::constant(3) > 2, [] { return 1; }, [] { return 2; }),
            1);
  const Tensor x = {1.0, 2.0, 3.0};
  EXPECT_EQ(numbers(ls::map_fn([](const Tensor& row) { return row * row; }, x)), (Numbers{1, 4, 9}));
  EXPECT_EQ(numbers(ls::scan([](const Tensor& a, const Tensor& row) { return a + row; }, x)), (Numbers{1, 3, 6}));
  EXPECT_EQ(numbers(ls::scan([](const Tensor& a, const Tensor& row) { return a + row; }, x, {.reverse = true})),
            (Numbers{6, 5, 3}));
  EXPECT_EQ(numbers(ls::foldl([](const Tensor& a, const Tensor& row) { return a * 10 + row; }, x)), (Numbers{123}));
  EXPECT_EQ(numbers(ls::foldr([](const Tensor& a, const Tensor& row) { return a * 10 + row; }, x)), (Numbers{321}));
  const auto [sums, products] = ls::map_fn(
      [](const Tensor& a, const Tensor& b) {
        return std::pair{a + b, a * b};
      },
      {x, x});
  EXPECT_EQ(numbers(sums), (Numbers{2, 4, 6}));
  EXPECT_EQ(numbers(products), (Numbers{1, 4, 9}));
  ls::GradientTape tape;
  tape.watch(x);
  const Tensor power = ls::foldl([](const Tensor& a, const Tensor& row) { return a * row; }, x);
  EXPECT_EQ(numbers(tape.gradient(power, x)), (Numbers{6, 3, 2}));
  EXPECT_NE(error_of([&] {
              ls::map_fn([](const Tensor& a, const Tensor& b) { return a + b; }, {x, ls::constant({1.0})});
            }).find("same number of rows; found 3 and 1"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              tf::cond(
                  tf::reduce_sum(ls::Input({4})) > 0.0, [] { return 1; }, [] { return 2; });
            }).find("known when they are called"),
            std::string::npos);
}

TEST(LoopsTest, FunctionsOfKerasOps) {
  const Tensor x = {1.0, 2.0, 3.0};
  const auto [carry, outputs] = kops::scan(
      [](const Tensor& c, const Tensor& row) {
        return std::pair{c + row, c * row};
      },
      ls::constant(1.0), x);
  EXPECT_EQ(numbers(carry), (Numbers{7}));
  EXPECT_EQ(numbers(outputs), (Numbers{1, 4, 12}));
  EXPECT_EQ(numbers(kops::map([](const Tensor& row) { return row + 1; }, x)), (Numbers{2, 3, 4}));
  EXPECT_EQ(
      numbers(kops::fori_loop(
          0, 4, [](const Tensor& i, const Tensor& v) { return v + tf::cast(i, ls::float32); }, ls::constant(1.0))),
      (Numbers{7}));
}

TEST(TapesTest, KnowTheTensorsThatTheyWatch) {
  const Tensor a = ls::constant(2.0), b = ls::constant(3.0);
  {
    ls::GradientTape tape;
    tape.watch(a);
    tape.watch(b);
    const auto gradients = tape.gradient(a * b, {{"a", a}, {"b", b}});
    EXPECT_EQ(numbers(gradients["a"]), (Numbers{3}));
    EXPECT_EQ(numbers(gradients["b"]), (Numbers{2}));
  }
  // A tensor that only another tape has watched has no gradient.
  ls::GradientTape outer;
  outer.watch(a);
  ls::GradientTape inner({.persistent = true});
  inner.watch(b);
  const Tensor product = a * b, twice = product * 2.0;
  EXPECT_FALSE(inner.gradient(product, a).defined());
  EXPECT_FALSE(inner.jacobian(product, a).defined());
  EXPECT_EQ(numbers(inner.gradient(product, b)), (Numbers{2}));
  EXPECT_EQ(numbers(inner.gradient(twice, product)), (Numbers{2}));
  const ls::Variable v(5.0);
  ls::GradientTape mixed;
  mixed.watch(b);
  const auto [dv, db] = mixed.gradient(v * b, {v.value(), b});
  EXPECT_EQ(numbers(db), (Numbers{5}));
  EXPECT_EQ(numbers(dv), (Numbers{3}));
}

}  // namespace tables_and_loops
