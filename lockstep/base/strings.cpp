#include "lockstep/base/strings_internal.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace lockstep {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::size_t decode_utf8(std::string_view text, std::uint32_t& code) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = byte(0) < 0x80   ? 1
                           : byte(0) < 0xC2 ? 0
                           : byte(0) < 0xE0 ? 2
                           : byte(0) < 0xF0 ? 3
                           : byte(0) < 0xF5 ? 4
                                            : 0;
  if (size == 0 || size > text.size()) return 0;
  code = size == 1 ? byte(0) : byte(0) & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return code < kLeast[size] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0 : size;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  const int tail = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  put(kLead[tail] | (code >> (6 * tail)));
  for (int i = tail - 1; i >= 0; --i) put(0x80 | ((code >> (6 * i)) & 0x3F));
}

std::string printable(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t size = decode_utf8(text, code);
    const std::string_view bytes = text.substr(0, std::max<std::size_t>(size, 1));
    if (code == '\n' || code == '\r') {
      line += ' ';
    } else if (size == 0 || code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 || code == 0x2029) {
      for (const char c : bytes) line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      line += bytes;
    }
    text.remove_prefix(bytes.size());
  }
  return line;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the usual table; the one before the previous is for swaps.
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::string nearest_name(std::string_view word, std::span<const std::string> candidates) {
  // Names are short; a longer text is not a misspelling and not worth the time.
  constexpr std::size_t kLongest = 256;
  if (word.empty() || word.size() > kLongest) return {};
  const std::string* best = nullptr;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance > std::max(word.size(), candidate.size()) / 3) continue;
    if (best == nullptr || distance < best_distance) {
      best = &candidate;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string() : *best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string name = nearest_name(word, candidates);
  return name.empty() ? name : fmt::format(" (did you mean '{}'?)", name);
}

}  // namespace lockstep
