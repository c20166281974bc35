// Small helpers over text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Bytes of the character at the start of `text`, whose code point is stored in `code`; 0 if they are not well-formed
// UTF-8 (no overlong forms, no surrogates), and for an empty text.
std::size_t decode_utf8(std::string_view text, std::uint32_t& code);

// Appends the UTF-8 bytes of a code point up to 0x1fffff.
void append_utf8(std::string& text, std::uint32_t code);

// `text` as one line that a terminal shows as it is: newlines are spaces; other control characters, separators of lines
// and bytes that are not UTF-8 are written as \xNN.
std::string printable(std::string_view text);

// Damerau-Levenshtein distance (insertions, deletions, substitutions, swaps of neighbours), upper and lower case
// counting as equal.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that a person who typed `word` most likely meant, for error messages; empty when none is near
// (more than a third of the letters wrong). The first of equally near ones wins.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

// " (did you mean 'Dense'?)" for a near candidate, else empty: to be put at the end of an error message.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace lockstep
