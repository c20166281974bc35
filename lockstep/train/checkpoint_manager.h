// tf.train.CheckpointManager: numbered checkpoints in a folder, old ones deleted.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/list.h"
#include "lockstep/base/mutex.h"
#include "lockstep/base/text_arg.h"
#include "lockstep/train/checkpoint.h"

namespace lockstep::train {

struct CheckpointManagerOptions {
  std::optional<std::int64_t> max_to_keep = {};  // empty: all
  std::optional<double> keep_checkpoint_every_n_hours = {};
  std::string checkpoint_name = "ckpt";
  distribute::VariablePtr step_counter = nullptr;
  std::optional<std::int64_t> checkpoint_interval = {};  // steps between saves; needs step_counter
  std::function<void()> init_fn = {};                    // called by restore_or_initialize when there is nothing
  // Every worker of the job makes a manager and calls its members alike; see CheckpointOptions::workers.
  collectives::CommunicatorPtr workers = nullptr;
};

// The same with the directory by name.
struct CheckpointManagerKeywords {
  FieldNamesOnly names_only = {};
  std::string directory = {};
  std::optional<std::int64_t> max_to_keep = {};
  std::optional<double> keep_checkpoint_every_n_hours = {};
  std::string checkpoint_name = "ckpt";
  distribute::VariablePtr step_counter = nullptr;
  std::optional<std::int64_t> checkpoint_interval = {};
  std::function<void()> init_fn = {};
};

// manager.save({.checkpoint_number = step}).
struct ManagerSaveKeywords {
  FieldNamesOnly names_only = {};
  Place checkpoint_number = {};  // a number, or a variable or a tensor of one; default: of save_counter
  bool check_interval = true;
  CheckpointOptions options = {};
};

// Writes DIRECTORY/NAME-N and keeps the newest `max_to_keep`, by the rules of TensorFlow 2.21: what the
// folder's `checkpoint` file lists with a time after its last_preserved_timestamp is managed; checkpoints
// written by plain Checkpoint::save are never deleted. A new checkpoint is on disk, and named in the
// `checkpoint` file, before an old one goes.
class CheckpointManager {
 public:
  // With workers, throws FailedPrecondition on all when one sees checkpoints in the folder and the chief does not.
  // Throws InvalidArgument for max_to_keep < 1 and for an interval without a step counter. Copies of the
  // checkpoint handle stay the same checkpoint.
  CheckpointManager(Checkpoint checkpoint, const TextArg& directory, CheckpointManagerOptions options = {});
  CheckpointManager(Checkpoint checkpoint, const CheckpointManagerKeywords& o);
  // CheckpointManager(checkpoint, "./checkpoints", 3).
  template <std::integral Count>
  CheckpointManager(Checkpoint checkpoint, const TextArg& directory, Count max_to_keep)
      : CheckpointManager(std::move(checkpoint), directory, [&] {
          CheckpointManagerOptions options;
          options.max_to_keep = static_cast<std::int64_t>(max_to_keep);
          return options;
        }()) {}

  // Waits for asynchronous saves.
  ~CheckpointManager();

  // The path written; empty if it is too early according to check_interval. The number is that of
  // save_counter, which always counts, unless one is given.
  CheckpointPath save(std::optional<std::int64_t> checkpoint_number = {}, bool check_interval = true,
                      const CheckpointOptions& options = {});
  CheckpointPath save(const ManagerSaveKeywords& o) {
    return save(o.checkpoint_number.number(), o.check_interval, o.options);
  }

  // Restores the newest checkpoint and returns its path. When it is damaged or missing, a warning names
  // it and the next older one in the folder is tried. Without any: calls init_fn and returns nothing.
  // Throws DataLoss when there are checkpoints but none can be read; other errors (a model that does not
  // fit) are thrown as they are.
  CheckpointPath restore_or_initialize();
  // Removes leftovers of killed saves from the folder: temporary files, data files without an index, checkpoints beyond
  // max_to_keep. Only for the one who writes there: with `workers` those of this name are removed whoever made them,
  // else those of processes that have died. The first save does it too.
  void remove_leftovers();
  // Waits for asynchronous saves; see Checkpoint::wait.
  void wait() const { checkpoint_.wait(); }

  // The status of the last restore_or_initialize that restored something.
  const std::optional<LoadStatus>& restore_status() const { return status_; }

  // Managed paths, oldest first.
  List<std::string> checkpoints() const;
  CheckpointPath latest_checkpoint() const;
  const std::string& directory() const { return directory_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  std::optional<std::int64_t> checkpoint_interval() const { return options_.checkpoint_interval; }

 private:
  struct Managed {
    std::string path;
    double time = 0;  // seconds since 1970
  };
  bool is_chief() const { return !options_.workers || options_.workers->rank() == 0; }
  void recover();
  void share_state();
  void require_seen_by_chief() const;
  void record(const std::string& path);
  CheckpointPath restore_first(const std::vector<std::string>& paths);
  bool too_early(bool check_interval);
  std::int64_t step() const;
  bool too_many() const;
  void sweep();
  void write_state() const;
  std::vector<std::string> candidates() const;

  Checkpoint checkpoint_;
  std::string directory_;
  CheckpointManagerOptions options_;
  std::vector<Managed> managed_;
  std::optional<std::string> latest_;
  double last_preserved_ = 0;
  mutable Mutex mutex_;  // asynchronous saves are recorded by their thread
  bool cleaned_ = false;
  std::optional<std::int64_t> last_step_;
  std::optional<LoadStatus> status_;
};

}  // namespace lockstep::train
