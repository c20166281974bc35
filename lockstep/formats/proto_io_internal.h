// Parsing and printing protobuf messages with our errors. Internal: it pulls protobuf in, so no
// public header includes it.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <google/protobuf/arena.h>
#include <google/protobuf/message_lite.h>

namespace lockstep::formats {

inline constexpr int kMostNesting = 100;  // of messages

// Parses `bytes` into `message`. `what` names them in errors ("saved_model.pb of /models/1").
// Throws DataLoss for malformed bytes, text that is not UTF-8 in a string field, and nesting deeper than 100 messages;
// ResourceExhausted above 2 GiB, protobuf's own limit, and when the message would take more than 512 MiB and ten times
// the bytes of memory.
void parse_proto(google::protobuf::MessageLite& message, std::span<const std::byte> bytes, std::string_view what);

// The same bytes for the same message: fields by number, map entries by key. Throws ResourceExhausted above 2 GiB.
std::string serialize_proto(const google::protobuf::MessageLite& message, std::string_view what);

// Calls `use` with an arena for a message of `type` that is parsed from `bytes` bytes, and returns its result. Throws
// ResourceExhausted when the arena would pass the memory that parse_proto allows.
std::string with_limited_arena(std::size_t bytes, std::string_view what, std::string_view type,
                               const std::function<std::string(google::protobuf::Arena&)>& use);

}  // namespace lockstep::formats
