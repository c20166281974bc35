// The case of Unicode text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::ops {

constexpr std::int32_t kMalformed = -1;

// The next character of UTF-8 text, which begins at `at`; kMalformed for the longest prefix of a character that is not
// complete.
std::int32_t next_utf8(std::string_view text, std::size_t& at);

// UTF-8 text in lower or upper case, U+FFFD for malformed parts. It ends at a zero byte, as in TensorFlow.
std::string utf8_case(std::string_view text, bool lower);

}  // namespace lockstep::ops
