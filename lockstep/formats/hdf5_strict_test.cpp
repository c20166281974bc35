// Damage that the HDF5 library rejects, and damage that would hide a tensor.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/hdf5_writer.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::formats {
namespace {

using Image = std::vector<std::byte>;

Image image_of(Hdf5Writer& writer) {
  Image image;
  writer.write([&](std::span<const std::byte> bytes) { image.insert(image.end(), bytes.begin(), bytes.end()); });
  return image;
}

Image strict_file() {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto tensor = [&](Shape shape, std::size_t count) {
    return TensorData::copy_of(DType::kFloat32, shape, std::as_bytes(std::span(values.data(), count)));
  };
  Hdf5Writer writer;
  writer.add_dataset("layers/dense/vars/0", tensor({2, 3}, 6));
  writer.add_dataset("layers/dense/vars/1", tensor({3}, 3));
  writer.add_dataset("layers/normalization/vars/0", tensor({2}, 2));
  writer.set_attribute("layers/dense/vars", "name", "dense");
  return image_of(writer);
}

struct Counts {
  std::size_t datasets = 0;
  std::size_t refused = 0;
  std::uint64_t elements = 0;
  std::size_t attributes = 0;
  bool operator==(const Counts&) const = default;
};

void count(const Hdf5Node& node, Counts& counts) {
  counts.attributes += node.attributes.size();
  if (node.kind == Hdf5Node::Kind::kDataset && node.unreadable_reason.empty()) {
    ++counts.datasets;
    counts.elements += static_cast<std::uint64_t>(*node.shape.num_elements());
  } else if (node.kind != Hdf5Node::Kind::kGroup) {
    ++counts.refused;
  }
  for (const Hdf5Node& child : node.children) count(child, counts);
}

void list_shapes(const Hdf5Node& node, std::string& text) {
  if (node.kind == Hdf5Node::Kind::kDataset) text += " " + node.name + node.shape.to_string() + node.unreadable_reason;
  for (const Hdf5Node& child : node.children) list_shapes(child, text);
}

std::string shapes_of(const Image& image) {
  std::string text;
  list_shapes(Hdf5File(image, nullptr, "strict.h5").root(), text);
  return text;
}

Counts counts_of(const Image& image) {
  const Hdf5File file(image, nullptr, "strict.h5");
  Counts counts;
  count(file.root(), counts);
  return counts;
}

std::size_t find(const Image& image, std::string_view text, std::size_t from = 0) {
  const std::string_view all(reinterpret_cast<const char*>(image.data()), image.size());
  return all.find(text, from);
}

template <typename T>
void put(Image& image, std::size_t at, T value) {
  std::memcpy(image.data() + at, &value, sizeof value);
}

std::string error_of(const Image& image) {
  try {
    counts_of(image);
  } catch (const Error& error) {
    return error.code() == Code::kDataLoss ? error.message() : "another code: " + error.message();
  }
  return "";
}

void expect_error(const Image& image, std::string_view part) {
  EXPECT_NE(error_of(image).find(part), std::string::npos) << error_of(image);
}

TEST(StrictHdf5, WrongMessageCounts) {
  auto image = strict_file();
  const auto root = *io::load_le<std::uint64_t>(image, 64);  // of superblock 0
  for (const int change : {-1, 1}) {
    auto bad = image;
    put(bad, root + 2, static_cast<std::uint16_t>(*io::load_le<std::uint16_t>(image, root + 2) + change));
    expect_error(bad, "messages, but it declares");
  }
}

TEST(StrictHdf5, FreeListsOfLocalHeaps) {
  auto image = strict_file();
  const auto heap = find(image, "HEAP");
  ASSERT_NE(heap, std::string::npos);
  const auto data = *io::load_le<std::uint64_t>(image, heap + 24);
  put(image, heap + 16, std::uint64_t{1} << 20);
  expect_error(image, "free blocks");
  put(image, heap + 16, std::uint64_t{0});
  put(image, data, std::uint64_t{1});
  put(image, data + 8, std::uint64_t{0});
  expect_error(image, "a free block of 0 bytes");
  put(image, data, std::uint64_t{0});
  put(image, data + 8, std::uint64_t{16});
  expect_error(image, "over and over");  // a block that is followed by itself
}

TEST(StrictHdf5, SymbolTableEntries) {
  const auto image = strict_file();
  const auto leaf = find(image, "SNOD");
  auto bad = image;
  put(bad, leaf + 8, std::uint64_t{1} << 30);
  expect_error(bad, "a name outside its heap");
  bad = image;
  put(bad, leaf + 8 + 16, std::uint32_t{2});  // a soft link, with the address of an object
  expect_error(bad, "of an unknown kind");
  bad = image;
  put(bad, leaf + 6, std::uint16_t{0});
  expect_error(bad, "without entries");
}

// HDF5 1.8 and 1.10 leave entries of other groups behind the last one of a node; entries of the group itself are
// damage.
TEST(StrictHdf5, UnusedEntriesOfAGroupIndex) {
  const float value = 1;
  const TensorData tensor = TensorData::copy_of(DType::kFloat32, {1}, std::as_bytes(std::span(&value, 1)));
  Hdf5Writer writer;
  writer.add_dataset("few/long_name", tensor);
  for (int i = 10; i < 40; ++i) writer.add_dataset(fmt::format("many/{}", i), tensor);
  const Image image = image_of(writer);
  const auto number = [&](std::size_t at) { return io::load_le<std::uint64_t>(image, at).value(); };
  const auto count = [&](std::size_t node) { return io::load_le<std::uint16_t>(image, node + 6).value(); };
  const std::size_t entries = 24;  // of a node's signature, kind, level, count and neighbours; then keys and children
  std::size_t few = 0, many = 0;
  for (auto at = find(image, "TREE"); at != std::string::npos; at = find(image, "TREE", at + 1)) {
    if (count(at) > 1) {
      many = at;
    } else if (count(number(at + entries + 8)) == 1) {
      few = at;
    }
  }
  ASSERT_NE(few, 0u);
  ASSERT_NE(many, 0u);
  Image other = image;
  put(other, few + entries + 24, number(many + entries + 24));
  put(other, few + entries + 32, number(many + entries + 32));
  EXPECT_EQ(counts_of(other), counts_of(image));
  // An empty group whose first unused entry leads into the free block of its heap, of which the bytes read as names.
  Image empty = image;
  put(empty, few + 6, std::uint16_t{0});
  expect_error(empty, "declares 0 entries and has more");
  const std::size_t names = find(image, "long_name") - 8, heap = names - 32;
  put(empty, heap + 16, std::uint64_t{8});  // the first free block begins at the name
  put(empty, names + 8, std::uint64_t{1});  // it is the last one
  put(empty, names + 16, std::uint64_t{16});
  EXPECT_EQ(counts_of(empty).datasets, counts_of(image).datasets - 1);
  Image fewer = image;
  put(fewer, many + 6, std::uint16_t{1});
  expect_error(fewer, "declares 1 entries and has more");
}

TEST(StrictHdf5, APrecisionThatIsAbsurd) {
  auto image = strict_file();
  const char type[] = "\x11\x20\x1f\x00\x04\x00\x00\x00\x00\x00\x20\x00";
  const auto at = find(image, std::string_view(type, 12));
  ASSERT_NE(at, std::string::npos);
  put(image, at + 10, std::uint16_t{0x8020});
  expect_error(image, "a number of 32800 bits");
}

TEST(StrictHdf5, PartsOfFloats) {
  auto image = strict_file();
  const char type[] = "\x11\x20\x1f\x00\x04\x00\x00\x00\x00\x00\x20\x00\x17\x08\x00\x17";
  const auto at = find(image, std::string_view(type, 16));
  ASSERT_NE(at, std::string::npos);
  const std::string whole = shapes_of(image);
  // The sign inside the exponent; an exponent inside the mantissa; a mantissa without bits and one that passes the end.
  for (const auto& [offset, value] : {std::pair<std::size_t, int>{2, 30}, {12, 22}, {15, 0}, {15, 33}, {1, 0x30}}) {
    auto bad = image;
    put(bad, at + offset, static_cast<std::uint8_t>(value));
    expect_error(bad, "whose parts overlap or pass its end");
  }
  // Possible, but not numbers of IEEE 754: without the leading bit that is not stored, and with a smaller mantissa.
  for (const auto& [offset, value] : {std::pair<std::size_t, int>{1, 0x00}, {15, 22}}) {
    auto other = image;
    put(other, at + offset, static_cast<std::uint8_t>(value));
    EXPECT_NE(shapes_of(other).find("its elements are a 32-bit float"), std::string::npos) << shapes_of(other);
  }
}

TEST(StrictHdf5, FieldsOfTheSuperblock) {
  const auto image = strict_file();
  const auto changed = [&](std::size_t at, auto value) {
    auto bad = image;
    put(bad, at, value);
    return bad;
  };
  for (const std::size_t at : {9, 10, 12}) expect_error(changed(at, std::uint8_t{1}), "unknown versions");
  expect_error(changed(16, std::uint16_t{0}), "nodes have no entries");
  EXPECT_NE(error_of(changed(16, std::uint16_t{0x4000})), "");  // a node of 2 * 0x4000 entries passes the end
  expect_error(changed(32, std::uint64_t{0}), "a block of free space");
  expect_error(changed(48, std::uint64_t{96}), "a file driver");
  expect_error(changed(72, std::uint32_t{3}), "of the unknown kind 3");
}

TEST(StrictHdf5, NamesOfAttributesFillTheirPlace) {
  auto image = strict_file();
  const auto at = find(image, std::string_view("name\0", 5));
  ASSERT_NE(at, std::string::npos);
  put(image, at + 2, std::uint8_t{0});
  expect_error(image, "an attribute name that does not fill its 5 bytes");
}

TEST(StrictHdf5, FlagsOfMessages) {
  auto image = strict_file();
  const auto root = *io::load_le<std::uint64_t>(image, 64);
  put(image, root + 16 + 4, std::uint8_t{0x40});  // the symbol table message
  expect_error(image, "with the flags 0x40");
  put(image, root + 16 + 4, std::uint8_t{0x06});
  expect_error(image, "with the flags 0x6");
}

TEST(StrictHdf5, SizesOfDatasets) {
  auto image = strict_file();
  const char layout[] = "\x03\x01";
  std::size_t changed = 0;
  for (auto at = find(image, {layout, 2}); at != std::string::npos; at = find(image, {layout, 2}, at + 1)) {
    if (io::load_le<std::uint64_t>(image, at + 10) != std::uint64_t{24}) continue;
    put(image, at + 10, std::uint64_t{28});
    ++changed;
  }
  ASSERT_EQ(changed, 1u);
  expect_error(image, "of 24 bytes is stored in 28");
}

// No flipped bit hides a tensor, a value or an attribute. Names, texts and values have no checksum in HDF5.
TEST(StrictHdf5, NoFlippedBitHidesATensor) {
  const auto image = strict_file();
  const Counts whole = counts_of(image);
  ASSERT_EQ(whole.datasets, 3u);
  std::string hidden;
  std::size_t hiding = 0;
  for (std::size_t bit = 0; bit < 8 * image.size(); ++bit) {
    auto bad = image;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    try {
      const Counts found = counts_of(bad);
      // A dataset whose values cannot be read is listed with the reason, and is an error when it is read.
      const bool same = found.datasets == whole.datasets && found.elements == whole.elements;
      const bool refused = found.datasets + found.refused == whole.datasets && found.refused > 0;
      if ((same || refused) && found.attributes == whole.attributes) continue;
      ++hiding;
      if (hiding < 30) {
        hidden += std::to_string(bit / 8) + "." + std::to_string(bit % 8) + ": " + std::to_string(found.datasets) +
                  " datasets, " + std::to_string(found.refused) + " refused, " + std::to_string(found.elements) +
                  " elements, " + std::to_string(found.attributes) + " attributes" + shapes_of(bad) + "\n";
      }
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(hiding, 0u) << hidden;
}

TEST(StrictHdf5, AnAttributeHoldsAsManyNamesAsKerasPutsThere) {
  std::vector<std::string> names;
  for (int i = 0; i < 4032; ++i) names.push_back("w" + std::to_string(i));
  Hdf5Writer writer;
  writer.set_attribute("", "weight_names", names);
  const auto image = image_of(writer);
  const Hdf5File file(image, nullptr, "names.h5");
  EXPECT_EQ(file.root().attribute("weight_names")->value.strings, names);
}

}  // namespace
}  // namespace lockstep::formats
