// How the variables of a ParameterServerStrategy are cut into shards (tf.distribute.experimental.partitioners).
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/base/dtype.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/base/shape.h"

namespace lockstep::distribute {

// The number of shards of a variable: 1, or up to the length of its first axis, the only one that is cut.
using Partitioner = std::function<std::int64_t(const Shape& shape, DType dtype)>;

// min(num_shards, rows). Throw InvalidArgument for arguments below 1.
Partitioner FixedShardsPartitioner(std::int64_t num_shards);
struct FixedShardsPartitionerOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_shards = 1;
};
inline Partitioner FixedShardsPartitioner(const FixedShardsPartitionerOptions& o) {
  return FixedShardsPartitioner(o.num_shards);
}
// As many shards as hold at least `min_shard_bytes` each, rounded up as TensorFlow does, so the last ones may hold
// less.
Partitioner MinSizePartitioner(std::int64_t min_shard_bytes = 256 << 10, std::int64_t max_shards = 1);
struct MinSizePartitionerOptions {
  FieldNamesOnly names_only = {};
  std::int64_t min_shard_bytes = 256 << 10;
  std::int64_t max_shards = 1;
};
inline Partitioner MinSizePartitioner(const MinSizePartitionerOptions& o) {
  return MinSizePartitioner(o.min_shard_bytes, o.max_shards);
}
// As few shards as hold at most `max_shard_bytes` each; a row is never cut. max_shards 0: any number.
Partitioner MaxSizePartitioner(std::int64_t max_shard_bytes, std::int64_t max_shards = 0);

namespace experimental::partitioners {
using distribute::FixedShardsPartitioner;
using distribute::MaxSizePartitioner;
using distribute::MinSizePartitioner;
}  // namespace experimental::partitioners

}  // namespace lockstep::distribute
