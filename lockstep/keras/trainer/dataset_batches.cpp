#include "lockstep/keras/trainer/dataset_batches_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"
#include "lockstep/data/distributed_dataset.h"
#include "lockstep/keras/trainer/epoch_iterator_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::keras {
namespace {

constexpr const char* kFilePolicy = "FILE";

Batch split_element(const data::Element& element) {
  if (!element.is_list()) return {element, {}, {}};
  switch (element.parts().size()) {
    case 1: return {element[0], {}, {}};
    case 2: return {element[0], element[1], {}};
    case 3: return {element[0], element[1], element[2]};
    default:
      throw_invalid_argument(
          fmt::format("invalid element of a dataset: found {} parts, expected x, (x, y) or (x, y, sample_weight)",
                      element.parts().size()));
  }
}

// Whether a saved state is within a pass over the data, of which some batches have been used.
bool within_pass(const Json& state) { return state.at("taken").get<std::int64_t>() > 0 && !state.value("over", false); }

// Whether the state of workers that read separate data describes which: files, divided by their number.
bool files_are_known(const Json& state) { return state.value("policy", "") == kFilePolicy; }

[[noreturn]] void refuse_other_workers(const Json& state, int workers) {
  const std::int64_t then = state.value("workers", std::int64_t{1});
  throw_failed_precondition(fmt::format(
      "the checkpoint was saved within an epoch in which {} worker{} read data of their own (auto-sharding "
      "OFF); the remaining examples are not known for {} worker{}: resume with {} worker{}, at least to the "
      "end of the epoch; any number of workers can resume from checkpoints at the end of an epoch, or with "
      "auto_shard_policy DATA or FILE",
      then, then == 1 ? "" : "s", workers, workers == 1 ? "" : "s", then, then == 1 ? "" : "s"));
}

// The rest of a pass that another number of workers began under FILE. Every worker reads all remaining examples: the
// batches are those that the other number of workers would have had, and none is sent.
class RestOfPass {
 public:
  // `dataset` is as it was before the first pass.
  RestOfPass(const data::Dataset& dataset, const Json& state) : state_(state) {
    if (state.contains("iterator")) {
      const auto iterator = std::make_shared<data::DatasetIterator>(dataset.make_iterator());
      iterator->restore_state(state["iterator"]);
      one_ = iterator;
      return;
    }
    taken_ = state.at("taken").get<std::int64_t>();
    steps_ =
        distribute::file_sharded_pass(dataset, state.at("workers").get<int>(), state.at("passes").get<std::int64_t>());
    for (std::int64_t i = 0; i < taken_; ++i) steps_();
  }

  std::optional<data::Element> next() {
    std::optional<data::Element> element = one_ ? one_->next() : steps_();
    ++taken_;
    over_ = !element;
    return element;
  }

  // Of the job that began the pass, further on.
  Json save_state() const {
    Json state = state_;
    if (one_) {
      state["iterator"] = one_->save_state();
    } else {
      state["taken"] = taken_;
    }
    state["over"] = over_;
    return state;
  }

 private:
  Json state_;
  std::shared_ptr<data::DatasetIterator> one_;  // of one worker
  std::function<std::optional<data::Element>()> steps_;
  std::int64_t taken_ = 0;
  bool over_ = false;
};

class DatasetBatches : public BatchSource {
 public:
  DatasetBatches(data::Dataset dataset, std::map<std::int64_t, double> class_weight)
      : dataset_(std::move(dataset)), class_weight_(std::move(class_weight)) {}

  std::optional<std::int64_t> num_batches() const override {
    const std::int64_t count = dataset_.cardinality();
    return count >= 0 ? std::optional(count) : std::nullopt;
  }

  std::optional<Shape> declared_input_shape() const override {
    const data::ElementSpec spec = declared_spec();
    const data::ElementSpec& x = spec.is_list() && !spec.parts().empty() ? spec[0] : spec;
    return x.is_leaf() ? std::optional(x.leaf().shape) : std::nullopt;
  }

  bool has_static_rows() const override {
    const auto leaves = declared_spec().flatten();
    return !leaves.empty() && leaves[0].shape.rank() > 0 && leaves[0].shape[0] != kUnknownDim;
  }

  void reset() override {
    iterator_.emplace(dataset_.make_iterator());
    taken_ = 0;
    over_ = false;
    rest_.reset();
  }
  void skip_pass() override { dataset_.make_iterator(); }

  Json save_state() const override {
    if (rest_) return rest_->save_state();
    return {{"dataset", dataset_.save_state()},
            {"iterator", iterator_ ? iterator_->save_state() : Json(nullptr)},
            {"taken", taken_},
            {"over", over_}};
  }
  void restore_state(const Json& state) override {
    iterator_.reset();
    rest_.reset();
    if (!state.contains("iterator")) return restore_gathered(state);
    over_ = state.value("over", false);
    taken_ = state.value("taken", std::int64_t{0});
    if (!state.at("iterator").is_null()) {
      iterator_.emplace(dataset_.make_iterator());
      iterator_->restore_state(state["iterator"]);
    }
    dataset_.restore_state(state.at("dataset"));
  }

  std::optional<Batch> next() override {
    if (!iterator_ && !rest_) reset();
    std::optional<data::Element> element = rest_ ? rest_->next() : iterator_->next();
    over_ = !element;
    if (!element) return std::nullopt;
    ++taken_;
    return batch_of(*element, class_weight_);
  }

 private:
  // Random numbers that functions of the dataset draw for an example are not counted.
  data::ElementSpec declared_spec() const {
    const Json draws = random::save_state();
    data::ElementSpec spec = dataset_.element_spec();
    random::restore_state(draws);
    return spec;
  }
  // The state of workers that each read data of their own.
  void restore_gathered(const Json& state) {
    const bool within = within_pass(state);
    if (within && !files_are_known(state)) refuse_other_workers(state, 1);
    dataset_.restore_state(state.at("dataset"));
    std::optional<RestOfPass> rest;
    if (within) rest.emplace(dataset_, state);
    for (auto passes = state.at("passes").get<std::int64_t>(); passes > 0; --passes) reset();
    if (state.value("over", false)) {
      while (next()) {
      }
      return;
    }
    iterator_.reset();
    rest_ = std::move(rest);
  }

  data::Dataset dataset_;
  std::map<std::int64_t, double> class_weight_;
  std::optional<data::DatasetIterator> iterator_;
  std::optional<RestOfPass> rest_;  // in place of the iterator
  std::int64_t taken_ = 0;          // of this pass
  bool over_ = false;               // the pass
};

// Each worker reads its own part; a batch is the parts of all, one after the other.
class GatheredBatches : public BatchSource {
 public:
  GatheredBatches(data::Dataset dataset, bool files, collectives::Communicator& workers,
                  std::map<std::int64_t, double> class_weight)
      : workers_(workers),
        dataset_(std::move(dataset)),
        files_(files),
        parts_(share()),
        class_weight_(std::move(class_weight)) {
    if (!files_) count_batches();
  }

  // With files, those of each worker are not counted.
  std::optional<std::int64_t> num_batches() const override { return num_batches_; }
  void reset() override {
    part_.reset();
    rest_.reset();
  }

  // Passes and batches are counted, and gone through again: each worker knows its own place only. With another number
  // of workers the parts are others: those of files are known to all, the user's own are not.
  Json save_state() const override {
    if (rest_) return rest_->save_state();
    const bool over = part_ && *part_ == parts_.end();
    return {{"dataset", start_}, {"passes", passes_},          {"taken", part_ ? taken_ : 0},
            {"over", over},      {"workers", workers_.size()}, {"policy", files_ ? kFilePolicy : "OFF"}};
  }
  void restore_state(const Json& state) override {
    const bool gathered = !state.contains("iterator");
    const bool same = gathered && state.value("workers", workers_.size()) == workers_.size();
    const bool within = within_pass(state);
    std::optional<RestOfPass> rest;
    reset();
    if (!same && within) {
      if (gathered ? !files_are_known(state) : !files_) refuse_other_workers(state, workers_.size());
      if (gathered) dataset_.restore_state(state.at("dataset"));
      rest.emplace(dataset_, state);
    }
    dataset_.restore_state(state.at("dataset"));
    parts_ = share();
    passes_ = 0;
    const bool over = state.value("over", false);
    const auto passes = gathered ? state.at("passes").get<std::int64_t>() : over ? 1 : 0;
    while (passes_ < passes) begin_pass();
    if (rest || (!over && !within)) {
      part_.reset();
      rest_ = std::move(rest);
      return;
    }
    for (std::int64_t left = over ? -1 : state.at("taken").get<std::int64_t>() - 1; left != 0 && *part_ != parts_.end();
         --left)
      advance();
  }

  std::optional<Batch> next() override {
    if (rest_) {
      const auto element = rest_->next();
      return element ? std::optional(batch_of(*element, class_weight_)) : std::nullopt;
    }
    if (!part_) {
      begin_pass();
    } else if (*part_ != parts_.end()) {
      advance();
    }
    if (*part_ == parts_.end()) return std::nullopt;
    const data::Element& own = (**part_)[0];
    Tensors whole;
    for (const Tensor& leaf : own.flatten()) {
      const Tensors parts = collectives::gather(workers_, leaf);
      whole.push_back(leaf.defined() ? ops::concat(parts, 0) : leaf);
    }
    return batch_of(own.pack(whole), class_weight_);
  }

 private:
  distribute::DistributedDataset share() {
    auto parts = distribute::distribute_dataset(dataset_, {&workers_, workers_.size(), workers_.rank(), 1});
    start_ = dataset_.save_state();
    return parts;
  }
  // A pass ends with the worker that has most.
  void count_batches() {
    std::int64_t most = 0;
    for (const Tensor& count :
         collectives::gather(workers_, Tensor::from_vector<std::int64_t>({dataset_.cardinality()}))) {
      const std::int64_t batches = count.to_vector<std::int64_t>()[0];
      if (batches < 0) return;
      most = std::max(most, batches);
    }
    num_batches_ = most;
  }
  void begin_pass() {
    part_.emplace(parts_.begin());
    ++passes_;
    taken_ = 1;
  }
  void advance() {
    ++*part_;
    ++taken_;
  }

  collectives::Communicator& workers_;
  data::Dataset dataset_;
  bool files_;
  Json start_;  // its state, with the chief's seeds, before the first pass
  distribute::DistributedDataset parts_;
  std::optional<std::int64_t> num_batches_;
  std::map<std::int64_t, double> class_weight_;
  std::optional<distribute::DistributedDataset::Iterator> part_;
  std::optional<RestOfPass> rest_;  // in place of it
  std::int64_t passes_ = 0;
  std::int64_t taken_ = 0;  // of this pass, with the one at hand
};

}  // namespace

bool is_of_dataset(const BatchSource& source) { return dynamic_cast<const DatasetBatches*>(&source) != nullptr; }

Batch batch_of(const data::Element& element, const std::map<std::int64_t, double>& class_weight) {
  Batch batch = split_element(element);
  if (!class_weight.empty()) batch.sample_weight = apply_class_weight(batch.y, batch.sample_weight, class_weight);
  return batch;
}

std::unique_ptr<BatchSource> dataset_batches(data::Dataset dataset, collectives::Communicator* workers,
                                             std::map<std::int64_t, double> class_weight) {
  if (workers) {
    // The default policy is DATA: then a batch need not be sent.
    data::Options options = dataset.options();
    data::AutoShardPolicy& policy = options.experimental_distribute.auto_shard_policy;
    if (policy == data::AutoShardPolicy::kAuto) policy = data::AutoShardPolicy::kData;
    dataset = dataset.with_options(options);
    const data::AutoShardPolicy agreed = distribute::agree_on_policy(dataset, *workers);
    if (agreed != data::AutoShardPolicy::kData) {
      return std::make_unique<GatheredBatches>(dataset, agreed == data::AutoShardPolicy::kFile, *workers,
                                               std::move(class_weight));
    }
  }
  return std::make_unique<DatasetBatches>(std::move(dataset), std::move(class_weight));
}

}  // namespace lockstep::keras
