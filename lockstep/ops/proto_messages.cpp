// Messages of protocol buffers to tensors of their fields, and back. Their definitions are part of the operation.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/wire_format_lite.h>

#include "lockstep/formats/tensor_data.h"
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

namespace pb = google::protobuf;
using Wire = pb::internal::WireFormatLite;
using Field = pb::FieldDescriptor;

// ---- definitions ----------------------------------------------------------------------------------------

// Text that others wrote: errors go to us, not to stderr.
class NoErrors : public pb::DescriptorPool::ErrorCollector {
 public:
  void AddError(const std::string&, const std::string& element, const pb::Message*, ErrorLocation,
                const std::string& message) override {
    if (first.empty()) first = element + ": " + message;
  }
  std::string first;
};
class NoTextErrors : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int, const std::string& message) override {
    if (first.empty()) first = fmt::format("line {}: {}", line + 1, message);
  }
  std::string first;
};

// The messages that `descriptor_source` of the call defines.
class Definitions {
 public:
  explicit Definitions(const Call& call) {
    const std::string& source = call.attr<std::string>("descriptor_source");
    constexpr std::string_view kBytes = "bytes://";
    if (source == "local://") {
      pool_ = pb::DescriptorPool::generated_pool();
      pb::FileDescriptorProto::descriptor();  // registers the file that defines definitions
    } else if (source.starts_with(kBytes)) {
      pb::FileDescriptorSet files;
      if (!files.ParseFromArray(source.data() + kBytes.size(), static_cast<int>(source.size() - kBytes.size())))
        throw_invalid_argument("invalid descriptor_source: the bytes are not a FileDescriptorSet");
      own_ = std::make_unique<pb::DescriptorPool>();
      NoErrors errors;
      for (const auto& file : files.file()) {
        if (!own_->BuildFileCollectingErrors(file, &errors))
          throw_invalid_argument(fmt::format("invalid descriptor_source: {}", errors.first));
      }
      pool_ = own_.get();
    } else {
      throw_unimplemented("descriptor_source is a file; pass its contents behind 'bytes://'");
    }
    const std::string& name = call.attr<std::string>("message_type");
    message_ = pool_->FindMessageTypeByName(name);
    if (!message_) throw_invalid_argument(fmt::format("unknown message_type '{}' in descriptor_source", name));
    for (const std::string& field : call.attr<std::vector<std::string>>("field_names")) {
      // The name of an extension has a prefix.
      const Field* const found = field.find('.') == std::string::npos
                                     ? message_->FindFieldByName(field)
                                     : pool_->FindExtensionByName(field[0] == '.' ? field.substr(1) : field);
      if (!found || found->containing_type() != message_)
        throw_invalid_argument(fmt::format("unknown field '{}' of message type '{}'", field, name));
      fields_.push_back(found);
    }
  }

  const std::vector<const Field*>& fields() const { return fields_; }

  // The message as bytes, from bytes or text. Throws DataLoss.
  std::string reserialized(const std::string& message, bool text) {
    if (!factory_) factory_ = std::make_unique<pb::DynamicMessageFactory>(pool_);
    const std::unique_ptr<pb::Message> parsed(factory_->GetPrototype(message_)->New());
    NoTextErrors errors;
    pb::TextFormat::Parser parser;
    parser.RecordErrorsTo(&errors);
    parser.SetRecursionLimit(100);
    if (text ? !parser.ParseFromString(message, parsed.get()) : !parsed->ParsePartialFromString(message))
      throw_data_loss(text ? fmt::format("Unable to parse text protobuf: {}", errors.first)
                           : std::string("Unable to parse binary protobuf"));
    if (!parsed->IsInitialized()) throw_data_loss("a required field of the message is missing");
    return parsed->SerializePartialAsString();
  }

 private:
  std::unique_ptr<pb::DescriptorPool> own_;
  const pb::DescriptorPool* pool_ = nullptr;
  const pb::Descriptor* message_ = nullptr;
  std::vector<const Field*> fields_;
  std::unique_ptr<pb::DynamicMessageFactory> factory_;
};

// The dtypes that a field can have as a tensor.
bool fits(const Field& field, DType dtype) {
  switch (field.type()) {
    case Field::TYPE_DOUBLE: return dtype == DType::kFloat64;
    case Field::TYPE_FLOAT: return dtype == DType::kFloat32 || dtype == DType::kFloat64;
    case Field::TYPE_INT64:
    case Field::TYPE_SFIXED64:
    case Field::TYPE_SINT64: return dtype == DType::kInt64;
    case Field::TYPE_UINT64:
    case Field::TYPE_FIXED64: return dtype == DType::kUInt64;
    case Field::TYPE_INT32:
    case Field::TYPE_SFIXED32:
    case Field::TYPE_SINT32: return dtype == DType::kInt32 || dtype == DType::kInt64;
    case Field::TYPE_UINT32:
    case Field::TYPE_FIXED32: return dtype == DType::kUInt32 || dtype == DType::kUInt64;
    case Field::TYPE_ENUM: return dtype == DType::kInt32;
    case Field::TYPE_BOOL: return dtype == DType::kBool;
    default: return dtype == DType::kString;
  }
}
void check_type(const Field& field, DType dtype) {
  if (!fits(field, dtype))
    throw_invalid_argument(
        fmt::format("field '{}' of type {} cannot be {}", field.name(), field.type_name(), dtype_name(dtype)));
}

Wire::FieldType wire_type_of(const Field& field) { return static_cast<Wire::FieldType>(field.type()); }
bool is_delimited(const Field& field) {
  return Wire::WireTypeForFieldType(wire_type_of(field)) == Wire::WIRETYPE_LENGTH_DELIMITED;
}

// ---- reading --------------------------------------------------------------------------------------------

// The values of a field in one message: numbers as they are in memory, or strings.
struct Values {
  std::string numbers;
  std::vector<std::string> strings;
  std::int64_t count = 0;
};

template <typename T>
void append(Values& values, T value) {
  values.numbers.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <typename Narrow, typename Wide>
void append_as(Values& values, Narrow value, bool wide) {
  wide ? append(values, static_cast<Wide>(value)) : append(values, value);
}

// One number behind its tag, or in a packed list.
bool read_number(pb::io::CodedInputStream& in, const Field& field, DType dtype, Values& values) {
  std::uint64_t bits = 0;
  const auto varint = [&] { return in.ReadVarint64(&bits); };
  const auto fixed32 = [&] {
    std::uint32_t word = 0;
    const bool ok = in.ReadLittleEndian32(&word);
    bits = word;
    return ok;
  };
  const auto fixed64 = [&] { return in.ReadLittleEndian64(&bits); };
  const bool wide = dtype == DType::kInt64 || dtype == DType::kUInt64 || dtype == DType::kFloat64;
  const auto low = [&] { return static_cast<std::uint32_t>(bits); };
  switch (field.type()) {
    case Field::TYPE_DOUBLE: return fixed64() && (append(values, bits), true);
    case Field::TYPE_FLOAT:
      return fixed32() && (append_as<float, double>(values, Wire::DecodeFloat(low()), wide), true);
    case Field::TYPE_INT64:
    case Field::TYPE_UINT64: return varint() && (append(values, bits), true);
    case Field::TYPE_SINT64: return varint() && (append(values, Wire::ZigZagDecode64(bits)), true);
    case Field::TYPE_FIXED64:
    case Field::TYPE_SFIXED64: return fixed64() && (append(values, bits), true);
    case Field::TYPE_INT32:
    case Field::TYPE_ENUM:
      return varint() && (append_as<std::int32_t, std::int64_t>(values, static_cast<std::int32_t>(low()), wide), true);
    case Field::TYPE_SINT32:
      return varint() && (append_as<std::int32_t, std::int64_t>(values, Wire::ZigZagDecode32(low()), wide), true);
    case Field::TYPE_SFIXED32:
      return fixed32() && (append_as<std::int32_t, std::int64_t>(values, static_cast<std::int32_t>(low()), wide), true);
    case Field::TYPE_UINT32: return varint() && (append_as<std::uint32_t, std::uint64_t>(values, low(), wide), true);
    case Field::TYPE_FIXED32: return fixed32() && (append_as<std::uint32_t, std::uint64_t>(values, low(), wide), true);
    case Field::TYPE_BOOL: return varint() && (append(values, static_cast<char>(bits != 0)), true);
    default: return false;
  }
}

// The contents of a group, without the tags around it.
bool read_group(pb::io::CodedInputStream& in, const Field& field, std::string& value) {
  pb::io::StringOutputStream bytes(&value);
  pb::io::CodedOutputStream out(&bytes);
  for (;;) {
    const std::uint32_t tag = in.ReadTag();
    if (tag == 0) return false;
    if (Wire::GetTagWireType(tag) == Wire::WIRETYPE_END_GROUP) return Wire::GetTagFieldNumber(tag) == field.number();
    if (!Wire::SkipField(&in, tag, &out)) return false;
  }
}

void forget_last(Values& values, std::size_t size) {
  if (values.numbers.size() > size) values.numbers.erase(0, values.numbers.size() - size);
  if (values.strings.size() > 1) values.strings.erase(values.strings.begin(), values.strings.end() - 1);
  values.count = std::min<std::int64_t>(values.count, 1);
}

bool read_field(pb::io::CodedInputStream& in, std::uint32_t tag, const Field& field, DType dtype, Values& values) {
  const auto given = Wire::GetTagWireType(tag), expected = Wire::WireTypeForFieldType(wire_type_of(field));
  if (given == Wire::WIRETYPE_LENGTH_DELIMITED && given != expected) {
    int length = 0;
    if (field.type() == Field::TYPE_GROUP || !in.ReadVarintSizeAsInt(&length)) return false;
    const auto limit = in.PushLimit(length);
    Values list;
    while (in.BytesUntilLimit() > 0) {
      if (!read_number(in, field, dtype, list)) return false;
      ++list.count;
    }
    if (in.BytesUntilLimit() != 0) return false;
    in.PopLimit(limit);
    values.count += list.count;
    // A list where one number is expected counts, and its numbers are dropped, as TensorFlow does it.
    if (field.is_repeated()) values.numbers += list.numbers;
  } else if (given != expected) {
    return Wire::SkipField(&in, tag);
  } else {
    std::string text;
    if (field.type() == Field::TYPE_GROUP) {
      if (!read_group(in, field, text)) return false;
      values.strings.push_back(std::move(text));
    } else if (is_delimited(field)) {
      if (!Wire::ReadBytes(&in, &text)) return false;
      values.strings.push_back(std::move(text));
    } else if (!read_number(in, field, dtype, values)) {
      return false;
    }
    ++values.count;
  }
  if (!field.is_repeated()) forget_last(values, dtype == DType::kString ? 0 : dtype_size(dtype));
  return true;
}

std::vector<Values> fields_of(const std::string& message, const std::vector<const Field*>& fields,
                              const std::vector<DType>& types) {
  std::vector<Values> found(fields.size());
  pb::io::CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()), static_cast<int>(message.size()));
  const auto check = [](bool ok) {
    if (!ok) throw_data_loss("a message is damaged");
  };
  while (const std::uint32_t tag = in.ReadTag()) {
    check(Wire::GetTagWireType(tag) != Wire::WIRETYPE_END_GROUP);
    const auto number = Wire::GetTagFieldNumber(tag);
    const auto at = std::find_if(fields.begin(), fields.end(), [&](const Field* f) { return f->number() == number; });
    const auto i = static_cast<std::size_t>(at - fields.begin());
    check(at == fields.end() ? Wire::SkipField(&in, tag) : read_field(in, tag, *fields[i], types[i], found[i]));
  }
  check(in.ConsumedEntireMessage());
  return found;
}

// The default of a field, as fields_of() gives values.
Values default_of(const Field& field, DType dtype) {
  Values out;
  const bool wide = dtype == DType::kInt64 || dtype == DType::kUInt64 || dtype == DType::kFloat64;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_DOUBLE: append(out, field.default_value_double()); break;
    case Field::CPPTYPE_FLOAT: append_as<float, double>(out, field.default_value_float(), wide); break;
    case Field::CPPTYPE_INT64: append(out, std::int64_t{field.default_value_int64()}); break;
    case Field::CPPTYPE_UINT64: append(out, std::uint64_t{field.default_value_uint64()}); break;
    case Field::CPPTYPE_INT32: append_as<std::int32_t, std::int64_t>(out, field.default_value_int32(), wide); break;
    case Field::CPPTYPE_UINT32: append_as<std::uint32_t, std::uint64_t>(out, field.default_value_uint32(), wide); break;
    case Field::CPPTYPE_ENUM: append(out, std::int32_t{field.default_value_enum()->number()}); break;
    case Field::CPPTYPE_BOOL: append(out, static_cast<char>(field.default_value_bool())); break;
    case Field::CPPTYPE_STRING: out.strings.push_back(field.default_value_string()); break;
    case Field::CPPTYPE_MESSAGE: out.strings.emplace_back(); break;
  }
  return out;
}

// Field i of all messages; the rows of those with fewer values end with the default.
Tensor column_of(const std::vector<std::vector<Values>>& messages, std::size_t i, const Field& field, DType dtype,
                 Ints shape) {
  const Values rest = default_of(field, dtype);
  std::int64_t widest = 1;
  for (const auto& fields : messages) widest = std::max(widest, fields[i].count);
  shape.push_back(widest);
  const std::int64_t size = dtype == DType::kString ? static_cast<std::int64_t>(sizeof(std::string))
                                                    : static_cast<std::int64_t>(dtype_size(dtype));
  element_count(shape, size);
  std::vector<std::string> strings;
  std::string numbers;
  for (const auto& fields : messages) {
    strings.insert(strings.end(), fields[i].strings.begin(), fields[i].strings.end());
    numbers += fields[i].numbers;
    const std::size_t given =
        dtype == DType::kString ? fields[i].strings.size() : fields[i].numbers.size() / dtype_size(dtype);
    for (auto n = static_cast<std::int64_t>(given); n < widest; ++n) {
      strings.insert(strings.end(), rest.strings.begin(), rest.strings.end());
      numbers += rest.numbers;
    }
  }
  if (dtype == DType::kString) return Tensor::strings(std::move(strings), Shape(shape));
  std::span<std::byte> memory;
  const auto data = formats::TensorData::allocate(dtype, Shape(shape), memory);
  std::copy_n(reinterpret_cast<const std::byte*>(numbers.data()), memory.size(), memory.begin());
  return Tensor::from_data(data);
}

Tensors decode_proto(const Call& call) {
  Definitions definitions(call);
  const auto& types = call.attr<std::vector<DType>>("output_types");
  const auto& fields = definitions.fields();
  if (types.size() != fields.size()) throw_invalid_argument("field_names and output_types must have the same length");
  for (std::size_t i = 0; i < fields.size(); ++i) check_type(*fields[i], types[i]);
  const std::string& format = call.attr<std::string>("message_format");
  if (format != "binary" && format != "text")
    throw_invalid_argument(fmt::format("invalid message_format: found '{}', expected 'binary' or 'text'", format));
  const bool rewrite = format == "text" || call.attr<bool>("sanitize");
  std::vector<std::vector<Values>> messages;
  Ints sizes;
  for (const std::string& bytes : strings_in(call, 0)) {
    messages.push_back(fields_of(rewrite ? definitions.reserialized(bytes, format == "text") : bytes, fields, types));
    for (const Values& values : messages.back()) sizes.push_back(values.count);
  }
  const Ints batch(call.input(0).shape().dims().begin(), call.input(0).shape().dims().end());
  Ints shape = batch;
  shape.push_back(static_cast<std::int64_t>(fields.size()));
  Tensors out{wrap(int64_tensor(sizes, shape).to(at::kInt))};
  for (std::size_t i = 0; i < fields.size(); ++i) out.push_back(column_of(messages, i, *fields[i], types[i], batch));
  return out;
}

// ---- writing --------------------------------------------------------------------------------------------

// Element `at` of `values`, without a tag.
void write_number(pb::io::CodedOutputStream& out, const Field& field, const Tensor& values, std::int64_t at) {
  const at::Tensor& x = dense(values);
  const auto integer = [&]() -> std::int64_t {
    switch (x.scalar_type()) {
      case at::kInt: return x.const_data_ptr<std::int32_t>()[at];
      case at::kUInt32: return x.const_data_ptr<std::uint32_t>()[at];
      case at::kUInt64: return static_cast<std::int64_t>(x.const_data_ptr<std::uint64_t>()[at]);
      default: return x.const_data_ptr<std::int64_t>()[at];
    }
  };
  const auto real = [&] {
    return x.scalar_type() == at::kFloat ? static_cast<double>(x.const_data_ptr<float>()[at])
                                         : x.const_data_ptr<double>()[at];
  };
  const auto int32 = [&] { return static_cast<std::int32_t>(integer()); };
  const auto uint32 = [&] { return static_cast<std::uint32_t>(integer()); };
  switch (field.type()) {
    case Field::TYPE_DOUBLE: return Wire::WriteDoubleNoTag(real(), &out);
    case Field::TYPE_FLOAT: return Wire::WriteFloatNoTag(static_cast<float>(real()), &out);
    case Field::TYPE_INT64: return Wire::WriteInt64NoTag(integer(), &out);
    case Field::TYPE_UINT64: return Wire::WriteUInt64NoTag(static_cast<std::uint64_t>(integer()), &out);
    case Field::TYPE_SINT64: return Wire::WriteSInt64NoTag(integer(), &out);
    case Field::TYPE_FIXED64: return Wire::WriteFixed64NoTag(static_cast<std::uint64_t>(integer()), &out);
    case Field::TYPE_SFIXED64: return Wire::WriteSFixed64NoTag(integer(), &out);
    case Field::TYPE_INT32: return Wire::WriteInt32NoTag(int32(), &out);
    case Field::TYPE_SINT32: return Wire::WriteSInt32NoTag(int32(), &out);
    case Field::TYPE_SFIXED32: return Wire::WriteSFixed32NoTag(int32(), &out);
    case Field::TYPE_UINT32: return Wire::WriteUInt32NoTag(uint32(), &out);
    case Field::TYPE_FIXED32: return Wire::WriteFixed32NoTag(uint32(), &out);
    case Field::TYPE_ENUM: return Wire::WriteEnumNoTag(int32(), &out);
    default: return Wire::WriteBoolNoTag(x.const_data_ptr<bool>()[at], &out);
  }
}

void write_field(std::string& message, const Field& field, const Tensor& values, std::int64_t first,
                 std::int64_t count) {
  std::string list;
  pb::io::StringOutputStream bytes(&message), list_bytes(&list);
  pb::io::CodedOutputStream out(&bytes);
  const auto tag = [&](Wire::WireType type) { Wire::WriteTag(field.number(), type, &out); };
  if (values.dtype() != DType::kString && field.options().packed()) {
    {
      pb::io::CodedOutputStream numbers(&list_bytes);
      for (std::int64_t i = 0; i < count; ++i) write_number(numbers, field, values, first + i);
    }
    return Wire::WriteBytes(field.number(), list, &out);
  }
  for (std::int64_t i = first; i < first + count; ++i) {
    if (values.dtype() != DType::kString) {
      tag(Wire::WireTypeForFieldType(wire_type_of(field)));
      write_number(out, field, values, i);
      continue;
    }
    const std::string& text = values.string_values()[static_cast<std::size_t>(i)];
    if (field.type() == Field::TYPE_GROUP) {
      tag(Wire::WIRETYPE_START_GROUP);
      out.WriteRaw(text.data(), static_cast<int>(text.size()));
      tag(Wire::WIRETYPE_END_GROUP);
    } else {
      Wire::WriteBytes(field.number(), text, &out);
    }
  }
}

Tensors encode_proto(const Call& call) {
  const Definitions definitions(call);
  const auto& fields = definitions.fields();
  const auto count = static_cast<int>(fields.size());
  if (call.num_inputs() != count + 1 || count == 0)
    throw_invalid_argument("field_names must have one name for each of the values");
  const Ints sizes = ints_in(call, 0);
  Ints batch;
  std::vector<std::size_t> order;
  Tensors values;
  for (int i = 0; i < count; ++i) {
    const Tensor& given = call.input(i + 1);
    check_type(*fields[static_cast<std::size_t>(i)], given.dtype());
    if (given.rank() < 2) throw_invalid_argument("values must have at least two axes");
    const Ints prefix(given.shape().dims().begin(), given.shape().dims().end() - 1);
    if (i > 0 && prefix != batch) throw_invalid_argument("Values must match up to the last dimension");
    batch = prefix;
    order.push_back(static_cast<std::size_t>(i));
    values.push_back(given.dtype() == DType::kString ? given : wrap(dense(given).contiguous()));
  }
  Ints expected = batch;
  expected.push_back(count);
  if (!(call.input(0).shape() == Shape(expected)))
    throw_invalid_argument(fmt::format("sizes must have the shape {}", Shape(expected).to_string()));
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return fields[a]->number() < fields[b]->number(); });
  std::vector<std::string> messages(static_cast<std::size_t>(element_count(batch)));
  for (std::size_t m = 0; m < messages.size(); ++m) {
    for (const std::size_t i : order) {
      const std::int64_t size = sizes[m * fields.size() + i], widest = values[i].dim(-1);
      if (size > widest)
        throw_invalid_argument(
            fmt::format("Size to write must not be larger than value tensor; but saw: {} > {} at message {} field {}",
                        size, widest, m, i));
      if (size > 0) write_field(messages[m], *fields[i], values[i], static_cast<std::int64_t>(m) * widest, size);
    }
  }
  return {Tensor::strings(std::move(messages), Shape(batch))};
}

}  // namespace

void register_proto_messages(Table& table) {
  table.add("DecodeProtoV2", nullptr, decode_proto);
  table.add("EncodeProto", nullptr, encode_proto);
}

}  // namespace lockstep::ops
