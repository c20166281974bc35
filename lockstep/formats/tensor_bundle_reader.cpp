#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/four_bits_internal.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/proto/tensor_bundle.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/formats/tensor_bundle_layout_internal.h"
#include "lockstep/formats/tensor_table_internal.h"
#include "lockstep/formats/v1_checkpoint_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"

namespace lockstep::formats {
namespace {

constexpr int kVersion = 1;  // of bundles that this reader understands
constexpr int kMostShards = 99999;
constexpr int kMostRank = 254;  // TensorFlow's
constexpr std::size_t kReadBlock = 256u << 10;
constexpr std::size_t kReleaseBlocks = 16;
constexpr std::size_t kTwoThreads = std::size_t{8} << 20;

// Copies (where there is a target) and checksums block by block, while the block is in the cache.
std::uint32_t copy_and_sum(std::span<const std::byte> source, std::byte* target) {
  std::uint32_t crc = 0;
  std::size_t blocks = 0;
  auto done = source;  // its front has been read, and is let go in larger pieces
  while (!source.empty()) {
    const auto part = source.first(std::min(source.size(), kReadBlock));
    if (target != nullptr) {
      std::memcpy(target, part.data(), part.size());
      crc = io::crc32c({target, part.size()}, crc);
      target += part.size();
    } else {
      crc = io::crc32c(part, crc);
    }
    source = source.subspan(part.size());
    if (++blocks % kReleaseBlocks == 0) io::release(done.first(done.size() - source.size())), done = source;
  }
  return crc;
}

std::uint32_t copy_and_sum_in_halves(std::span<const std::byte> source, std::byte* target) {
  if (source.size() < kTwoThreads || std::thread::hardware_concurrency() < 2) return copy_and_sum(source, target);
  const std::size_t half = source.size() / 2 / kReadBlock * kReadBlock;
  std::uint32_t second = 0;
  std::thread other;
  try {
    other =
        std::thread([&] { second = copy_and_sum(source.subspan(half), target == nullptr ? nullptr : target + half); });
  } catch (const std::system_error&) {  // no more threads
    return copy_and_sum(source, target);
  }
  const std::uint32_t first = copy_and_sum(source.first(half), target);
  other.join();
  return io::crc32c_combine(first, second, source.size() - half);
}

std::size_t component_size(DType dtype) { return is_complex(dtype) ? dtype_size(dtype) / 2 : dtype_size(dtype); }

void require_known_dtype(const TensorInfo& info, const std::string& prefix) {
  const int number = static_cast<int>(info.dtype);
  if (number <= static_cast<int>(DType::kFloat8E4M3FN)) return;
  throw_invalid_argument(fmt::format("{}: tensor {} has TensorFlow's dtype number {}, which lockstep cannot read",
                                     prefix, info.name, number));
}

}  // namespace

// The data files, mapped when first needed.
struct BundleReader::Shards {
  std::mutex mutex;
  std::unordered_map<int, std::shared_ptr<const io::FileBytes>> open;
  std::set<std::string> int4;  // the tensors whose int8 are TensorFlow's int4
};

void BundleReader::damaged(const std::string& what) const { throw_data_loss(fmt::format("{}: {}", prefix_, what)); }

namespace {

std::shared_ptr<io::FileSystem> converted(const std::string& prefix, io::FileSystem& files) {
  if (files.stat(bundle_index_path(prefix))) return nullptr;
  const auto paths = v1_checkpoint_files(prefix, files);
  return paths.empty() ? nullptr : bundle_of_v1_checkpoint(prefix, paths, files);
}

void refuse_lost_content(const std::string& path, std::span<const std::byte> bytes) {
  const auto lost = lost_content(bytes);
  if (!lost.empty()) throw_data_loss(fmt::format("{}: {}", path, lost));
}

}  // namespace

bool checkpoint_exists(const std::string& prefix, io::FileSystem& files) {
  return io::is_file(files, bundle_index_path(prefix)) || !v1_checkpoint_files(prefix, files).empty();
}

BundleReader::BundleReader(std::string prefix, io::FileSystem& files)
    : prefix_(std::move(prefix)),
      converted_(converted(prefix_, files)),
      files_(converted_ ? *converted_ : files),
      shards_(std::make_unique<Shards>()) {
  const std::string path = bundle_index_path(prefix_);
  if (!files_.stat(path)) {
    const std::string folder = io::parent_directory(io::parent_directory(prefix_));
    if (prefix_.ends_with("variables/variables") && files_.stat(io::join_path(folder, "saved_model.pb"))) {
      throw_not_found(
          fmt::format("{}: variables/variables.index is missing: the folder was copied or exported in part; copy it "
                      "again, with its folders variables and assets",
                      folder));
    }
    throw_not_found(
        fmt::format("{}: no checkpoint here (no file {}); give the prefix, for instance dir/ckpt-1", prefix_, path));
  }
  const auto file = files_.map(path);
  refuse_lost_content(path, file->bytes());
  const auto entries = read_table(file->bytes(), path);
  if (entries.empty() || !entries.front().first.empty()) damaged("the index has no header entry");
  read_header(entries.front().second);
  for (std::size_t i = 1; i < entries.size(); ++i) read_entry(entries[i].first, entries[i].second);
  check_overlaps();
}

BundleReader::~BundleReader() = default;

void BundleReader::read_header(const std::string& value) {
  tensorflow::BundleHeaderProto header;
  parse_proto(header, io::as_bytes(value), prefix_ + ".index, header");
  const auto& version = header.version();
  const bool refused = std::find(version.bad_consumers().begin(), version.bad_consumers().end(), kVersion) !=
                       version.bad_consumers().end();
  if (version.producer() < 0 || version.min_consumer() > kVersion || refused) {
    throw_invalid_argument(fmt::format("{}: written for readers of version {} or later; this one has version {}",
                                       prefix_, version.min_consumer(), kVersion));
  }
  num_shards_ = header.num_shards();
  if (num_shards_ < 0 || num_shards_ > kMostShards) damaged(fmt::format("the header names {} shards", num_shards_));
  if (header.endianness() != tensorflow::BundleHeaderProto::LITTLE &&
      header.endianness() != tensorflow::BundleHeaderProto::BIG) {
    damaged(fmt::format("unknown byte order {}", static_cast<int>(header.endianness())));
  }
  big_endian_ = header.endianness() == tensorflow::BundleHeaderProto::BIG;
}

void BundleReader::read_entry(const std::string& key, const std::string& value) {
  tensorflow::BundleEntryProto proto;
  const bool is_slice = key.front() == '\0';
  const std::string name =
      is_slice ? "(a slice of " + key.substr(1, key.find(std::string_view("\0\1", 2), 1) - 1) + ")" : key;
  parse_proto(proto, io::as_bytes(value), fmt::format("{}.index, entry {}", prefix_, name));
  Entry entry;
  entry.info.name = name;
  entry.info.dtype = static_cast<DType>(proto.dtype());
  constexpr int kInt4 = 29, kUInt4 = 30;  // a byte each
  if (proto.dtype() == kInt4) entry.info.dtype = DType::kInt8, shards_->int4.insert(name);
  if (proto.dtype() == kUInt4) entry.info.dtype = DType::kUInt8;
  if (proto.dtype() <= 0 || proto.dtype() > 100)
    damaged(fmt::format("tensor {}: unknown dtype {}", name, static_cast<int>(proto.dtype())));
  if (proto.shape().dim_size() > kMostRank)
    damaged(fmt::format("tensor {}: {} dimensions", name, proto.shape().dim_size()));
  std::vector<std::int64_t> dims;
  for (const auto& dim : proto.shape().dim()) {
    if (dim.size() < 0) damaged(fmt::format("tensor {}: dimension of size {}", name, dim.size()));
    dims.push_back(dim.size());
  }
  entry.info.shape = Shape(std::move(dims));
  if (!entry.info.shape.num_elements())
    damaged(fmt::format("tensor {}: shape {} is too large", name, entry.info.shape.to_string()));
  entry.shard = proto.shard_id();
  entry.offset = proto.offset();
  entry.size = proto.size();
  entry.masked_crc = proto.crc32c();
  if (entry.offset < 0 || entry.size < 0)
    damaged(fmt::format("tensor {}: offset {}, size {}", name, entry.offset, entry.size));
  for (const auto& slice : proto.slices()) {
    std::vector<Extent> extents;
    for (const auto& extent : slice.extent()) {
      extents.push_back({extent.start(), extent.has_length_hack_case() == tensorflow::TensorSliceProto::Extent::kLength
                                             ? extent.length()
                                             : -1});
    }
    entry.slices.push_back(std::move(extents));
  }
  if (!is_slice) list_.push_back(entry.info);
  entries_.emplace(key, std::move(entry));
}

// No writer stores two tensors in the same bytes, and a small file could request any amount of memory in this way.
void BundleReader::check_overlaps() const {
  std::vector<const Entry*> stored;
  for (const auto& [key, entry] : entries_) {
    if (entry.slices.empty() && entry.size > 0) stored.push_back(&entry);
  }
  std::sort(stored.begin(), stored.end(), [](const Entry* a, const Entry* b) {
    return std::tie(a->shard, a->offset, a->info.name) < std::tie(b->shard, b->offset, b->info.name);
  });
  for (std::size_t i = 1; i < stored.size(); ++i) {
    const Entry &left = *stored[i - 1], &right = *stored[i];
    if (left.shard == right.shard && left.size > right.offset - left.offset)
      damaged(fmt::format("tensors {} and {} overlap in shard {}", left.info.name, right.info.name, left.shard));
  }
}

const BundleReader::Entry& BundleReader::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) throw_not_found(fmt::format("{}: key {} not found in the checkpoint", prefix_, name));
  return found->second;
}

bool BundleReader::contains(const std::string& name) const { return entries_.contains(name); }

const TensorInfo& BundleReader::info(const std::string& name) const { return entry(name).info; }

TensorData BundleReader::read(const std::string& name) const {
  const Entry& found = entry(name);
  require_known_dtype(found.info, prefix_);
  return found.slices.empty() ? read_entry_data(found) : assemble(found);
}

TensorData BundleReader::map(const std::string& name) const {
  const Entry& found = entry(name);
  require_known_dtype(found.info, prefix_);
  return found.slices.empty() ? read_entry_data(found, false) : assemble(found);
}

void BundleReader::read_into(const std::string& name, std::span<std::byte> target) const {
  const Entry& found = entry(name);
  require_known_dtype(found.info, prefix_);
  const auto count = static_cast<std::size_t>(*found.info.shape.num_elements());
  if (dtype_size(found.info.dtype) == 0 || target.size() / dtype_size(found.info.dtype) != count ||
      target.size() % dtype_size(found.info.dtype) != 0) {
    throw_invalid_argument(fmt::format("{}: tensor {} of dtype {} and shape {} does not fit a buffer of {} bytes",
                                       prefix_, name, dtype_name(found.info.dtype), found.info.shape.to_string(),
                                       target.size()));
  }
  if (!found.slices.empty()) {
    const TensorData whole = assemble(found);
    if (!target.empty()) std::memcpy(target.data(), whole.bytes.data(), target.size());
    return;
  }
  std::shared_ptr<const void> owner;
  const auto source = stored_bytes(found, owner);
  if (source.size() != target.size())
    damaged(fmt::format("tensor {}: stored size {}, expected {}", name, source.size(), target.size()));
  check_crc(found, copy_and_sum_in_halves(source, target.data()));
  if (big_endian_) io::swap_bytes(target, component_size(found.info.dtype));
  if (shards_->int4.contains(name)) extend_int4(target);
}

std::span<const std::byte> BundleReader::stored_bytes(const Entry& entry, std::shared_ptr<const void>& owner) const {
  if (entry.shard < 0 || entry.shard >= num_shards_) {
    damaged(fmt::format("tensor {} is in shard {} of {}", entry.info.name, entry.shard, num_shards_));
  }
  const std::string path = bundle_data_path(prefix_, entry.shard, num_shards_);
  std::shared_ptr<const io::FileBytes> file;
  {
    const std::lock_guard lock(shards_->mutex);
    auto& slot = shards_->open[entry.shard];
    if (!slot && !files_.stat(path)) {
      throw_not_found(fmt::format(
          "{}: this data file, number {} of {}, is missing, and with it tensor {}: the checkpoint was copied "
          "or saved in part; copy all files that begin with {} again, or use another checkpoint",
          path, entry.shard + 1, num_shards_, entry.info.name, prefix_));
    }
    if (!slot) slot = files_.map(path);
    file = slot;
  }
  const auto bytes = file->bytes();
  const auto offset = static_cast<std::uint64_t>(entry.offset);
  const auto size = static_cast<std::uint64_t>(entry.size);
  if (offset > bytes.size() || size > bytes.size() - offset) {
    refuse_lost_content(path, bytes);
    throw_data_loss(fmt::format("{}: tensor {} needs {} bytes at offset {}, but the file has {} (truncated?)", path,
                                entry.info.name, size, offset, bytes.size()));
  }
  owner = file;
  return bytes.subspan(offset, size);
}

namespace {

// Each is the varint of its size, a VariantTensorDataProto, and the checksum of all before it, for which a size counts
// as 8 bytes.
std::optional<std::vector<std::string>> variants_in(std::span<const std::byte> rest, std::int64_t count,
                                                    std::uint32_t& crc) {
  std::vector<std::string> found;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto size = take_varint(rest);
    if (!size || *size > rest.size() || rest.size() - *size < 4) return std::nullopt;
    std::byte fixed[8];
    std::memcpy(fixed, &*size, sizeof fixed);
    crc = io::crc32c(rest.first(*size), io::crc32c(fixed, crc));
    found.emplace_back(io::as_text(rest.first(*size)));
    rest = rest.subspan(*size);
    if (!io::checksum_matches(io::unmask_crc(*io::load_le<std::uint32_t>(rest, 0)), crc)) return std::nullopt;
    crc = io::crc32c(rest.first(4), crc);
    rest = rest.subspan(4);
  }
  return rest.empty() ? std::optional(std::move(found)) : std::nullopt;
}

}  // namespace

void BundleReader::check_crc(const Entry& entry, std::uint32_t crc) const {
  const std::uint32_t stored = io::unmask_crc(entry.masked_crc);
  if (!io::checksum_matches(stored, crc)) {
    damaged(fmt::format("tensor {} in shard {}: checksum does not match: stored {} vs. calculated {}", entry.info.name,
                        entry.shard, stored, crc));
  }
}

TensorData BundleReader::read_entry_data(const Entry& entry, bool check) const {
  if (entry.info.dtype == DType::kString) return read_strings(entry);
  if (entry.info.dtype == DType::kVariant) {  // the state of a dataset's iterator
    std::shared_ptr<const void> owner;
    std::uint32_t crc = 0;
    auto found = variants_in(stored_bytes(entry, owner), *entry.info.shape.num_elements(), crc);
    if (!found) damaged(fmt::format("tensor {}: its variants are damaged", entry.info.name));
    check_crc(entry, crc);
    TensorData tensor;
    tensor.dtype = DType::kVariant, tensor.shape = entry.info.shape, tensor.strings = std::move(*found);
    return tensor;
  }
  const std::size_t width = dtype_size(entry.info.dtype);
  if (width == 0) {
    throw_unimplemented(fmt::format("{}: tensor {} has dtype {}, which lockstep does not read", prefix_,
                                    entry.info.name, static_cast<int>(entry.info.dtype)));
  }
  TensorData tensor;
  tensor.dtype = entry.info.dtype;
  tensor.shape = entry.info.shape;
  tensor.bytes = stored_bytes(entry, tensor.owner);
  const auto count = static_cast<std::size_t>(*entry.info.shape.num_elements());
  if (tensor.bytes.size() % width != 0 || tensor.bytes.size() / width != count) {
    damaged(fmt::format("tensor {}: stored size {} does not fit dtype {} and shape {}", entry.info.name,
                        tensor.bytes.size(), dtype_name(entry.info.dtype), entry.info.shape.to_string()));
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % dtype_size(entry.info.dtype) == 0;
  const bool int4 = shards_->int4.contains(entry.info.name);
  if (aligned && !big_endian_ && !int4) {
    if (check) check_crc(entry, copy_and_sum_in_halves(tensor.bytes, nullptr));
    return tensor;
  }
  std::span<std::byte> target;
  TensorData copy = TensorData::allocate(entry.info.dtype, entry.info.shape, target);
  check_crc(entry, copy_and_sum_in_halves(tensor.bytes, target.data()));
  if (big_endian_) io::swap_bytes(target, component_size(entry.info.dtype));
  if (int4) extend_int4(target);
  return copy;
}

TensorData BundleReader::read_strings(const Entry& entry) const {
  TensorData tensor;
  tensor.dtype = DType::kString;
  tensor.shape = entry.info.shape;
  std::shared_ptr<const void> owner;
  auto rest = stored_bytes(entry, owner);
  const auto count = static_cast<std::uint64_t>(*entry.info.shape.num_elements());
  if (count > rest.size())
    damaged(fmt::format("tensor {}: {} bytes for {} strings", entry.info.name, rest.size(), count));
  std::uint32_t crc = 0;
  if (count == 0 && rest.empty()) {
    check_crc(entry, crc);
    return tensor;
  }
  std::vector<std::uint64_t> lengths(count);
  for (auto& length : lengths) {
    const auto value = take_varint(rest);
    if (!value) damaged(fmt::format("tensor {}: string lengths are cut short", entry.info.name));
    length = *value;
    std::byte fixed[8];
    std::memcpy(fixed, &length, sizeof fixed);
    const std::size_t width = length <= 0xFFFFFFFFu ? 4 : 8;
    if (big_endian_) io::swap_bytes({fixed, width}, width);
    crc = io::crc32c({fixed, width}, crc);
  }
  const auto stored = io::load_le<std::uint32_t>(rest, 0);
  if (!stored) damaged(fmt::format("tensor {}: string lengths are cut short", entry.info.name));
  if (!io::checksum_matches(io::unmask_crc(big_endian_ ? __builtin_bswap32(*stored) : *stored), crc)) {
    damaged(fmt::format("tensor {}: the length checksum does not match", entry.info.name));
  }
  crc = io::crc32c(rest.first(4), crc);
  rest = rest.subspan(4);
  tensor.strings.reserve(count);
  for (const std::uint64_t length : lengths) {
    if (length > rest.size()) damaged(fmt::format("tensor {}: strings pass the end of the entry", entry.info.name));
    tensor.strings.emplace_back(io::as_text(rest.first(length)));
    crc = io::crc32c(rest.first(length), crc);
    rest = rest.subspan(length);
  }
  if (!rest.empty()) damaged(fmt::format("tensor {}: {} bytes are left over", entry.info.name, rest.size()));
  check_crc(entry, crc);
  return tensor;
}

// Slices must cover the tensor exactly once.
void BundleReader::check_slices(const Entry& entry) const {
  const std::size_t width = dtype_size(entry.info.dtype);
  const bool strings = entry.info.dtype == DType::kString;  // of a byte or more each
  if (width == 0 && !strings) {
    throw_unimplemented(fmt::format("{}: partitioned tensor {} has dtype {}, which cannot be put together", prefix_,
                                    entry.info.name, dtype_name(entry.info.dtype)));
  }
  // The stored size bounds the allocation.
  std::uint64_t stored = 0;
  std::vector<std::vector<Extent>> boxes = entry.slices;
  for (auto& box : boxes) {
    if (static_cast<int>(box.size()) != entry.info.shape.rank())
      damaged(fmt::format("tensor {}: a slice of another rank", entry.info.name));
    std::uint64_t elements = 1;
    for (int axis = 0; axis < entry.info.shape.rank(); ++axis) {
      Extent& extent = box[static_cast<std::size_t>(axis)];
      const std::int64_t dim = entry.info.shape[axis];
      const bool inside = extent.start >= 0 && extent.start <= dim;
      const std::int64_t length = extent.length < 0 && inside ? dim - extent.start : extent.length;
      if (!inside || length > dim - extent.start) {
        damaged(fmt::format("tensor {}: a slice passes its shape {}", entry.info.name, entry.info.shape.to_string()));
      }
      elements *= static_cast<std::uint64_t>(length);
    }
    stored += elements;
  }
  // Each pair of slices is compared along each axis, so their number must be bounded. Empty slices do not overlap
  // others.
  const std::size_t most =
      20'000 / static_cast<std::size_t>(std::ceil(std::sqrt(std::max(1, entry.info.shape.rank()) / 2.0)));
  std::erase_if(boxes, [](const auto& box) {
    return std::any_of(box.begin(), box.end(), [](const Extent& extent) { return extent.length == 0; });
  });
  if (boxes.size() > most) {
    throw_resource_exhausted(
        fmt::format("{}: tensor {} has {} slices, at most {} are read", prefix_, entry.info.name, boxes.size(), most));
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      bool apart = false;
      for (std::size_t axis = 0; axis < boxes[i].size(); ++axis) {
        const std::int64_t dim = entry.info.shape[static_cast<int>(axis)];
        const auto end = [dim](const Extent& e) { return e.length < 0 ? dim : e.start + e.length; };
        apart = apart || end(boxes[i][axis]) <= boxes[j][axis].start || end(boxes[j][axis]) <= boxes[i][axis].start;
      }
      if (!apart) damaged(fmt::format("tensor {}: overlapping slices", entry.info.name));
    }
  }
  if (stored != static_cast<std::uint64_t>(*entry.info.shape.num_elements())) {
    damaged(fmt::format("tensor {}: its {} slices do not cover its shape {}", entry.info.name, boxes.size(),
                        entry.info.shape.to_string()));
  }
  std::uint64_t present = 0;
  for (const auto& box : entry.slices) {
    std::vector<std::pair<std::int64_t, std::int64_t>> extents;
    for (const Extent& extent : box) extents.emplace_back(extent.start, extent.length);
    const auto part = entries_.find(slice_key(entry.info.name, extents));
    if (part == entries_.end()) damaged(fmt::format("tensor {}: a slice is missing from the index", entry.info.name));
    std::shared_ptr<const void> owner;
    present += stored_bytes(part->second, owner).size();
  }
  if (strings ? present < stored : present != stored * width)
    damaged(fmt::format("tensor {}: its slices have {} bytes, expected {}", entry.info.name, present, stored * width));
}

// A slice's place in the whole tensor.
struct BundleReader::Box {
  Box(const Shape& whole, const std::vector<Extent>& slice) : whole(whole) {
    for (std::size_t axis = 0; axis < slice.size(); ++axis) {
      const auto [start, length] = slice[axis];
      extents.emplace_back(start, length);
      dims.push_back(length < 0 ? whole[static_cast<int>(axis)] - start : length);
    }
  }
  bool empty() const { return std::find(dims.begin(), dims.end(), 0) != dims.end(); }
  // The place in the whole tensor of the element at `at` of the slice.
  std::size_t place_of(const std::vector<std::int64_t>& at) const {
    std::size_t place = 0;
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      place = place * static_cast<std::size_t>(whole[static_cast<int>(axis)]) +
              static_cast<std::size_t>(extents[axis].first + at[axis]);
    }
    return place;
  }
  std::size_t first() const { return place_of(std::vector<std::int64_t>(dims.size(), 0)); }
  std::size_t last() const {
    std::vector<std::int64_t> at = dims;
    for (std::int64_t& each : at) each -= 1;
    return place_of(at);
  }
  // Calls `take` with the place and the number of elements of each row of the slice, in the slice's order.
  template <typename Take>
  void for_each_row(Take take) const {
    if (empty()) return;
    const std::size_t rank = dims.size();
    const std::size_t row = rank == 0 ? 1 : static_cast<std::size_t>(dims[rank - 1]);
    std::vector<std::int64_t> at(rank, 0);
    for (bool more = true; more;) {
      take(place_of(at), row);
      more = false;
      for (std::size_t axis = rank == 0 ? 0 : rank - 1; axis-- > 0 && !more;) {
        more = ++at[axis] < dims[axis];
        if (!more) at[axis] = 0;
      }
    }
  }

  const Shape& whole;
  std::vector<std::pair<std::int64_t, std::int64_t>> extents;  // as in the key
  std::vector<std::int64_t> dims;
};

// Slices are read whole and copied to their boxes.
TensorData BundleReader::assemble(const Entry& entry) const {
  check_slices(entry);
  if (entry.info.dtype == DType::kString) return assemble_strings(entry);
  std::span<std::byte> target;
  TensorData whole = TensorData::allocate(entry.info.dtype, entry.info.shape, target);
  for (const auto& box : entry.slices) copy_slice(entry, box, target);
  return whole;
}

TensorData BundleReader::assemble_strings(const Entry& entry) const {
  TensorData whole;
  whole.dtype = DType::kString, whole.shape = entry.info.shape;
  whole.strings.resize(static_cast<std::size_t>(*entry.info.shape.num_elements()));
  for (const auto& slice : entry.slices) {
    const Box box(entry.info.shape, slice);
    TensorData part = read_slice(entry, box);
    auto source = part.strings.begin();
    box.for_each_row([&](std::size_t place, std::size_t count) {
      std::move(source, source + static_cast<std::ptrdiff_t>(count),
                whole.strings.begin() + static_cast<std::ptrdiff_t>(place));
      source += static_cast<std::ptrdiff_t>(count);
    });
  }
  return whole;
}

void BundleReader::read_range(const std::string& name, std::uint64_t begin, std::span<std::byte> target,
                              bool check) const {
  const Entry& found = entry(name);
  require_known_dtype(found.info, prefix_);
  const std::uint64_t size =
      static_cast<std::uint64_t>(*found.info.shape.num_elements()) * dtype_size(found.info.dtype);
  if (dtype_size(found.info.dtype) == 0 || begin > size || target.size() > size - begin) {
    throw_invalid_argument(fmt::format("{}: tensor {} of dtype {} and shape {} has no bytes {} to {}", prefix_, name,
                                       dtype_name(found.info.dtype), found.info.shape.to_string(), begin,
                                       begin + target.size()));
  }
  if (found.slices.empty()) {
    const TensorData whole = read_entry_data(found, check);
    if (!target.empty()) std::memcpy(target.data(), whole.bytes.data() + begin, target.size());
    return;
  }
  check_slices(found);
  for (const auto& slice : found.slices) copy_slice(found, slice, target, begin);
}

TensorData BundleReader::read_slice(const Entry& whole, const Box& box) const {
  TensorData part = read_entry_data(entry(slice_key(whole.info.name, box.extents)));
  if (part.dtype != whole.info.dtype || part.shape != Shape(box.dims)) {
    damaged(fmt::format("tensor {}: a slice has dtype {} and shape {}, expected {} and {}", whole.info.name,
                        dtype_name(part.dtype), part.shape.to_string(), dtype_name(whole.info.dtype),
                        Shape(box.dims).to_string()));
  }
  return part;
}

void BundleReader::copy_slice(const Entry& whole, const std::vector<Extent>& slice, std::span<std::byte> target,
                              std::size_t begin) const {
  const Box box(whole.info.shape, slice);
  const std::size_t width = dtype_size(whole.info.dtype);
  const std::size_t end = begin + target.size();
  if (!box.empty() && ((box.last() + 1) * width <= begin || box.first() * width >= end)) return;
  const TensorData part = read_slice(whole, box);
  const std::byte* source = part.bytes.data();
  box.for_each_row([&](std::size_t place, std::size_t count) {
    const std::size_t row = place * width, from = std::max(row, begin), to = std::min(row + count * width, end);
    if (from < to) std::memcpy(target.data() + (from - begin), source + (from - row), to - from);
    source += count * width;
  });
}

}  // namespace lockstep::formats
