// A checkpoint written by several workers at once, each its part, with one commit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/communicator.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/train/live_graph_internal.h"
#include "lockstep/train/save_plan_internal.h"
#include "lockstep/train/sharding_policies.h"

namespace lockstep::train {

// The values that the plan divides.
std::vector<PlannedTensor> planned_tensors(const LiveValues& values);

// The data of a shard's pieces, sharing the memory of the contents; empty for those that other ranks send.
std::vector<formats::TensorData> pieces_of(const SavePlan& plan, std::size_t shard,
                                           const formats::NamedTensors& contents);

// Writes the pieces of shard `shard` of `num_files` that its rank has under a temporary name, and syncs them unless
// other ranks send more of them. Dropped before somebody has renamed it, it leaves no trace.
std::unique_ptr<formats::BundleShard> write_shard(const SavePlan& plan, std::size_t shard, int num_files,
                                                  const std::vector<PlannedTensor>& tensors,
                                                  const std::vector<formats::TensorData>& pieces,
                                                  const std::string& prefix, io::FileSystem& files);

// A data file that waits to be published, and its entries in the index.
struct WrittenShard {
  std::string temporary;  // its path
  formats::BundleEntries entries;
};
// Gives the data files their names and writes the index, whose rename makes the checkpoint visible: before it nothing
// refers to them. An older checkpoint of the prefix stays whole until then; choose `num_files` by unused_shard_count.
// After an error nothing of the new one is left.
void commit_shards(const std::string& prefix, int num_files, std::vector<WrittenShard> shards, io::FileSystem& files);

// write_values() with the files of a policy.
void write_checkpoint(const LiveValues& values, const std::string& prefix, const experimental::ShardingCallback& policy,
                      io::FileSystem& files = io::posix_file_system());

// The contribution of one rank to a checkpoint.
struct SharedPart {
  std::string prefix;
  std::vector<PlannedTensor> tensors;
  SavePlan plan;
  int shard = -1;                            // -1: it writes nothing
  std::vector<formats::TensorData> pieces;   // of the shard
  std::vector<formats::TensorData> sent;     // pieces that other ranks write, in the order of the plan
  std::map<std::string, std::string> texts;  // the texts of each worker, by key
};

// The ranks that see a folder of the chief's, which is made where it is missing: a file of the chief's is looked for.
// Every rank calls it.
std::vector<int> ranks_at(collectives::Communicator& group, const std::string& directory,
                          io::FileSystem& files = io::posix_file_system());

// The part of the group's rank when `ranks` write. Values are those of the contents, not copies. A string tensor below
// "/.LOCKSTEP_STATE/" is the worker's own text: the checkpoint gets the list of all. Other strings are the chief's.
SharedPart shared_part(const collectives::Communicator& group, const std::vector<int>& ranks, const std::string& prefix,
                       const LiveValues& values);

// Every rank calls it with its part of the same checkpoint. Throws on every rank when it fails on one, see
// collectives::run_together; InvalidArgument naming the rank whose prefix or tensors differ. `after_commit` runs on the
// chief, and its failure is one of the save too.
void write_together(collectives::Communicator& group, SharedPart part, const std::function<void()>& after_commit = {},
                    io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::train
