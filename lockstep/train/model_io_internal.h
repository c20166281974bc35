// A whole model, its optimizer included, to and from a TensorFlow checkpoint.
#pragma once

#include <string>

#include "lockstep/keras/models/model.h"
#include "lockstep/train/restore_report.h"

namespace lockstep::train {

// How complete a checkpoint must be.
enum class Strictness {
  kNone,       // some weights of the model
  kModel,      // every weight of the model
  kOptimizer,  // the optimizer's variables too, when the model is compiled
  kAll,        // and no value of the checkpoint is unused
};

// Writes the model, its optimizer when compiled, and a save_counter of 1, so that in TensorFlow
//   tf.train.Checkpoint(model=m, optimizer=o).restore(prefix).assert_consumed()
// holds. The same file serves tf.train.Checkpoint(m) and, through Keras 2's names, tf-keras's load_weights.
void write_model_checkpoint(keras::ModelImpl& model, const std::string& prefix);

// Reads the weights, and the optimizer's state when compiled and there is any, from a checkpoint that was
// written from the model itself, from Checkpoint(model=…, optimizer=…) or by tf-keras, or from a SavedModel's
// folder. Throws NotFound when no weight of the model is in the file, InvalidArgument with the report when the
// checkpoint is less complete than `strict` asks for, and as Checkpoint::restore; nothing has changed then. Unlike
// there, values are reshaped and converted where that keeps their elements; the report lists them.
RestoreReport read_model_checkpoint(keras::ModelImpl& model, const std::string& prefix,
                                    Strictness strict = Strictness::kModel);

inline void write_model_checkpoint(const keras::Model& model, const std::string& prefix) {
  write_model_checkpoint(*model.impl(), prefix);
}
inline RestoreReport read_model_checkpoint(const keras::Model& model, const std::string& prefix,
                                           Strictness strict = Strictness::kModel) {
  return read_model_checkpoint(*model.impl(), prefix, strict);
}

}  // namespace lockstep::train
