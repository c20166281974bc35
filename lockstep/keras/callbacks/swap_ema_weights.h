// SwapEMAWeights: evaluation with the averages of the weights.
#pragma once

#include "lockstep/keras/callbacks/callback.h"

namespace lockstep::callbacks {

struct SwapEMAWeightsOptions {
  bool swap_on_epoch =
      false;  // also from the end of an epoch to the beginning of the next one, for callbacks that save
};
// Exchanges the weights with their moving averages while the model is evaluated or predicts. Requires an optimizer with
// use_ema; without one, FailedPrecondition is thrown.
keras::CallbackPtr SwapEMAWeights(SwapEMAWeightsOptions options = {});

}  // namespace lockstep::callbacks
