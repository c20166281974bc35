// The state of an optimizer in an .h5 file of Keras 2, which had several forms:
//   - before TensorFlow 2: the iterations, where there are any, then slots kind by kind under names without meaning;
//   - until 2.10 (tf-keras's optimizers.legacy): "Adam/iter:0", Nadam's "momentum_cache:0", then slots kind by kind,
//     "Adam/dense/kernel/m:0";
//   - since 2.11: "iteration:0", then slots in the order of Keras 3, "Adam/m/dense/kernel:0"; no learning rate.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/formats/keras_weights.h"
#include "lockstep/keras/optimizers/optimizers.h"

namespace lockstep::saving {

// The config of an optimizer in a file of Keras 2, with the module of the legacy optimizers if it is one of them.
Json with_module_of_optimizer(Json config);

// For each of the weights that Keras 2 wrote, in the file's order, our variable, or null for slots that this optimizer
// does not have (SGD without momentum saved zeros). Empty where they do not fit.
std::vector<distribute::VariablePtr> keras2_targets(const optimizers::Optimizer& optimizer,
                                                    const std::vector<std::string_view>& names);

// That of Nadam; null for others.
distribute::VariablePtr momentum_product(const optimizers::Optimizer& optimizer);

// Whether a learning rate is a schedule that Keras 2 divides by a growing number (`decay`).
bool is_decayed_schedule(const Json& rate);

struct Keras2Optimizer {
  Json config;  // {"class_name", "config"} of training_config; objects in it are still those of Keras 3
  std::vector<formats::WeightEntry> weights;
};
// In the form that most versions of Keras read: that of 2.10 where it had this rule with these arguments. `config` are
// the optimizer's arguments; `embeddings`: the model has some, of which the rules of 2.10 change rows; `scaled`: it is
// in one that scales losses, which says whether it is one of 2.10. Throws Unimplemented for classes and arguments that
// Keras 2 does not have.
Keras2Optimizer keras2_optimizer(const optimizers::Optimizer& optimizer, const Json& config, bool embeddings,
                                 bool scaled = false);

}  // namespace lockstep::saving
