#include "lockstep/keras/layers/layer_handle.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::keras {

Structure LayerHandle::call(const Structure& inputs, const CallOptions& options) const {
  return object()(inputs, options);
}
Structure LayerHandle::call_with(const std::vector<Structure>& arguments, const CallOptions& options) const {
  return object().call_with(arguments, options);
}
std::string LayerHandle::name() const { return object().name(); }
std::string LayerHandle::class_name() const { return object().class_name(); }
DTypePolicy LayerHandle::dtype_policy() const { return object().dtype_policy(); }
DType LayerHandle::compute_dtype() const { return object().compute_dtype(); }
DType LayerHandle::variable_dtype() const { return object().dtype_policy().variable_dtype(); }
bool LayerHandle::trainable() const { return object().trainable(); }
void LayerHandle::set_trainable(bool trainable) const { object().set_trainable(trainable); }
bool LayerHandle::built() const { return object().built(); }
void LayerHandle::build(const Nested<Shape>& shapes) const { object().ensure_built(shapes); }
Structure LayerHandle::input() const { return object().input(); }
Structure LayerHandle::output() const { return object().output(); }
Variable LayerHandle::weight(std::string_view name) const { return object().weight(name); }
Variable LayerHandle::kernel() const { return object().kernel(); }
Variable LayerHandle::bias() const { return object().bias(); }
void LayerHandle::throw_other_class(std::type_index wanted) const {
  throw_invalid_argument(
      fmt::format("layer '{}' is a {}, expected a {}", name(), class_name(), unqualified_name(wanted)));
}
LayerHandle LayerHandle::attribute(std::string_view name) const {
  for (const auto& [attribute, tree] : object().children()) {
    if (attribute == name && tree.is_leaf() && tree.leaf()) return LayerHandle(tree.leaf());
  }
  throw_not_found(fmt::format("{} '{}' has no {}", class_name(), this->name(), name));
}
Tensor LayerHandle::mean() const { return object().mean(); }
Tensor LayerHandle::variance() const { return object().variance(); }
List<Variable> LayerHandle::weights() const { return object().weights(); }
List<Variable> LayerHandle::trainable_weights() const { return object().trainable_weights(); }
List<Variable> LayerHandle::non_trainable_weights() const { return object().non_trainable_weights(); }
List<Variable> LayerHandle::non_trainable_variables() const { return object().non_trainable_variables(); }
List<Variable> LayerHandle::variables() const { return object().variables(); }
List<Tensor> LayerHandle::get_weights() const { return object().get_weights(); }
void LayerHandle::set_weights(const std::vector<Tensor>& values) const { object().set_weights(values); }
std::int64_t LayerHandle::count_params() const { return object().count_params(); }
List<Tensor> LayerHandle::losses() const { return object().losses(); }
Json LayerHandle::get_config() const { return object().get_config(); }
LayerHandle LayerHandle::from_config(const Json& config) const {
  Json made = serialize_operation(object());
  made["config"] = config;
  made.erase("build_config");
  return deserialize_layer(made);
}
Nested<Shape> LayerHandle::compute_output_shape(const Nested<Shape>& shapes) const {
  return object().compute_output_shape(shapes);
}
Structure LayerHandle::compute_mask(const Structure& inputs, const Structure& mask) const {
  return object().compute_mask(inputs, mask);
}
// Of the config: an InputLayer of Keras 3 and of layers that have no such argument, NotFound.
Json LayerHandle::argument(const char* name) const {
  const Json config = get_config();
  if (const auto found = config.find(name); found != config.end()) return *found;
  std::vector<std::string> names;
  for (const auto& [key, value] : config.items()) names.push_back(key);
  throw_not_found(fmt::format("{} '{}' has no argument '{}'; it has: {}", class_name(), this->name(), name,
                              fmt::join(names, ", ")));
}
std::int64_t LayerHandle::units() const { return argument("units").get<std::int64_t>(); }
std::int64_t LayerHandle::filters() const { return argument("filters").get<std::int64_t>(); }
std::vector<std::int64_t> LayerHandle::kernel_size() const {
  return argument("kernel_size").get<std::vector<std::int64_t>>();
}
std::vector<std::int64_t> LayerHandle::strides() const { return argument("strides").get<std::vector<std::int64_t>>(); }
std::string LayerHandle::padding() const { return argument("padding").get<std::string>(); }
double LayerHandle::rate() const { return argument("rate").get<double>(); }
bool LayerHandle::use_bias() const { return argument("use_bias").get<bool>(); }
activations::ActivationPtr LayerHandle::activation() const { return activations::get(argument("activation")); }
bool LayerHandle::return_sequences() const { return argument("return_sequences").get<bool>(); }
bool LayerHandle::return_state() const { return argument("return_state").get<bool>(); }
bool LayerHandle::stateful() const { return argument("stateful").get<bool>(); }
bool LayerHandle::supports_masking() const { return object().supports_masking(); }
void LayerHandle::set_activation(const activations::ActivationArg& activation) const {
  object().set_activation(activations::get(activation));
  note_changed_layer();
}
void LayerHandle::reset_states() const { object().reset_states(); }
Structure LayerHandle::get_initial_state(const Extent& batch_size) const {
  return object().get_initial_state(batch_size);
}
std::vector<double> LayerHandle::bin_boundaries() const {
  const Json config = get_config();
  if (!config.contains("bin_boundaries")) {
    throw_invalid_argument(fmt::format("{} '{}' has no bin_boundaries, which layers of the class Discretization have",
                                       class_name(), name()));
  }
  std::vector<double> boundaries;
  if (const Json& found = config.at("bin_boundaries"); found.is_array()) {
    for (const Json& boundary : found) boundaries.push_back(boundary.get<double>());
  }
  return boundaries;
}
void LayerHandle::adapt(const Structure& data) const { object().adapt(data); }
void LayerHandle::adapt(const data::Dataset& batches) const { object().adapt(batches); }
void LayerHandle::quantize(const quantizers::QuantizationConfig& config) const { object().quantize(config); }
void LayerHandle::enable_lora(const LoraOptions& options) const { object().enable_lora(options); }

// Of class Layer, as the handle has it.
Structure Layer::output() {
  require_called("output");
  return outputs_of(0);
}

Structure Layer::input() {
  require_called("input");
  return first_arguments(inbound_nodes().front()->arguments);
}

void Layer::require_called(const char* what) const {
  if (!inbound_nodes().empty()) return;
  throw_failed_precondition(fmt::format(
      "layer '{}' has no {}: it has not been called on a symbolic tensor, as of layers::Input", name(), what));
}

VariablePtr Layer::weight(std::string_view name) const {
  for (const Weight& weight : own_weights_) {
    if (weight.variable.name() == name) return weight.variable;
  }
  std::vector<VariablePtr> found;
  std::vector<std::string> names;
  for (const VariablePtr& variable : weights()) {
    if (variable.name() == name) found.push_back(variable);
    names.push_back(variable.path());
  }
  if (found.size() == 1) return found.front();
  if (names.empty() && !built()) {
    throw_failed_precondition(fmt::format(
        "layer '{}' has no {} yet: variables are made by the first call, or by build()", this->name(), name));
  }
  throw_not_found(fmt::format("layer '{}' has {} named '{}'; its weights: {}", this->name(),
                              found.empty() ? "no weight" : "several weights", name,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

std::ostream& operator<<(std::ostream& out, const LayerHandle& layer) {
  if (!layer) return out << "None";
  return out << fmt::format("<{} name={}, built={}>", layer->class_name(), layer.name(),
                            layer->built() ? "True" : "False");
}
std::ostream& operator<<(std::ostream& out, const DTypePolicy& policy) {
  return out << fmt::format("<DTypePolicy \"{}\">", policy.name());
}

}  // namespace lockstep::keras
