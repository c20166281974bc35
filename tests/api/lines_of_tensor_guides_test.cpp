// Lines of TensorFlow's guides on slices, sparse tensors, modules and datasets. Numbers are those of TensorFlow 2.21.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace tf = lockstep::tf;
namespace keras = lockstep::keras;
using ls::Tensor;

namespace lines_of_tensor_guides {

TEST(TensorGuides, SparseTensorsTimesAndOverDenseOnes) {
  const auto st = tf::sparse::from_dense({{1, 0, 0, 8}, {0, 0, 0, 0}, {0, 0, 3, 0}});
  EXPECT_EQ(numbers((st * 2).values()), (Numbers{2, 16, 6}));
  EXPECT_EQ(numbers((2 * st).values()), (Numbers{2, 16, 6}));
  EXPECT_EQ(numbers((tf::cast(st, tf::float32) / 2.).values()), (Numbers{0.5, 4, 1.5}));
  EXPECT_EQ(numbers((st * Tensor{{1, 2, 3, 4}}).values()), (Numbers{1, 32, 9}));
  EXPECT_EQ(numbers((st * Tensor{{1}, {2}, {3}}).values()), (Numbers{1, 8, 9}));
}

TEST(TensorGuides, StridedSlicesByName) {
  EXPECT_EQ(numbers(tf::strided_slice(tf::range(8), {.begin = {1}, .end = {7}, .strides = {2}})), (Numbers{1, 3, 5}));
}

TEST(TensorGuides, SparseAndRaggedInputsByName) {
  const auto x = keras::Input({.shape = {4}, .sparse = true});
  const auto y = keras::Input({.shape = {ls::None}, .dtype = "int32", .ragged = true, .name = "words"});
  EXPECT_EQ(x.shape(), (ls::Shape{ls::kUnknownDim, 4}));
  EXPECT_EQ(y.dtype(), ls::int32);
}

class Steps : public tf::Module {
 public:
  tf::Variable v = track("v", tf::Variable(2.0));
  tf::Function state = track("state", tf::function([this] { return v * 2.0; }));
};

// TensorFlow saves functions without arguments that were never called, as a signature, too.
TEST(TensorGuides, FunctionsWithoutArgumentsAreSaved) {
  const Steps module;
  const std::string folder = testing::TempDir() + "/steps";
  tf::saved_model::save(module, folder);
  const auto loaded = tf::saved_model::load(folder);
  EXPECT_EQ(float(loaded.call("state").leaf()), 4.0F);
  EXPECT_EQ(loaded.signatures().size(), 1U);
  EXPECT_TRUE(loaded.signatures().contains("serving_default"));
}

TEST(TensorGuides, VariablesOfACheckpointPrintAsInPython) {
  const std::string path = testing::TempDir() + "/listed";
  tf::train::Checkpoint({{"w", tf::Variable(tf::zeros({3, 2}))}}).write(path);
  std::ostringstream out;
  out << tf::train::list_variables(path);
  EXPECT_EQ(out.str(), "[('_CHECKPOINTABLE_OBJECT_GRAPH', []), ('w/.ATTRIBUTES/VARIABLE_VALUE', [3, 2])]");
}

TEST(TensorGuides, OptionsWithoutEffect) {
  auto options = tf::data::Options();
  options.autotune.enabled = true;
  options.experimental_optimization.map_parallelization = true;
  options.experimental_slack = false;
  const std::string folder = testing::TempDir() + "/snapshot_with_options";
  if (ls::io::gfile::exists(folder)) ls::io::gfile::rmtree(folder);
  const auto dataset = tf::data::Dataset::range(3).with_options(options).snapshot(folder, {.compression = "GZIP"});
  std::int64_t count = 0;
  for (const auto& x : dataset) count += int(x);
  EXPECT_EQ(count, 3);
}

}  // namespace lines_of_tensor_guides
