// The text file "checkpoint" in a folder of TensorFlow checkpoints, which names the newest one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/list.h"
#include "lockstep/io/file_system.h"

namespace lockstep::formats {

struct CheckpointState {
  std::string model_checkpoint_path;                    // as in the file: often relative to its folder
  List<std::string> all_model_checkpoint_paths;         // oldest first
  std::vector<double> all_model_checkpoint_timestamps;  // seconds since 1970, one for each path, or none
  double last_preserved_timestamp = 0;

  std::string to_text() const;
  // Throws DataLoss for text that is not a CheckpointState.
  static CheckpointState parse(std::string_view text, std::string_view what);
};

// The default name of the state file; a Saver may use another one.
inline constexpr std::string_view kCheckpointStateFile = "checkpoint";

// Reads the state file `directory`/`name`. The paths that it returns begin with `directory`. Empty if the file
// does not exist. Throws DataLoss when it is malformed or names no newest checkpoint.
std::optional<CheckpointState> read_checkpoint_state(const std::string& directory,
                                                     std::string_view name = kCheckpointStateFile,
                                                     io::FileSystem& files = io::posix_file_system());

// Replaces the file atomically. Paths below `directory` are written relative to it, as TensorFlow does.
void write_checkpoint_state(const std::string& directory, CheckpointState state,
                            std::string_view name = kCheckpointStateFile,
                            io::FileSystem& files = io::posix_file_system());

// The newest checkpoint's prefix by the state file, when its index is there; else empty.
std::optional<std::string> latest_checkpoint(const std::string& directory, std::string_view name = kCheckpointStateFile,
                                             io::FileSystem& files = io::posix_file_system());

}  // namespace lockstep::formats
