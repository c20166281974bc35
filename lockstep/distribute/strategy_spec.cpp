#include "lockstep/distribute/strategy_spec_internal.h"

#include <charconv>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::distribute {

std::unique_ptr<Strategy> parse_strategy(const std::string& spec, const CommunicationOptions& communication) {
  const std::size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const std::string argument = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (kind == "default" && colon == std::string::npos) return std::make_unique<Strategy>();
  if (kind == "one_device") return std::make_unique<OneDeviceStrategy>(argument.empty() ? "/cpu:0" : argument);
  if (kind == "mirrored" || kind == "multi_worker") {
    int count = argument.empty() ? 1 : 0;
    std::from_chars(argument.data(), argument.data() + argument.size(), count);
    const bool plain = argument.empty() || argument == std::to_string(count);
    if (plain && count >= 1 && count <= 1024) {
      std::vector<std::string> devices;
      for (int i = 0; i < count; ++i) devices.push_back("/cpu:" + std::to_string(i));
      if (kind == "mirrored") return std::make_unique<MirroredStrategy>(devices);
      return std::make_unique<MultiWorkerMirroredStrategy>(
          MultiWorkerMirroredOptions{.communication_options = communication, .local_devices = devices});
    }
  }
  throw_invalid_argument(
      fmt::format("strategy '{}' is not understood; expected default, one_device:cpu, mirrored:N or multi_worker "
                  "(N replicas, 1 to 1024)",
                  spec));
}

}  // namespace lockstep::distribute
