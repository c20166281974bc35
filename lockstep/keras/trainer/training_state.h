// The state that a fit needs to resume in another process, in addition to weights and optimizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

// `values` belong to one worker: the epoch, the number of its batches that are done, the position in the data, random
// states, metrics so far, the states of callbacks, the history. `tensors`, weights that callbacks keep, are the same on
// all. Values that are absent are those of a fit that begins; {"epoch": 3} alone makes fit begin with that epoch.
struct TrainingState {
  Json values = Json::object();
  std::vector<std::pair<std::string, Tensor>> tensors = {};

  int epoch() const { return values.value("epoch", 0); }                           // that comes next, or is under way
  std::int64_t batches() const { return values.value("batch", std::int64_t{0}); }  // of it that are done
};

// Where files of tensors keep it: the values of each worker as a string tensor of this name, the tensors below it.
inline constexpr std::string_view kTrainingStateKey = "/.LOCKSTEP_STATE/training";

using formats::NamedTensors;
// `values` is the JSON of each worker's, in their order.
NamedTensors store_training_state(std::vector<std::string> values, const TrainingState& state);
// The state of a worker of `workers`; empty when the file has none. Where it was written by another number of workers,
// that of the first one: state of the whole job is the same on all. Throws DataLoss for damage.
std::optional<TrainingState> load_training_state(const formats::TensorReader& reader, int worker = 0, int workers = 1);

}  // namespace lockstep::keras
