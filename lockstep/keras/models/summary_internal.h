// Keras's table of a model.
#pragma once

#include <string>

#include "lockstep/keras/models/model.h"

namespace lockstep::keras {

// As model.summary(print_fn=…) gives it: a plain-text table of Keras 3.15 without colours.
std::string summary_text(ModelImpl& model, const SummaryOptions& options = {});

// "1.32 MB": as Keras writes sizes.
std::string readable_size(double bytes);

}  // namespace lockstep::keras
