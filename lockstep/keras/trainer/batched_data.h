// Data that comes in batches, as fit, evaluate and predict take it: datasets, and classes of the user's own.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "lockstep/data/dataset.h"
#include "lockstep/data/distributed_dataset.h"

namespace lockstep::utils {

struct PyDatasetOptions {
  // Batches are made by the thread that trains, one after the other, whatever these are.
  int workers = 1;
  bool use_multiprocessing = false;
  int max_queue_size = 10;
};

// Base of data sets that compute their batches (keras.utils.PyDataset):
//
//   class Waves : public utils::PyDataset {
//    public:
//     std::int64_t len() const override { return 10; }
//     data::Element operator[](std::int64_t index) override { return {x(index), y(index)}; }
//   };
//   Waves waves;
//   model.fit(waves, {.epochs = 2});
//
// fit reads the batches of an epoch in Keras's order: shuffled by Python's generator (random::set_random_seed), unless
// `shuffle` is false.
class PyDataset {
 public:
  explicit PyDataset(const PyDatasetOptions& options = {})
      : workers(options.workers),
        use_multiprocessing(options.use_multiprocessing),
        max_queue_size(options.max_queue_size) {}
  virtual ~PyDataset() = default;

  // __getitem__: the batch, as x, {x, y} or {x, y, sample_weight}.
  virtual data::Element operator[](std::int64_t index) = 0;
  // __len__: how many batches there are. A class overrides it or num_batches().
  virtual std::int64_t len() const;
  std::int64_t size() const { return len(); }  // of ls::len(dataset)
  // Nothing: without end.
  virtual std::optional<std::int64_t> num_batches() const { return len(); }
  // Called as Keras calls them: on_epoch_end() also before the first epoch.
  virtual void on_epoch_begin() {}
  virtual void on_epoch_end() {}

  int workers;
  bool use_multiprocessing;
  int max_queue_size;
};
using Sequence = PyDataset;

namespace experimental {

// A function that makes the dataset of a worker (tf.keras.utils.experimental.DatasetCreator). Under
// ParameterServerStrategy each worker makes the whole dataset.
struct DatasetCreator {
  explicit DatasetCreator(std::function<data::Dataset(const distribute::InputContext&)> dataset_fn,
                          distribute::InputOptions input_options = {})
      : dataset_fn(std::move(dataset_fn)), input_options(input_options) {}
  std::function<data::Dataset(const distribute::InputContext&)> dataset_fn;
  distribute::InputOptions input_options;
};

}  // namespace experimental
}  // namespace lockstep::utils

namespace lockstep::keras {

// A function that returns batch after batch, as Python's generators do: each time another one, or, where it returns a
// std::optional, nothing at the end. Epochs continue it.
template <typename Fn>
concept BatchGenerator = std::invocable<Fn&> && !std::convertible_to<Fn, data::Dataset> &&
                         std::convertible_to<std::invoke_result_t<Fn&>, std::optional<data::Element>>;

// A dataset, a distributed dataset, a DatasetCreator, a function that returns batches, or an object of a class derived
// from PyDataset, which is used itself where it has a name and must then exist while it is read.
class BatchedData {
 public:
  BatchedData(data::Dataset dataset);
  BatchedData(distribute::DistributedDataset dataset);
  BatchedData(utils::experimental::DatasetCreator creator);
  BatchedData(std::shared_ptr<utils::PyDataset> dataset) : py_dataset_(std::move(dataset)) {}
  template <typename T>
  requires std::derived_from<std::remove_reference_t<T>, utils::PyDataset> BatchedData(T&& dataset) {
    if constexpr (std::is_lvalue_reference_v<T>) {
      py_dataset_ = std::shared_ptr<utils::PyDataset>(std::shared_ptr<void>(), &dataset);
    } else {
      py_dataset_ = std::make_shared<T>(std::move(dataset));
    }
  }

  // As Keras, it takes two batches from the function to see their dtypes and shapes, before the first step.
  template <BatchGenerator Fn>
  BatchedData(Fn next)
      : BatchedData(dataset_of([next = std::move(next)]() mutable -> std::optional<data::Element> { return next(); })) {
  }

  // Exactly one of the four is not null.
  const data::Dataset* dataset() const { return dataset_.get(); }
  const distribute::DistributedDataset* distributed() const { return distributed_.get(); }
  const utils::experimental::DatasetCreator* creator() const { return creator_.get(); }
  const std::shared_ptr<utils::PyDataset>& py_dataset() const { return py_dataset_; }

 private:
  static data::Dataset dataset_of(std::function<std::optional<data::Element>()> next);

  std::shared_ptr<const data::Dataset> dataset_;
  std::shared_ptr<const distribute::DistributedDataset> distributed_;
  std::shared_ptr<const utils::experimental::DatasetCreator> creator_;
  std::shared_ptr<utils::PyDataset> py_dataset_;
};

}  // namespace lockstep::keras
