// Sums between workers of one machine: through memory that they share, without copies through the network's buffers.
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

// A piece of memory in which every rank has a row of places, through which sums of any length go block by block.
//
// A block's way: each rank copies its own into a place ("posted"), two ranks then add both places into their targets.
// More ranks, and two when the sum is shared out, first add a share of the elements each into their own place
// ("summed") and collect the shares of the others; nobody copies the elements of its own share. A place is used again
// when all ranks have "taken" what was in it. Nobody waits but in add() and finish(), which may be called from another
// thread than start().
class SharedMemory {
 public:
  // What a rank does while it waits: throws when waiting has no sense any more. Called every few milliseconds.
  using Patience = std::function<void()>;

  // Rank 0 makes it; empty when the system has none to give.
  static std::unique_ptr<SharedMemory> make(int size);
  // The other ranks open it by name; empty when it cannot be seen from here, as on another machine.
  static std::unique_ptr<SharedMemory> open(const std::string& name, int rank, int size);

  const std::string& name() const { return mapping_->name(); }
  // Takes the name away, once all have opened it.
  void unname() { mapping_->unname(); }

  static bool can_sum(DType dtype);

  // A stretch of a row of elements: read from `from` (null: zeros) when it is posted, its sum written to `to`.
  struct Part {
    const void* from = nullptr;
    void* to = nullptr;
    std::size_t bytes = 0;
  };
  // Begins to add the rows that the ranks' parts make up, elementwise and in the order of ranks; returns the number of
  // the sum. Every rank makes equal calls in the same order. What `from` points to must stay until finish(), or add()
  // where the sum is shared out, has returned; `to` is given by then (see target). Sharing out copies less and meets
  // once more; more than two ranks always do.
  std::uint64_t start(std::vector<Part> parts, DType dtype, bool share_out = false);
  // Forgets where the parts of an unfinished sum come from and go to, as their memory goes. Nobody can go on after
  // that, unless this rank has added its share.
  void abandon(std::uint64_t sum) noexcept;
  // Where the sum of a part shall go; may be where it comes from.
  void target(std::uint64_t sum, std::size_t part, void* to);
  // Instead of the sum of a part, something that is made of it piece by piece shall be written to `to`: by each rank
  // from its share of the sum, fn(first byte of the piece in the part, its bytes, the piece), in place. What fn makes
  // it also writes to this rank's `to` itself; the other ranks' pieces come there. Every rank says so, for the same
  // parts of sums that are shared out, before it waits for the sum or a later one.
  using Make = std::function<void(std::size_t offset, std::size_t bytes, std::byte* piece)>;
  void make_of(std::uint64_t sum, std::size_t part, void* to, Make fn);
  // Returns when this rank has added its share of a sum that is shared out, and of all that were begun before it.
  void add(std::uint64_t sum, const Patience& patience);
  // Returns when the sum, and all that were begun before it, is in its targets.
  void finish(std::uint64_t sum, const Patience& patience);

 private:
  struct Header;
  struct Counters;
  struct Sum {
    std::vector<Part> parts;
    DType dtype;
    bool shared_out = false;  // each rank adds a share, and collects those of the others
    std::size_t bytes = 0;
    std::uint64_t first_block = 0, end_block = 0;
    std::vector<Make> makes;  // by part; none, or some empty
    bool unwanted = false;    // abandoned when only taking was left
  };

  SharedMemory(std::unique_ptr<SharedMapping> mapping, int rank, int size);
  static std::size_t bytes_for(int size);
  Header& header() const;
  Counters& counters(int rank) const;
  std::byte* place(int rank, std::uint64_t block) const;
  const Sum& sum_of(std::uint64_t block) const;
  bool can_post() const;
  bool can_add_share(std::uint64_t end) const;
  bool can_take(std::uint64_t end) const;
  bool advance(std::uint64_t end);
  void advance_to(const std::uint64_t& blocks, std::uint64_t sum, const Patience& patience);
  void post();
  void add_share();
  void take();
  void collect(const Sum& sum, const Part& part, std::byte* to, std::size_t at, std::size_t count) const;
  std::size_t block_bytes(const Sum& sum, std::uint64_t block) const;
  std::size_t share_begin(std::size_t block_bytes, int rank) const;
  template <typename Fn>
  void each_part(const Sum& sum, std::uint64_t block, Fn fn) const;
  void ring() const;
  void wait(std::uint64_t end, const Patience& patience);

  std::unique_ptr<SharedMapping> mapping_;
  int rank_;
  int size_;
  std::mutex mutex_;                                   // for what follows
  std::deque<Sum> sums_;                               // those that are not finished
  std::uint64_t first_sum_ = 0;                        // the number of the first of them
  std::uint64_t end_block_ = 0;                        // of all that were begun
  std::uint64_t posted_ = 0, summed_ = 0, taken_ = 0;  // this rank's blocks
};

}  // namespace lockstep::collectives
