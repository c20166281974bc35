#include "lockstep/distribute/devices.h"

#include <atomic>
#include <ostream>

#include "lockstep/base/error.h"
#include "lockstep/distribute/strategy.h"

namespace lockstep {
namespace {

std::atomic<std::size_t> cpus{1};

}  // namespace

std::vector<std::string> distribute::logical_cpus() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < cpus; ++i) names.push_back("/cpu:" + std::to_string(i));
  return names;
}

namespace config {

std::ostream& operator<<(std::ostream& out, const PhysicalDevice& device) {
  return out << "PhysicalDevice(name='" << device.name << "', device_type='" << device.device_type << "')";
}
std::ostream& operator<<(std::ostream& out, const LogicalDevice& device) {
  return out << "LogicalDevice(name='" << device.name << "', device_type='" << device.device_type << "')";
}

std::vector<PhysicalDevice> list_physical_devices(std::string_view device_type) {
  if (!device_type.empty() && device_type != "CPU") return {};
  return {{"/physical_device:CPU:0", "CPU"}};
}
std::vector<LogicalDevice> list_logical_devices(std::string_view device_type) {
  std::vector<LogicalDevice> devices;
  if (!device_type.empty() && device_type != "CPU") return devices;
  for (std::size_t i = 0; i < cpus; ++i) devices.push_back({"/device:CPU:" + std::to_string(i), "CPU"});
  return devices;
}
std::vector<PhysicalDevice> get_visible_devices(std::string_view device_type) {
  return list_physical_devices(device_type);
}
void set_visible_devices(const std::vector<PhysicalDevice>& devices, std::string_view device_type) {
  if (!device_type.empty() && device_type != "CPU") return;
  for (const PhysicalDevice& device : devices) {
    if (device.device_type == "CPU") return;
  }
  throw_invalid_argument("set_visible_devices: the CPU has to stay visible");
}
void set_logical_device_configuration(const PhysicalDevice& device,
                                      const std::vector<LogicalDeviceConfiguration>& logical_devices) {
  if (device.device_type != "CPU" || logical_devices.empty())
    throw_invalid_argument("set_logical_device_configuration: expected the CPU, and one configuration or more");
  cpus = logical_devices.size();
}
std::vector<LogicalDeviceConfiguration> get_logical_device_configuration(const PhysicalDevice& device) {
  return std::vector<LogicalDeviceConfiguration>(device.device_type == "CPU" ? cpus.load() : 0);
}

}  // namespace config
}  // namespace lockstep
