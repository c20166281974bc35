// libFuzzer targets for input that workers get from outside: TF_CONFIG, the variables of cluster managers, and the
// messages of other workers. They need no LibTorch.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/readers.h"
#include "lockstep/base/error.h"
#include "lockstep/collectives/fault_internal.h"
#include "lockstep/collectives/messages_internal.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/distribute/cluster_resolver.h"

namespace {

using namespace lockstep;

void tf_config(const std::string& text) {
  const auto environment = [&](const std::string& name) {
    return name == "TF_CONFIG" ? std::optional(text) : std::nullopt;
  };
  const distribute::TFConfigClusterResolver resolver({}, environment);
  for (const std::string& job : resolver.cluster_spec().jobs()) {
    for (const auto& [id, address] : resolver.cluster_spec().job_tasks(job)) collectives::parse_address(address);
  }
}

// Lines NAME=VALUE as the environment of a process.
void environment(const std::string& text) {
  std::map<std::string, std::string> variables;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t equals = std::min(line.find('='), line.size());
    variables[line.substr(0, equals)] = line.substr(std::min(equals + 1, line.size()));
    at = end + 1;
  }
  distribute::resolve_cluster([&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

// The first byte selects the kind of message; an accepted message is written and read again.
void messages(const std::string& input) {
  if (input.empty()) return;
  const std::string text = input.substr(1);
  switch (static_cast<unsigned char>(input[0]) % 5) {
    case 0: {
      const collectives::Registration own{"1.0", {"worker 0", "worker 1"}};
      if (own.difference(text, 1).empty() && !own.difference(own.text(), 1).empty()) std::abort();
      break;
    }
    case 1: {
      const auto facts = collectives::unpack_facts(text);
      if (collectives::unpack_facts(collectives::pack_facts(facts)) != facts) std::abort();
      break;
    }
    case 2: {
      const auto tensor = collectives::unpack_tensor(text);
      const std::string again = collectives::pack_tensor(tensor);
      if (collectives::pack_tensor(collectives::unpack_tensor(again)) != again) std::abort();
      break;
    }
    case 3: collectives::fault_text(collectives::parse_fault(text)); break;
    default: collectives::parse_address(text);
  }
}

constexpr std::pair<const char*, void (*)(const std::string&)> kTargets[] = {
    {"tf_config", tf_config}, {"environment", environment}, {"messages", messages}};

}  // namespace

std::vector<std::string> reader_names() {
  std::vector<std::string> names;
  for (const auto& [name, target] : kTargets) names.push_back(name);
  return names;
}

void run_reader(const std::string& name, std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const auto& [known, target] : kTargets) {
    if (name != known) continue;
    try {
      target(text);
    } catch (const Error&) {
    }
  }
}
