#include "lockstep/ops/function_draws_internal.h"

#include <fmt/format.h>

#include "lockstep/base/entropy_internal.h"
#include "lockstep/base/error.h"

namespace lockstep::ops {
namespace {

constexpr const char* kTraced = "Python's numbers";  // a name that no operation has
thread_local FunctionDraws::Call* t_call = nullptr;
thread_local int t_replica = 0, t_local_replica = 0;
thread_local ReplicaSeeds* t_seeds = nullptr;  // of the run() that this thread is in

}  // namespace

PhiloxState philox_of_op_seeds(std::int64_t seed, std::int64_t seed2) {
  if (seed != 0 || seed2 != 0) return philox_from_seeds(seed, seed2);
  const auto draw = [] { return static_cast<std::int64_t>(draw_entropy()) << 32 | draw_entropy(); };
  const std::int64_t high = draw();
  return philox_from_seeds(high, draw());
}

FunctionDraws::Call::Call(FunctionDraws& draws, Nesting nesting)
    : before_(t_call),
      outer_(nesting == Nesting::kExpanded ? before_ : nullptr),
      draws_(outer_ ? outer_->draws_ : draws) {
  if (outer_) path_ = fmt::format("{}/{}", outer_->path_, outer_->inner_calls_++);
  t_call = this;
}
FunctionDraws::Call::Call(ReplicaSeeds& seeds)
    : before_(t_call), outer_(nullptr), draws_(seeds.call_.draws_), path_(seeds.path_), seeds_(&seeds) {
  t_call = this;
}
FunctionDraws::Call::~Call() { t_call = before_; }

LoopDraws::LoopDraws() : call_(FunctionDraws::current_call()), place_(call_ ? call_->inner_calls_++ : 0) {}
void LoopDraws::begin() {
  end();
  if (!call_) return;
  call_->inner_calls_ = place_;
  iteration_.emplace(call_->draws_);
}

namespace {

class LoopOfRows : public TensorRows::Loop {
 public:
  void enter(std::int64_t row) override {
    if (row_ == row) return;
    draws_.begin();
    row_ = row;
  }
  void leave() override {
    draws_.end();
    row_.reset();
  }

 private:
  LoopDraws draws_;
  std::optional<std::int64_t> row_;
};

}  // namespace

std::shared_ptr<TensorRows::Loop> loop_in_function() {
  return FunctionDraws::active() ? std::make_shared<LoopOfRows>() : nullptr;
}

FunctionDraws::Call* FunctionDraws::current_call() { return t_call; }
FunctionDraws* FunctionDraws::current() { return t_call ? &t_call->draws_ : nullptr; }

std::int64_t FunctionDraws::next_seed() {
  return t_call->seeds_ ? t_call->seeds_->next(t_local_replica) : t_call->without_seed_++;
}

PhiloxState FunctionDraws::advance(const std::string& operation, std::int64_t seed, std::int64_t seed2,
                                   std::uint64_t blocks) {
  const int node = t_call->nodes_[{operation, seed, seed2}]++;
  const std::string name = fmt::format("{}:{}{}/{}", t_replica, operation, t_call->path_, node);
  FunctionDraws& draws = t_call->draws_;
  const std::lock_guard lock(draws.mutex_);
  const auto [at, fresh] = draws.states_.try_emplace({name, seed, seed2});
  if (fresh) at->second = philox_of_op_seeds(seed, seed2);
  const PhiloxState state = at->second;
  at->second = state.skipped(blocks);
  return state;
}

std::int64_t FunctionDraws::traced(const std::function<std::int64_t()>& draw) {
  if (!t_call) return draw();
  const int number = t_call->nodes_[{kTraced, 0, 0}]++;
  FunctionDraws& draws = t_call->draws_;
  const std::lock_guard lock(draws.mutex_);
  const auto [at, fresh] = draws.traced_.try_emplace(fmt::format("{}:{}/{}", t_replica, t_call->path_, number));
  if (fresh) at->second = draw();
  return at->second;
}

bool FunctionDraws::empty() const {
  const std::lock_guard lock(mutex_);
  return states_.empty() && traced_.empty();
}

Json FunctionDraws::save() const {
  const std::lock_guard lock(mutex_);
  Json all = Json::array();
  for (const auto& [node, state] : states_) {
    const auto& [name, seed, seed2] = node;
    all.push_back(Json::array({name, seed, seed2, state.key, state.counter_low, state.counter_high}));
  }
  for (const auto& [name, number] : traced_) all.push_back(Json::array({name, number}));
  return all;
}

void FunctionDraws::restore(const Json& state) {
  decltype(states_) states;
  decltype(traced_) traced;
  try {
    for (const Json& entry : state.get<std::vector<Json>>()) {
      if (entry.size() == 2) {
        traced[entry[0].get<std::string>()] = entry[1].get<std::int64_t>();
        continue;
      }
      const auto& [name, seed, seed2, key, low, high] = entry.get<StatefulRandomState>();
      states[{name, seed, seed2}] = {key, low, high};
    }
  } catch (const JsonError& error) {
    throw_invalid_argument(fmt::format("invalid state of the random operations of a function: {}", error.what()));
  }
  const std::lock_guard lock(mutex_);
  states_ = std::move(states);
  traced_ = std::move(traced);
}

FunctionDraws& TracedDraws::of(const std::string& exact, const std::string& without_shapes) {
  const std::lock_guard lock(mutex_);
  const auto first = first_.try_emplace(without_shapes, exact).first;
  return draws_[reduces_ && first->second != exact ? "relaxed " + without_shapes : exact];
}

ReplicaSeeds::ReplicaSeeds(int replicas)
    : call_(*t_call),
      path_(fmt::format("{}/run {}", call_.path_, call_.runs_++)),
      known_([this]() -> std::vector<std::int64_t>& {
        const std::lock_guard lock(call_.draws_.mutex_);
        return call_.draws_.replica_counts_[path_];
      }()),
      start_(call_.without_seed_),
      places_(static_cast<std::size_t>(replicas)) {
  call_.seeds_ = this;
}

ReplicaSeeds::~ReplicaSeeds() {
  std::int64_t drawn = 0;
  for (const std::int64_t count : counts_) drawn += count;
  call_.without_seed_ = start_ + drawn * static_cast<std::int64_t>(places_.size());
  known_ = counts_;
  call_.seeds_ = nullptr;
}

std::int64_t ReplicaSeeds::next(int replica) {
  std::unique_lock lock(mutex_);
  Place& place = places_[static_cast<std::size_t>(replica)];
  const std::size_t segment = place.segment;
  const auto is_known = [&] { return segment < counts_.size() || segment < known_.size(); };
  if (replica > 0) met_.wait(lock, is_known);
  const auto count = [&](std::size_t i) { return i < counts_.size() ? counts_[i] : known_[i]; };
  std::int64_t seed = start_ + place.drawn++;
  for (std::size_t i = 0; i < segment; ++i) seed += count(i) * static_cast<std::int64_t>(places_.size());
  return replica > 0 ? seed + replica * count(segment) : seed;
}

void ReplicaSeeds::meet(int replica) {
  const std::lock_guard lock(mutex_);
  Place& place = places_[static_cast<std::size_t>(replica)];
  if (replica == 0) counts_.push_back(place.drawn);
  place = {place.segment + 1, 0};
  met_.notify_all();
}

ReplicaDraws::ReplicaDraws(int replica, int local, ReplicaSeeds* seeds)
    : outer_(t_replica), outer_local_(t_local_replica), outer_seeds_(t_seeds) {
  t_replica = replica;
  t_local_replica = local;
  t_seeds = seeds;
}
ReplicaDraws::~ReplicaDraws() {
  t_replica = outer_;
  t_local_replica = outer_local_;
  t_seeds = outer_seeds_;
}
void ReplicaDraws::meet() {
  if (t_seeds) t_seeds->meet(t_local_replica);
}
int ReplicaDraws::device() { return t_local_replica; }

}  // namespace lockstep::ops
