// What the build_config of a recurrent layer has in addition where the call that built it was given states.
#pragma once

#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

class FirstStates {
 public:
  // Of the first symbolic call.
  void see(const Tensor& x, const CallContext& context) {
    if (seen_ || !x.is_symbolic()) return;
    seen_ = true;
    const Argument* given = context.arguments->find("initial_state");
    if (given) shapes_ = shapes_in(*given);
  }
  Json with_states(Json build_config) const {
    if (shapes_.is_null() || !build_config.is_object() || !build_config.contains("input_shape")) return build_config;
    return {{"shapes_dict",
             {{"sequences_shape", std::move(build_config["input_shape"])}, {"initial_state_shape", shapes_}}}};
  }

 private:
  static Json shapes_in(const Argument& states) {
    if (states.is_leaf()) {
      const ArgValue& value = states.leaf();
      return value.is_tensor() ? shapes_to_json(Nested<Shape>(value.tensor.shape())) : Json();
    }
    Json shapes = Json::array();
    if (!states.is_list()) return nullptr;
    for (const Argument& state : states.parts()) {
      shapes.push_back(shapes_in(state));
      if (shapes.back().is_null()) return nullptr;
    }
    return shapes.empty() ? Json() : shapes;
  }

  bool seen_ = false;
  Json shapes_;
};

}  // namespace lockstep::keras
