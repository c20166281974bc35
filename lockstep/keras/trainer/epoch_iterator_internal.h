// Steps through batches, epoch after epoch, as keras.src.trainers.epoch_iterator.EpochIterator of Keras 3.15 does:
// which batches belong to an epoch, when a new pass over the data begins, and how steps are numbered. fit, its
// validation, evaluate and predict use it.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/json.h"
#include "lockstep/keras/trainer/batches.h"

namespace lockstep::keras {

// Which data the batches come from.
bool is_of_arrays(const BatchSource& source);
bool is_of_dataset(const BatchSource& source);

// An epoch consists of executions, groups of `steps_per_execution` batches:
//
//   batches.begin_epoch();
//   while (std::optional<Batch> batch = batches.next_execution()) {
//     do train(*batch); while ((batch = batches.next_in_execution()));
//   }
//
// Without steps_per_epoch each epoch is one pass. With it an epoch continues the pass of the previous one; when all
// batches of a pass of known length have been used, a new pass begins at once. When the data of unknown length runs
// out, the epoch ends early and the next one begins a pass. The last execution of an epoch is not shortened to
// steps_per_epoch: 3 steps with steps_per_execution = 2 use 4 batches, as in Keras.
//
// Keras 2: an epoch with steps_per_epoch takes batches from as many passes as it needs, of a number that is given for
// all epochs; when they have run out, no further epoch begins. The last execution is shortened.
class EpochIterator {
 public:
  struct Options {
    std::optional<std::int64_t> steps_per_epoch = {};
    std::int64_t steps_per_execution = 1;
    bool keras2 = false;
  };
  // `source` must outlive the iterator.
  EpochIterator(BatchSource& source, Options options);

  // How many epochs there will be; by default one.
  void set_epochs(std::int64_t epochs);

  // Steps of an epoch, for progress bars: steps_per_epoch, or the length of a pass where it is known.
  std::optional<std::int64_t> num_batches() const;

  // Keras looks at a batch to build a model that was made under a strategy: of a new pass, or of the one that it would
  // continue.
  void peek() {
    if (!source_.has_keras2_order() && (!open_ || !options_.steps_per_epoch)) source_.peek();
  }
  // The next epoch begins a pass. Keras counts the batches that were read before as an epoch.
  void reset();

  void begin_epoch();
  // The first batch of the next execution; empty at the end of the epoch.
  std::optional<Batch> next_execution();
  // Whether the length of a pass is not known, and whether the epoch ended by a step whose batch did not come.
  bool may_run_out() const { return !source_.num_batches(); }
  bool ran_out() const { return ran_out_; }
  // Whether no further epoch begins.
  bool exhausted() const { return exhausted_; }
  bool has_static_rows() const { return source_.has_static_rows(); }
  // The next batch of this execution; empty at its end.
  std::optional<Batch> next_in_execution();

  // Numbers of the first and the last step of the execution, as callbacks get them. The last one counts full
  // executions; not in Keras 2.
  std::int64_t begin_step() const { return next_step_ - options_.steps_per_execution; }
  std::int64_t end_step() const { return options_.keras2 ? begin_step() + in_execution_ - 1 : next_step_ - 1; }
  // Batches of this epoch so far.
  std::int64_t batches_done() const { return done_; }

  // The position of the iterator, with the state of the source. restore_state throws InvalidArgument when the state
  // belongs to other data.
  Json save_state() const;
  void restore_state(const Json& state);

 private:
  void end_epoch();
  // The next batch of the passes that are left.
  std::optional<Batch> next_of_passes();

  BatchSource& source_;
  Options options_;
  std::optional<std::int64_t> pass_length_;  // in steps; known from the start or since a pass ended
  bool open_ = false;                        // a pass has begun that a further epoch with steps_per_epoch continues
  bool ran_out_ = false, exhausted_ = false;
  std::optional<std::int64_t> passes_;  // of Keras 2, see above; nothing: as in Keras 3
  std::int64_t passes_left_ = 0;
  std::int64_t steps_seen_ = 0;    // of the pass
  std::int64_t next_step_ = 0;     // of the epoch
  std::int64_t in_execution_ = 0;  // batches of this execution so far
  std::int64_t done_ = 0;
};

}  // namespace lockstep::keras
