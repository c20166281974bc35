// Lines of TensorFlow's guide to ragged tensors and of its guides to random numbers, checkpoints and functions.
// Expected numbers: TensorFlow 2.21.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace ops = lockstep::ops;
using ls::Tensor;
using ls::data::Dataset;

// Named: units of a build hold several files.
namespace ragged_datasets {

std::vector<std::string> texts(const Dataset& dataset) {
  std::vector<std::string> all;
  for (const ls::RaggedTensor each : dataset) all.push_back(each.to_string());
  return all;
}
using Texts = std::vector<std::string>;
ls::RaggedTensor digits() { return ls::ragged::constant({{3, 1, 4, 1}, {}, {5, 9, 2}, {6}, {}}); }

TEST(RaggedDatasets, RowsAreTensorsAndTheirBatchesRagged) {
  const auto ds = Dataset::from_tensor_slices(digits());
  std::vector<Numbers> rows;
  for (const Tensor& row : ds) rows.push_back(numbers(row));
  EXPECT_EQ(rows, (std::vector<Numbers>{{3, 1, 4, 1}, {}, {5, 9, 2}, {6}, {}}));
  EXPECT_EQ(texts(ds.batch(2)), (Texts{"[[3, 1, 4, 1], []]", "[[5, 9, 2], [6]]", "[[]]"}));
  EXPECT_EQ(texts(ds.shuffle(1).repeat(2).batch(4).take(1)), (Texts{"[[3, 1, 4, 1], [], [5, 9, 2], [6]]"}));
  std::vector<Numbers> sums;
  const auto sum = [](const ls::RaggedTensor& rows_of) { return ops::reduce_sum(rows_of, {.axis = 1}); };
  for (const Tensor& each : ds.batch(2).map(sum)) sums.push_back(numbers(each));
  EXPECT_EQ(sums, (std::vector<Numbers>{{9, 0}, {16, 6}, {0}}));
  rows.clear();
  for (const Tensor& row : ds.batch(5).unbatch()) rows.push_back(numbers(row));
  EXPECT_EQ(rows, (std::vector<Numbers>{{3, 1, 4, 1}, {}, {5, 9, 2}, {6}, {}}));
}

TEST(RaggedDatasets, ManyRows) {
  const auto rows = ls::RaggedTensor::from_row_lengths(ops::range(100000), ops::ones({100000}, ls::int64));
  std::int64_t read = 0;
  for (const Tensor& row : Dataset::from_tensor_slices(rows)) read += row.dim(0);
  EXPECT_EQ(read, 100000);
}

TEST(RaggedDatasets, BatchesOfRaggedAndOtherElementsAreErrors) {
  const auto mixed = Dataset::from_tensors(digits()).concatenate(Dataset::from_tensors(ops::range(5)));
  EXPECT_THROW(texts(mixed.batch(2)), ls::errors::InvalidArgumentError);
}

TEST(RaggedDatasets, OfSeveralRaggedAxes) {
  const auto deep = Dataset::from_tensor_slices(ls::ragged::constant({{{1, 2}, {}}, {{3}}}));
  EXPECT_EQ(texts(deep), (Texts{"[[1, 2], []]", "[[3]]"}));
  EXPECT_EQ(texts(deep.batch(2)), (Texts{"[[[1, 2], []], [[3]]]"}));
}

TEST(RaggedDatasets, InDicts) {
  const auto ds = Dataset::from_tensor_slices({{"r", digits()}, {"n", ops::range(5)}});
  std::vector<double> totals;
  const auto total = [](const ls::data::Element& d) { return ops::reduce_sum(Tensor(d["r"])) + Tensor(d["n"]); };
  for (const Tensor& each : ds.map(total)) totals.push_back(double(each));
  EXPECT_EQ(totals, (Numbers{9, 1, 18, 9, 4}));
  std::vector<std::string> batches;
  for (const auto& batch : ds.batch(3)) batches.push_back(ls::RaggedTensor(batch["r"]).to_string());
  EXPECT_EQ(batches, (Texts{"[[3, 1, 4, 1], [], [5, 9, 2]]", "[[6], []]"}));
}

TEST(RaggedDatasets, MapTakesAndReturnsThem) {
  const auto ds = Dataset::from_tensors(digits()).map([](const ls::RaggedTensor& rows) { return rows + 1; });
  EXPECT_EQ(texts(ds), (Texts{"[[4, 2, 5, 2], [], [6, 10, 3], [7], []]"}));
  for (const Tensor& dense : ds.map([](const ls::RaggedTensor& rows) { return rows.to_tensor(); }))
    EXPECT_EQ(dense.shape(), (ls::Shape{5, 4}));
  const auto words = Dataset::from_tensor_slices(Tensor{"a b", "c", ""}).batch(2).map([](const Tensor& lines) {
    return ls::strings::split(lines);
  });
  EXPECT_EQ(texts(words), (Texts{"[[b'a', b'b'], [b'c']]", "[[]]"}));
}

TEST(RaggedDatasets, RaggedBatch) {
  const auto ds = Dataset::range(4).map([](const Tensor& n) { return std::pair{ops::range(n), n}; });
  int batches = 0;
  for (const auto& [rows, n] : ds.ragged_batch(3, {.drop_remainder = true})) {
    EXPECT_EQ(ls::RaggedTensor(rows).to_string(), "[[], [0], [0, 1]]");
    EXPECT_EQ(numbers(n), (Numbers{0, 1, 2}));
    ++batches;
  }
  EXPECT_EQ(batches, 1);
  for (const Tensor& each : Dataset::from_tensor_slices(ops::ones({4, 3})).ragged_batch(2))
    EXPECT_EQ(each.shape(), (ls::Shape{2, 3}));
}

TEST(RaggedDatasets, OptionsByName) {
  const auto ds = Dataset::range(6).skip({.count = 1}).take({.count = 3}).repeat({.count = 2});
  EXPECT_EQ(ds.cardinality(), 6);
  for (const Tensor& batch : Dataset::from_tensor_slices(digits())
                                 .map([](const Tensor& row) { return row; })
                                 .padded_batch(5, {.padding_values = -1}))
    EXPECT_EQ(numbers(batch[3]), (Numbers{6, -1, -1, -1}));
  EXPECT_EQ(numbers(ops::linspace(0.0, 1.0, {.num = 3})), (Numbers{0, 0.5, 1}));
}

TEST(RaggedTensors, PartsOfTexts) {
  const auto words = ls::strings::split(Tensor{"she is", "a witch here"}, " ");
  EXPECT_EQ(words.row_lengths().to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(words[1][2], "here");
  const auto hashed = ls::strings::to_hash_bucket_fast(words, 1000);
  EXPECT_EQ(hashed.to_tensor().shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(ls::strings::upper(words).to_string(), "[[b'SHE', b'IS'], [b'A', b'WITCH', b'HERE']]");
  const Tensor values = ls::strings::to_number(ls::strings::split(Tensor{"1,2", "3,4"}, ","));
  EXPECT_EQ(numbers(values), (Numbers{1, 2, 3, 4}));
  EXPECT_THROW((void)Tensor(words), ls::errors::FailedPreconditionError);
}

TEST(RaggedTensors, FromSparse) {
  const auto st = ls::SparseTensor({.indices = {{0, 0}, {2, 0}, {2, 1}}, .values = {1, 2, 3}, .dense_shape = {3, 3}});
  EXPECT_EQ(ls::RaggedTensor::from_sparse(st).to_string(), "[[1], [], [2, 3]]");
  const auto gap = ls::SparseTensor({.indices = {{0, 1}}, .values = {1}, .dense_shape = {1, 3}});
  EXPECT_THROW(ls::RaggedTensor::from_sparse(gap), ls::errors::InvalidArgumentError);
  const auto lengths = ls::ragged::constant({{{1, 2}, {3}}, {{4, 5, 6}}}).nested_row_lengths();
  EXPECT_EQ(numbers(lengths[0]), (Numbers{2, 1}));
  EXPECT_EQ(numbers(lengths[1]), (Numbers{2, 1, 3}));
}

TEST(Generators, ByName) {
  auto g = ls::random::Generator::from_seed(1234);
  const auto u = numbers(g.uniform({.shape = {2}, .minval = 0, .maxval = 10}));
  EXPECT_NEAR(u[0], 3.581475, 1e-6);
  EXPECT_NEAR(u[1], 1.1322761, 1e-6);
  EXPECT_EQ(g.normal({.shape = {2, 3}, .mean = 1.0}).shape(), (ls::Shape{2, 3}));
  EXPECT_EQ(g.truncated_normal({.shape = {4}}).shape(), (ls::Shape{4}));
  EXPECT_EQ(numbers(ls::random::Generator::from_state({1, 2, 3}, {.alg = "philox"}).state()), (Numbers{1, 2, 3}));
  EXPECT_THROW(ls::random::Generator::from_state({1, 2, 3}, {.alg = "threefry"}), ls::errors::InvalidArgumentError);
}

TEST(Generators, AreSavedInCheckpoints) {
  auto g = ls::random::Generator::from_seed(1);
  g.normal({});
  ls::train::Checkpoint checkpoint({{"generator", g}});
  const std::string path = checkpoint.write(::testing::TempDir() + "generator" + std::to_string(::getpid()));
  const float next = float(g.normal({}));
  checkpoint.read(path).assert_existing_objects_matched();
  EXPECT_EQ(float(g.normal({})), next);
  std::vector<std::string> names;
  for (const auto& [name, shape] : ls::train::list_variables(path)) names.push_back(name);
  EXPECT_EQ(names, (Texts{"_CHECKPOINTABLE_OBJECT_GRAPH", "generator/_state_var/.ATTRIBUTES/VARIABLE_VALUE"}));
}

TEST(Checkpoints, ObjectsThatAreTrackedLaterAreRestored) {
  const ls::Variable kernel(ops::ones({2}) * 3.f), bias(5.f);
  ls::train::Checkpoint saved({{"net", ls::train::Checkpoint({{"kernel", kernel}, {"bias", bias}})}});
  const std::string path = saved.write(::testing::TempDir() + "later" + std::to_string(::getpid()));
  ls::Variable now(0.f), later(ops::zeros({2}));
  const ls::train::Checkpoint net({{"bias", now}}), root({{"net", net}});
  root.restore(path);
  EXPECT_EQ(float(now), 5.f);
  net.track("kernel", later);
  EXPECT_EQ(numbers(later), (Numbers{3, 3}));
}

TEST(Functions, CheckTheirInputSignature) {
  const auto collatz =
      ls::function([](const Tensor& x) { return ops::where(x % 2 == 0, ops::floordiv(x, 2), 3 * x + 1); },
                   {.input_signature = {ls::TensorSpec({ls::None}, ls::int32)}});
  EXPECT_EQ(numbers(collatz(ls::constant({1, 2}))), (Numbers{4, 1}));
  EXPECT_THROW(collatz(ls::constant({{1, 2}, {3, 4}})), ls::errors::InvalidArgumentError);
  EXPECT_THROW(collatz(ls::constant({1.0, 2.0})), ls::errors::InvalidArgumentError);
}

}  // namespace ragged_datasets
