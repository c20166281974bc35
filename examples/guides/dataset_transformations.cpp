// Transformations of datasets: groups, buckets, mixtures of datasets, states, caches and saved datasets.
#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;
using ls::data::Dataset;
using ls::data::Element;

}  // namespace

void dataset_transformations(const std::string& folder) {
  ls::random::set_random_seed(8);

  // scan: running sums, and a state that is a tuple.
  const auto sums =
      Dataset::range(6).scan(ls::constant(0, ls::int64), [](const ls::Tensor& state, const ls::Tensor& i) {
        return std::pair{state + i, state + i};
      });
  for (const ls::Tensor& n : sums) report("sum", n);
  const auto fibonacci =
      Dataset::range(8).scan({ls::constant(0), ls::constant(1)}, [](const Element& state, const Element&) {
        return std::pair{Element{state[1], ls::Tensor(state[0]) + state[1]}, state[0]};
      });
  for (const ls::Tensor& n : fibonacci) report("fibonacci", n);

  // unique
  for (const ls::Tensor& n : Dataset::from_tensor_slices({1, 37, 2, 37, 2, 1}).unique()) report("unique", n);

  // group_by_window: odd and even numbers.
  constexpr std::int64_t window_size = 5;
  const auto grouped = Dataset::range(14).group_by_window(
      [](const ls::Tensor& x) { return x % 2; },
      [](std::int64_t, const Dataset& window) { return window.batch(window_size); }, {.window_size = window_size});
  for (const ls::Tensor& batch : grouped)
    report("group", ops::reduce_sum(batch * ops::cast(ops::range(1, batch.dim(0) + 1), ls::int64)));
  const auto by_size = Dataset::range(12).group_by_window(
      [](const ls::Tensor& x) { return x % 3; },
      [](std::int64_t key, const Dataset& window) {
        return window.batch(10).map([key](const ls::Tensor& b) { return b * 10 + key; });
      },
      {.window_size_func = [](std::int64_t key) { return key + 1; }});
  for (const ls::Tensor& batch : by_size) {
    report("size", static_cast<double>(batch.dim(0)));
    report("first", batch[0]);
  }

  // bucket_by_sequence_length: sentences of similar length in a batch.
  const std::vector<std::vector<std::int64_t>> elements = {
      {0}, {1, 2, 3, 4}, {5, 6, 7}, {7, 8, 9, 10, 11}, {13, 14, 15, 16, 19, 20}, {21, 22}};
  const auto sentences = Dataset::from_generator(
      [elements] {
        return [elements, i = std::size_t{0}]() mutable -> std::optional<Element> {
          if (i == elements.size()) return std::nullopt;
          return ls::Tensor::from_vector(elements[i++]);
        };
      },
      ls::data::TensorSpec({ls::kUnknownDim}, ls::int64));
  const auto length = [](const ls::Tensor& elem) { return elem.dim(0); };
  for (const ls::data::BucketOptions& options :
       {ls::data::BucketOptions{}, {.drop_remainder = true}, {.padding_values = -1}}) {
    for (const ls::Tensor& batch : sentences.bucket_by_sequence_length(length, {3, 5}, {2, 2, 2}, options)) {
      report("rows", static_cast<double>(batch.dim(0)));
      report("columns", static_cast<double>(batch.dim(1)));
      report("bucket", ops::reduce_sum(batch));
    }
  }
  const auto bounded =
      sentences.take(3).bucket_by_sequence_length(length, {3, 7}, {2, 2, 2}, {.pad_to_bucket_boundary = true});
  for (const ls::Tensor& batch : bounded) report("width", static_cast<double>(batch.dim(1)));

  // Mixtures.
  const auto zero = Dataset::range(0, 6), one = Dataset::range(100, 110);
  for (const ls::Tensor& n : Dataset::sample_from_datasets({zero, one}, {.weights = {0.3, 0.7}, .seed = 3}))
    report("sample", n);
  const auto mixture =
      Dataset::sample_from_datasets({zero.repeat(), one.repeat(), zero}, {.stop_on_empty_dataset = true});
  for (const ls::Tensor& n : mixture.take(20)) report("mixture", n);
  for (const ls::Tensor& n : Dataset::choose_from_datasets({zero, one}, Dataset::range(2).repeat(), false))
    report("choice", n);
  const auto random = Dataset::random({.seed = 4}).take(3);
  for (const ls::Tensor& n : random.concatenate(random)) report("random", n % 1000);
  for (const ls::Tensor& n : Dataset::random({.seed = 4, .rerandomize_each_iteration = true}).take(3).repeat(2))
    report("rerandomized", n % 1000);

  // Other batches, one element, errors.
  for (const ls::Tensor& batch : Dataset::range(7).batch(3).rebatch(2)) report("rebatch", ops::reduce_sum(batch));
  const auto total = Dataset::range(5).batch(10).map([](const ls::Tensor& x) { return ops::reduce_sum(x); });
  report("single", total.get_single_element());
  for (const ls::Tensor& n : Dataset::counter(3, 2).take(3)) report("counter", n);

  // A cache in a file, and a saved dataset.
  const auto calls = std::make_shared<int>(0);
  const auto count = [calls](const ls::Tensor& x) {
    ++*calls;
    return x * 2;
  };
  const auto sum_of = [](const Dataset& dataset) {
    int sum = 0;
    for (const ls::Tensor& n : dataset) sum += int(n);
    return sum;
  };
  const auto cached = Dataset::range(4).map(count).cache(folder + "/cache");
  report("cached", sum_of(cached) + sum_of(cached));
  report("calls", *calls);
  report("again", sum_of(Dataset::range(4).map(count).cache(folder + "/cache")));
  const auto pairs = Dataset::from_tensor_slices(
      {{{"x", waves({5, 2}, 0.3)}, {"name", ls::Tensor{"a", "bb", "", "d", "e"}}}, ls::Tensor{1, 2, 3, 4, 5}});
  pairs.save(folder + "/saved");
  const auto loaded = Dataset::load(folder + "/saved");
  report("cardinality", static_cast<double>(loaded.cardinality()));
  for (const auto& [features, label] : loaded.shuffle(5, {.seed = 2})) {
    report("x", ops::reduce_sum(features["x"]));
    report("name", ls::strings::length(features["name"]));
    report("label", label);
  }

  keras::Sequential model({layers::Input({2}), layers::Dense(1)});
  model.compile({.optimizer = "sgd", .loss = "mse"});
  const auto batches = loaded.map([](const Element& f, const Element& y) { return Element{f["x"], y}; }).batch(2);
  report("loss", model.fit(batches, {.epochs = 2, .verbose = 0}).history["loss"].back());
  model.save(folder + "/model.keras");
}
