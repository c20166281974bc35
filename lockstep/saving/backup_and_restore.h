// BackupAndRestore: resumes an interrupted fit.
#pragma once

#include <string>
#include <utility>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/text_arg.h"
#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/callbacks/save_frequency.h"

namespace lockstep::callbacks {

struct BackupAndRestoreOptions {
  FieldNamesOnly names_only = {};
  std::string backup_dir = {};
  SaveFrequency save_freq = "epoch";
  bool double_checkpoint = false;  // keep the backup before the last as well
  bool delete_checkpoint = true;   // remove the folder at the end of training
};

// Saves latest.weights.h5 (weights, optimizer and random states) and training_metadata.json (the next epoch) to
// `backup_dir`, as Keras does, and a tensor bundle training_state: the position in the data within the epoch, the
// metrics so far, random states, the states of all callbacks. All files are replaced in one step, so they
// are consistent if the process dies at any moment. fit restores the backup at its start: a built, compiled model
// resumes exactly where the backup was saved, and its history has the epochs that it ends itself; from a backup of
// Keras itself, with that epoch. A damaged backup is reported in a warning, and the previous one is used with
// double_checkpoint, else DataLoss is thrown. With several workers the chief writes and reads the folder and sends the
// others their states. Throws InvalidArgument for an empty backup_dir, FailedPrecondition in fit for a model that is
// not built.
keras::CallbackPtr BackupAndRestore(BackupAndRestoreOptions options);
inline keras::CallbackPtr BackupAndRestore(const TextArg& backup_dir, BackupAndRestoreOptions options = {}) {
  options.backup_dir = backup_dir;
  return BackupAndRestore(std::move(options));
}

}  // namespace lockstep::callbacks
