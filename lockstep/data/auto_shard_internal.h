// How a dataset is divided among the workers of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/json.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

// How many workers may share the files of a dataset: the number of names that its readers (TextLineDataset,
// TFRecordDataset, or an interleave or flat_map that makes them) take, the smallest where there are several. Unknown
// cardinality or an infinite one where it is that. Nothing: the dataset reads no files, or combines them with elements
// that are not files'.
std::optional<std::int64_t> shardable_files(const Dataset& dataset);
// The dataset over every num_shards-th file from `index` on. Throws InvalidArgument when files cannot be shared.
Dataset shard_files(const Dataset& dataset, std::int64_t num_shards, std::int64_t index);

// The policy for `workers` workers: kFile, kData or kOff. AUTO is FILE for a dataset with at least as many files as
// workers in which no step counts elements (take, skip, zip, …), else DATA. Throws InvalidArgument for FILE without
// files, or with fewer than workers.
AutoShardPolicy resolve_policy(const Dataset& dataset, int workers);

// The size of the last batch() among the steps of a dataset that gives batches; 0 when it is unknown.
std::int64_t nominal_batch_size(const Dataset& dataset);

// Whether the user has divided it: a shard() is among its steps.
bool has_shard(const Dataset& dataset);

}  // namespace lockstep::data
