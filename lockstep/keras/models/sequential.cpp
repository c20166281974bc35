#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/built_in_internal.h"
#include "lockstep/keras/layers/input_layer.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/preprocessing/vocabulary_internal.h"

namespace lockstep::keras {
namespace {

// The input shape of a layer, if it is known from the layer alone: an input layer, or a model with one input.
std::optional<Shape> own_input_shape(const Layer& layer) {
  if (const auto* input = dynamic_cast<const InputLayer*>(&layer)) return input->batch_shape();
  if (const auto* model = dynamic_cast<const ModelImpl*>(&layer); model && !model->is_subclassed() && model->built()) {
    const std::vector<Tensor> inputs = model->inputs().flatten();
    if (inputs.size() == 1) return inputs[0].shape();
  }
  return std::nullopt;
}

// An input layer for batches of this shape.
LayerPtr input_of(const Shape& shape) {
  Ints dims{kUnknownDim};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return InputLayer::create(Shape(std::move(dims)));
}

}  // namespace

SequentialImpl::SequentialImpl(std::vector<LayerPtr> layers, Layer::Options options)
    : ModelImpl("Sequential", std::move(options)) {
  for (LayerPtr& layer : layers) append(std::move(layer));
  if (!layers_.empty()) rebuild();
}

void SequentialImpl::check_addable(const Layer& layer) const {
  if (names_.contains(layer.name())) {
    throw_invalid_argument(
        fmt::format("Sequential '{}': two layers have the name '{}'; names must differ", name(), layer.name()));
  }
  if (dynamic_cast<const InputLayer*>(&layer) && !layers_.empty()) {
    throw_invalid_argument(fmt::format("Sequential '{}': Input '{}' must come first", name(), layer.name()));
  }
}

void SequentialImpl::append(LayerPtr layer) {
  if (layers_.empty() && layer->input_shape().known_rank()) {
    layers_.push_back(input_of(layer->input_shape()));
    names_.insert(layers_.back()->name());
  }
  check_addable(*layer);
  names_.insert(layer->name());
  layers_.push_back(std::move(layer));
}

void SequentialImpl::add(LayerPtr layer) {
  append(std::move(layer));
  rebuild();
}

void SequentialImpl::pop() {
  if (layers_.empty()) throw_failed_precondition(fmt::format("Sequential '{}' has no layer to remove", name()));
  names_.erase(layers_.back()->name());
  layers_.pop_back();
  functional_ = nullptr;
  set_unbuilt();
  if (!layers_.empty()) rebuild();
}

void SequentialImpl::rebuild() {
  functional_ = nullptr;
  set_unbuilt();
  const auto shape = own_input_shape(*layers_[0]);
  if (shape && layers_.size() > 1) ensure_built(*shape);
}

void SequentialImpl::build(const Nested<Shape>& shapes) {
  if (layers_.empty()) {
    throw_failed_precondition(
        fmt::format("Sequential '{}' has no layers: add some before it is built or called", name()));
  }
  if (!shapes.is_leaf()) {
    throw_invalid_argument(fmt::format("Sequential '{}' takes one input; use a functional model for several", name()));
  }
  const Shape& shape = shapes.leaf();
  if (!dynamic_cast<InputLayer*>(layers_[0].get())) {
    Shape batch_shape = shape;
    if (batch_shape.known_rank() && batch_shape.rank() > 0 && !input_fixed_) batch_shape[0] = kUnknownDim;
    const auto* kept = dynamic_cast<const KeepsVocabulary*>(&built_in_of(*layers_[0]));
    const DType dtype = kept ? kept->input_dtype() : layers_[0]->compute_dtype();
    layers_.insert(layers_.begin(), InputLayer::create(batch_shape, {.dtype = std::string(dtype_name(dtype))}));
  }
  auto& input = dynamic_cast<InputLayer&>(*layers_[0]);
  if (layers_.size() == 1)
    throw_failed_precondition(fmt::format("Sequential '{}' has no layer after its Input", name()));
  Structure x = input.output();
  for (std::size_t i = 1; i < layers_.size(); ++i) {
    x = (*layers_[i])(x);
    if (!x.is_leaf() && i + 1 < layers_.size()) {
      throw_invalid_argument(
          fmt::format("Sequential '{}': layer '{}' has several outputs", name(), layers_[i]->name()));
    }
  }
  functional_ = std::make_shared<FunctionalImpl>(Structure(input.output()), x, Layer::Options{});
  set_built();
}

Structure SequentialImpl::call(const Structure& inputs, const CallContext& context) {
  if (!functional_) throw_failed_precondition(fmt::format("Sequential '{}' is not built", name()));
  return functional_->call_with_any_extents(inputs, context);
}

Structure SequentialImpl::compute_mask(const Structure& inputs, const Structure&, const Structure& outputs) {
  // Keras checks the extents in symbolic calls only; call() has placeholders for their inputs.
  const std::vector<Tensor> given = inputs.flatten();
  if (functional_ && !given.empty() && as_keras_tensor(given[0]))
    functional_->check_extents(functional_->ordered_inputs(inputs));
  return outputs.map([](const Tensor& t) { return t.mask(); });
}

std::vector<LayerPtr> SequentialImpl::layers() const {
  std::vector<LayerPtr> out = layers_;
  if (!out.empty() && dynamic_cast<InputLayer*>(out[0].get())) out.erase(out.begin());
  return out;
}

std::vector<OperationPtr> SequentialImpl::operations() const {
  const auto all = layers();
  return {all.begin(), all.end()};
}

namespace {
[[noreturn]] void not_built(const std::string& name) {
  throw_failed_precondition(
      fmt::format("Sequential '{}' has no defined inputs and outputs yet: call it, or give it an Input", name));
}
}  // namespace

const Structure& SequentialImpl::inputs() const {
  if (!functional_) not_built(name());
  return functional_->inputs();
}

const Structure& SequentialImpl::outputs() const {
  if (!functional_) not_built(name());
  return functional_->outputs();
}

Json SequentialImpl::get_config() const {
  Json layers = Json::array();
  for (const LayerPtr& layer : layers_) layers.push_back(serialize_operation(*layer));
  Json config = {{"name", name()},
                 {"trainable", trainable()},
                 {"dtype", dtype_policy().serialize()},
                 {"layers", std::move(layers)}};
  if (functional_) config["build_input_shape"] = shape_to_json(functional_->inputs().leaf().shape());
  return config;
}

Json SequentialImpl::get_build_config() const {
  if (!functional_) return nullptr;
  return {{"input_shape", shape_to_json(functional_->inputs().leaf().shape())}};
}

void SequentialImpl::build_from_config(const Json& config) {
  if (built() || !config.is_object() || !config.contains("input_shape") || config["input_shape"].is_null()) return;
  input_fixed_ = true;
  ensure_built(shapes_from_json(config["input_shape"], fmt::format("build_config of Sequential '{}'", name())));
}

}  // namespace lockstep::keras
