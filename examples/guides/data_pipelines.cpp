// Input pipelines: sources, transformations, windows, and training on them.
#include "guide.h"

namespace {

using ls::data::Dataset;
using ls::data::Element;
namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;

// A generator.
Dataset::Generator count(std::int32_t stop) {
  return [i = 0, stop]() mutable -> std::optional<Element> {
    if (i >= stop) return std::nullopt;
    return ls::Tensor::scalar(i++);
  };
}

Dataset make_window_dataset(const Dataset& ds, std::int64_t window_size = 5, std::int64_t shift = 1,
                            std::int64_t stride = 1) {
  const auto windows = ds.window(window_size, {.shift = shift, .stride = stride});
  const auto sub_to_batch = [=](const Dataset& sub) { return sub.batch(window_size, true); };
  return windows.flat_map(sub_to_batch);
}

class WaveBatches : public ls::utils::PyDataset {
 public:
  explicit WaveBatches(std::int64_t length) : length(length) {}

  std::int64_t len() const override { return length; }

  Element operator[](std::int64_t index) override {
    return {waves({6, 4}, 0.1 + 0.05 * static_cast<double>(index)), labels(6, 3, index + 1)};
  }

  void on_epoch_end() override { ++epochs; }

  std::int64_t length;
  int epochs = 0;
};

}  // namespace

void data_pipelines(const std::string& folder) {
  ls::random::set_random_seed(41);

  const auto dataset = Dataset::from_tensor_slices(ls::Tensor{8, 3, 0, 8, 2, 1});
  for (const ls::Tensor& elem : dataset) report("element", elem);
  report("sum", dataset.reduce(ls::Tensor::scalar(0),
                               [](const ls::Tensor& state, const ls::Tensor& value) { return state + value; }));

  // Structures: tuples and dicts.
  const auto dataset1 = Dataset::from_tensor_slices(waves({4, 10}, 0.3));
  const auto dataset2 = Dataset::from_tensor_slices({waves({4}, 0.7), ops::reshape(labels(4 * 5, 7), {4, 5})});
  const auto dataset3 = Dataset::zip(dataset1, dataset2);
  for (const auto& [a, bc] : dataset3) {
    const auto& [b, c] = bc;
    report("zipped", ops::reduce_sum(a) + b + ops::cast(ops::reduce_sum(c), ls::DType::kFloat32));
  }
  const auto features = Dataset::from_tensor_slices({{"a", waves({6}, 0.4)}, {"b", waves({6, 2}, 0.9)}});
  for (const auto& batch : features.batch(4))
    report("dict", ops::reduce_sum(batch.at("a")) + ops::reduce_sum(batch.at("b")));

  const auto ds_counter =
      Dataset::from_generator([] { return count(25); }, ls::data::TensorSpec(ls::Shape{}, ls::DType::kInt32));
  for (const ls::Tensor& count_batch : ds_counter.repeat().batch(10).take(4))
    report("generated", ops::reduce_sum(count_batch * ops::range(10)));

  // Batches, with padding.
  const auto inc_dataset = Dataset::range(100);
  const auto dec_dataset = Dataset::range(0, -100, -1);
  const auto batched_dataset = Dataset::zip(inc_dataset, dec_dataset).batch(7, true);
  report("cardinality", static_cast<double>(batched_dataset.cardinality()));
  for (const auto& [x, y] : batched_dataset.take(3)) report("batch", ops::reduce_sum(x * x + y));
  const auto padded =
      Dataset::range(8)
          .map([](const ls::Tensor& x) { return ops::fill(ops::reshape(ops::cast(x, ls::DType::kInt32), {1}), x); })
          .padded_batch(4, {ls::Shape{ls::kUnknownDim}});
  for (const ls::Tensor& batch : padded)
    report("padded", ops::reduce_sum(batch) + static_cast<std::int64_t>(batch.dim(1) * 100));

  // Repeat and shuffle in both orders.
  const auto numbers = Dataset::range(10);
  const std::pair<const char*, Dataset> orders[] = {{"shuffle_repeat", numbers.shuffle(5).repeat(2)},
                                                    {"repeat_shuffle", numbers.repeat(2).shuffle(5)}};
  for (const auto& [name, shuffled] : orders) {
    for (const auto& [i, n] : shuffled.enumerate()) report(name, (i + 1) * n);
  }

  // filter, take, skip, take_while, concatenate, shard, interleave.
  const auto even = numbers.filter([](const ls::Tensor& x) { return int(x) % 2 == 0; });
  const auto several = even.take(3)
                           .concatenate(numbers.skip(8))
                           .concatenate(numbers.take_while([](const ls::Tensor& x) { return int(x) < 3; }))
                           .concatenate(numbers.shard(3, 1));
  for (const ls::Tensor& n : several) report("selected", n);
  const auto interleaved =
      Dataset::range(1, 4).interleave([](const ls::Tensor& x) { return Dataset::from_tensors(x).repeat(4); }, 2, 3);
  for (const ls::Tensor& n : interleaved) report("interleaved", n);

  // Windows: features of ten steps, and the step that follows as the label.
  const auto range_ds = Dataset::range(50);
  const auto ds = make_window_dataset(range_ds, 10, 5, 3);
  for (const ls::Tensor& example : ds.take(4))
    report("window", ops::reduce_sum(example * ops::range(10, ls::DType::kInt64)));
  const auto dense_labels = ds.map([](const ls::Tensor& batch) { return Element{batch[{{}, -1}], batch[{1, {}}]}; });
  for (const auto& [window, label] : dense_labels.take(2)) report("label", ops::reduce_sum(label - window));

  // Training on a pipeline, with weights of the samples.
  const auto x_train = waves({60, 4}, 0.21);
  const auto y_train = labels(60, 3);
  const auto train = Dataset::from_tensor_slices({x_train, y_train, waves({60}, 0.1) + 1.5})
                         .map(
                             [](const ls::Tensor& x, const ls::Tensor& y, const ls::Tensor& w) {
                               return Element{x / 2.0 + 0.5, y, w};
                             },
                             ls::data::AUTOTUNE)
                         .cache()
                         .shuffle(100)
                         .batch(8)
                         .prefetch(ls::data::AUTOTUNE);
  keras::Sequential model({layers::Input({4}), layers::Dense(8, {.activation = "relu"}), layers::Dense(3)});
  model.compile({.optimizer = "adam",
                 .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const auto history = model.fit(train, {.epochs = 3, .verbose = 0});
  for (const double value : history["loss"]) report("loss", value);
  report("steps", model.fit(train.repeat(), {.epochs = 2, .verbose = 0, .steps_per_epoch = 5})["loss"].back());
  report("evaluate", model.evaluate(train, {.verbose = 0}).at("loss"));

  // Batches that a class computes, in a shuffled order.
  WaveBatches batches(7), validation(2);
  const auto of_class = model.fit(batches, {.epochs = 2, .verbose = 0, .validation_data = validation});
  for (const auto& [name, values] : of_class.history)
    for (const double value : values) report("class " + name, value);
  report("class", ops::reduce_sum(model.predict(WaveBatches(3), {.verbose = 0})));
  report("epochs", batches.epochs);

  // Sequences of a time series.
  const auto series = waves({40, 2}, 0.17);
  const auto sequences =
      ls::utils::timeseries_dataset_from_array(series[{{}, -5}], ops::slice_axis(series[{5, {}}], 1, 0, 1), 5,
                                               {.sampling_rate = 2, .batch_size = 8, .shuffle = true, .seed = 3});
  for (const auto& [inputs, targets] : sequences) {
    const auto last = ops::squeeze(ops::slice_axis(inputs, 1, -1, std::nullopt), {1});
    report("sequence", ops::reduce_sum(last * targets));
  }
  model.save(folder + "/model.keras");
}
