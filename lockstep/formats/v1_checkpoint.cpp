// Each file is a table. The value of the empty key is a SavedTensorSlices with the names, types, shapes and slices of
// all tensors; each other value is one with the elements of a slice as a TensorProto.
#include "lockstep/formats/v1_checkpoint_internal.h"

#include <cstring>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/saved_tensor_slice.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/formats/tensor_table_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/memory_file_system_internal.h"

namespace lockstep::formats {
namespace {

// The elements, of which there must be as many as `target` has.
template <typename T, typename Values>
bool copy_values(const Values& values, std::span<std::byte> target) {
  if (static_cast<std::size_t>(values.size()) != target.size() / sizeof(T)) return false;
  for (int i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values.Get(i));
    std::memcpy(target.data() + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
  }
  return true;
}

bool copy_elements(DType dtype, const tensorflow::TensorProto& proto, std::span<std::byte> target) {
  switch (dtype) {
    case DType::kFloat32: return copy_values<float>(proto.float_val(), target);
    case DType::kFloat64: return copy_values<double>(proto.double_val(), target);
    case DType::kInt64: return copy_values<std::int64_t>(proto.int64_val(), target);
    case DType::kInt32: return copy_values<std::int32_t>(proto.int_val(), target);
    case DType::kInt16: return copy_values<std::int16_t>(proto.int_val(), target);
    case DType::kUInt16: return copy_values<std::uint16_t>(proto.int_val(), target);
    case DType::kInt8: return copy_values<std::int8_t>(proto.int_val(), target);
    case DType::kUInt8: return copy_values<std::uint8_t>(proto.int_val(), target);
    case DType::kBool: return copy_values<std::uint8_t>(proto.bool_val(), target);
    case DType::kFloat16:
    case DType::kBFloat16: return copy_values<std::uint16_t>(proto.half_val(), target);
    case DType::kComplex64: return copy_values<float>(proto.scomplex_val(), target);
    case DType::kComplex128: return copy_values<double>(proto.dcomplex_val(), target);
    default: throw_unimplemented(fmt::format("a tensor of type {} cannot be read", dtype_name(dtype)));
  }
}

struct OldTensor {
  DType dtype = DType::kInvalid;
  Shape shape;
};

// Start and length along each axis; a missing length is the rest of the axis.
std::pair<std::vector<std::int64_t>, Shape> box_of(const tensorflow::TensorSliceProto& slice, const Shape& whole,
                                                   const std::string& what) {
  std::vector<std::int64_t> start;
  Shape extent;
  if (slice.extent_size() != whole.rank())
    throw_data_loss(fmt::format("{}: a slice of {} axes of shape {}", what, slice.extent_size(), whole.to_string()));
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const auto& given = slice.extent(axis);
    const bool rest = given.has_length_hack_case() != tensorflow::TensorSliceProto::Extent::kLength;
    if (given.start() < 0 || given.start() > whole[axis])
      throw_data_loss(fmt::format("{}: a slice outside of shape {}", what, whole.to_string()));
    start.push_back(given.start());
    extent.push_back(rest ? whole[axis] - given.start() : given.length());
  }
  return {std::move(start), std::move(extent)};
}

class Conversion {
 public:
  Conversion(const std::string& prefix, io::FileSystem& memory) : writer_(prefix, memory) {}

  void add_file(std::span<const std::byte> bytes, const std::string& path) {
    const auto entries = read_table(bytes, path);
    if (entries.empty() || !entries.front().first.empty())
      throw_data_loss(fmt::format("{}: the checkpoint has no list of its tensors", path));
    const std::map<std::string, OldTensor> tensors = list_of(entries.front().second, path);
    for (std::size_t i = 1; i < entries.size(); ++i) add_slice(tensors, entries[i].second, path);
  }
  void finish() { writer_.finish(); }

 private:
  static std::map<std::string, OldTensor> list_of(const std::string& value, const std::string& path) {
    tensorflow::SavedTensorSlices proto;
    parse_proto(proto, io::as_bytes(value), path + ", list of tensors");
    std::map<std::string, OldTensor> tensors;
    for (const auto& each : proto.meta().tensor()) {
      OldTensor tensor{static_cast<DType>(each.type()), {}};
      for (const auto& dim : each.shape().dim()) {
        if (dim.size() < 0) throw_data_loss(fmt::format("{}: tensor {} has a negative extent", path, each.name()));
        tensor.shape.push_back(dim.size());
      }
      if (!tensor.shape.num_elements())
        throw_data_loss(fmt::format("{}: tensor {} is too large: {}", path, each.name(), tensor.shape.to_string()));
      tensors[each.name()] = std::move(tensor);
    }
    return tensors;
  }

  void add_slice(const std::map<std::string, OldTensor>& tensors, const std::string& value, const std::string& path) {
    tensorflow::SavedTensorSlices proto;
    parse_proto(proto, io::as_bytes(value), path + ", slice");
    const auto& slice = proto.data();
    const std::string what = fmt::format("{}: tensor {}", path, slice.name());
    const auto found = tensors.find(slice.name());
    if (found == tensors.end()) throw_data_loss(what + " is not in the list of tensors");
    const OldTensor& whole = found->second;
    const auto [start, extent] = box_of(slice.slice(), whole.shape, what);
    const auto count = extent.num_elements();
    if (!count) throw_data_loss(fmt::format("{}: a slice of shape {}", what, extent.to_string()));
    TensorData data;
    bool fits = false;
    if (whole.dtype == DType::kString) {
      data.dtype = whole.dtype;
      data.shape = extent;
      data.strings.assign(slice.data().string_val().begin(), slice.data().string_val().end());
      fits = static_cast<std::int64_t>(data.strings.size()) == *count;
    } else {
      const std::size_t width = dtype_size(whole.dtype);
      if (width == 0)
        throw_unimplemented(fmt::format("{}: dtype {} cannot be read", what, static_cast<int>(whole.dtype)));
      // An element takes a byte of its message at least.
      fits = static_cast<std::uint64_t>(*count) <= value.size();
      std::span<std::byte> target;
      if (fits) data = TensorData::allocate(whole.dtype, extent, target);
      fits = fits && copy_elements(whole.dtype, slice.data(), target);
    }
    if (!fits)
      throw_data_loss(fmt::format("{}: the number of elements does not fit shape {}", what, extent.to_string()));
    if (extent == whole.shape) {
      writer_.add(slice.name(), data);
    } else {
      writer_.add_slice(slice.name(), whole.shape, start, data);
    }
  }

  BundleWriter writer_;
};

bool is_table(const std::string& path, io::FileSystem& files) {
  return io::is_file(files, path) && looks_like_table(files.map(path)->bytes());
}

}  // namespace

std::vector<std::string> v1_checkpoint_files(const std::string& path, io::FileSystem& files) {
  // TensorFlow names a checkpoint of several files PREFIX-?????-of-NNNNN.
  const std::size_t wildcard = path.rfind("-" + std::string(5, '?') + "-of-");
  const std::string prefix = path.substr(0, wildcard);
  if (is_table(prefix, files)) return {prefix};
  const std::string folder = io::parent_directory(prefix), base = io::base_name(prefix) + "-";
  if (!io::is_directory(files, folder)) return {};
  std::vector<std::string> shards;
  for (const std::string& name : files.list(folder)) {
    const std::string pattern = "#####-of-#####";
    if (!name.starts_with(base) || name.size() != base.size() + pattern.size()) continue;
    bool matches = true;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      const char c = name[base.size() + i];
      matches = matches && (pattern[i] == '#' ? c >= '0' && c <= '9' : c == pattern[i]);
    }
    if (matches && is_table(io::join_path(folder, name), files)) shards.push_back(io::join_path(folder, name));
  }
  return shards;
}

std::shared_ptr<io::FileSystem> bundle_of_v1_checkpoint(const std::string& prefix,
                                                        const std::vector<std::string>& paths, io::FileSystem& files) {
  auto memory = std::make_shared<io::MemoryFileSystem>();
  io::make_directories(*memory, io::parent_directory(prefix));
  Conversion conversion(prefix, *memory);
  for (const std::string& path : paths) conversion.add_file(files.map(path)->bytes(), path);
  conversion.finish();
  return memory;
}

}  // namespace lockstep::formats
