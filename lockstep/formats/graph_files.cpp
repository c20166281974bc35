#include "lockstep/formats/graph_files_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/graph.pb.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/proto_text_internal.h"

namespace lockstep::formats {

std::optional<std::string> saved_model_file(const std::string& directory, io::FileSystem& files) {
  for (const char* name : {"saved_model.pb", "saved_model.pbtxt"}) {
    const std::string file = io::join_path(directory, name);
    if (io::is_file(files, file)) return file;
  }
  return std::nullopt;
}

void read_saved_model_file(tensorflow::SavedModel& model, const std::string& directory, io::FileSystem& files) {
  const auto path = saved_model_file(directory, files);
  if (!path)
    throw_not_found(fmt::format("{}: saved_model.pb is missing; is this the folder of a SavedModel?", directory));
  const auto file = files.map(*path);
  if (const auto mistake = lost_content(file->bytes()); !mistake.empty())
    throw_data_loss(fmt::format("{}: {}", *path, mistake));
  if (looks_like_graph(file->bytes()) || looks_like_graph_text(file->bytes()))
    throw_invalid_argument(
        fmt::format("{}: a GraphDef, not a SavedModel; give this file instead of its folder", *path));
  if (path->ends_with(".pbtxt")) return parse_proto_text(model, file->bytes(), *path);
  parse_proto(model, file->bytes(), *path);
}

std::string_view lost_content(std::span<const std::byte> bytes) {
  constexpr std::size_t kHead = 1024;
  if (bytes.empty()) return "the file is empty";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kHead));
  if (text.starts_with("version https://git-lfs"))
    return "a pointer of Git LFS instead of the file itself; fetch it with `git lfs pull`";
  if (text.find("<!DOCTYPE html") != text.npos || text.find("<html") != text.npos)
    return "an HTML page, not a model: download the file itself";
  return "";
}

bool looks_like_saved_model_text(std::span<const std::byte> bytes) {
  return looks_like_proto_text(bytes, {"saved_model_schema_version", "meta_graphs"});
}

bool looks_like_graph_text(std::span<const std::byte> bytes) {
  return looks_like_proto_text(bytes, {"node", "library", "version", "versions"});
}

bool looks_like_meta_graph_text(std::span<const std::byte> bytes) {
  return looks_like_proto_text(
      bytes, {"meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def", "asset_file_def"});
}

void parse_graph_file(tensorflow::GraphDef& graph, std::span<const std::byte> bytes, std::string_view what) {
  if (looks_like_graph_text(bytes)) return parse_proto_text(graph, bytes, what);
  parse_proto(graph, bytes, what);
}

void parse_meta_graph_file(tensorflow::MetaGraphDef& graph, std::span<const std::byte> bytes, std::string_view what) {
  if (looks_like_meta_graph_text(bytes)) return parse_proto_text(graph, bytes, what);
  parse_proto(graph, bytes, what);
}

std::string checkpoint_of_meta_graph(const std::string& path) {
  constexpr std::string_view kSuffix = ".meta";
  return path.ends_with(kSuffix) ? path.substr(0, path.size() - kSuffix.size()) : path;
}

}  // namespace lockstep::formats
