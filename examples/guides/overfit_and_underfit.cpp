// Overfitting and underfitting: small and large networks, weight penalties, dropout, early stopping, a schedule.
#include "guide.h"

void overfit_and_underfit(const std::string& folder) {
  ls::random::set_random_seed(2);
  constexpr int kValidation = 40, kTrain = 120, kBatchSize = 16;
  constexpr int kStepsPerEpoch = kTrain / kBatchSize;
  const auto features = waves({160, 6}, 0.83), targets = ls::ops::reshape(labels(160, 2, 7), {160, 1});
  const auto dataset = ls::data::Dataset::from_tensor_slices({features, targets});
  const auto validate_ds = dataset.take(kValidation).cache().batch(kBatchSize);
  // One order for all epochs: tf.data reads ahead, so the number of orders that the first fit draws depends on time.
  const auto train_ds = dataset.skip(kValidation)
                            .take(kTrain)
                            .cache()
                            .shuffle(kTrain, {.reshuffle_each_iteration = false})
                            .repeat()
                            .batch(kBatchSize);

  const auto lr_schedule =
      ls::optimizers::schedules::InverseTimeDecay(0.01, kStepsPerEpoch * 10, 1, {.staircase = false});

  const auto compile_and_fit = [&](ls::keras::Model& model, const std::string& name) {
    model.compile({.optimizer = ls::optimizers::Adam(lr_schedule),
                   .loss = ls::losses::BinaryCrossentropy({.from_logits = true}),
                   .metrics = {ls::metrics::BinaryCrossentropy({.name = "binary_crossentropy", .from_logits = true}),
                               "accuracy"}});
    const auto history = model.fit(
        train_ds, {.epochs = 6,
                   .verbose = 0,
                   .callbacks = {ls::callbacks::EarlyStopping({.monitor = "val_binary_crossentropy", .patience = 1})},
                   .validation_data = validate_ds,
                   .steps_per_epoch = kStepsPerEpoch});
    for (const auto* key : {"loss", "accuracy", "val_binary_crossentropy"})
      for (const auto& value : history[key]) report(name + "_" + key, value);
  };

  ls::keras::Sequential tiny({
      ls::layers::Input({6}),
      ls::layers::Dense(4, {.activation = "elu"}),
      ls::layers::Dense(1),
  });
  compile_and_fit(tiny, "tiny");

  ls::keras::Sequential combined({
      ls::layers::Input({6}),
      ls::layers::Dense(32, {.activation = "elu", .kernel_regularizer = ls::regularizers::L2(0.0001)}),
      ls::layers::Dropout(0.5),
      ls::layers::Dense(32, {.activation = "elu", .kernel_regularizer = ls::regularizers::L1L2(0.0001, 0.001)}),
      ls::layers::Dropout(0.5),
      ls::layers::Dense(1),
  });
  compile_and_fit(combined, "combined");
  combined.save(folder + "/model.keras");
}
