// The file formats alone, without LibTorch: link lockstep::formats.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/formats/audit.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/idx.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/keras_legacy_h5.h"
#include "lockstep/formats/keras_weights.h"
#include "lockstep/formats/npy.h"
#include "lockstep/formats/safetensors.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/formats/tensor_data.h"
