// Keras's preprocessing layers: vocabularies, hashes, bins, text, and random changes of images.
#pragma once

#include "lockstep/keras/preprocessing/augmentation.h"
#include "lockstep/keras/preprocessing/categories.h"
#include "lockstep/keras/preprocessing/lookup.h"
