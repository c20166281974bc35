// The public operations: functions, operators, custom gradients, and the settings of their runtime.
#pragma once

#include "lockstep/ops/audio_functions.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/control_flow.h"
#include "lockstep/ops/custom_gradient.h"
#include "lockstep/ops/debugging.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/image_functions.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/linear_algebra.h"
#include "lockstep/ops/lookup_tables.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/ops/runtime.h"
#include "lockstep/ops/sparse_tensor.h"
#include "lockstep/ops/string_functions.h"
#include "lockstep/ops/tensor_array.h"
