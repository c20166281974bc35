// tf.train: checkpoints, their manager, and the callback that keeps the state of a fit.
#pragma once

#include "lockstep/train/checkpoint.h"
#include "lockstep/train/checkpoint_manager.h"
#include "lockstep/train/checkpoint_utils.h"
#include "lockstep/train/module.h"
#include "lockstep/train/moving_average.h"
#include "lockstep/train/preemption_checkpoint_handler.h"
#include "lockstep/train/saver.h"
#include "lockstep/train/sharding_policies.h"
#include "lockstep/train/training_checkpoints.h"
