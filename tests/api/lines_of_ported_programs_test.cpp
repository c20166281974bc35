// Lines of guides on variables, ragged and sparse tensors, and of programs with time series and NumPy's functions.
// Numbers are those of TensorFlow 2.21, Keras 3.15 and NumPy.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"
#include "tests/api/results.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace np = lockstep::np;
namespace tf = lockstep::tf;
using ls::Tensor;

namespace lines_of_ported_programs {

TEST(PortedProgramLines, TensorsInBracesAreAssigned) {
  const auto v = tf::Variable({0.0, 0.0});
  const auto s = tf::constant(3.0);
  v.assign({s, 2 * s});
  EXPECT_EQ(numbers(v), (Numbers{3, 6}));
  v.assign_add({1.0, s});
  EXPECT_EQ(numbers(v), (Numbers{4, 9}));
  v.assign_sub({s, s});
  EXPECT_EQ(numbers(v), (Numbers{1, 6}));
  v.assign({7, 8});
  EXPECT_EQ(numbers(v), (Numbers{7, 8}));
  v.assign({v[1], v[0]});
  EXPECT_EQ(numbers(v), (Numbers{8, 7}));
  const auto w = tf::Variable(Tensor{{1, 2}, {3, 4}});
  w[0].assign({tf::constant(7), 8});
  EXPECT_EQ(numbers(w), (Numbers{7, 8, 3, 4}));
  w.assign({tf::constant({5, 6}), tf::constant({7, 8})});
  EXPECT_EQ(numbers(w), (Numbers{5, 6, 7, 8}));
  EXPECT_THROW(v.assign({s, s, s}), ls::Error);
}

TEST(PortedProgramLines, RaggedTensorsAreStacked) {
  const auto x = tf::ragged::constant({{1, 2}, {3}});
  const auto y = tf::ragged::constant({{4}, {5, 6}});
  EXPECT_EQ(tf::stack({x, y}).to_string(), "[[[1, 2], [3]], [[4], [5, 6]]]");
  EXPECT_EQ(tf::stack({x, y}, {.axis = 0}).to_string(), "[[[1, 2], [3]], [[4], [5, 6]]]");
  EXPECT_EQ(tf::stack({x, y}, {.axis = 1}).to_string(), "[[[1, 2], [4]], [[3], [5, 6]]]");
  EXPECT_EQ(tf::stack({x, y}, 1).to_string(), "[[[1, 2], [4]], [[3], [5, 6]]]");
  EXPECT_EQ(tf::ragged::stack({x, y}, {.axis = 1}).to_string(), "[[[1, 2], [4]], [[3], [5, 6]]]");
}

TEST(PortedProgramLines, FunctionsOfSparseTensors) {
  const auto st = tf::sparse::from_dense({{1, 0, 0, 8}, {0, 0, 0, 0}, {0, 0, 3, 0}});
  EXPECT_EQ(numbers(tf::sparse::to_dense(tf::sparse::map_values(tf::add, st, 5))),
            (Numbers{6, 0, 0, 13, 0, 0, 0, 0, 0, 0, 8, 0}));
  EXPECT_EQ(numbers(tf::sparse::to_dense(tf::sparse::map_values(tf::square, st))),
            (Numbers{1, 0, 0, 64, 0, 0, 0, 0, 0, 0, 9, 0}));
  const auto halves = tf::sparse::map_values([](const Tensor& x) { return x / 2; }, st);
  EXPECT_EQ(numbers(halves.values()), (Numbers{0.5, 4, 1.5}));
  EXPECT_EQ(tf::cast(st, tf::float32).dtype(), tf::float32);
  EXPECT_EQ(numbers(tf::cast(st, "float32").values()), (Numbers{1, 8, 3}));
  EXPECT_EQ(numbers(tf::sparse::to_dense(tf::sparse::eye(2))), (Numbers{1, 0, 0, 1}));
}

TEST(PortedProgramLines, NumPySortsByKeyword) {
  const auto x = np::array({{3, 1, 2}, {1, 1, 0}});
  EXPECT_EQ(numbers(np::argsort(x, {.kind = "stable"})), (Numbers{1, 2, 0, 2, 0, 1}));
  EXPECT_EQ(numbers(np::argsort(x, {.axis = 0, .kind = "stable"})), (Numbers{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(numbers(np::sort(x, {.axis = 0})), (Numbers{1, 1, 0, 3, 1, 2}));
  EXPECT_EQ(numbers(np::sort(x)), (Numbers{1, 2, 3, 0, 1, 1}));
  EXPECT_EQ(np::sort(x, 0).dtype(), ls::int64);
}

TEST(PortedProgramLines, TargetsOfTimeSeriesByKeyword) {
  const auto series = np::arange(6.0);
  std::vector<Numbers> rows;
  for (const auto& batch : keras::utils::timeseries_dataset_from_array(
           series, {.targets = ls::None, .sequence_length = 3, .batch_size = 2}))
    rows.push_back(numbers(batch));
  EXPECT_EQ(rows, (std::vector<Numbers>{{0, 1, 2, 1, 2, 3}, {2, 3, 4, 3, 4, 5}}));
  rows.clear();
  for (const auto& [batch, targets] : keras::utils::timeseries_dataset_from_array(
           series, {.targets = series * 10, .sequence_length = 3, .batch_size = 2}))
    rows.push_back(numbers(targets));
  EXPECT_EQ(rows, (std::vector<Numbers>{{0, 10}, {20, 30}}));
}

TEST(PortedProgramLines, FactorsOfAugmentationByPosition) {
  const auto x = np::arange(24).reshape(1, 2, 4, 3).astype("float32");
  const auto gray = layers::RandomGrayscale(1.0)(x, {.training = true});
  expect_near(tf::reduce_mean(gray), {11.31395}, 1e-6);
  const auto inverted = layers::RandomInvert(0.5, {.value_range = {0, 23}, .seed = 3})(x, {.training = true});
  const auto other = layers::RandomInvert({.factor = 0.5, .value_range = {0, 23}, .seed = 3})(x, {.training = true});
  EXPECT_EQ(numbers(inverted), numbers(other));
  EXPECT_EQ(layers::MixUp(0.4).get_config()["alpha"].get<double>(), 0.4);
  const auto kept = layers::RandomErasing(0.0)(x, {.training = true});
  EXPECT_EQ(numbers(kept), numbers(x));
}

TEST(PortedProgramLines, ItemsOfAHistory) {
  keras::Sequential model({keras::Input({1}), layers::Dense(1, {.use_bias = false, .kernel_initializer = "ones"})});
  model.compile(keras::optimizers::SGD(0.25), "mse");
  const auto history = model.fit(np::ones({1, 1}), np::zeros({1, 1}), {.epochs = 3, .verbose = 0});
  for (const auto& [name, values] : history.history) {
    EXPECT_EQ(name, "loss");
    EXPECT_EQ(numbers(values), (Numbers{1, 0.25, 0.0625}));
    EXPECT_EQ(double(values[-1]), 0.0625);
    const ls::List<double> list = values;
    EXPECT_EQ(list, (ls::List<double>{1, 0.25, 0.0625}));
    std::ostringstream out;
    out << name << ": " << values;
    EXPECT_EQ(out.str(), "loss: [1.0, 0.25, 0.0625]");
  }
}

TEST(PortedProgramLines, TheContextOfAReplicaHasADot) {
  tf::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  const auto sums = strategy.run([] {
    const auto context = tf::distribute::get_replica_context();
    const auto id = tf::cast(context.replica_id_in_sync_group(), tf::float32);
    const auto mean = context.all_reduce("MEAN", {{"id", id}});
    const auto all = context.all_gather(tf::reshape(id, {1}), {.axis = 0});
    const auto total = context.merge_call(
        [](tf::distribute::Strategy& of, const auto& ids) { return of.reduce("SUM", ids, {.axis = ls::None}); }, id);
    return tf::distribute::get_replica_context().all_reduce("SUM", id) + mean["id"] + all[1] + total +
           context.num_replicas_in_sync();
  });
  EXPECT_EQ(float(sums[0]), 1 + 0.5 + 1 + 1 + 2);
  EXPECT_EQ(tf::distribute::get_replica_context().num_replicas_in_sync(), 1);
  auto scope = strategy.scope();
  EXPECT_TRUE(tf::distribute::get_replica_context() == nullptr);
  EXPECT_TRUE(tf::distribute::in_cross_replica_context());
  const auto error = error_of([] { (void)tf::distribute::get_replica_context().replica_id_in_sync_group(); });
  EXPECT_NE(error.find("cross-replica"), std::string::npos) << error;
  EXPECT_THROW(tf::distribute::get_replica_context()->all_reduce("SUM", 1.f), ls::errors::FailedPreconditionError);
}

TEST(PortedProgramLines, RowsOfInnerAxesHaveLengths) {
  const auto nested = tf::ragged::constant({{{1, 2}, {3}}, {}, {{4, 5, 6}}});
  EXPECT_EQ(numbers(nested.row_lengths()), (Numbers{2, 0, 1}));
  EXPECT_EQ(numbers(nested.row_lengths({.axis = 1})), (Numbers{2, 0, 1}));
  EXPECT_EQ(nested.row_lengths({.axis = 2}).to_string(), "[[2, 1], [], [3]]");
  EXPECT_EQ(nested.row_lengths(2).to_string(), "[[2, 1], [], [3]]");
  EXPECT_EQ(error_of([&] { nested.row_lengths(3); }), "row_lengths: axis 3 is not one of the ragged axes 1 to 2");
}

TEST(PortedProgramLines, ArraysAsLists) {
  EXPECT_EQ(Tensor({{1, 2}, {3, 4}}).numpy().tolist(), (ls::Json{{1, 2}, {3, 4}}));
  EXPECT_EQ(tf::constant(0.5).numpy().tolist(), ls::Json(0.5));
  EXPECT_EQ(tf::constant({true, false}).numpy().tolist(), (ls::Json{true, false}));
  EXPECT_EQ(tf::constant({"a", "b"}).numpy().tolist(), (ls::Json{"a", "b"}));
  EXPECT_EQ(tf::zeros({2, 0}).numpy().tolist().dump(), "[[],[]]");
}

}  // namespace lines_of_ported_programs
