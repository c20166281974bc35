#include "lockstep/formats/keras_metadata_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/proto/saved_metadata.pb.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto_io_internal.h"

namespace lockstep::formats {
namespace {

// Keras writes tuples, shapes and bytes of the metadata as objects of these classes.
Json without_classes(Json json) {
  if (json.is_object() && json.contains("class_name") && json["class_name"].is_string()) {
    const std::string name = json["class_name"].get<std::string>();
    if ((name == "__tuple__" || name == "TensorShape") && json.contains("items")) {
      json = Json(json["items"]);
    } else if (name == "__bytes__" && json.contains("value")) {
      json = Json(json["value"]);
    }
  }
  if (!json.is_object() && !json.is_array()) return json;
  for (Json& each : json) each = without_classes(std::move(each));
  return json;
}

KerasMetadata parsed(const std::string& identifier, const std::string& text, const std::string& path) {
  KerasMetadata out{identifier, parse_json(text, path)};
  if (!out.json.is_object())
    throw_data_loss(fmt::format("{}: the Keras metadata are {}, expected a JSON object", path, out.json.type_name()));
  out.json = without_classes(std::move(out.json));
  return out;
}

}  // namespace

std::optional<KerasMetadata> read_keras_metadata(const std::string& directory, const tensorflow::SavedModel* model,
                                                 io::FileSystem& files) {
  const std::string file = io::join_path(directory, "keras_metadata.pb");
  if (io::is_file(files, file)) {
    third_party::py::tf_keras::protobuf::SavedMetadata metadata;
    parse_proto(metadata, files.map(file)->bytes(), file);
    for (const auto& node : metadata.nodes()) {
      if (node.node_id() == 0) return parsed(node.identifier(), node.metadata(), file);
    }
    return std::nullopt;
  }
  tensorflow::SavedModel own;
  if (!model) read_saved_model_file(own, directory, files);
  const tensorflow::SavedModel& proto = model ? *model : own;
  if (proto.meta_graphs_size() == 0 || proto.meta_graphs(0).object_graph_def().nodes_size() == 0) return std::nullopt;
  const auto& root = proto.meta_graphs(0).object_graph_def().nodes(0);
  if (!root.has_user_object() || root.user_object().metadata().empty()) return std::nullopt;
  return parsed(root.user_object().identifier(), root.user_object().metadata(), *saved_model_file(directory, files));
}

}  // namespace lockstep::formats
