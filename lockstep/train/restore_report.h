// The findings of a restore, value by value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

// Paths are those of the object graph, "model.layers.0.kernel"; of checkpoints without one, the names of their tensors.
// A value with another shape or dtype than its variable is an error of the restore itself, as in TensorFlow;
// read_model_checkpoint() takes those that hold the same elements or nearly the same numbers, and lists them here.
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
  // A restored value that was changed to fit its variable.
  struct Changed {
    std::string path;      // of the value in the checkpoint
    std::string variable;  // Variable::path()
    std::string from, to;  // the shapes, "(3, 1)", or the dtypes, "float16"
  };
  std::vector<Restored> restored;   // those of the next two lists too
  std::vector<Changed> reshaped;    // differed in axes with one element
  std::vector<Changed> converted;   // had another floating or another integer dtype
  std::vector<Missing> missing;     // variables that exist now and got no value
  std::vector<std::string> unused;  // values that no object took

  // How many missing variables have a nearest value: comparing all names with all takes long.
  static constexpr std::size_t kMaxListed = 20;
  // Counts, then each missing variable, unused and changed value, kMaxListed of each kind at most. For one line, give
  // "; ".
  std::string to_string(std::string_view separator = "\n  ") const;
};

}  // namespace lockstep::train
