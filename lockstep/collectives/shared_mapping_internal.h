// Memory that several processes of one machine can see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep::collectives {

// Bytes that are available on the machine without swapping; the largest number if the system does not report them.
std::int64_t available_memory();

// Anonymous memory (memfd), mapped for reading and writing; zeros at first. It has no place in any file system: nothing
// stays behind, however the processes end, and what a container allows /dev/shm does not bound it.
class SharedMapping {
 public:
  // All bytes are set aside at once. Null when there is no such memory, or that would take more than this part of what
  // is available on the machine.
  static std::unique_ptr<SharedMapping> make(std::size_t bytes, double part_of_free = 1.0);
  // The mapping that make() created under this name in another process of the same user. Null when it is not visible,
  // as on another machine or in another container, or has another size.
  static std::unique_ptr<SharedMapping> open(const std::string& name, std::size_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::size_t size() const { return bytes_; }
  // For open(), while the process that made it lives; empty where it was opened, and after unname().
  const std::string& name() const { return name_; }
  // Lets nobody open it any more.
  void unname();

 private:
  SharedMapping(std::string name, int file, void* memory, std::size_t bytes)
      : name_(std::move(name)), file_(file), memory_(memory), bytes_(bytes) {}

  std::string name_;
  int file_;  // the file of that name; -1 without a name
  void* memory_;
  std::size_t bytes_;
};

}  // namespace lockstep::collectives
