#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/formats/proto_io_internal.h"
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

const tensorflow::MetaGraphDef& select_meta_graph(const tensorflow::SavedModel& model, std::vector<std::string> tags,
                                                  const std::string& path) {
  if (model.meta_graphs_size() == 0) throw_data_loss(fmt::format("{}: saved_model.pb holds no MetaGraph", path));
  if (tags.empty() && model.meta_graphs_size() == 1) return model.meta_graphs(0);
  if (tags.empty()) tags = {"serve"};
  const std::set<std::string> wanted(tags.begin(), tags.end());
  for (const auto& meta : model.meta_graphs()) {
    const auto& found = meta.meta_info_def().tags();
    if (std::set<std::string>(found.begin(), found.end()) == wanted) return meta;
  }
  throw_not_found(fmt::format("{}: no MetaGraph has the tags {{{}}}; there are {}", path, fmt::join(wanted, ", "),
                              tag_sets(model)));
}

std::shared_ptr<const tensorflow::SavedModel> read_proto(const std::string& path) {
  io::FileSystem& files = io::posix_file_system();
  const std::string file = io::join_path(path, "saved_model.pb");
  if (!io::is_file(files, file)) {
    if (io::is_file(files, file + "txt")) {
      throw_unimplemented(fmt::format(
          "{}: a SavedModel in text form (saved_model.pbtxt) is not read; convert it to saved_model.pb", path));
    }
    throw_not_found(fmt::format("{}: saved_model.pb is missing; is this the folder of a SavedModel?", path));
  }
  auto proto = std::make_shared<tensorflow::SavedModel>();
  formats::parse_proto(*proto, files.map(file)->bytes(), file);
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

// How well one argument fits a part of a trace's signature; the tensors it contributes are appended.
bool fits(const tensorflow::StructuredValue& spec, const Structure* argument, Tensors* flat) {
  using tensorflow::StructuredValue;
  const bool absent = !argument || (argument->is_leaf() && !argument->leaf().defined());
  const auto all = [&](const auto& values) {
    if (!argument) return values.empty();
    if (argument->is_leaf() && values.size() == 1) return fits(values[0], argument, flat);
    if (!argument->is_list() || static_cast<int>(argument->items().size()) != values.size()) return false;
    for (int i = 0; i < values.size(); ++i) {
      if (!fits(values[i], &argument->items()[static_cast<std::size_t>(i)], flat)) return false;
    }
    return true;
  };
  switch (spec.kind_case()) {
    case StructuredValue::kTensorSpecValue: {
      if (absent || !argument->is_leaf()) return false;
      const TensorSpec wanted = read_spec(spec.tensor_spec_value());
      const Tensor& given = argument->leaf();
      flat->push_back(given);
      return given.dtype() == wanted.dtype && wanted.shape.compatible_with(given.shape());
    }
    case StructuredValue::kListValue: return all(spec.list_value().values());
    case StructuredValue::kTupleValue: return all(spec.tuple_value().values());
    case StructuredValue::kDictValue: {
      const auto& fields = spec.dict_value().fields();
      if (!argument || !argument->is_dict() || argument->entries().size() != fields.size()) return false;
      std::map<std::string, const StructuredValue*> sorted;
      for (const auto& [key, field] : fields) sorted.emplace(key, &field);
      for (const auto& [key, field] : sorted) {
        if (!fits(*field, argument->find(key), flat)) return false;
      }
      return true;
    }
    case StructuredValue::kTypeSpecValue: {
      if (absent) return false;
      for (const Tensor& part : argument->flatten()) flat->push_back(part);
      return true;
    }
    default: return absent;  // None or a Python value: the traced one is kept
  }
}

bool training_fits(const tensorflow::StructuredValue& spec, std::optional<bool> training, bool strict) {
  if (spec.kind_case() == tensorflow::StructuredValue::kBoolValue) {
    return training ? spec.bool_value() == *training : (!strict || !spec.bool_value());
  }
  return !strict || !training;
}

// The flat tensor arguments when the call fits this trace.
std::optional<Tensors> bind(const RestoredFunction& function, const BoundFunction& trace,
                            const std::vector<Structure>& arguments, std::optional<bool> training, bool strict) {
  if (!trace.input_signature || trace.input_signature->tuple_value().values_size() != 2) return std::nullopt;
  const auto& positional = trace.input_signature->tuple_value().values(0).tuple_value();
  const auto& keywords = trace.input_signature->tuple_value().values(1).dict_value();
  Tensors flat;
  std::size_t next = 0;
  for (int i = 0; i < positional.values_size(); ++i) {
    const bool named = static_cast<std::size_t>(i) < function.parameters.size();
    const std::string name = named ? function.parameters[static_cast<std::size_t>(i)] : "";
    if (name == "training") {
      if (!training_fits(positional.values(i), training, strict)) return std::nullopt;
      continue;
    }
    const Structure* argument = next < arguments.size() ? &arguments[next] : nullptr;
    const bool tensors = [&] {
      std::vector<TensorSpec> specs;
      collect_specs(positional.values(i), &specs);
      return !specs.empty();
    }();
    if (tensors || !argument) {
      ++next;
    } else {
      argument = nullptr;  // a Python value, which no tensor can stand for
    }
    if (!fits(positional.values(i), argument, &flat)) return std::nullopt;
  }
  std::map<std::string, const tensorflow::StructuredValue*> sorted;
  for (const auto& [name, spec] : keywords.fields()) sorted.emplace(name, &spec);
  const Structure* dict =
      positional.values_size() == 0 && arguments.size() == 1 && arguments[0].is_dict() ? &arguments[0] : nullptr;
  if (dict) ++next;
  for (const auto& [name, spec] : sorted) {
    if (name == "training") {
      if (!training_fits(*spec, training, strict)) return std::nullopt;
    } else if (!fits(*spec, dict ? dict->find(name) : nullptr, &flat)) {
      return std::nullopt;
    }
  }
  if (next < arguments.size()) return std::nullopt;
  return flat;
}

std::string describe(const std::vector<Structure>& arguments) {
  std::string text;
  for (const Structure& argument : arguments) {
    for (const Tensor& tensor : argument.flatten()) {
      if (!tensor.defined()) continue;
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", dtype_name(tensor.dtype()), tensor.shape().to_string());
    }
  }
  return text;
}

std::string describe_traces(const RestoredFunction& function) {
  std::string text;
  for (const BoundFunction& trace : function.traces) {
    std::vector<TensorSpec> specs;
    if (trace.input_signature) collect_specs(*trace.input_signature, &specs);
    std::string one;
    for (const TensorSpec& spec : specs) {
      one += fmt::format("{}{}{}", one.empty() ? "" : ", ", dtype_name(spec.dtype), spec.shape.to_string());
    }
    const std::string item = fmt::format("({})", one);
    if (text.find(item) == std::string::npos) text += (text.empty() ? "" : " or ") + item;
  }
  return text;
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
  Tensors feeds = arguments;
  feeds.insert(feeds.end(), function.captures.begin(), function.captures.end());
  return graph::Executable::prepare(function.function, library, resources)->run(feeds);
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

std::map<std::string, Tensor> Signature::call_with_one(const Tensor& input) const {
  if (inputs_.size() != 1) {
    throw_invalid_argument(fmt::format("signature '{}': found one tensor, expected a map with its inputs: {}", name_,
                                       fmt::join(input_names(), ", ")));
  }
  return (*this)(std::map<std::string, Tensor>{{inputs_[0].name, input}});
}

std::map<std::string, Tensor> Signature::operator()(const std::map<std::string, Tensor>& given) const {
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
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < outputs_.size(); ++i) named.emplace(outputs_[i].name, results[i]);
  return named;
}

std::vector<std::string> LoadedModel::signature_names() const { return state_->signature_names; }

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

Structure LoadedModel::call(const std::string& name, const std::vector<Structure>& arguments,
                            std::optional<bool> training) const {
  const auto& functions = state_->functions_of(node_);
  const auto found = functions.find(name);
  if (found == functions.end()) {
    throw_not_found(
        fmt::format("{}: the model has no function '{}'{}", state_->path, name, did_you_mean(name, function_names())));
  }
  const RestoredFunction& function = found->second;
  if (!training) training = function.default_training;
  for (const bool strict : {true, false}) {
    for (const BoundFunction& trace : function.traces) {
      const auto flat = bind(function, trace, arguments, training, strict);
      if (!flat) continue;
      std::size_t next = 0;
      return pack_results(*trace.output_signature, state_->run(trace, *flat), &next);
    }
  }
  throw_invalid_argument(fmt::format("{}: function '{}' was not traced for ({}); it takes {}", state_->path, name,
                                     describe(arguments), describe_traces(function)));
}

Tensors LoadedModel::regularization_losses() const {
  Tensors losses;
  for (const BoundFunction& loss : state_->regularization_losses) losses.push_back(state_->run(loss, {}).at(0));
  return losses;
}

LoadedModel load(const std::string& path, const LoadOptions& options) {
  check_io_device(options.experimental_io_device);
  auto state = std::make_shared<ModelState>();
  state->path = path;
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
