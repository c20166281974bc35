#include "lockstep/formats/proto_io_internal.h"

#include <climits>
#include <cstdint>

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include "lockstep/base/error.h"

namespace lockstep::formats {
namespace {

constexpr int kMostNesting = 100;

// Protobuf prints its complaints to stderr; ours are in the error that is thrown.
void silence_protobuf() {
  static const auto previous = google::protobuf::SetLogHandler(nullptr);
  (void)previous;
}

}  // namespace

void parse_proto(google::protobuf::MessageLite& message, std::span<const std::byte> bytes, std::string_view what) {
  silence_protobuf();
  if (bytes.size() > INT_MAX) {
    throw_resource_exhausted(
        fmt::format("{}: {} bytes are more than the 2 GiB a protobuf message may have", what, bytes.size()));
  }
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMostNesting);
  if (!message.ParseFromCodedStream(&input) || !input.ConsumedEntireMessage()) {
    throw_data_loss(fmt::format("{}: not a valid {} message ({} bytes; truncated, damaged or nested too deeply)", what,
                                message.GetTypeName(), bytes.size()));
  }
}

std::string serialize_proto(const google::protobuf::MessageLite& message, std::string_view what) {
  silence_protobuf();
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
