#include "lockstep/keras/callbacks/log_value.h"

#include <algorithm>
#include <numeric>
#include <ranges>

#include "lockstep/base/error.h"
#include "lockstep/base/nested.h"
#include "lockstep/keras/callbacks/logs.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

LogValue::LogValue(const Tensor& value) : is_vector_(value.rank() > 0) {
  const Tensor numbers = value.dtype() == DType::kFloat64 ? value : ops::cast(value, DType::kFloat64);
  numbers_ = numbers.to_vector<double>();
}

const LogValue& Results::at(std::string_view name) const& {
  std::string names;
  for (const auto& [key, value] : *this) {
    if (key == name) return value;
    names += (names.empty() ? "" : ", ") + key;
  }
  throw_not_found("results have no '" + std::string(name) + "'; they have: " + names);
}

Results::Place& Results::Place::operator=(const LogValue& value) {
  for (auto& [name, entry] : results_) {
    if (name == name_) {
      entry = value;
      return *this;
    }
  }
  results_.emplace_back(name_, value);
  return *this;
}

const LogValue& Results::operator[](int index) const& {
  if (index < 0 || static_cast<std::size_t>(index) >= size())
    throw_out_of_range("results have " + std::to_string(size()) + " values, none with index " + std::to_string(index));
  return vector::operator[](static_cast<std::size_t>(index)).second;
}

bool Results::contains(std::string_view name) const {
  return std::ranges::find(*this, name, &value_type::first) != end();
}
void Results::update(const std::vector<std::pair<std::string, LogValue>>& others) {
  for (const auto& [name, value] : others) (*this)[name] = value;
}
void Logs::update(const std::vector<value_type>& others) {
  for (const auto& [name, value] : others) (*this)[name] = value;
}

List<std::string> Results::keys() const { return {std::views::keys(*this).begin(), std::views::keys(*this).end()}; }
LogValues Results::values() const { return {std::views::values(*this).begin(), std::views::values(*this).end()}; }
List<std::string> Logs::keys() const { return Results(begin(), end()).keys(); }
LogValues Logs::values() const { return Results(begin(), end()).values(); }
const Results& Results::require(std::size_t count) const {
  if (size() != count) throw_wrong_size(size(), count);
  return *this;
}

LogValue LogValue::of_outputs(Nested<Tensor> outputs) {
  LogValue value{std::vector<double>()};
  value.outputs_ = std::make_shared<const Nested<Tensor>>(std::move(outputs));
  return value;
}
const Nested<Tensor>& LogValue::outputs() const {
  if (!outputs_) throw_invalid_argument("the entry of the logs is a number, not the outputs of a batch");
  return *outputs_;
}

LogValue::operator Tensor() const {
  if (outputs_) return outputs_->leaf();
  const Tensor numbers = ops::cast(Tensor::from_vector(numbers_), DType::kFloat32);
  return is_vector_ ? numbers : ops::reshape(numbers, Shape{});
}

LogValue::operator double() const {
  if (outputs_) throw_invalid_argument("the entry of the logs has the outputs of a batch, not a number");
  if (!is_vector_) return numbers_[0];
  return std::accumulate(numbers_.begin(), numbers_.end(), 0.0) / static_cast<double>(numbers_.size());
}

LogValue::operator Json() const { return is_vector_ ? Json(numbers_) : Json(numbers_[0]); }

LogValue::LogValue(const Json& json)
    : numbers_(json.is_array() ? json.get<std::vector<double>>() : std::vector{json.get<double>()}),
      is_vector_(json.is_array()) {}

}  // namespace lockstep::keras
