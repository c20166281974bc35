// A SavedModel from a graph in a file: a frozen GraphDef, or a MetaGraphDef with its checkpoint.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/op_versions_internal.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/proto/variable.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/saved_model_info_internal.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/graph/attr_proto_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/table_internal.h"
#include "lockstep/saving/saved_model_export_internal.h"

namespace lockstep::saved_model {
namespace {

std::string without_zero(const std::string& name) {
  return name.ends_with(":0") ? name.substr(0, name.size() - 2) : name;
}

class GraphExport {
 public:
  GraphExport(std::string path, tensorflow::MetaGraphDef* meta)
      : path_(std::move(path)),
        meta_(meta),
        parsed_(graph::parse_graph_def(formats::serialize_proto(meta->graph_def(), path_), path_)) {}

  void add_signature(const std::vector<std::string>& outputs) {
    auto& signature = (*meta_->mutable_signature_def())["serving_default"];
    signature.Clear();
    signature.set_method_name("tensorflow/serving/predict");
    std::vector<int> open;
    for (const std::string& name : outputs) {
      const graph::Output output = graph().parse_output(name);
      std::string key = without_zero(name);
      std::ranges::replace(key, ':', '_');
      describe(output, Shape::unknown_rank(), &(*signature.mutable_outputs())[key]);
      open.push_back(output.node);
    }
    needed_.assign(static_cast<std::size_t>(graph().size()), 0);
    while (!open.empty()) {
      const int id = open.back();
      open.pop_back();
      if (std::exchange(needed_[static_cast<std::size_t>(id)], 1)) continue;
      const graph::Node& node = graph().node(id);
      if (node.op == "Placeholder" || node.op == "PlaceholderV2") {
        const auto* attr = node.attrs.find("shape");
        const auto* shape = attr ? std::get_if<Shape>(attr) : nullptr;
        describe({id, 0}, shape ? *shape : Shape::unknown_rank(), &(*signature.mutable_inputs())[node.name]);
      }
      for (const graph::Output& input : node.inputs) open.push_back(input.node);
      open.insert(open.end(), node.control_inputs.begin(), node.control_inputs.end());
    }
  }

  // One node that initializes the tables and local variables of the signature, whose values are in no checkpoint.
  void add_init_op() {
    if (!formats::init_ops_of(*meta_).empty()) return;
    std::vector<std::string> names;
    for (const graph::Node& node : graph().nodes()) {
      const bool fills = node.op.starts_with("InitializeTable") || node.op.starts_with("LookupTableImport");
      if (fills && !node.inputs.empty() && needed(node.inputs[0].node)) names.push_back(node.name);
    }
    if (const auto found = meta_->collection_def().find("local_variables"); found != meta_->collection_def().end()) {
      for (const std::string& bytes : found->second.bytes_list().value()) {
        tensorflow::VariableDef variable;
        formats::parse_proto(variable, io::as_bytes(bytes), path_);
        if (needed(graph().parse_output(variable.variable_name()).node)) names.push_back(variable.initializer_name());
      }
    }
    if (names.empty()) return;
    auto* node = meta_->mutable_graph_def()->add_node();
    node->set_name(graph().unique_name("init_all"));
    node->set_op("NoOp");
    for (const std::string& name : names) node->add_input("^" + name);
    (*meta_->mutable_collection_def())["saved_model_main_op"].mutable_node_list()->add_value(node->name());
  }

 private:
  const graph::Graph& graph() const { return parsed_.graph; }
  bool needed(int node) const { return needed_[static_cast<std::size_t>(node)] != 0; }

  DType dtype_of(const graph::Output& output) const {
    const graph::Node& node = graph().node(output.node);
    const auto place = static_cast<std::size_t>(output.output);
    if (const auto function = parsed_.library.find(node.op)) {
      if (place < function->results.size()) return function->results[place].dtype;
    } else if (const ops::Op* op = ops::Table::instance().find(node.op)) {
      const auto types = ops::infer_outputs({op->signature, nullptr, nullptr}, {}, node.attrs);
      if (place < types.size()) return types[place].dtype;
    }
    throw_not_found(fmt::format("{}: node '{}' ({}) has no output {}", path_, node.name, node.op, output.output));
  }

  void describe(const graph::Output& output, const Shape& shape, tensorflow::TensorInfo* info) const {
    info->set_name(fmt::format("{}:{}", graph().node(output.node).name, output.output));
    info->set_dtype(static_cast<tensorflow::DataType>(dtype_of(output)));
    graph::shape_to_proto(shape, info->mutable_tensor_shape());
  }

  std::string path_;
  tensorflow::MetaGraphDef* meta_;
  graph::GraphAndLibrary parsed_;
  std::vector<char> needed_;  // by the signature, by node
};

// Leaves out functions that no node reaches: freezing a graph leaves some whose own functions it has removed, and
// TensorFlow loads no library with them.
void prune_library(tensorflow::GraphDef& graph) {
  std::map<std::string, const tensorflow::FunctionDef*> known;
  for (const auto& function : graph.library().function()) known.emplace(function.signature().name(), &function);
  std::set<std::string> reached;
  std::vector<std::string> open;
  const auto reach = [&](const std::string& name) {
    if (known.contains(name) && reached.insert(name).second) open.push_back(name);
  };
  const auto look = [&](const tensorflow::NodeDef& node) {
    reach(node.op());
    for (const auto& [key, value] : node.attr()) {
      if (value.has_func()) reach(value.func().name());
      for (const auto& each : value.list().func()) reach(each.name());
    }
  };
  for (const auto& node : graph.node()) look(node);
  while (!open.empty()) {
    const std::string name = std::move(open.back());
    open.pop_back();
    for (const auto& node : known.at(name)->node_def()) look(node);
    for (const auto& gradient : graph.library().gradient()) {
      if (gradient.function_name() == name) reach(gradient.gradient_func());
    }
  }
  tensorflow::FunctionDefLibrary kept = graph.library();
  kept.clear_function();
  for (const auto& function : graph.library().function()) {
    if (reached.contains(function.signature().name())) *kept.add_function() = function;
  }
  graph.mutable_library()->Swap(&kept);
}

}  // namespace

void save_graph(const std::string& graph, const std::string& path, const std::vector<std::string>& outputs,
                const SaveOptions& options) {
  check_io_device(options.experimental_io_device);
  const bool is_meta = formats::detect(graph).kind == formats::Kind::kMetaGraph;
  if (is_meta && outputs.empty())
    throw_invalid_argument(fmt::format(
        "{} is a graph for training, some of whose nodes change variables: name the outputs of the signature", graph));
  tensorflow::SavedModel model;
  model.set_saved_model_schema_version(1);
  tensorflow::MetaGraphDef* meta = model.add_meta_graphs();
  const auto file = io::posix_file_system().map(graph);
  formats::GraphRequirements requirements;
  std::vector<std::string> names = outputs;
  if (is_meta) {
    formats::parse_meta_graph_file(*meta, file->bytes(), graph);
    requirements = formats::read_meta_graph_info(graph).graph.requirements;
  } else {
    formats::parse_graph_file(*meta->mutable_graph_def(), file->bytes(), graph);
    requirements = formats::read_frozen_graph_info(graph).requirements;
  }
  if (names.empty()) names = FrozenGraph::load(graph).outputs();
  if (names.empty())
    throw_invalid_argument(fmt::format("{}: every output is used; name those of the signature", graph));
  const std::string prefix = formats::checkpoint_of_meta_graph(graph);
  const bool with_variables = formats::has_variables(requirements);
  if (with_variables && (!is_meta || !formats::checkpoint_exists(prefix)))
    throw_not_found(fmt::format(
        "{} has variables, and no checkpoint with their values is in its folder; give the .meta of a checkpoint",
        graph));
  if (with_variables && !meta->has_saver_def())
    throw_invalid_argument(fmt::format("{} has variables, but no operations that restore them (saver_def)", graph));
  prune_library(*meta->mutable_graph_def());
  auto* info = meta->mutable_meta_info_def();
  info->clear_tags();
  info->add_tags("serve");
  for (const std::string& tag : options.extra_tags) info->add_tags(tag);
  if (info->tensorflow_version().empty()) {
    const auto oldest = formats::oldest_tensorflow(meta->graph_def(), info->stripped_default_attrs());
    info->set_tensorflow_version(oldest.version.to_string() + ".0");
    info->set_tensorflow_git_version(fmt::format("lockstep {}", version()));
  }
  GraphExport exported(graph, meta);
  exported.add_signature(names);
  exported.add_init_op();
  const auto copy = [&](const std::string& target) {
    const formats::BundleReader source(prefix);
    formats::BundleWriter bundle(target);
    for (const auto& tensor : source.list()) bundle.add(tensor.name, source.read(tensor.name));
    bundle.finish();
  };
  write_folder(model, path, options.min_tensorflow,
               with_variables ? std::function<void(const std::string&)>(copy) : nullptr);
}

}  // namespace lockstep::saved_model
