#include "lockstep/formats/safetensors.h"

#include <algorithm>
#include <cstdint>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::formats {
namespace {

// file     header_len u64 | header JSON, padded with spaces to 8 | bytes of the tensors
// header   {"__metadata__": {"k": "v"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
constexpr std::size_t kMostSafetensorsHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";

// In the order in which the format's own writer ranks them: it writes the last ones first.
constexpr std::pair<std::string_view, DType> kSafetensorsTypes[] = {
    {"BOOL", DType::kBool},
    {"U8", DType::kUInt8},
    {"I8", DType::kInt8},
    {"F8_E5M2", DType::kFloat8E5M2},
    {"F8_E4M3", DType::kFloat8E4M3FN},
    {"I16", DType::kInt16},
    {"U16", DType::kUInt16},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16},
    {"I32", DType::kInt32},
    {"U32", DType::kUInt32},
    {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
    {"I64", DType::kInt64},
    {"U64", DType::kUInt64},
};

const std::pair<std::string_view, DType>* find_type(DType dtype) {
  return std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                      [&](const auto& row) { return row.second == dtype; });
}

std::size_t non_negative(const Json& value, const std::string& where) {
  const bool good = value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0);
  if (!good) throw_data_loss(fmt::format("{}: expected a whole number that is not negative", where));
  return value.get<std::size_t>();
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::string& path, io::FileSystem& files)
    : path_(path), file_(files.map(path)) {
  const auto bytes = file_->bytes();
  const auto damaged = [&](const std::string& why) {
    throw_data_loss(fmt::format("{}: damaged or not a safetensors file: {}", path_, why));
  };
  const auto size = io::load_le<std::uint64_t>(bytes, 0);
  if (!size || *size > kMostSafetensorsHeader || *size > bytes.size() - 8)
    damaged("its header is cut short or too large");
  const std::size_t start = 8 + *size;
  const std::string_view text = io::as_text(bytes.subspan(8, *size));
  if (!text.starts_with('{')) damaged("its header is not a JSON object");
  const Json header = parse_json(text, path_);
  if (!header.is_object()) damaged("its header is not a JSON object");
  for (const auto& [name, value] : header.items()) {
    const std::string where = fmt::format("{}: tensor {}", path_, name);
    if (name == kMetadata) {
      if (!value.is_object()) damaged("its metadata is not an object");
      for (const auto& [key, item] : value.items()) {
        if (!item.is_string()) damaged(fmt::format("metadata {} is not a string", key));
        metadata_[key] = item.get<std::string>();
      }
      continue;
    }
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() || !value.contains("shape") ||
        !value["shape"].is_array() || !value.contains("data_offsets") || !value["data_offsets"].is_array() ||
        value["data_offsets"].size() != 2) {
      damaged(fmt::format("tensor {} is not described by dtype, shape and data_offsets", name));
    }
    const auto type = value["dtype"].get<std::string>();
    const auto* row = std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                                   [&](const auto& r) { return r.first == type; });
    if (row == std::end(kSafetensorsTypes))
      throw_unimplemented(fmt::format("{}: dtype {} is not supported", where, type));
    std::vector<std::int64_t> dims;
    for (const auto& dim : value["shape"]) {
      const std::size_t extent = non_negative(dim, where);
      if (extent > INT64_MAX) damaged(fmt::format("tensor {} has a dimension of {}", name, extent));
      dims.push_back(static_cast<std::int64_t>(extent));
    }
    TensorInfo info{name, row->second, Shape(std::move(dims))};
    const std::size_t begin = non_negative(value["data_offsets"][0], where);
    const std::size_t end = non_negative(value["data_offsets"][1], where);
    const auto count = info.shape.num_elements();
    std::size_t expected = 0;
    if (begin > end || end > bytes.size() - start || !count ||
        __builtin_mul_overflow(static_cast<std::size_t>(*count), dtype_size(info.dtype), &expected) ||
        expected != end - begin) {
      damaged(fmt::format("tensor {}: bytes {} to {} do not fit dtype {}, shape {} and the file's {} bytes", name,
                          begin, end, type, info.shape.to_string(), bytes.size() - start));
    }
    list_.push_back(std::move(info));
    places_[name] = {0, start + begin, start + end};
  }
  std::sort(list_.begin(), list_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (std::size_t i = 0; i < list_.size(); ++i) places_[list_[i].name].info = i;
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const auto& [name, place] : places_) ranges.emplace_back(place.begin, place.end);
  std::sort(ranges.begin(), ranges.end());
  std::size_t at = start;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) damaged("tensors overlap or leave a gap");
    at = end;
  }
  if (at != bytes.size()) damaged(fmt::format("{} bytes are not part of any tensor", bytes.size() - at));
}

TensorData SafetensorsReader::read(const std::string& name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) throw_not_found(fmt::format("{}: no tensor {}", path_, name));
  const TensorInfo& info = list_[found->second.info];
  const auto bytes = file_->bytes().subspan(found->second.begin, found->second.end - found->second.begin);
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % dtype_size(info.dtype) != 0) {
    return TensorData::copy_of(info.dtype, info.shape, bytes);
  }
  TensorData tensor;
  tensor.dtype = info.dtype;
  tensor.shape = info.shape;
  tensor.bytes = bytes;
  tensor.owner = file_;
  return tensor;
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::map<std::string, std::string> metadata,
                                     io::FileSystem& files)
    : path_(std::move(path)), metadata_(std::move(metadata)), files_(files) {}

void SafetensorsWriter::add(const std::string& name, const TensorData& tensor) {
  if (find_type(tensor.dtype) == std::end(kSafetensorsTypes)) {
    throw_invalid_argument(fmt::format("{}: tensor {} has dtype {}, which safetensors files cannot hold", path_, name,
                                       dtype_name(tensor.dtype)));
  }
  const auto count = tensor.shape.num_elements();
  if (name == kMetadata || !count ||
      tensor.bytes.size() != static_cast<std::size_t>(*count) * dtype_size(tensor.dtype)) {
    throw_invalid_argument(
        fmt::format("{}: tensor {} has a reserved name, or bytes that do not fit its shape", path_, name));
  }
  if (!tensors_.emplace(name, tensor).second) {
    throw_already_exists(fmt::format("{}: tensor {} was added before", path_, name));
  }
}

void SafetensorsWriter::finish() {
  std::vector<const std::pair<const std::string, TensorData>*> order;
  for (const auto& entry : tensors_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return find_type(a->second.dtype) > find_type(b->second.dtype);
  });
  Json header = Json::object();
  if (!metadata_.empty()) header[std::string(kMetadata)] = metadata_;
  std::size_t offset = 0;
  for (const auto* entry : order) {
    const TensorData& tensor = entry->second;
    Json item = Json::object();
    item["dtype"] = std::string(find_type(tensor.dtype)->first);
    item["shape"] = tensor.shape.dims();
    item["data_offsets"] = {offset, offset + tensor.bytes.size()};
    header[entry->first] = std::move(item);
    offset += tensor.bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const JsonError&) {
    throw_invalid_argument(fmt::format("{}: a name or a piece of metadata is not UTF-8", path_));
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  std::string length;
  io::append_le(length, static_cast<std::uint64_t>(text.size()));
  io::AtomicFile file(path_, files_, 8 + text.size() + offset);
  file.append(length);
  file.append(text);
  for (const auto* entry : order) file.append(entry->second.bytes);
  file.commit();
}

}  // namespace lockstep::formats
