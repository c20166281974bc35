#include "lockstep/formats/proto_io_internal.h"

#include <climits>
#include <cstdint>
#include <new>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include "lockstep/base/error.h"

namespace lockstep::formats {
namespace {

// Protobuf logs problems to stderr; the errors that are thrown report them. Only while one of these functions runs: the
// log is the program's.
using QuietProtobuf = google::protobuf::LogSilencer;

bool parse(google::protobuf::MessageLite& message, std::span<const std::byte> bytes) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMostNesting);
  return message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
}

// An empty message takes two bytes of a file and about 150 of memory. Files above this size are parsed into an arena of
// limited size first; smaller ones cannot need much.
constexpr std::size_t kTrialSize = std::size_t{16} << 20;
constexpr std::size_t kArenaBase = std::size_t{512} << 20;
constexpr std::size_t kArenaPerByte = 10;

thread_local std::size_t arena_left = 0;

void* take_block(std::size_t size) {
  if (size > arena_left) throw std::bad_alloc();
  arena_left -= size;
  return ::operator new(size);
}

void free_block(void* block, std::size_t) { ::operator delete(block); }

void check_memory(const google::protobuf::MessageLite& message, std::span<const std::byte> bytes,
                  std::string_view what) {
  with_limited_arena(bytes.size(), what, message.GetTypeName(), [&](google::protobuf::Arena& arena) {
    parse(*message.New(&arena), bytes);  // malformed bytes are reported by the caller
    return std::string();
  });
}

}  // namespace

std::string with_limited_arena(std::size_t bytes, std::string_view what, std::string_view type,
                               const std::function<std::string(google::protobuf::Arena&)>& use) {
  google::protobuf::ArenaOptions options;
  options.max_block_size = std::size_t{1} << 20;
  options.block_alloc = take_block;
  options.block_dealloc = free_block;
  const std::size_t limit = kArenaBase + kArenaPerByte * bytes;
  arena_left = limit;
  google::protobuf::Arena arena(options);
  try {
    return use(arena);
  } catch (const std::bad_alloc&) {
    throw_resource_exhausted(fmt::format("{}: the {} message of {} bytes would take more than {} MiB of memory", what,
                                         type, bytes, limit >> 20));
  }
}

void parse_proto(google::protobuf::MessageLite& message, std::span<const std::byte> bytes, std::string_view what) {
  const QuietProtobuf quiet;
  if (bytes.size() > INT_MAX) {
    throw_resource_exhausted(
        fmt::format("{}: {} bytes are more than the 2 GiB a protobuf message may have", what, bytes.size()));
  }
  if (bytes.size() > kTrialSize) check_memory(message, bytes, what);
  if (!parse(message, bytes)) {
    throw_data_loss(fmt::format("{}: not a valid {} message ({} bytes; truncated, damaged or nested too deeply)", what,
                                message.GetTypeName(), bytes.size()));
  }
}

std::string serialize_proto(const google::protobuf::MessageLite& message, std::string_view what) {
  const QuietProtobuf quiet;
  std::string out;
  if (message.ByteSizeLong() > INT_MAX) {
    throw_resource_exhausted(
        fmt::format("{}: the {} message would pass protobuf's limit of 2 GiB", what, message.GetTypeName()));
  }
  {
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    if (!message.SerializeToCodedStream(&coded)) {
      throw_invalid_argument(fmt::format("{}: the {} message cannot be serialized", what, message.GetTypeName()));
    }
  }
  return out;
}

}  // namespace lockstep::formats
