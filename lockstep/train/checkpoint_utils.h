// tf.train.load_variable, get_checkpoint_state and checkpoints_iterator, and tf.compat.v1.train.init_from_checkpoint.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/distribute/variable.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::train {

// What the file "checkpoint" in the folder says: get_checkpoint_state("run")->model_checkpoint_path. Empty without the
// file. Throws DataLoss where it is malformed.
inline std::optional<formats::CheckpointState> get_checkpoint_state(const std::string& checkpoint_dir,
                                                                    const std::string& latest_filename = "checkpoint") {
  return formats::read_checkpoint_state(checkpoint_dir, latest_filename);
}

// The value of one tensor; "name:0" is "name". Errors as CheckpointReader.
Tensor load_variable(const std::optional<std::string>& path, const std::string& name);

// A name in the checkpoint, and a variable or the name of one; or both are scopes, which end in a slash ("/": no
// scope).
using AssignmentMap = std::vector<std::pair<std::string, std::variant<distribute::VariablePtr, std::string>>>;

// Gives variables the values of a checkpoint that has them under other names:
//
//   train::init_from_checkpoint("bert/model.ckpt", {{"bert/", "encoder/"}, {"global_step", step}}, model.weights());
//
// `variables` are those that names and scopes of the map mean: each variable below the scope must have its value in the
// checkpoint. Values are assigned at once. Throws NotFound for a missing file, value or variable, InvalidArgument for
// another shape or dtype and for a scope that is given for a variable; nothing has changed then.
void init_from_checkpoint(const std::string& path, const AssignmentMap& assignment_map,
                          const std::vector<distribute::VariablePtr>& variables = {});

struct CheckpointsIteratorOptions {
  double min_interval_secs = 0;           // between two checkpoints
  std::optional<double> timeout = {};     // seconds to wait for a new one; empty: without end
  std::function<bool()> timeout_fn = {};  // called after each checkpoint and timeout; true: no more will come
};

// The newest checkpoints of a folder as they appear; those that are replaced while a loop's body runs are left out. A
// folder that does not exist yet is waited for.
//
//   for (const std::string& path : train::checkpoints_iterator("run", {.timeout = 600})) evaluate(path);
class CheckpointsIterator {
 public:
  explicit CheckpointsIterator(std::string directory, CheckpointsIteratorOptions options = {});

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string*;
    using reference = const std::string&;

    reference operator*() const { return owner_->path_; }
    pointer operator->() const { return &owner_->path_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.owner_ == nullptr; }

   private:
    friend class CheckpointsIterator;
    explicit Iterator(CheckpointsIterator* owner) : owner_(owner) {}
    CheckpointsIterator* owner_;
  };

  // Waits for the first.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  bool next();
  bool wait();

  std::string directory_;
  CheckpointsIteratorOptions options_;
  std::string path_;
  double began_ = 0;  // when the last one was found
};
inline CheckpointsIterator checkpoints_iterator(const std::string& directory, CheckpointsIteratorOptions options = {}) {
  return CheckpointsIterator(directory, std::move(options));
}

}  // namespace lockstep::train
