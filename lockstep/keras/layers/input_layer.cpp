#include "lockstep/keras/layers/input_layer.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

InputLayer::InputLayer(Shape batch_shape, const InputOptions& options)
    : Layer("InputLayer", {.name = options.name}), batch_shape_(std::move(batch_shape)), options_(options) {
  dtype_ = compute_dtype();
  if (!options.dtype.empty()) {
    const auto parsed = parse_dtype(options.dtype);
    if (!parsed) throw_invalid_argument(fmt::format("InputLayer '{}': unknown dtype '{}'", name(), options.dtype));
    dtype_ = *parsed;
  }
  for (std::int64_t dim : batch_shape_.dims()) {
    if (dim < kUnknownDim) {
      throw_invalid_argument(
          fmt::format("InputLayer '{}': shape {} has a negative entry", name(), batch_shape_.to_string()));
    }
  }
  set_built_in_constructor();
}

std::shared_ptr<InputLayer> InputLayer::create(Shape batch_shape, const InputOptions& options) {
  std::shared_ptr<InputLayer> layer(new InputLayer(std::move(batch_shape), options));
  layer->add_node({}, TensorInfo{layer->dtype_, layer->batch_shape_});
  return layer;
}

std::shared_ptr<InputLayer> InputLayer::from_config(const Json& config) {
  FieldReader reader("InputLayer", config);
  InputOptions options;
  std::optional<std::int64_t> batch_size;
  const Json* shape = nullptr;
  bool with_batch = true;
  for (const char* key : {"batch_shape", "batch_input_shape"}) {
    if (const Json* found = reader.take(key); found && !found->is_null() && !shape) shape = found;
  }
  for (const char* key : {"shape", "input_shape"}) {
    if (const Json* found = reader.take(key); found && !found->is_null() && !shape) {
      shape = found;
      with_batch = false;
    }
  }
  reader("batch_size", options.batch_size);
  if (const Json* dtype = reader.take("dtype"); dtype && !dtype->is_null()) {
    options.dtype = dtype->is_string() ? dtype->get<std::string>() : DTypePolicy::from_config(*dtype).name();
  }
  for (const char* key : {"sparse", "ragged", "optional"}) {
    bool& target = key[0] == 's' ? options.sparse : key[0] == 'r' ? options.ragged : options.optional;
    reader(key, target);
  }
  reader("name", options.name);
  for (const char* key : {"input_tensor", "type_spec", "trainable", "input_dtype", "autocast"}) reader.dropped(key);
  reader.finish();
  if (!shape) throw_invalid_argument(fmt::format("InputLayer '{}': it has no batch_shape", options.name));
  Shape batch_shape = shape_from_json(*shape, fmt::format("InputLayer '{}'", options.name));
  if (!with_batch) {
    std::vector<std::int64_t> dims = batch_shape.dims();
    dims.insert(dims.begin(), options.batch_size.value_or(kUnknownDim));
    batch_shape = Shape(std::move(dims));
  }
  return create(std::move(batch_shape), options);
}

Json InputLayer::get_config() const {
  return {{"batch_shape", shape_to_json(batch_shape_)},
          {"dtype", std::string(dtype_name(dtype_))},
          {"sparse", options_.sparse},
          {"ragged", options_.ragged},
          {"name", name()},
          {"optional", options_.optional}};
}

Structure InputLayer::call(const Structure& inputs, const CallContext&) { return inputs; }

}  // namespace lockstep::keras

namespace lockstep::layers {

Tensor InputWithBatchShape(const Shape& batch_shape, const InputOptions& options) {
  return keras::InputLayer::create(batch_shape, options)->output();
}

Tensor Input(const Shape& shape, const InputOptions& options) {
  std::vector<std::int64_t> dims = shape.dims();
  dims.insert(dims.begin(), options.batch_size.value_or(kUnknownDim));
  return InputWithBatchShape(Shape(std::move(dims)), options);
}

}  // namespace lockstep::layers
