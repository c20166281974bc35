// Small files whose metadata is shared, so that reading them naively takes memory or time out of proportion. The files
// are built here, field by field (HDF5 File Format Specification, version 3.0).
#include <gtest/gtest.h>

#include <string>

#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_checksum_internal.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::formats {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};

template <typename T>
std::string le(T value) {
  std::string bytes;
  io::append_le(bytes, value);
  return bytes;
}

std::string with_checksum(std::string block) { return block + le(hdf5::lookup3(io::as_bytes(block))); }

std::string message(int type, const std::string& body) {
  return le(static_cast<std::uint8_t>(type)) + le(static_cast<std::uint16_t>(body.size())) + le(std::uint8_t{0}) + body;
}

// An object header of version 2.
std::string header(const std::string& messages) {
  return with_checksum("OHDR" + le(std::uint8_t{2}) + le(std::uint8_t{2}) +
                       le(static_cast<std::uint32_t>(messages.size())) + messages);
}

std::string link(int number, std::uint64_t address) {
  const std::string name = "n" + std::to_string(number);
  return message(
      6, le(std::uint8_t{1}) + le(std::uint8_t{0}) + le(static_cast<std::uint8_t>(name.size())) + name + le(address));
}

std::string links(std::uint32_t count) { return message(0x16, le(std::uint8_t{0}) + le(count)); }

std::string dataspace(const std::vector<std::uint64_t>& dims) {
  std::string body = le(std::uint8_t{2}) + le(static_cast<std::uint8_t>(dims.size())) + le(std::uint16_t{0x0100});
  for (std::uint64_t dim : dims) body += le(dim);
  return body;
}

std::string int8_type() {
  return le(std::uint32_t{0x810}) + le(std::uint32_t{1}) + le(std::uint16_t{0}) + le(std::uint16_t{8});
}

std::string attribute(const std::string& name, const std::string& values) {
  const auto space = dataspace({values.size()});
  return message(12, le(std::uint8_t{3}) + le(std::uint8_t{0}) + le(static_cast<std::uint16_t>(name.size() + 1)) +
                         le(static_cast<std::uint16_t>(int8_type().size())) +
                         le(static_cast<std::uint16_t>(space.size())) + le(std::uint8_t{0}) + name + '\0' +
                         int8_type() + space + values);
}

// A file of blocks that are placed one after the other behind the superblock, the root last.
class Builder {
 public:
  std::uint64_t add(const std::string& block) {
    const std::uint64_t address = kSuperblock + blocks_.size();
    blocks_ += block;
    return address;
  }
  std::vector<std::byte> finish(const std::string& root) {
    const std::uint64_t address = add(root);
    const std::string image = with_checksum("\x89HDF\r\n\x1a\n" + le(std::uint8_t{3}) + le(std::uint8_t{8}) +
                                            le(std::uint8_t{8}) + le(std::uint8_t{0}) + le(std::uint64_t{0}) +
                                            le(kNone) + le(kSuperblock + blocks_.size()) + le(address)) +
                              blocks_;
    const auto bytes = io::as_bytes(image);
    return {bytes.begin(), bytes.end()};
  }

 private:
  static constexpr std::uint64_t kSuperblock = 48;
  std::string blocks_;
};

std::string many_links(int count, std::uint64_t address) {
  std::string links;
  for (int i = 0; i < count; ++i) links += link(i, address);
  return header(links);
}

std::string dataset(const std::vector<std::uint64_t>& dims, const std::string& layout, const std::string& more = "") {
  return header(message(1, dataspace(dims)) + message(3, int8_type()) + message(8, layout) + more);
}

std::string chunked(std::uint64_t index, std::uint32_t extent) {
  return le(std::uint8_t{3}) + le(std::uint8_t{2}) + le(std::uint8_t{2}) + le(index) + le(extent) +
         le(std::uint32_t{1});
}

std::string deflate_filter() {
  return message(11, le(std::uint8_t{2}) + le(std::uint8_t{1}) + le(std::uint16_t{1}) + le(std::uint16_t{0}) +
                         le(std::uint16_t{0}));
}

std::string chunk_tree(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& offsets, std::uint32_t stored) {
  std::string node = "TREE" + le(std::uint8_t{1}) + le(std::uint8_t{0}) +
                     le(static_cast<std::uint16_t>(offsets.size())) + le(kNone) + le(kNone);
  for (const auto& [offset, address] : offsets) {
    node += le(stored) + le(std::uint32_t{0}) + le(offset) + le(std::uint64_t{0}) + le(address);
  }
  return node;
}

void expect_damaged(const std::vector<std::byte>& image) {
  try {
    const Hdf5File file(image, nullptr, "hostile.h5");
    for (const auto& node : file.root().children) {
      if (node.kind == Hdf5Node::Kind::kDataset) file.read(node);
    }
    FAIL() << "read without an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataLoss) << error.message();
  }
}

TEST(HostileHdf5, SharedObjectsThatAreFewAreRead) {
  Builder file;
  const auto shared = file.add(header(message(3, int8_type()) + links(20) + attribute("a", std::string(1000, 'x'))));
  const auto image = file.finish(many_links(20, shared));
  const Hdf5File read(image, nullptr, "shared.h5");
  ASSERT_EQ(read.root().children.size(), 20u);
  for (const auto& node : read.root().children) EXPECT_EQ(node.attribute("a")->value.bytes.size(), 1000u);
}

TEST(HostileHdf5, AnAttributeThatManyLinksShare) {
  Builder file;
  const auto shared = file.add(header(message(3, int8_type()) + links(5000) + attribute("a", std::string(60000, 'x'))));
  expect_damaged(file.finish(many_links(5000, shared)));
}

TEST(HostileHdf5, EmptyMessagesThatManyContinuationsShare) {
  Builder file;
  const auto zeros = file.add(std::string(60000, '\0'));
  std::string messages;
  for (int i = 0; i < 900; ++i) {
    messages +=
        le(std::uint16_t{16}) + le(std::uint16_t{16}) + le(std::uint32_t{0}) + le(zeros) + le(std::uint64_t{60000});
  }
  const auto old = file.add(le(std::uint16_t{1}) + le(std::uint16_t{900}) + le(std::uint32_t{1}) +
                            le(static_cast<std::uint32_t>(messages.size())) + le(std::uint32_t{0}) + messages);
  expect_damaged(file.finish(many_links(1, old)));
}

TEST(HostileHdf5, AGroupIndexThatManyLinksShare) {
  Builder file;
  const auto leaf = file.add("SNOD" + le(std::uint8_t{1}) + le(std::uint8_t{0}) + le(std::uint16_t{0}));
  const auto names = file.add(std::string(8, '\0'));
  const auto heap = file.add("HEAP" + le(std::uint32_t{0}) + le(std::uint64_t{8}) + le(std::uint64_t{1}) + le(names));
  std::string node = "TREE" + le(std::uint8_t{0}) + le(std::uint8_t{0}) + le(std::uint16_t{32}) + le(kNone) +
                     le(kNone) + le(std::uint64_t{0});
  for (int i = 0; i < 32; ++i) node += le(leaf) + le(std::uint64_t{0});
  const auto tree = file.add(node);
  const auto group = file.add(header(message(0x11, le(tree) + le(heap)) + links(200)));
  expect_damaged(file.finish(many_links(200, group)));
}

TEST(HostileHdf5, ABTreeWhoseChildrenAreOneLeaf) {
  constexpr std::uint64_t kRecords = 1000;
  constexpr std::uint64_t kChildren = 1001;
  constexpr std::uint32_t kNode = 32768;
  Builder file;
  std::string leaf = "BTLF" + le(std::uint8_t{0}) + le(std::uint8_t{5});
  for (std::uint64_t i = 0; i < kRecords; ++i) leaf += std::string(11, '\0');
  const auto shared = file.add(with_checksum(leaf));
  std::string root = "BTIN" + le(std::uint8_t{0}) + le(std::uint8_t{5}) + std::string(11 * (kChildren - 1), '\0');
  // A leaf of 32768 bytes holds up to 2978 records, which takes two bytes.
  for (std::uint64_t i = 0; i < kChildren; ++i) root += le(shared) + le(static_cast<std::uint16_t>(kRecords));
  const auto root_at = file.add(with_checksum(root));
  const auto tree =
      file.add(with_checksum("BTHD" + le(std::uint8_t{0}) + le(std::uint8_t{5}) + le(kNode) + le(std::uint16_t{11}) +
                             le(std::uint16_t{1}) + le(std::uint8_t{100}) + le(std::uint8_t{40}) + le(root_at) +
                             le(static_cast<std::uint16_t>(kChildren - 1)) + le(kRecords)));
  // A heap of one direct block, whose first object is a link.
  const std::string first = link(0, 0).substr(4);
  std::string block = "FHDB" + le(std::uint8_t{0}) + le(std::uint64_t{0}) + le(std::uint32_t{0}) + first;
  block.resize(512);
  const auto block_at = file.add(block);
  std::string heap = "FRHP" + le(std::uint8_t{0}) + le(std::uint16_t{7}) + le(std::uint16_t{0}) + le(std::uint8_t{0}) +
                     le(std::uint32_t{512}) + le(std::uint64_t{0}) + le(kNone) + le(std::uint64_t{0}) + le(kNone);
  for (int i = 0; i < 8; ++i) heap += le(std::uint64_t{0});
  heap += le(std::uint16_t{4}) + le(std::uint64_t{512}) + le(std::uint64_t{512}) + le(std::uint16_t{32}) +
          le(std::uint16_t{0}) + le(block_at) + le(std::uint16_t{0});
  const auto heap_at = file.add(with_checksum(heap));
  const auto image =
      file.finish(header(message(2, le(std::uint8_t{0}) + le(std::uint8_t{0}) + le(heap_at) + le(tree))));
  try {
    const Hdf5File read(image, nullptr, "hostile.h5");
    FAIL() << "read without an error";
  } catch (const Error& error) {
    // Not only its records, which are not links: a million of them must not be listed at all.
    EXPECT_NE(error.message().find("over and over"), std::string::npos) << error.message();
  }
}

TEST(HostileHdf5, DatasetsThatManyLinksShare) {
  Builder file;
  const auto shared = file.add(dataset(
      {10'000'000}, le(std::uint8_t{3}) + le(std::uint8_t{1}) + le(kNone) + le(std::uint64_t{10'000'000}), links(60)));
  expect_damaged(file.finish(many_links(60, shared)));
}

TEST(HostileHdf5, ACompressedDatasetWithoutChunks) {
  Builder file;
  file.add(std::string(300000, '\0'));
  const auto tree = file.add(chunk_tree({}, 0));
  const auto huge = file.add(dataset({200'000'000}, chunked(tree, 1 << 20), deflate_filter()));
  expect_damaged(file.finish(many_links(1, huge)));
}

TEST(HostileHdf5, ChunksThatShareTheirBytes) {
  Builder file;
  const auto values = file.add(std::string(1024, '\1'));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> chunks;
  for (std::uint64_t i = 0; i < 64; ++i) chunks.emplace_back(1024 * i, values);
  const auto shared = file.add(dataset({64 * 1024}, chunked(file.add(chunk_tree(chunks, 1024)), 1024)));
  expect_damaged(file.finish(many_links(1, shared)));
}

TEST(HostileHdf5, TwoLayouts) {
  Builder file;
  const auto values = file.add(std::string(1024, '\1'));
  const std::string layout = chunked(file.add(chunk_tree({{0, values}}, 1024)), 1024);
  const auto twice = file.add(dataset({1024}, layout, message(8, layout)));
  expect_damaged(file.finish(many_links(1, twice)));
}

TEST(HostileHdf5, AChunkThatIsStoredTwice) {
  Builder file;
  const auto values = file.add(std::string(1024, '\1'));
  const auto twice = file.add(dataset({1024}, chunked(file.add(chunk_tree({{0, values}, {0, values}}, 1024)), 1024)));
  expect_damaged(file.finish(many_links(1, twice)));
}

// HDF5 has no booleans; those of h5py are bytes, and only 0 and 1 are values of the enumeration.
TEST(HostileHdf5, BothWaysOfReadingGiveTheSameBooleans) {
  const std::string type = le(std::uint32_t{0x238}) + le(std::uint32_t{1}) + int8_type() +
                           std::string("FALSE\0TRUE\0", 11) + std::string("\0\1", 2);
  Builder file;
  const auto values = file.add(std::string("\0\1\2\xff", 4));
  const auto flags =
      file.add(header(message(1, dataspace({4})) + message(3, type) +
                      message(8, le(std::uint8_t{3}) + le(std::uint8_t{1}) + le(values) + le(std::uint64_t{4}))));
  const auto image = file.finish(many_links(1, flags));
  const Hdf5File read(image, nullptr, "flags.h5");
  const auto& node = read.root().children.at(0);
  ASSERT_EQ(node.dtype, DType::kBool) << node.unreadable_reason;
  const auto whole = read.read(node);
  std::vector<std::byte> into(4);
  read.read_into(node, into);
  EXPECT_TRUE(std::equal(into.begin(), into.end(), whole.bytes.begin(), whole.bytes.end()));
  EXPECT_EQ(into.back(), std::byte{1});
}

}  // namespace
}  // namespace lockstep::formats
