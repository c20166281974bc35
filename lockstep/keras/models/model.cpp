#include "lockstep/keras/models/model.h"

#include <algorithm>
#include <iostream>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/models/from_config_internal.h"
#include "lockstep/keras/models/one_output_internal.h"
#include "lockstep/keras/models/summary_internal.h"

namespace lockstep::keras {
// ---- implementations -----------------------------------------------------------------------------------

ModelImpl::ModelImpl(std::string class_name, Layer::Options options)
    : Layer(std::move(class_name), std::move(options)) {
  if (const distribute::Strategy* const strategy = distribute::Strategy::current()) made_under_ = strategy->handle();
}
ModelImpl::~ModelImpl() = default;

std::vector<OperationPtr> ModelImpl::operations() const {
  const auto all = layers();
  return {all.begin(), all.end()};
}

const Structure& ModelImpl::inputs() const {
  throw_failed_precondition(fmt::format("model '{}' ({}) has no symbolic inputs", name(), class_name()));
}
const Structure& ModelImpl::outputs() const {
  throw_failed_precondition(fmt::format("model '{}' ({}) has no symbolic outputs", name(), class_name()));
}

void ModelImpl::add_object(Model* object) {
  const std::lock_guard lock(objects_mutex_);
  objects_.push_back(object);
  last_used_ = object;
}

void ModelImpl::use_object(Model* object) {
  if (last_used_ == object) return;
  const std::lock_guard lock(objects_mutex_);
  std::erase(objects_, object);
  objects_.push_back(object);
  last_used_ = object;
}

void ModelImpl::remove_object(Model* object) {
  const std::lock_guard lock(objects_mutex_);
  std::erase(objects_, object);
  last_used_ = objects_.empty() ? nullptr : objects_.back();
}

Model* ModelImpl::object() const {
  const std::lock_guard lock(objects_mutex_);
  for (auto each = objects_.rbegin(); each != objects_.rend(); ++each) {
    if (typeid(**each) != typeid(Model) && typeid(**each) != typeid(Sequential)) return *each;
  }
  return nullptr;
}

SubclassedImpl::SubclassedImpl(std::string class_name, Layer::Options options)
    : ModelImpl(class_name, std::move(options)), named_(!class_name.empty()) {}

std::string SubclassedImpl::class_name() const {
  if (named_) return ModelImpl::class_name();
  const Model* const found = object();
  return found ? unqualified_name(typeid(*found)) : "Model";
}

Model& SubclassedImpl::checked_object() const {
  if (Model* const found = object()) return *found;
  throw_failed_precondition(fmt::format(
      "the {} object behind model '{}' no longer exists: make it by keras::make_model<{}>(...), or keep it, or "
      "a copy of it that is a {} as well, while the model is used; a copy that is a plain Model has no call()",
      class_name(), name(), class_name(), class_name()));
}

std::type_index SubclassedImpl::registered_type() const { return typeid(checked_object()); }

// The layers of a subclassed model are built by running its call().
void SubclassedImpl::build_from_config(const Json& config) {
  if (built() || !config.is_object() || !config.contains("input_shape") || config["input_shape"].is_null()) return;
  const random::PausedGenerators no_draws;
  compute_output_shape(
      shapes_from_json(config["input_shape"], fmt::format("build_config of {} '{}'", class_name(), name())));
}

LayerPtr Model::share(std::shared_ptr<Model> model) {
  ModelPtr impl = model->impl();
  if (auto* subclassed = dynamic_cast<SubclassedImpl*>(impl.get())) {
    model->impl_ = ModelPtr(ModelPtr(), impl.get());  // the other direction owns
    subclassed->kept_object_ = std::move(model);
  }
  return impl;
}

std::vector<std::string> SubclassedImpl::argument_names() const {
  const Model* const found = object();
  return found ? found->argument_names() : Layer::argument_names();
}

std::vector<std::string> SubclassedImpl::call_parameters() const {
  std::vector<std::string> names = argument_names();
  names.insert(names.end(), {"training", "mask"});
  return names;
}

Json SubclassedImpl::get_config() const { return checked_object().get_config(); }
void SubclassedImpl::build(const Nested<Shape>& shapes) {
  struct Scope {
    bool& building;
    ~Scope() { building = false; }
  } scope{building_ = true};
  checked_object().build(shapes);
}

namespace {
// The inputs' dtypes and shapes, of any batch size.
Nested<TensorInfo> spec_of(const Structure& inputs) {
  return inputs.map([](const Tensor& t) {
    TensorInfo info{t.dtype(), t.shape()};
    if (info.shape.known_rank() && info.shape.rank() > 0) info.shape[0] = kUnknownDim;
    return info;
  });
}
}  // namespace

Structure SubclassedImpl::call(const Structure& inputs, const CallContext& context) {
  {
    static std::mutex first_calls;  // replicas make them at the same time
    const std::lock_guard lock(first_calls);
    if (!save_spec_) save_spec_ = spec_of(inputs);
  }
  return checked_object().call(inputs, context);
}

std::vector<LayerPtr> SubclassedImpl::layers() const { return Layer::sublayers(); }

// ---- the handle ----------------------------------------------------------------------------------------

Model::Model(const Structure& inputs, const Structure& outputs, const ModelOptions& options)
    : Model(std::make_shared<FunctionalImpl>(inputs, outputs,
                                             Layer::Options{.name = options.name, .trainable = options.trainable})) {}

ModelPtr Model::made_from(const ModelArguments& arguments) {
  if (arguments.inputs.given != arguments.outputs.given)
    throw_invalid_argument("Model requires inputs and outputs, or neither for a class that overrides call()");
  Layer::Options options{.name = arguments.name, .trainable = arguments.trainable, .dtype = arguments.dtype};
  if (!arguments.inputs.given) return subclassed({}, std::move(options));
  options.dtype = {};
  const Structure &inputs = arguments.inputs, &outputs = arguments.outputs;
  return std::make_shared<FunctionalImpl>(inputs, outputs, std::move(options));
}

ModelPtr Model::subclassed(std::string class_name, Layer::Options options) {
  return std::make_shared<SubclassedImpl>(std::move(class_name), std::move(options));
}

Model::Model(ModelPtr impl) : impl_(std::move(impl)) {
  if (impl_) impl_->add_object(this);
}

// Copies of an object that has not been used yet share its model too.
Model::Model(const Model& other) : Model(other.made()) {}

Model& Model::operator=(const Model& other) {
  const ModelPtr made = other.made();
  if (impl_ == made) return *this;
  if (impl_) impl_->remove_object(this);
  impl_ = made;
  if (impl_) impl_->add_object(this);
  return *this;
}

Model::~Model() {
  if (impl_) impl_->remove_object(this);
}

const ModelPtr& Model::made() const {
  if (!impl_ && typeid(*this) != typeid(Model)) {
    const bool sequential = dynamic_cast<const Sequential*>(this) != nullptr;
    impl_ = sequential ? std::make_shared<SequentialImpl>(std::vector<LayerPtr>{}) : subclassed({}, {});
    impl_->add_object(const_cast<Model*>(this));
  }
  return impl_;
}

const ModelPtr& Model::impl() const {
  if (!made())
    throw_failed_precondition("the model is empty: it was default-constructed, and no model has been assigned to it");
  if (typeid(*this) != typeid(Model)) impl_->use_object(const_cast<Model*>(this));
  return impl_;
}

Structure Model::call(const Structure& inputs, const CallContext& context) {
  if (!dynamic_cast<SubclassedImpl*>(impl_.get())) return impl_->call(inputs, context);
  return call(inputs);
}

Structure Model::call(const Structure&) {
  throw_unimplemented(fmt::format("class {} does not override call()", impl_->class_name()));
}

void Model::build(const Nested<Shape>& shapes) {
  const auto* subclassed = dynamic_cast<const SubclassedImpl*>(impl().get());
  if (subclassed && subclassed->building_) {
    impl()->Layer::build(shapes);
  } else if (!built()) {
    build_for(shapes);
  }
}

Json Model::get_config() const {
  if (const auto* subclassed = dynamic_cast<const SubclassedImpl*>(impl().get())) {
    // A handle asks the object of the derived class, whose override may ask for the keys of this class.
    const Model& object = subclassed->checked_object();
    return &object == this ? subclassed->Layer::get_config() : object.get_config();
  }
  return impl_->get_config();
}

Structure Model::operator()(const Structure& inputs, const CallOptions& options) const {
  return one_output(*impl(), (*impl())(inputs, options));
}

Nested<Shape> Model::input_shape() const {
  return input().map([](const Tensor& x) { return x.shape(); });
}
Nested<Shape> Model::output_shape() const {
  const Nested<Shape> shapes = output().map([](const Tensor& x) { return x.shape(); });
  return shapes.is_list() && shapes.size() == 1 ? shapes[0] : shapes;
}

std::string Model::name() const { return impl()->name(); }
std::string Model::class_name() const { return impl()->class_name(); }
Model* Model::own_object() const { return impl()->object(); }
void Model::throw_other_class(std::type_index wanted) const {
  throw_invalid_argument(fmt::format("model '{}' is a {}, as<{}>() requires a model of that class", name(),
                                     class_name(), unqualified_name(wanted)));
}
bool Model::built() const { return impl()->built(); }

void Model::build_for(const Nested<Shape>& shapes) const {
  if (impl()->is_subclassed()) {
    impl()->compute_output_shape(shapes);
  } else {
    impl()->ensure_built(shapes);
  }
}

List<LayerPtr> Model::layers() const { return impl()->layers(); }

LayerPtr Model::layer_named(const std::string& name) const {
  std::vector<std::string> names;
  for (const LayerPtr& layer : layers()) {
    if (layer->name() == name) return layer;
    names.push_back(layer->name());
  }
  throw_not_found(fmt::format("model '{}' has no layer '{}'{}", this->name(), name, did_you_mean(name, names)));
}

LayerPtr Model::get_layer(int index) const {
  const auto all = layers();
  const int at = index < 0 ? index + static_cast<int>(all.size()) : index;
  if (at < 0 || at >= static_cast<int>(all.size())) {
    throw_out_of_range(fmt::format("model '{}' has {} layers, layer {} was requested", name(), all.size(), index));
  }
  return all[static_cast<std::size_t>(at)];
}

namespace {
Structure list_of(const Structure& tensors) {
  if (!tensors.defined()) return tensors;
  const Tensors flat = tensors.flatten();
  return Structure::list({flat.begin(), flat.end()});
}
}  // namespace

Structure Model::inputs() const { return list_of(input()); }
Structure Model::outputs() const { return list_of(output()); }
Structure Model::input() const { return impl()->inputs(); }
Structure Model::output() const { return impl()->outputs(); }
List<VariablePtr> Model::weights() const { return impl()->weights(); }
List<VariablePtr> Model::trainable_weights() const { return impl()->trainable_weights(); }
List<VariablePtr> Model::variables() const { return impl()->variables(); }
List<VariablePtr> Model::non_trainable_variables() const { return impl()->non_trainable_variables(); }
List<Tensor> Model::losses() const { return impl()->losses(); }
void Model::add_loss(const Tensor& loss) const { impl()->add_loss(loss); }
List<VariablePtr> Model::non_trainable_weights() const { return impl()->non_trainable_weights(); }
List<Tensor> Model::get_weights() const { return impl()->get_weights(); }
void Model::set_weights(const std::vector<Tensor>& values) const { impl()->set_weights(values); }
std::int64_t Model::count_params() const { return impl()->count_params(); }
bool Model::trainable() const { return impl()->trainable(); }
void Model::set_trainable(bool trainable) const { impl()->set_trainable(trainable); }

Nested<Shape> Model::compute_output_shape(const Nested<Shape>& input_shape) const {
  return impl()->compute_output_shape(input_shape);
}
DTypePolicy Model::dtype_policy() const { return impl()->dtype_policy(); }
DType Model::compute_dtype() const { return impl()->compute_dtype(); }
DType Model::variable_dtype() const { return dtype_policy().variable_dtype(); }

namespace {

List<std::string> layer_names(const Structure& tensors) {
  List<std::string> names;
  tensors.visit([&](const Tensor& tensor) {
    const KerasTensor* const symbol = as_keras_tensor(tensor);
    names.push_back(symbol ? symbol->operation()->name() : std::string());
  });
  return names;
}

}  // namespace

List<std::string> Model::input_names() const { return layer_names(inputs()); }
List<std::string> Model::output_names() const { return layer_names(outputs()); }

std::optional<Nested<TensorInfo>> Model::save_spec() const {
  const auto* subclassed = dynamic_cast<const SubclassedImpl*>(impl().get());
  if (subclassed) return subclassed->save_spec();
  if (!built()) return std::nullopt;
  return input().map([](const Tensor& t) { return TensorInfo{t.dtype(), t.shape()}; });
}

std::string Model::summary_text(const SummaryOptions& options) const { return keras::summary_text(*impl(), options); }
void Model::summary(const SummaryOptions& options) const {
  const std::string text = summary_text(options);
  if (options.print_fn) {
    options.print_fn(text);
  } else {
    std::cout << text << std::flush;
  }
}

LayerHandle Model::track(const std::string& attribute, LayerHandle layer) {
  track(attribute, LayerTree(layer));
  return layer;
}

SubclassedImpl& Model::with_attributes(const std::string& attribute) const {
  auto* const subclassed = dynamic_cast<SubclassedImpl*>(impl().get());
  if (subclassed) return *subclassed;
  throw_failed_precondition(
      fmt::format("track: model '{}' is defined by its inputs and outputs, which determine all of its layers; "
                  "attribute '{}' would be neither trained nor saved",
                  name(), attribute));
}
Variable Model::track(const std::string& attribute, const Variable& variable) {
  with_attributes(attribute).adopt_weight(variable, variable.trainable());
  return variable;
}
random::SeedGenerator Model::track(const std::string& attribute, const random::SeedGenerator& generator) {
  with_attributes(attribute).track(std::make_shared<random::SeedGenerator>(generator));
  return generator;
}
metrics::MetricPtr Model::track(const std::string& attribute, const metrics::MetricPtr& metric) {
  impl()->track_metric(attribute, metric);
  return metric;
}
void Model::track_optimizer(const std::string& attribute, std::shared_ptr<optimizers::Optimizer> optimizer) {
  impl()->track_optimizer(attribute, std::move(optimizer));
}
Variable Model::add_weight(WeightOptions options) {
  return with_attributes(options.name).add_weight(std::move(options));
}
LayerTree Model::track(const std::string& attribute, LayerTree layers) {
  with_attributes(attribute).track_tree(attribute, layers);
  return layers;
}

SequentialItem::SequentialItem(const Tensor& input) {
  const KerasTensor* symbol = as_keras_tensor(input);
  if (symbol) layer_ = std::dynamic_pointer_cast<Layer>(symbol->operation());
  if (!layer_) throw_invalid_argument("invalid layer of a Sequential: the tensor is not an output of layers::Input");
}

namespace {
std::vector<LayerPtr> layers_of(const std::vector<SequentialItem>& items) {
  std::vector<LayerPtr> out;
  for (const SequentialItem& item : items) out.push_back(item.layer());
  return out;
}
}  // namespace

Sequential::Sequential(const std::vector<SequentialItem>& layers, const ModelOptions& options)
    : Model(std::make_shared<SequentialImpl>(layers_of(layers),
                                             Layer::Options{.name = options.name, .trainable = options.trainable})) {}

void Sequential::add(const SequentialItem& item) const { dynamic_cast<SequentialImpl&>(*impl()).add(item.layer()); }
void Sequential::pop() const { dynamic_cast<SequentialImpl&>(*impl()).pop(); }

Sequential::Sequential(std::shared_ptr<SequentialImpl> impl) : Model(std::move(impl)) {}

Model Model::from_config(const Json& config) { return Model(functional_from_config(config)); }
Sequential Sequential::from_config(const Json& config) { return Sequential(sequential_from_config(config)); }

ModelPtr Model::behind(const LayerHandle& layer) {
  auto impl = std::dynamic_pointer_cast<ModelImpl>(layer);
  if (!impl)
    throw_invalid_argument(fmt::format("'{}' ({}) is a layer, not a model", layer->name(), layer->class_name()));
  return impl;
}

Model as_model(const LayerPtr& layer) { return Model(layer); }

std::ostream& operator<<(std::ostream& out, const Model& model) { return out << LayerHandle(model.impl()); }

}  // namespace lockstep::keras
