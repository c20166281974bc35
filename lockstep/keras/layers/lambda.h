// keras.layers.Lambda: a function as a layer.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "lockstep/keras/layers/layer.h"

namespace lockstep::layers {

using LambdaFunction = std::function<keras::Structure(const keras::Structure& inputs)>;

struct LambdaOptions {
  FieldNamesOnly names_only = {};
  LambdaFunction function = {};  // where it is not given by position
  ShapeArg output_shape = {};    // shapes follow from the function; it is not needed
  LambdaFunction mask = {};      // the mask of the outputs, from that of the inputs; default: none
  std::string name = {};
  bool trainable = true;
  keras::DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
};

// Files do not contain functions: a model with such a layer saves its weights only. Saving all of it throws
// Unimplemented.
class LambdaLayer : public keras::Layer {
 public:
  explicit LambdaLayer(LambdaOptions options)
      : Layer("Lambda", Options{.name = options.name,
                                .trainable = options.trainable,
                                .dtype = options.dtype,
                                .input_shape = options.input_shape}),
        options_(std::move(options)) {
    if (!options_.function) throw_invalid_argument("Lambda requires a function");
  }
  keras::Structure call(const keras::Structure& inputs) override { return options_.function(inputs); }
  bool supports_masking() const override { return static_cast<bool>(options_.mask); }
  keras::Structure compute_mask(const keras::Structure&, const keras::Structure& mask,
                                const keras::Structure&) override {
    return options_.mask ? options_.mask(mask) : keras::Structure();
  }
  Json get_config() const override {
    throw_unimplemented(name() +
                        ": files cannot contain the function of a Lambda layer; derive a class from Layer and "
                        "register it");
  }

 private:
  LambdaOptions options_;
};

inline keras::LayerHandle Lambda(const LambdaOptions& options) { return keras::make_layer<LambdaLayer>(options); }
template <std::convertible_to<LambdaFunction> F>
keras::LayerHandle Lambda(const F& function, LambdaOptions options = {}) {
  options.function = function;
  return Lambda(options);
}
// One of several overloads: Lambda(nn::gelu).
template <int = 0>
keras::LayerHandle Lambda(Tensor (*function)(const Tensor&), LambdaOptions options = {}) {
  options.function = [function](const keras::Structure& inputs) { return function(inputs); };
  return Lambda(options);
}

}  // namespace lockstep::layers
