#include "lockstep/keras/callbacks/save_frequency.h"

#include <string_view>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::callbacks {

SaveFrequency::SaveFrequency(const char* word) {
  if (std::string_view(word) != "epoch") {
    throw_invalid_argument(
        fmt::format("Unrecognized save_freq: {}. Expected save_freq are 'epoch' or integer values", word));
  }
}

SaveFrequency::SaveFrequency(int count) : batches(count) {
  if (count <= 0)
    throw_invalid_argument(fmt::format("save_freq must be 'epoch' or a positive number of batches, not {}", count));
}

bool SaveFrequency::due(std::int64_t batch) {
  if (!batches) return false;
  seen_since_saving_ += batch <= last_batch_ ? batch + 1 : batch - last_batch_;
  last_batch_ = batch;
  if (seen_since_saving_ < *batches) return false;
  seen_since_saving_ = 0;
  return true;
}

void SaveFrequency::restore_state(const Json& state) {
  seen_since_saving_ = state.at(0).get<std::int64_t>();
  last_batch_ = state.at(1).get<std::int64_t>();
}

}  // namespace lockstep::callbacks
