// tf.train.Checkpoint: named objects saved together with the graph of their dependencies.
#pragma once

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/list.h"
#include "lockstep/collectives/communicator.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/keras/trainer/training_state.h"
#include "lockstep/train/restore_report.h"
#include "lockstep/train/sharding_policies.h"
#include "lockstep/train/trackable.h"

namespace lockstep::formats {
class BundleReader;
}

namespace lockstep::train {

class Restoration;
struct LiveValues;

struct CheckpointOptions {
  std::string experimental_io_device = {};  // accepted; there is one host
  // Called with the path after each finished write.
  std::vector<std::function<void(const std::string&)>> experimental_write_callbacks = {};
  // Saving returns when the state is copied; a thread writes it, in the order of the saves. Errors are thrown by the
  // next save, or by wait().
  bool enable_async = false;
  bool experimental_skip_slot_variables = false;
  // ShardByTaskPolicy() or MaxShardSizePolicy(bytes); the latter is not for `workers`, which divide the bytes anyway.
  experimental::ShardingCallback experimental_sharding_callback = {};
  // The user's own, committed with the checkpoint; null: none. checkpoint_metadata() gives it back.
  Json metadata = nullptr;
  // The workers of the job: each makes the same call with the same prefix, and they write, or read, one checkpoint
  // together: each a part of the bytes, the chief's commit makes it visible, all learn how it went. Null: this process
  // alone, without a word to others, so programs in which only the chief saves, or others save elsewhere, work as well.
  collectives::CommunicatorPtr workers = nullptr;
  // Bytes of state that may wait to be written; a save that exceeds them waits for earlier ones.
  std::uint64_t async_byte_budget = std::uint64_t{4} << 30;
  // The position of a running fit (Trainer::training_state), committed with the checkpoint.
  const keras::TrainingState* training_state = nullptr;
};

// The result of a restore, as far as it has progressed. Each check returns the status, or throws
// FailedPrecondition naming the missing values. When values of the file were left over and expect_partial()
// was not called, the destructor of the last copy warns.
class LoadStatus {
 public:
  // Every variable below the root that exists now has got its value.
  LoadStatus assert_existing_objects_matched() const;
  // The same, and every value in the file has been taken.
  LoadStatus assert_consumed() const;
  // Something other than the root was matched. Of a file without an object graph, as TensorFlow does: each variable.
  LoadStatus assert_nontrivial_match() const;
  LoadStatus expect_partial() const;
  // The values that were restored, are missing, or are unused. Throws FailedPrecondition when nothing was restored
  // because there was no path.
  RestoreReport report() const;
  // For programs that come from graph mode; do nothing.
  LoadStatus initialize_or_restore() const { return *this; }
  LoadStatus run_restore_ops() const { return *this; }
  // The value of CheckpointOptions::training_state; empty if none was given.
  const std::optional<keras::TrainingState>& training_state() const;

 private:
  friend class Checkpoint;
  struct Shared;
  explicit LoadStatus(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  void require() const;
  std::shared_ptr<Shared> shared_;
};

// A group of objects:
//
//   train::Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
//   checkpoint.save("run/ckpt");                                    // run/ckpt-1
//   checkpoint.restore("run/ckpt-1").assert_consumed();
//
// Files are those of tf.train.Checkpoint with Keras 3 objects on TensorFlow, and are read from there,
// from tf-keras (its object names and its optimizers' slots), from SavedModels' variables, and by variable
// names where there is no object graph. Random states and layers in lists, which TensorFlow does not
// store, are kept under keys of their own that TensorFlow does not look at. Bytes do not depend on the
// strategy: a mirrored variable is saved once, an ON_READ one aggregated (so with several workers every worker must
// save where there is one); restoring sets all copies. Copies of a Checkpoint are the same checkpoint.
class Checkpoint {
 public:
  Checkpoint() : Checkpoint(Children{}) {}  // of nothing but its save counter
  Checkpoint(std::initializer_list<Child> objects);
  explicit Checkpoint(Children objects);
  Checkpoint(const keras::Model& model, const optimizers::OptimizerPtr& optimizer);
  // `root` is the checkpoint's root itself, the others are attached to it.
  explicit Checkpoint(const Tracked& root, Children objects = {});
  explicit Checkpoint(const keras::Model& root) : Checkpoint(Tracked(root)) {}
  // Moving copies: no checkpoint is ever empty.
  Checkpoint(const Checkpoint&) = default;
  Checkpoint& operator=(const Checkpoint&) = default;

  // Adds an object, or another one under its name, as checkpoint.name = object does in Python. Where a checkpoint was
  // restored before, the object gets its values of it. Throws InvalidArgument for a name of the root's own parts.
  void track(const std::string& name, const Tracked& object) const;
  // The names of the objects, and whether there is one of this name: hasattr(checkpoint, "step").
  List<std::string> names() const;
  bool contains(const std::string& name) const;
  // checkpoint["step"].assign_add(1): the variable of this name, as checkpoint.step in Python. Throws NotFound for
  // another name, InvalidArgument for an object that is not a variable.
  distribute::Variable operator[](const std::string& name) const;

  // Writes PREFIX.index and PREFIX.data-00000-of-00001 as one transaction and returns the prefix.
  std::string write(const std::string& prefix, const CheckpointOptions& options = {}) const;
  // Counts save_counter up, writes PREFIX-N and makes it the newest in the folder's `checkpoint` file.
  std::string save(const std::string& prefix, const CheckpointOptions& options = {}) const;

  // Restores the checkpoint at this prefix. Objects that exist get their values now, those that are
  // built later as soon as they are; an optimizer without slots is built when the file lists for which
  // variables. Nothing has changed when an error is thrown: NotFound for a missing file, InvalidArgument
  // for a shape or dtype that differs, DataLoss for damage.
  LoadStatus read(const std::string& prefix, const CheckpointOptions& options = {}) const;
  // The same, with save_counter; `path` may also be a SavedModel's folder. Without a path nothing happens,
  // so that restore(latest_checkpoint(folder)) works for an empty folder.
  LoadStatus restore(const std::optional<std::string>& path, const CheckpointOptions& options = {}) const;

  // The plan of write() for so many workers that share the folder: the files and bytes of each worker. Touches no
  // file.
  std::string plan_text(const std::string& prefix, int num_workers) const;
  // The same for the workers of a job, who all call it: those that do not see the chief's folder write nothing.
  std::string plan_text(const std::string& prefix, collectives::Communicator& workers) const;

  // Waits for asynchronous saves and throws the first error of one.
  void wait() const;
  void sync() const { wait(); }  // TensorFlow's name

  // int64, made by the first save or restore.
  distribute::VariablePtr save_counter() const;
  const Tracked& root() const;
  // The graph nodes that stand for this checkpoint where it is part of another one.
  operator Tracked() const { return root(); }

 private:
  friend class CheckpointManager;
  struct State;
  // `after` runs when the checkpoint is visible, on the chief of several workers: part of the same save.
  std::string write_then(const std::string& prefix, const CheckpointOptions& options,
                         const std::function<void()>& after) const;
  void write_local(const std::string& prefix, LiveValues values, const CheckpointOptions& options,
                   const std::function<void()>& after) const;
  void write_shared(const std::string& prefix, LiveValues values, const CheckpointOptions& options,
                    const std::function<void()>& after) const;
  LoadStatus load(const std::string& prefix, const CheckpointOptions& options) const;
  std::shared_ptr<State> state_;
};

// "Checkpoint(model, optimizer)": the names of its objects.
std::ostream& operator<<(std::ostream& out, const Checkpoint& checkpoint);

// The path of a checkpoint, or none, which prints as "None": std::cout << manager.save().
class CheckpointPath : public std::optional<std::string> {
 public:
  using optional::optional;
  CheckpointPath(std::optional<std::string> path) : optional(std::move(path)) {}
};
std::ostream& operator<<(std::ostream& out, const CheckpointPath& path);

// The newest checkpoint of a folder by its `checkpoint` file, or by the file `latest_filename` that a Saver wrote
// there; empty when there is none.
CheckpointPath latest_checkpoint(const std::string& directory, const std::string& latest_filename = "checkpoint");

// Names and shapes, which print as in Python: [('w', [3, 2])].
struct CheckpointVariables : std::vector<std::pair<std::string, Shape>> {
  using vector::vector;
};
std::ostream& operator<<(std::ostream& out, const CheckpointVariables& variables);
// tf.train.list_variables: names and shapes of the tensors of a checkpoint, by name. `path` is a prefix or a folder,
// whose newest checkpoint is taken. Errors as Checkpoint::read; NotFound for none:
// list_variables(latest_checkpoint(d)).
CheckpointVariables list_variables(const std::optional<std::string>& path);

// What a reader knows of each tensor: a dict by names.
template <typename T>
class ReaderMap : public std::map<std::string, T> {
 public:
  List<std::string> keys() const {
    List<std::string> names;
    for (const auto& [name, value] : *this) names.push_back(name);
    return names;
  }
};
// tf.train.load_checkpoint: reads single tensors of a checkpoint.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::optional<std::string>& path);
  bool has_tensor(const std::string& name) const;
  // Throws NotFound with the nearest name, DataLoss when the checksum is wrong.
  Tensor get_tensor(const std::string& name) const;
  ReaderMap<Shape> get_variable_to_shape_map() const;
  ReaderMap<DType> get_variable_to_dtype_map() const;

 private:
  std::shared_ptr<const formats::BundleReader> reader_;
};
inline CheckpointReader load_checkpoint(const std::optional<std::string>& path) { return CheckpointReader(path); }

// The values of CheckpointOptions::metadata, one for each worker that saved; empty if none was given. Throws as
// Checkpoint::read.
std::vector<Json> checkpoint_metadata(const std::string& prefix);

}  // namespace lockstep::train
