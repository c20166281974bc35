// The clusters of launchers: torchrun, Open MPI, Slurm.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/cluster_resolver.h"

namespace lockstep::distribute {
namespace {

constexpr int kDefaultPort = 8888;  // of TensorFlow's SlurmClusterResolver
constexpr int kLastPort = 65535;
constexpr int kMostRanks = 65536;
constexpr std::size_t kMostNodes = kMostRanks;
constexpr std::size_t kLongestName = 255;  // of a host, as in DNS

// A launcher's variables, checked as they are read.
class Variables {
 public:
  Variables(std::string launcher, const Environment& environment)
      : launcher_(std::move(launcher)), environment_(environment) {}

  std::optional<std::string> text(const std::string& name) const {
    const auto value = environment_(name);
    return value && !value->empty() ? value : std::nullopt;
  }
  std::string needed(const std::string& name) const {
    const auto value = text(name);
    if (!value)
      throw_invalid_argument(
          fmt::format("{}: {} is not set; start the program with the launcher, or set it", launcher_, name));
    return *value;
  }
  std::optional<int> number(const std::string& name, int least, int most) const {
    const auto value = text(name);
    return value ? std::optional(checked(name, *value, least, most)) : std::nullopt;
  }
  int needed_number(const std::string& name, int least, int most) const {
    return checked(name, needed(name), least, most);
  }
  std::optional<int> port() const { return number("MASTER_PORT", 1, kLastPort); }

  // The name of the first that is set.
  std::string first_of(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      if (text(name)) return name;
    }
    needed(names.front());
    return "";
  }
  // The rank of this process in a job of `size`, and the size.
  std::pair<int, int> place(const std::string& rank_name, const std::string& size_name) const {
    const int size = needed_number(size_name, 1, kMostRanks);
    const int rank = needed_number(rank_name, 0, kMostRanks - 1);
    if (rank >= size) {
      throw_invalid_argument(fmt::format("{}: {} is {} but {} is {}: ranks are 0 to {}", launcher_, rank_name, rank,
                                         size_name, size, size - 1));
    }
    return {rank, size};
  }

 private:
  int checked(const std::string& name, const std::string& text, int least, int most) const {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
      throw_invalid_argument(
          fmt::format("{}: {} is \"{}\"; expected a whole number from {} to {}", launcher_, name, text, least, most));
    }
    return value;
  }
  std::string launcher_;
  const Environment& environment_;
};

std::string with_port(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

// A job "worker" of which rank 0's address alone is known.
ClusterSpec workers_behind(const std::string& address, int size) {
  ClusterSpec::Tasks tasks;
  for (int i = 0; i < size; ++i) tasks[i] = i == 0 ? address : "";
  return ClusterSpec({{"worker", std::move(tasks)}});
}

ClusterResolver read_torchrun(const Environment& environment) {
  const Variables variables("torchrun", environment);
  const auto [rank, size] = variables.place("RANK", "WORLD_SIZE");
  const std::string host = variables.needed("MASTER_ADDR");
  variables.needed("MASTER_PORT");
  return ClusterResolver(workers_behind(with_port(host, *variables.port()), size), "worker", rank, "", "torchrun");
}

ClusterResolver read_open_mpi(const Environment& environment) {
  const Variables variables("Open MPI", environment);
  const auto [rank, size] = variables.place("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  auto host = variables.text("MASTER_ADDR");
  if (!host && variables.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks).value_or(1) == size) host = "127.0.0.1";
  if (!host) {
    throw_invalid_argument(
        "Open MPI: MASTER_ADDR is not set, and the processes are on several machines; set it on all of them to the "
        "host where rank 0 runs: mpirun -x MASTER_ADDR=<host of rank 0>");
  }
  const int port = variables.port().value_or(kDefaultPort);
  return ClusterResolver(workers_behind(with_port(*host, port), size), "worker", rank, "", "Open MPI");
}

// The node of each rank: "block" fills a node before the next, "cyclic" deals ranks to nodes in turn.
std::vector<std::size_t> nodes_of_ranks(const std::vector<int>& tasks_per_node, int size, bool cyclic) {
  std::vector<std::size_t> nodes;
  std::vector<int> left = tasks_per_node;
  if (cyclic) {
    for (bool more = true; more && static_cast<int>(nodes.size()) < size;) {
      more = false;
      for (std::size_t node = 0; node < left.size(); ++node) {
        if (left[node]-- <= 0) continue;
        nodes.push_back(node);
        more = true;
      }
    }
  } else {
    for (std::size_t node = 0; node < left.size(); ++node)
      nodes.insert(nodes.end(), static_cast<std::size_t>(left[node]), node);
  }
  return nodes;
}

// How many tasks each node has.
std::vector<int> slurm_tasks_per_node(const Variables& variables, int size, const std::vector<std::string>& nodes) {
  const int count = static_cast<int>(nodes.size());
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const auto text = variables.text(name);
    if (!text) continue;
    std::vector<int> per_node = expand_tasks_per_node(*text);
    std::int64_t total = 0;
    for (const int tasks : per_node) total += tasks;
    if (static_cast<int>(per_node.size()) != count || total != size) {
      throw_invalid_argument(
          fmt::format("Slurm: {} is \"{}\", {} tasks on {} nodes, but the step has {} tasks on {} nodes", name, *text,
                      total, per_node.size(), size, count));
    }
    return per_node;
  }
  if (size % count != 0) {
    throw_invalid_argument(
        fmt::format("Slurm: {} tasks on {} nodes, and SLURM_STEP_TASKS_PER_NODE is not set; start the "
                    "program with srun",
                    size, count));
  }
  return std::vector<int>(nodes.size(), size / count);
}

ClusterResolver read_slurm(std::optional<int> port_base, const Environment& environment) {
  const Variables variables("Slurm", environment);
  const auto [rank, size] =
      variables.place("SLURM_PROCID", variables.first_of({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}));
  const std::vector<std::string> nodes = expand_node_list(
      *variables.text(variables.first_of({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})));
  const std::string order = variables.text("SLURM_DISTRIBUTION").value_or("block");
  const std::vector<std::size_t> placed =
      nodes_of_ranks(slurm_tasks_per_node(variables, size, nodes), size, order.starts_with("cyclic"));
  const std::size_t own = placed[static_cast<std::size_t>(rank)];
  if (const auto node = variables.number("SLURM_NODEID", 0, kMostRanks - 1); node && *node != static_cast<int>(own)) {
    throw_invalid_argument(
        fmt::format("Slurm: SLURM_PROCID {} runs on node {}, but in the distribution \"{}\" it belongs to "
                    "node {} ({}); use srun --distribution=block",
                    rank, *node, order, own, nodes[own]));
  }
  const int base = port_base ? *port_base : variables.port().value_or(kDefaultPort);
  std::vector<int> on_node(nodes.size());
  ClusterSpec::Tasks tasks;
  for (int i = 0; i < size; ++i) {
    const std::size_t node = placed[static_cast<std::size_t>(i)];
    const int port = base + on_node[node]++;
    if (port > kLastPort) {
      throw_invalid_argument(
          fmt::format("Slurm: rank {} on node {} requires port {}, above {}; start fewer tasks on a node, or set a "
                      "smaller MASTER_PORT",
                      i, nodes[node], port, kLastPort));
    }
    tasks[i] = with_port(nodes[node], port);
  }
  return ClusterResolver(ClusterSpec({{"worker", std::move(tasks)}}), "worker", rank, "", "Slurm");
}

int local_rank_of(const std::string& launcher, const std::string& name, const Environment& environment) {
  return Variables(launcher, environment).number(name, 0, kMostRanks - 1).value_or(0);
}

[[noreturn]] void bad_node_list(const std::string& list, const std::string& part) {
  throw_invalid_argument(
      fmt::format("Slurm: the node list \"{}\" is not understood at \"{}\"; expected names such as node[01-03,7],gpu1",
                  list.substr(0, 80), part.substr(0, 80)));
}

// "01-03" or "7" as texts of equal width.
std::vector<std::string> expand_range(const std::string& range, const std::string& list) {
  const std::size_t dash = range.find('-');
  const std::string first = range.substr(0, dash);
  const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
  const auto digits = [](const std::string& text) {
    return !text.empty() && text.size() <= 9 &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
  };
  if (!digits(first) || !digits(last)) bad_node_list(list, range);
  const int begin = std::stoi(first);
  const int end = std::stoi(last);
  if (end < begin || static_cast<std::size_t>(end - begin) >= kMostNodes) bad_node_list(list, range);
  std::vector<std::string> out;
  for (int i = begin; i <= end; ++i) out.push_back(fmt::format("{:0{}}", i, first.size()));
  return out;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

std::vector<std::string> expand_node_list(const std::string& list) {
  std::vector<std::string> nodes;
  std::vector<std::string> current{""};  // the names that the text since the last comma stands for
  const auto finish = [&](std::size_t at) {
    if (current.size() == 1 && current[0].empty()) bad_node_list(list, list.substr(at));
    nodes.insert(nodes.end(), current.begin(), current.end());
    current = {""};
    if (nodes.size() > kMostNodes) bad_node_list(list, "more than 65,536 nodes");
  };
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (current[0].size() > kLongestName) bad_node_list(list, "a name of more than 255 characters");
    if (list[at] == ',') {
      finish(at);
    } else if (list[at] == '[') {
      const std::size_t close = list.find(']', at);
      if (close == std::string::npos) bad_node_list(list, list.substr(at));
      std::vector<std::string> numbers;
      for (const std::string& range : split_at_commas(list.substr(at + 1, close - at - 1))) {
        const std::vector<std::string> more = expand_range(range, list);
        numbers.insert(numbers.end(), more.begin(), more.end());
        if (numbers.size() * current.size() > kMostNodes) bad_node_list(list, "more than 65,536 nodes");
      }
      std::vector<std::string> longer;
      for (const std::string& name : current) {
        for (const std::string& number : numbers) longer.push_back(name + number);
      }
      current = std::move(longer);
      at = close;
    } else if (list[at] == ']' || static_cast<unsigned char>(list[at]) <= ' ') {
      bad_node_list(list, list.substr(at));
    } else {
      for (std::string& name : current) name += list[at];
    }
  }
  finish(list.size());
  return nodes;
}

std::vector<int> expand_tasks_per_node(const std::string& list) {
  std::vector<int> counts;
  for (const std::string& part : split_at_commas(list)) {
    int tasks = 0;
    int times = 1;
    const char* const end = part.data() + part.size();
    auto read = std::from_chars(part.data(), end, tasks);
    bool good = read.ec == std::errc{} && tasks >= 0;
    if (good && read.ptr != end) {
      good = part.compare(static_cast<std::size_t>(read.ptr - part.data()), 2, "(x") == 0 && part.back() == ')';
      if (good) read = std::from_chars(read.ptr + 2, end, times);
      good = good && read.ec == std::errc{} && read.ptr == end - 1 && times >= 1;
    }
    if (!good || counts.size() + static_cast<std::size_t>(times) > kMostNodes) {
      throw_invalid_argument(
          fmt::format("Slurm: the tasks per node \"{}\" are not understood at \"{}\"; expected counts such as 2(x3),1",
                      list, part));
    }
    counts.insert(counts.end(), static_cast<std::size_t>(times), tasks);
  }
  return counts;
}

TorchrunClusterResolver::TorchrunClusterResolver(const Environment& environment)
    : ClusterResolver(read_torchrun(environment)) {
  set_launcher(local_rank_of("torchrun", "LOCAL_RANK", environment),
               environment("TORCHELASTIC_USE_AGENT_STORE") == "True",
               fmt::format("lockstep/attempt_{}", environment("TORCHELASTIC_RESTART_COUNT").value_or("0")));
}

OpenMpiClusterResolver::OpenMpiClusterResolver(const Environment& environment)
    : ClusterResolver(read_open_mpi(environment)) {
  set_launcher(local_rank_of("Open MPI", "OMPI_COMM_WORLD_LOCAL_RANK", environment), false);
}

SlurmClusterResolver::SlurmClusterResolver(std::optional<int> port_base, const Environment& environment)
    : ClusterResolver(read_slurm(port_base, environment)) {
  set_launcher(local_rank_of("Slurm", "SLURM_LOCALID", environment), false);
}

ClusterResolver resolve_cluster(const Environment& environment) {
  const auto set = [&](const char* name) { return environment(name).has_value(); };
  if (set("TF_CONFIG")) return TFConfigClusterResolver({}, environment);
  if (set("RANK") && set("WORLD_SIZE")) return TorchrunClusterResolver(environment);
  if (set("OMPI_COMM_WORLD_RANK")) return OpenMpiClusterResolver(environment);
  if (set("SLURM_PROCID")) return SlurmClusterResolver(std::nullopt, environment);
  return {};
}

}  // namespace lockstep::distribute
