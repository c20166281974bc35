// Who of several workers writes which part of a checkpoint. Plain numbers: no files, no tensors, no communication.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/base/shape.h"

namespace lockstep::train {

struct PlannedTensor {
  std::string key;
  DType dtype = DType::kFloat32;
  Shape shape;              // fully known
  std::uint64_t bytes = 0;  // as stored; an estimate for strings, which only the chief writes
  // Where each rank has only a range of the elements, in the order of ranks: the ends of the ranges, in bytes.
  std::vector<std::size_t> ends = {};
};

// A tensor, or a box of one: `start` and `size` along each axis.
struct PlannedPiece {
  std::size_t tensor = 0;  // its place in the list
  std::uint64_t bytes = 0;
  bool whole = true;
  std::vector<std::int64_t> start = {};
  std::vector<std::int64_t> size = {};
  int source = -1;  // the rank that sends it to the one that writes it; -1: that has it
};

struct PlannedShard {
  int rank = 0;
  std::uint64_t bytes = 0;
  std::vector<PlannedPiece> pieces;  // in the order in which they are written
};

struct SavePlan {
  int num_ranks = 1;
  std::uint64_t bytes = 0;           // of one copy
  std::vector<PlannedShard> shards;  // data file s of shards.size() is written by shards[s].rank
  // The shard of a rank; -1 for one that writes nothing.
  int shard_of(int rank) const;
  std::uint64_t largest_shard() const;
};

// Divides the tensors among `ranks` so that each writes about a 1/N of the bytes, one copy in all. Whole tensors where
// that balances to 5 % and 4 KiB; else the list is cut into N equal ranges, and tensors across a cut are stored in
// boxes, which TensorFlow's checkpoints know as slices, if it reads slices of their dtype. Ranges are written by the
// ranks that have them; those of ranks that do not write are sent to the others in pieces of 16 MiB at most. Ranks for
// which nothing is left write no file. Strings go to the first rank. The same on every worker and in every run. Throws
// InvalidArgument for no ranks.
SavePlan plan_save(const std::vector<PlannedTensor>& tensors, const std::vector<int>& ranks);
SavePlan plan_save(const std::vector<PlannedTensor>& tensors, int num_ranks);

// Files of at most `max_shard_size` bytes, all of rank 0: the tensors in their order, numbers cut in boxes where the
// next file begins. Tensors whose slices TensorFlow does not read (strings, float16) stay whole. They, and single
// elements, that are larger have a file of their own.
SavePlan plan_files(const std::vector<PlannedTensor>& tensors, std::uint64_t max_shard_size);

// A table of ranks, files, bytes and tensors, as fit --dry-run prints it; `most_lines` shards at most, 0: all.
std::string plan_text(const SavePlan& plan, const std::vector<PlannedTensor>& tensors, const std::string& prefix,
                      std::size_t most_lines = 0);

}  // namespace lockstep::train
