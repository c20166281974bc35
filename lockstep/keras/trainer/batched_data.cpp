#include "lockstep/keras/trainer/batched_data.h"

#include <deque>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/keras/trainer/dataset_batches_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/python_random.h"

namespace lockstep::utils {

std::int64_t PyDataset::len() const {
  throw_failed_precondition("a class derived from PyDataset requires an override of len() or of num_batches()");
}

}  // namespace lockstep::utils

namespace lockstep::keras {

BatchedData::BatchedData(data::Dataset dataset) : dataset_(std::make_shared<data::Dataset>(std::move(dataset))) {}
BatchedData::BatchedData(distribute::DistributedDataset dataset) {
  if (dataset.source()) {
    dataset_ = dataset.source();  // is distributed again by the strategy of the model
  } else {
    distributed_ = std::make_shared<distribute::DistributedDataset>(std::move(dataset));
  }
}
BatchedData::BatchedData(utils::experimental::DatasetCreator creator)
    : creator_(std::make_shared<utils::experimental::DatasetCreator>(std::move(creator))) {}

// Rows, and extents in which the first two batches differ, are unknown.
data::Dataset BatchedData::dataset_of(std::function<std::optional<data::Element>()> next) {
  struct State {
    std::function<std::optional<data::Element>()> next;
    std::deque<data::Element> seen;
  };
  const auto state = std::make_shared<State>(State{std::move(next), {}});
  while (state->seen.size() < 2) {
    std::optional<data::Element> batch = state->next();
    if (!batch) break;
    state->seen.push_back(std::move(*batch));
  }
  if (state->seen.empty()) throw_invalid_argument("the function that returns batches returned none");
  const Tensors other = state->seen.back().flatten();
  std::size_t leaf = 0;
  const data::ElementSpec spec = state->seen.front().map([&](const Tensor& first) {
    Shape shape = first.shape();
    const Tensor second = leaf < other.size() ? other[leaf] : first;
    ++leaf;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool same = second.rank() == shape.rank() && second.dim(axis) == shape[axis];
      if (axis == 0 || !same) shape[axis] = kUnknownDim;
    }
    return TensorSpec(shape, first.dtype());
  });
  const data::Dataset::Generator generator = [state]() -> std::optional<data::Element> {
    if (state->seen.empty()) return state->next();
    data::Element batch = std::move(state->seen.front());
    state->seen.pop_front();
    return batch;
  };
  return data::Dataset::from_generator([generator] { return generator; }, spec);
}

namespace {

// Batches of a PyDataset. A pass has its order when its first batch is read.
class PyDatasetBatches : public BatchSource {
 public:
  PyDatasetBatches(std::shared_ptr<utils::PyDataset> dataset, bool shuffle, std::map<std::int64_t, double> class_weight)
      : dataset_(std::move(dataset)), shuffle_(shuffle), class_weight_(std::move(class_weight)) {}

  std::optional<std::int64_t> num_batches() const override { return dataset_->num_batches(); }
  void reset() override {
    order_.reset();
    next_ = 0;
  }
  void peek() override {
    on_epoch_begin();
    if (shuffle_ && num_batches()) random::python_shuffle(*num_batches());
  }
  void on_epoch_begin() override { dataset_->on_epoch_begin(); }
  void on_epoch_end() override { dataset_->on_epoch_end(); }

  std::optional<Batch> next() override {
    const std::optional<std::int64_t> count = num_batches();
    if (count && !order_) {
      order_.emplace(shuffle_ ? random::python_shuffle(*count) : std::vector<std::int64_t>());
      if (!shuffle_) {
        order_->resize(static_cast<std::size_t>(*count));
        std::iota(order_->begin(), order_->end(), 0);
      }
    }
    if (order_ && next_ >= static_cast<std::int64_t>(order_->size())) return std::nullopt;
    const std::int64_t index = order_ ? (*order_)[static_cast<std::size_t>(next_)] : next_;
    ++next_;
    return batch_of((*dataset_)[index], class_weight_);
  }

  Json save_state() const override { return {{"order", order_ ? Json(*order_) : Json(nullptr)}, {"next", next_}}; }
  void restore_state(const Json& state) override {
    reset();
    if (!state.at("order").is_null()) order_ = state["order"].get<std::vector<std::int64_t>>();
    if (order_ && static_cast<std::int64_t>(order_->size()) != num_batches())
      throw_invalid_argument(fmt::format("invalid saved state of a PyDataset: found {} batches, expected {}",
                                         order_->size(), num_batches().value_or(-1)));
    next_ = state.at("next").get<std::int64_t>();
  }

 private:
  std::shared_ptr<utils::PyDataset> dataset_;
  bool shuffle_;
  std::map<std::int64_t, double> class_weight_;
  std::optional<std::vector<std::int64_t>> order_;
  std::int64_t next_ = 0;
};

// Batches of a dataset that a function made for each worker: the elements of all replicas together.
class DistributedBatches : public BatchSource {
 public:
  DistributedBatches(distribute::DistributedDataset dataset, collectives::Communicator* workers,
                     std::map<std::int64_t, double> class_weight)
      : dataset_(std::move(dataset)), workers_(workers), class_weight_(std::move(class_weight)) {}

  std::optional<std::int64_t> num_batches() const override { return std::nullopt; }
  void reset() override {
    pass_.emplace(dataset_.begin());
    ++passes_;
    taken_ = 0;
  }
  void skip_pass() override {
    dataset_.begin();
    ++passes_;
  }
  std::optional<Batch> next() override {
    if (!pass_) reset();
    const auto parts = pass_->get_next_as_optional();
    if (!parts) return std::nullopt;
    ++taken_;
    data::Element all = distribute::joined_rows(parts->values());
    if (workers_) {
      Tensors whole;
      for (const Tensor& leaf : all.flatten())
        whole.push_back(leaf.defined() ? ops::concat(collectives::gather(*workers_, leaf), 0) : leaf);
      all = all.pack(whole);
    }
    return batch_of(all, class_weight_);
  }

  Json save_state() const override { return {{"passes", passes_}, {"taken", taken_}}; }
  void restore_state(const Json& state) override {
    const auto passes = state.at("passes").get<std::int64_t>(), taken = state.at("taken").get<std::int64_t>();
    while (passes_ + 1 < passes) skip_pass();
    if (passes_ < passes) reset();
    while (taken_ < taken && next()) {
    }
  }

 private:
  distribute::DistributedDataset dataset_;
  collectives::Communicator* workers_;
  std::map<std::int64_t, double> class_weight_;
  std::optional<distribute::DistributedDataset::Iterator> pass_;
  std::int64_t passes_ = 0;
  std::int64_t taken_ = 0;
};

std::unique_ptr<BatchSource> created_batches(const utils::experimental::DatasetCreator& creator,
                                             distribute::Strategy* strategy,
                                             std::map<std::int64_t, double> class_weight) {
  if (!strategy || strategy->step_runner() != "all_reduce")
    return dataset_batches(creator.dataset_fn({}), nullptr, std::move(class_weight));
  return std::make_unique<DistributedBatches>(
      strategy->distribute_datasets_from_function(creator.dataset_fn, creator.input_options), strategy->communicator(),
      std::move(class_weight));
}

}  // namespace

std::unique_ptr<BatchSource> batches_of(const BatchedData& data, distribute::Strategy* strategy, bool shuffle,
                                        std::map<std::int64_t, double> class_weight) {
  collectives::Communicator* const workers = strategy ? strategy->communicator() : nullptr;
  if (data.dataset()) return dataset_batches(*data.dataset(), workers, std::move(class_weight));
  if (data.creator()) {
    std::unique_ptr<BatchSource> created = created_batches(*data.creator(), strategy, std::move(class_weight));
    created->set_keras2_order();
    return created;
  }
  if (data.distributed())
    return std::make_unique<DistributedBatches>(*data.distributed(), workers, std::move(class_weight));
  return std::make_unique<PyDatasetBatches>(data.py_dataset(), shuffle, std::move(class_weight));
}

}  // namespace lockstep::keras
