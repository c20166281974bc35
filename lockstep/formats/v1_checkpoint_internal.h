// TensorFlow's checkpoints of before 2016 (SaverDef.V1): tables whose values are slices of tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/io/file_system.h"

namespace lockstep::formats {

// The files of such a checkpoint: PREFIX itself, or PREFIX-SSSSS-of-NNNNN, which `path` may name with five question
// marks. Empty where there are none.
std::vector<std::string> v1_checkpoint_files(const std::string& path, io::FileSystem& files);

// The same tensors as a bundle with this prefix, in memory. Throws DataLoss for damage, Unimplemented for element types
// that lockstep lacks.
std::shared_ptr<io::FileSystem> bundle_of_v1_checkpoint(const std::string& prefix,
                                                        const std::vector<std::string>& paths, io::FileSystem& files);

}  // namespace lockstep::formats
