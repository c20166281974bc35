#include "lockstep/keras/layers/configured_layer_internal.h"

#include <fmt/format.h>

#include "lockstep/keras/layer_activation_internal.h"

namespace lockstep::keras {

bool FieldType<Dims>::read(const Json& found, const Dims& v) {
  v.dims.reset();
  if (found.is_null()) return true;
  const Json* list = &found;
  if (list->is_object() && list->contains("items")) list = &(*list)["items"];  // Keras 2's tuples
  if (!list->is_array()) return false;
  Ints dims;
  for (const Json& entry : *list) {
    std::int64_t dim = kUnknownDim;
    if (!entry.is_null() && !FieldType<std::int64_t>::read(entry, dim)) return false;
    dims.push_back(dim);
  }
  v.dims = std::move(dims);
  return true;
}

namespace {

std::string who(FieldReader& reader) {
  const Json name = reader.config().value("name", Json(""));
  return fmt::format("{} '{}'", reader.class_name(), name.is_string() ? name.get<std::string>() : "");
}

}  // namespace

void set_dtype_of_activations(Json& config, DType dtype) {
  if (dtype == DType::kFloat32) return;
  for (const char* key : {"activation", "recurrent_activation"}) {
    if (!config.contains(key) || !activations::is_hard_sigmoid_of_keras2(config[key])) continue;
    for (Json& layer : config[key]["config"]["layers"]) layer["config"]["dtype"] = std::string(dtype_name(dtype));
  }
}

Layer::Options read_layer_options(FieldReader& reader) {
  Layer::Options options;
  reader("name", options.name);
  const auto trainable = reader.config().find("trainable");
  if (trainable != reader.config().end() && !trainable->is_boolean()) reader.fail("trainable", "boolean");
  reader("trainable", options.trainable);
  if (const Json* dtype = reader.take("dtype")) options.dtype = DTypePolicy::from_config(*dtype, who(reader) + ": ");
  reader("activity_regularizer", options.activity_regularizer);
  reader.dropped("autocast");
  reader.dropped("batch_input_shape");  // Keras 2's; the Sequential that reads it makes an InputLayer of it
  reader.dropped("input_shape");
  reader.dropped("input_dim");
  reader.dropped("input_dtype");
  reader.dropped("batch_size");
  return options;
}

}  // namespace lockstep::keras
