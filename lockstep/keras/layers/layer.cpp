#include "lockstep/keras/layers/layer.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/replica_context.h"
#include "lockstep/graph/scratch_internal.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/build_observers_internal.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/configured_layer_internal.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/layers/weight_limit_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

template class lockstep::Nested<lockstep::keras::LayerPtr>;

namespace lockstep::keras {
namespace {

// Set by Layer::compute_mask(), so that a class with one of its own is known.
thread_local bool t_inherited_compute_mask = false;
// Set by Layer::build(), likewise.
thread_local bool t_inherited_build = false;
// Whether a layer is being called for the first time whose layers Keras would have built before that.
thread_local bool t_built_by_caller = false;

// For the duration of a layer's call.
class BuiltByCaller {
 public:
  explicit BuiltByCaller(bool built) : previous_(t_built_by_caller) { t_built_by_caller = previous_ || built; }
  ~BuiltByCaller() { t_built_by_caller = previous_; }
  BuiltByCaller(const BuiltByCaller&) = delete;
  BuiltByCaller& operator=(const BuiltByCaller&) = delete;

 private:
  bool previous_;
};

Nested<Shape> shapes_of(const Structure& inputs) {
  return inputs.map([](const Tensor& t) { return t.defined() ? t.shape() : Shape::unknown_rank(); });
}

}  // namespace

Layer::~Layer() = default;

void Layer::adopt_weight(VariablePtr variable, bool trainable) {
  own_weights_.push_back({std::move(variable), nullptr, nullptr, trainable, true});
}

// ---- configuration -------------------------------------------------------------------------------------

void Layer::configure(std::string class_name, Options options) {
  class_name_ = std::move(class_name);
  if (!options.name.empty()) {
    set_name(options.name);
  } else if (!class_name_.empty()) {
    set_name(auto_name(class_name_));
  }
  trainable_ = options.trainable;
  policy_ = options.dtype;
  input_shape_ = options.input_shape;
  activity_regularizer_ = regularizers::get(options.activity_regularizer);
}

std::string Layer::class_name() const { return class_name_.empty() ? unqualified_name(typeid(*this)) : class_name_; }

void Layer::set_activation(const activations::ActivationPtr&) {
  throw_invalid_argument(fmt::format("{} '{}': its activation cannot be replaced", class_name(), name()));
}

Structure Layer::get_initial_state(const Extent&) const {
  throw_invalid_argument(
      fmt::format("{} '{}' has no initial state: it is not a recurrent layer", class_name(), name()));
}

Json Layer::registered_name() const {
  if (!module().is_null()) return nullptr;
  const RegisteredClass* row = find_registered(registered_type());
  return row ? row->registered_name() : class_name();
}

void Layer::set_base_config(const Json& config) {
  FieldReader reader(class_name(), config);
  const Layer::Options base = read_layer_options(reader);
  if (!base.name.empty()) set_name(base.name);
  if (config.contains("dtype")) policy_ = base.dtype;
  if (!base.activity_regularizer.empty()) activity_regularizer_ = regularizers::get(base.activity_regularizer);
  if (!base.trainable) set_trainable(false);
}

Json Layer::get_config() const {
  Json config = {{"name", name()}, {"trainable", trainable_}, {"dtype", policy_.serialize()}};
  if (activity_regularizer_) config["activity_regularizer"] = regularizers::serialize(activity_regularizer_);
  return config;
}

Json Layer::get_build_config() const {
  if (built_in_constructor_ || !build_shapes_) return nullptr;
  const auto names = argument_names();
  if (names.size() > 1 && build_shapes_->is_list()) {
    Json shapes = Json::object();
    for (std::size_t i = 0; i < build_shapes_->parts().size() && i < names.size(); ++i) {
      shapes[names[i] + "_shape"] = shapes_to_json(build_shapes_->parts()[i]);
    }
    return {{"shapes_dict", std::move(shapes)}};
  }
  return {{"input_shape", shapes_to_json(*build_shapes_)}};
}

void Layer::build_from_config(const Json& config) {
  if (built_ || !config.is_object()) return;
  const std::string what = fmt::format("build_config of {} '{}'", class_name(), name());
  if (config.contains("input_shape")) {
    if (!config["input_shape"].is_null()) ensure_built(shapes_from_json(config["input_shape"], what));
  } else if (config.contains("shapes_dict") && config["shapes_dict"].is_object()) {
    const Json& dict = config["shapes_dict"];
    Nested<Shape>::List shapes;
    for (const std::string& name : argument_names()) {
      const auto it = dict.find(name + "_shape");
      if (it != dict.end() && !it->is_null()) shapes.push_back(shapes_from_json(*it, what));
    }
    if (shapes.size() == 1 && argument_names().size() == 1) {
      ensure_built(shapes[0]);
    } else if (!shapes.empty()) {
      ensure_built(Nested<Shape>::list(std::move(shapes)));
    }
  }
}

// ---- building ------------------------------------------------------------------------------------------

void Layer::build(const Nested<Shape>&) { t_inherited_build = true; }

void Layer::ensure_built(const Nested<Shape>& shapes) {
  if (built_) return;
  distribute::ReplicaContext* const replica = distribute::get_replica_context();
  if (replica && replica->num_local_replicas() > 1) {
    // All replicas arrive here in their first call; one builds for all, across replicas.
    replica->merge_call([&] { ensure_built(shapes); });
    return;
  }
  const NameScope scope(name());
  const ops::ScopedRecorder eager(nullptr);
  policy_ = policy_.at(NameScope::current());
  build(shapes);
  built_ = true;
  if (!build_shapes_) build_shapes_ = shapes;
  BuildAccess::notify(*this);
}

VariablePtr Layer::add_weight(WeightOptions options) {
  if (options.name.empty()) options.name = auto_name("Variable");
  const DType dtype = options.dtype.get().value_or(policy_.variable_dtype());
  const std::string what = fmt::format("weight '{}' of {} '{}'", options.name, class_name(), name());
  if (!options.shape.fully_known()) {
    throw_invalid_argument(
        fmt::format("{}: shape {} must be fully known to build the layer", what, options.shape.to_string()));
  }
  const auto count = options.shape.num_elements();
  constexpr std::int64_t kLargest = std::int64_t{1} << 40;
  for (std::int64_t dim : options.shape.dims()) {
    if (dim < 0)
      throw_invalid_argument(fmt::format("{}: shape {} has a negative entry", what, options.shape.to_string()));
  }
  if (!count || *count > kLargest) {
    throw_resource_exhausted(fmt::format("{}: shape {} has too many elements", what, options.shape.to_string()));
  }
  const ops::ScopedRecorder eager(nullptr);
  const std::int64_t bytes = *count * static_cast<std::int64_t>(dtype_size(dtype));
  WeightLimit::take(bytes, what);
  if (options.initializer.empty()) options.initializer = is_floating(dtype) ? "glorot_uniform" : "zeros";
  // An initializer without a seed draws it here, as in Keras, even if the value will be read from a file.
  const initializers::InitializerPtr initializer = initializers::get(options.initializer);
  Tensor initial;
  if (LoadScope* load = LoadScope::current()) {
    load->take(bytes, what);
    initial = Tensor::zeros(options.shape, dtype);
  } else {
    initial = initializer(options.shape, dtype);
  }
  distribute::VariableOptions variable{.trainable = options.trainable && trainable_,
                                       .name = options.name,
                                       .synchronization = distribute::VariableSynchronization::kAuto,
                                       .aggregation = options.aggregation};
  VariablePtr made = Variable::create(std::move(initial), std::move(variable));
  const std::string scope = NameScope::current();
  made->set_path(scope.empty() ? options.name : scope + "/" + options.name);
  const constraints::ConstraintPtr constraint = constraints::get(options.constraint);
  if (constraint) made->set_constraint(constraint);
  own_weights_.push_back(
      {made, regularizers::get(options.regularizer), constraint, options.trainable, options.autocast});
  return made;
}

Tensor Layer::value(const VariablePtr& variable) const {
  Tensor read = variable->read();
  const DirectCalls* direct = DirectCalls::of(*this);
  const DType dtype = direct ? direct->dtype() : policy_.compute_dtype();
  const bool rounds = direct && direct->autocast() && direct->autocast() != read.dtype();
  if ((read.dtype() == dtype && !rounds) || !is_floating(read.dtype()) || !is_floating(dtype)) return read;
  for (const Weight& weight : own_weights_) {
    if (weight.variable == variable && !weight.autocast) return read;
  }
  return ops::cast(rounds ? ops::cast(read, *direct->autocast()) : read, dtype);
}

void Layer::track_tree(const std::string& attribute, LayerTree layers) {
  for (auto& [name, tree] : children_) {
    if (name != attribute || name.empty()) continue;
    if (tree.flatten() == layers.flatten()) return;
    name.clear();
  }
  children_.emplace_back(attribute, std::move(layers));
  if (built_) BuildAccess::notify(*this);
}

void Layer::track_metric(const std::string& attribute, metrics::MetricPtr metric) {
  own_metrics_.emplace_back(attribute, std::move(metric));
}

void Layer::track_optimizer(const std::string& attribute, std::shared_ptr<optimizers::Optimizer> optimizer) {
  std::erase_if(own_optimizers_, [&](const auto& item) { return item.first == attribute; });
  // An empty handle is Python's None, which is not saved.
  if (optimizer) own_optimizers_.emplace_back(attribute, std::move(optimizer));
}

random::SeedGeneratorPtr Layer::add_seed_generator(std::optional<std::int64_t> seed) {
  return track(std::make_shared<random::SeedGenerator>(seed));
}

random::SeedGeneratorPtr Layer::track(random::SeedGeneratorPtr generator) {
  seed_generators_.push_back(generator);
  return generator;
}

// ---- calling -------------------------------------------------------------------------------------------

namespace {

// A symbol of a scratch graph like `t`, with a symbol for its mask, if that is wanted and there is one.
Tensor symbol_of(const Tensor& t, graph::ScratchScope& scratch, bool with_mask) {
  Tensor symbol = scratch.input(t.dtype(), t.shape());
  if (const Tensor mask = t.mask(); with_mask && mask.defined())
    symbol.set_mask(scratch.input(mask.dtype(), mask.shape()));
  return symbol;
}

// Keras builds the layers of a layer without its own build() by a symbolic call() with the arguments of its first
// call. MultiHeadAttention takes the masks from tensors given to it, then already: the call proper has none.
void take_masks_of_first_call(Layer& layer, const CallArguments& arguments,
                              const std::function<void(const CallArguments&)>& call) {
  const PausedLosses no_losses;
  const NameScope names(layer.name());
  const ScopedInheritance apart;
  const CallScope scope(false);
  std::vector<std::pair<Tensor, Tensor>> masked;
  try {
    graph::ScratchScope scratch;
    CallArguments symbols = arguments.map_tensors([&](const Tensor& t) {
      if (!t.defined()) return t;
      Tensor symbol = symbol_of(t, scratch, true);
      if (symbol.mask().defined()) masked.emplace_back(t, symbol);
      return symbol;
    });
    if (symbols.find("training")) symbols.set("training", Argument(ArgValue(Json(false))));
    call(symbols);
  } catch (const std::exception&) {  // as in Keras, where values are needed: the call proper builds the layers
  }
  for (const auto& [given, symbol] : masked) {
    if (!symbol.mask().defined()) given.set_mask(Tensor());
  }
}

// Keras passes the mask to a call() with such an argument, which an own class that supports masking may have.
bool may_take_mask(const Layer& layer) { return layer.supports_masking() && layer.module().is_null(); }

bool any_mask(const CallArguments& arguments) {
  return std::ranges::any_of(arguments.tensors(), [](const Tensor& t) { return t.defined() && t.mask().defined(); });
}

}  // namespace

Structure Layer::run(const CallArguments& arguments, std::optional<bool> training) {
  return invoke(arguments, training);
}

CallArguments Layer::cast_arguments(const CallArguments& arguments) const {
  const DirectCalls* direct = DirectCalls::of(*this);
  const DType target = direct ? direct->dtype() : compute_dtype();
  if (!casts_inputs() || target == DType::kString) return arguments;
  return arguments.map_tensors([&](const Tensor& t) {
    if (!t.defined() || !is_floating(t.dtype()) || t.dtype() == target || as_keras_tensor(t)) return t;
    Tensor cast = ops::cast(t, target);
    if (t.mask().defined()) cast.set_mask(t.mask());
    return cast;
  });
}

void Layer::check_inputs(const Structure& inputs) const {
  const std::vector<InputSpec> specs = input_spec();
  if (specs.empty()) return;
  const std::vector<Tensor> flat = inputs.flatten();
  for (std::size_t i = 0; i < specs.size() && i < flat.size(); ++i) {
    if (!flat[i].defined() || !flat[i].shape().known_rank()) continue;
    const Shape& shape = flat[i].shape();
    const auto fail = [&](const std::string& why) {
      throw_invalid_argument(
          fmt::format("input {} of layer '{}' ({}) is incompatible with the layer: {}, found shape {}", i, name(),
                      class_name(), why, shape.to_string()));
    };
    const InputSpec& spec = specs[i];
    if (spec.ndim && shape.rank() != *spec.ndim) fail(fmt::format("expected rank {}", *spec.ndim));
    if (spec.min_ndim && shape.rank() < *spec.min_ndim)
      fail(fmt::format("expected a rank of at least {}", *spec.min_ndim));
    if (spec.max_ndim && shape.rank() > *spec.max_ndim)
      fail(fmt::format("expected a rank of at most {}", *spec.max_ndim));
    for (const auto& [axis, extent] : spec.axes) {
      if (axis >= shape.rank() || -axis > shape.rank()) continue;
      if (shape[axis] != kUnknownDim && shape[axis] != extent)
        fail(fmt::format("expected axis {} to have {} entries", axis, extent));
    }
  }
}

CallContext Layer::make_context(const CallArguments& arguments, const Structure& inputs, bool training) const {
  CallContext context;
  context.training = training;
  if (const Argument* mask = arguments.find("mask"); mask && has_tensor(*mask)) {
    context.mask = to_structure(*mask);
  } else if (argument_names().size() == 1) {
    const bool only_inputs =
        std::ranges::none_of(arguments.kwargs, [](const auto& kw) { return has_tensor(kw.second); });
    const bool takes_mask = only_inputs && may_take_mask(*this);
    context.mask = inputs.map([&](const Tensor& t) { return takes_mask && t.defined() ? t.mask() : Tensor(); });
  }
  context.arguments = &arguments;
  return context;
}

Structure Layer::call(const Structure& inputs, const CallContext&) { return call(inputs); }

Structure Layer::call(const Structure&) {
  throw_unimplemented(fmt::format("class {} does not override call()", class_name()));
}

Structure Layer::invoke(CallArguments arguments, std::optional<bool> training) {
  // A node of the functional API keeps the arguments as given. Keras adds training and mask to them only where the
  // call had a single tensor of the right dtype and nothing else.
  const bool plain = arguments.kwargs.empty() && !training && arguments.args.size() == 1 &&
                     arguments.args[0].is_leaf() && arguments.args[0].leaf().is_tensor() &&
                     arguments.args[0].leaf().tensor.dtype() == compute_dtype();
  if (training) arguments.set("training", Argument(ArgValue(Json(*training))));
  CallArguments given = arguments;
  bind_arguments(arguments);
  if (const Argument* value = arguments.find("training");
      value && value->is_leaf() && value->leaf().value.is_boolean()) {
    training = value->leaf().value.get<bool>();
  }
  const TrainingArgument takes = training_argument();
  // As in Keras, a None that is given is neither replaced by what is inherited nor by the layer's default.
  const Argument* const given_training = given.find("training");
  const bool none = given_training && given_training->is_leaf() && !given_training->leaf().is_tensor() &&
                    given_training->leaf().value.is_null();
  if (!training && !none) training = CallScope::inherited();
  if (!training && !none && takes >= TrainingArgument::kDefaultFalse)
    training = takes == TrainingArgument::kDefaultTrue;
  if (!CallScope::active()) clear_losses();
  const CallScope scope(training);
  if (takes == TrainingArgument::kNone) {
    arguments.erase("training");
  } else if (training) {
    arguments.set("training", Argument(ArgValue(Json(*training))));
  }
  arguments = cast_arguments(arguments);
  Structure inputs = first_arguments(arguments);
  check_inputs(inputs);
  bool symbolic_first = false;
  if (!built_) {
    const ScopedInheritance apart;
    t_inherited_build = false;
    ensure_built(shapes_of(inputs));
    symbolic_first = module().is_null() && t_inherited_build && !t_built_by_caller &&
                     !std::ranges::all_of(sublayers(), [](const LayerPtr& layer) { return layer->built(); });
  }
  if (symbolic_first && any_mask(arguments) && !any_keras_tensor(arguments)) {
    symbolic_first = false;
    take_masks_of_first_call(*this, arguments, [this](const CallArguments& symbols) {
      const Structure given_first = first_arguments(symbols);
      call(given_first, make_context(symbols, given_first, false));
    });
  }
  const BuiltByCaller built_by_caller(symbolic_first);
  fill_masks(arguments);
  if (any_keras_tensor(arguments)) {
    if (plain || !casts_inputs()) {
      if (takes == TrainingArgument::kNone) given.erase("training");
      for (const char* keyword : {"training", "mask"}) {
        const Argument* filled = arguments.find(keyword);
        if (filled && !given_by_position(given, keyword)) given.set(keyword, *filled);
      }
    }
    return call_symbolically(arguments, std::move(given), inputs);
  }
  return call_now(arguments, inputs, training.value_or(false));
}

Structure Layer::call_now(const CallArguments& arguments, const Structure& inputs, bool training) {
  std::optional<graph::NameScope> node_names;
  if (graph::TraceScope::current()) node_names.emplace(name());
  const NameScope variable_names(name());
  const CallContext context = make_context(arguments, inputs, training);
  const Structure previous = previous_mask(arguments, inputs);  // MultiHeadAttention takes masks from its inputs
  Structure outputs = call(inputs, context);
  if (activity_regularizer_) add_activity_losses(outputs);
  attach_masks(inputs, previous, outputs);
  return outputs;
}

Nested<TensorInfo> Layer::compute_output_spec(const CallArguments& arguments) {
  const PausedLosses no_losses;
  const random::PausedGenerators no_draws;
  const graph::ScratchScope scratch_scope;
  auto& scratch = const_cast<graph::ScratchScope&>(scratch_scope);
  const CallArguments symbols = cast_arguments(arguments.map_tensors([&](const Tensor& t) {
    if (!t.defined() || !t.is_symbolic()) return t;
    return symbol_of(t, scratch, may_take_mask(*this));
  }));
  bool training = false;
  if (const Argument* value = arguments.find("training");
      value && value->is_leaf() && value->leaf().value.is_boolean()) {
    training = value->leaf().value.get<bool>();
  }
  const Structure inputs = first_arguments(symbols);
  const Structure outputs = call(inputs, make_context(symbols, inputs, training));
  return outputs.map([](const Tensor& t) { return TensorInfo{t.dtype(), t.shape()}; });
}

Nested<Shape> Layer::compute_output_shape(const Nested<Shape>& shapes) {
  const NameScope names(name());
  const graph::ScratchScope scratch_scope;
  auto& scratch = const_cast<graph::ScratchScope&>(scratch_scope);
  const DType dtype = is_floating(compute_dtype()) ? compute_dtype() : DType::kFloat32;
  const Structure inputs = shapes.map([&](const Shape& s) { return scratch.input(dtype, s); });
  const PausedLosses no_losses;
  const random::PausedGenerators no_draws;
  return (*this)(inputs).map([](const Tensor& t) { return t.shape(); });
}

Structure Layer::call_symbolically(const CallArguments& full, CallArguments given, const Structure& inputs) {
  const NameScope variable_names(name());
  const Structure previous = previous_mask(full, inputs);
  const Nested<TensorInfo> infos = compute_output_spec(full);
  Structure outputs = add_node(std::move(given), infos);
  attach_masks(inputs, previous, outputs);
  Tensors masks;
  outputs.visit([&](const Tensor& t) { masks.push_back(t.mask()); });
  inbound_nodes().back()->masks = std::move(masks);
  return outputs;
}

void Layer::attach_masks(const Structure& inputs, const Structure& mask, const Structure& outputs) {
  // As in Keras, a user-defined class supports masking if it overrides compute_mask().
  const bool asks = !supports_masking();
  if (asks && !module().is_null()) return;
  bool all = true;
  outputs.visit([&](const Tensor& t) { all = all && t.mask().defined(); });
  if (all) return;
  t_inherited_compute_mask = false;
  const Structure masks = compute_mask(inputs, mask, outputs);
  if (asks && t_inherited_compute_mask) return;
  const std::vector<Tensor> flat_masks = masks.flatten();
  const std::vector<Tensor> flat_outputs = outputs.flatten();
  for (std::size_t i = 0; i < flat_masks.size() && i < flat_outputs.size(); ++i) {
    if (flat_masks[i].defined() && flat_outputs[i].defined() && !flat_outputs[i].mask().defined()) {
      flat_outputs[i].set_mask(flat_masks[i]);
    }
  }
}

Structure Layer::compute_mask(const Structure&, const Structure& mask, const Structure&) {
  t_inherited_compute_mask = true;
  return mask;
}

Structure Layer::compute_mask(const Structure& inputs, const Structure& mask) {
  const Structure outputs = compute_output_shape(shapes_of(inputs)).map([](const Shape&) { return Tensor(); });
  return compute_mask(inputs, mask, outputs);
}

void Layer::adapt(const Structure&) {
  throw_invalid_argument(
      fmt::format("layer '{}' ({}) learns nothing from data before fit: adapt() requires a "
                  "preprocessing layer with such a state, for example Normalization",
                  name(), class_name()));
}

void Layer::enable_lora(const LoraOptions&) {
  throw_invalid_argument(
      fmt::format("enable_lora requires a Dense, EinsumDense, Embedding, ReversibleEmbedding, Conv1D, Conv2D or Conv3D "
                  "layer; '{}' is a {}",
                  name(), class_name()));
}

void Layer::quantize(const quantizers::QuantizationConfig& config) {
  const std::string who = fmt::format("quantize of {} '{}'", class_name(), name());
  if (!can_be_quantized())
    throw_unimplemented(who + " is not supported, only of Dense, EinsumDense, Embedding and ReversibleEmbedding");
  if (!built_) throw_failed_precondition(who + " requires a layer that has been built: call it on data first");
  if (!policy_.quantization_mode().empty())
    throw_failed_precondition(fmt::format("{}: it is quantized already, to {}", who, policy_.quantization_mode()));
  const DTypePolicy quantized = DTypePolicy::quantized(config.mode(), config.block_size(), policy_);
  std::optional<NameScope> scope;
  if (NameScope::current().empty()) scope.emplace(name());
  const ops::ScopedRecorder eager(nullptr);
  quantize_weights(config);
  policy_ = quantized;
  note_changed_layer();
}

void Layer::adapt(const data::Dataset&) { adapt(Structure()); }

Tensor CallContext::tensor(std::string_view keyword) const {
  const Argument* found = arguments ? arguments->find(keyword) : nullptr;
  return found && found->is_leaf() ? found->leaf().tensor : Tensor();
}

Json CallContext::value(std::string_view keyword) const {
  const Argument* found = arguments ? arguments->find(keyword) : nullptr;
  if (!found && keyword == "training") {
    const std::optional<bool> training = CallScope::training();
    return training ? Json(*training) : Json(nullptr);
  }
  return found && found->is_leaf() && !found->leaf().is_tensor() ? found->leaf().value : Json(nullptr);
}

bool Layer::current_training() { return CallScope::training().value_or(false); }

}  // namespace lockstep::keras
