// The files of a checkpoint.
#pragma once

#include <string>

namespace lockstep::train {

// Whether `file` is "PREFIX.data-00000-of-00001" or its like.
bool is_shard(const std::string& file, const std::string& prefix);

// Removes the files of a checkpoint, and the graph that TensorFlow 1 writes with them. False, with a warning, if
// something remains.
bool delete_checkpoint(const std::string& prefix);

}  // namespace lockstep::train
