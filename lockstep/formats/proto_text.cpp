#include "lockstep/formats/proto_text_internal.h"

#include <algorithm>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/io/atomic_file.h"

namespace lockstep::formats {

extern const std::string_view kDescriptors;  // a FileDescriptorSet, embedded by the build

namespace {

namespace pb = google::protobuf;

constexpr std::size_t kHead = 4096;  // bytes that are looked at

// Text has Any as a message with the type's name in brackets, which the parser knows under protobuf's own name only.
constexpr std::string_view kOwnPackage = ".tensorflow.";
constexpr std::string_view kOwnPackageOfAny = "google.protobuf";

bool is_well_known(const std::string& type) { return type == ".tensorflow.Any" || type == ".tensorflow.BoolValue"; }

void rename_well_known(pb::DescriptorProto& message) {
  for (auto& nested : *message.mutable_nested_type()) rename_well_known(nested);
  for (auto& field : *message.mutable_field()) {
    if (is_well_known(field.type_name()))
      field.set_type_name(fmt::format(".{}.{}", kOwnPackageOfAny, field.type_name().substr(kOwnPackage.size())));
  }
}

const pb::DescriptorPool& descriptors() {
  static const std::unique_ptr<const pb::DescriptorPool> pool = [] {
    pb::FileDescriptorSet files;
    if (!files.ParseFromArray(kDescriptors.data(), static_cast<int>(kDescriptors.size())))
      throw_internal("the embedded descriptors are damaged");
    auto built = std::make_unique<pb::DescriptorPool>();
    // A file comes after those that it imports.
    std::vector<pb::FileDescriptorProto*> left;
    for (auto& file : *files.mutable_file()) left.push_back(&file);
    while (!left.empty()) {
      const auto ready = std::ranges::find_if(left, [&](const auto* file) {
        return std::ranges::all_of(file->dependency(),
                                   [&](const std::string& name) { return built->FindFileByName(name) != nullptr; });
      });
      if (ready == left.end()) throw_internal("the embedded descriptors are incomplete");
      pb::FileDescriptorProto& file = **ready;
      if (file.name().ends_with("/well_known.proto")) file.set_package(std::string(kOwnPackageOfAny));
      for (auto& message : *file.mutable_message_type()) rename_well_known(message);
      if (!built->BuildFile(file)) throw_internal(fmt::format("invalid descriptor of {}", file.name()));
      left.erase(ready);
    }
    return built;
  }();
  return *pool;
}

class FirstError final : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

bool is_name_character(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

}  // namespace

bool looks_like_proto_text(std::span<const std::byte> bytes, std::initializer_list<std::string_view> fields) {
  std::string_view text = io::as_text(bytes.first(std::min(bytes.size(), kHead)));
  const auto skip_blanks = [&] { text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n"))); };
  skip_blanks();
  while (text.starts_with('#')) {
    text.remove_prefix(std::min(text.size(), text.find('\n')));
    skip_blanks();
  }
  const auto end = std::ranges::find_if_not(text, is_name_character);
  const std::string_view name(text.begin(), end);
  if (std::ranges::find(fields, name) == fields.end()) return false;
  text.remove_prefix(name.size());
  skip_blanks();
  return text.starts_with(':') || text.starts_with('{') || text.starts_with('<');
}

void parse_proto_text(pb::MessageLite& message, std::span<const std::byte> bytes, std::string_view what) {
  const std::string type = message.GetTypeName();
  const pb::Descriptor* const descriptor = descriptors().FindMessageTypeByName(type);
  if (!descriptor) throw_internal(fmt::format("no descriptor of {}", type));
  pb::DynamicMessageFactory factory(&descriptors());
  const auto parsed = with_limited_arena(bytes.size(), what, type, [&](pb::Arena& arena) {
    pb::Message* const read = factory.GetPrototype(descriptor)->New(&arena);
    FirstError error;
    pb::TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.SetRecursionLimit(kMostNesting);
    parser.AllowUnknownField(true);
    pb::io::ArrayInputStream input(bytes.data(), static_cast<int>(bytes.size()));
    if (!parser.Parse(&input, read))
      throw_data_loss(fmt::format("{}: not a valid {} message in text: {}", what, type, error.text()));
    return serialize_proto(*read, what);
  });
  parse_proto(message, io::as_bytes(parsed), what);
}

}  // namespace lockstep::formats
