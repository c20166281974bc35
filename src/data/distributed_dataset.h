// Datasets whose batches are shared out to the replicas of a strategy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep::distribute {

// Which pipeline of a job a dataset function builds (tf.distribute.InputContext).
struct InputContext {
  int num_input_pipelines = 1;
  int input_pipeline_id = 0;
  int num_replicas_in_sync = 1;
  // Throws InvalidArgument when the global size does not divide evenly.
  std::int64_t get_per_replica_batch_size(std::int64_t global_batch_size) const;
};

// Gives one element for each replica at each step.
class DistributedDataset {
 public:
  // What a pass gives: the replicas' elements of the next step, or nothing at the end.
  using Steps = std::function<std::optional<PerReplica<data::Element>>()>;
  explicit DistributedDataset(std::function<Steps()> make) : make_(std::move(make)) {}

  class Iterator {
   public:
    Iterator() = default;
    explicit Iterator(Steps steps) : steps_(std::move(steps)) { ++*this; }
    const PerReplica<data::Element>& operator*() const { return *current_; }
    Iterator& operator++() {
      current_ = steps_();
      return *this;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.current_.has_value() == b.current_.has_value(); }

   private:
    Steps steps_;
    std::optional<PerReplica<data::Element>> current_;
  };
  // A new pass over the data.
  Iterator begin() const { return Iterator(make_()); }
  Iterator end() const { return {}; }

 private:
  std::function<Steps()> make_;
};

}  // namespace lockstep::distribute
