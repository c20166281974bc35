// The files of graphs, each of which TensorFlow writes as bytes or as text. Internal.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/io/file_system.h"

namespace tensorflow {
class GraphDef;
class MetaGraphDef;
class SavedModel;
}  // namespace tensorflow

namespace lockstep::formats {

// The path of saved_model.pb in the folder, else that of saved_model.pbtxt; nullopt if neither exists.
std::optional<std::string> saved_model_file(const std::string& directory,
                                            io::FileSystem& files = io::posix_file_system());

// Throws NotFound without a file, InvalidArgument for a GraphDef, DataLoss for lost content, and as parse_proto and
// parse_proto_text do.
void read_saved_model_file(tensorflow::SavedModel& model, const std::string& directory,
                           io::FileSystem& files = io::posix_file_system());

void parse_graph_file(tensorflow::GraphDef& graph, std::span<const std::byte> bytes, std::string_view what);
void parse_meta_graph_file(tensorflow::MetaGraphDef& graph, std::span<const std::byte> bytes, std::string_view what);

// Why a file does not have the content that its name announces, with the remedy: it is empty, or a pointer of Git LFS,
// or an HTML page. Empty for others.
std::string_view lost_content(std::span<const std::byte> bytes);

bool looks_like_graph(std::span<const std::byte> bytes);
bool looks_like_saved_model_text(std::span<const std::byte> bytes);
bool looks_like_graph_text(std::span<const std::byte> bytes);
bool looks_like_meta_graph_text(std::span<const std::byte> bytes);

// The prefix of the checkpoint that belongs to a MetaGraph: "model.ckpt-7" of "model.ckpt-7.meta".
std::string checkpoint_of_meta_graph(const std::string& path);

}  // namespace lockstep::formats
