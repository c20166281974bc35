// All of keras.callbacks except those that save: lockstep/saving/saving.h has these.
#pragma once

#include "lockstep/keras/callbacks/callback_list.h"
#include "lockstep/keras/callbacks/csv_logger.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/keras/callbacks/remote_monitor.h"
#include "lockstep/keras/callbacks/swap_ema_weights.h"
#include "lockstep/keras/callbacks/tensor_board.h"
