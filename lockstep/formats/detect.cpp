#include "lockstep/formats/detect.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/proto/graph.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/formats/tensor_table_internal.h"
#include "lockstep/io/bytes_internal.h"
#include "lockstep/io/zip.h"

namespace lockstep::formats {
namespace {

constexpr std::string_view kKnown =
    "known are .keras, .h5, SavedModel folders, frozen GraphDef .pb, TensorFlow checkpoints, safetensors, npy and npz";
constexpr std::string_view kIndexSuffix = ".index";

Detected detect_folder(const std::string& path, io::FileSystem& files) {
  const auto has = [&](const char* name) { return io::is_file(files, io::join_path(path, name)); };
  if (has("saved_model.pb") || has("saved_model.pbtxt")) return {Kind::kSavedModel, path};
  if (has("config.json") && has("model.weights.h5")) return {Kind::kKeras, path};
  if (has("checkpoint")) {
    const auto newest = latest_checkpoint(path, files);
    if (newest) return {Kind::kTfCheckpoint, *newest};
    throw_not_found(fmt::format(
        "{}: the checkpoint that its state file names is not there; give a prefix such as {}/ckpt-1", path, path));
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

// HDF5's signature lies at 0 or, after a user block, at a power of two from 512 on.
bool looks_like_hdf5(std::span<const std::byte> bytes) {
  constexpr std::uint64_t kSignature = 0x0A1A0A0D46444889u;
  if (io::load_le<std::uint64_t>(bytes, 0) == kSignature) return true;
  for (std::size_t at = 512; at < bytes.size(); at *= 2) {
    if (io::load_le<std::uint64_t>(bytes, at) == kSignature) return true;
  }
  return false;
}

bool contains(std::span<const std::byte> bytes, std::string_view word) {
  return io::as_text(bytes).find(word) != std::string_view::npos;
}

bool looks_like_safetensors(std::span<const std::byte> bytes) {
  const auto size = io::load_le<std::uint64_t>(bytes, 0);
  return size && *size >= 2 && *size <= bytes.size() - 8 && bytes[8] == std::byte{'{'};
}

bool looks_like_graph(std::span<const std::byte> bytes) {
  tensorflow::GraphDef graph;
  try {
    parse_proto(graph, bytes, "");
  } catch (const Error&) {
    return false;
  }
  return graph.node_size() > 0 && !graph.node(0).op().empty();
}

}  // namespace

std::string_view kind_name(Kind kind) noexcept {
  switch (kind) {
    case Kind::kKeras: return "keras";
    case Kind::kKerasH5: return "h5";
    case Kind::kWeightsH5: return "weights_h5";
    case Kind::kSavedModel: return "saved_model";
    case Kind::kFrozenGraph: return "graph_def";
    case Kind::kTfCheckpoint: return "tf_checkpoint";
    case Kind::kSafetensors: return "safetensors";
    case Kind::kNpy: return "npy";
    case Kind::kNpz: return "npz";
  }
  return "unknown";
}

Detected detect(const std::string& path, io::FileSystem& files) {
  const auto stat = files.stat(path);
  if (!stat) {
    if (io::is_file(files, bundle_index_path(path))) return {Kind::kTfCheckpoint, path};
    throw_not_found(fmt::format("{}: no such file, folder or checkpoint prefix", path));
  }
  if (stat->kind == io::FileStat::Kind::kDirectory) return detect_folder(path, files);
  const auto file = files.map(path);
  const auto bytes = file->bytes();
  if (io::looks_like_zip(bytes)) return {detect_zip(path, files), path};
  if (looks_like_hdf5(bytes)) return {contains(bytes, "model_config") ? Kind::kKerasH5 : Kind::kWeightsH5, path};
  if (looks_like_npy(bytes)) return {Kind::kNpy, path};
  if (looks_like_table(bytes)) {
    if (!path.ends_with(kIndexSuffix)) {
      throw_invalid_argument(fmt::format("{}: the index of a checkpoint must be named PREFIX.index", path));
    }
    return {Kind::kTfCheckpoint, path.substr(0, path.size() - kIndexSuffix.size())};
  }
  if (looks_like_safetensors(bytes)) return {Kind::kSafetensors, path};
  if (looks_like_graph(bytes)) return {Kind::kFrozenGraph, path};
  if (io::is_file(files, bundle_index_path(path))) return {Kind::kTfCheckpoint, path};
  throw_invalid_argument(
      fmt::format("{}: a file of no known kind, or too damaged to tell ({} bytes); {}", path, bytes.size(), kKnown));
}

}  // namespace lockstep::formats
