// What the forward pass of a step gives; for the trainer's own sources.
#pragma once

#include <memory>
#include <vector>

#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::keras {

struct Trainer::StepOutput {
  Structure y_pred;
  Tensor loss;                        // a replica's share of the batch's loss
  double total_loss = 0;              // once joined: the batch's loss
  std::vector<double> output_losses;  // each output's own loss, or the share of it
  // How many numbers a loss without reduction has for each row; 0 where losses are one number. The losses above are
  // then sums, whose gradient Keras takes; what is shown is their mean.
  double numbers_per_row = 0;
  std::shared_ptr<collectives::Pending>
      others;  // what other workers still make of weights and slots; see GradientSum::finish
};

}  // namespace lockstep::keras
