// All of tf.random, whose numbers follow tf.random.set_seed. random.h has keras.random.
#pragma once

#include "lockstep/random/candidate_samplers.h"
#include "lockstep/random/gamma.h"
#include "lockstep/random/generator.h"
#include "lockstep/random/random_images.h"
#include "lockstep/random/stateless.h"
