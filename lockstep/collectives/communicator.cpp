#include "lockstep/collectives/communicator.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/messages_internal.h"
#include "lockstep/collectives/pending_internal.h"

namespace lockstep::collectives {

void PendingSum::update(std::size_t, ShardedUpdate) {
  throw_internal("a sharded update requires ranks that share memory");
}

void Communicator::all_reduce(const Tensor& value) { all_reduce_async(value)->wait(); }

std::shared_ptr<std::byte> Communicator::shared_memory(std::size_t) { return nullptr; }

std::vector<std::string> labelled_gather(Communicator& group, const std::string& what, const std::string& bytes) {
  std::vector<std::string> all = group.all_gather(what + '\0' + bytes);
  std::string first;
  for (int rank = 0; rank < group.size(); ++rank) {
    std::string& given = all[static_cast<std::size_t>(rank)];
    const std::size_t end = std::min(given.find('\0'), given.size());
    const std::string label = given.substr(0, end);
    if (rank == 0) first = label;
    if (label != first) {
      throw_failed_precondition(
          fmt::format("mismatched calls of the workers: {} calls {}, {} calls {}; all workers must make the "
                      "same calls in the same order",
                      group.member_name(rank), label, group.member_name(0), first));
    }
    given.erase(0, std::min(end + 1, given.size()));
  }
  return all;
}

void require_equal(Communicator& group, const std::map<std::string, std::string>& facts) {
  const auto packed = labelled_gather(group, "the arguments of the worker", pack_facts(facts));
  const auto first = unpack_facts(packed[0]);
  for (int rank = 1; rank < group.size(); ++rank) {
    const auto& bytes = packed[static_cast<std::size_t>(rank)];
    if (bytes == packed[0]) continue;
    auto theirs = unpack_facts(bytes);
    for (const auto& [name, value] : first) theirs.try_emplace(name, "(absent)");
    for (const auto& [name, value] : theirs) {
      const auto expected = first.find(name);
      const std::string here = expected == first.end() ? "(absent)" : expected->second;
      if (here == value) continue;
      throw_invalid_argument(fmt::format("{} has {} {}, but {} has {}: all workers of a job must have the same",
                                         group.member_name(rank), name, value, group.member_name(0), here));
    }
  }
}

}  // namespace lockstep::collectives
