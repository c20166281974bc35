// A whole model, its optimizer included, to and from a TensorFlow checkpoint.
#pragma once

#include <string>

#include "lockstep/keras/models/model.h"

namespace lockstep::train {

// What a checkpoint brought into a model.
struct ModelCheckpointSummary {
  bool optimizer = false;            // whether any of the optimizer's state was taken
  std::vector<std::string> missing;  // the model's weights the file has no values for
  std::vector<std::string> unused;   // values of the file that nothing took, by their place in it
};

// Writes the model, its optimizer when compiled, and a save_counter of 1, so that in TensorFlow
//   tf.train.Checkpoint(model=m, optimizer=o).restore(prefix).assert_consumed()
// holds. The same file serves tf.train.Checkpoint(m) and, through Keras 2's names, tf-keras's load_weights.
void write_model_checkpoint(keras::ModelImpl& model, const std::string& prefix);

// Reads the weights, and the optimizer's state when compiled and there is any, from a checkpoint that was
// made of the model itself, of Checkpoint(model=…, optimizer=…) or by tf-keras, or from a SavedModel's
// folder. Throws NotFound when no weight of the model is in the file, and as Checkpoint::restore; nothing
// has changed then. With `partial` weights may be missing, else that is InvalidArgument naming the first.
ModelCheckpointSummary read_model_checkpoint(keras::ModelImpl& model, const std::string& prefix, bool partial = false);

inline void write_model_checkpoint(const keras::Model& model, const std::string& prefix) {
  write_model_checkpoint(*model.impl(), prefix);
}
inline ModelCheckpointSummary read_model_checkpoint(const keras::Model& model, const std::string& prefix,
                                                    bool partial = false) {
  return read_model_checkpoint(*model.impl(), prefix, partial);
}

}  // namespace lockstep::train
