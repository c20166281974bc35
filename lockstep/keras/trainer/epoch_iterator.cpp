#include "lockstep/keras/trainer/epoch_iterator_internal.h"

#include <algorithm>

#include "lockstep/base/log_internal.h"

namespace lockstep::keras {

EpochIterator::EpochIterator(BatchSource& source, Options options)
    : source_(source), options_(options), pass_length_(source.num_batches()) {
  options_.steps_per_execution = std::max<std::int64_t>(1, options_.steps_per_execution);
  if (options_.steps_per_epoch == 0) options_.steps_per_epoch.reset();  // as in Keras
  set_epochs(1);
}

void EpochIterator::set_epochs(std::int64_t epochs) {
  const auto& steps = options_.steps_per_epoch;
  if (!options_.keras2 || !steps) return;
  // A pass for each epoch over arrays, one over a dataset unless each epoch is a pass.
  if (is_of_arrays(source_)) {
    passes_ = epochs;
  } else if (is_of_dataset(source_) && source_.num_batches() != *steps) {
    passes_ = 1;
  }
}

std::optional<std::int64_t> EpochIterator::num_batches() const {
  return options_.steps_per_epoch ? options_.steps_per_epoch : pass_length_;
}

void EpochIterator::reset() {
  pass_length_ = source_.num_batches();
  open_ = exhausted_ = false;
  steps_seen_ = 0;
  source_.on_epoch_end();
}

void EpochIterator::begin_epoch() {
  source_.on_epoch_begin();
  if (!open_ || !options_.steps_per_epoch) {
    source_.reset();
    open_ = true;
    steps_seen_ = 0;
    passes_left_ = passes_.value_or(1) - 1;
  }
  next_step_ = done_ = in_execution_ = 0;
  ran_out_ = false;
}

std::optional<Batch> EpochIterator::next_of_passes() {
  std::optional<Batch> batch = source_.next();
  while (!batch && passes_left_ > 0) {
    --passes_left_;
    source_.on_epoch_end();
    source_.on_epoch_begin();
    source_.reset();
    batch = source_.next();
  }
  return batch;
}

std::optional<Batch> EpochIterator::next_execution() {
  const auto& steps = options_.steps_per_epoch;
  if (passes_) {
    if (done_ >= *steps) return std::nullopt;
    std::optional<Batch> batch = next_of_passes();
    if (!batch) {
      log_warning("the data ran out after {} of {} steps of this epoch; training ends", done_, *steps);
      ran_out_ = exhausted_ = true;
      return std::nullopt;
    }
    next_step_ += options_.steps_per_execution;
    in_execution_ = 1;
    ++done_;
    return batch;
  }
  const auto warn_if_short = [&] {
    if (!steps || next_step_ >= *steps) return;
    log_warning("the data ran out after {} of {} steps of this epoch; it restarts with the next epoch", next_step_,
                *steps);
  };
  const bool pass_is_over = pass_length_ && steps_seen_ >= *pass_length_;
  if (pass_is_over || (steps && next_step_ >= *steps)) {
    warn_if_short();
    end_epoch();
    source_.on_epoch_end();
    return std::nullopt;
  }
  std::optional<Batch> batch = source_.next();
  steps_seen_ += options_.steps_per_execution;
  if (!batch) {
    if (!pass_length_) pass_length_ = steps_seen_;
    warn_if_short();
    ran_out_ = true;
    open_ = false;
    source_.on_epoch_end();
    return std::nullopt;
  }
  next_step_ += options_.steps_per_execution;
  in_execution_ = 1;
  ++done_;
  return batch;
}

std::optional<Batch> EpochIterator::next_in_execution() {
  if (in_execution_ >= options_.steps_per_execution) return std::nullopt;
  if (options_.keras2 && options_.steps_per_epoch && done_ >= *options_.steps_per_epoch) return std::nullopt;
  std::optional<Batch> batch = passes_ ? next_of_passes() : source_.next();
  if (!batch) return std::nullopt;
  ++in_execution_;
  ++done_;
  return batch;
}

// After the last batch of a pass of known length Keras opens the next iterator, which the next epoch continues with
// steps_per_epoch and replaces without.
void EpochIterator::end_epoch() {
  if (!pass_length_ || steps_seen_ < *pass_length_) return;
  steps_seen_ = 0;
  if (options_.steps_per_epoch) {
    source_.reset();
    open_ = true;
  } else {
    source_.skip_pass();
    open_ = false;
  }
}

Json EpochIterator::save_state() const {
  return {{"source", source_.save_state()}, {"open", open_},
          {"steps_seen", steps_seen_},      {"pass_length", pass_length_ ? Json(*pass_length_) : Json(nullptr)},
          {"next_step", next_step_},        {"done", done_},
          {"passes_left", passes_left_}};
}

void EpochIterator::restore_state(const Json& state) {
  source_.restore_state(state.at("source"));
  open_ = state.at("open").get<bool>();
  steps_seen_ = state.at("steps_seen").get<std::int64_t>();
  next_step_ = state.at("next_step").get<std::int64_t>();
  done_ = state.at("done").get<std::int64_t>();
  passes_left_ = std::max<std::int64_t>(0, state.value("passes_left", std::int64_t{0}));
  in_execution_ = options_.steps_per_execution;
  if (!pass_length_ && !state.at("pass_length").is_null()) pass_length_ = state["pass_length"].get<std::int64_t>();
  // With another batch size the rest of the pass has another number of batches.
  if (const auto left = source_.batches_left(); left && pass_length_ && open_) steps_seen_ = *pass_length_ - *left;
}

}  // namespace lockstep::keras
