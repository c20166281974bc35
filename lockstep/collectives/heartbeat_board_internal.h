// Heartbeats among the ranks of one machine, in the memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::collectives {

// Each rank writes its own heartbeat; the leader of the machine (place 0) reads all of them, and posts the texts that
// it has read from the store of the job. All calls are wait-free and may come from any process that maps the memory.
class HeartbeatBoard {
 public:
  static constexpr int kMaxPlaces = 64;
  static constexpr std::size_t kMaxText = 4096;  // bytes of a posted text; longer ones are cut

  struct Beat {
    std::uint64_t number = 0;      // of the round; 0: none yet
    std::uint64_t collective = 0;  // the last that the rank has begun
    bool left = false;
  };
  // Bytes of the memory, which begins with zeros and is aligned to 64 bytes.
  static std::size_t bytes();
  explicit HeartbeatBoard(std::shared_ptr<std::byte> memory) : memory_(std::move(memory)) {}

  void set(int place, const Beat& beat);
  Beat get(int place) const;

  // Of the leader.
  void post(std::string_view report, std::string_view fault);
  struct Post {
    std::string report, fault;
  };
  // The last post; empty texts before the first.
  Post read() const;

 private:
  struct Layout;
  Layout& layout() const;

  std::shared_ptr<std::byte> memory_;
};

}  // namespace lockstep::collectives
