#include "lockstep/formats/audit.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/audit_internal.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/keras_config.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/proto/meta_graph.pb.h"
#include "lockstep/formats/proto/saved_metadata.pb.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/io/zip.h"

namespace lockstep::formats {
namespace {

using Risk = AuditFinding::Risk;

void audit_metadata(Auditor& auditor, const Json& metadata) {
  const auto version = metadata.is_object() ? metadata.find("keras_version") : metadata.end();
  if (metadata.is_object() && version != metadata.end() && version->is_string()) {
    auditor.add_version("Keras " + version->get<std::string>());
  }
}

void audit_hdf5_node(Auditor& auditor, const Hdf5Node& node, const std::string& where) {
  if (node.external) auditor.add(Risk::kExternalLink, where, node.unreadable_reason);
  for (const Hdf5Attribute& attribute : node.attributes) {
    const bool config = attribute.name == "model_config" || attribute.name == "training_config";
    if (config && attribute.value.strings.size() == 1) {
      const std::string place = fmt::format("{}@{}", where, attribute.name);
      auditor.config(parse_json(attribute.value.strings[0], place), place);
    }
    if (attribute.name == "keras_version" && attribute.value.strings.size() == 1) {
      auditor.add_version("Keras " + attribute.value.strings[0]);
    }
  }
  for (const Hdf5Node& child : node.children) audit_hdf5_node(auditor, child, where + "/" + child.name);
}

void audit_hdf5(Auditor& auditor, std::span<const std::byte> image, const std::string& where) {
  const Hdf5File file(image, nullptr, where);
  audit_hdf5_node(auditor, file.root(), where);
}

bool is_pickle_name(std::string_view name) {
  return name.ends_with(".pkl") || name.ends_with(".pickle") || name.ends_with(".joblib") || name.ends_with(".pt") ||
         name.ends_with(".pth");
}

// A npy header that declares Python objects, which NumPy stores pickled.
bool has_objects(std::span<const std::byte> npy) {
  constexpr std::size_t kHead = 1024;
  const auto head = io::as_text(npy.first(std::min(kHead, npy.size())));
  return head.starts_with("\x93NUMPY") && head.find("|O") != std::string_view::npos;
}

void audit_npy(Auditor& auditor, std::span<const std::byte> bytes, const std::string& where) {
  if (has_objects(bytes))
    auditor.add(Risk::kCode, where, "an array of pickled Python objects; unpickling executes code");
}

void audit_zip(Auditor& auditor, const std::string& path, io::FileSystem& files) {
  const io::ZipReader zip(path, files);
  for (const io::ZipMember& member : zip.members()) {
    if (leaves_folder(member.name)) auditor.add(Risk::kPath, member.name, "a member that leaves the archive's folder");
    if (is_pickle_name(member.name)) auditor.add(Risk::kCode, member.name, "a pickle; unpickling executes code");
    if (member.name.ends_with(".npz")) {
      auditor.add(Risk::kCode, member.name, "weights that Keras stores as a pickled dictionary");
    }
    if (member.name == "config.json" || member.name == "metadata.json") {
      const auto content = zip.read_text(member);
      const Json json = parse_json(io::as_text(content.bytes), member.name);
      member.name == "config.json" ? auditor.config(json, member.name) : audit_metadata(auditor, json);
    }
    if (member.name.ends_with(".h5")) audit_hdf5(auditor, zip.read(member).bytes, member.name);
    if (member.name.ends_with(".npy")) audit_npy(auditor, zip.read(member).bytes, member.name);
  }
}

void audit_keras_folder(Auditor& auditor, const std::string& path, io::FileSystem& files) {
  auditor.config(parse_json(io::read_text(files, io::join_path(path, "config.json")), "config.json"), "config.json");
  const std::string metadata = io::join_path(path, "metadata.json");
  if (io::is_file(files, metadata)) audit_metadata(auditor, parse_json(io::read_text(files, metadata), metadata));
  for (const std::string& name : files.list(path)) {
    if (is_pickle_name(name) || name.ends_with(".npz")) {
      auditor.add(Risk::kCode, name, "a pickle; unpickling executes code");
    }
    if (name.ends_with(".h5")) audit_hdf5(auditor, files.map(io::join_path(path, name))->bytes(), name);
  }
}

void audit_saved_model(Auditor& auditor, const std::string& path, io::FileSystem& files) {
  tensorflow::SavedModel model;
  read_saved_model_file(model, path, files);
  const std::string name = io::base_name(*saved_model_file(path, files));
  for (const auto& graph : model.meta_graphs()) auditor.meta_graph(graph, name);
  const std::string metadata_path = io::join_path(path, "keras_metadata.pb");
  if (!io::is_file(files, metadata_path)) return;
  const auto metadata_file = files.map(metadata_path);
  third_party::py::tf_keras::protobuf::SavedMetadata metadata;
  parse_proto(metadata, metadata_file->bytes(), metadata_path);
  for (const auto& node : metadata.nodes()) {
    if (node.metadata().empty()) continue;
    const std::string where = fmt::format("keras_metadata.pb, {}", node.node_path());
    auditor.config(parse_json(node.metadata(), where), where);
  }
}

void audit_frozen_graph(Auditor& auditor, const std::string& path, io::FileSystem& files) {
  tensorflow::GraphDef graph;
  parse_graph_file(graph, files.map(path)->bytes(), path);
  auditor.graph(graph, io::base_name(path));
}

void audit_meta_graph(Auditor& auditor, const std::string& path, io::FileSystem& files) {
  tensorflow::MetaGraphDef graph;
  parse_meta_graph_file(graph, files.map(path)->bytes(), path);
  auditor.meta_graph(graph, io::base_name(path));
}

// Protocol 2 or later, as torch.save, joblib and pickle.dump write it.
bool is_pickle(const std::string& path, io::FileSystem& files) {
  if (!io::is_file(files, path)) return false;
  const auto file = files.map(path);
  const auto bytes = file->bytes();
  return bytes.size() > 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} && bytes[1] <= std::byte{5};
}

}  // namespace

std::string_view risk_name(AuditFinding::Risk risk) noexcept {
  switch (risk) {
    case Risk::kCode: return "code";
    case Risk::kCustomObject: return "custom_object";
    case Risk::kPython: return "python";
    case Risk::kFileRead: return "file_read";
    case Risk::kFileWrite: return "file_write";
    case Risk::kNetwork: return "network";
    case Risk::kMemory: return "memory";
    case Risk::kExternalLink: return "external_link";
    case Risk::kPath: return "path";
  }
  return "unknown";
}

void Auditor::add(AuditFinding::Risk risk, std::string where, std::string detail) {
  constexpr std::size_t kMost = 1000;
  constexpr std::size_t kLongest = 300;
  if (report_.findings.size() >= kMost) return;
  if (where.size() > kLongest) where = where.substr(0, kLongest) + "...";
  if (detail.size() > kLongest) detail = detail.substr(0, kLongest) + "...";
  report_.findings.push_back({risk, std::move(where), std::move(detail)});
}

void Auditor::add_version(std::string version) {
  auto& all = report_.versions;
  if (std::find(all.begin(), all.end(), version) == all.end()) all.push_back(std::move(version));
}

AuditReport audit(const std::string& path, io::FileSystem& files) {
  AuditReport report;
  Auditor auditor(report);
  if (is_pickle(path, files)) {
    report.kind = "pickle";
    auditor.add(Risk::kCode, io::base_name(path), "a pickle; unpickling executes code");
    return report;
  }
  const Detected found = detect(path, files);
  report.kind = kind_name(found.kind);
  switch (found.kind) {
    case Kind::kKeras:
      if (io::is_directory(files, found.path)) {
        audit_keras_folder(auditor, found.path, files);
        break;
      }
      [[fallthrough]];
    case Kind::kNpz: audit_zip(auditor, found.path, files); break;
    case Kind::kKerasH5:
    case Kind::kWeightsH5:
      for (const std::string& file : weight_files(found.path, files))
        audit_hdf5(auditor, files.map(file)->bytes(), io::base_name(file));
      break;
    case Kind::kSavedModel: audit_saved_model(auditor, found.path, files); break;
    case Kind::kFrozenGraph: audit_frozen_graph(auditor, found.path, files); break;
    case Kind::kMetaGraph: audit_meta_graph(auditor, found.path, files); break;
    case Kind::kNpy: audit_npy(auditor, files.map(found.path)->bytes(), io::base_name(found.path)); break;
    case Kind::kKerasConfig: auditor.config(read_keras_config(found.path, files), io::base_name(found.path)); break;
    case Kind::kTfCheckpoint:
    case Kind::kIdx:
    case Kind::kTFRecord:
    case Kind::kSafetensors: break;  // names, numbers and texts only
  }
  return report;
}

}  // namespace lockstep::formats
