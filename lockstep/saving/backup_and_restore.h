// BackupAndRestore: fit goes on where an interrupted one stopped.
#pragma once

#include <string>

#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/callbacks/save_frequency.h"

namespace lockstep::callbacks {

struct BackupAndRestoreOptions {
  SaveFrequency save_freq = "epoch";
  bool double_checkpoint = false;  // keep the backup before the last as well
  bool delete_checkpoint = true;   // remove the folder when training has ended
};

// Keeps latest.weights.h5 (weights, optimizer and random states) and training_metadata.json (the epoch to
// begin with) in `backup_dir`, as Keras does, and beside them a tensor bundle training_state: where the data stands
// within the epoch, metrics so far, random states, the states of all callbacks, the history. All of it changes in one
// step, so it belongs together whenever the process dies. At the beginning of fit it is taken up: a built, compiled
// model goes on exactly where the backup was made; from a backup of Keras's own, with that epoch. A damaged backup is
// named in a warning and, with double_checkpoint, the one before is used; without one DataLoss is thrown. Under several
// workers the chief writes and reads the folder, and gives the others their part. Throws InvalidArgument for an empty
// backup_dir, FailedPrecondition in fit for a model that is not built.
keras::CallbackPtr BackupAndRestore(const std::string& backup_dir, BackupAndRestoreOptions options = {});

}  // namespace lockstep::callbacks
