// The findings of a restore, value by value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

// Paths are those of the object graph, "model.layers.0.kernel"; of checkpoints without one, the names of their tensors.
// A value with another shape or dtype than its variable is an error of the restore itself.
struct RestoreReport {
  struct Restored {
    std::string path;      // of the value in the checkpoint
    std::string variable;  // Variable::path(), "sequential/dense/kernel"
  };
  struct Missing {
    std::string path;      // of the variable in the program
    std::string variable;  // Variable::path(); empty for other objects with a state
    std::string nearest;   // the unused value whose path is most similar; empty when none is, and beyond kMaxListed
  };
  std::vector<Restored> restored;
  std::vector<Missing> missing;     // variables that exist now and got no value
  std::vector<std::string> unused;  // values that no object took

  // How many missing variables have a nearest value: comparing all names with all takes long.
  static constexpr std::size_t kMaxListed = 20;
  // Counts, then each missing variable and unused value, kMaxListed of each kind at most. For one line, give "; ".
  std::string to_string(std::string_view separator = "\n  ") const;
};

}  // namespace lockstep::train
