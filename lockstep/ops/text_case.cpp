// UTF-8, and the case of its characters by Unicode's rules.
#include "lockstep/ops/text_case_internal.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <vector>

#include "lockstep/base/strings_internal.h"

namespace lockstep::ops {
namespace {

// Characters from `first` to `last`, each `step` behind the one before, move by `shift`.
struct CaseRun {
  std::int32_t first, last, step, shift;
};
// A character that becomes several, up to the first 0.
struct CaseText {
  std::int32_t character, text[4];
};
struct CharacterRun {
  std::int32_t first, last;
};
#include "lockstep/ops/text_case.inc"

constexpr std::int32_t kReplacement = 0xFFFD, kSigma = 0x3A3, kSmallSigma = 0x3C3, kFinalSigma = 0x3C2;

template <typename Runs>
std::unordered_map<std::int32_t, std::int32_t> mapping_of(const Runs& runs) {
  std::unordered_map<std::int32_t, std::int32_t> out;
  for (const CaseRun& run : runs) {
    for (std::int32_t c = run.first; c <= run.last; c += run.step) out[c] = c + run.shift;
  }
  return out;
}

template <typename Runs>
bool contains(const Runs& runs, std::int32_t character) {
  const auto* const after =
      std::upper_bound(std::begin(runs), std::end(runs), character,
                       [](std::int32_t wanted, const CharacterRun& run) { return wanted < run.first; });
  return after != std::begin(runs) && character <= std::prev(after)->last;
}

// Whether the first of these characters that counts has a case.
template <typename Iterator>
bool meets_cased(Iterator at, Iterator end) {
  at = std::find_if_not(at, end, [](std::int32_t c) { return contains(kPassedOver, c); });
  return at != end && contains(kCased, *at);
}

template <typename Texts>
bool append_text(std::string& out, const Texts& texts, std::int32_t character) {
  const auto* const found = std::lower_bound(std::begin(texts), std::end(texts), character,
                                             [](const CaseText& row, std::int32_t c) { return row.character < c; });
  if (found == std::end(texts) || found->character != character) return false;
  for (const std::int32_t* c = found->text; *c != 0; ++c) append_utf8(out, *c);
  return true;
}

}  // namespace

std::int32_t next_utf8(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(at++);
  if (lead < 0x80) return lead;
  if (lead < 0xC2 || lead > 0xF4) return kMalformed;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  std::int32_t value = lead & (0x3F >> more);
  for (int i = 0; i < more; ++i) {
    // What the second byte may be depends on the first: no overlong forms, no surrogates, nothing above U+10FFFF.
    const std::uint8_t low = i > 0 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t high = i > 0 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at == text.size() || byte(at) < low || byte(at) > high) return kMalformed;
    value = value << 6 | (byte(at++) & 0x3F);
  }
  return value;
}

std::string utf8_case(std::string_view text, bool lower) {
  static const auto lower_map = mapping_of(kLowerRuns), upper_map = mapping_of(kUpperRuns);
  const auto& map = lower ? lower_map : upper_map;
  text = text.substr(0, text.find('\0'));
  std::vector<std::int32_t> characters;
  for (std::size_t at = 0; at < text.size();) {
    const std::int32_t c = next_utf8(text, at);
    characters.push_back(c == kMalformed ? kReplacement : c);
  }
  std::string out;
  for (auto at = characters.begin(); at != characters.end(); ++at) {
    if (lower && *at == kSigma) {  // the form at the end of a word
      const bool last = meets_cased(std::make_reverse_iterator(at), characters.rend()) &&
                        !meets_cased(std::next(at), characters.end());
      append_utf8(out, last ? kFinalSigma : kSmallSigma);
    } else if (!(lower ? append_text(out, kLowerTexts, *at) : append_text(out, kUpperTexts, *at))) {
      const auto found = map.find(*at);
      append_utf8(out, found == map.end() ? *at : found->second);
    }
  }
  return out;
}

}  // namespace lockstep::ops
