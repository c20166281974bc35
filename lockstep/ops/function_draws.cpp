#include "lockstep/ops/function_draws_internal.h"

#include <fmt/format.h>

#include "lockstep/base/entropy_internal.h"
#include "lockstep/base/error.h"

namespace lockstep::ops {
namespace {

thread_local FunctionDraws::Call* t_call = nullptr;
thread_local int t_replica = 0;

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
FunctionDraws::Call::~Call() { t_call = before_; }

FunctionDraws* FunctionDraws::current() { return t_call ? &t_call->draws_ : nullptr; }

std::int64_t FunctionDraws::next_seed() { return t_call->without_seed_++; }

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

bool FunctionDraws::empty() const {
  const std::lock_guard lock(mutex_);
  return states_.empty();
}

Json FunctionDraws::save() const {
  const std::lock_guard lock(mutex_);
  Json all = Json::array();
  for (const auto& [node, state] : states_) {
    const auto& [name, seed, seed2] = node;
    all.push_back(Json::array({name, seed, seed2, state.key, state.counter_low, state.counter_high}));
  }
  return all;
}

void FunctionDraws::restore(const Json& state) {
  decltype(states_) states;
  try {
    for (const auto& [name, seed, seed2, key, low, high] : state.get<std::vector<StatefulRandomState>>())
      states[{name, seed, seed2}] = {key, low, high};
  } catch (const JsonError& error) {
    throw_invalid_argument(fmt::format("invalid state of the random operations of a function: {}", error.what()));
  }
  const std::lock_guard lock(mutex_);
  states_ = std::move(states);
}

FunctionDraws& TracedDraws::of(const std::string& exact, const std::string& without_shapes) {
  const std::lock_guard lock(mutex_);
  const auto first = first_.try_emplace(without_shapes, exact).first;
  return draws_[reduces_ && first->second != exact ? "relaxed " + without_shapes : exact];
}

ReplicaDraws::ReplicaDraws(int replica) : outer_(t_replica) { t_replica = replica; }
ReplicaDraws::~ReplicaDraws() { t_replica = outer_; }

}  // namespace lockstep::ops
