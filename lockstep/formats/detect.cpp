#include "lockstep/formats/detect.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/idx.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/record_file_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/formats/tensor_table_internal.h"
#include "lockstep/formats/varint_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/inflate_internal.h"
#include "lockstep/io/paths_internal.h"
#include "lockstep/io/zip.h"

namespace lockstep::formats {
namespace {

constexpr std::string_view kKnown =
    "known are .keras, .h5, SavedModel folders, GraphDefs (.pb, .pbtxt), MetaGraphDefs (.meta), "
    "TensorFlow checkpoints, safetensors, npy, npz, IDX and TFRecord";
constexpr std::string_view kIndexSuffix = ".index";

Detected detect_folder(const std::string& path, io::FileSystem& files) {
  const auto has = [&](const char* name) { return io::is_file(files, io::join_path(path, name)); };
  if (saved_model_file(path, files)) return {Kind::kSavedModel, path};
  if (has("config.json") && has("model.weights.h5")) return {Kind::kKeras, path};
  if (has("checkpoint")) {
    const auto newest = latest_checkpoint(path, kCheckpointStateFile, files);
    if (newest) return {Kind::kTfCheckpoint, *newest};
    throw_not_found(fmt::format(
        "{}: the checkpoint that its state file names is not there; give a prefix such as {}/ckpt-1", path, path));
  }
  std::vector<std::string> versions;
  for (const std::string& name : files.list(path)) {
    const std::string inside = io::join_path(path, name);
    if (saved_model_file(inside, files)) versions.push_back(inside);
  }
  std::sort(versions.begin(), versions.end());
  if (!versions.empty()) {
    throw_invalid_argument(fmt::format("{}: the folder has no model itself, but SavedModels in it: give {}", path,
                                       fmt::join(versions, " or ")));
  }
  if (files.stat(io::join_path(path, "variables")) || has("fingerprint.pb")) {
    throw_invalid_argument(
        fmt::format("{}: a SavedModel without its saved_model.pb: the folder was copied or exported in part; copy it "
                    "again",
                    path));
  }
  throw_invalid_argument(fmt::format(
      "{}: a folder of no known kind (no saved_model.pb, config.json or checkpoint in it); {}", path, kKnown));
}

Kind detect_zip(const std::string& path, io::FileSystem& files) {
  const io::ZipReader zip(path, files);
  if (zip.find("config.json") != nullptr) return Kind::kKeras;
  const auto& members = zip.members();
  const bool arrays =
      std::all_of(members.begin(), members.end(), [](const auto& m) { return m.name.ends_with(".npy"); });
  if (arrays) return Kind::kNpz;
  throw_invalid_argument(
      fmt::format("{}: a zip archive without config.json (not a Keras model) and not of arrays only (not npz)", path));
}

// A whole model of Keras 2 has its config in an attribute of the root.
Kind detect_hdf5(std::span<const std::byte> bytes, const std::string& path) {
  return Hdf5File::has_root_attribute(bytes, "model_config", path) ? Kind::kKerasH5 : Kind::kWeightsH5;
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  const auto size = io::load_le<std::uint64_t>(bytes, 0);
  return size && *size >= 2 && *size <= bytes.size() - 8 && bytes[8] == std::byte{'{'};
}

// Files of data, which may be gzipped.
std::optional<Kind> detect_data(std::span<const std::byte> bytes, const std::string& path) {
  constexpr std::size_t kHead = 16;
  std::array<std::byte, kHead> plain;
  if (io::looks_like_gzip(bytes)) bytes = io::inflate_head(plain, bytes, io::Deflate::kGzip, path);
  if (looks_like_idx(bytes)) return Kind::kIdx;
  if (looks_like_tfrecord(bytes)) return Kind::kTFRecord;
  return std::nullopt;
}

constexpr int kHeadFields = 64;  // of a message, that are looked at

// Takes one field from the front of a protocol buffer. `body` is empty for numbers. False where it is malformed.
bool take_field(std::span<const std::byte>& bytes, std::uint64_t& number, std::span<const std::byte>& body) {
  const auto tag = take_varint(bytes);
  if (!tag) return false;
  number = *tag >> 3;
  body = {};
  if ((*tag & 7) == 0) return take_varint(bytes).has_value();
  if ((*tag & 7) != 2) return false;
  const auto size = take_varint(bytes);
  if (!size || *size > bytes.size()) return false;
  body = bytes.first(*size);
  bytes = bytes.subspan(*size);
  return true;
}

// A node with a name (field 1) and an operation (field 2).
bool looks_like_node(std::span<const std::byte> node) {
  bool has_name = false;
  bool has_op = false;
  std::uint64_t number = 0;
  std::span<const std::byte> body;
  for (int i = 0; i < kHeadFields && !node.empty() && !(has_name && has_op); ++i) {
    if (!take_field(node, number, body)) return false;
    has_name = has_name || (number == 1 && !body.empty());
    has_op = has_op || (number == 2 && !body.empty());
  }
  return has_name && has_op;
}

}  // namespace

// The head of a GraphDef, whose nodes are field 1.
bool looks_like_graph(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kLastField = 5;
  std::uint64_t number = 0;
  std::span<const std::byte> body;
  for (int i = 0; i < kHeadFields && !bytes.empty(); ++i) {
    if (!take_field(bytes, number, body) || number == 0 || number > kLastField) return false;
    if (number == 1) return looks_like_node(body);
  }
  return false;
}

namespace {

// The head of a MetaGraphDef: its MetaInfoDef (field 1), which the first versions did not write, and its GraphDef
// (field 2), which is not empty.
bool looks_like_meta_graph(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  std::span<const std::byte> body;
  if (!take_field(bytes, number, body)) return false;
  if (number == 1 && (body.empty() || !take_field(bytes, number, body))) return false;
  return number == 2 && looks_like_graph(body);
}

// Text with the key `class_name`, in JSON or YAML.
bool looks_like_keras_config(std::span<const std::byte> bytes) {
  constexpr std::size_t kHead = 1 << 20;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kHead));
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text.find('\0') != std::string_view::npos) return false;
  return text.find(text[first] == '{' ? "\"class_name\"" : "class_name:") != std::string_view::npos;
}

// Keras's index of weights in several files; that of safetensors, which has the same key, has another name.
bool looks_like_weights_index(std::span<const std::byte> bytes, const std::string& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return path.ends_with(".weights.json") && text.find("\"weight_map\"") != std::string_view::npos;
}

// The head of a SavedModel message: its version (field 1) and a MetaGraph (field 2) whose own fields 1 and 2 are
// messages.
bool looks_like_saved_model(std::span<const std::byte> bytes) {
  std::uint64_t number = 0;
  std::span<const std::byte> body;
  if (!take_field(bytes, number, body) || number != 1 || !body.empty()) return false;
  if (!take_field(bytes, number, body) || number != 2) return false;
  std::span<const std::byte> meta_graph = body;
  return take_field(meta_graph, number, body) && number == 1 && !body.empty() && take_field(meta_graph, number, body) &&
         number == 2 && !body.empty();
}

// A file that is often taken for a model, and the remedy; empty for others.
std::string_view known_mistake(std::span<const std::byte> bytes) {
  if (const auto mistake = lost_content(bytes); !mistake.empty()) return mistake;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 1024));
  if (text.substr(0, 8).ends_with("TFL3"))
    return "a TensorFlow Lite model, which is not supported; give the model that it was made from";
  if (io::looks_like_gzip(bytes)) return "gzip data; unpack it first";
  if (text.substr(0, 262).ends_with("ustar")) return "a tar archive; unpack it first";
  if (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return "pickled Python data, which is never read, because reading it runs code";
  if (looks_like_saved_model(bytes))
    return "the graph of a SavedModel outside of its folder; name it saved_model.pb, next to the folders variables and "
           "assets, and give the folder";
  return "";
}

}  // namespace

std::string_view kind_name(Kind kind) noexcept {
  switch (kind) {
    case Kind::kKeras: return "keras";
    case Kind::kKerasH5: return "h5";
    case Kind::kWeightsH5: return "weights_h5";
    case Kind::kSavedModel: return "saved_model";
    case Kind::kFrozenGraph: return "graph_def";
    case Kind::kMetaGraph: return "meta_graph";
    case Kind::kTfCheckpoint: return "tf_checkpoint";
    case Kind::kSafetensors: return "safetensors";
    case Kind::kNpy: return "npy";
    case Kind::kNpz: return "npz";
    case Kind::kIdx: return "idx";
    case Kind::kTFRecord: return "tfrecord";
    case Kind::kKerasConfig: return "keras_config";
  }
  return "unknown";
}

Detected detect(const std::string& path, io::FileSystem& files) {
  const auto stat = files.stat(path);
  if (!stat) {
    if (checkpoint_exists(path, files)) return {Kind::kTfCheckpoint, path};
    throw_not_found(fmt::format("{}: no such file, folder or checkpoint prefix", path));
  }
  if (stat->kind == io::FileStat::Kind::kDirectory) return detect_folder(path, files);
  const auto file = files.map(path);
  const auto bytes = file->bytes();
  if (io::looks_like_zip(bytes)) return {detect_zip(path, files), path};
  if (Hdf5File::recognise(bytes)) return {detect_hdf5(bytes, path), path};
  if (looks_like_npy(bytes)) return {Kind::kNpy, path};
  if (looks_like_table(bytes)) {
    if (!path.ends_with(kIndexSuffix)) return {Kind::kTfCheckpoint, path};
    return {Kind::kTfCheckpoint, path.substr(0, path.size() - kIndexSuffix.size())};
  }
  if (looks_like_safetensors(bytes)) return {Kind::kSafetensors, path};
  if (const auto kind = detect_data(bytes, path)) return {*kind, path};
  if (looks_like_graph_text(bytes)) return {Kind::kFrozenGraph, path};
  if (looks_like_meta_graph_text(bytes) || looks_like_meta_graph(bytes)) return {Kind::kMetaGraph, path};
  if (looks_like_weights_index(bytes, path)) return {Kind::kWeightsH5, path};
  if (looks_like_keras_config(bytes)) return {Kind::kKerasConfig, path};
  if (looks_like_graph(bytes)) return {Kind::kFrozenGraph, path};
  if (io::is_file(files, bundle_index_path(path))) return {Kind::kTfCheckpoint, path};
  const bool saved_model_bytes = path.ends_with("saved_model.pb") && looks_like_saved_model(bytes);
  if (saved_model_bytes || looks_like_saved_model_text(bytes))
    throw_invalid_argument(
        fmt::format("{}: the graph of a SavedModel; give its folder, {}", path, io::parent_directory(path)));
  if (const auto mistake = known_mistake(bytes); !mistake.empty())
    throw_invalid_argument(fmt::format("{}: {}", path, mistake));
  throw_invalid_argument(
      fmt::format("{}: unknown kind of file, or too damaged to recognize ({} bytes); {}", path, bytes.size(), kKnown));
}

}  // namespace lockstep::formats
