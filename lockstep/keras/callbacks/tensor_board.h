// TensorBoard: event files that TensorBoard shows.
#pragma once

#include <string>

#include "lockstep/keras/callbacks/callback.h"

namespace lockstep::callbacks {

struct TensorBoardOptions {
  std::string log_dir = "logs";
  int histogram_freq = 0;   // epochs between histograms of the weights; 0: none
  bool write_graph = true;  // the model's config, for the page of graphs
  bool write_steps_per_second = false;
  Json update_freq = "epoch";  // "batch", or how many batches lie between scalars of batches
};
// Writes to log_dir/train and log_dir/validation, under Keras's names: epoch_loss, batch_loss,
// evaluation_loss_vs_iterations, <weight>/histogram, keras. With several workers the chief writes. Every record is in
// the file when its epoch ends.
keras::CallbackPtr TensorBoard(TensorBoardOptions options = {});

}  // namespace lockstep::callbacks
