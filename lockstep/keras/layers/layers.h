// All of keras.layers.
#pragma once

#include "lockstep/keras/layers/activation.h"
#include "lockstep/keras/layers/application_layers.h"
#include "lockstep/keras/layers/attention.h"
#include "lockstep/keras/layers/conv_lstm.h"
#include "lockstep/keras/layers/convolution.h"
#include "lockstep/keras/layers/core.h"
#include "lockstep/keras/layers/images.h"
#include "lockstep/keras/layers/input_layer.h"
#include "lockstep/keras/layers/merging.h"
#include "lockstep/keras/layers/normalization.h"
#include "lockstep/keras/layers/pooling.h"
#include "lockstep/keras/layers/preprocessing.h"
#include "lockstep/keras/layers/recurrent.h"
#include "lockstep/keras/layers/registry.h"
#include "lockstep/keras/layers/regularization.h"
#include "lockstep/keras/layers/reshaping.h"
