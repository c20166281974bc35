// tf.compat.v1.train.Saver: checkpoints of variables by their names, without an object graph.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/distribute/variable.h"
#include "lockstep/keras/models/model.h"

namespace lockstep::train {

//   train::Saver saver(model);
//   saver.save("run/model.ckpt", 1000);               // run/model.ckpt-1000
//   saver.restore(*latest_checkpoint("run"));
//
// The files are those that Saver of TensorFlow 1 and 2 restores and tf.train.load_checkpoint reads. A mirrored variable
// is saved once. This process alone writes and reads.
class Saver {
 public:
  // Throws InvalidArgument for none, or an empty name.
  explicit Saver(std::map<std::string, distribute::VariablePtr> variables);
  // Under Variable::path(). Throws InvalidArgument for two of one name.
  explicit Saver(const std::vector<distribute::VariablePtr>& variables);
  // The weights, and where the model is compiled the optimizer's variables.
  explicit Saver(const keras::Model& model);

  // Writes PREFIX, or PREFIX-STEP, as one transaction, and makes it the newest of the folder's `checkpoint` file.
  // Older ones stay, as with max_to_keep=None. Returns the path.
  std::string save(const std::string& prefix, std::optional<std::int64_t> global_step = {}) const;
  // The same without the `checkpoint` file.
  void write(const std::string& path) const;

  // Throws NotFound for a missing file or variable, naming the nearest, InvalidArgument for another shape or dtype,
  // DataLoss for damage; nothing has changed then. Values that no variable has are left out.
  void restore(const std::string& path) const;

 private:
  std::map<std::string, distribute::VariablePtr> variables_;
};

}  // namespace lockstep::train
