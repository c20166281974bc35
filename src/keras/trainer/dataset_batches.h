// Batches of a dataset, as fit, evaluate and predict take them.
#pragma once

#include <map>
#include <memory>

#include "lockstep/data/dataset.h"
#include "lockstep/keras/trainer/batches.h"

namespace lockstep::keras {

// Elements are x, (x, y) or (x, y, sample_weight). With `steps_given` one iterator goes on over passes until it
// runs out; else each pass opens an iterator, and a second that is thrown away where the size is known, because
// Keras does so and shuffles count iterators.
std::unique_ptr<BatchSource> dataset_batches(data::Dataset dataset, bool steps_given = false,
                                             std::map<std::int64_t, double> class_weight = {});

}  // namespace lockstep::keras
