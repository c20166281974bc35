// Keras's layers, losses, metrics, optimizers, schedules, initializers, regularizers, constraints and callbacks as
// classes, to derive from. lockstep.h leaves them out, because they would take a fifth of its time to compile.
#pragma once

#include "lockstep/keras/constraints/bases.h"
#include "lockstep/keras/initializers/bases.h"
#include "lockstep/keras/layers/bases.h"
#include "lockstep/keras/losses/bases.h"
#include "lockstep/keras/metrics/bases.h"
#include "lockstep/keras/optimizers/bases.h"
#include "lockstep/keras/regularizers/bases.h"
#include "lockstep/keras/schedules/bases.h"
#include "lockstep/saving/callback_bases.h"
