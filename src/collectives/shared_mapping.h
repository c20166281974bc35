// Memory that all processes of one machine that know its name can see.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace lockstep::collectives {

// POSIX shared memory, mapped for reading and writing; zeros at first. Once its name is taken away nothing stays behind,
// however the processes end.
class SharedMapping {
 public:
  // Under a name that is new on this machine; all bytes are set aside at once. Null when that would take more than this part of
  // what is free (containers often have 64 MiB).
  static std::unique_ptr<SharedMapping> make(std::size_t bytes, double part_of_free = 1.0);
  // What make() of another process named so. Null when it cannot be seen from here, as on another machine, or has another size.
  static std::unique_ptr<SharedMapping> open(const std::string& name, std::size_t bytes);
  ~SharedMapping();
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::size_t size() const { return bytes_; }
  const std::string& name() const { return name_; }  // empty where it was opened, and after unlink()
  // Takes the name away.
  void unlink();

 private:
  SharedMapping(std::string name, void* memory, std::size_t bytes) : name_(std::move(name)), memory_(memory), bytes_(bytes) {}

  std::string name_;
  void* memory_;
  std::size_t bytes_;
};

}  // namespace lockstep::collectives
