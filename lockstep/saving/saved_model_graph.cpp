// Loading without an object graph: the outer graph is restored and run as a TensorFlow 1 session does it.
#include <algorithm>
#include <charconv>
#include <list>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/formats/proto/variable.pb.h"
#include "lockstep/formats/proto_io_internal.h"
#include "lockstep/formats/saved_model_info_internal.h"
#include "lockstep/graph/effects_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/paths_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/saving/saved_model_state_internal.h"

namespace lockstep::saved_model {
namespace {

constexpr char kInitOp[] = "__saved_model_init_op";
constexpr char kTrainOp[] = "__saved_model_train_op";

std::int64_t parse_number(std::string_view text) {
  std::int64_t value = -1;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size())
    throw_data_loss(fmt::format("invalid slice of a tensor: '{}'", text));
  return value;
}

// "4 3 0,2:-": rows 0 and 1 of a tensor of shape [4, 3].
Tensor slice_of(const Tensor& whole, std::string_view text) {
  const std::size_t space = text.rfind(' ');
  if (space == std::string_view::npos) return whole;
  std::string_view rest = text.substr(space + 1);
  std::vector<std::int64_t> begin, size;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const std::size_t colon = rest.find(':');
    const std::string_view part = rest.substr(0, colon);
    const std::size_t comma = part.find(',');
    begin.push_back(part == "-" ? 0 : parse_number(part.substr(0, comma)));
    size.push_back(part == "-" ? -1 : parse_number(comma == std::string_view::npos ? "" : part.substr(comma + 1)));
    rest = colon == std::string_view::npos ? "" : rest.substr(colon + 1);
  }
  return ops::call1("Slice", {whole, Tensor::from_vector(begin), Tensor::from_vector(size)});
}

// "w" of "w:0".
std::string node_of(const std::string& tensor) { return tensor.substr(0, tensor.find(':')); }

std::string string_attr(const graph::Node& node, std::string_view name) {
  const ops::Attr* attr = node.attrs.find(name);
  const auto* text = attr ? std::get_if<std::string>(attr) : nullptr;
  return text ? *text : "";
}

// A graph in a separate file whose vocabulary is elsewhere still computes outputs that do not depend on lookups.
template <typename Initialize>
void fill_table(const std::string& path, const Initialize& initialize) {
  try {
    initialize();
  } catch (const Error& error) {
    log_warning("{}: a table has no values: {}", path, error.what());
  }
}

class GraphLoader {
 public:
  // `alone`: a MetaGraphDef without the folder of a SavedModel, whose tables may have lost their files.
  GraphLoader(ModelState& state, const LoadOptions& options, bool alone = false)
      : state_(state), options_(options), alone_(alone) {}

  std::shared_ptr<graph::Graph> load() {
    graph_ =
        std::make_shared<graph::Graph>(graph::graph_from_proto(state_.meta->graph_def(), state_.path, state_.proto));
    find_assets();
    restore();
    take_variables();
    run_init_op();
    for (const auto& [key, def] : sorted_signatures()) {
      if (key != kInitOp && key != kTrainOp) add_signature(key, *def);
    }
    return graph_;
  }

 private:
  std::map<std::string, const tensorflow::SignatureDef*> sorted_signatures() const {
    std::map<std::string, const tensorflow::SignatureDef*> sorted;
    for (const auto& [key, def] : state_.meta->signature_def()) sorted.emplace(key, &def);
    return sorted;
  }

  void find_assets() {
    for (int i = 0; i < state_.meta->asset_file_def_size(); ++i) {
      add_asset(state_.meta->asset_file_def(i).tensor_info().name(), asset_path(state_, i));
    }
    if (state_.meta->asset_file_def_size() > 0) return;
    const auto collection = state_.meta->collection_def().find("saved_model_assets");
    if (collection == state_.meta->collection_def().end()) return;
    for (const auto& any : collection->second.any_list().value()) {
      tensorflow::AssetFileDef def;
      formats::parse_proto(def, io::as_bytes(any.value()), state_.path);
      const std::string& name = def.filename();
      if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
        throw_invalid_argument(
            fmt::format("{}: invalid asset name '{}': outside of the folder assets", state_.path, name));
      }
      add_asset(def.tensor_info().name(), io::join_path(io::join_path(state_.path, "assets"), name));
    }
  }

  void add_asset(const std::string& tensor, const std::string& path) {
    asset_feeds_.push_back(graph_->parse_output(tensor));
    asset_values_.push_back(Tensor::strings({path}, Shape{}));
  }

  // Runs a node for its effects, with the assets fed.
  void run_target(const std::string& name, std::vector<graph::Output> feeds, Tensors values) {
    feeds.insert(feeds.end(), asset_feeds_.begin(), asset_feeds_.end());
    values.insert(values.end(), asset_values_.begin(), asset_values_.end());
    const int target = graph_->parse_output(name).node;
    graph::Executable::prepare(*graph_, state_.library, state_.resources, feeds, {}, {target})->run(values);
  }

  std::vector<tensorflow::VariableDef> variables_in(const char* name) const {
    std::vector<tensorflow::VariableDef> defs;
    const auto collection = state_.meta->collection_def().find(name);
    if (collection == state_.meta->collection_def().end()) return defs;
    for (const std::string& bytes : collection->second.bytes_list().value())
      formats::parse_proto(defs.emplace_back(), io::as_bytes(bytes), state_.path);
    return defs;
  }

  // Modules of TensorFlow Hub have no operations that restore: each variable has its own name in the checkpoint.
  void restore_by_name(const formats::BundleReader& bundle) {
    for (const tensorflow::VariableDef& def : variables_in("variables")) {
      const std::string name = node_of(def.variable_name());
      const int id = graph_->parse_output(name).node;
      const graph::Node& node = graph_->node(id);
      const auto& slice = def.save_slice_info_def();
      Tensor value = read_variable(bundle, slice.full_name().empty() ? name : slice.full_name());
      if (!slice.full_name().empty()) {
        const auto numbers = [](const auto& values) {
          return Tensor::from_vector(std::vector<std::int64_t>(values.begin(), values.end()));
        };
        value = ops::call1("Slice", {value, numbers(slice.var_offset()), numbers(slice.var_shape())});
      }
      const std::string shared = string_attr(node, "shared_name");
      distribute::VariableOptions options;
      options.name = name;
      const ops::Attr* const declared = node.attrs.find("shape");
      const Shape* const shape = declared ? std::get_if<Shape>(declared) : nullptr;
      if (shape && !shape->fully_known()) options.shape = *shape;
      state_.resources->put("variable",
                            fmt::format("{}/{}", string_attr(node, "container"),
                                        shared.empty() && node.op != "VarHandleOp" ? name : shared),
                            distribute::Variable::create(value, options));
    }
  }

  void restore() {
    if (options_.experimental_skip_checkpoint) return;
    const std::string& prefix = state_.checkpoint;
    if (!formats::checkpoint_exists(prefix)) return;
    const auto bundle = std::make_shared<formats::BundleReader>(prefix);
    if (!state_.meta->has_saver_def()) {
      restore_by_name(*bundle);
      return;
    }
    state_.resources->checkpoint_prefix = prefix;
    state_.resources->read_checkpoint = [bundle](const std::string& name, const std::string& slice) {
      const Tensor value = read_variable(*bundle, name);
      return slice.empty() ? value : slice_of(value, slice);
    };
    const auto& saver = state_.meta->saver_def();
    run_target(saver.restore_op_name(), {graph_->parse_output(saver.filename_tensor_name())},
               {Tensor::strings({prefix}, Shape{})});
    state_.resources->read_checkpoint = nullptr;
  }

  std::vector<std::string> trainable_names() const {
    std::vector<std::string> names;
    for (const tensorflow::VariableDef& def : variables_in("trainable_variables"))
      names.push_back(node_of(def.variable_name()));
    return names;
  }

  // Restored values become variables of the current strategy.
  void take_variables() {
    const std::vector<std::string> trainable = trainable_names();
    for (const auto& [key, resource] : state_.resources->all("variable")) {
      const auto restored = std::dynamic_pointer_cast<VariableResource>(resource);
      if (!restored || !restored->is_initialized()) continue;
      const std::string name = key.substr(key.find('/') + 1);
      distribute::VariableOptions options;
      options.name = name;
      options.trainable = std::find(trainable.begin(), trainable.end(), name) != trainable.end();
      if (!restored->shape().fully_known()) options.shape = restored->shape();
      const VariablePtr variable = distribute::Variable::create(restored->read(), options);
      state_.resources->put("variable", key, variable);
      state_.variables.push_back(variable);
      if (*options.trainable) state_.trainable_variables.push_back(variable);
    }
    state_.all_variables = state_.variables;
  }

  void run_init_op() {
    const std::vector<std::string> names = formats::init_ops_of(*state_.meta);
    if (names.size() > 1)
      throw_failed_precondition(
          fmt::format("{}: the graph must name one init op, found {}", state_.path, names.size()));
    if (!names.empty()) {
      run_target(names[0], {}, {});
      return;
    }
    for (const tensorflow::VariableDef& def : variables_in("local_variables"))
      run_target(def.initializer_name(), {}, {});
    const auto tables = state_.meta->collection_def().find("table_initializer");
    if (tables == state_.meta->collection_def().end()) return;
    for (const std::string& initializer : tables->second.node_list().value()) {
      if (alone_) {
        fill_table(state_.path, [&] { run_target(initializer, {}, {}); });
      } else {
        run_target(initializer, {}, {});
      }
    }
  }

  void add_signature(const std::string& key, const tensorflow::SignatureDef& def) {
    std::vector<TensorSpec> inputs, outputs;
    std::vector<graph::Output> feeds, fetches;
    const auto add = [&](const auto& entries, auto* specs, auto* places) {
      for (SignatureEntry& entry : signature_entries(entries)) {
        places->push_back(graph_->parse_output(entry.tensor));
        specs->push_back(std::move(entry.spec));
      }
    };
    add(def.inputs(), &inputs, &feeds);
    add(def.outputs(), &outputs, &fetches);
    feeds.insert(feeds.end(), asset_feeds_.begin(), asset_feeds_.end());
    // Prepared by the first call, so that a signature nobody calls may hold operations that lockstep lacks.
    struct Prepared {
      std::mutex mutex;
      std::shared_ptr<graph::Executable> executable;
    };
    const auto prepared = std::make_shared<Prepared>();
    state_.add_signature(
        key, std::move(inputs), std::move(outputs),
        [prepared, feeds, fetches, graph = graph_, library = state_.library, resources = state_.resources,
         assets = asset_values_, variables = state_.variables](const Tensors& arguments) {
          std::unique_lock lock(prepared->mutex);
          if (!prepared->executable) {
            prepared->executable = graph::Executable::prepare(*graph, library, resources, feeds, fetches);
          }
          const auto executable = prepared->executable;
          lock.unlock();
          Tensors values = arguments;
          values.insert(values.end(), assets.begin(), assets.end());
          return executable->run(values);
        },
        [fetches, graph = graph_, library = state_.library] {
          return graph::changes_state(*graph, *library, fetches);
        });
  }

  ModelState& state_;
  const LoadOptions& options_;
  bool alone_;
  std::shared_ptr<graph::Graph> graph_;
  std::vector<graph::Output> asset_feeds_;
  Tensors asset_values_;
};

}  // namespace

std::shared_ptr<graph::Graph> load_graph(ModelState& state, const LoadOptions& options) {
  return GraphLoader(state, options).load();
}

struct FrozenGraph::State {
  std::shared_ptr<graph::Graph> graph;
  std::shared_ptr<const graph::FunctionLibrary> library;
  std::shared_ptr<graph::Resources> resources = std::make_shared<graph::Resources>();
  std::vector<TensorSpec> placeholders;

  // A graph that is prepared for some inputs and outputs.
  struct Prepared {
    std::vector<std::string> inputs, outputs;
    std::vector<const TensorSpec*> specs;  // of the inputs that are placeholders; null for others
    std::shared_ptr<graph::Executable> executable;
  };
  using PreparedPtr = std::shared_ptr<const Prepared>;
  PreparedPtr prepare(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

 private:
  static constexpr std::size_t kMostPrepared = 64;
  std::mutex mutex_;
  std::list<PreparedPtr> prepared_;  // the one used last comes first
};

FrozenGraph::State::PreparedPtr FrozenGraph::State::prepare(const std::vector<std::string>& inputs,
                                                            const std::vector<std::string>& outputs) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      prepared_, [&](const PreparedPtr& each) { return each->inputs == inputs && each->outputs == outputs; });
  if (found != prepared_.end()) {
    prepared_.splice(prepared_.begin(), prepared_, found);
    return prepared_.front();
  }
  const auto made = std::make_shared<Prepared>();
  made->inputs = inputs, made->outputs = outputs;
  std::vector<graph::Output> feeds, fetches;
  for (const std::string& name : inputs) {
    feeds.push_back(graph->parse_output(name));
    const auto spec = std::ranges::find(placeholders, graph->node(feeds.back().node).name, &TensorSpec::name);
    made->specs.push_back(spec == placeholders.end() ? nullptr : &*spec);
  }
  for (const std::string& name : outputs) fetches.push_back(graph->parse_output(name));
  made->executable = graph::Executable::prepare(*graph, library, resources, feeds, fetches);
  prepared_.push_front(made);
  if (prepared_.size() > kMostPrepared) prepared_.pop_back();
  return made;
}

namespace {

// As a session of TensorFlow, which accepts only values that match the placeholder.
void check_feed(const TensorSpec& spec, const Tensor& value) {
  if ((spec.dtype == DType::kInvalid || value.dtype() == spec.dtype) && spec.shape.compatible_with(value.shape()))
    return;
  throw_invalid_argument(fmt::format("placeholder '{}': found {}{}, expected {}{}", spec.name,
                                     dtype_name(value.dtype()), value.shape().to_string(), dtype_name(spec.dtype),
                                     spec.shape.to_string()));
}

struct FileGraph {
  std::shared_ptr<graph::Graph> graph;
  std::shared_ptr<const graph::FunctionLibrary> library;
};

FileGraph frozen_graph(const std::string& path, std::span<const std::byte> bytes) {
  graph::GraphAndLibrary parsed = graph::parse_graph_def(io::as_text(bytes), path);
  return {std::make_shared<graph::Graph>(std::move(parsed.graph)),
          std::make_shared<graph::FunctionLibrary>(std::move(parsed.library))};
}

// Of the files whose names begin with the prefix.
std::uint64_t bytes_of_checkpoint(const std::string& prefix) {
  io::FileSystem& files = io::posix_file_system();
  const std::string folder = io::parent_directory(prefix);
  std::uint64_t bytes = 0;
  for (const std::string& name : files.list(folder)) {
    if (!name.starts_with(io::base_name(prefix))) continue;
    if (const auto stat = files.stat(io::join_path(folder, name)); stat && stat->kind == io::FileStat::Kind::kFile)
      bytes += stat->size;
  }
  return bytes;
}

FileGraph meta_graph(const std::string& path, std::span<const std::byte> bytes,
                     const std::shared_ptr<graph::Resources>& resources) {
  auto proto = std::make_shared<tensorflow::SavedModel>();
  formats::parse_meta_graph_file(*proto->add_meta_graphs(), bytes, path);
  ModelState state;
  state.path = path;
  state.checkpoint = formats::checkpoint_of_meta_graph(path);
  state.proto = proto;
  state.meta = &proto->meta_graphs(0);
  state.resources = resources;
  state.library = std::make_shared<graph::FunctionLibrary>(
      graph::library_from_proto(state.meta->graph_def().library(), path, proto));
  const auto graph = GraphLoader(state, {}, true).load();
  return {graph, state.library};
}

// In a GraphDef only the operation of a node shows whether it gives a table its values.
void fill_tables(const std::string& path, const FileGraph& read, const std::shared_ptr<graph::Resources>& resources) {
  for (int id = 0; id < read.graph->size(); ++id) {
    const graph::Node& node = read.graph->node(id);
    if (!node.op.starts_with("InitializeTable") && !node.op.starts_with("LookupTableImport")) continue;
    if (node.inputs.empty() || !read.graph->node(node.inputs[0].node).op.starts_with("HashTable")) continue;
    fill_table(path, [&] { graph::Executable::prepare(*read.graph, read.library, resources, {}, {}, {id})->run({}); });
  }
}

}  // namespace

FrozenGraph FrozenGraph::load(const std::string& path) {
  io::FileSystem& files = io::posix_file_system();
  const bool with_variables = formats::detect(path).kind == formats::Kind::kMetaGraph;
  const auto bytes = files.map(path);
  std::uint64_t size = bytes->bytes().size();
  if (with_variables) size += bytes_of_checkpoint(formats::checkpoint_of_meta_graph(path));
  FrozenGraph out;
  out.state_ = std::make_shared<State>();
  out.state_->resources->limits = graph::run_limits();
  out.state_->resources->separate_random_states();
  out.state_->resources->file_bytes = static_cast<std::int64_t>(size);
  FileGraph read =
      with_variables ? meta_graph(path, bytes->bytes(), out.state_->resources) : frozen_graph(path, bytes->bytes());
  if (read.graph->size() == 0) throw_data_loss(fmt::format("{}: a graph without nodes", path));
  if (!with_variables) fill_tables(path, read, out.state_->resources);
  out.state_->graph = std::move(read.graph);
  out.state_->library = std::move(read.library);
  for (const graph::Node& node : out.state_->graph->nodes()) {
    if (node.op != "Placeholder" && node.op != "PlaceholderV2" && node.op != "PlaceholderWithDefault") continue;
    TensorSpec spec(Shape::unknown_rank(), DType::kInvalid, node.name);
    if (const ops::Attr* dtype = node.attrs.find("dtype"); dtype && std::holds_alternative<DType>(*dtype))
      spec.dtype = std::get<DType>(*dtype);
    if (const ops::Attr* shape = node.attrs.find("shape"); shape && std::holds_alternative<Shape>(*shape))
      spec.shape = std::get<Shape>(*shape);
    out.state_->placeholders.push_back(std::move(spec));
  }
  return out;
}

const std::vector<TensorSpec>& FrozenGraph::placeholders() const { return state_->placeholders; }

std::vector<std::string> FrozenGraph::outputs() const {
  std::vector<char> used(static_cast<std::size_t>(state_->graph->size()), 0);
  for (const graph::Node& node : state_->graph->nodes()) {
    for (const graph::Output& input : node.inputs) used[static_cast<std::size_t>(input.node)] = 1;
    for (int control : node.control_inputs) used[static_cast<std::size_t>(control)] = 1;
  }
  std::vector<std::string> names;
  for (int id = 0; id < state_->graph->size(); ++id) {
    const std::string& op = state_->graph->node(id).op;
    if (!used[static_cast<std::size_t>(id)] && op != "NoOp" && op != "Placeholder" && op != "Const") {
      names.push_back(state_->graph->node(id).name);
    }
  }
  return names;
}

Tensors FrozenGraph::run(const std::map<std::string, Tensor>& inputs, const std::vector<std::string>& outputs) const {
  std::vector<std::string> names;
  Tensors values;
  for (const auto& [name, value] : inputs) {
    names.push_back(name);
    values.push_back(value);
  }
  const State::PreparedPtr prepared = state_->prepare(names, outputs);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (prepared->specs[i]) check_feed(*prepared->specs[i], values[i]);
  }
  return prepared->executable->run(values);
}

}  // namespace lockstep::saved_model
