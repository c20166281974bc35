// Layers that Keras does not export: its files name them by the module of their source.
#pragma once

#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

// Derived::kModule is the module.
template <typename Derived, typename Options>
class UnexportedLayer : public ConfiguredLayer<Derived, Options> {
 public:
  Json module() const override { return Derived::kModule; }
  Json registered_name() const override { return Derived::kClass; }

 protected:
  using ConfiguredLayer<Derived, Options>::ConfiguredLayer;
};

}  // namespace lockstep::keras
