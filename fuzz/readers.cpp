// One libFuzzer target for each reader of a file format: the program is fuzz_<reader>. A reader may refuse bytes with
// lockstep::Error; anything else that it does (a crash, a hang, another exception, memory beyond libFuzzer's limit) is
// a finding. Readers of several files get the bytes divided among them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/readers.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/yaml.h"
#include "lockstep/formats/audit.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/idx.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/saved_model_info_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"

namespace {

using namespace lockstep;
using Bytes = std::span<const std::byte>;

class HeldBytes final : public io::FileBytes {
 public:
  explicit HeldBytes(Bytes bytes) { bytes_ = bytes; }
};

// Files in memory that can only be read.
class MemoryFiles final : public io::FileSystem {
 public:
  explicit MemoryFiles(std::map<std::string, Bytes> files) : files_(std::move(files)) {}

  std::shared_ptr<const io::FileBytes> map(const std::string& path) override {
    const auto found = files_.find(path);
    if (found == files_.end()) throw_not_found(path);
    return std::make_shared<HeldBytes>(found->second);
  }
  std::optional<io::FileStat> stat(const std::string& path) override {
    if (const auto found = files_.find(path); found != files_.end()) {
      return io::FileStat{io::FileStat::Kind::kFile, found->second.size(), 0644};
    }
    if (list(path).empty()) return std::nullopt;
    return io::FileStat{io::FileStat::Kind::kDirectory, 0, 0755};
  }
  std::vector<std::string> list(const std::string& directory) override {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : files_) {
      if (!path.starts_with(directory + "/")) continue;
      const auto rest = path.substr(directory.size() + 1);
      const auto name = rest.substr(0, rest.find('/'));
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names;
  }
  bool is_link(const std::string&) override { return false; }
  std::string resolve(const std::string& path) override { return path; }

  std::unique_ptr<io::WritableFile> create(const std::string& path, std::uint32_t) override { refuse(path); }
  void rename(const std::string& path, const std::string&) override { refuse(path); }
  bool exchange(const std::string& path, const std::string&) override { refuse(path); }
  bool link(const std::string& path, const std::string&) override { refuse(path); }
  void remove_file(const std::string& path) override { refuse(path); }
  void remove_directory(const std::string& path) override { refuse(path); }
  void copy_permissions(const std::string& path, const io::FileStat&) override { refuse(path); }
  void make_directory(const std::string& path) override { refuse(path); }
  void sync_path(const std::string& path) override { refuse(path); }

 private:
  [[noreturn]] static void refuse(const std::string& path) {
    std::fprintf(stderr, "a reader writes %s\n", path.c_str());
    std::abort();
  }
  std::map<std::string, Bytes> files_;
};

// Runs `body`, to which an Error is a fine end.
template <typename Body>
void attempt(Body body) {
  try {
    body();
  } catch (const Error&) {
  }
}

// Touches every byte that was read, so that a sanitizer sees memory that is not there.
void touch(const formats::TensorData& tensor) {
  volatile unsigned sum = 0;
  for (const auto byte : tensor.bytes) sum = sum + static_cast<unsigned>(byte);
  for (const auto& text : tensor.strings) sum = sum + static_cast<unsigned>(text.size());
}

template <typename Reader>
void read_all(const Reader& reader) {
  for (const auto& info : reader.list()) attempt([&] { touch(reader.read(info.name)); });
}

void read_nodes(const formats::Hdf5File& file, const formats::Hdf5Node& node) {
  if (node.kind == formats::Hdf5Node::Kind::kDataset) attempt([&] { touch(file.read(node)); });
  for (const auto& child : node.children) read_nodes(file, child);
}

void hdf5(Bytes bytes) {
  const formats::Hdf5File file(bytes, nullptr, "input");
  read_nodes(file, file.root());
}

void keras_archive(Bytes bytes) {
  MemoryFiles files({{"input.keras", bytes}});
  const auto archive = formats::KerasArchive::open("input.keras", files);
  for (const auto& path : archive.assets()) attempt([&] { archive.asset(path); });
  read_all(archive.weights());
}

void keras_h5(Bytes bytes) {
  MemoryFiles files({{"input.h5", bytes}});
  read_all(formats::LegacyH5::open("input.h5", files));
}

void npy(Bytes bytes) { touch(formats::parse_npy(bytes, nullptr, "input")); }

void npz(Bytes bytes) {
  MemoryFiles files({{"input.npz", bytes}});
  read_all(formats::NpzReader("input.npz", files));
}

void safetensors(Bytes bytes) {
  MemoryFiles files({{"input.safetensors", bytes}});
  read_all(formats::SafetensorsReader("input.safetensors", files));
}

// The first two bytes are the size of the index; the rest is the shard.
void bundle(Bytes bytes) {
  if (bytes.size() < 2) return;
  const auto size = std::to_integer<std::size_t>(bytes[0]) << 8 | std::to_integer<std::size_t>(bytes[1]);
  const auto rest = bytes.subspan(2);
  const auto index = rest.first(std::min(size, rest.size()));
  MemoryFiles files({{"input.index", index}, {"input.data-00000-of-00001", rest.subspan(index.size())}});
  read_all(formats::BundleReader("input", files));
}

void saved_model(Bytes bytes) {
  MemoryFiles files({{"input/saved_model.pb", bytes}});
  formats::read_saved_model_info("input", files);
}

void frozen_graph(Bytes bytes) {
  MemoryFiles files({{"input.pb", bytes}});
  formats::read_frozen_graph_info("input.pb", files);
}

// A graph, a MetaGraph or a SavedModel in protobuf's text format.
void graph_text(Bytes bytes) {
  MemoryFiles files({{"input.pbtxt", bytes}, {"input/saved_model.pbtxt", bytes}});
  attempt([&] { formats::read_frozen_graph_info("input.pbtxt", files); });
  attempt([&] { formats::read_meta_graph_info("input.pbtxt", files); });
  formats::read_saved_model_info("input", files);
}

void checkpoint_state(Bytes bytes) {
  MemoryFiles files({{"input/checkpoint", bytes}});
  formats::read_checkpoint_state("input", formats::kCheckpointStateFile, files);
}

// The first byte selects the format and the compression.
void records(Bytes bytes) {
  if (bytes.empty()) return;
  const unsigned kind = std::to_integer<unsigned>(bytes[0]);
  MemoryFiles files({{"input", bytes.subspan(1)}});
  formats::RecordReader reader("input", kind & 1 ? formats::RecordFormat::kTextLine : formats::RecordFormat::kTFRecord,
                               static_cast<formats::RecordCompression>((kind >> 1) % 3), files);
  while (reader.next()) {
  }
}

// Detection of the kind, and all that an audit reads of it.
void audit(Bytes bytes) {
  MemoryFiles files({{"input", bytes}});
  attempt([&] { formats::audit("input", files); });
  MemoryFiles folder({{"input/saved_model.pb", bytes}, {"input/keras_metadata.pb", bytes}});
  attempt([&] { formats::audit("input", folder); });
}

// A text that was accepted is written, and read again.
void json(Bytes bytes) {
  const Json value = parse_json(io::as_text(bytes), "input");
  const std::string text = dump_json(value);
  if (dump_json(parse_json(text, "what was written")) != text) std::abort();
}

// The configs of Keras 1 and 2. What was read is JSON.
void yaml(Bytes bytes) {
  const std::string text = dump_json(parse_yaml(io::as_text(bytes), "input"));
  if (dump_json(parse_json(text, "what was written")) != text) std::abort();
}

void idx(Bytes bytes) {
  MemoryFiles files({{"input", bytes}});
  touch(formats::read_idx("input", files));
}

struct Named {
  const char* name;
  void (*read)(Bytes);
};
constexpr Named kReaders[] = {
    {"hdf5", hdf5},
    {"keras_archive", keras_archive},
    {"keras_h5", keras_h5},
    {"npy", npy},
    {"npz", npz},
    {"safetensors", safetensors},
    {"bundle", bundle},
    {"saved_model", saved_model},
    {"frozen_graph", frozen_graph},
    {"graph_text", graph_text},
    {"checkpoint_state", checkpoint_state},
    {"idx", idx},
    {"records", records},
    {"audit", audit},
    {"json", json},
    {"yaml", yaml},
};

}  // namespace

std::vector<std::string> reader_names() {
  std::vector<std::string> names;
  for (const Named& reader : kReaders) names.push_back(reader.name);
  return names;
}

void run_reader(const std::string& name, Bytes bytes) {
  for (const Named& reader : kReaders) {
    if (name == reader.name) attempt([&] { reader.read(bytes); });
  }
}
