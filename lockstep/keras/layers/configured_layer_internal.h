// The built-in layer classes: their arguments, listed once, give config, registry row and resolved options.
//
//   class MaskingLayer : public ConfiguredLayer<MaskingLayer, MaskingOptions> {
//    public:
//     static constexpr const char* kClass = "Masking";
//     template <typename V>
//     static void fields(V& v, MaskingOptions& o) { v("mask_value", o.mask_value); }
//     …
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/keras/activations.h"
#include "lockstep/keras/class_table_internal.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/layers/registry.h"

namespace lockstep::keras {

template <>
inline constexpr const char* kObjectKind<initializers::Initializer> = "initializer";
template <>
inline constexpr const char* kObjectKind<regularizers::Regularizer> = "regularizer";
template <>
inline constexpr const char* kObjectKind<constraints::Constraint> = "constraint";
template <>
inline constexpr const char* kObjectKind<activations::Activation> = "activation";

template <>
struct FieldType<LayerHandle> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "layer"; }
  static bool read(const Json& found, LayerHandle& v) {
    v = LayerHandle(deserialize_layer(found));
    return true;
  }
  static Json write(const LayerHandle& v) { return v ? serialize_operation(*v) : Json(nullptr); }
};

template <>
struct FieldType<std::vector<LayerHandle>> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "list of layers"; }
  static bool read(const Json& found, std::vector<LayerHandle>& v) {
    if (!found.is_array()) return false;
    for (const Json& layer : found) v.push_back(LayerHandle(deserialize_layer(layer)));
    return true;
  }
  static Json write(const std::vector<LayerHandle>& v) {
    Json out = Json::array();
    for (const LayerHandle& layer : v) out.push_back(serialize_operation(*layer));
    return out;
  }
};

// A shape in which kUnknownDim stands for null.
struct Dims {
  std::optional<Ints>& dims;
};
template <>
struct FieldType<Dims> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "list of integers or null"; }
  static bool read(const Json& found, const Dims& v);
  static Json write(const Dims& v) { return v.dims ? shape_to_json(Shape(*v.dims)) : Json(nullptr); }
};

// The layers that stand for functions in a layer's config compute in the dtype that the layer computes in.
void set_dtype_of_activations(Json& config, DType dtype);

// The arguments that all layers take.
Layer::Options read_layer_options(FieldReader& reader);

// A built-in layer class: `Derived` has `static constexpr const char* kClass`, `Options` with name,
// trainable and dtype, and static fields(); with a `kRegularizesParts` its activity regularizer is for its sublayers.
// It gets its config, its registry row and its resolved options. `Base` is Layer or a class derived from it that is
// built from the same arguments.
template <typename Derived, typename OptionsT, typename Base = Layer>
class ConfiguredLayer : public Base {
 public:
  using Options = OptionsT;
  Json module() const override { return "keras.layers"; }
  Json get_config() const override {
    Json config = Layer::get_config();
    FieldWriter writer(config);
    Derived::fields(writer, const_cast<OptionsT&>(options_));
    set_dtype_of_activations(config, this->compute_dtype());
    return config;
  }
  const OptionsT& options() const { return options_; }

 protected:
  explicit ConfiguredLayer(OptionsT options, Layer::Options base = {})
      : ConfiguredLayer(Derived::kClass, std::move(options), std::move(base)) {}
  ConfiguredLayer(std::string class_name, OptionsT options, Layer::Options base)
      : Base(std::move(class_name), merge(options, std::move(base))), options_(std::move(options)) {
    FieldResolver resolver(fmt::format("{} '{}'", this->class_name(), this->name()));
    Derived::fields(resolver, options_);
  }

  OptionsT options_;

 private:
  static Layer::Options merge(const OptionsT& options, Layer::Options base) {
    if (!options.name.empty()) base.name = options.name;
    if constexpr (requires { options.trainable; }) base.trainable = base.trainable && options.trainable;
    if constexpr (requires { base.dtype = options.dtype; }) base.dtype = options.dtype;
    if constexpr (requires { options.input_shape; }) base.input_shape = options.input_shape;
    if constexpr (
        requires { options.activity_regularizer; } && !requires { Derived::kRegularizesParts; }) {
      if (!options.activity_regularizer.empty()) base.activity_regularizer = options.activity_regularizer;
    }
    return base;
  }
};

// Reads a class's config into its options, common keywords included.
template <typename L>
std::shared_ptr<L> layer_from_config(const Json& config) {
  FieldReader reader(L::kClass, config);
  typename L::Options options;
  L::fields(reader, options);
  Layer::Options base = read_layer_options(reader);
  options.name = base.name;
  if constexpr (requires { options.trainable; }) options.trainable = base.trainable;
  if constexpr (requires { options.dtype.has_value(); }) {
    if (!config.value("dtype", Json()).is_null()) options.dtype = base.dtype;
  } else if constexpr (requires { options.dtype; }) {
    options.dtype = base.dtype;
  }
  if constexpr (requires { options.activity_regularizer; }) {
    if (options.activity_regularizer.empty()) options.activity_regularizer = base.activity_regularizer;
  }
  reader.finish();
  if constexpr (std::is_constructible_v<L, typename L::Options, Layer::Options>) {
    return std::make_shared<L>(std::move(options), std::move(base));
  } else {
    return std::make_shared<L>(std::move(options));
  }
}

// The arguments of a layer class: those that `list` visits, then those of all layers.
template <typename List>
std::vector<FieldDescription> describe_layer(List list) {
  FieldDescriber describer;
  list(describer);
  std::vector<FieldDescription> fields = describer.take();
  const bool regularizes = std::any_of(
      fields.begin(), fields.end(), [](const FieldDescription& field) { return field.key == "activity_regularizer"; });
  Layer::Options base;
  describer("name", NullAs{base.name, ""});
  describer("trainable", base.trainable);
  std::optional<std::string> dtype;
  describer("dtype", dtype);
  if (!regularizes) describer("activity_regularizer", base.activity_regularizer);
  for (FieldDescription& field : describer.take()) fields.push_back(std::move(field));
  return fields;
}
template <typename L>
std::vector<FieldDescription> describe_layer() {
  return describe_layer([](FieldDescriber& describer) {
    typename L::Options options;
    L::fields(describer, options);
  });
}

// The registry row of such a class.
template <typename L>
ClassRow layer_row(std::vector<std::string> aliases = {}) {
  return {L::kClass, std::move(aliases), [](const Json& config) -> LayerPtr { return layer_from_config<L>(config); },
          describe_layer<L>};
}

}  // namespace lockstep::keras
