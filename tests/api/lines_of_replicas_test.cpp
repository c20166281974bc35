// Lines of programs on replicas, callbacks and datasets, as literally as C++ permits.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "lockstep/lockstep.h"
#include "lockstep/ops/examples.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
using ls::Tensor;
using ls::data::Dataset;

namespace lines_of_replicas {

TEST(ReplicaLines, StructuresAreReducedAndDictsOfResultsHaveEntries) {
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto results = strategy.run([] {
    const auto context = ls::distribute::get_replica_context();
    const Tensor v = ls::constant({1., 2.}) * (context->replica_id_in_sync_group() + 1);
    const auto means = context->all_reduce("MEAN", {{"a", v}, {"b", v * 2}});
    return std::map<std::string, Tensor>{
        {"a", means["a"]}, {"b", means["b"]}, {"g", context->all_gather(v, {.axis = 0})}};
  });
  EXPECT_EQ(numbers(results["a"][0]), (Numbers{1.5, 3}));
  EXPECT_EQ(numbers(results["b"][1]), (Numbers{3, 6}));
  EXPECT_EQ(numbers(results["g"][1]), (Numbers{1, 2, 2, 4}));
}

class Names : public keras::Callback {
 public:
  void on_train_begin(const keras::Logs&) override { epochs = params()["epochs"], steps = params()["steps"]; }
  void on_epoch_end(int, const keras::Logs& logs) override { names = logs.keys(), values = logs.values().size(); }
  static inline std::int64_t epochs, steps;
  static inline std::vector<std::string> names;
  static inline std::size_t values;
};

TEST(ReplicaLines, CallbacksSeeTheirParametersAndTheNamesOfLogs) {
  keras::Sequential model({keras::Input({2}), keras::layers::Dense(1)});
  model.compile("sgd", "mse", {.metrics = {"mae"}});
  model.fit(ls::ops::ones({6, 2}), ls::ops::ones({6, 1}),
            {.batch_size = 2, .epochs = 2, .verbose = 0, .callbacks = {Names()}});
  EXPECT_EQ(Names::epochs, 2);
  EXPECT_EQ(Names::steps, 3);
  EXPECT_EQ(Names::names, (std::vector<std::string>{"loss", "mae"}));
  EXPECT_EQ(Names::values, 2U);
  EXPECT_EQ(model.evaluate(ls::ops::ones({2, 2}), ls::ops::ones({2, 1}), {.verbose = 0}).keys(), Names::names);
}

TEST(ReplicaLines, PowersTextsShapesAndPairs) {
  const Tensor x = {-1.5, 2.0};
  ls::Variable v(-3.0);
  EXPECT_EQ(numbers(abs(x)), (Numbers{1.5, 2}));
  EXPECT_EQ(numbers(pow(x, 2)), (Numbers{2.25, 4}));
  EXPECT_EQ(float(abs(v)), 3);
  EXPECT_EQ(std::string(ls::constant("abc")), "abc");
  EXPECT_EQ((x.shape() + ls::Shape{3}), (ls::Shape{2, 3}));
  EXPECT_FALSE((x.shape() + ls::Shape::unknown_rank()).known_rank());
  for (const auto& [number, zero] : Dataset::range(1, 2).map([](const Tensor& n) { return std::pair{n, 0}; })) {
    EXPECT_EQ(int(number), 1);
    EXPECT_EQ(zero.dtype(), ls::int32);
  }
  for (const auto& text : Dataset::from_tensor_slices({"a"}).as_numpy_iterator()) EXPECT_EQ(std::string(text), "a");
  const keras::activations::ActivationPtr relu =
      keras::saving::deserialize_keras_object(keras::saving::serialize_keras_object(keras::activations::get("relu")));
  EXPECT_EQ(numbers(relu(x)), (Numbers{0, 2}));
  ls::train::Example example;
  example.features.feature["x"].float_list = ls::train::FloatList({.value = {1.5}});
  const auto read = ls::train::Example::FromString(example.SerializeToString());
  EXPECT_EQ(read.features.feature.at("x").float_list.value, (std::vector<float>{1.5}));
  EXPECT_TRUE(read.features.feature.at("x").int64_list.value.empty());
}

// TensorFlow's draws for the same seeds.
TEST(ReplicaLines, RejectionResampleDrawsWhatTensorFlowDraws) {
  // Without a global seed, whatever other tests of the process set.
  ls::Json random_state = ls::random::save_state();
  random_state["global_seed"] = nullptr;
  ls::random::restore_state(random_state);
  const auto table =
      Dataset::from_tensor_slices({ls::ops::range(60), ls::ops::cast(ls::ops::range(60) % 5 == 0, ls::int32)});
  const auto its_class = [](const Tensor&, const Tensor& y) { return y; };
  const auto drawn = [](const Dataset& dataset) {
    Numbers out;
    for (const auto& [label, element] : dataset) {
      const auto& [x, y] = element;
      EXPECT_EQ(int(label), int(y));
      out.push_back(int(x));
    }
    return out;
  };
  EXPECT_EQ(
      drawn(table.rejection_resample(its_class, {.target_dist = {0.5, 0.5}, .initial_dist = {0.8, 0.2}, .seed = 5})),
      (Numbers{0,  1,  2,  0,  5,  3,  10, 4,  5,  6,  7,  15, 8,  9,  10, 20, 25, 11,
               30, 35, 12, 13, 14, 40, 15, 16, 45, 50, 17, 55, 18, 19, 20, 21, 22}));
  EXPECT_EQ(drawn(table.rejection_resample(its_class, {0.2, 0.8}, {}, 9)),
            (Numbers{0, 0, 5, 10, 15, 20, 25, 30, 1, 2, 35, 3, 40, 45, 4, 5, 6, 7, 8, 9, 50, 55}));
}

}  // namespace lines_of_replicas
