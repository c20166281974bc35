#include "lockstep/keras/callbacks/log_value.h"

#include <numeric>

namespace lockstep::keras {

LogValue::operator double() const {
  if (!is_vector_) return numbers_[0];
  return std::accumulate(numbers_.begin(), numbers_.end(), 0.0) / static_cast<double>(numbers_.size());
}

void to_json(Json& json, const LogValue& value) {
  if (value.is_vector()) {
    json = value.numbers();
  } else {
    json = value.numbers()[0];
  }
}

void from_json(const Json& json, LogValue& value) {
  value = json.is_array() ? LogValue(json.get<std::vector<double>>()) : LogValue(json.get<double>());
}

}  // namespace lockstep::keras
