// Classes whose layers compute in another way in Keras 1 and 2.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

// The row of class L. A config may have `key`, which is not an argument of the class and is not written: files of Keras
// 1 and 2 get it (old_config_table.cpp). `apply` is then called with the layer and the value.
template <typename L, typename Apply>
ClassRow flagged_row(std::string key, Apply apply, std::vector<std::string> aliases = {}) {
  ClassRow row = layer_row<L>(std::move(aliases));
  row.make = [make = row.make, key = std::move(key), apply](const Json& config) -> std::shared_ptr<void> {
    if (!config.is_object() || !config.contains(key)) return make(config);
    Json own = config;
    own.erase(key);
    std::shared_ptr<void> made = make(own);
    apply(dynamic_cast<L&>(*std::static_pointer_cast<Layer>(made)), config.at(key));
    return made;
  };
  return row;
}

// A layer that passes masks on in Keras 3, and not in Keras 2, whose files have "drops_masks".
class MaskSupport {
 public:
  virtual ~MaskSupport() = default;
  void drop_masks() { keeps_masks_ = false; }

 protected:
  bool keeps_masks_ = true;
};

template <typename L>
ClassRow mask_dropping_row() {
  return flagged_row<L>("drops_masks", [](L& layer, const Json&) { layer.drop_masks(); });
}

}  // namespace lockstep::keras
