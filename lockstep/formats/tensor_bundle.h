// TensorFlow's V2 checkpoint on disk: PREFIX.index and PREFIX.data-SSSSS-of-NNNNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/formats/tensor_data.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// Whether the files of a checkpoint are there, in the format of bundles or in the older one.
bool checkpoint_exists(const std::string& prefix, io::FileSystem& files = io::posix_file_system());

// "PREFIX.index" and "PREFIX.data-00000-of-00001".
std::string bundle_index_path(const std::string& prefix);
std::string bundle_data_path(const std::string& prefix, int shard, int num_shards);

// Reads a bundle of any number of shards, with partitioned tensors, of either byte order, with Snappy
// blocks. Opening reads and checks the whole index; tensor bytes are mapped and their checksum is
// checked when they are read. Throws NotFound when the index, a shard or a tensor is missing, DataLoss
// for damage, Unimplemented for variants and element types that lockstep has not.
// read() of a large aligned tensor copies nothing. Several threads may read at once.
// Also reads TensorFlow's older format (SaverDef.V1: one file PREFIX, or PREFIX-SSSSS-of-NNNNN), which is converted in
// memory when it is opened.
class BundleReader final : public TensorReader {
 public:
  explicit BundleReader(std::string prefix, io::FileSystem& files = io::posix_file_system());
  ~BundleReader() override;

  const std::vector<TensorInfo>& list() const override { return list_; }
  TensorData read(const std::string& name) const override;
  // The same for a tensor whose checksum somebody else looks at: where it can be mapped it is not read.
  TensorData map(const std::string& name) const;
  bool contains(const std::string& name) const;
  // Dtype and full shape; throws NotFound.
  const TensorInfo& info(const std::string& name) const;
  // Copies the tensor into `target`, checked on the way. Throws InvalidArgument when the size differs or for strings.
  void read_into(const std::string& name, std::span<std::byte> target) const;
  // Copies the bytes of a tensor from `begin` on into `target`. Of a partitioned tensor only the slices with some of
  // these bytes are read and checked; the checksum of another one is checked if `check`. Throws InvalidArgument for
  // bytes that it does not have, and for strings.
  void read_range(const std::string& name, std::uint64_t begin, std::span<std::byte> target, bool check) const;
  int num_shards() const { return num_shards_; }
  const std::string& prefix() const { return prefix_; }

 private:
  struct Extent {
    std::int64_t start = 0;
    std::int64_t length = -1;  // -1: to the end
  };
  struct Entry {
    TensorInfo info;
    int shard = 0;
    std::int64_t offset = 0;
    std::int64_t size = 0;
    std::uint32_t masked_crc = 0;
    std::vector<std::vector<Extent>> slices;
  };
  struct Shards;
  struct Box;

  void read_header(const std::string& value);
  void read_entry(const std::string& key, const std::string& value);
  void check_overlaps() const;
  const Entry& entry(const std::string& name) const;
  std::span<const std::byte> stored_bytes(const Entry& entry, std::shared_ptr<const void>& owner) const;
  TensorData read_entry_data(const Entry& entry, bool check = true) const;
  TensorData read_strings(const Entry& entry) const;
  TensorData assemble(const Entry& entry) const;
  TensorData assemble_strings(const Entry& entry) const;
  TensorData read_slice(const Entry& whole, const Box& box) const;
  void check_slices(const Entry& entry) const;
  // `target` is the bytes of the whole tensor from `begin` on.
  void copy_slice(const Entry& whole, const std::vector<Extent>& slice, std::span<std::byte> target,
                  std::size_t begin = 0) const;
  void check_crc(const Entry& entry, std::uint32_t crc) const;
  [[noreturn]] void damaged(const std::string& what) const;

  std::string prefix_;
  std::shared_ptr<io::FileSystem> converted_;  // of the older format; before files_
  io::FileSystem& files_;
  int num_shards_ = 0;
  bool big_endian_ = false;
  std::vector<TensorInfo> list_;
  std::unordered_map<std::string, Entry> entries_;  // with the encoded keys of slices
  std::unique_ptr<Shards> shards_;
};

// The entries of an index. Those of several shards, written by several processes, are put together in one.
class BundleEntries {
 public:
  BundleEntries();
  ~BundleEntries();
  BundleEntries(BundleEntries&&) noexcept;
  BundleEntries& operator=(BundleEntries&&) noexcept;

  // Throws AlreadyExists for a tensor that both have, InvalidArgument for a partitioned one of which they differ.
  void merge(const BundleEntries& other);
  bool empty() const { return entries_.empty(); }
  // For another process; parse throws DataLoss for text that serialize never returns.
  std::string serialize() const;
  static BundleEntries parse(std::string_view bytes, std::string_view what);
  // The whole index file.
  std::string index_bytes(int num_shards) const;

 private:
  friend class BundleShard;
  struct Partition;
  std::map<std::string, std::string> entries_;  // key -> BundleEntryProto
  std::map<std::string, Partition> partitions_;
};

// One data file of a bundle, under a temporary name until it is published.
class BundleShard {
 public:
  // Throws InvalidArgument for a prefix without a name.
  BundleShard(const std::string& prefix, int shard, int num_shards, io::FileSystem& files = io::posix_file_system(),
              std::uint64_t expected_size = 0);

  // See BundleWriter.
  void add(const std::string& name, const TensorData& tensor);
  void add_slice(const std::string& name, const Shape& full_shape, const std::vector<std::int64_t>& start,
                 const TensorData& slice);
  const BundleEntries& entries() const { return entries_; }
  io::AtomicFile& file() { return file_; }

 private:
  void add_bytes(const std::string& key, const TensorData& tensor);

  std::string prefix_;
  int shard_;
  io::AtomicFile file_;
  BundleEntries entries_;
};

// Writes a bundle of one shard, byte for byte as TensorFlow does: data in the order of add(), index
// sorted. `expected_size` reserves room. An older bundle of the same prefix stays readable until
// finish() has renamed the new index into place.
class BundleWriter final : public TensorWriter {
 public:
  explicit BundleWriter(std::string prefix, io::FileSystem& files = io::posix_file_system(),
                        std::uint64_t expected_size = 0);
  ~BundleWriter() override;

  void add(const std::string& name, const TensorData& tensor) override;
  // One box of a partitioned tensor of shape `full_shape`, beginning at `start`; the boxes of a name
  // must cover it without overlap. A box that is the whole tensor is written as a plain tensor.
  void add_slice(const std::string& name, const Shape& full_shape, const std::vector<std::int64_t>& start,
                 const TensorData& slice);
  void finish() override;

 private:
  BundleShard& shard();
  void replace_old_bundle(const BundleEntries& entries);

  std::string prefix_;
  io::FileSystem& files_;
  int num_shards_;  // in the name that the data gets first
  std::unique_ptr<BundleShard> shard_;
};

// The least number of shards, `least` or more, of which no data file of this prefix is there yet: a new bundle that is
// written under this number leaves an older one whole. Data files without an index are removed first.
int unused_shard_count(const std::string& prefix, int least, io::FileSystem& files = io::posix_file_system());
// Removes temporary files of this prefix: those of processes of this machine that have died, or `all`, for the one
// among several workers who knows that nobody is writing.
void remove_temporaries(const std::string& prefix, bool all, io::FileSystem& files = io::posix_file_system());
// After a failed commit: removes data files and index of the new bundle, unless its index has already taken the place
// of an older one's (`replaces`).
void rollback_bundle(const std::string& prefix, int num_shards, const std::string& index_bytes, bool replaces,
                     io::FileSystem& files = io::posix_file_system()) noexcept;
// Removes data files of this prefix that belong to another number of shards.
void remove_other_shards(const std::string& prefix, int num_shards, io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats
