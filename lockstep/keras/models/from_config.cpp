#include "lockstep/keras/models/from_config_internal.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/configured_layer_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/input_layer.h"
#include "lockstep/keras/layers/recurrent_cells_internal.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

constexpr std::size_t kMostCalls = 1'000'000;

std::string text_of(const Json& json) {
  std::string text = dump_json(json);
  if (text.size() > 100) {
    text.resize(100);
    text.append("…");
  }
  return text;
}

// Where a tensor comes from: [name, call, output].
struct TensorOrigin {
  std::string name;
  int node = 0;
  int tensor = 0;
};

std::optional<TensorOrigin> parse_origin(const Json& json) {
  if (!json.is_array() || json.size() < 3 || !json[0].is_string() || !json[1].is_number_integer() ||
      !json[2].is_number_integer()) {
    return std::nullopt;
  }
  const auto node = json[1].get<std::int64_t>(), tensor = json[2].get<std::int64_t>();
  if (node < 0 || tensor < 0 || node > INT32_MAX || tensor > INT32_MAX) return std::nullopt;
  return TensorOrigin{json[0].get<std::string>(), static_cast<int>(node), static_cast<int>(tensor)};
}

}  // namespace

Tensor constant_from(const Json& config) {
  const std::string dtype_text =
      config.value("dtype", Json("float32")).is_string() ? config.value("dtype", "float32") : "";
  const auto dtype = parse_dtype(dtype_text);
  if (!dtype) throw_invalid_argument(fmt::format("a constant has the unknown dtype '{}'", dtype_text));
  std::vector<double> values;
  Shape shape;
  const std::function<void(const Json&, int)> walk = [&](const Json& json, int depth) {
    if (!json.is_array()) {
      if (!json.is_number() && !json.is_boolean())
        throw_invalid_argument(fmt::format("a constant holds {}", text_of(json)));
      values.push_back(json.is_boolean() ? json.get<bool>() : json.get<double>());
      return;
    }
    if (depth == shape.rank()) shape.push_back(static_cast<std::int64_t>(json.size()));
    if (shape[depth] != static_cast<std::int64_t>(json.size()))
      throw_invalid_argument("a constant's rows have different lengths");
    for (const Json& item : json) walk(item, depth + 1);
  };
  walk(config.value("value", Json()), 0);
  return ops::cast(Tensor::from_vector(values, shape), *dtype);
}

namespace {

// The graph of a config while it is rebuilt.
class Rebuild {
 public:
  explicit Rebuild(const Json& config) : config_(config) {}
  ~Rebuild() {
    queue_.clear();
    operations_.clear();
    while (!order_.empty()) order_.pop_back();  // later operations hold earlier ones
  }

  std::shared_ptr<FunctionalImpl> run();

 private:
  struct Call {
    Operation* operation;
    const Json* data;
  };
  void create(const Json& entry);
  void process_all();
  // False when a tensor it needs does not exist yet; `missing` names the operation it waits for.
  bool process(const Call& call, std::string& missing);
  Argument argument(const Json& json, std::string& missing);
  CallArguments legacy_arguments(const Operation& operation, const Json& list, std::string& missing);
  Tensor tensor(const TensorOrigin& history, std::string& missing);
  void call_with_dtypes(TensorOp& op, CallArguments arguments, const Json& dtypes);
  Tensor in_dtype(const Tensor& x, const std::string& dtype, std::string name);
  bool is_model(const std::string& name) const;
  Structure boundary(const Json& json, const char* what);
  std::string model_name() const {
    const auto it = config_.find("name");
    return it != config_.end() && it->is_string() ? it->get<std::string>() : "?";
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw_invalid_argument(fmt::format("the config of model '{}' is invalid: {}", model_name(), why));
  }

  const Json& config_;
  bool legacy_ = false;      // entries without a module
  bool list_nodes_ = false;  // of Keras 2
  std::vector<OperationPtr> order_;
  std::map<std::string, OperationPtr> operations_;
  std::map<const Operation*, std::deque<Call>> queue_;
  std::map<const Operation*, Json> dtypes_;                  // of TensorFlow's functions (old_operations_internal.h)
  std::map<std::pair<const Operation*, int>, Tensor> cast_;  // the results of such calls
};

// The config of an operation with the name of a layer class: it lacks what all layers have.
bool has_config_of_operation(const Json& entry) {
  const Json config = entry.value("config", Json());
  const Json nodes = entry.value("inbound_nodes", Json());
  return config.is_object() && !config.contains("trainable") && !config.contains("dtype") && nodes.is_array() &&
         nodes.size() > 0 && nodes[0].is_object();
}

void Rebuild::create(const Json& entry) {
  if (!entry.is_object() || !entry.contains("class_name")) fail(fmt::format("{} is not a layer", text_of(entry)));
  std::string name;
  if (const auto it = entry.find("name"); it != entry.end() && it->is_string()) {
    name = it->get<std::string>();
  } else if (entry.contains("config") && entry["config"].is_object() &&
             entry["config"].value("name", Json()).is_string()) {
    name = entry["config"]["name"].get<std::string>();
  } else {
    fail(fmt::format("a layer has no name: {}", text_of(entry)));
  }
  legacy_ = legacy_ || is_legacy_object(entry);
  const std::string module = entry.value("module", Json("")).is_string() ? entry.value("module", "") : "";
  OperationPtr operation;
  // Keras 3's .h5 files name operations as if they were layers.
  const std::string class_name = entry["class_name"].is_string() ? entry["class_name"].get<std::string>() : "";
  const bool bare_operation = module.empty() && find_tensor_op(class_name) &&
                              (!layer_classes().find(class_name) || has_config_of_operation(entry));
  if (is_ops_module(module) || bare_operation) {
    operation = deserialize_tensor_op(entry);
  } else {
    operation = deserialize_layer(entry);
  }
  order_.push_back(operation);
  if (const auto dtypes = entry.find("dtypes_of_keras2"); dtypes != entry.end() && dtypes->is_object())
    dtypes_[operation.get()] = *dtypes;
  if (!operations_.emplace(name, operation).second) fail(fmt::format("two layers have the name '{}'", name));
  const auto nodes = entry.find("inbound_nodes");
  if (nodes == entry.end()) fail(fmt::format("layer '{}' has no inbound_nodes", name));
  if (!nodes->is_array()) fail(fmt::format("layer '{}': inbound_nodes is {}", name, text_of(*nodes)));
  for (const Json& node : *nodes) {
    if (node.empty()) continue;
    list_nodes_ = list_nodes_ || node.is_array();
    legacy_ = legacy_ || list_nodes_;  // tf-keras names modules too
    queue_[operation.get()].push_back({operation.get(), &node});
  }
}

bool Rebuild::is_model(const std::string& name) const {
  const auto it = operations_.find(name);
  return it != operations_.end() && dynamic_cast<const ModelImpl*>(it->second.get());
}

Tensor Rebuild::tensor(const TensorOrigin& history, std::string& missing) {
  const auto it = operations_.find(history.name);
  if (it == operations_.end()) {
    std::vector<std::string> names;
    for (const auto& [name, operation] : operations_) names.push_back(name);
    fail(fmt::format("a tensor comes from the unknown layer '{}'{}", history.name, did_you_mean(history.name, names)));
  }
  Operation& operation = *it->second;
  if (history.node >= static_cast<int>(operation.inbound_nodes().size())) {
    missing = history.name;
    return {};
  }
  if (const auto result = cast_.find({&operation, history.node}); result != cast_.end() && history.tensor == 0)
    return result->second;
  const std::vector<Tensor> outputs = operation.outputs_of(history.node).flatten();
  if (history.tensor >= static_cast<int>(outputs.size())) {
    fail(fmt::format("output {} of layer '{}' was requested, which has {}", history.tensor, history.name,
                     outputs.size()));
  }
  return outputs[static_cast<std::size_t>(history.tensor)];
}

Argument Rebuild::argument(const Json& json, std::string& missing) {
  if (json.is_array()) {
    Argument::List items;
    for (const Json& item : json) items.push_back(argument(item, missing));
    return Argument::list(std::move(items));
  }
  if (json.is_object()) {
    const bool object = json.contains("class_name") && json["class_name"].is_string() && json.contains("config");
    if (object) {
      const std::string kind = json["class_name"].get<std::string>();
      if (kind == "__keras_tensor__") {
        const auto history = parse_origin(json["config"].value("keras_history", Json()));
        if (!history) fail(fmt::format("{} does not name the tensor's source", text_of(json)));
        return ArgValue(tensor(*history, missing));
      }
      if (kind == "__tensor__" || kind == "__numpy__") return ArgValue(constant_from(json["config"]));
      return ArgValue(json);
    }
    Argument::Dict entries;
    for (const auto& [key, value] : json.items()) entries.emplace_back(key, argument(value, missing));
    return Argument::dict(std::move(entries));
  }
  return ArgValue(json);
}

// Recurrent layers, which Keras 1 and 2 called on a list of the sequence and the initial states.
bool takes_states(const Operation& operation) {
  const auto* layer = dynamic_cast<const Layer*>(&operation);
  return layer && (loop_options(*layer) || layer->class_name() == "Bidirectional");
}

// Keras 1's and 2's form: [[name, call, output, {keywords}], …], or a dictionary of tensors.
CallArguments Rebuild::legacy_arguments(const Operation& operation, const Json& list, std::string& missing) {
  CallArguments arguments;
  Argument::List inputs;
  std::vector<std::string> keys;
  Json entries = list;
  if (list.is_object()) {
    entries = Json::array();
    for (const auto& [key, entry] : list.items()) keys.push_back(key), entries.push_back(entry);
  } else if (list.size() >= 3 && list[0].is_string()) {
    entries = Json::array({list});
  }
  const auto resolve = [&](TensorOrigin history) {
    // Keras 2 counts a nested model's own call of itself.
    if (is_model(history.name) && history.node > 0) --history.node;
    return tensor(history, missing);
  };
  const std::function<Argument(const Json&)> keyword = [&](const Json& value) -> Argument {
    if (const auto origin = parse_origin(value); origin && operations_.contains(origin->name))
      return ArgValue(resolve(*origin));
    if (!value.is_array()) return argument(value, missing);
    Argument::List items;
    for (const Json& item : value) items.push_back(keyword(item));
    return Argument::list(std::move(items));
  };
  for (const Json& entry : entries) {
    const auto history = parse_origin(entry);
    // The states of stacked cells are lists.
    const auto is_origin = [](const Json& item) { return parse_origin(item).has_value(); };
    if (entry.is_array() && !entry.empty() && takes_states(operation) &&
        std::all_of(entry.begin(), entry.end(), is_origin)) {
      Argument::List states;
      for (const Json& state : entry) states.push_back(ArgValue(resolve(*parse_origin(state))));
      inputs.push_back(Argument::list(std::move(states)));
      continue;
    }
    if (!history) fail(fmt::format("layer '{}' is called on {}", operation.name(), text_of(entry)));
    inputs.push_back(ArgValue(resolve(*history)));
    if (entry.size() < 4 || !entry[3].is_object()) continue;
    for (const auto& [key, value] : entry[3].items()) {
      // Recurrent layers of Keras 3 have no argument of this name.
      if (key != "constants" || !value.is_null()) arguments.set(key, keyword(value));
    }
  }
  if (list.is_object()) {
    Argument::Dict named;
    for (std::size_t i = 0; i < keys.size(); ++i) named.emplace_back(keys[i], std::move(inputs[i]));
    arguments.args.push_back(Argument::dict(std::move(named)));
  } else if (inputs.size() == 1) {
    arguments.args.push_back(std::move(inputs[0]));
  } else if (takes_states(operation)) {
    // Keras 2 passes the mask of the sequence on, Keras 3 only where it is named.
    const Tensor& sequence = inputs[0].leaf().tensor;
    if (sequence.defined() && sequence.mask().defined()) arguments.set("mask", ArgValue(sequence.mask()));
    arguments.set("initial_state", Argument::list(Argument::List(inputs.begin() + 1, inputs.end())));
    arguments.args.push_back(std::move(inputs[0]));
  } else {
    arguments.args.push_back(Argument::list(std::move(inputs)));
  }
  return arguments;
}

Tensor Rebuild::in_dtype(const Tensor& x, const std::string& dtype, std::string name) {
  if (std::string(dtype_name(x.dtype())) == dtype) return x;
  const auto cast = std::make_shared<TensorOp>(*find_tensor_op("Cast"), Json{{"dtype", dtype}, {"name", name}});
  order_.push_back(cast);
  CallArguments arguments;
  arguments.args.push_back(ArgValue(x));
  return (*cast)(std::move(arguments)).leaf();
}

void Rebuild::call_with_dtypes(TensorOp& op, CallArguments arguments, const Json& dtypes) {
  const auto call = static_cast<int>(op.inbound_nodes().size());
  const std::string who = call == 0 ? op.name() : fmt::format("{}_{}", op.name(), call);
  const Json integers = dtypes.value("integers", Json()), wanted = dtypes.value("result", Json());
  std::string result = wanted.is_string() ? wanted.text() : "";
  if (result == "operand") result = dtype_name(arguments.tensors().at(0).dtype());
  for (std::size_t i = 0; integers.is_string() && i < arguments.args.size(); ++i) {
    Argument& given = arguments.args[i];
    if (!given.is_leaf() || !given.leaf().is_tensor() || !is_integer(given.leaf().tensor.dtype())) continue;
    given = ArgValue(in_dtype(given.leaf().tensor, integers.text(), fmt::format("{}_operand_{}", who, i)));
  }
  const Tensor found = op(std::move(arguments)).leaf();
  if (!result.empty()) cast_[{&op, call}] = in_dtype(found, result, who + "_result");
}

bool Rebuild::process(const Call& call, std::string& missing) {
  const Json& data = *call.data;
  CallArguments arguments;
  const bool legacy_call = data.is_array() || (data.is_object() && !data.contains("args") && legacy_);
  if (legacy_call) {
    arguments = legacy_arguments(*call.operation, data, missing);
  } else if (data.is_object() && data.contains("args") && data["args"].is_array()) {
    for (const Json& arg : data["args"]) arguments.args.push_back(argument(arg, missing));
    if (const auto kwargs = data.find("kwargs"); kwargs != data.end() && kwargs->is_object()) {
      for (const auto& [key, value] : kwargs->items()) arguments.set(key, argument(value, missing));
    }
  } else {
    fail(fmt::format("layer '{}' has the call {}", call.operation->name(), text_of(data)));
  }
  if (!missing.empty()) return false;
  if (!any_keras_tensor(arguments)) fail(fmt::format("a call of '{}' has no symbolic input", call.operation->name()));
  if (auto* op = dynamic_cast<TensorOp*>(call.operation)) {
    const auto dtypes = dtypes_.find(op);
    if (dtypes == dtypes_.end()) {
      (*op)(std::move(arguments));
    } else {
      call_with_dtypes(*op, std::move(arguments), dtypes->second);
    }
  } else {
    const Argument* training = arguments.find("training");
    const bool own_training = training && training->is_leaf() && training->leaf().value.is_boolean();
    dynamic_cast<Layer&>(*call.operation).invoke(std::move(arguments));
    // Keras 2 obeys the argument in a file, so a call has it only if the file does.
    if (legacy_call && !own_training) call.operation->inbound_nodes().back()->arguments.erase("training");
  }
  return true;
}

void Rebuild::process_all() {
  std::map<std::string, std::vector<Operation*>> waiting;
  std::deque<Operation*> ready;
  std::size_t left = 0;
  for (const OperationPtr& operation : order_) {
    if (!queue_.contains(operation.get())) continue;
    ready.push_back(operation.get());
    left += queue_[operation.get()].size();
  }
  if (left > kMostCalls) fail(fmt::format("it has {} calls, more than {}", left, kMostCalls));
  std::map<const Operation*, std::string> entry_names;
  for (const auto& [name, operation] : operations_) entry_names[operation.get()] = name;
  while (!ready.empty()) {
    Operation* operation = ready.front();
    ready.pop_front();
    auto& calls = queue_[operation];
    bool progressed = false;
    while (!calls.empty()) {
      std::string missing;
      if (!process(calls.front(), missing)) {
        waiting[missing].push_back(operation);
        break;
      }
      calls.pop_front();
      --left;
      progressed = true;
    }
    if (!progressed) continue;
    if (const auto woken = waiting.find(entry_names[operation]); woken != waiting.end()) {
      ready.insert(ready.end(), woken->second.begin(), woken->second.end());
      waiting.erase(woken);
    }
  }
  if (left == 0) return;
  for (const auto& [operation, calls] : queue_) {
    if (!calls.empty()) {
      fail(fmt::format("layer '{}' has a call whose inputs never come to be (a loop, or a missing call of a layer)",
                       operation->name()));
    }
  }
}

Structure Rebuild::boundary(const Json& json, const char* what) {
  if (const auto history = parse_origin(json); history && json.size() == 3) {
    TensorOrigin wanted = *history;
    const auto it = operations_.find(wanted.name);
    const bool functional = it != operations_.end() && dynamic_cast<const FunctionalImpl*>(it->second.get());
    // A model of Keras 2, also a Sequential, begins with a call of its own; in Keras 3 a Functional does.
    if ((functional || (list_nodes_ && is_model(wanted.name))) && wanted.node > 0) --wanted.node;
    std::string missing;
    Tensor found = tensor(wanted, missing);
    if (!missing.empty())
      fail(fmt::format("{} names call {} of layer '{}', which does not exist", what, wanted.node, wanted.name));
    return found;
  }
  if (json.is_array()) {
    Structure::List items;
    for (const Json& item : json) items.push_back(boundary(item, what));
    if (items.empty()) fail(fmt::format("{} is empty", what));
    return Structure::list(std::move(items));
  }
  if (json.is_object()) {
    if (json.contains("items")) return boundary(json["items"], what);
    Structure::Dict entries;
    for (const auto& [key, value] : json.items()) entries.emplace_back(key, boundary(value, what));
    return Structure::dict(std::move(entries));
  }
  fail(fmt::format("{} holds {}", what, text_of(json)));
}

std::shared_ptr<FunctionalImpl> Rebuild::run() {
  const auto layers = config_.find("layers");
  if (layers == config_.end() || !layers->is_array()) fail("it has no list of layers");
  for (const char* key : {"input_layers", "output_layers"}) {
    if (!config_.contains(key)) fail(fmt::format("it has no {}", key));
  }
  for (const Json& entry : *layers) create(entry);
  process_all();
  // Keras 1 and 2 write a list even of one tensor.
  const auto unwrap = [this](Structure s) {
    return legacy_ && s.is_list() && s.parts().size() == 1 && s.parts()[0].is_leaf() ? s.parts()[0] : s;
  };
  Structure inputs = unwrap(boundary(config_["input_layers"], "input_layers"));
  Structure outputs = unwrap(boundary(config_["output_layers"], "output_layers"));
  Layer::Options options;
  if (const auto name = config_.find("name"); name != config_.end() && name->is_string())
    options.name = name->get<std::string>();
  auto model = std::make_shared<FunctionalImpl>(std::move(inputs), std::move(outputs), options);
  if (const auto trainable = config_.find("trainable");
      trainable != config_.end() && trainable->is_boolean() && !trainable->get<bool>()) {
    model->set_trainable(false);
  }
  return model;
}

// The Input that an old config hides in its first layer's keywords.
LayerPtr hidden_input(const Json& entry) {
  const auto config = entry.find("config");
  if (config == entry.end() || !config->is_object()) return nullptr;
  const std::string what = fmt::format("the input of layer '{}'",
                                       config->value("name", Json("")).is_string() ? config->value("name", "") : "");
  const auto get = [&](const char* key) -> const Json* {
    const auto it = config->find(key);
    return it == config->end() || it->is_null() ? nullptr : &*it;
  };
  InputOptions options;
  if (const Json* dtype = get("dtype"); dtype && dtype->is_string() && get("batch_input_shape")) {
    options.dtype = dtype->get<std::string>();
    if (options.dtype.starts_with("mixed_")) options.dtype = "float32";
  }
  if (const Json* dtype = get("input_dtype"); dtype && dtype->is_string()) options.dtype = dtype->get<std::string>();
  if (const Json* shape = get("batch_input_shape")) return InputLayer::create(shape_from_json(*shape, what), options);
  if (const Json* shape = get("input_shape")) {
    std::vector<std::int64_t> dims = shape_from_json(*shape, what).dims();
    dims.insert(dims.begin(), kUnknownDim);
    return InputLayer::create(Shape(std::move(dims)), options);
  }
  return nullptr;
}

std::string class_of(const Json& entry) {
  return entry.is_object() && entry.contains("class_name") && entry["class_name"].is_string()
             ? entry["class_name"].get<std::string>()
             : "";
}

}  // namespace

std::shared_ptr<FunctionalImpl> functional_from_config(const Json& config) {
  const ScopedCallLimit limit;
  if (!config.is_object()) throw_invalid_argument("the config of a functional model is not an object");
  return Rebuild(config).run();
}

std::shared_ptr<SequentialImpl> sequential_from_config(const Json& config) {
  const ScopedCallLimit limit;
  // Keras 1 wrote the list of layers alone.
  const Json* entries = config.is_array() ? &config : nullptr;
  Layer::Options options;
  if (!entries) {
    if (!config.is_object() || !config.contains("layers") || !config["layers"].is_array()) {
      throw_invalid_argument("the config of a Sequential has no list of layers");
    }
    entries = &config["layers"];
    if (config.contains("name") && config["name"].is_string()) options.name = config["name"].get<std::string>();
  }
  std::vector<LayerPtr> layers;
  for (const Json& entry : *entries) {
    if (layers.empty() && class_of(entry) != "InputLayer") {
      if (LayerPtr input = hidden_input(entry)) layers.push_back(std::move(input));
    }
    layers.push_back(deserialize_layer(entry));
  }
  auto model = std::make_shared<SequentialImpl>(std::move(layers), options);
  if (!model->built() && config.is_object() && config.contains("build_input_shape") &&
      !config["build_input_shape"].is_null()) {
    model->build_from_config({{"input_shape", config["build_input_shape"]}});
  }
  return model;
}

Json model_to_json(const ModelImpl& model) { return serialize_operation(model); }

ModelPtr model_from_json(const Json& object) {
  LayerPtr layer = deserialize_layer(object);
  auto model = std::dynamic_pointer_cast<ModelImpl>(layer);
  if (!model)
    throw_invalid_argument(
        fmt::format("the config is of layer '{}' ({}), not of a model", layer->name(), layer->class_name()));
  return model;
}

void register_models(ClassTable& registry) {
  const auto functional = [](const Json& config) -> LayerPtr {
    if (config.is_object() && !config.contains("input_layers") && config.contains("layers"))
      return sequential_from_config(config);
    return functional_from_config(config);
  };
  registry.add({"Functional", {"Model"}, functional});
  registry.add({"Sequential", {}, [](const Json& config) -> LayerPtr { return sequential_from_config(config); }});
}

}  // namespace lockstep::keras
