#include "lockstep/data/auto_shard_internal.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/data/sequence_internal.h"

namespace lockstep::data {
namespace {

// Steps whose result depends on how many elements are before them.
constexpr std::array<std::string_view, 7> kCounting = {"take", "skip",       "enumerate",         "shard",
                                                       "zip",  "take_while", "assert_cardinality"};

bool counts(const DatasetNode& node) {
  return std::find(kCounting.begin(), kCounting.end(), node.name()) != kCounting.end();
}

bool counts_above_files(const DatasetNode& node) {
  if (node.reads_files()) return false;
  if (counts(node)) return true;
  return std::any_of(node.inputs().begin(), node.inputs().end(),
                     [](const NodePtr& input) { return counts_above_files(*input); });
}

std::optional<std::int64_t> files_below(const DatasetNode& node) {
  if (node.reads_files()) return node.input()->cardinality();
  std::optional<std::int64_t> least;
  for (const NodePtr& input : node.inputs()) {
    const auto files = files_below(*input);
    if (!files) return std::nullopt;
    if (!least || *least < 0 || (*files >= 0 && *files < *least)) least = files;
  }
  return least;
}

NodePtr sharded(const NodePtr& node, std::int64_t num_shards, std::int64_t index) {
  std::vector<NodePtr> inputs;
  for (const NodePtr& input : node->inputs()) {
    inputs.push_back(node->reads_files() ? shard_node(input, num_shards, index) : sharded(input, num_shards, index));
  }
  NodePtr copy = node->with_inputs(std::move(inputs));
  if (const Json state = node->save_node(); !state.is_null()) copy->restore_node(state);
  return copy;
}

}  // namespace

std::optional<std::int64_t> shardable_files(const Dataset& dataset) { return files_below(*dataset.node()); }

Dataset shard_files(const Dataset& dataset, std::int64_t num_shards, std::int64_t index) {
  if (!shardable_files(dataset)) {
    throw_invalid_argument("auto-sharding by FILE requires a dataset that reads files and nothing else; use DATA");
  }
  return Dataset(sharded(dataset.node(), num_shards, index));
}

AutoShardPolicy resolve_policy(const Dataset& dataset, int workers) {
  const AutoShardPolicy asked = dataset.options().experimental_distribute.auto_shard_policy;
  if (asked == AutoShardPolicy::kData || asked == AutoShardPolicy::kOff) return asked;
  if (asked == AutoShardPolicy::kHint) return AutoShardPolicy::kOff;
  const auto files = shardable_files(dataset);
  if (asked == AutoShardPolicy::kFile) {
    if (!files) shard_files(dataset, workers, 0);
    if (*files >= 0 && *files < workers) {
      throw_invalid_argument(
          fmt::format("auto-sharding by FILE requires at least one file for each worker: found {} file{} for {} "
                      "workers; use DATA, or more files",
                      *files, *files == 1 ? "" : "s", workers));
    }
    return AutoShardPolicy::kFile;
  }
  return files && *files >= workers && !counts_above_files(*dataset.node()) ? AutoShardPolicy::kFile
                                                                            : AutoShardPolicy::kData;
}

std::int64_t nominal_batch_size(const Dataset& dataset) {
  for (const DatasetNode* node = dataset.node().get();; node = node->input().get()) {
    if (node->batch_size() > 0) return node->batch_size();
    if (node->inputs().size() != 1 || node->name() == "unbatch" || node->name() == "interleave") return 0;
  }
}

namespace {

bool shards(const DatasetNode& node) {
  return node.name() == "shard" ||
         std::any_of(node.inputs().begin(), node.inputs().end(), [](const NodePtr& input) { return shards(*input); });
}

}  // namespace

bool has_shard(const Dataset& dataset) { return shards(*dataset.node()); }

}  // namespace lockstep::data
