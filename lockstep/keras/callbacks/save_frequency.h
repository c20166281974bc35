// When a callback saves.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/json.h"

namespace lockstep::callbacks {

// When to save: "epoch", or every so many batches, counted across epochs.
struct SaveFrequency {
  // Throws InvalidArgument for another word than "epoch".
  SaveFrequency(const char* word = "epoch");
  SaveFrequency(int batches);
  std::optional<std::int64_t> batches;

  // Counts a batch in; true when it is time. Batches may come in groups (steps_per_execution).
  bool due(std::int64_t batch);
  // The batches counted since the last save, for saved states.
  Json save_state() const { return {seen_since_saving_, last_batch_}; }
  void restore_state(const Json& state);

 private:
  std::int64_t seen_since_saving_ = 0;
  std::int64_t last_batch_ = -1;
};

}  // namespace lockstep::callbacks
