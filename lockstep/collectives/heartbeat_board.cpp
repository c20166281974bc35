#include "lockstep/collectives/heartbeat_board_internal.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kCacheLine = 64;  // bytes of a cache line
using Word = std::atomic<std::uint64_t>;
constexpr auto kRelaxed = std::memory_order_relaxed;

// A text as words, so that a reader that is overtaken by the writer reads old and new words, and no torn ones.
struct Text {
  Word length;
  std::array<Word, HeartbeatBoard::kMaxText / sizeof(std::uint64_t)> words;

  void write(std::string_view text) {
    text = text.substr(0, HeartbeatBoard::kMaxText);
    length.store(text.size(), kRelaxed);
    for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
      words[i / sizeof word].store(word, kRelaxed);
    }
  }
  std::string read() const {
    std::string text(std::min<std::size_t>(length.load(kRelaxed), HeartbeatBoard::kMaxText), '\0');
    for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t word = words[i / sizeof word].load(kRelaxed);
      std::memcpy(text.data() + i, &word, std::min(sizeof word, text.size() - i));
    }
    return text;
  }
};

}  // namespace

struct HeartbeatBoard::Layout {
  struct alignas(kCacheLine) Place {
    Word number, collective;
    std::atomic<bool> left;
  };
  std::array<Place, kMaxPlaces> places;
  // Post number n is in posts[n % 2]: it is whole as long as no post after the next one has begun.
  alignas(kCacheLine) Word begun, posted;
  struct {
    Text report, fault;
  } posts[2];
};

std::size_t HeartbeatBoard::bytes() { return sizeof(Layout); }

HeartbeatBoard::Layout& HeartbeatBoard::layout() const { return *reinterpret_cast<Layout*>(memory_.get()); }

void HeartbeatBoard::set(int place, const Beat& beat) {
  auto& own = layout().places[static_cast<std::size_t>(place)];
  own.collective.store(beat.collective, kRelaxed);
  own.left.store(beat.left, kRelaxed);
  own.number.store(beat.number, std::memory_order_release);
}

HeartbeatBoard::Beat HeartbeatBoard::get(int place) const {
  const auto& theirs = layout().places[static_cast<std::size_t>(place)];
  const std::uint64_t number = theirs.number.load(std::memory_order_acquire);
  return {number, theirs.collective.load(kRelaxed), theirs.left.load(kRelaxed)};
}

void HeartbeatBoard::post(std::string_view report, std::string_view fault) {
  Layout& board = layout();
  const std::uint64_t number = board.posted.load(kRelaxed) + 1;
  board.begun.store(number, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  board.posts[number % 2].report.write(report);
  board.posts[number % 2].fault.write(fault);
  board.posted.store(number, std::memory_order_release);
}

HeartbeatBoard::Post HeartbeatBoard::read() const {
  const Layout& board = layout();
  for (;;) {
    const std::uint64_t number = board.posted.load(std::memory_order_acquire);
    Post post{board.posts[number % 2].report.read(), board.posts[number % 2].fault.read()};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (board.begun.load(kRelaxed) < number + 2) return post;
  }
}

}  // namespace lockstep::collectives
