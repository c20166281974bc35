// A custom training loop under MirroredStrategy: a model built inside run, a distributed dataset, checkpoints.
#include "guide.h"

void custom_training_with_strategy(const std::string& folder) {
  ls::random::set_random_seed(5);
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  constexpr int kGlobalBatch = 16;
  const auto x_train = waves({64, 8, 1}, 0.23);
  const auto y_train = labels(64, 4);
  const auto dataset = ls::data::Dataset::from_tensor_slices({x_train, y_train}).batch(kGlobalBatch);
  const auto dist_dataset = strategy.experimental_distribute_dataset(dataset);

  auto scope = strategy.scope();
  ls::keras::Sequential model({
      ls::layers::Conv1D(6, 3, {.activation = "relu"}),
      ls::layers::Flatten(),
      ls::layers::Dense(4),
  });
  auto optimizer = ls::optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9});
  auto loss_object = ls::losses::SparseCategoricalCrossentropy({.from_logits = true, .reduction = "none"});
  auto accuracy = ls::metrics::SparseCategoricalAccuracy({.name = "accuracy"});
  const ls::train::Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});

  const auto train_step = [&](const ls::Tensor& images, const ls::Tensor& classes) {
    ls::GradientTape tape;
    const ls::Tensor predictions = model(images, {.training = true});
    const auto per_example_loss = loss_object(classes, predictions);
    const auto loss = ls::nn::compute_average_loss(per_example_loss, {.global_batch_size = kGlobalBatch});
    optimizer.apply(tape.gradient(loss, model.trainable_variables()), model.trainable_variables());
    accuracy.update_state(classes, predictions);
    return loss;
  };

  for (int epoch = 0; epoch < 3; ++epoch) {
    ls::Tensor total = ls::ops::zeros({});
    for (const auto& [images, classes] : dist_dataset) {
      const auto per_replica_losses = strategy.run(train_step, images, classes);
      total += strategy.reduce(ls::distribute::ReduceOp::kSum, per_replica_losses);
    }
    report("loss", total / 4);
    report("accuracy", accuracy.result());
    accuracy.reset_state();
  }
  model.compile({.optimizer = optimizer, .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true})});
  report("fit", model.fit(dist_dataset, {.verbose = 0})["loss"].back());
  const auto per_worker = strategy.distribute_datasets_from_function([&](const ls::distribute::InputContext& context) {
    return ls::data::Dataset::from_tensor_slices({x_train, y_train})
        .batch(context.get_per_replica_batch_size(kGlobalBatch));
  });
  report("fit", model.fit(per_worker, {.verbose = 0, .steps_per_epoch = 4})["loss"].back());
  checkpoint.write(folder + "/ckpt");
  model.save(folder + "/model.keras");
}
