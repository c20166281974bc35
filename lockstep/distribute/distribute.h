// All of tf.distribute, with variables and gradient tapes. keras/optimizers/server.h has the program of a parameter
// server.
#pragma once

#include "lockstep/distribute/average_loss.h"
#include "lockstep/distribute/cluster_coordinator.h"
#include "lockstep/distribute/devices.h"
#include "lockstep/distribute/forward_accumulator.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/distribute/parameter_server_strategy.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/distribute/variable_operators.h"
