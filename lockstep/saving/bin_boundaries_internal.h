// Boundaries of Discretization layers of Keras 2 that have been adapted: their config does not have them, but a weight
// "summary" of shape (2, n) has the values and counts from which they follow.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/keras_legacy_h5.h"

namespace lockstep::saving {

// The config of a file's model, with boundaries.
Json with_bin_boundaries(Json config, const formats::KerasWeights& weights);
Json with_bin_boundaries(Json config, const formats::LegacyH5& file);

}  // namespace lockstep::saving
