#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_checksum_internal.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/hdf5_writer.h"

namespace lockstep::formats {
namespace {

std::vector<std::byte> written(Hdf5Writer& writer) {
  std::vector<std::byte> image;
  writer.write([&](std::span<const std::byte> bytes) { image.insert(image.end(), bytes.begin(), bytes.end()); });
  EXPECT_EQ(image.size(), writer.size());
  return image;
}

TensorData floats(Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
  std::iota(values.begin(), values.end(), 1.0f);
  return TensorData::copy_of(DType::kFloat32, shape, std::as_bytes(std::span(values)));
}

std::vector<std::byte> small_file() {
  Hdf5Writer writer;
  writer.add_dataset("layers/dense/vars/0", floats({3, 2}));
  writer.add_dataset("layers/dense/vars/1", floats({}));
  writer.set_attribute("layers/dense/vars", "name", "dense");
  writer.set_attribute("", "layer_names", std::vector<std::string>{"a", "bc", ""});
  writer.add_group("vars");
  return written(writer);
}

Hdf5File parsed(const std::vector<std::byte>& image) { return Hdf5File(image, nullptr, "test.h5"); }

// Opens and reads everything; only lockstep::Error may come out.
void read_all(const Hdf5File& file, const Hdf5Node& node) {
  if (node.kind == Hdf5Node::Kind::kDataset && node.unreadable_reason.empty()) file.read(node);
  for (const auto& child : node.children) read_all(file, child);
}

TEST(Hdf5, ChecksumsMatchTheirPublishedValues) {
  auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_EQ(hdf5::lookup3(bytes("")), 0xdeadbeefu);
  EXPECT_EQ(hdf5::lookup3(bytes("Four score and seven years ago")), 0x17770551u);
}

TEST(Hdf5, ReadsWhatItWrites) {
  const auto image = small_file();
  const Hdf5File file = parsed(image);
  const Hdf5Node* kernel = file.find("layers/dense/vars/0");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->dtype, DType::kFloat32);
  EXPECT_EQ(kernel->shape, (Shape{3, 2}));
  const TensorData value = file.read(*kernel);
  EXPECT_EQ(value.bytes.size(), 24u);
  EXPECT_GE(value.bytes.data(), image.data());  // a view, not a copy
  EXPECT_LT(value.bytes.data(), image.data() + image.size());
  EXPECT_EQ(std::memcmp(value.bytes.data(), floats({3, 2}).bytes.data(), 24), 0);
  EXPECT_EQ(file.find("layers/dense/vars")->attribute("name")->value.strings, std::vector<std::string>{"dense"});
  EXPECT_EQ(file.root().attribute("layer_names")->value.strings, (std::vector<std::string>{"a", "bc", ""}));
  EXPECT_EQ(file.find("vars")->children.size(), 0u);
  EXPECT_EQ(file.find("nothing/there"), nullptr);
}

// By which weights are told from models: a layer may have the name of the attribute.
TEST(Hdf5, AttributesOfTheRootAreNotFoundByTheirText) {
  for (const bool given : {false, true}) {
    Hdf5Writer writer;
    writer.add_dataset("layers/model_config_dense/vars/0", floats({2}));
    writer.set_attribute("layers", "model_config", "{}");
    if (given) writer.set_attribute("", "model_config", "{}");
    EXPECT_EQ(Hdf5File::has_root_attribute(written(writer), "model_config", "test.h5"), given);
  }
}

TEST(Hdf5, SameContentGivesSameBytes) { EXPECT_EQ(small_file(), small_file()); }

TEST(Hdf5, EveryDtypeComesBack) {
  for (DType dtype :
       {DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kBool, DType::kInt8, DType::kInt16,
        DType::kInt32, DType::kInt64, DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64}) {
    std::vector<std::byte> bytes(3 * dtype_size(dtype), std::byte{1});
    Hdf5Writer writer;
    writer.add_dataset("x", TensorData::copy_of(dtype, {3}, bytes));
    const auto image = written(writer);
    const Hdf5File file = parsed(image);
    EXPECT_EQ(file.find("x")->dtype, dtype) << dtype_name(dtype);
    const TensorData value = file.read(*file.find("x"));
    EXPECT_EQ(std::memcmp(value.bytes.data(), bytes.data(), bytes.size()), 0) << dtype_name(dtype);
  }
}

TEST(Hdf5, GroupsOfManyMembersNeedSeveralTreeLevels) {
  Hdf5Writer writer;
  for (int i = 0; i < 3000; ++i) writer.add_dataset("optimizer/vars/" + std::to_string(i), floats({i % 5}));
  const auto image = written(writer);
  const Hdf5File file = parsed(image);
  EXPECT_EQ(file.find("optimizer/vars")->children.size(), 3000u);
  EXPECT_EQ(file.find("optimizer/vars/2999")->shape, (Shape{4}));
  EXPECT_EQ(file.read(*file.find("optimizer/vars/5")).bytes.size(), 0u);
}

TEST(Hdf5, BadNamesAndDtypesAreRefused) {
  Hdf5Writer writer;
  EXPECT_THROW(writer.add_group("a//b"), Error);
  EXPECT_THROW(writer.add_group("../b"), Error);
  EXPECT_THROW(writer.add_group("a/"), Error);
  EXPECT_THROW(writer.add_dataset("x", DType::kString, {1}, nullptr), Error);
  EXPECT_THROW(writer.add_dataset("", floats({1})), Error);
  writer.add_dataset("x", floats({1}));
  EXPECT_THROW(writer.add_dataset("x", floats({1})), Error);
  EXPECT_THROW(writer.add_group("x/y"), Error);
}

TEST(Hdf5, ASourceThatChangesItsMindIsAnError) {
  Hdf5Writer writer;
  writer.add_dataset("x", DType::kFloat32, {2}, [] { return floats({3}); });
  EXPECT_THROW(writer.write([](std::span<const std::byte>) {}), Error);
}

TEST(Hdf5, EveryTruncationIsAnError) {
  const auto image = small_file();
  for (std::size_t size = 0; size < image.size(); ++size) {
    const std::vector<std::byte> cut(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(parsed(cut), Error) << size;
  }
}

TEST(Hdf5, EveryFlippedBitIsAnErrorOrData) {
  const auto image = small_file();
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 8 * image.size(); ++bit) {
    auto bad = image;
    bad[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    try {
      const Hdf5File file = parsed(bad);
      read_all(file, file.root());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Hdf5, AGroupThatContainsItselfIsRefused) {
  Hdf5Writer writer;
  writer.add_group("a/b");
  auto image = written(writer);
  // The symbol of "b" is made to point at the header of "a".
  std::vector<std::size_t> symbols;
  for (std::size_t at = 0; at + 4 < image.size(); ++at) {
    if (std::memcmp(image.data() + at, "SNOD", 4) == 0) symbols.push_back(at);
  }
  ASSERT_EQ(symbols.size(), 2u);
  std::memcpy(image.data() + symbols[1] + 16, image.data() + symbols[0] + 16, 8);
  EXPECT_THROW(parsed(image), Error);
}

TEST(Hdf5, AHugeShapeWithoutDataTakesNoMemory) {
  Hdf5Writer writer;
  writer.add_dataset("x", floats({0}));
  auto image = written(writer);
  std::size_t header = 0;
  for (std::size_t at = 0; at + 32 < image.size(); ++at) {
    const unsigned char dataspace[] = {1, 0, 24, 0, 0, 0, 0, 0, 1, 1, 1};
    if (std::memcmp(image.data() + at, dataspace, sizeof(dataspace)) == 0) header = at;
  }
  ASSERT_NE(header, 0u);
  const std::uint64_t huge = std::uint64_t{1} << 40;
  std::memcpy(image.data() + header + 16, &huge, 8);
  EXPECT_THROW(parsed(image), Error);
}

}  // namespace
}  // namespace lockstep::formats
