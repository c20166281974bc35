// Keras's preprocessing layers: vocabularies, hashes, bins, text, random changes of images, and spectrograms.
#pragma once

#include "lockstep/keras/preprocessing/augmentation.h"
#include "lockstep/keras/preprocessing/categories.h"
#include "lockstep/keras/preprocessing/lookup.h"
#include "lockstep/keras/preprocessing/pipeline.h"
#include "lockstep/keras/preprocessing/spectrograms.h"
