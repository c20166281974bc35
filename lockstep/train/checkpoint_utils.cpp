#include "lockstep/train/checkpoint_utils.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::train {
namespace {

using distribute::VariablePtr;
constexpr double kSecondsBetweenLooks = 1;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// The variables of a map's entry, each with its name in the checkpoint.
class Assignments {
 public:
  explicit Assignments(const std::vector<VariablePtr>& variables) {
    for (const VariablePtr& variable : variables) known_.emplace(variable->path(), variable);
  }

  void add(const std::string& name, const std::variant<VariablePtr, std::string>& target) {
    if (const auto* variable = std::get_if<VariablePtr>(&target)) return take(name, *variable);
    const std::string& own = std::get<std::string>(target);
    const auto found = known_.find(own);
    if (found != known_.end()) return take(name, found->second);
    if (!name.ends_with('/') || !own.ends_with('/')) {
      std::vector<std::string> names;
      for (const auto& [each, variable] : known_) names.push_back(each);
      throw_not_found(fmt::format("init_from_checkpoint: there is no variable '{}'{}; a scope is given as 'scope/'",
                                  own, did_you_mean(own, names)));
    }
    const std::string scope = own == "/" ? "" : own, from = name == "/" ? "" : name;
    for (const auto& [each, variable] : known_) {
      if (each.starts_with(scope)) take(from + each.substr(scope.size()), variable);
    }
  }

  std::vector<std::pair<std::string, VariablePtr>> pairs;

 private:
  void take(const std::string& name, const VariablePtr& variable) { pairs.emplace_back(name, variable); }
  std::map<std::string, VariablePtr> known_;
};

}  // namespace

Tensor load_variable(const std::optional<std::string>& path, const std::string& name) {
  return CheckpointReader(path).get_tensor(name.ends_with(":0") ? name.substr(0, name.size() - 2) : name);
}

void init_from_checkpoint(const std::string& path, const AssignmentMap& assignment_map,
                          const std::vector<VariablePtr>& variables) {
  const CheckpointReader reader(path);
  AssignmentMap sorted = assignment_map;
  std::ranges::stable_sort(sorted, {}, [](const auto& entry) -> const std::string& { return entry.first; });
  Assignments assignments(variables);
  for (const auto& [name, target] : sorted) assignments.add(name, target);
  std::vector<Tensor> values;
  for (const auto& [name, variable] : assignments.pairs) {
    values.push_back(reader.get_tensor(name));
    const Tensor& value = values.back();
    if (value.dtype() != variable->dtype() || !(value.shape() == variable->shape()))
      throw_invalid_argument(fmt::format("{}: '{}' is {}{}, its variable '{}' is {}{}", path, name,
                                         dtype_name(value.dtype()), value.shape().to_string(), variable->path(),
                                         dtype_name(variable->dtype()), variable->shape().to_string()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) assignments.pairs[i].second->assign(values[i]);
}

CheckpointsIterator::CheckpointsIterator(std::string directory, CheckpointsIteratorOptions options)
    : directory_(std::move(directory)), options_(std::move(options)) {}

CheckpointsIterator::Iterator CheckpointsIterator::begin() { return Iterator(next() ? this : nullptr); }

CheckpointsIterator::Iterator& CheckpointsIterator::Iterator::operator++() {
  if (!owner_->next()) owner_ = nullptr;
  return *this;
}

// Whether a new checkpoint was found in time.
bool CheckpointsIterator::wait() {
  const double end = options_.timeout ? steady_seconds() + *options_.timeout : std::numeric_limits<double>::infinity();
  for (;; sleep(kSecondsBetweenLooks)) {
    const auto latest = latest_checkpoint(directory_);
    if (latest && *latest != path_) {
      path_ = *latest;
      return true;
    }
    if (steady_seconds() + kSecondsBetweenLooks > end) return false;
  }
}

bool CheckpointsIterator::next() {
  if (!path_.empty()) {
    const double left = began_ + options_.min_interval_secs - steady_seconds();
    if (left > 0) sleep(left);
    if (options_.timeout_fn && options_.timeout_fn()) return false;
  }
  while (!wait()) {
    if (!options_.timeout_fn || options_.timeout_fn()) return false;
  }
  began_ = steady_seconds();
  return true;
}

}  // namespace lockstep::train
