// A training loop from scratch: a tape, an optimizer and metrics by hand, over a shuffled dataset.
#include "guide.h"

void training_loop_from_scratch(const std::string& folder) {
  ls::random::set_random_seed(11);
  const auto x_train = waves({96, 8}, 0.37), x_val = waves({32, 8}, 0.53);
  const auto y_train = labels(96, 3), y_val = labels(32, 3, 2);

  ls::keras::Sequential model({
      ls::layers::Input({8}),
      ls::layers::Dense(16, {.activation = "relu", .kernel_regularizer = ls::regularizers::L2(0.01)}),
      ls::layers::Dense(3),
  });
  auto optimizer = ls::optimizers::Adam({.learning_rate = 0.01});
  auto loss_fn = ls::losses::SparseCategoricalCrossentropy({.from_logits = true});
  auto train_accuracy = ls::metrics::SparseCategoricalAccuracy();
  auto val_accuracy = ls::metrics::SparseCategoricalAccuracy();

  const auto train_dataset = ls::data::Dataset::from_tensor_slices({x_train, y_train}).shuffle(96, 5).batch(32);
  const auto val_dataset = ls::data::Dataset::from_tensor_slices({x_val, y_val}).batch(16);

  const auto train_step = [&](const ls::Tensor& x, const ls::Tensor& y) {
    ls::GradientTape tape;
    const ls::Tensor logits = model(x, {.training = true});
    ls::Tensor loss = loss_fn(y, logits);
    for (const auto& penalty : model.losses()) loss += penalty;
    const auto gradients = tape.gradient(loss, model.trainable_variables());
    optimizer.apply(gradients, model.trainable_variables());
    train_accuracy.update_state(y, logits);
    return loss;
  };

  for (int epoch = 0; epoch < 3; ++epoch) {
    for (const auto& [x, y] : train_dataset) report("loss", train_step(x, y));
    report("accuracy", train_accuracy.result());
    train_accuracy.reset_state();
    for (const auto& [x, y] : val_dataset) val_accuracy.update_state(y, model(x));
    report("val_accuracy", val_accuracy.result());
    val_accuracy.reset_state();
  }
  model.save(folder + "/model.keras");
}
