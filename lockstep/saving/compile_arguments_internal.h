// Losses and metrics of compile() in files of another version of Keras than the one that the model comes from.
#pragma once

#include <set>
#include <string>

#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// The compile arguments of a model as Keras 3 has them, with warnings: without the metrics that it lacks; empty where
// its optimizer divides a schedule by a growing number, as the first ones of Keras 2 do (`decay`). Names of metrics
// lose that of their output, which Keras 3 writes before them.
Json compile_config_of_keras3(const Json& compile, const keras::ModelImpl& model);

// The compile arguments in a .keras file of Keras 2, whose metrics have the names under which they were reported: its
// load_model() writes that of their output before them once more.
Json compile_config_of_keras2(Json compile, const keras::ModelImpl& model);

// The argument `key` of compile, metrics or weighted_metrics, for an .h5 file of Keras 2: objects under the names that
// Keras 2 reports, with that of their output where the model has several, since it leaves those of a file as they are.
// It reads "accuracy" and "crossentropy" in files as if the targets had the shapes of the outputs; therefore they
// become objects for the loss of their output. `taken`: the names so far.
Json keras2_metrics(const Json& compile, const std::string& key, const keras::ModelImpl& model,
                    std::set<std::string>& taken);

// The training_config of an .h5 file as Keras 3 reads it: metrics given by name are objects with the names of their
// classes ("mse" is reported as mean_squared_error), except those that depend on the shape of the targets.
Json with_metric_objects(Json config);

}  // namespace lockstep::saving
