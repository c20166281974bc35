// Messages of lockstep/formats/proto in protobuf's text format (.pbtxt). Internal.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string_view>

#include <google/protobuf/message_lite.h>

namespace lockstep::formats {

// Whether `bytes` begin as text does whose first field is one of `fields`: comments, a name, ':' or '{'.
bool looks_like_proto_text(std::span<const std::byte> bytes, std::initializer_list<std::string_view> fields);

// Parses text into `message`; fields of a newer TensorFlow are left out. Throws DataLoss with line and column where the
// text is malformed, and ResourceExhausted as parse_proto does.
void parse_proto_text(google::protobuf::MessageLite& message, std::span<const std::byte> bytes, std::string_view what);

}  // namespace lockstep::formats
