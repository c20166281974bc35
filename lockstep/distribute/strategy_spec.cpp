#include "lockstep/distribute/strategy_spec_internal.h"

#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/parameter_server_strategy.h"

namespace lockstep::distribute {

StrategySpec parse_strategy_spec(const std::string& spec) {
  using Kind = StrategySpec::Kind;
  const std::size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (kind == "default" && colon == std::string::npos) return {};
  if (kind == "parameter_server" && colon == std::string::npos) return {Kind::kParameterServer, {"/cpu:0"}};
  if (kind == "one_device") return {Kind::kOneDevice, {canonical_device(argument.empty() ? "/cpu:0" : argument)}};
  if (kind == "mirrored" || kind == "multi_worker") {
    int count = argument.empty() ? 1 : 0;
    std::from_chars(argument.data(), argument.data() + argument.size(), count);
    const bool plain = argument.empty() || argument == std::to_string(count);
    if (plain && count >= 1 && count <= 1024) {
      StrategySpec out{kind == "mirrored" ? Kind::kMirrored : Kind::kMultiWorker, {}};
      for (int i = 0; i < count; ++i) out.devices.push_back("/cpu:" + std::to_string(i));
      return out;
    }
  }
  throw_invalid_argument(
      fmt::format("unknown strategy '{}'; expected default, one_device:cpu, mirrored:N, multi_worker (N replicas, 1 "
                  "to 1024) or parameter_server",
                  spec));
}

std::unique_ptr<Strategy> make_strategy(const StrategySpec& spec, const CommunicationOptions& communication,
                                        Partitioner variable_partitioner) {
  switch (spec.kind) {
    case StrategySpec::Kind::kDefault: return std::make_unique<Strategy>();
    case StrategySpec::Kind::kOneDevice: return std::make_unique<OneDeviceStrategy>(spec.devices[0]);
    case StrategySpec::Kind::kMirrored: return std::make_unique<MirroredStrategy>(spec.devices);
    case StrategySpec::Kind::kMultiWorker:
      return std::make_unique<MultiWorkerMirroredStrategy>(
          MultiWorkerMirroredOptions{.communication_options = communication, .local_devices = spec.devices});
    case StrategySpec::Kind::kParameterServer: {
      ParameterServerStrategyOptions options{.variable_partitioner = std::move(variable_partitioner)};
      options.timeout_seconds = communication.timeout_seconds.value_or(options.timeout_seconds);
      options.startup_timeout_seconds = communication.startup_timeout_seconds;
      return std::make_unique<ParameterServerStrategy>(std::move(options));
    }
  }
  throw_internal("unknown kind of strategy");
}

}  // namespace lockstep::distribute
