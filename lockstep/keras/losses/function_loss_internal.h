// Losses that are functions, as Keras takes them.
#pragma once

#include "lockstep/keras/losses/loss.h"

namespace lockstep::losses {

// Whether it was given as a function of (y_true, y_pred). Model::loss() calls it as it is then, without reduction.
bool is_function(const Loss& loss);

}  // namespace lockstep::losses
