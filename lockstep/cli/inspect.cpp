#include <fmt/format.h>

#include "lockstep/cli/artifact_internal.h"
#include "lockstep/cli/commands_internal.h"
#include "lockstep/cli/report_internal.h"

namespace lockstep::cli {
namespace {

Json shape_json(const Shape& shape) {
  if (!shape.known_rank()) return nullptr;
  Json dims = Json::array();
  for (const std::int64_t dim : shape.dims()) dims.push_back(dim == kUnknownDim ? Json(nullptr) : Json(dim));
  return dims;
}

Json tensor_json(const std::string& name, DType dtype, const Shape& shape) {
  return {{"name", name}, {"dtype", std::string(dtype_name(dtype))}, {"shape", shape_json(shape)}};
}

Json signature_json(const std::vector<formats::SignatureTensor>& tensors) {
  Json out = Json::object();
  for (const auto& tensor : tensors) out[tensor.key] = tensor_json(tensor.name, tensor.dtype, tensor.shape);
  return out;
}

std::uint64_t size_of(const formats::TensorInfo& info) {
  return static_cast<std::uint64_t>(info.shape.num_elements().value_or(0)) * dtype_size(info.dtype);
}

Json signatures_json(const std::vector<formats::SignatureInfo>& signatures) {
  Json out = Json::object();
  for (const auto& signature : signatures) {
    out[signature.name] = {{"inputs", signature_json(signature.inputs)},
                           {"outputs", signature_json(signature.outputs)},
                           {"method", signature.method}};
  }
  return out;
}

const formats::GraphRequirements* requirements_of(const Artifact& artifact) {
  if (artifact.saved_model) return &artifact.saved_model->requirements;
  return artifact.graph ? &artifact.graph->requirements : nullptr;
}

// Of the model, also that of a SavedModel of Keras 2.
const Json& config_of(const Artifact& artifact) {
  return artifact.saved_model ? artifact.saved_model->keras_model : artifact.config;
}
bool is_compiled(const Artifact& artifact) {
  return !(artifact.saved_model ? artifact.saved_model->keras_training : artifact.training).is_null();
}

Json as_json(const Artifact& artifact) {
  Json out = {{"kind", std::string(formats::kind_name(artifact.kind))}, {"path", artifact.path}};
  out["version"] = artifact.version.empty() ? Json(nullptr) : Json(artifact.version);
  if (const Json& config = config_of(artifact); config.is_object()) {
    out["model"] = {{"class_name", config.value("class_name", Json(nullptr))}, {"compiled", is_compiled(artifact)}};
    if (config.contains("config") && config["config"].is_object()) {
      out["model"]["name"] = config["config"].value("name", Json(nullptr));
    }
  }
  out["tensors"] = Json::array();
  for (const auto& info : artifact.tensors->list())
    out["tensors"].push_back(tensor_json(info.name, info.dtype, info.shape));
  if (artifact.saved_model) {
    out["tags"] = artifact.saved_model->tags;
    for (const auto& other : artifact.saved_model->others) {
      out["other_tags"].push_back(other.tags);
      out["other_signatures"].push_back(signatures_json(other.signatures));
    }
    out["signatures"] = signatures_json(artifact.saved_model->signatures);
    if (!artifact.saved_model->init_ops.empty()) out["init_op"] = artifact.saved_model->init_ops.front();
    out["functions"] = Json::object();
    for (const auto& function : artifact.saved_model->functions) out["functions"][function.name] = function.traces;
  }
  if (artifact.graph) {
    out["inputs"] = Json::array();
    for (const auto& info : artifact.graph->placeholders)
      out["inputs"].push_back(tensor_json(info.name, info.dtype, info.shape));
    out["outputs"] = artifact.graph->outputs;
  }
  if (const auto* requirements = requirements_of(artifact)) {
    out["ops"] = Json::object();
    for (const auto& [op, count] : requirements->ops) out["ops"][op] = count;
    out["devices"] = requirements->devices;
    out["producer"] = requirements->producer;
    out["min_consumer"] = requirements->min_consumer;
    out["min_tensorflow"] = requirements->oldest.version.to_string();
    out["min_tensorflow_because"] = requirements->oldest.because;
  }
  if (!artifact.assets.empty()) out["assets"] = artifact.assets;
  return out;
}

void print_signatures(const std::vector<formats::SignatureInfo>& signatures) {
  for (const auto& signature : signatures) {
    print_line("signature  {}{}", signature.name, signature.method.empty() ? "" : "  " + signature.method);
    const auto print = [](const char* way, const std::vector<formats::SignatureTensor>& tensors) {
      for (const auto& t : tensors)
        print_line("  {:<3}  {}  {} {}  {}", way, t.key, dtype_name(t.dtype), t.shape.to_string(), t.name);
    };
    print("in", signature.inputs);
    print("out", signature.outputs);
  }
}

void print_graphs(const formats::SavedModelInfo& model) {
  print_line("tags       {}", fmt::join(model.tags, ", "));
  print_signatures(model.signatures);
  for (const std::string& name : model.init_ops) print_line("init op    {}", name);
  for (const auto& function : model.functions) {
    for (const std::string& arguments : function.traces) print_line("function   {}({})", function.name, arguments);
  }
  for (const auto& other : model.others) {
    print_line("tags       {} (another graph)", fmt::join(other.tags, ", "));
    print_signatures(other.signatures);
  }
}

void print_table(const Artifact& artifact) {
  print_line("kind       {}", formats::kind_name(artifact.kind));
  if (!artifact.version.empty()) print_line("written by {}", artifact.version);
  if (const Json& config = config_of(artifact);
      config.is_object() && config.contains("class_name") && config["class_name"].is_string()) {
    print_line("model      {}{}", config["class_name"].get<std::string>(), is_compiled(artifact) ? ", compiled" : "");
  }
  if (artifact.saved_model) print_graphs(*artifact.saved_model);
  if (artifact.graph) {
    for (const auto& t : artifact.graph->placeholders)
      print_line("input      {}  {} {}", t.name, dtype_name(t.dtype), t.shape.to_string());
    for (const auto& name : artifact.graph->outputs) print_line("output     {}", name);
  }
  if (const auto* requirements = requirements_of(artifact)) {
    std::string ops;
    for (const auto& [op, count] : requirements->ops) ops += fmt::format("{}{} {}", ops.empty() ? "" : ", ", op, count);
    print_line("ops        {}", ops);
    if (!requirements->devices.empty()) print_line("devices    {}", fmt::join(requirements->devices, ", "));
    print_line("graph      producer {}, min_consumer {}", requirements->producer, requirements->min_consumer);
    const auto& oldest = requirements->oldest;
    print_line("needs      TensorFlow {} or newer{}", oldest.version.to_string(),
               oldest.because.empty() ? "" : fmt::format(" ({})", fmt::join(oldest.because, ", ")));
  }
  for (const std::string& asset : artifact.assets) print_line("asset      {}", asset);
  std::uint64_t bytes = 0;
  std::size_t width = 0;
  for (const auto& info : artifact.tensors->list()) {
    bytes += size_of(info);
    width = std::max(width, info.name.size());
  }
  print_line("tensors    {} ({} bytes)", artifact.tensors->list().size(), bytes);
  for (const auto& info : artifact.tensors->list()) {
    print_line("  {:<{}}  {:<8} {}", info.name, width, dtype_name(info.dtype), info.shape.to_string());
  }
}

}  // namespace

int inspect(const Arguments& arguments) {
  const Artifact artifact = open_artifact(arguments.text("PATH"));
  if (arguments.has("--json")) {
    fmt::print("{}\n", dump_json(as_json(artifact)));
  } else {
    print_table(artifact);
  }
  return 0;
}

}  // namespace lockstep::cli
