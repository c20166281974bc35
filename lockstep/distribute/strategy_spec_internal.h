// Strategies by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/distribute/partitioners.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep::distribute {

// "default", "one_device:cpu", "mirrored:N", "multi_worker" or "multi_worker:N" (N replicas on each worker),
// "parameter_server".
struct StrategySpec {
  enum class Kind { kDefault, kOneDevice, kMirrored, kMultiWorker, kParameterServer };
  Kind kind = Kind::kDefault;
  std::vector<std::string> devices;  // canonical
};

// Throws InvalidArgument for a text of another form, NotFound for a device that this build does not have.
StrategySpec parse_strategy_spec(const std::string& spec);
// A "parameter_server" takes the timeouts and the partitioner, the others take the communication options alone.
std::unique_ptr<Strategy> make_strategy(const StrategySpec& spec, const CommunicationOptions& communication = {},
                                        Partitioner variable_partitioner = {});

inline std::unique_ptr<Strategy> parse_strategy(const std::string& spec,
                                                const CommunicationOptions& communication = {}) {
  return make_strategy(parse_strategy_spec(spec), communication);
}

}  // namespace lockstep::distribute
