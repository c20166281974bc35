#include "lockstep/formats/keras_archive.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/io/zip.h"

namespace lockstep::formats {
namespace {

class KerasArchiveTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "keras_archive_" + std::to_string(getpid()) +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::string bytes(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string folder_;
};

TensorData values(std::vector<float> numbers, Shape shape) {
  return TensorData::copy_of(DType::kFloat32, std::move(shape), std::as_bytes(std::span(numbers)));
}

KerasArchivePlan plan() {
  KerasArchivePlan plan;
  plan.config = Json{{"class_name", "Sequential"}, {"config", {{"name", "s"}}}};
  plan.weights.groups = {{"vars", "s"}, {"layers/dense/vars", "dense"}};
  plan.weights.add("layers/dense/vars/0", values({1, 2, 3, 4}, {2, 2}));
  plan.weights.add("layers/dense/vars/1", values({5, 6}, {2}));
  for (int i = 0; i < 12; ++i) plan.weights.add("optimizer/vars/" + std::to_string(i), values({float(i)}, {}));
  plan.assets.push_back({"layers/string_lookup/vocabulary.txt", "[UNK]\na"});
  return plan;
}

void expect_same(const KerasArchive& archive) {
  EXPECT_EQ(archive.config()["class_name"], "Sequential");
  EXPECT_EQ(archive.metadata()["keras_version"], kKerasVersion);
  const auto dense = archive.weights().variables("layers/dense");
  ASSERT_EQ(dense.size(), 2u);
  EXPECT_EQ(dense[0].name, "layers/dense/vars/0");
  EXPECT_EQ(dense[0].shape, (Shape{2, 2}));
  EXPECT_EQ(archive.weights().object_name("layers/dense"), "dense");
  const auto slots = archive.weights().variables("optimizer");
  ASSERT_EQ(slots.size(), 12u);
  EXPECT_EQ(slots[10].name, "optimizer/vars/10");
  float tenth = 0;
  archive.weights().read_into(slots[10].name, std::as_writable_bytes(std::span(&tenth, 1)));
  EXPECT_EQ(tenth, 10.0f);
  EXPECT_TRUE(archive.weights().variables("layers/flatten").empty());
  EXPECT_EQ(archive.assets(), std::vector<std::string>{"layers/string_lookup/vocabulary.txt"});
  EXPECT_EQ(archive.asset("layers/string_lookup/vocabulary.txt"), "[UNK]\na");
}

TEST_F(KerasArchiveTest, ZipAndFolderComeBack) {
  write_keras_archive(path("m.keras"), plan());
  expect_same(KerasArchive::open(path("m.keras")));
  write_keras_directory(path("m"), plan());
  expect_same(KerasArchive::open(path("m")));
}

TEST_F(KerasArchiveTest, SamePlanGivesSameBytes) {
  write_keras_archive(path("a.keras"), plan());
  write_keras_archive(path("b.keras"), plan());
  EXPECT_EQ(bytes(path("a.keras")), bytes(path("b.keras")));
}

TEST_F(KerasArchiveTest, AnAssetMustStayInside) {
  auto bad = plan();
  bad.assets.push_back({"../x", ""});
  EXPECT_THROW(write_keras_archive(path("m.keras"), bad), Error);
  EXPECT_FALSE(std::filesystem::exists(path("m.keras")));
}

TEST_F(KerasArchiveTest, TruncatedAndFlippedArchivesAreErrorsOrData) {
  write_keras_archive(path("m.keras"), plan());
  const std::string whole = bytes(path("m.keras"));
  auto open = [&](const std::string& content) {
    std::ofstream(path("bad.keras"), std::ios::binary) << content;
    KerasArchive::open(path("bad.keras"));
  };
  for (std::size_t size = 0; size < whole.size(); size += 37) EXPECT_THROW(open(whole.substr(0, size)), Error) << size;
  for (std::size_t at = 0; at < whole.size(); at += 53) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 16);
    try {
      open(bad);
    } catch (const Error&) {
    }
  }
}

// A second directory behind the archive, which lists none or some of its members.
TEST_F(KerasArchiveTest, MembersThatTheDirectoryDoesNotListAreDamage) {
  write_keras_archive(path("m.keras"), plan());
  const std::string whole = bytes(path("m.keras"));
  const auto open = [&](const std::string& content) {
    std::ofstream(path("bad.keras"), std::ios::binary) << content;
    io::ZipReader(path("bad.keras"));
  };
  open(whole);
  const std::size_t end = whole.rfind("PK\5\6");
  const std::size_t last = whole.rfind("PK\1\2");
  std::string record = whole.substr(end);
  const auto set = [&record](std::size_t at, std::size_t size, std::uint64_t value) {
    for (std::size_t i = 0; i < size; ++i) record[at + i] = static_cast<char>(value >> (8 * i));
  };
  set(8, 2, 0), set(10, 2, 0), set(12, 4, 0), set(16, 4, 0);
  EXPECT_THROW(open(whole + record), Error);
  set(16, 4, whole.size());
  EXPECT_THROW(open(whole + record), Error);
  set(8, 2, 1), set(10, 2, 1), set(12, 4, end - last);
  EXPECT_THROW(open(whole + whole.substr(last, end - last) + record), Error);
}

TEST_F(KerasArchiveTest, ShardsAreOneListing) {
  WeightsPlan first;
  first.add("layers/dense/vars/0", values({1}, {1}));
  WeightsPlan second;
  second.add("layers/dense/vars/1", values({2}, {1}));
  write_keras_weights(path("m_00000.weights.h5"), first);
  write_keras_weights(path("m_00001.weights.h5"), second);
  auto index = [&](const std::string& name) {
    std::ofstream(path("m.weights.json"))
        << R"({"metadata": {"total_size": 8.0}, "weight_map": {"/layers/dense/vars": ["m_00000.weights.h5", ")" << name
        << "\"]}}";
  };
  index("m_00001.weights.h5");
  EXPECT_EQ(KerasWeights::open(path("m.weights.json")).variables("layers/dense").size(), 2u);
  index("../m_00001.weights.h5");
  EXPECT_THROW(KerasWeights::open(path("m.weights.json")), Error);
  for (const char* map : {R"({})", R"({"/layers/densd/vars": "m_00000.weights.h5"})",
                          R"({"/layers/dense/vars": "m_00000.weights.h5", "/vars": "m_00001.weights.h5"})"}) {
    std::ofstream(path("m.weights.json")) << R"({"weight_map": )" << map << "}";
    if (map == std::string("{}")) {
      EXPECT_TRUE(KerasWeights::open(path("m.weights.json")).list().empty());
    } else {
      EXPECT_THROW(KerasWeights::open(path("m.weights.json")), Error) << map;
    }
  }
}

TEST_F(KerasArchiveTest, DatasetsOutsideOfVarsAreDamage) {
  WeightsPlan plan;
  plan.groups = {{"vars", "m"}};
  plan.add("layers/dense/vars/0", values({1}, {1}));
  plan.add("layers/custom/vars/kernel", values({1}, {1}));
  plan.add("layer1/vars/0", values({1}, {1}));  // an attribute of a model
  write_keras_weights(path("m.weights.h5"), plan);
  KerasWeights::open(path("m.weights.h5")).check_names();
  plan.add("layers/dense/vbrs/1", values({1}, {1}));
  write_keras_weights(path("m.weights.h5"), plan);
  EXPECT_THROW(KerasWeights::open(path("m.weights.h5")).check_names(), Error);
  plan.entries.pop_back();
  plan.add("layers/functional/,ayers/dense/vars/0", values({1}, {1}));
  write_keras_weights(path("m.weights.h5"), plan);
  EXPECT_THROW(KerasWeights::open(path("m.weights.h5")).check_names(), Error);
  // Files of others have no such groups.
  Hdf5Writer writer;
  writer.add_dataset("layers/dense/kernel", values({1}, {1}));
  std::vector<std::byte> image;
  writer.write([&](std::span<const std::byte> part) { image.insert(image.end(), part.begin(), part.end()); });
  KerasWeights::from_image(image, nullptr, "other.h5").check_names();
}

TEST_F(KerasArchiveTest, GapsInTheNumbersAreRefused) {
  WeightsPlan plan;
  plan.add("layers/dense/vars/0", values({1}, {1}));
  plan.add("layers/dense/vars/2", values({2}, {1}));
  write_keras_weights(path("m.weights.h5"), plan);
  EXPECT_THROW(KerasWeights::open(path("m.weights.h5")).variables("layers/dense"), Error);
}

TEST_F(KerasArchiveTest, OldTfKerasLayerGroupIsFound) {
  WeightsPlan plan;
  plan.add("_layer_checkpoint_dependencies/dense/vars/0", values({1}, {1}));
  write_keras_weights(path("m.weights.h5"), plan);
  EXPECT_EQ(KerasWeights::open(path("m.weights.h5")).variables("layers/dense").size(), 1u);
}

TEST_F(KerasArchiveTest, OldTfKerasLayersAreFoundByTheirOrder) {
  const std::string root = "_layer_checkpoint_dependencies", inner = root + "/functional/" + root;
  WeightsPlan plan;
  for (const std::string name : {"/dense", "/dense_2", "/dense_4", "/dense_10"}) {
    plan.add(root + name + "/vars/0", values({1}, {1}));
    plan.add(inner + name + "/vars/0", values({1}, {1}));
  }
  write_keras_weights(path("m.weights.h5"), plan);
  const auto weights = KerasWeights::open(path("m.weights.h5"));
  EXPECT_EQ(weights.variables("layers/dense_1").at(0).name, root + "/dense_2/vars/0");
  EXPECT_EQ(weights.variables("layers/dense_2").at(0).name, root + "/dense_4/vars/0");
  EXPECT_EQ(weights.variables("layers/functional/layers/dense_3").at(0).name, inner + "/dense_10/vars/0");
  EXPECT_TRUE(weights.variables("layers/dense_4").empty());
  EXPECT_TRUE(weights.has_object("layers/functional"));
}

LegacyH5Plan legacy_plan(std::size_t layers) {
  LegacyH5Plan plan;
  plan.model_config = Json{{"class_name", "Sequential"}};
  plan.training_config = Json{{"loss", "mse"}};
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string name = "a_layer_with_a_rather_long_name_" + std::to_string(i);
    plan.layers.push_back({name, {}});
    const TensorData value = values({float(i)}, {1});
    plan.layers.back().weights.push_back(
        {"sequential/" + name + "/kernel", value.dtype, value.shape, [value] { return value; }});
  }
  return plan;
}

TEST_F(KerasArchiveTest, LegacyModelComesBack) {
  write_legacy_h5(path("m.h5"), legacy_plan(3));
  const auto model = LegacyH5::open(path("m.h5"));
  EXPECT_EQ(model.keras_version(), "3.15.1");
  EXPECT_EQ(model.backend(), "tensorflow");
  EXPECT_EQ(model.training_config()["loss"], "mse");
  ASSERT_EQ(model.layers().size(), 3u);
  ASSERT_EQ(model.layers()[2].weights.size(), 1u);
  EXPECT_EQ(*reinterpret_cast<const float*>(model.read(model.layers()[2].weights[0].name).bytes.data()), 2.0f);
  EXPECT_THROW(KerasWeights::open(path("m.h5")), Error);
}

TEST_F(KerasArchiveTest, LongListsOfNamesAreSplit) {
  write_legacy_h5(path("m.h5"), legacy_plan(5000));
  EXPECT_EQ(LegacyH5::open(path("m.h5")).layers().size(), 5000u);
}

TEST_F(KerasArchiveTest, LegacyNamesMustStayBelowTheirLayer) {
  Hdf5Writer writer;
  writer.add_group("dense");
  writer.add_dataset("secret", values({1}, {1}));
  writer.set_attribute("", "layer_names", std::vector<std::string>{"dense"});
  writer.set_attribute("dense", "weight_names", std::vector<std::string>{"../secret"});
  std::vector<std::byte> image;
  writer.write([&](std::span<const std::byte> part) { image.insert(image.end(), part.begin(), part.end()); });
  EXPECT_THROW(LegacyH5::from_image(image, nullptr, "bad.h5"), Error);
}

// Names have no checksum: a name of the format with another character, and weights that no list names.
TEST_F(KerasArchiveTest, RenamedMembersOfLegacyFilesAreDamage) {
  LegacyH5Plan plan = legacy_plan(2);
  const TensorData step = values({7}, {});
  plan.optimizer_weights.push_back({"adam/iteration", step.dtype, step.shape, [step] { return step; }});
  write_legacy_h5(path("m.h5"), plan);
  const std::string whole = bytes(path("m.h5"));
  const auto check = [&](const std::string& image) {
    LegacyH5::from_image(std::as_bytes(std::span(image)), nullptr, "m.h5").check_names();
  };
  check(whole);
  for (const std::string name : {"model_config", "training_config", "keras_version", "backend", "layer_names",
                                 "weight_names", "model_weights", "optimizer_weights", "kernel", "iteration"}) {
    std::string bad = whole;
    for (auto at = bad.find(name); at != std::string::npos; at = bad.find(name, at)) bad[at + 3] ^= 1;
    ASSERT_NE(bad, whole) << name;
    if (name == "kernel" || name == "iteration") {
      check(bad);  // the list of names has changed too
      bad = whole;
      bad[bad.find(name) + 3] ^= 1;
    }
    EXPECT_THROW(check(bad), Error) << name;
  }
  Hdf5Writer writer;
  writer.add_dataset("dense/kernel", values({1}, {1}));
  writer.add_dataset("dense/bias", values({1}, {1}));
  writer.set_attribute("", "layer_names", std::vector<std::string>{"dense"});
  writer.set_attribute("dense", "weight_names", std::vector<std::string>{"kernel"});
  std::string image;
  writer.write(
      [&](std::span<const std::byte> part) { image.append(reinterpret_cast<const char*>(part.data()), part.size()); });
  EXPECT_THROW(check(image), Error);
}

}  // namespace
}  // namespace lockstep::formats
