// A layer class's constructor keywords, told once: read from configs, written to configs, resolved.
//
// A class lists its options with fields(visitor, options), in the order of Keras's config:
//
//   template <typename V> static void fields(V& v, DenseOptions& o) { v("units", o.units); … }
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/keras/activations.h"
#include "lockstep/keras/layers/layer.h"
#include "lockstep/keras/layers/registry.h"

namespace lockstep::keras {

using Ints = std::vector<std::int64_t>;

// A number that remembers whether it was written as an integer, as Python's configs do.
struct Number {
  Number() = default;
  Number(double v) : value(v) {}
  Number(int v) : value(v), integer(true) {}
  Number(std::int64_t v) : value(static_cast<double>(v)), integer(true) {}
  operator double() const { return value; }
  double value = 0;
  bool integer = false;
};

// An extent for each spatial axis; one number stands for all of them.
struct Window {
  Window() = default;
  Window(int all) : values{all} {}
  Window(std::int64_t all) : values{all} {}
  Window(std::initializer_list<std::int64_t> list) : values(list) {}
  Window(Ints list) : values(std::move(list)) {}
  Ints values;
};

// The number itself when there is one, else the list.
Json one_or_list(const Ints& values);

// Turns names and configs into objects, in the order of the constructor, so that seeds are drawn as Keras
// draws them.
class FieldResolver {
 public:
  template <typename T>
  void operator()(const char*, T&) {}
  void operator()(const char*, initializers::InitializerArg& arg) { arg = initializers::get(arg); }
  void operator()(const char*, regularizers::RegularizerArg& arg) { arg = regularizers::get(arg); }
  void operator()(const char*, constraints::ConstraintArg& arg) { arg = constraints::get(arg); }
  void operator()(const char*, activations::ActivationArg& arg) { arg = activations::get(arg); }
};

class FieldWriter {
 public:
  explicit FieldWriter(Json& config) : config_(config) {}

  void operator()(const char* key, const bool& v) { config_[key] = v; }
  void operator()(const char* key, const std::int64_t& v) { config_[key] = v; }
  void operator()(const char* key, const double& v) { config_[key] = v; }
  void operator()(const char* key, const Number& v) { config_[key] = number(v); }
  void operator()(const char* key, const std::string& v) { config_[key] = v; }
  void operator()(const char* key, const Ints& v) { config_[key] = ints(v); }
  void operator()(const char* key, const Window& v) { config_[key] = ints(v.values); }
  void operator()(const char* key, const Json& v) { config_[key] = v; }
  void operator()(const char* key, const initializers::InitializerArg& v) {
    config_[key] = initializers::serialize(v.object());
  }
  void operator()(const char* key, const regularizers::RegularizerArg& v) {
    config_[key] = regularizers::serialize(v.object());
  }
  void operator()(const char* key, const constraints::ConstraintArg& v) {
    config_[key] = constraints::serialize(v.object());
  }
  void operator()(const char* key, const activations::ActivationArg& v) {
    config_[key] = activations::serialize(v.object());
  }
  void operator()(const char* key, const LayerHandle& v) { config_[key] = v ? serialize_operation(*v) : Json(nullptr); }
  template <typename T>
  void operator()(const char* key, const std::optional<T>& v) {
    if (v) {
      (*this)(key, *v);
    } else {
      config_[key] = nullptr;
    }
  }

 private:
  static Json number(const Number& v) { return v.integer ? Json(static_cast<std::int64_t>(v.value)) : Json(v.value); }
  static Json ints(const Ints& v) {
    Json out = Json::array();
    for (std::int64_t i : v) out.push_back(i == kUnknownDim ? Json(i) : Json(i));
    return out;
  }
  Json& config_;
};

// Reads a config; keys that no field names are left over and refused by finish().
class FieldReader {
 public:
  FieldReader(std::string class_name, const Json& config);

  void operator()(const char* key, bool& v);
  void operator()(const char* key, std::int64_t& v);
  void operator()(const char* key, double& v);
  void operator()(const char* key, Number& v);
  void operator()(const char* key, std::string& v);
  void operator()(const char* key, Ints& v);
  void operator()(const char* key, Window& v);
  void operator()(const char* key, Json& v);
  void operator()(const char* key, initializers::InitializerArg& v) { object(key, v); }
  void operator()(const char* key, regularizers::RegularizerArg& v) { object(key, v); }
  void operator()(const char* key, constraints::ConstraintArg& v) { object(key, v); }
  void operator()(const char* key, activations::ActivationArg& v) { object(key, v); }
  void operator()(const char* key, LayerHandle& v);
  template <typename T>
  void operator()(const char* key, std::optional<T>& v) {
    const Json* found = take(key);
    if (!found) return;
    if (found->is_null()) {
      v.reset();
      return;
    }
    T value{};
    used_.erase(key);
    (*this)(key, value);
    v = std::move(value);
  }

  // A keyword of an older Keras that is dropped when it holds this value (null: any).
  void drop(const char* key, const Json& harmless = nullptr);
  // The value under a key, taken; null when there is none.
  const Json* take(const char* key);
  const Json& config() const { return config_; }
  const std::string& class_name() const { return class_name_; }
  // Throws InvalidArgument for a left-over key.
  void finish() const;
  [[noreturn]] void fail(const char* key, const char* expected) const;

 private:
  template <typename Arg>
  void object(const char* key, Arg& v) {
    if (const Json* found = take(key)) v = found->is_null() ? Arg() : Arg(*found);
  }
  std::string class_name_;
  Json config_;
  std::set<std::string> used_;
};

// The keywords all layers take.
Layer::Options read_layer_options(FieldReader& reader);

// A built-in layer class: `Derived` has `static constexpr const char* kClass`, `Options` with name,
// trainable and dtype, and static fields(); with a `kRegularizesParts` its activity regularizer is for its sublayers.
// It gets its config, its registry row and its resolved options.
template <typename Derived, typename OptionsT>
class ConfiguredLayer : public Layer {
 public:
  using Options = OptionsT;
  Json module() const override { return "keras.layers"; }
  Json get_config() const override {
    Json config = Layer::get_config();
    FieldWriter writer(config);
    Derived::fields(writer, const_cast<OptionsT&>(options_));
    return config;
  }
  const OptionsT& options() const { return options_; }

 protected:
  explicit ConfiguredLayer(OptionsT options, Layer::Options base = {})
      : ConfiguredLayer(Derived::kClass, std::move(options), std::move(base)) {}
  ConfiguredLayer(std::string class_name, OptionsT options, Layer::Options base)
      : Layer(std::move(class_name), merge(options, std::move(base))), options_(std::move(options)) {
    FieldResolver resolver;
    Derived::fields(resolver, options_);
  }

  OptionsT options_;

 private:
  static Layer::Options merge(const OptionsT& options, Layer::Options base) {
    if (!options.name.empty()) base.name = options.name;
    if constexpr (requires { options.trainable; }) base.trainable = base.trainable && options.trainable;
    if constexpr (requires { options.dtype; }) base.dtype = options.dtype;
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
  if constexpr (requires { L::read_legacy(reader, options); }) L::read_legacy(reader, options);
  L::fields(reader, options);
  Layer::Options base = read_layer_options(reader);
  options.name = base.name;
  if constexpr (requires { options.trainable; }) options.trainable = base.trainable;
  if constexpr (requires { options.dtype; }) options.dtype = base.dtype;
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

// The registry row of such a class.
template <typename L>
LayerClass layer_row(std::vector<std::string> aliases = {}) {
  return {L::kClass, std::move(aliases), "keras.layers",
          [](const Json& config) -> LayerPtr { return layer_from_config<L>(config); }};
}

}  // namespace lockstep::keras
