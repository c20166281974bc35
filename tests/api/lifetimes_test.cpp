// Results of temporaries, ranges of temporaries, functions that keep what they captured, handles that were moved from:
// nothing refers to an object that has ended. The address sanitizer sees what these tests cannot.
#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;
namespace ops = lockstep::ops;
using ls::Tensor;
using ls::data::Dataset;
using ls::data::Element;

namespace {

keras::Sequential small_model() {
  return keras::Sequential({layers::Input({2}), layers::Dense(1, {.kernel_initializer = "ones", .name = "out"})});
}

keras::Sequential compiled_model() {
  keras::Sequential model = small_model();
  model.compile({.optimizer = ls::optimizers::SGD(0.1), .loss = "mse", .metrics = {"mae"}});
  return model;
}

// Overwrites memory that was freed.
void churn() {
  for (int i = 0; i < 64; ++i) std::vector<std::string>(64, std::string(100, 'x'));
}

TEST(Lifetimes, ReferencesToResultsOfCalls) {
  const auto layer = layers::Dense(1, {.kernel_initializer = "ones"});
  const Tensor x = {{1.0, 2.0}};
  const Tensor& y = layer(x);
  const Tensor& leaf = layer(x).leaf();
  const ls::Shape& shape = layer(x).shape();
  const ls::Shape& of_sum = (x + 1.0).shape();
  const auto& dims = (x + 1.0).shape().dims();
  const auto& part = keras::Structure{x, x + 1.0}[1];
  const auto& entry = keras::Structure{{"a", x}, {"b", x + 1.0}}.at("b");
  churn();
  EXPECT_EQ(float(y), 3);
  EXPECT_EQ(float(leaf), 3);
  EXPECT_EQ(shape, (ls::Shape{1, 1}));
  EXPECT_EQ(of_sum, (ls::Shape{1, 2}));
  EXPECT_EQ(dims, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(float(ops::reduce_sum(part)), 5);
  EXPECT_EQ(float(ops::reduce_sum(entry)), 5);
  const std::string& name = layers::Dense(1, {.name = "mine"}).name();
  const auto& config = layers::Dense(7).get_config()["units"];
  const auto& texts = ls::strings::lower(Tensor{"A", "B"}).string_values();
  churn();
  EXPECT_EQ(name, "mine");
  EXPECT_EQ(config, 7);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "b"}));
}

TEST(Lifetimes, RangesOverTemporaries) {
  float sum = 0;
  for (const auto& part : keras::Structure{Tensor{1.0}, Tensor{2.0}}.parts()) sum += float(part.leaf());
  for (const auto& [key, part] : keras::Structure{{"a", Tensor{3.0}}}.entries()) sum += float(part.leaf());
  for (const std::int64_t dim : ops::ones({4, 5}).shape().dims()) sum += static_cast<float>(dim);
  for (const auto& variable : small_model().trainable_variables()) sum += float(ops::reduce_sum(variable));
  for (const std::string& text : ls::strings::upper(Tensor{"a", "b"}).string_values())
    sum += static_cast<float>(text.size());
  for (const auto& layer : small_model().get_config()["layers"])
    sum += static_cast<float>(layer.at("class_name").text().size());
  EXPECT_EQ(sum, 1 + 2 + 3 + 9 + 2 + 2 + 10 + 5);
  std::vector<std::string> names;
  const Tensor x = {{1.0, 2.0}}, y = {{1.0}};
  for (const auto& [name, values] : compiled_model().fit(x, y, {.verbose = 0}).history) names.push_back(name);
  for (const auto& [name, value] : compiled_model().evaluate(x, y, {.verbose = 0})) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "mae", "loss", "mae"}));
  const keras::LogValue& loss = compiled_model().evaluate(x, y, {.verbose = 0})["loss"];
  churn();
  EXPECT_EQ(double(loss), 4);
  EXPECT_EQ(compiled_model().fit(x, y, {.verbose = 0}).history.at("loss").size(), 1);
}

TEST(Lifetimes, DatasetsKeepWhatTheyNeed) {
  const auto make = [](double factor) {
    const Tensor scale = ops::ones({}) * factor;
    return Dataset::from_tensor_slices({Tensor{1.0, 2.0, 3.0, 4.0}, Tensor{1.0, 0.0, 1.0, 0.0}})
        .map([scale](const Tensor& x, const Tensor& y) {
          return Element{x * scale, y};
        })
        .filter([limit = 15.0](const Tensor& x, const Tensor&) { return double(x) < limit; })
        .batch(2);
  };
  float sum = 0;
  for (const auto& [x, y] : make(10).take(3)) sum += float(ops::reduce_sum(x));
  for (const auto& [i, element] : make(1).enumerate()) sum += float(ops::reduce_sum(element[0]));
  for (const auto& [x, y] : make(2).parts<2>()) sum += float(ops::reduce_sum(x));
  EXPECT_EQ(sum, 10 + 10 + 20);
  const auto& [first, label] = *make(1).begin();
  const Element& element = *make(1).take(1).begin();
  churn();
  EXPECT_EQ(float(ops::reduce_sum(first)), 3);
  EXPECT_EQ(float(ops::reduce_sum(element[0])), 3);
  auto iterator = make(1).make_iterator();
  churn();
  EXPECT_EQ(float(ops::reduce_sum((*iterator.next())[0])), 3);
}

TEST(Lifetimes, ReplicasOfTemporaries) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto dataset = Dataset::from_tensor_slices(Tensor{1.0, 2.0, 3.0, 4.0}).batch(4);
  float sum = 0;
  for (const auto& batch : strategy.experimental_distribute_dataset(dataset)) {
    const auto step = [](const Tensor& x) { return ops::reduce_sum(x); };
    for (const Tensor& part : strategy.experimental_local_results(strategy.run(step, batch))) sum += float(part);
  }
  const auto& batch = *strategy.experimental_distribute_dataset(dataset).begin();
  churn();
  EXPECT_EQ(float(ops::reduce_sum(batch[1])), 7);
  EXPECT_EQ(sum, 10);
  EXPECT_THROW((void)*ls::distribute::DistributedDataset::Iterator(), ls::errors::OutOfRangeError);
}

TEST(Lifetimes, MovedFromHandles) {
  Dataset dataset = Dataset::range(3);
  const Dataset taken = std::move(dataset);
  EXPECT_EQ(dataset.cardinality(), 3);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(taken.batch(2).cardinality(), 2);
  auto iterator = taken.make_iterator();
  auto other = std::move(iterator);
  EXPECT_THROW((void)iterator.next(), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)iterator.skip(1), ls::errors::FailedPreconditionError);
  EXPECT_THROW((void)iterator.save_state(), ls::errors::FailedPreconditionError);
  EXPECT_EQ(std::int64_t(other.next()->leaf()), 0);
  EXPECT_THROW((void)Dataset(std::shared_ptr<const ls::data::DatasetNode>()), ls::errors::InvalidArgumentError);
  ls::data::DatasetInputIterator end;
  EXPECT_THROW(++end, ls::errors::OutOfRangeError);

  keras::LayerHandle layer = layers::Dense(1);
  const keras::LayerHandle kept = std::move(layer);
  EXPECT_THROW((void)layer(Tensor{{1.0}}), ls::errors::FailedPreconditionError);
  EXPECT_EQ(kept(Tensor{{1.0}}).shape(), (ls::Shape{1, 1}));
  ls::Variable variable(1.0);
  const ls::Variable moved = std::move(variable);
  EXPECT_THROW((void)variable.read(), ls::errors::FailedPreconditionError);
  keras::Sequential model = small_model();
  const keras::Sequential same = std::move(model);
  EXPECT_EQ(model.count_params(), same.count_params());
  ls::train::Checkpoint checkpoint({{"model", model}});
  const ls::train::Checkpoint kept_checkpoint = std::move(checkpoint);
  EXPECT_NO_THROW(checkpoint.wait());
  EXPECT_NO_THROW((void)checkpoint.save_counter());
  Tensor tensor = ops::ones({2});
  const Tensor value = std::move(tensor);
  EXPECT_THROW((void)(tensor + 1.0), ls::errors::InvalidArgumentError);
}

TEST(Lifetimes, CheckpointsOfTemporaries) {
  const std::string prefix = ::testing::TempDir() + "lifetimes/ckpt";
  const auto model = small_model();
  const std::string path = ls::train::Checkpoint({{"model", model}}).save(prefix);
  const auto& status = ls::train::Checkpoint({{"model", small_model()}}).restore(path).expect_partial();
  churn();
  EXPECT_NO_THROW(status.assert_existing_objects_matched());
}

}  // namespace
