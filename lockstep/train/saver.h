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

struct SaverOptions {
  std::int64_t max_to_keep = 5;  // 0: all
  // Of those that would be deleted one stays for each span of this length.
  double keep_checkpoint_every_n_hours = 10000;
  bool reshape = false;          // restore() takes values of another shape with as many elements
  bool pad_step_number = false;  // PREFIX-00000007
};

//   train::Saver saver(model);
//   saver.save("run/model.ckpt", 1000);               // run/model.ckpt-1000
//   saver.restore(*latest_checkpoint("run"));
//
// The files are those that Saver of TensorFlow 1 and 2 restores and tf.train.load_checkpoint reads. A mirrored variable
// is saved once. This process alone writes and reads.
class Saver {
 public:
  // Throws InvalidArgument for none, or an empty name.
  explicit Saver(std::map<std::string, distribute::VariablePtr> variables, SaverOptions options = {});
  // Under Variable::path(). Throws InvalidArgument for two of one name.
  explicit Saver(const std::vector<distribute::VariablePtr>& variables, SaverOptions options = {});
  // The weights, and where the model is compiled the optimizer's variables.
  explicit Saver(const keras::Model& model, SaverOptions options = {});

  // Writes PREFIX, or PREFIX-STEP, as one transaction, and makes it the newest of the file `latest_filename` in its
  // folder, which then lists this saver's last checkpoints. The oldest of them is deleted where there are more than
  // max_to_keep. Returns the path.
  std::string save(const std::string& prefix, std::optional<std::int64_t> global_step = {},
                   const std::string& latest_filename = "checkpoint");
  // The same without the `checkpoint` file.
  void write(const std::string& path) const;

  // Throws NotFound for a missing file or variable, naming the nearest, InvalidArgument for another shape or dtype,
  // DataLoss for damage; nothing has changed then. Values that no variable has are left out. Of a checkpoint of objects
  // those are taken whose variables had these names when it was written.
  void restore(const std::string& path) const;

  // Oldest first; none where all are kept.
  std::vector<std::string> last_checkpoints() const;
  // Continues with the checkpoints of an earlier saver: those of `paths` that exist, with the times of their files.
  void recover_last_checkpoints(const std::vector<std::string>& paths);

 private:
  struct Kept {
    std::string path;
    double time = 0;  // seconds since 1970
  };
  void record(const std::string& path);

  std::map<std::string, distribute::VariablePtr> variables_;
  SaverOptions options_;
  std::vector<Kept> last_;
  std::vector<Kept> surplus_;       // to be deleted
  double next_preserved_time_ = 0;  // of the surplus the first after this time stays
};

}  // namespace lockstep::train
