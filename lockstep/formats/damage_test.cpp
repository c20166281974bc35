// A small artifact of each format with checksums, damaged in every bit and cut at every length: what is read is an
// error or what was written.
#include <gtest/gtest.h>

#include <functional>

#include "lockstep/base/error.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/memory_file_system_internal.h"

namespace lockstep::formats {
namespace {

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

// Other files of the artifact stay whole.
void expect_every_damage_is_noticed(io::MemoryFileSystem& files, const std::string& path, const Read& read) {
  const std::string whole = bytes_of(files, path);
  const std::string content = read(files);
  std::size_t silent = 0;
  std::size_t errors = 0;
  const auto attempt = [&](std::string bytes, const std::string& what) {
    files.put(path, std::move(bytes));
    try {
      if (read(files) != content && ++silent < 10) ADD_FAILURE() << path << ": other content after " << what;
    } catch (const Error&) {
      ++errors;
    }
  };
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::size_t before = errors;
    attempt(whole.substr(0, size), "a cut to " + std::to_string(size));
    EXPECT_EQ(errors, before + 1) << path << " cut to " << size;
  }
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    attempt(std::move(bytes), "bit " + std::to_string(bit % 8) + " of byte " + std::to_string(bit / 8));
  }
  EXPECT_EQ(silent, 0u);
  files.put(path, whole);
  EXPECT_EQ(read(files), content);
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

// Without checksums a cut is noticed all the same.
TEST(DamageTest, CutsOfFormatsWithoutChecksums) {
  io::MemoryFileSystem files;
  {
    SafetensorsWriter writer("a.safetensors", {}, files);
    write_small(writer);
  }
  write_npy("a.npy", small_tensor(1, {3}), files);
  const auto cut = [&](const std::string& path, const std::function<void()>& read) {
    const std::string whole = bytes_of(files, path);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      files.put(path, whole.substr(0, size));
      EXPECT_THROW(read(), Error) << path << " cut to " << size;
    }
  };
  cut("a.safetensors", [&] { content_of(SafetensorsReader("a.safetensors", files)); });
  cut("a.npy", [&] { read_npy("a.npy", files); });
}

}  // namespace
}  // namespace lockstep::formats
