// fit against the sequences that tests/judged/epoch_sequences.py has recorded from Keras: which batches each epoch
// trains on, how its steps are numbered, and which batches it validates on.
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/json.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/seeds.h"

namespace lockstep::keras {
namespace {

constexpr const char* kRecorded =
#include "lockstep/keras/trainer/epoch_iterator_golden.inc"
    ;

// An epoch: training batches, numbers of the steps that end executions, validation batches.
struct EpochEvents {
  std::vector<std::int64_t> trained, ends, validated;
};

class EventRecorder : public Model {
 public:
  explicit EventRecorder(std::vector<EpochEvents>& events)
      : Model("EventRecorder"), dense_(track("dense", layers::Dense(1))), events_(events) {}
  Structure call(const Structure& x, const CallContext&) override { return dense_(x); }
  Results train_step(const Batch& batch) override {
    events_.back().trained.push_back(first(batch));
    return {{"loss", 0.0}};
  }
  Results test_step(const Batch& batch) override {
    events_.back().validated.push_back(first(batch));
    return {{"loss", 0.0}};
  }

 private:
  static std::int64_t first(const Batch& batch) {
    return static_cast<std::int64_t>(batch.x.leaf().to_vector<float>().front());
  }
  LayerHandle dense_;
  std::vector<EpochEvents>& events_;
};

data::Dataset dataset_of(const Json& row) {
  const auto batches = row["batches"].get<std::int64_t>();
  data::Dataset dataset = data::Dataset::range(batches);
  if (row["shuffle"].get<bool>()) dataset = dataset.shuffle(batches, 3);
  dataset = dataset.map([](const data::Element& i) {
    const Tensor x = ops::reshape(ops::cast(i.leaf(), DType::kFloat32), {1, 1});
    return data::Element{x, ops::zeros_like(x)};
  });
  if (row["source"] == "unknown") dataset = dataset.filter([](const data::Element&) { return true; });
  return row["source"] == "repeated" ? dataset.repeat() : dataset;
}

std::vector<EpochEvents> events_of(const Json& row) {
  random::set_global_seed(42);
  std::vector<EpochEvents> events;
  std::optional<distribute::OneDeviceStrategy> strategy;
  std::optional<distribute::Strategy::Scope> scope;
  if (row["strategy"].get<bool>()) scope.emplace(&strategy.emplace("/cpu:0"));
  EventRecorder model(events);
  model.compile({.steps_per_execution = row["execution"].get<std::int64_t>()});
  const auto steps = [&](const char* key) {
    return row[key].is_null() ? std::nullopt : std::optional(row[key].get<std::int64_t>());
  };
  FitOptions options{.epochs = row["epochs"].get<int>(), .verbose = 0};
  options.callbacks = {LambdaCallback(
      {.on_epoch_begin = [&](int, const Logs&) { events.emplace_back(); },
       .on_train_batch_end = [&](std::int64_t step, const Logs&) { events.back().ends.push_back(step); }})};
  options.steps_per_epoch = steps("steps");
  options.validation_steps = steps("validation_steps");
  if (row["source"] == "arrays") {
    const auto batches = row["batches"].get<std::int64_t>();
    std::vector<float> numbers(static_cast<std::size_t>(batches));
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    const Tensor x = Tensor::from_vector(numbers, Shape{batches, 1});
    options.batch_size = 1;
    options.shuffle = false;
    if (row["validation"] == "own") options.validation_data = ValidationArrays{x, x};
    model.fit(x, x, options);
  } else {
    const data::Dataset dataset = dataset_of(row);
    if (row["validation"] == "own") options.validation_data = dataset_of(row);
    if (row["validation"] == "same") options.validation_data = dataset;
    model.fit(dataset, options);
  }
  return events;
}

TEST(EpochIterator, StepsAsKerasDoes) {
  const Json rows = Json::parse(kRecorded);
  EXPECT_GT(rows.size(), 100u);
  for (const Json& row : rows) {
    Json seen = Json::array();
    for (const EpochEvents& epoch : events_of(row)) seen.push_back({epoch.trained, epoch.ends, epoch.validated});
    EXPECT_EQ(seen, row["expected"]) << row.dump();
  }
}

}  // namespace
}  // namespace lockstep::keras
