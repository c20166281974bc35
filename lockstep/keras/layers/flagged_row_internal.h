// Classes whose layers compute in another way in Keras 1 and 2.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

// A layer whose config may have a key that is not an argument of its class: configs of Keras 1 and 2 get it when they
// are read (old_config_table.cpp). It is not written to files, but copies of the layer have it.
class OldRules {
 public:
  virtual ~OldRules() = default;
  void keep(std::string key, Json value) { rules_[std::move(key)] = std::move(value); }
  const Json& old_rules() const { return rules_; }

  // While an object of it exists, serialize_operation() of this thread adds these keys.
  class Written {
   public:
    Written() : previous_(std::exchange(active_, true)) {}
    ~Written() { active_ = previous_; }
    Written(const Written&) = delete;
    Written& operator=(const Written&) = delete;
    static bool active() { return active_; }

   private:
    static inline thread_local bool active_ = false;
    bool previous_;
  };

 private:
  Json rules_ = Json::object();
};

// The row of class L, which has OldRules. Where a config has `key`, `apply` is called with the layer and the value.
template <typename L, typename Apply>
ClassRow flagged_row(std::string key, Apply apply, std::vector<std::string> aliases = {}) {
  ClassRow row = layer_row<L>(std::move(aliases));
  row.make = [make = row.make, key = std::move(key), apply](const Json& config) -> std::shared_ptr<void> {
    if (!config.is_object() || !config.contains(key)) return make(config);
    Json own = config;
    own.erase(key);
    std::shared_ptr<void> made = make(own);
    L& layer = dynamic_cast<L&>(*std::static_pointer_cast<Layer>(made));
    apply(layer, config.at(key));
    layer.keep(key, config.at(key));
    return made;
  };
  return row;
}

// A layer that passes masks on in Keras 3, and not in Keras 2, whose files have "drops_masks".
class MaskSupport : public OldRules {
 public:
  void drop_masks() { keeps_masks_ = false; }

 protected:
  bool keeps_masks_ = true;
};

// A layer whose softmax ignores scores by a mask. In Keras 3 rows that see nothing are zero; in Keras 2, whose files
// have "adds_masks", a large negative number is added (or replaces the score: "robust"), and such rows see everything.
class MaskedSoftmax : public OldRules {
 public:
  void add_masks(bool robust) { masks_ = robust ? Masks::kReplaced : Masks::kAdded; }

 protected:
  enum class Masks { kZero, kAdded, kReplaced };
  Masks masks_ = Masks::kZero;
};

template <typename L>
ClassRow masked_softmax_row() {
  return flagged_row<L>("adds_masks", [](L& layer, const Json& how) { layer.add_masks(how == Json("robust")); });
}

template <typename L>
ClassRow mask_dropping_row() {
  return flagged_row<L>("drops_masks", [](L& layer, const Json&) { layer.drop_masks(); });
}

}  // namespace lockstep::keras
