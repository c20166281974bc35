// Random changes of the files of models: configs, HDF5 files, SavedModels, checkpoints.
#pragma once

#include <string>
#include <vector>

#include "fuzz/execution/choices.h"
#include "lockstep/base/json.h"

namespace lockstep::fuzz {

// What a change did is appended to `log`, for a reader.
using Log = std::string;

// Changes one to three values of a config: to one of another type, an extreme one, a neighbour, that of another place.
void change_config(Choices& choices, Json& config, Log& log);
// Writes an HDF5 file to `target` whose datasets differ from those of `source` in name, shape, dtype or values, and
// whose attributes differ in their texts; a config among these as by change_config. Now and then its bytes are changed.
void change_hdf5(Choices& choices, const std::string& source, const std::string& target, Log& log);
// Writes a changed copy of the SavedModel `source` to the folder `target`: its graph, its objects and signatures, or
// its variables. `operations` as for change_graph.
void change_saved_model(Choices& choices, const std::string& source, const std::string& target,
                        const std::vector<std::string>& operations, Log& log);

}  // namespace lockstep::fuzz
