#include "lockstep/formats/saved_model_info_internal.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/keras_metadata_internal.h"
#include "lockstep/formats/proto/graph.pb.h"
#include "lockstep/formats/proto/saved_model.pb.h"

namespace lockstep::formats {
namespace {

Shape shape_of(const tensorflow::TensorShapeProto& proto) {
  if (proto.unknown_rank()) return Shape::unknown_rank();
  Shape shape;
  for (const auto& dim : proto.dim()) shape.push_back(dim.size() < 0 ? kUnknownDim : dim.size());
  return shape;
}

DType dtype_of(int value) {
  const int plain = value > 100 ? value - 100 : value;  // reference types
  return plain > 0 && plain <= static_cast<int>(DType::kFloat8E4M3FN) ? static_cast<DType>(plain) : DType::kInvalid;
}

template <typename Map>
std::vector<SignatureTensor> tensors_of(const Map& map) {
  std::vector<SignatureTensor> out;
  for (const auto& [key, info] : map) {
    if (info.has_coo_sparse()) {
      const Shape shape = shape_of(info.tensor_shape());
      const std::int64_t rank = shape.known_rank() ? shape.rank() : kUnknownDim;
      out.push_back({key + "_indices", info.coo_sparse().indices_tensor_name(), DType::kInt64, {kUnknownDim, rank}});
      out.push_back(
          {key + "_values", info.coo_sparse().values_tensor_name(), dtype_of(info.dtype()), Shape{kUnknownDim}});
      out.push_back({key + "_dense_shape", info.coo_sparse().dense_shape_tensor_name(), DType::kInt64, Shape{rank}});
    } else if (info.has_composite_tensor()) {
      int number = 0;
      for (const auto& part : info.composite_tensor().components()) {
        out.push_back({number == 0 ? key : fmt::format("{}_{}", key, number), part.name(), dtype_of(part.dtype()),
                       shape_of(part.tensor_shape())});
        ++number;
      }
    } else {
      out.push_back({key, info.name(), dtype_of(info.dtype()), shape_of(info.tensor_shape())});
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return out;
}

// As saved_model_cli shows the arguments of a function: "x: float32 (None, 3)", "True", "[…]".
std::string argument_text(const tensorflow::StructuredValue& value);

template <typename Values>
std::string argument_texts(const Values& values) {
  std::vector<std::string> texts;
  for (const auto& value : values) texts.push_back(argument_text(value));
  return fmt::format("{}", fmt::join(texts, ", "));
}

template <typename Spec>
std::string spec_text(const Spec& spec) {
  return fmt::format("{}{}{} {}", spec.name(), spec.name().empty() ? "" : ": ", dtype_name(dtype_of(spec.dtype())),
                     shape_of(spec.shape()).to_string());
}

std::string argument_text(const tensorflow::StructuredValue& value) {
  using Value = tensorflow::StructuredValue;
  switch (value.kind_case()) {
    case Value::kTensorSpecValue: return spec_text(value.tensor_spec_value());
    case Value::kFloat64Value: return dump_json(value.float64_value());
    case Value::kInt64Value: return fmt::format("{}", value.int64_value());
    case Value::kBoolValue: return value.bool_value() ? "True" : "False";
    case Value::kStringValue: return fmt::format("'{}'", value.string_value());
    case Value::kTensorDtypeValue: return std::string(dtype_name(dtype_of(value.tensor_dtype_value())));
    case Value::kTensorShapeValue: return shape_of(value.tensor_shape_value()).to_string();
    case Value::kListValue: return fmt::format("[{}]", argument_texts(value.list_value().values()));
    case Value::kTupleValue: return fmt::format("({})", argument_texts(value.tuple_value().values()));
    case Value::kDictValue: {
      std::map<std::string, std::string> fields;
      for (const auto& [key, field] : value.dict_value().fields()) fields.emplace(key, argument_text(field));
      std::vector<std::string> texts;
      for (const auto& [key, text] : fields) texts.push_back(fmt::format("'{}': {}", key, text));
      return fmt::format("{{{}}}", fmt::join(texts, ", "));
    }
    case Value::kNamedTupleValue: {
      std::vector<std::string> texts;
      for (const auto& field : value.named_tuple_value().values())
        texts.push_back(fmt::format("{}={}", field.key(), argument_text(field.value())));
      return fmt::format("{}({})", value.named_tuple_value().name(), fmt::join(texts, ", "));
    }
    case Value::kTypeSpecValue: {
      const auto& spec = value.type_spec_value();
      return fmt::format("{}({})", spec.type_spec_class_name(), argument_text(spec.type_state()));
    }
    case Value::kBoundedTensorSpecValue: return spec_text(value.bounded_tensor_spec_value());
    case Value::kTensorValue: return "a tensor";
    case Value::kNumpyValue: return "an array";
    default: return "None";
  }
}

// The arguments of one trace: tuple(tuple(by position), dict(by keyword)).
std::string arguments_text(const tensorflow::StructuredValue& signature) {
  if (signature.tuple_value().values_size() != 2) return argument_text(signature);
  std::string text = argument_texts(signature.tuple_value().values(0).tuple_value().values());
  std::map<std::string, std::string> keywords;
  for (const auto& [key, field] : signature.tuple_value().values(1).dict_value().fields())
    keywords.emplace(key, argument_text(field));
  for (const auto& [key, value] : keywords) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", key, value);
  return text;
}

// Those of the root, sorted by name.
std::vector<FunctionInfo> functions_of(const tensorflow::SavedObjectGraph& objects) {
  std::vector<FunctionInfo> all;
  if (objects.nodes_size() == 0) return all;
  for (const auto& child : objects.nodes(0).children()) {
    if (child.node_id() < 0 || child.node_id() >= objects.nodes_size()) continue;
    const auto& node = objects.nodes(child.node_id());
    if (!node.has_function() && !node.has_bare_concrete_function()) continue;
    FunctionInfo info{child.local_name(), {}};
    for (const std::string& name : node.function().concrete_functions()) {
      const auto trace = objects.concrete_functions().find(name);
      if (trace != objects.concrete_functions().end())
        info.traces.push_back(arguments_text(trace->second.canonicalized_input_signature()));
    }
    if (node.has_bare_concrete_function()) {
      std::vector<std::string> keywords;
      for (const std::string& keyword : node.bare_concrete_function().argument_keywords()) keywords.push_back(keyword);
      info.traces.push_back(fmt::format("{}", fmt::join(keywords, ", ")));
    }
    all.push_back(std::move(info));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

TensorInfo node_info(const tensorflow::NodeDef& node) {
  TensorInfo info{node.name(), DType::kInvalid, Shape::unknown_rank()};
  const auto& attributes = node.attr();
  if (const auto dtype = attributes.find("dtype"); dtype != attributes.end())
    info.dtype = dtype_of(dtype->second.type());
  if (const auto value = attributes.find("value"); value != attributes.end() && value->second.has_tensor()) {
    info.shape = shape_of(value->second.tensor().tensor_shape());
  } else if (const auto shape = attributes.find("shape"); shape != attributes.end() && shape->second.has_shape()) {
    info.shape = shape_of(shape->second.shape());
  }
  return info;
}

GraphRequirements requirements_of(const tensorflow::GraphDef& graph, bool without_defaults) {
  GraphRequirements out;
  out.producer = graph.versions().producer();
  out.min_consumer = graph.versions().min_consumer();
  std::set<std::string> devices, functions;
  for (const auto& function : graph.library().function()) functions.insert(function.signature().name());
  const auto add = [&](const tensorflow::NodeDef& node) {
    if (!functions.contains(node.op())) ++out.ops[node.op()];
    if (!node.device().empty()) devices.insert(node.device());
  };
  for (const auto& node : graph.node()) add(node);
  for (const auto& function : graph.library().function()) {
    for (const auto& node : function.node_def()) add(node);
  }
  out.devices.assign(devices.begin(), devices.end());
  out.oldest = oldest_tensorflow(graph, without_defaults);
  return out;
}

std::string writer_of(const tensorflow::MetaGraphDef::MetaInfoDef& info) {
  const std::string& build = info.tensorflow_git_version();
  return build.starts_with("lockstep ") ? build : fmt::format("TensorFlow {}", info.tensorflow_version());
}

std::vector<SignatureInfo> signatures_of(const tensorflow::MetaGraphDef& graph) {
  std::vector<SignatureInfo> all;
  for (const auto& [name, signature] : graph.signature_def()) {
    if (name.starts_with("__saved_model")) continue;  // TensorFlow's own, for initialisers
    all.push_back({name, signature.method_name(), tensors_of(signature.inputs()), tensors_of(signature.outputs())});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

// The one for serving, or the first.
int serving_graph(const tensorflow::SavedModel& model) {
  for (int i = 0; i < model.meta_graphs_size(); ++i) {
    const auto& tags = model.meta_graphs(i).meta_info_def().tags();
    if (tags.size() == 1 && tags[0] == "serve") return i;
  }
  return 0;
}

}  // namespace

namespace {

// The graph runs without it, so damaged metadata are for those who need them to report.
void add_keras_model(SavedModelInfo& info, const std::string& directory, const tensorflow::SavedModel& model,
                     io::FileSystem& files) {
  try {
    const auto metadata = read_keras_metadata(directory, &model, files);
    if (!metadata) return;
    info.keras_model = {{"class_name", metadata->json.value("class_name", Json())},
                        {"config", metadata->json.value("config", Json())}};
    info.keras_training = metadata->json.value("training_config", Json());
  } catch (const Error& error) {
    if (error.code() != Code::kDataLoss) throw;
  }
}

}  // namespace

std::vector<std::string> init_ops_of(const tensorflow::MetaGraphDef& graph) {
  constexpr char kKey[] = "__saved_model_init_op";
  if (const auto signature = graph.signature_def().find(kKey); signature != graph.signature_def().end()) {
    const auto output = signature->second.outputs().find(kKey);
    if (output != signature->second.outputs().end()) return {output->second.name()};
  }
  for (const char* collection : {"saved_model_main_op", "legacy_init_op"}) {
    const auto found = graph.collection_def().find(collection);
    if (found == graph.collection_def().end()) continue;
    const auto& names = found->second.node_list().value();
    return {names.begin(), names.end()};
  }
  return {};
}

bool has_variables(const GraphRequirements& requirements) {
  const auto& ops = requirements.ops;
  return ops.contains("VariableV2") || ops.contains("Variable") || ops.contains("VarHandleOp");
}

SavedModelInfo read_saved_model_info(const std::string& directory, io::FileSystem& files) {
  tensorflow::SavedModel model;
  read_saved_model_file(model, directory, files);
  if (model.meta_graphs_size() == 0) {
    throw_data_loss(fmt::format("{} contains no meta graph: it is damaged, or not a SavedModel",
                                *saved_model_file(directory, files)));
  }
  const int described = serving_graph(model);
  const tensorflow::MetaGraphDef& graph = model.meta_graphs(described);
  SavedModelInfo info;
  info.tags.assign(graph.meta_info_def().tags().begin(), graph.meta_info_def().tags().end());
  for (int i = 0; i < model.meta_graphs_size(); ++i) {
    if (i == described) continue;
    const auto& tags = model.meta_graphs(i).meta_info_def().tags();
    info.others.push_back({{tags.begin(), tags.end()}, signatures_of(model.meta_graphs(i))});
  }
  info.tensorflow_version = graph.meta_info_def().tensorflow_version();
  info.writer = writer_of(graph.meta_info_def());
  info.has_objects = graph.has_object_graph_def();
  info.signatures = signatures_of(graph);
  info.functions = functions_of(graph.object_graph_def());
  for (const auto& asset : graph.asset_file_def()) info.assets.push_back(asset.filename());
  info.init_ops = init_ops_of(graph);
  info.requirements = requirements_of(graph.graph_def(), graph.meta_info_def().stripped_default_attrs());
  const auto& objects = graph.object_graph_def().nodes();
  info.needs_variables =
      info.has_objects
          ? std::any_of(objects.begin(), objects.end(), [](const auto& node) { return node.has_variable(); })
          : !graph.saver_def().restore_op_name().empty() && has_variables(info.requirements);
  info.has_variables = io::is_file(files, io::join_path(directory, "variables/variables.index"));
  add_keras_model(info, directory, model, files);
  return info;
}

namespace {

FrozenGraphInfo graph_info(const tensorflow::GraphDef& graph, bool without_defaults) {
  FrozenGraphInfo info;
  info.requirements = requirements_of(graph, without_defaults);
  std::set<std::string> used;
  for (const auto& node : graph.node()) {
    if (node.op() == "Const") info.constants.push_back(node_info(node));
    if (node.op().starts_with("Placeholder")) info.placeholders.push_back(node_info(node));
    for (const std::string& input : node.input()) {
      const std::size_t begin = input.starts_with('^') ? 1 : 0;
      used.insert(
          input.substr(begin, input.rfind(':') == std::string::npos ? std::string::npos : input.rfind(':') - begin));
    }
  }
  for (const auto& node : graph.node()) {
    if (!used.contains(node.name())) info.outputs.push_back(node.name());
  }
  return info;
}

}  // namespace

FrozenGraphInfo read_frozen_graph_info(const std::string& path, io::FileSystem& files) {
  tensorflow::GraphDef graph;
  parse_graph_file(graph, files.map(path)->bytes(), path);
  return graph_info(graph, false);
}

MetaGraphInfo read_meta_graph_info(const std::string& path, io::FileSystem& files) {
  tensorflow::MetaGraphDef graph;
  parse_meta_graph_file(graph, files.map(path)->bytes(), path);
  return {graph_info(graph.graph_def(), graph.meta_info_def().stripped_default_attrs()),
          writer_of(graph.meta_info_def())};
}

}  // namespace lockstep::formats
