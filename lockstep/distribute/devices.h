// tf.config: devices. The machine's processors are one physical device, which may be divided into logical ones.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/field_names_only.h"

namespace lockstep::config {

struct PhysicalDevice {
  std::string name;  // "/physical_device:CPU:0"
  std::string device_type;
};
struct LogicalDevice {
  std::string name;  // "/device:CPU:0"
  std::string device_type;
};
// "PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')".
std::ostream& operator<<(std::ostream& out, const PhysicalDevice& device);
std::ostream& operator<<(std::ostream& out, const LogicalDevice& device);

// The devices of a type, "CPU" or "GPU", or all devices. GPUs are not supported: their list is empty.
std::vector<PhysicalDevice> list_physical_devices(std::string_view device_type = {});
std::vector<LogicalDevice> list_logical_devices(std::string_view device_type = {});
std::vector<PhysicalDevice> get_visible_devices(std::string_view device_type = {});
// Throws InvalidArgument where no CPU is left.
void set_visible_devices(const std::vector<PhysicalDevice>& devices, std::string_view device_type = {});
template <std::same_as<PhysicalDevice> D>
void set_visible_devices(const D& device, std::string_view device_type = {}) {
  set_visible_devices(std::vector<PhysicalDevice>{device}, device_type);
}

struct LogicalDeviceConfiguration {
  FieldNamesOnly names_only = {};
  std::optional<double> memory_limit = std::nullopt;  // of GPUs
};
// One logical device for each configuration: those of MirroredStrategy(). Throws InvalidArgument for none.
void set_logical_device_configuration(const PhysicalDevice& device,
                                      const std::vector<LogicalDeviceConfiguration>& logical_devices);
std::vector<LogicalDeviceConfiguration> get_logical_device_configuration(const PhysicalDevice& device);

inline bool get_soft_device_placement() { return true; }
inline void set_soft_device_placement(bool) {}

namespace experimental {

using config::get_visible_devices;
using config::list_logical_devices;
using config::list_physical_devices;
using config::set_visible_devices;
using VirtualDeviceConfiguration = LogicalDeviceConfiguration;
inline void set_virtual_device_configuration(const PhysicalDevice& device,
                                             const std::vector<LogicalDeviceConfiguration>& virtual_devices) {
  set_logical_device_configuration(device, virtual_devices);
}
inline void set_memory_growth(const PhysicalDevice&, bool) {}  // memory is taken when it is needed
inline bool get_memory_growth(const PhysicalDevice&) { return true; }
inline void enable_op_determinism() {}  // operations are deterministic

}  // namespace experimental
namespace optimizer {
inline void set_jit(bool) {}
}  // namespace optimizer

}  // namespace lockstep::config
