// tf.train.experimental: into which data files the tensors of a checkpoint go.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/error.h"

namespace lockstep::train::experimental {

// One data file, or one for each worker that writes: the default.
struct ShardByTaskPolicy {};

// Data files of at most `max_shard_size` bytes. Tensors are cut where they do not fit and stored as slices, which
// TensorFlow puts together when it reads them. Tensors of strings, float16, uint16, uint32 and uint64 stay whole,
// because TensorFlow does not read slices of these; a file with a larger one is larger than max_shard_size. Throws
// InvalidArgument below one byte.
struct MaxShardSizePolicy {
  explicit MaxShardSizePolicy(std::int64_t max_shard_size) : max_shard_size(max_shard_size) {
    if (max_shard_size < 1) throw_invalid_argument("MaxShardSizePolicy: max_shard_size must be at least 1 byte");
  }
  std::int64_t max_shard_size;
};

// CheckpointOptions(experimental_sharding_callback=...): one of these policies.
class ShardingCallback {
 public:
  ShardingCallback() = default;
  ShardingCallback(ShardByTaskPolicy) {}       // NOLINT(google-explicit-constructor)
  ShardingCallback(MaxShardSizePolicy policy)  // NOLINT(google-explicit-constructor)
      : max_shard_size_(static_cast<std::uint64_t>(policy.max_shard_size)) {}

  const std::optional<std::uint64_t>& max_shard_size() const { return max_shard_size_; }

 private:
  std::optional<std::uint64_t> max_shard_size_;
};

}  // namespace lockstep::train::experimental
