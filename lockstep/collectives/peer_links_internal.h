// TCP connections between the members of a group, and collectives over them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/collectives/job_store_internal.h"

namespace lockstep::collectives {

// Each member is connected to those at distances of powers of two, in both directions around the circle of members: at
// most 2 log2(size) connections. These suffice for rings, recursive doubling and binomial trees from any root.
//
// A collective is called by all members in the same order, from one thread at a time. Calls throw Unavailable if a
// connection breaks; then the members have different data and no further call is possible.
class PeerLinks {
 public:
  // Called every few milliseconds while a member waits; throws to abort the wait.
  using AbortCheck = std::function<void()>;

  // Connects the members. They find each other through `store`, under a name that is new in the job; `host` is the
  // address of this member as the others reach it.
  PeerLinks(JobStore& store, const std::string& name, int rank, int size, const std::string& host,
            std::chrono::milliseconds timeout, const AbortCheck& check_abort);
  ~PeerLinks();
  PeerLinks(const PeerLinks&) = delete;
  PeerLinks& operator=(const PeerLinks&) = delete;

  // Replaces `data` by the elementwise sum over the members: bit-identical on all of them, and in all runs with the
  // same number of members and bytes. Short sums use recursive doubling, long ones a ring.
  void sum(std::span<std::byte> data, DType dtype, const AbortCheck& check_abort);
  // `data` consists of a block of each member, of which `ends` are the ends; every member gets all blocks.
  void gather(std::span<std::byte> data, const std::vector<std::size_t>& ends, const AbortCheck& check_abort);
  // Copies the data of one member to all.
  void broadcast(std::span<std::byte> data, int root, const AbortCheck& check_abort);

 private:
  using Received = std::function<void(std::size_t offset, std::span<const std::byte> bytes)>;
  int socket_of(int member) const;
  void exchange(int to, std::span<const std::byte> out, int from, std::span<std::byte> in, const Received& received,
                const AbortCheck& check_abort);
  void exchange(int to, std::span<const std::byte> out, int from, std::span<std::byte> in,
                const AbortCheck& check_abort);
  void ring_sum(std::span<std::byte> data, DType dtype, const AbortCheck& check_abort);
  void doubling_sum(std::span<std::byte> data, DType dtype, const AbortCheck& check_abort);
  int at_distance(int distance) const { return ((rank_ + distance) % size_ + size_) % size_; }

  int rank_, size_;
  std::map<int, int> sockets_;  // by member
  std::vector<std::byte> scratch_;
};

// The members that a member is connected to, ascending.
std::vector<int> linked_members(int rank, int size);
// Whether recursive doubling is expected to be faster than a ring.
bool doubling_is_faster(std::size_t bytes, int size);

}  // namespace lockstep::collectives
