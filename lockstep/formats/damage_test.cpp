// A small artifact of each format, damaged in every bit and cut at every length: reading gives an error or what was
// written, as far as the format has checksums.
#include <functional>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/idx.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/proto/fingerprint.pb.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/saved_model_fingerprint_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/checksum_internal.h"
#include "lockstep/io/fingerprint_internal.h"
#include "lockstep/io/memory_file_system_internal.h"

namespace lockstep::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// All that a reader gives, as text.
std::string content_of(const TensorReader& reader) {
  std::string content;
  for (const TensorInfo& info : reader.list()) {
    const TensorData tensor = reader.read(info.name);
    content += info.name + " " + std::string(dtype_name(tensor.dtype)) + " " + tensor.shape.to_string() + " ";
    content += io::as_text(tensor.bytes);
    for (const std::string& text : tensor.strings) content += text + "\n";
  }
  return content;
}

std::string keras_content(io::FileSystem& files) {
  const auto archive = KerasArchive::open("m.keras", files);
  std::string content = dump_json(archive.config()) + dump_json(archive.metadata()) + content_of(archive.weights());
  for (const std::string& asset : archive.assets()) content += asset + archive.asset(asset);
  return content;
}

TensorData small_tensor(float first, Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()), first);
  return TensorData::copy_of(DType::kFloat32, shape, std::as_bytes(std::span(values)));
}

void write_small(TensorWriter& writer) {
  writer.add("a", small_tensor(1, {2}));
  writer.add("b", small_tensor(2, {}));
  writer.finish();
}

std::string bytes_of(io::FileSystem& files, const std::string& path) {
  return std::string(io::as_text(files.map(path)->bytes()));
}

using Read = std::function<std::string(io::FileSystem&)>;

struct Damage {
  std::size_t errors = 0;
  std::size_t harmless = 0;        // the same content
  std::vector<std::size_t> other;  // bits or sizes that gave other content
};

// Reads the artifact with each version of one of its files; the others stay whole.
class Damages {
 public:
  Damages(io::MemoryFileSystem& files, std::string path, Read read)
      : files_(files),
        path_(std::move(path)),
        read_(std::move(read)),
        whole_(bytes_of(files, path_)),
        content_(read_(files)) {}
  ~Damages() { files_.put(path_, whole_); }

  Damage cuts() {
    Damage damage;
    for (std::size_t size = 0; size < whole_.size(); ++size) attempt(whole_.substr(0, size), size, damage);
    return damage;
  }
  Damage flips() {
    Damage damage;
    for (std::size_t bit = 0; bit < 8 * whole_.size(); ++bit) {
      std::string bytes = whole_;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
      attempt(std::move(bytes), bit, damage);
    }
    std::cout << path_ << ": " << 8 * whole_.size() << " bits flipped: " << damage.errors << " errors, "
              << damage.harmless << " times the same content, " << damage.other.size() << " times another\n";
    return damage;
  }

 private:
  void attempt(std::string bytes, std::size_t at, Damage& damage) {
    files_.put(path_, std::move(bytes));
    try {
      if (read_(files_) == content_) {
        ++damage.harmless;
      } else {
        damage.other.push_back(at);
      }
    } catch (const Error&) {
      ++damage.errors;
    }
  }

  io::MemoryFileSystem& files_;
  std::string path_;
  Read read_;
  std::string whole_;
  std::string content_;
};

void expect_every_damage_is_noticed(io::MemoryFileSystem& files, const std::string& path, const Read& read) {
  Damages damages(files, path, read);
  const Damage cuts = damages.cuts();
  EXPECT_EQ(cuts.harmless, 0u) << path;
  EXPECT_THAT(cuts.other, IsEmpty()) << path;
  EXPECT_THAT(damages.flips().other, IsEmpty()) << path;
}

TEST(DamageTest, KerasArchive) {
  KerasArchivePlan plan;
  plan.config = Json{{"class_name", "Sequential"}};
  plan.weights.groups = {{"vars", "s"}};
  plan.weights.add("vars/0", small_tensor(1, {2}));
  plan.assets.push_back({"vocabulary.txt", "a"});
  io::MemoryFileSystem files;
  write_keras_archive("m.keras", plan, files);
  expect_every_damage_is_noticed(files, "m.keras", keras_content);
}

TEST(DamageTest, Npz) {
  io::MemoryFileSystem files;
  NpzWriter writer("a.npz", files);
  write_small(writer);
  expect_every_damage_is_noticed(files, "a.npz",
                                 [](io::FileSystem& each) { return content_of(NpzReader("a.npz", each)); });
}

TEST(DamageTest, TensorBundle) {
  io::MemoryFileSystem files;
  {
    BundleWriter writer("ckpt", files);
    write_small(writer);
  }
  const Read read = [](io::FileSystem& each) { return content_of(BundleReader("ckpt", each)); };
  expect_every_damage_is_noticed(files, "ckpt.index", read);
  expect_every_damage_is_noticed(files, "ckpt.data-00000-of-00001", read);
}

TEST(DamageTest, SavedModel) {
  io::MemoryFileSystem files;
  const std::string prefix = "model/variables/variables";
  io::make_directories(files, "model/variables");
  {
    BundleWriter writer(prefix, files);
    write_small(writer);
  }
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(1);
  auto* meta = model.add_meta_graphs();
  meta->mutable_meta_info_def()->add_tags("serve");
  auto* node = meta->mutable_graph_def()->add_node();
  node->set_name("x");
  node->set_op("Placeholder");
  auto& signature = (*meta->mutable_signature_def())["serving_default"];
  (*signature.mutable_inputs())["x"].set_name("x:0");
  (*meta->mutable_object_graph_def()->mutable_concrete_functions())["__inference_f_12"].add_bound_inputs(1);
  const std::string bytes = serialize_proto(model, "test");
  files.put("model/saved_model.pb", bytes);
  const std::string print = saved_model_fingerprint(model, bytes, bytes_of(files, bundle_index_path(prefix)));
  files.put("model/fingerprint.pb", print);
  const Read read = [&](io::FileSystem& each) {
    check_saved_model_fingerprint("model", each);
    return bytes_of(each, "model/saved_model.pb") + content_of(BundleReader(prefix, each));
  };
  for (const char* path :
       {"model/saved_model.pb", "model/variables/variables.index", "model/variables/variables.data-00000-of-00001"}) {
    expect_every_damage_is_noticed(files, path, read);
  }
  // Damage of the file itself is an error, or concerns bytes that do not describe the model.
  Damages damages(files, "model/fingerprint.pb", read);
  EXPECT_THAT(damages.cuts().other, IsEmpty());
  EXPECT_THAT(damages.flips().other, IsEmpty());
  // TensorFlow 2.11: without a version, with the fingerprint of the graph for that of the file, and without the names
  // of signatures.
  tensorflow::FingerprintDef old;
  ASSERT_TRUE(old.ParseFromString(print));
  old.clear_version();
  old.set_saved_model_checksum(io::fingerprint64(serialize_proto(meta->graph_def(), "test")));
  old.set_signature_def_hash(io::fingerprint_cat(0, io::fingerprint64(serialize_proto(signature, "test"))));
  files.put("model/fingerprint.pb", serialize_proto(old, "test"));
  EXPECT_EQ(read(files), bytes + content_of(BundleReader(prefix, files)));
  node->set_name("y");
  files.put("model/saved_model.pb", serialize_proto(model, "test"));
  EXPECT_THROW(read(files), Error);
}

TEST(DamageTest, Records) {
  const auto framed = [](const std::string& record) {
    std::string out;
    io::append_le(out, static_cast<std::uint64_t>(record.size()));
    io::append_le(out, io::mask_crc(io::crc32c(io::as_bytes(out))));
    out += record;
    io::append_le(out, io::mask_crc(io::crc32c(io::as_bytes(record))));
    return out;
  };
  const std::string first = framed("one");
  io::MemoryFileSystem files;
  files.put("a.tfrecord", first + framed("") + framed("three"));
  Damages damages(files, "a.tfrecord", [](io::FileSystem& each) {
    RecordReader reader("a.tfrecord", RecordFormat::kTFRecord, RecordCompression::kNone, each);
    std::string content;
    while (const auto record = reader.next()) content += *record + "\n";
    return content;
  });
  // The format has no end: a file that was cut between two records is a shorter file.
  EXPECT_THAT(damages.cuts().other, ElementsAre(0, first.size(), first.size() + 16));
  EXPECT_THAT(damages.flips().other, IsEmpty());
}

// Formats without checksums: a cut is noticed all the same, and no damage does more than change values.
TEST(DamageTest, FormatsWithoutChecksums) {
  io::MemoryFileSystem files;
  {
    SafetensorsWriter writer("a.safetensors", {}, files);
    write_small(writer);
  }
  write_npy("a.npy", small_tensor(1, {3}), files);
  files.put("a.idx", std::string("\0\0\x08\x01\0\0\0\x04", 8) + "1234");
  {
    LegacyH5Plan plan;
    WeightsPlan weights;
    weights.add("dense/kernel", small_tensor(1, {2, 2}));
    plan.layers.push_back({"dense", weights.entries});
    write_legacy_h5("a.h5", plan, files);
  }
  const auto array = [](const TensorData& tensor) {
    return tensor.shape.to_string() + std::string(io::as_text(tensor.bytes));
  };
  const std::vector<std::pair<std::string, Read>> formats = {
      {"a.safetensors", [](io::FileSystem& each) { return content_of(SafetensorsReader("a.safetensors", each)); }},
      {"a.npy", [&](io::FileSystem& each) { return array(read_npy("a.npy", each)); }},
      {"a.idx", [&](io::FileSystem& each) { return array(read_idx("a.idx", each)); }},
      {"a.h5", [](io::FileSystem& each) { return content_of(LegacyH5::open("a.h5", each)); }}};
  for (const auto& [path, read] : formats) {
    Damages damages(files, path, read);
    const Damage cuts = damages.cuts();
    EXPECT_EQ(cuts.harmless, 0u) << path;
    EXPECT_THAT(cuts.other, IsEmpty()) << path;
    const Damage flips = damages.flips();
    EXPECT_GT(flips.errors, flips.other.size()) << path;
  }
}

}  // namespace
}  // namespace lockstep::formats
