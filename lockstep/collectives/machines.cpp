#include "lockstep/collectives/machines_internal.h"

#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/process_watch_internal.h"

namespace lockstep::collectives {
namespace {

constexpr const char* kAlone = "alone";

std::string link_target(const char* path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).string();
}

// Equal for processes that may be able to share memory.
std::string machine_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return fmt::format("{} {} {} {}", boot, link_target("/proc/self/ns/net"), link_target("/proc/self/ns/pid"), getuid());
}

std::vector<std::string> keys_of(const std::string& prefix, const std::vector<int>& ranks) {
  std::vector<std::string> keys;
  for (const int rank : ranks) keys.push_back(fmt::format("{}/{}", prefix, rank));
  return keys;
}

std::vector<int> numbers_of(const std::string& text, int size) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int number = -1;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0 || number >= size) break;
    numbers.push_back(number);
    at = next + (next < end ? 1 : 0);
  }
  if (static_cast<int>(numbers.size()) != size) throw_data_loss("a worker sent an invalid list of machines");
  return numbers;
}

// A number for each rank; equal for equal identities, of which not more than SharedMemory::kMaxRanks.
std::vector<int> machines_of(const std::vector<std::string>& identities) {
  std::map<std::string, std::pair<int, int>> known;  // machine, ranks on it
  std::vector<int> machines;
  int count = 0;
  for (const std::string& identity : identities) {
    auto& [machine, ranks] = known.try_emplace(identity, 0, SharedMemory::kMaxRanks).first->second;
    if (ranks == SharedMemory::kMaxRanks) {
      machine = count++;
      ranks = 0;
    }
    ++ranks;
    machines.push_back(machine);
  }
  return machines;
}

// What rank 0 makes of what all ranks have written; every rank gets it.
std::vector<int> agree(JobStore& store, const std::string& name, const std::string& subject, const std::string& own,
                       int rank, int size,
                       const std::function<std::vector<int>(const std::vector<std::string>&)>& make) {
  const std::string prefix = fmt::format("{}/{}", subject, name), result = prefix + "/result";
  store.set(fmt::format("{}/{}", prefix, rank), own);
  if (rank == 0) {
    std::vector<int> all(static_cast<std::size_t>(size));
    for (int i = 0; i < size; ++i) all[static_cast<std::size_t>(i)] = i;
    store.set(result, fmt::format("{}", fmt::join(make(store.get_all(keys_of(prefix, all))), " ")));
  }
  return numbers_of(store.get(result), size);
}

}  // namespace

Machines Machines::of(const std::vector<int>& machines, int rank) {
  Machines out;
  std::map<int, std::size_t> places;
  for (std::size_t i = 0; i < machines.size(); ++i) {
    const std::size_t at = places.try_emplace(machines[i], out.ranks.size()).first->second;
    if (at == out.ranks.size()) out.ranks.emplace_back();
    if (static_cast<int>(i) == rank) {
      out.machine = static_cast<int>(at);
      out.place = static_cast<int>(out.ranks[at].size());
    }
    out.ranks[at].push_back(static_cast<int>(i));
  }
  return out;
}

Machines Machines::apart(int rank, int size) {
  std::vector<int> machines;
  for (int i = 0; i < size; ++i) machines.push_back(i);
  return of(machines, rank);
}

SharedMachine share_machine(JobStore& store, const std::string& name, int rank, int size, const std::string& machine) {
  const std::vector<int> candidates =
      agree(store, name, "machine", machine.empty() ? machine_identity() : machine, rank, size, machines_of);
  SharedMachine shared;
  shared.machines = Machines::of(candidates, rank);
  const std::vector<int> local = shared.machines.local();
  std::string opened = kAlone;
  if (local.size() > 1) {
    const std::string key = fmt::format("memory/{}/{}", name, local[0]);
    const int count = static_cast<int>(local.size());
    if (shared.machines.leads()) {
      shared.memory = SharedMemory::make(count);
      shared.second_memory = SharedMemory::make(count);
      store.set(key, shared.memory && shared.second_memory ? shared.memory->name() + "\n" + shared.second_memory->name()
                                                           : "\n");
    } else {
      const std::string names = store.get(key);
      const std::size_t line = std::min(names.find('\n'), names.size());
      shared.memory = SharedMemory::open(names.substr(0, line), shared.machines.place, count);
      shared.second_memory =
          SharedMemory::open(names.substr(std::min(line + 1, names.size())), shared.machines.place, count);
    }
    opened = shared.memory && shared.second_memory ? ProcessWatch::self() : "";
  }
  // Where one rank has not opened the memory, none of its machine uses it.
  const auto usable = [&](const std::vector<std::string>& all) {
    std::vector<int> machines = candidates;
    int next = size;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].empty()) continue;
      for (std::size_t k = 0; k < all.size(); ++k) {
        if (candidates[k] == candidates[i] && machines[k] < size) machines[k] = next++;
      }
    }
    std::map<int, int> renumbered;
    for (int& machine : machines)
      machine = renumbered.try_emplace(machine, static_cast<int>(renumbered.size())).first->second;
    return machines;
  };
  shared.machines = Machines::of(agree(store, name, "opened", opened, rank, size, usable), rank);
  if (shared.memory) shared.memory->unname();
  if (shared.second_memory) shared.second_memory->unname();
  if (shared.machines.local().size() < 2) {
    shared.memory = nullptr;
    shared.second_memory = nullptr;
  } else {
    shared.processes = store.get_all(keys_of(fmt::format("opened/{}", name), local));
  }
  return shared;
}

}  // namespace lockstep::collectives
