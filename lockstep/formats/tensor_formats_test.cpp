// The tensor formats without HDF5: round trips, known bytes, and liars.
#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/formats/tensor_table_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/faulty_file_system_internal.h"

namespace lockstep::formats {
namespace {

using io::as_bytes;

TensorData floats(Shape shape, std::vector<float> values) {
  return TensorData::copy_of(DType::kFloat32, std::move(shape), std::as_bytes(std::span(values)));
}

TensorData strings(std::vector<std::string> values) {
  TensorData tensor;
  tensor.dtype = DType::kString;
  tensor.shape = Shape{static_cast<std::int64_t>(values.size())};
  tensor.strings = std::move(values);
  return tensor;
}

void expect_same(const TensorData& a, const TensorData& b) {
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(io::as_text(a.bytes), io::as_text(b.bytes));
  EXPECT_EQ(a.strings, b.strings);
}

class FormatsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "lockstep_formats_" + std::to_string(getpid()) +
              testing::UnitTest::GetInstance()->current_test_info()->name();
    io::remove_all(files_, folder_);
    io::make_directories(files_, folder_);
  }
  void TearDown() override { io::remove_all(files_, folder_); }
  std::string at(const std::string& name) const { return io::join_path(folder_, name); }

  // Every truncation and every flipped bit of `path`: `read` must throw Error or return.
  void damage(const std::string& path, const std::function<void()>& read) {
    const std::string good = io::read_text(files_, path);
    const auto attempt = [&](const std::string& bytes) {
      std::ofstream(path, std::ios::binary) << bytes;  // not synced: there are thousands
      try {
        read();
      } catch (const Error&) {
      }
    };
    for (std::size_t size = 0; size < good.size(); ++size) attempt(good.substr(0, size));
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      attempt(bad);
    }
    io::write_atomically(path, good);
  }

  io::FileSystem& files_ = io::posix_file_system();
  std::string folder_;
};

TEST_F(FormatsTest, BundleRoundTripSlicesAndDamage) {
  const std::string prefix = at("ck-1");
  const auto a = floats({2, 2}, {1, 2, 3, 4});
  const auto s = strings({"", "hello", std::string(200, 'x')});
  {
    BundleWriter writer(prefix);
    writer.add("s", s);
    writer.add("a", a);
    writer.add_slice("p", Shape{4, 2}, {2, 0}, floats({2, 2}, {5, 6, 7, 8}));
    writer.add_slice("p", Shape{4, 2}, {0, 0}, a);
    EXPECT_THROW(writer.add("a", a), Error);
    writer.finish();
  }
  const BundleReader reader(prefix);
  ASSERT_EQ(reader.list().size(), 3u);
  EXPECT_EQ(reader.list()[0].name, "a");
  expect_same(reader.read("a"), a);
  expect_same(reader.read("s"), s);
  expect_same(reader.read("p"), floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THROW(reader.read("none"), Error);
  // Any range of bytes, of one piece, of two, and of slices along both axes.
  BundleWriter boxes(at("ck-2"));
  boxes.add_slice("q", Shape{2, 4}, {0, 2}, floats({2, 2}, {3, 4, 7, 8}));
  boxes.add_slice("q", Shape{2, 4}, {0, 0}, floats({2, 2}, {1, 2, 5, 6}));
  boxes.finish();
  const BundleReader of_boxes(at("ck-2"));
  for (const auto& [from, name] : {std::pair(&reader, "a"), std::pair(&reader, "p"), std::pair(&of_boxes, "q")}) {
    const auto whole = from->read(name);
    for (std::size_t begin = 0; begin <= whole.bytes.size(); ++begin) {
      for (std::size_t end = begin; end <= whole.bytes.size(); ++end) {
        std::vector<std::byte> range(end - begin);
        from->read_range(name, begin, range, true);
        EXPECT_TRUE(std::ranges::equal(range, whole.bytes.subspan(begin, end - begin))) << name << begin << " " << end;
      }
    }
    std::vector<std::byte> more(whole.bytes.size() + 1);
    EXPECT_THROW(from->read_range(name, 0, more, true), Error);
  }
  std::vector<std::byte> none;
  EXPECT_THROW(reader.read_range("s", 0, none, true), Error);
  EXPECT_EQ(detect(prefix).kind, Kind::kTfCheckpoint);
  // Checksums cover everything, so the tensors that are read are those that were written.
  const auto read_all = [&] {
    const BundleReader damaged(prefix);
    for (const auto& info : damaged.list()) {
      const auto tensor = damaged.read(info.name);
      expect_same(tensor, info.name == "a" ? a : info.name == "s" ? s : floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
    }
  };
  damage(bundle_index_path(prefix), read_all);
  damage(bundle_data_path(prefix, 0, 1), read_all);
}

// TensorFlow's bytes for one float scalar named "counter".
TEST_F(FormatsTest, BundleKnownBytes) {
  BundleWriter writer(at("c"));
  writer.add("counter", floats({}, {0}));
  writer.finish();
  const std::string index = io::read_text(files_, bundle_index_path(at("c")));
  ASSERT_EQ(index.size(), 123u);
  EXPECT_EQ(index.substr(0, 20), std::string("\x00\x00\x06\x08\x01\x1a\x02\x08\x01\x00\x07\x0b"
                                             "counter\x08",
                                             20));
  EXPECT_EQ(index.substr(38, 5), std::string("\x00\x5f\xa0\x10\x73", 5));
}

// A small file could request any amount of memory or time with them.
TEST_F(FormatsTest, BytesOfBundlesAreUsedOnce) {
  BundleWriter writer(at("c"));
  writer.add("a", floats({2}, {1, 2}));
  writer.finish();
  const std::string path = bundle_index_path(at("c")), index = io::read_text(files_, path);
  const auto expect_error = [&](const std::string& bytes, const std::string& text) {
    io::write_atomically(path, bytes);
    try {
      BundleReader reader(at("c"));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  };
  auto entries = read_table(as_bytes(index), "index");
  entries.emplace_back("b", entries.back().second);
  TableBuilder shared;
  for (const auto& [key, value] : entries) shared.add(key, value);
  expect_error(shared.finish(), "tensors a and b overlap");
  // An index block with a hundred handles of the empty block, and one restart.
  auto footer = as_bytes(index).last(48);
  std::string handle, many, handles;
  append_varint(handle, *take_varint(footer));
  append_varint(handle, *take_varint(footer));
  for (int i = 0; i < 100; ++i) many += std::string(2, '\0') + static_cast<char>(handle.size()) + handle;
  io::append_le(many, std::uint32_t{0});
  io::append_le(many, std::uint32_t{1});
  const std::string start = index.substr(0, index.size() - 48);
  const std::string block = many + '\0';
  std::string overlapping = start + block;
  io::append_le(overlapping, io::mask_crc(io::crc32c(as_bytes(block))));
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{0}, start.size(), many.size()})
    append_varint(handles, number);
  handles.resize(40);
  expect_error(overlapping + handles + index.substr(index.size() - 8), "blocks overlap");
}

// Each pair of slices is compared, so a small index could request any amount of work. Slices without elements do not
// count.
TEST_F(FormatsTest, ManySlicesOfBundles) {
  const auto sliced = [&](int empty, int single) {
    const Shape shape{empty + single};
    BundleWriter writer(at("c"));
    for (int i = 0; i < empty; ++i) writer.add_slice("a", shape, {i}, floats({0}, {}));
    if (empty > 0) writer.add_slice("a", shape, {0}, floats({empty}, std::vector<float>(empty, 1)));
    for (int i = 0; i < single; ++i) writer.add_slice("a", shape, {empty + i}, floats({1}, {2}));
    writer.finish();
    return BundleReader(at("c")).read("a").bytes.size();
  };
  EXPECT_EQ(sliced(60000, 3), 60003 * sizeof(float));
  try {
    sliced(0, 20001);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has 20001 slices, at most 20000"), std::string::npos) << error.what();
  }
}

// Positions whose ends do not fit 64 bits.
TEST_F(FormatsTest, PlacesOfSlicesOfBundles) {
  const auto number = [](int field, std::int64_t value) {
    std::string out(1, static_cast<char>(field << 3));
    append_varint(out, static_cast<std::uint64_t>(value));
    return out;
  };
  const auto message = [](int field, const std::string& content) {
    std::string out(1, static_cast<char>(field << 3 | 2));
    append_varint(out, content.size());
    return out + content;
  };
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(), kMost = -(kLeast + 1);
  for (const auto& [start, length] : {std::pair{kLeast, kMost},
                                      {kLeast, kLeast},
                                      {kMost, kMost},
                                      {kLeast, -1},
                                      {kMost, -1},
                                      {std::int64_t{1}, kMost},
                                      {std::int64_t{-1}, std::int64_t{3}}}) {
    const std::string extent = number(1, start) + (length == -1 ? std::string() : number(2, length));
    // DT_FLOAT, the shape (2), and one slice.
    const std::string entry = number(1, 1) + message(2, message(2, number(1, 2))) + message(7, message(1, extent));
    TableBuilder table;
    table.add("", number(1, 1) + message(3, number(1, 1)));
    table.add("a", entry);
    io::write_atomically(bundle_index_path(at("c")), table.finish());
    try {
      BundleReader(at("c")).read("a");
      ADD_FAILURE() << start << " " << length;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("a slice passes its shape (2,)"), std::string::npos) << error.what();
    }
  }
}

// An older bundle of the same prefix stays whole until the new one is.
TEST_F(FormatsTest, BundleReplacementSurvivesEveryFault) {
  using Fault = io::FaultyFileSystem::Fault;
  for (const Fault fault : {Fault::kFail, Fault::kTear, Fault::kDie}) {
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 100);
      for (const auto& name : files_.list(folder_)) files_.remove_file(at(name));
      BundleWriter old(at("c"));
      old.add("v", floats({1}, {1}));
      old.finish();
      io::FaultyFileSystem faulty(files_, fault, n);
      bool failed = false;
      try {
        BundleWriter writer(at("c"), faulty);
        writer.add("v", floats({1}, {2}));
        writer.finish();
      } catch (const Error&) {
        failed = true;
      }
      float value = 0;
      const TensorData v = BundleReader(at("c")).read("v");
      std::memcpy(&value, v.bytes.data(), sizeof value);
      EXPECT_TRUE(value == 2 || (failed && value == 1));
      if (failed) continue;
      EXPECT_EQ(files_.list(folder_), (std::vector<std::string>{"c.data-00000-of-00001", "c.index"}));
      break;
    }
  }
}

TEST_F(FormatsTest, NpyAndNpz) {
  const auto a = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  write_npy(at("a.npy"), a);
  expect_same(read_npy(at("a.npy")), a);
  NpzWriter writer(at("b.npz"));
  writer.add("x", a);
  writer.add("s", strings({"ab", ""}));
  TensorData half = a;
  half.dtype = DType::kBFloat16;
  EXPECT_THROW(writer.add("h", half), Error);
  writer.finish();
  const NpzReader reader(at("b.npz"));
  expect_same(reader.read("x"), a);
  expect_same(reader.read("s"), strings({"ab", ""}));
  EXPECT_EQ(detect(at("b.npz")).kind, Kind::kNpz);
  EXPECT_EQ(detect(at("a.npy")).kind, Kind::kNpy);
  for (const std::size_t rank : {64U, 65U}) {
    const TensorData deep = floats(Shape(std::vector<std::int64_t>(rank, 1)), {3});
    if (rank == 64) {
      write_npy(at("deep.npy"), deep);
      expect_same(read_npy(at("deep.npy")), deep);
    } else {
      EXPECT_THROW(write_npy(at("deep.npy"), deep), Error);
    }
  }
  damage(at("a.npy"), [&] { read_npy(at("a.npy")); });
  damage(at("b.npz"), [&] {
    const NpzReader damaged(at("b.npz"));
    for (const auto& info : damaged.list()) damaged.read(info.name);
  });
}

// Instructions for complex numbers require the alignment of a whole number.
TEST_F(FormatsTest, ComplexNumbersAreAligned) {
  std::span<std::byte> target;
  TensorData number = TensorData::allocate(DType::kFloat64, Shape{}, target), pair;
  pair = TensorData::allocate(DType::kComplex128, Shape{}, target);
  std::memset(target.data(), 1, target.size());
  write_npy(at("c.npy"), pair);
  BundleWriter writer(at("c"));
  writer.add("a", number);
  writer.add("b", pair);
  writer.finish();
  const std::string text = io::read_text(files_, at("c.npy"));
  alignas(16) std::array<std::byte, 256> image{};
  ASSERT_LE(text.size() + 8, image.size());
  std::memcpy(image.data() + 8, text.data(), text.size());
  const auto owner = std::make_shared<int>(0);
  for (const TensorData& read : {parse_npy(std::span<const std::byte>(image).subspan(8, text.size()), owner, "c"),
                                 BundleReader(at("c")).read("b")}) {
    expect_same(read, pair);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.bytes.data()) % 16, 0u);
  }
}

// Gzipped ones: test_bad_input.py.
TEST_F(FormatsTest, FilesOfDataAreRecognised) {
  const auto kind_of = [&](const std::string& content) {
    std::ofstream(at("data"), std::ios::binary) << content;
    return detect(at("data")).kind;
  };
  const std::string idx("\0\0\x08\x01\0\0\0\x04\1\2\3\4", 12);
  EXPECT_EQ(kind_of(idx), Kind::kIdx);
  EXPECT_EQ(kind_of(idx.substr(0, 5)), Kind::kIdx);
  std::string records = tfrecord("one") + tfrecord("");
  EXPECT_EQ(kind_of(records), Kind::kTFRecord);
  EXPECT_EQ(kind_of(records.substr(0, 14)), Kind::kTFRecord);
  records[0] ^= 1;
  EXPECT_THROW(kind_of(records), Error);
}

TEST_F(FormatsTest, Safetensors) {
  const auto a = floats({2}, {1, 2});
  for (const char* name : {"1", "2"}) {
    SafetensorsWriter writer(at(name), {{"format", "pt"}});
    writer.add(*name == '1' ? "a" : "b", a);
    writer.add(*name == '1' ? "b" : "a", a);
    writer.finish();
  }
  EXPECT_EQ(io::read_text(files_, at("1")), io::read_text(files_, at("2")));
  const SafetensorsReader reader(at("1"));
  expect_same(reader.read("b"), a);
  EXPECT_EQ(reader.metadata().at("format"), "pt");
  EXPECT_EQ(detect(at("1")).kind, Kind::kSafetensors);
  damage(at("1"), [&] {
    const SafetensorsReader damaged(at("1"));
    for (const auto& info : damaged.list()) damaged.read(info.name);
  });
}

TEST(CheckpointGraph, KeysAndRoundTrip) {
  CheckpointGraph graph;
  const int model = graph.add_child(0, "model");
  const int optimizer = graph.add_child(0, "optimizer");
  const int kernel = graph.add_child(model, "a/b.c");
  graph.set_variable(kernel, "dense/kernel");
  graph.add_slot(optimizer, "m", kernel, "Adam/dense/kernel/m");
  graph.add_edge(kernel, "again", model);
  graph.assign_keys();
  const auto again = CheckpointGraph::parse(graph.serialize(), "test");
  ASSERT_EQ(again.nodes.size(), 5u);
  EXPECT_EQ(again.nodes[3].attributes[0].key, "model/a.Sb..c/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(again.nodes[4].attributes[0].key, "model/a.Sb..c/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_TRUE(*again.nodes[0].has_values);
  EXPECT_THROW(CheckpointGraph::parse(std::string("\x0a\x04\x0a\x02\x08\x09", 6), "test"), Error);
}

TEST_F(FormatsTest, CheckpointState) {
  CheckpointState state;
  state.model_checkpoint_path = at("a\"b\\c\t");
  state.all_model_checkpoint_paths = {state.model_checkpoint_path};
  state.all_model_checkpoint_timestamps = {1795226211.6737382};
  write_checkpoint_state(folder_, state);
  EXPECT_EQ(io::read_text(files_, at("checkpoint")),
            "model_checkpoint_path: \"a\\\"b\\\\c\\t\"\nall_model_checkpoint_paths: \"a\\\"b\\\\c\\t\"\n"
            "all_model_checkpoint_timestamps: 1795226211.6737382\n");
  EXPECT_EQ(read_checkpoint_state(folder_)->model_checkpoint_path, state.model_checkpoint_path);
  EXPECT_FALSE(latest_checkpoint(folder_));
  damage(at("checkpoint"), [&] { read_checkpoint_state(folder_); });
}

}  // namespace
}  // namespace lockstep::formats
