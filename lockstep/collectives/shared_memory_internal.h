// All-reduce between workers of one machine, through shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/shared_mapping_internal.h"

namespace lockstep::collectives {

// A memory in which every rank has a ring buffer of slots. Sums of any length pass through it block by block.
//
// Each rank copies its block into a slot ("published"). Two ranks then add both slots into their targets. More ranks,
// and two if asked to, do a reduce-scatter and an all-gather per block: each adds one shard of the elements into its
// own slot
// ("reduced") and collects the shards of the others; no rank copies the elements of its own shard. A slot is reused
// when all ranks have read it ("consumed"). Only reduce() and finish() wait; they may be called from another thread
// than start(), which does not wait for them.
class SharedMemory {
 public:
  // Called every few milliseconds while a rank waits; throws to abort the wait.
  using AbortCheck = std::function<void()>;

  static constexpr int kMaxRanks = 64;
  // Called by rank 0. Null if the system has no memory for it.
  static std::unique_ptr<SharedMemory> make(int size);
  // Called by the other ranks, with its name. Null if it is not visible here, as on another machine.
  static std::unique_ptr<SharedMemory> open(const std::string& name, int rank, int size);

  const std::string& name() const { return mapping_->name(); }
  // Removes the name, after all ranks have opened it.
  void unname() { mapping_->unname(); }

  // The memory of the machine's HeartbeatBoard.
  std::byte* board() const;

  static bool can_sum(DType dtype);

  static constexpr int kAllRanks = -1;
  // A range of elements: read from `from` (null: zeros) when it is published; its sum is written to `to`. With a
  // `source`, the bytes of that rank are copied instead of a sum; then all parts have one.
  struct Part {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
    int source = kAllRanks;
  };
  // Starts the elementwise sum of the ranks' parts, in the order of ranks; returns the number of the sum. Every rank
  // makes equal calls in the same order. The memory of `from` must be unchanged until finish() has returned, or
  // reduce() for a reduce-scatter; `to` must be set by then (see target). A reduce-scatter copies less and synchronizes
  // once more; more than two ranks always use it. `only`: the rank that gets the result, whose `to` alone is written.
  std::uint64_t start(std::vector<Part> parts, DType dtype, bool reduce_scatter = false, int only = kAllRanks);
  // Forgets the memory of the parts of an unfinished sum, before it is freed. No rank can continue after that, unless
  // this rank has reduced its shard.
  void abandon(std::uint64_t sum) noexcept;
  // Sets the memory for the sum of a part; it may be the memory of its `from`.
  void target(std::uint64_t sum, std::size_t part, void* to);
  // `to` receives the result of an update of the sum instead of the sum of a part. Each rank runs the update on its
  // shard: fn(first byte of the piece in the part, its bytes, the piece), in place. fn also writes its result to this
  // rank's `to`; the pieces of the other ranks are copied there. Every rank calls it for the same parts of a sum with
  // reduce_scatter, before it waits for this sum or a later one.
  using ShardUpdate = std::function<void(std::size_t offset, std::size_t bytes, std::byte* piece)>;
  void set_shard_update(std::uint64_t sum, std::size_t part, void* to, ShardUpdate fn);
  // Returns when this rank has reduced its shard of a reduce-scatter, and of all sums that were started before it.
  void reduce(std::uint64_t sum, const AbortCheck& check_abort);
  // Returns when the sum, and all that were started before it, are in their targets.
  void finish(std::uint64_t sum, const AbortCheck& check_abort);

 private:
  struct Header;
  struct Counters;
  struct Sum {
    std::vector<Part> parts;
    DType dtype;
    bool scattered = false;  // reduce-scatter and all-gather
    int only = kAllRanks;
    std::size_t bytes = 0;
    std::uint64_t first_block = 0, end_block = 0;
    std::vector<ShardUpdate> updates;  // by part; no list, or some entries empty
    bool discarded = false;            // abandoned when only consume() was left
  };

  SharedMemory(std::unique_ptr<SharedMapping> mapping, int rank, int size);
  static const std::size_t kSlotsBegin;  // the offset of the first slot
  static std::size_t bytes_for(int size);
  Header& header() const;
  Counters& counters(int rank) const;
  std::byte* slot(int rank, std::uint64_t block) const;
  const Sum& sum_of(std::uint64_t block) const;
  bool can_publish() const;
  bool can_reduce_shard(std::uint64_t end) const;
  bool can_consume(std::uint64_t end) const;
  bool advance(std::uint64_t end);
  void advance_to(const std::uint64_t& blocks, std::uint64_t sum, const AbortCheck& check_abort,
                  std::unique_lock<std::mutex>& lock);
  void publish();
  void reduce_shard();
  void consume();
  void collect(const Sum& sum, const Part& part, std::byte* to, std::size_t at, std::size_t count) const;
  std::size_t block_bytes(const Sum& sum, std::uint64_t block) const;
  std::size_t shard_begin(std::size_t block_bytes, int rank) const;
  template <typename Fn>
  void each_part(const Sum& sum, std::uint64_t block, Fn fn) const;
  void ring() const;
  void wait(const std::uint64_t& blocks, std::uint64_t end, const AbortCheck& check_abort,
            std::unique_lock<std::mutex>& lock);

  std::unique_ptr<SharedMapping> mapping_;
  int rank_;
  int size_;
  std::mutex mutex_;                                          // guards the members below
  std::deque<Sum> sums_;                                      // the unfinished ones
  std::uint64_t first_sum_ = 0;                               // the number of the first of sums_
  std::uint64_t end_block_ = 0;                               // of all started sums
  std::uint64_t published_ = 0, reduced_ = 0, consumed_ = 0;  // this rank's blocks
};

}  // namespace lockstep::collectives
