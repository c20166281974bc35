// How parameter servers use optimizers.
#pragma once

#include "lockstep/distribute/parameter_server_internal.h"

namespace lockstep::optimizers {

// Makes the update rules of parameter servers: an optimizer of Keras for each variable.
distribute::MakeUpdateRule server_rules();

}  // namespace lockstep::optimizers
