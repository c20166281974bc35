#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/tensor_bundle.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/formats/tensor_bundle_layout_internal.h"
#include "lockstep/formats/tensor_table_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"

namespace lockstep::formats {
namespace {

constexpr std::size_t kWriteBlock = std::size_t{1} << 20;  // checksummed and written while in the cache

void set_shape(const Shape& shape, tensorflow::TensorShapeProto* proto) {
  for (const std::int64_t dim : shape.dims()) proto->add_dim()->set_size(dim);
}

// n bytes hold [-2^(7n-1), 2^(7n-1)): big-endian two's complement under a header of n one bits.
std::string encode_signed(std::int64_t value) {
  static constexpr unsigned char kHeaders[11][2] = {{0, 0},    {0x80, 0},    {0xC0, 0},   {0xE0, 0},
                                                    {0xF0, 0}, {0xF8, 0},    {0xFC, 0},   {0xFE, 0},
                                                    {0xFF, 0}, {0xFF, 0x80}, {0xFF, 0xC0}};
  int n = 1;
  while (n < 10 && 7 * n - 1 < 63 &&
         (value < -(std::int64_t{1} << (7 * n - 1)) || value >= (std::int64_t{1} << (7 * n - 1)))) {
    ++n;
  }
  std::string out(static_cast<std::size_t>(n), '\0');
  for (int i = 0; i < n; ++i) {
    const int shift = 8 * (n - 1 - i);
    out[static_cast<std::size_t>(i)] = static_cast<char>(shift >= 64 ? (value < 0 ? 0xFF : 0) : value >> shift);
  }
  out[0] = static_cast<char>(out[0] ^ kHeaders[n][0]);
  if (n > 1) out[1] = static_cast<char>(out[1] ^ kHeaders[n][1]);
  return out;
}

std::string encode_unsigned(std::uint64_t value) {
  std::string digits;
  for (; value != 0; value >>= 8) digits.insert(digits.begin(), static_cast<char>(value));
  return static_cast<char>(digits.size()) + digits;
}

}  // namespace

std::string slice_key(const std::string& name, const std::vector<std::pair<std::int64_t, std::int64_t>>& extents) {
  std::string key = encode_unsigned(0);
  for (const char c : name) {
    key.push_back(c);
    if (c == '\x00') key.push_back('\xff');
    if (c == '\xff') key.push_back('\x00');
  }
  key += std::string("\x00\x01", 2);
  key += encode_unsigned(extents.size());
  for (const auto& [start, length] : extents) key += encode_signed(start) + encode_signed(length);
  return key;
}

std::string bundle_index_path(const std::string& prefix) { return prefix + ".index"; }

std::string bundle_data_path(const std::string& prefix, int shard, int num_shards) {
  return fmt::format("{}.data-{:05}-of-{:05}", prefix, shard, num_shards);
}

struct BundleEntries::Partition {
  tensorflow::BundleEntryProto entry;
};

BundleEntries::BundleEntries() = default;
BundleEntries::~BundleEntries() = default;
BundleEntries::BundleEntries(BundleEntries&&) noexcept = default;
BundleEntries& BundleEntries::operator=(BundleEntries&&) noexcept = default;

void BundleEntries::merge(const BundleEntries& other) {
  const auto twice = [](const std::string& name) {
    throw_already_exists(fmt::format("tensor {} is in two shards of one bundle", name));
  };
  for (const auto& [key, value] : other.entries_) {
    if (partitions_.contains(key) || !entries_.emplace(key, value).second) twice(key);
  }
  for (const auto& [name, theirs] : other.partitions_) {
    if (entries_.contains(name)) twice(name);
    auto [ours, fresh] = partitions_.emplace(name, theirs);
    if (fresh) continue;
    auto& entry = ours->second.entry;
    if (entry.dtype() != theirs.entry.dtype() ||
        serialize_proto(entry.shape(), name) != serialize_proto(theirs.entry.shape(), name)) {
      throw_invalid_argument(fmt::format("tensor {} has another shape or dtype in another shard", name));
    }
    for (const auto& slice : theirs.entry.slices()) *entry.add_slices() = slice;
  }
}

// Whether the entry is a partitioned tensor's, the key and the entry, one after the other with their lengths.
std::string BundleEntries::serialize() const {
  std::string out;
  const auto put = [&](char kind, const std::string& key, const std::string& value) {
    out.push_back(kind);
    append_varint(out, key.size());
    out += key;
    append_varint(out, value.size());
    out += value;
  };
  for (const auto& [key, value] : entries_) put('e', key, value);
  for (const auto& [name, partition] : partitions_) put('p', name, serialize_proto(partition.entry, name));
  return out;
}

BundleEntries BundleEntries::parse(std::string_view bytes, std::string_view what) {
  auto rest = io::as_bytes(bytes);
  const auto malformed = [&] { throw_data_loss(fmt::format("{}: malformed entries of a bundle", what)); };
  const auto text = [&] {
    const auto size = take_varint(rest);
    if (!size || *size > rest.size()) malformed();
    std::string out(io::as_text(rest.first(*size)));
    rest = rest.subspan(*size);
    return out;
  };
  BundleEntries out;
  while (!rest.empty()) {
    const char kind = static_cast<char>(rest[0]);
    rest = rest.subspan(1);
    if (kind != 'e' && kind != 'p') malformed();
    std::string key = text(), value = text();
    if (kind == 'e') {
      out.entries_[std::move(key)] = std::move(value);
    } else {
      parse_proto(out.partitions_[key].entry, io::as_bytes(value), std::string(what));
    }
  }
  return out;
}

std::string BundleEntries::index_bytes(int num_shards) const {
  tensorflow::BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(1);
  TableBuilder table;
  table.add("", serialize_proto(header, "bundle header"));
  auto all = entries_;
  for (const auto& [name, partition] : partitions_) all[name] = serialize_proto(partition.entry, name);
  for (const auto& [key, value] : all) table.add(key, value);
  return table.finish();
}

namespace {

const std::string& checked_prefix(const std::string& prefix, io::FileSystem& files) {
  if (io::base_name(prefix).empty() || prefix.back() == '/') {
    throw_invalid_argument(fmt::format("{}: a checkpoint's prefix must end in a name", prefix));
  }
  io::make_directories(files, io::parent_directory(prefix));
  return prefix;
}

}  // namespace

BundleShard::BundleShard(const std::string& prefix, int shard, int num_shards, io::FileSystem& files,
                         std::uint64_t expected_size)
    : prefix_(checked_prefix(prefix, files)),
      shard_(shard),
      file_(bundle_data_path(prefix, shard, num_shards), files, expected_size) {}

void BundleShard::add(const std::string& name, const TensorData& tensor) {
  if (name.empty()) throw_invalid_argument(fmt::format("{}: a tensor's name must not be empty", prefix_));
  if (entries_.partitions_.contains(name))
    throw_already_exists(fmt::format("{}: tensor {} was added before", prefix_, name));
  add_bytes(name, tensor);
}

void BundleShard::add_bytes(const std::string& key, const TensorData& tensor) {
  if (entries_.entries_.contains(key))
    throw_already_exists(fmt::format("{}: tensor {} was added before", prefix_, key));
  const auto count = tensor.shape.num_elements();
  if (!count) throw_invalid_argument(fmt::format("{}: tensor {} has no full shape", prefix_, key));
  tensorflow::BundleEntryProto entry;
  entry.set_dtype(static_cast<tensorflow::DataType>(tensor.dtype));
  set_shape(tensor.shape, entry.mutable_shape());
  const std::uint64_t offset = file_.size();
  std::uint32_t crc = 0;
  if (tensor.dtype == DType::kString) {
    if (tensor.strings.size() != static_cast<std::size_t>(*count)) {
      throw_invalid_argument(
          fmt::format("{}: tensor {} has {} strings, its shape {}", prefix_, key, tensor.strings.size(), *count));
    }
    std::string lengths;
    for (const auto& text : tensor.strings) {
      append_varint(lengths, text.size());
      std::string fixed;  // the checksum sees the lengths as fixed-size numbers
      if (text.size() <= 0xFFFFFFFFu) {
        io::append_le(fixed, static_cast<std::uint32_t>(text.size()));
      } else {
        io::append_le(fixed, static_cast<std::uint64_t>(text.size()));
      }
      crc = io::crc32c(io::as_bytes(fixed), crc);
    }
    std::string masked;
    io::append_le(masked, io::mask_crc(crc));
    crc = io::crc32c(io::as_bytes(masked), crc);
    file_.append(lengths + masked);
    for (const auto& text : tensor.strings) {
      crc = io::crc32c(io::as_bytes(text), crc);
      file_.append(text);
    }
  } else {
    const std::size_t width = dtype_size(tensor.dtype);
    if (width == 0 || tensor.bytes.size() != static_cast<std::size_t>(*count) * width) {
      throw_invalid_argument(fmt::format("{}: tensor {} of dtype {} and shape {} cannot be written from {} bytes",
                                         prefix_, key, dtype_name(tensor.dtype), tensor.shape.to_string(),
                                         tensor.bytes.size()));
    }
    for (auto rest = tensor.bytes; !rest.empty();) {
      const auto part = rest.first(std::min(rest.size(), kWriteBlock));
      crc = io::crc32c(part, crc);
      file_.append(part);
      rest = rest.subspan(part.size());
    }
  }
  if (shard_ != 0) entry.set_shard_id(shard_);
  entry.set_offset(static_cast<std::int64_t>(offset));
  entry.set_size(static_cast<std::int64_t>(file_.size() - offset));
  entry.set_crc32c(io::mask_crc(crc));
  entries_.entries_[key] = serialize_proto(entry, prefix_);
}

void BundleShard::add_slice(const std::string& name, const Shape& full_shape, const std::vector<std::int64_t>& start,
                            const TensorData& slice) {
  if (slice.shape == full_shape) return add(name, slice);
  const bool fits = static_cast<int>(start.size()) == full_shape.rank() && slice.shape.rank() == full_shape.rank();
  std::vector<std::pair<std::int64_t, std::int64_t>> extents;
  for (int axis = 0; fits && axis < full_shape.rank(); ++axis) {
    const std::int64_t at = start[static_cast<std::size_t>(axis)];
    if (at < 0 || slice.shape[axis] < 0 || at > full_shape[axis] || slice.shape[axis] > full_shape[axis] - at) break;
    extents.emplace_back(at, slice.shape[axis]);
  }
  if (!fits || static_cast<int>(extents.size()) != full_shape.rank()) {
    throw_invalid_argument(fmt::format("{}: slice {} of tensor {} is outside its shape {}", prefix_,
                                       slice.shape.to_string(), name, full_shape.to_string()));
  }
  if (name.empty()) throw_invalid_argument(fmt::format("{}: a tensor's name must not be empty", prefix_));
  if (entries_.entries_.contains(name))
    throw_already_exists(fmt::format("{}: tensor {} was added before", prefix_, name));
  add_bytes(slice_key(name, extents), slice);
  auto& directory = entries_.partitions_[name].entry;
  if (directory.slices_size() == 0) {
    directory.set_dtype(static_cast<tensorflow::DataType>(slice.dtype));
    set_shape(full_shape, directory.mutable_shape());
  }
  auto* proto = directory.add_slices();
  for (const auto& [at, length] : extents) {
    auto* extent = proto->add_extent();
    extent->set_start(at);
    extent->set_length(length);
  }
}

// A new prefix gets its final name at once. Over an old bundle the data is first written as shard 0 of a number of
// shards that is not in use, see replace_old_bundle.
BundleWriter::BundleWriter(std::string prefix, io::FileSystem& files, std::uint64_t expected_size)
    : prefix_(std::move(prefix)),
      files_(files),
      num_shards_(io::is_file(files, bundle_index_path(prefix_)) ? unused_shard_count(prefix_, 2, files) : 1) {
  remove_temporaries(prefix_, false, files_);
  shard_ = std::make_unique<BundleShard>(prefix_, 0, num_shards_, files_, expected_size);
}

BundleWriter::~BundleWriter() = default;

BundleShard& BundleWriter::shard() {
  if (!shard_) throw_failed_precondition(fmt::format("{}: written to after it was finished", prefix_));
  return *shard_;
}

void BundleWriter::add(const std::string& name, const TensorData& tensor) { shard().add(name, tensor); }

void BundleWriter::add_slice(const std::string& name, const Shape& full_shape, const std::vector<std::int64_t>& start,
                             const TensorData& slice) {
  shard().add_slice(name, full_shape, start, slice);
}

void BundleWriter::finish() {
  const auto written = std::exchange(shard_, nullptr);
  if (!written) throw_failed_precondition(fmt::format("{}: finished twice", prefix_));
  const bool replaces = num_shards_ > 1;
  const std::string index = written->entries().index_bytes(num_shards_);
  try {
    written->file().commit();
    io::write_atomically(bundle_index_path(prefix_), index, files_);
  } catch (...) {
    rollback_bundle(prefix_, num_shards_, index, replaces, files_);
    throw;
  }
  if (replaces) replace_old_bundle(written->entries());
  remove_other_shards(prefix_, 1, files_);
}

// An index and its data cannot be replaced in one step, so there are two commits. The first index
// names the data "0 of n", which is a whole checkpoint already. Then the data gets its usual name
// as well, over the old bundle's, and a second index records this. At each moment the index in place names
// whole data, and in the end the bytes and names are those of a fresh save.
void BundleWriter::replace_old_bundle(const BundleEntries& entries) {
  const std::string staged = bundle_data_path(prefix_, 0, num_shards_);
  const std::string usual = bundle_data_path(prefix_, 0, 1);
  const std::string linked = io::temporary_sibling(usual);
  if (!files_.link(staged, linked)) {
    io::AtomicFile copy(usual, files_);
    copy.append(files_.map(staged)->bytes());
    copy.commit();
  } else {
    try {
      files_.rename(linked, usual);
    } catch (...) {
      io::remove_all(files_, linked);
      throw;
    }
    files_.sync_path(io::parent_directory(prefix_));
  }
  io::write_atomically(bundle_index_path(prefix_), entries.index_bytes(1), files_);
}

int unused_shard_count(const std::string& prefix, int least, io::FileSystem& files) {
  if (!io::is_directory(files, io::parent_directory(prefix))) return least;
  if (!io::is_file(files, bundle_index_path(prefix))) remove_other_shards(prefix, 0, files);
  const auto names = files.list(io::parent_directory(prefix));
  const auto in_use = [&](int count) {
    const std::string start = io::base_name(prefix) + ".data-", end = fmt::format("-of-{:05}", count);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return name.starts_with(start) && name.ends_with(end); });
  };
  while (in_use(least)) ++least;
  return least;
}

void remove_temporaries(const std::string& prefix, bool all, io::FileSystem& files) {
  const std::string directory = io::parent_directory(prefix), name = io::base_name(prefix);
  if (!io::is_directory(files, directory)) return;
  for (const std::string& entry : files.list(directory)) {
    const std::string target = io::temporary_target(entry);
    const bool ours = target == name + ".index" || target.starts_with(name + ".data-");
    if (ours && (all || io::is_abandoned_temporary(entry))) files.remove_file(io::join_path(directory, entry));
  }
}

void rollback_bundle(const std::string& prefix, int num_shards, const std::string& index_bytes, bool replaces,
                     io::FileSystem& files) noexcept {
  const auto quietly = [](const auto& work) {
    try {
      work();
    } catch (...) {  // the next save of this prefix removes the rest
    }
  };
  bool keep = false;
  quietly([&] {
    // The rename may have been done, and only its sync have failed.
    const std::string index = bundle_index_path(prefix);
    if (!io::is_file(files, index) || io::as_text(files.map(index)->bytes()) != index_bytes) return;
    keep = replaces;
    if (!keep) files.remove_file(index);
  });
  for (int shard = 0; shard < num_shards && !keep; ++shard) {
    const std::string path = bundle_data_path(prefix, shard, num_shards);
    quietly([&] {
      if (files.stat(path)) files.remove_file(path);
    });
  }
}

void remove_other_shards(const std::string& prefix, int num_shards, io::FileSystem& files) {
  const std::string directory = io::parent_directory(prefix);
  const std::string start = io::base_name(prefix) + ".data-", end = fmt::format("-of-{:05}", num_shards);
  for (const auto& name : files.list(directory)) {
    if (!name.starts_with(start) || name.size() != start.size() + 5 + end.size() || name.ends_with(end)) continue;
    const std::string_view tail = std::string_view(name).substr(start.size());
    const auto digits = [](std::string_view text) {
      return text.find_first_not_of("0123456789") == std::string_view::npos;
    };
    if (digits(tail.substr(0, 5)) && tail.substr(5, 4) == "-of-" && digits(tail.substr(9))) {
      files.remove_file(io::join_path(directory, name));
    }
  }
}

}  // namespace lockstep::formats
