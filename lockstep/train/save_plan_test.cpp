#include "lockstep/train/save_plan_internal.h"

#include <chrono>
#include <functional>
#include <map>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/faulty_file_system_internal.h"
#include "lockstep/io/memory_file_system_internal.h"
#include "lockstep/train/shared_save_internal.h"

namespace lockstep::train {
namespace {

PlannedTensor floats(const std::string& key, std::vector<std::int64_t> dims) {
  const Shape shape(std::move(dims));
  return {key, DType::kFloat32, shape, static_cast<std::uint64_t>(*shape.num_elements()) * 4};
}

// Marks every element that a piece covers; all must be covered once.
void expect_one_copy(const SavePlan& plan, const std::vector<PlannedTensor>& tensors) {
  std::vector<std::vector<int>> covered(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    covered[i].resize(static_cast<std::size_t>(*tensors[i].shape.num_elements()));
  std::uint64_t bytes = 0;
  for (const PlannedShard& shard : plan.shards) {
    std::uint64_t of_shard = 0;
    for (const PlannedPiece& piece : shard.pieces) {
      auto& marks = covered[piece.tensor];
      of_shard += piece.bytes;
      if (piece.whole) {
        for (int& mark : marks) ++mark;
        continue;
      }
      std::int64_t first = 0, count = 1;
      for (std::size_t axis = 0; axis < piece.start.size(); ++axis) {
        first = first * tensors[piece.tensor].shape[static_cast<int>(axis)] + piece.start[axis];
        count *= piece.size[axis];
      }
      ASSERT_EQ(piece.bytes, static_cast<std::uint64_t>(count) * 4);
      ASSERT_LE(static_cast<std::size_t>(first + count), marks.size());
      for (std::int64_t k = first; k < first + count; ++k) ++marks[static_cast<std::size_t>(k)];
    }
    EXPECT_EQ(of_shard, shard.bytes);
    bytes += of_shard;
  }
  EXPECT_EQ(bytes, plan.bytes);
  for (const auto& marks : covered) EXPECT_THAT(marks, ::testing::Each(1));
}

TEST(SavePlan, WholeTensorsWhereTheyBalance) {
  std::vector<PlannedTensor> tensors;
  for (int i = 0; i < 40; ++i) tensors.push_back(floats(fmt::format("w{}", i), {100 + i, 100}));
  const SavePlan plan = plan_save(tensors, 4);
  ASSERT_EQ(plan.shards.size(), 4u);
  for (const auto& shard : plan.shards) {
    for (const auto& piece : shard.pieces) EXPECT_TRUE(piece.whole);
    EXPECT_NEAR(static_cast<double>(shard.bytes), static_cast<double>(plan.bytes) / 4,
                static_cast<double>(plan.bytes) / 4 * 0.05 + 4096);
  }
  expect_one_copy(plan, tensors);
}

TEST(SavePlan, ALargeTensorIsCut) {
  const std::vector<PlannedTensor> tensors{floats("a", {3}), floats("kernel", {7, 300, 11}), floats("b", {10}),
                                           floats("c", {})};
  for (const int ranks : {2, 3, 7, 16}) {
    const SavePlan plan = plan_save(tensors, ranks);
    EXPECT_EQ(plan.shards.size(), static_cast<std::size_t>(ranks));
    EXPECT_LE(static_cast<double>(plan.largest_shard()), static_cast<double>(plan.bytes) / ranks * 1.05 + 4096);
    expect_one_copy(plan, tensors);
  }
}

TEST(SavePlan, StringsAreTheFirstRanksAndIdleRanksWriteNoFile) {
  std::vector<PlannedTensor> tensors{floats("a", {2}), {"text", DType::kString, Shape{}, 0}, floats("b", {0, 5})};
  const SavePlan plan = plan_save(tensors, std::vector<int>{3, 5, 9});
  ASSERT_LE(plan.shards.size(), 3u);
  EXPECT_EQ(plan.shards[0].rank, 3);
  EXPECT_EQ(plan.shard_of(4), -1);
  bool found = false;
  for (const auto& piece : plan.shards[0].pieces) found = found || piece.tensor == 1;
  EXPECT_TRUE(found);
  EXPECT_EQ(plan_save({}, 8).shards.size(), 1u);
  EXPECT_THROW(plan_save(tensors, 0), Error);
}

TEST(SavePlan, TheTextNamesRanksFilesAndBytes) {
  const std::vector<PlannedTensor> tensors{floats("a", {1000, 10}), floats("b", {1000, 10})};
  const std::string text = plan_text(plan_save(tensors, 2), tensors, "run/ckpt-1");
  EXPECT_THAT(text, ::testing::HasSubstr("run/ckpt-1: 2 tensors, 80000 bytes, written by 2 of 2 workers"));
  EXPECT_THAT(text, ::testing::HasSubstr("worker 1: run/ckpt-1.data-00001-of-00002: 40000 bytes, 1 tensors"));
  EXPECT_THAT(text, ::testing::HasSubstr("worker 0: run/ckpt-1.index"));
}

// A model such as people train: a few large tensors, many small ones.
std::vector<PlannedTensor> network(std::mt19937& random, int layers) {
  std::vector<PlannedTensor> tensors;
  const std::vector<std::int64_t> widths{64, 128, 256, 512, 1024};
  for (int i = 0; i < layers; ++i) {
    const std::int64_t in = widths[random() % widths.size()], out = widths[random() % widths.size()];
    for (const char* slot : {"", "m", "v"}) {
      tensors.push_back(floats(fmt::format("layer{}/kernel{}", i, slot), {in, out}));
      tensors.push_back(floats(fmt::format("layer{}/bias{}", i, slot), {out}));
    }
  }
  tensors.push_back(floats("embedding", {50000, 768}));
  return tensors;
}

TEST(SavePlan, BalanceUpTo4096Ranks) {
  std::mt19937 random(7);
  const auto tensors = network(random, 200);
  for (int ranks = 1; ranks <= 4096; ranks *= 2) {
    const auto start = std::chrono::steady_clock::now();
    const SavePlan plan = plan_save(tensors, ranks);
    EXPECT_LE(static_cast<double>(plan.largest_shard()), static_cast<double>(plan.bytes) / ranks * 1.05 + 4096)
        << ranks;
    std::uint64_t bytes = 0;
    for (const auto& shard : plan.shards) bytes += shard.bytes;
    EXPECT_EQ(bytes, plan.bytes);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  }
}

// Tensors of which each rank has a range, next to whole ones: ranks write what they have, all about equally much.
TEST(SavePlan, RangesAreWrittenByTheirRanks) {
  for (const std::vector<int>& ranks : {std::vector<int>{0, 1, 2, 3}, {0}, {0, 2}}) {
    std::vector<PlannedTensor> tensors = {floats("w", {100, 300}), floats("m", {100, 300}), floats("b", {9}),
                                          floats("v", {100, 300})};
    for (const std::size_t i : {1, 3}) tensors[i].ends = {28000, 60004, 90008, 120000};
    const SavePlan plan = plan_save(tensors, ranks);
    expect_one_copy(plan, tensors);
    const std::uint64_t share = plan.bytes / ranks.size();
    EXPECT_LT(plan.largest_shard(), share + (ranks.size() == 2 ? share / 5 : share / 20 + 4096));
    for (const PlannedShard& shard : plan.shards) {
      for (const PlannedPiece& piece : shard.pieces) {
        if (tensors[piece.tensor].ends.empty()) {
          EXPECT_EQ(piece.source, -1);
        } else if (piece.source == -1) {
          const auto& ends = tensors[piece.tensor].ends;
          const auto rank = static_cast<std::size_t>(shard.rank);
          const auto begin =
              static_cast<std::size_t>(piece.start.empty() ? 0 : (piece.start[0] * 300 + piece.start[1]) * 4);
          EXPECT_GE(begin, rank == 0 ? 0 : ends[rank - 1]);
          EXPECT_LE(begin + piece.bytes, ends[rank]);
        } else {
          EXPECT_THAT(ranks, ::testing::Not(::testing::Contains(piece.source)));
        }
      }
    }
  }
}

// TensorFlow reads slices of some dtypes only.
TEST(SavePlan, OtherDtypesStayWhole) {
  for (const auto& [dtype, whole] :
       {std::pair(DType::kFloat16, true), {DType::kUInt16, true}, {DType::kInt16, false}}) {
    const std::vector<PlannedTensor> tensors = {floats("small", {30}), {"large", dtype, Shape{90000}, 180000}};
    for (const SavePlan& plan : {plan_save(tensors, 3), plan_files(tensors, 60000)}) {
      std::size_t pieces = 0;
      for (const PlannedShard& shard : plan.shards) pieces += shard.pieces.size();
      EXPECT_EQ(pieces == 2, whole) << dtype_name(dtype);
    }
  }
}

TEST(SavePlan, FilesOfASize) {
  std::vector<PlannedTensor> tensors = {floats("scalar", {}), floats("cube", {7, 5, 3}), floats("none", {0, 4}),
                                        floats("matrix", {50, 3}), floats("vector", {90})};
  for (const std::uint64_t size : {1, 4, 12, 63, 100, 700, 5000}) {
    const SavePlan plan = plan_files(tensors, size);
    expect_one_copy(plan, tensors);
    EXPECT_LE(plan.largest_shard(), std::max<std::uint64_t>(size, 4)) << size;
    // The last row of a block, or element, that does not fit is left for the next file.
    for (std::size_t s = 0; s + 1 < plan.shards.size(); ++s)
      EXPECT_GT(plan.shards[s].bytes + std::max<std::uint64_t>(size / 32, 4), size) << size;
  }
  tensors.push_back({"text", DType::kString, Shape{2}, 90});
  tensors.push_back(floats("last", {2}));
  const SavePlan plan = plan_files(tensors, 50);
  EXPECT_EQ(plan.largest_shard(), 90u);
  EXPECT_EQ(plan.shards.back().bytes, 8u);
}

// ---- the commit: what all ranks do to one folder, one after the other ----

formats::NamedTensors numbers(int version) {
  formats::NamedTensors contents;
  for (int i = 0; i < 30; ++i) {
    const Tensor value = Tensor::full(Shape{40 + i, 9}, 1000 * version + i);
    contents.emplace_back(fmt::format("v{}", i), value.to_data());
  }
  contents.emplace_back("text", Tensor::strings({"version " + std::to_string(version)}, Shape{}).to_data());
  return contents;
}

void save(const formats::NamedTensors& contents, int ranks, const std::string& prefix, io::FileSystem& files) {
  auto tensors = planned_tensors({contents, {}});
  for (std::size_t i = 0; i < tensors.size(); i += 3) {  // of which each rank has a range
    for (int rank = 1; rank <= ranks && tensors[i].dtype != DType::kString; ++rank)
      tensors[i].ends.push_back(tensors[i].bytes / 4 * static_cast<std::uint64_t>(rank) /
                                static_cast<std::uint64_t>(ranks) * 4);
  }
  const SavePlan plan = plan_save(tensors, ranks);
  io::make_directories(files, io::parent_directory(prefix));
  const int count = formats::unused_shard_count(prefix, static_cast<int>(plan.shards.size()), files);
  std::vector<std::unique_ptr<formats::BundleShard>> shards;
  std::vector<WrittenShard> written;
  for (std::size_t s = 0; s < plan.shards.size(); ++s) {
    shards.push_back(write_shard(plan, s, count, tensors, pieces_of(plan, s, contents), prefix, files));
    written.push_back(
        {shards[s]->file().temporary_path(), formats::BundleEntries::parse(shards[s]->entries().serialize(), "test")});
  }
  commit_shards(prefix, count, std::move(written), files);
}

void save_in_files(const formats::NamedTensors& contents, std::int64_t size, const std::string& prefix,
                   io::FileSystem& files) {
  write_checkpoint({contents, {}}, prefix, experimental::MaxShardSizePolicy(size), files);
}

// The version of a folder's checkpoint, whose tensors are all of one version; 0 for none.
int version_of(const std::string& prefix, io::FileSystem& files) {
  if (!files.stat(formats::bundle_index_path(prefix))) return 0;
  const formats::BundleReader reader(prefix, files);
  const std::string text = reader.read("text").strings[0];
  const int version = std::stoi(text.substr(8));
  for (const auto& [key, data] : numbers(version)) {
    if (data.dtype == DType::kString) continue;
    EXPECT_EQ(Tensor::from_data(reader.read(key)).to_vector<float>(), Tensor::from_data(data).to_vector<float>())
        << key;
  }
  return version;
}

TEST(SharedCommit, AllRanksUpTo4096) {
  for (const int ranks : {1, 2, 7, 64, 513, 4096}) {
    io::MemoryFileSystem files;
    save(numbers(1), ranks, "/run/ckpt-1", files);
    EXPECT_EQ(version_of("/run/ckpt-1", files), 1) << ranks;
  }
}

TEST(SharedCommit, FilesOfASize) {
  for (const std::int64_t size : {100, 1000, 5000, 1 << 20}) {
    io::MemoryFileSystem files;
    save_in_files(numbers(1), size, "/run/ckpt", files);
    EXPECT_EQ(version_of("/run/ckpt", files), 1) << size;
    for (const std::string& name : files.list("/run")) {
      if (name.find(".data-") == std::string::npos) continue;
      // A string has its length and a checksum, too.
      EXPECT_LE(files.stat("/run/" + name)->size, static_cast<std::uint64_t>(size) + 5) << name;
    }
  }
}

using Save = std::function<void(const formats::NamedTensors&, int, const std::string&, io::FileSystem&)>;

// `save` is cut off everywhere, writing files that depend on its number.
void expect_old_or_new(const Save& save) {
  using Fault = io::FaultyFileSystem::Fault;
  for (const Fault fault : {Fault::kFail, Fault::kTear, Fault::kDie}) {
    for (const bool replaces : {false, true}) {
      bool struck = true;
      for (int at = 1; struck; at += at < 60 ? 1 : 7) {
        io::MemoryFileSystem files;
        if (replaces) save(numbers(1), 3, "/run/ckpt", files);
        const auto before = replaces ? files.list("/run") : std::vector<std::string>{};
        io::FaultyFileSystem faulty(files, fault, at);
        bool failed = false;
        try {
          save(numbers(2), 5, "/run/ckpt", faulty);
        } catch (const Error&) {
          failed = true;
        }
        struck = faulty.struck();
        const int version = version_of("/run/ckpt", files);
        EXPECT_TRUE(version == 2 || (failed && version == (replaces ? 1 : 0))) << at << " gave version " << version;
        if (failed && fault == Fault::kFail && version != 2 && files.stat("/run")) {
          EXPECT_EQ(files.list("/run"), before) << at;
        }
        save(numbers(3), 4, "/run/ckpt", files);
        EXPECT_EQ(version_of("/run/ckpt", files), 3);
      }
    }
  }
}

TEST(SharedCommit, OldOrNewWhereverItStops) { expect_old_or_new(save); }

TEST(SharedCommit, OldOrNewFilesOfASizeWhereverItStops) {
  expect_old_or_new([](const formats::NamedTensors& contents, int number, const std::string& prefix,
                       io::FileSystem& files) { save_in_files(contents, 60000 / number, prefix, files); });
}

}  // namespace
}  // namespace lockstep::train
