#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/saving/saved_model_state_internal.h"
#include "lockstep/saving/saved_model_structure_internal.h"

namespace lockstep::saved_model {
namespace {

std::string tag_sets(const tensorflow::SavedModel& model) {
  std::string text;
  for (const auto& meta : model.meta_graphs()) {
    text += fmt::format("{}{{{}}}", text.empty() ? "" : ", ", fmt::join(meta.meta_info_def().tags(), ", "));
  }
  return text;
}

bool is_hub_module(const std::string& path) {
  return io::is_file(io::posix_file_system(), io::join_path(path, "tfhub_module.pb"));
}

const tensorflow::MetaGraphDef& select_meta_graph(const tensorflow::SavedModel& model, std::vector<std::string> tags,
                                                  const std::string& path) {
  if (model.meta_graphs_size() == 0) throw_data_loss(fmt::format("{}: the SavedModel holds no MetaGraph", path));
  if (tags.empty() && model.meta_graphs_size() == 1) return model.meta_graphs(0);
  // Of a module of TensorFlow Hub for TensorFlow 1 the MetaGraph without tags.
  if (tags.empty() && !is_hub_module(path)) tags = {"serve"};
  const std::set<std::string> wanted(tags.begin(), tags.end());
  for (const auto& meta : model.meta_graphs()) {
    const auto& found = meta.meta_info_def().tags();
    if (std::set<std::string>(found.begin(), found.end()) == wanted) return meta;
  }
  throw_not_found(fmt::format("{}: no MetaGraph has the tags {{{}}}; there are {}", path, fmt::join(wanted, ", "),
                              tag_sets(model)));
}

std::shared_ptr<const tensorflow::SavedModel> read_proto(const std::string& path) {
  auto proto = std::make_shared<tensorflow::SavedModel>();
  formats::read_saved_model_file(*proto, path);
  return proto;
}

// Of the graph, the variables and the assets.
std::int64_t bytes_of_files(const std::string& path) {
  io::FileSystem& files = io::posix_file_system();
  std::uint64_t bytes = 0;
  for (const char* folder : {"", "variables", "assets"}) {
    const std::string at = *folder ? io::join_path(path, folder) : path;
    if (!files.stat(at)) continue;
    for (const std::string& name : files.list(at)) {
      const auto stat = files.stat(io::join_path(at, name));
      if (stat && stat->kind == io::FileStat::Kind::kFile) bytes += stat->size;
    }
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

void check_io_device(const std::string& device) {
  if (device.empty() || device == "/job:localhost") return;
  distribute::canonical_device(device);
}

Tensor read_variable(const formats::BundleReader& bundle, const std::string& key) {
  const formats::TensorInfo& info = bundle.info(key);
  if (info.dtype == DType::kString) return Tensor::from_data(bundle.read(key));
  std::span<std::byte> bytes;
  const formats::TensorData data = formats::TensorData::allocate(info.dtype, info.shape, bytes);
  bundle.read_into(key, bytes);
  return Tensor::from_data(data);
}

std::string asset_path(const ModelState& state, int asset_index) {
  if (asset_index < 0 || asset_index >= state.meta->asset_file_def_size()) {
    throw_data_loss(fmt::format("{}: asset number {} is not described", state.path, asset_index));
  }
  const std::string& name = state.meta->asset_file_def(asset_index).filename();
  if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
    throw_invalid_argument(fmt::format("{}: invalid asset name '{}': outside of the folder assets", state.path, name));
  }
  return io::join_path(io::join_path(state.path, "assets"), name);
}

std::vector<SignatureEntry> signature_entries(
    const google::protobuf::Map<std::string, tensorflow::TensorInfo>& entries) {
  std::vector<SignatureEntry> out;
  const auto add = [&](const std::string& name, int dtype, Shape shape, const std::string& tensor) {
    out.push_back({{std::move(shape), graph::dtype_from_proto(dtype), name}, tensor});
  };
  for (const auto& [key, info] : entries) {
    const Shape shape = graph::shape_from_proto(info.tensor_shape());
    if (info.encoding_case() == tensorflow::TensorInfo::kCooSparse) {
      const std::int64_t rank = shape.known_rank() ? shape.rank() : kUnknownDim;
      const std::vector<std::string> names = component_names(key, true, 3);
      add(names[0], tensorflow::DT_INT64, Shape{kUnknownDim, rank}, info.coo_sparse().indices_tensor_name());
      add(names[1], info.dtype(), Shape{kUnknownDim}, info.coo_sparse().values_tensor_name());
      add(names[2], tensorflow::DT_INT64, Shape{rank}, info.coo_sparse().dense_shape_tensor_name());
    } else if (info.encoding_case() == tensorflow::TensorInfo::kCompositeTensor) {
      const auto& parts = info.composite_tensor().components();
      const std::vector<std::string> names = component_names(key, false, parts.size());
      for (int i = 0; i < parts.size(); ++i) {
        add(names[static_cast<std::size_t>(i)], parts[i].dtype(), graph::shape_from_proto(parts[i].tensor_shape()),
            parts[i].name());
      }
    } else if (info.encoding_case() == tensorflow::TensorInfo::kName) {
      add(key, info.dtype(), shape, info.name());
    }
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.spec.name < b.spec.name; });
  return out;
}

Tensors ModelState::run(const BoundFunction& function, const Tensors& arguments) const {
  return graph::Executable::prepare(function.function, library, resources)->run(arguments, function.captures);
}

void ModelState::add_signature(const std::string& name, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                               std::function<Tensors(const Tensors&)> run, std::function<bool()> changes_state) {
  Signature signature;
  signature.name_ = name;
  signature.inputs_ = std::move(inputs);
  signature.outputs_ = std::move(outputs);
  signature.run_ = std::move(run);
  signature.changes_state_ = std::move(changes_state);
  if (const auto def = meta->signature_def().find(name); def != meta->signature_def().end()) {
    for (const auto& [input, value] : def->second.defaults()) {
      const std::string what = fmt::format("{}, default of the input '{}'", path, input);
      signature.defaults_.emplace(input, graph::tensor_from_proto(value, what, proto));
    }
  }
  signature_names.push_back(name);
  signatures.push_back(std::move(signature));
}

TensorDict Signature::call_with_one(const Tensor& input) const {
  if (inputs_.size() != 1) {
    throw_invalid_argument(fmt::format("signature '{}': found one tensor, expected a map with its inputs: {}", name_,
                                       fmt::join(input_names(), ", ")));
  }
  return (*this)(std::map<std::string, Tensor>{{inputs_[0].name, input}});
}

TensorDict Signature::operator()(const std::map<std::string, Tensor>& given) const {
  std::vector<std::string> names;
  for (const TensorSpec& input : inputs_) names.push_back(input.name);
  for (const auto& [name, tensor] : given) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw_invalid_argument(
          fmt::format("signature '{}' has no input '{}'; its inputs are: {}", name_, name, fmt::join(names, ", ")));
    }
  }
  Tensors feeds;
  std::string differing;
  for (const TensorSpec& input : inputs_) {
    auto found = given.find(input.name);
    if (found == given.end()) {
      found = defaults_.find(input.name);
      if (found == defaults_.end())
        throw_invalid_argument(fmt::format("signature '{}': input '{}' is missing", name_, input.name));
    }
    const Tensor& tensor = found->second;
    const bool same_dtype = tensor.dtype() == input.dtype;
    if (!same_dtype || !input.shape.compatible_with(tensor.shape())) {
      differing += fmt::format("{}input '{}' is {}{}, expected {}{}", differing.empty() ? "" : "; ", input.name,
                               dtype_name(tensor.dtype()), tensor.shape().to_string(), dtype_name(input.dtype),
                               input.shape.to_string());
    }
    if (!same_dtype) throw_invalid_argument(fmt::format("signature '{}': {}", name_, differing));
    feeds.push_back(tensor);
  }
  const Tensors results = [&] {
    try {
      return run_(feeds);
    } catch (const Error& error) {
      if (differing.empty()) throw;
      throw_error(error.code(), fmt::format("signature '{}': {}: {}", name_, differing, error.message()));
    }
  }();
  TensorDict named;
  for (std::size_t i = 0; i < outputs_.size(); ++i) named.emplace(outputs_[i].name, results[i]);
  return named;
}

std::vector<std::string> LoadedModel::signature_names() const { return state_->signature_names; }

SignatureMap LoadedModel::signatures() const {
  SignatureMap all;
  for (const Signature& signature : state_->signatures) all.emplace(signature.name(), signature);
  return all;
}
Signature LoadedModel::signatures(const std::string& name) const {
  for (const Signature& signature : state_->signatures) {
    if (signature.name() == name) return signature;
  }
  throw_not_found(fmt::format("{}: unknown signature '{}'; available: {}", state_->path, name,
                              fmt::join(state_->signature_names, ", ")));
}

std::string LoadedModel::tensorflow_version() const { return state_->tensorflow_version; }

std::vector<std::string> LoadedModel::function_names() const {
  std::vector<std::string> names;
  for (const auto& [name, function] : state_->functions_of(node_)) names.push_back(name);
  return names;
}

bool LoadedModel::has_function(const std::string& name) const { return state_->functions_of(node_).contains(name); }

Tensors LoadedModel::regularization_losses() const {
  Tensors losses;
  for (const BoundFunction& loss : state_->regularization_losses) losses.push_back(state_->run(loss, {}).at(0));
  return losses;
}

LoadedModel load(const std::string& path, const LoadOptions& options) {
  check_io_device(options.experimental_io_device);
  auto state = std::make_shared<ModelState>();
  state->path = path;
  state->checkpoint = io::join_path(io::join_path(path, "variables"), "variables");
  state->proto = read_proto(path);
  state->meta = &select_meta_graph(*state->proto, options.tags, path);
  state->tensorflow_version = state->meta->meta_info_def().tensorflow_version();
  state->resources = std::make_shared<graph::Resources>();
  state->resources->limits = graph::run_limits();
  state->resources->separate_random_states();
  state->resources->file_bytes = bytes_of_files(path);
  state->resources->asset_directory = io::join_path(path, "assets");
  state->library = std::make_shared<graph::FunctionLibrary>(
      graph::library_from_proto(state->meta->graph_def().library(), path, state->proto));
  const bool objects = state->proto->meta_graphs_size() == 1 && state->meta->has_object_graph_def() &&
                       state->meta->object_graph_def().nodes_size() > 0;
  if (objects) {
    load_objects(*state, options);
  } else {
    load_graph(*state, options);
  }
  return LoadedModel(std::move(state));
}

}  // namespace lockstep::saved_model
