// Specs of ragged and sparse tensors: of elements of datasets, of generators and of functions. Texts and numbers are
// those of TensorFlow 2.21.
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
using Dataset = lockstep::data::Dataset;
using ls::Tensor;

namespace composite_specs {

template <typename T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

TEST(SpecLines, CompositeSpecsPrint) {
  EXPECT_EQ(text(tf::RaggedTensorSpec({ls::None, ls::None}, tf::int32)),
            "RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64)");
  EXPECT_EQ(text(tf::RaggedTensorSpec({.shape = {4, ls::None, 2}, .ragged_rank = 1})),
            "RaggedTensorSpec(TensorShape([4, None, 2]), tf.float32, 1, tf.int64)");
  EXPECT_EQ(text(tf::SparseTensorSpec({ls::None, 3}, tf::float32)),
            "SparseTensorSpec(TensorShape([None, 3]), tf.float32)");
  const auto rt = tf::ragged::constant({{1, 2, 3}, {}, {4, 5}, {6}});
  const auto spec = tf::RaggedTensorSpec::from_value(rt);
  EXPECT_EQ(text(spec), "RaggedTensorSpec(TensorShape([4, None]), tf.int32, 1, tf.int64)");
  EXPECT_TRUE(tf::type_spec_from_value(rt) == spec);
  EXPECT_FALSE(spec.is_compatible_with(tf::ragged::constant({{1}})));
  EXPECT_THROW(tf::RaggedTensorSpec({2, 3}, tf::int32, 2), ls::Error);
  const auto st = tf::SparseTensor({.indices = {{0, 1}, {1, 2}}, .values = {10.0, 20.0}, .dense_shape = {2, 3}});
  EXPECT_TRUE(tf::SparseTensorSpec({ls::None, 3}, tf::float32).is_compatible_with(st));
  EXPECT_FALSE(tf::SparseTensorSpec({ls::None, 3}, tf::int32).is_compatible_with(st));
}

TEST(SpecLines, ElementSpecsOfRaggedDatasets) {
  const auto rt = tf::ragged::constant({{1, 2, 3}, {}, {4, 5}, {6}});
  const Dataset ds = Dataset::from_tensor_slices(rt);
  EXPECT_EQ(text(ds.element_spec()), "RaggedTensorSpec(TensorShape([None]), tf.int32, 0, tf.int64)");
  EXPECT_EQ(text(ds.batch(2).element_spec()), "RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64)");
  const Dataset summed =
      ds.batch(2).map([](const ls::RaggedTensor& rows) { return tf::reduce_sum(rows, {.axis = 1}); });
  EXPECT_EQ(text(summed.element_spec()), "TensorSpec(shape=(None,), dtype=tf.int32, name=None)");
  EXPECT_EQ(text(Dataset::from_tensors(rt).element_spec()),
            "RaggedTensorSpec(TensorShape([4, None]), tf.int32, 1, tf.int64)");
}

TEST(SpecLines, GeneratorsOfRaggedTensors) {
  int i = 0;
  const auto gen = [i]() mutable -> std::optional<ls::data::Element> {
    ++i;
    if (i == 1) return ls::data::Element{tf::ragged::constant({{1, 2}, {3}}), tf::constant({0, 1})};
    if (i == 2) return ls::data::Element{tf::ragged::constant({{4}}), tf::constant({1})};
    return std::nullopt;
  };
  const Dataset ds = Dataset::from_generator(
      gen, {.output_signature = {tf::RaggedTensorSpec({.shape = {ls::None, ls::None}, .dtype = tf::int32}),
                                 tf::TensorSpec({.shape = {ls::None}, .dtype = tf::int32})}});
  EXPECT_EQ(text(ds.element_spec()),
            "(RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64), "
            "TensorSpec(shape=(None,), dtype=tf.int32, name=None))");
  std::vector<std::string> rows;
  for (const auto& [a, b] : ds) rows.push_back(text(ls::RaggedTensor(a)));
  EXPECT_EQ(rows.size(), 2U);
}

TEST(SpecLines, FunctionsOfRaggedAndSparseTensors) {
  const auto twice =
      tf::function([](const ls::RaggedTensor& x) { return x * 2; },
                   {.input_signature = {tf::RaggedTensorSpec({.shape = {ls::None, ls::None}, .dtype = tf::int32})}});
  EXPECT_EQ(ls::RaggedTensor(twice(tf::ragged::constant({{1, 2}, {}}))).to_string(), "[[2, 4], []]");
  EXPECT_EQ(error_of([&] { twice(tf::ragged::constant({{1.0}})); }),
            "function: invalid argument 0: found variant (), expected ragged int32 (None, None) of input_signature");
  const auto product =
      tf::function([](const ls::SparseTensor& s, const Tensor& d) { return tf::sparse::sparse_dense_matmul(s, d); },
                   {.input_signature = {tf::SparseTensorSpec({.shape = {ls::None, 3}, .dtype = tf::float32}),
                                        tf::TensorSpec({3, ls::None}, tf::float32)}});
  const auto st = tf::SparseTensor({.indices = {{0, 1}, {1, 2}}, .values = {10.0, 20.0}, .dense_shape = {2, 3}});
  EXPECT_EQ(numbers(product(st, tf::ones({3, 2}))), (Numbers{10, 10, 20, 20}));
  const auto integers = tf::SparseTensor({.indices = {{0, 1}}, .values = {1}, .dense_shape = {2, 3}});
  EXPECT_THROW(product(integers, tf::ones({3, 2})), ls::errors::InvalidArgumentError);
}

}  // namespace composite_specs
