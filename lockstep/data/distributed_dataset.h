// Datasets whose batches are divided among the replicas of a strategy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/data/dataset.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep::distribute {

// Which pipeline of a job a dataset function builds (tf.distribute.InputContext).
struct InputContext {
  int num_input_pipelines = 1;   // workers
  int input_pipeline_id = 0;     // this one
  int num_replicas_in_sync = 1;  // of all workers
  // Throws InvalidArgument when the global size does not divide evenly.
  std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;
};

// How the elements of a function's dataset are assigned to the replicas of a worker
// (tf.distribute.InputReplicationMode).
enum class InputReplicationMode {
  kPerWorker,   // a replica gets one element, the next the next
  kPerReplica,  // each replica gets every element
  PER_WORKER = kPerWorker,
  PER_REPLICA = kPerReplica,
};

// tf.distribute.InputOptions. The replicas of a process share its memory, so only the mode has an effect.
struct InputOptions {
  bool experimental_fetch_to_device = true;
  InputReplicationMode experimental_replication_mode = InputReplicationMode::kPerWorker;
  bool experimental_place_dataset_on_device = false;
  int experimental_per_replica_buffer_size = 1;
};

// The part that this process has in a job.
struct InputShare {
  collectives::Communicator* group = nullptr;  // null for a job of one worker
  int num_replicas = 1;                        // of all workers
  int first_replica = 0;                       // the number of this worker's first one
  int num_local_replicas = 1;

  int num_workers() const { return group ? group->size() : 1; }
  int worker() const { return group ? group->rank() : 0; }
};

// Gives one element for each local replica at each step.
class DistributedDataset {
 public:
  // The result of a pass: the replicas' elements of the next step, or nothing at the end.
  using Steps = std::function<std::optional<PerReplica<data::Element>>()>;
  explicit DistributedDataset(std::function<Steps()> make) : make_(std::move(make)) {}
  // Of experimental_distribute_dataset(), with the dataset that it was given.
  DistributedDataset(std::function<Steps()> make, std::shared_ptr<const data::Dataset> source)
      : make_(std::move(make)), source_(std::move(source)) {}
  // Null where a function made the datasets of the workers.
  const std::shared_ptr<const data::Dataset>& source() const { return source_; }
  // Of the elements of that dataset, as under a strategy of one replica. Throws FailedPrecondition without one.
  data::ElementSpec element_spec() const;

  class Iterator {
   public:
    Iterator() = default;
    explicit Iterator(Steps steps) : steps_(std::move(steps)) { ++*this; }
    // Throws OutOfRange at the end.
    const PerReplica<data::Element>& operator*() const& {
      if (!current_) throw_out_of_range("the distributed dataset has no more elements");
      return *current_;
    }
    PerReplica<data::Element> operator*() && { return *std::as_const(*this); }
    Iterator& operator++() {
      if (!steps_) throw_out_of_range("the distributed dataset has no more elements");
      current_ = steps_();
      return *this;
    }
    // *iterator++ is Python's next(iterator). Throws OutOfRange at the end.
    class Taken {
     public:
      explicit Taken(PerReplica<data::Element> batch) : batch_(std::move(batch)) {}
      PerReplica<data::Element> operator*() && { return std::move(batch_); }

     private:
      PerReplica<data::Element> batch_;
    };
    Taken operator++(int) {
      Taken taken(std::as_const(*this).operator*());
      ++*this;
      return taken;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) {
      return a.current_.has_value() == b.current_.has_value();
    }
    // tf.experimental.Optional.
    class Optional : public std::optional<PerReplica<data::Element>> {
     public:
      explicit Optional(std::optional<PerReplica<data::Element>> value) : optional(std::move(value)) {}
      // Throws OutOfRange if there is none.
      const PerReplica<data::Element>& get_value() const {
        if (!has_value()) throw_out_of_range("the distributed dataset has no more elements");
        return **this;
      }
    };
    // The elements of the next step; nothing at the end.
    Optional get_next_as_optional() {
      Optional next(std::move(current_));
      if (next) ++*this;
      return next;
    }
    // The same; throws OutOfRange at the end. Python's next(iterator).
    PerReplica<data::Element> get_next() { return *(*this)++; }
    friend PerReplica<data::Element> next(Iterator& iterator) { return iterator.get_next(); }
    friend PerReplica<data::Element> next(Iterator&& iterator) { return iterator.get_next(); }  // next(iter(dataset))

   private:
    Steps steps_;
    std::optional<PerReplica<data::Element>> current_;
  };
  // A new pass over the data.
  Iterator begin() const { return Iterator(begin_steps()); }
  Steps begin_steps() const { return make_(); }
  Iterator end() const { return {}; }
  // Python's iter(dataset).
  friend Iterator iter(const DistributedDataset& dataset) { return dataset.begin(); }

 private:
  std::function<Steps()> make_;
  std::shared_ptr<const data::Dataset> source_;
};

// The rows of one element after the other, in one.
data::Element joined_rows(const std::vector<data::Element>& parts);

// The implementation of Strategy::experimental_distribute_dataset, by the policy of the dataset's options, which the
// chief resolves for all:
//   DATA  Every worker reads the whole dataset and takes its replicas' rows of each batch (split_rows over all
//   replicas), so the
//         workers together see the elements that one worker would see. No communication.
//   FILE  Each worker reads different files, and takes the n-th part of each batch in a step.
//   OFF   As FILE, with all elements on every worker.
// Under FILE and OFF the steps end when all workers are out of data; those that are out earlier get batches of no rows.
// Shuffles without a seed take the chief's. A worker whose pipeline throws reports it to the others, whose next step
// then throws Unavailable. Every worker must call this, and begin its passes, in the same order.
DistributedDataset distribute_dataset(const data::Dataset& dataset, const InputShare& share);
// The implementation of Strategy::distribute_datasets_from_function; steps end as under FILE.
DistributedDataset distribute_from_function(const std::function<data::Dataset(const InputContext&)>& fn,
                                            const InputShare& share, const InputOptions& options = {});

// The data that `workers` workers read under FILE in their pass number `pass`, from 1 on, read by this process alone:
// the parts of each step, one after the other in one element, until all are out of data.
std::function<std::optional<data::Element>()> file_sharded_pass(const data::Dataset& dataset, int workers,
                                                                std::int64_t pass);

// The chief's decision on a dataset, kData, kFile or kOff (see data::resolve_policy); every worker calls it. The
// dataset has the chief's seeds afterwards, so that all shuffle alike. Throws the error of the chief on every
// worker, and InvalidArgument on a worker that has built another pipeline than the chief.
data::AutoShardPolicy agree_on_policy(const data::Dataset& dataset, collectives::Communicator& group);

}  // namespace lockstep::distribute
