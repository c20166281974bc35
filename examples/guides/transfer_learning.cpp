// Transfer learning: a trained base is frozen below a new head, then unfrozen and tuned with a small rate.
#include "guide.h"

void transfer_learning(const std::string& folder) {
  ls::random::set_random_seed(17);
  const auto x = waves({48, 8, 8, 2}, 0.19), y = labels(48, 3);
  const auto new_x = waves({32, 8, 8, 2}, 0.31);
  const auto new_y = waves({32, 1}, 0.7);

  const auto inputs = ls::layers::Input({8, 8, 2});
  auto hidden = ls::layers::Conv2D(6, 3, {.activation = "relu", .name = "features"})(inputs);
  hidden = ls::layers::BatchNormalization()(hidden);
  hidden = ls::layers::GlobalAveragePooling2D({.name = "pool"})(hidden);
  const auto classes = ls::layers::Dense(3)(hidden);
  ls::keras::Model trained(inputs, classes);
  trained.compile({.optimizer = ls::optimizers::Adam({.learning_rate = 0.01}),
                   .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true})});
  trained.fit(x, y, {.batch_size = 16, .epochs = 2, .verbose = 0});
  trained.save(folder + "/trained.keras");

  const auto source = ls::keras::load_model(folder + "/trained.keras");
  ls::keras::Model base(source.inputs(), source.get_layer("pool").output());
  base.set_trainable(false);
  const auto new_inputs = ls::layers::Input({8, 8, 2});
  const auto outputs = ls::layers::Dense(1)(base(new_inputs, {.training = false}));
  ls::keras::Model model(new_inputs, outputs);
  report("trainable", model.trainable_variables().size());
  model.compile({.optimizer = ls::optimizers::SGD({.learning_rate = 0.05}), .loss = "mse", .metrics = {"mae"}});
  auto history = model.fit(new_x, new_y, {.epochs = 3, .verbose = 0});
  for (const auto& value : history["loss"]) report("loss", value);

  base.set_trainable(true);
  report("trainable", model.trainable_variables().size());
  model.compile({.optimizer = ls::optimizers::SGD({.learning_rate = 0.005}), .loss = "mse", .metrics = {"mae"}});
  history = model.fit(new_x, new_y, {.epochs = 2, .verbose = 0});
  for (const auto& value : history["loss"]) report("tuned_loss", value);
  model.save(folder + "/model.keras");
}
