#include "lockstep/distribute/partitioners.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::distribute {
namespace {

void require(const char* who, const char* argument, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw_invalid_argument(fmt::format("invalid {} of {}: found {}, expected at least {}", argument, who, value, least));
}

std::int64_t bytes_of(const Shape& shape, DType dtype) {
  return shape.num_elements().value_or(0) * static_cast<std::int64_t>(dtype_size(dtype));
}

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Scalars, and variables without elements, are not cut.
bool is_whole(const Shape& shape) { return shape.rank() == 0 || shape.num_elements().value_or(0) == 0; }

}  // namespace

Partitioner FixedShardsPartitioner(std::int64_t num_shards) {
  require("FixedShardsPartitioner", "num_shards", num_shards, 1);
  return [=](const Shape& shape, DType) { return is_whole(shape) ? 1 : std::min(num_shards, shape[0]); };
}

Partitioner MinSizePartitioner(std::int64_t min_shard_bytes, std::int64_t max_shards) {
  require("MinSizePartitioner", "min_shard_bytes", min_shard_bytes, 1);
  require("MinSizePartitioner", "max_shards", max_shards, 1);
  return [=](const Shape& shape, DType dtype) -> std::int64_t {
    if (is_whole(shape)) return 1;
    return std::min({max_shards, shape[0], divided_up(bytes_of(shape, dtype), min_shard_bytes)});
  };
}

Partitioner MaxSizePartitioner(std::int64_t max_shard_bytes, std::int64_t max_shards) {
  require("MaxSizePartitioner", "max_shard_bytes", max_shard_bytes, 1);
  require("MaxSizePartitioner", "max_shards", max_shards, 0);
  return [=](const Shape& shape, DType dtype) -> std::int64_t {
    if (is_whole(shape)) return 1;
    const std::int64_t rows = std::max<std::int64_t>(1, max_shard_bytes / (bytes_of(shape, dtype) / shape[0]));
    const std::int64_t shards = divided_up(shape[0], rows);
    return max_shards > 0 ? std::min(max_shards, shards) : shards;
  };
}

}  // namespace lockstep::distribute
