#include "lockstep/collectives/communicator.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {

void require_equal(Communicator& group, const std::map<std::string, std::string>& facts) {
  const auto pack = [&] {
    std::string out;
    for (const auto& [name, value] : facts) {
      for (const std::string& part : {name, value}) out += fmt::format("{}:{}", part.size(), part);
    }
    return out;
  };
  const auto unpack = [](const std::string& bytes) {
    std::map<std::string, std::string> out;
    std::size_t at = 0;
    const auto part = [&] {
      const std::size_t colon = bytes.find(':', at);
      const std::size_t size = std::stoull(bytes.substr(at, colon - at));
      at = colon + 1 + size;
      return bytes.substr(colon + 1, size);
    };
    while (at < bytes.size()) {
      std::string name = part();
      out[std::move(name)] = part();
    }
    return out;
  };
  const auto packed = group.all_gather(pack());
  const auto first = unpack(packed[0]);
  for (int rank = 1; rank < group.size(); ++rank) {
    const auto& bytes = packed[static_cast<std::size_t>(rank)];
    if (bytes == packed[0]) continue;
    auto theirs = unpack(bytes);
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
