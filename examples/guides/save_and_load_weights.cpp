// Weights and whole models in files: checkpoints while fit runs, weights by hand, .keras and .h5.
#include <filesystem>

#include "guide.h"

void save_and_load_weights(const std::string& folder) {
  ls::random::set_random_seed(4);
  const auto train_images = waves({64, 12}, 0.31), train_labels = labels(64, 4);
  const auto test_images = waves({32, 12}, 0.57), test_labels = labels(32, 4, 3);

  const auto create_model = [] {
    ls::keras::Sequential model({
        ls::layers::Input({12}),
        ls::layers::Dense(16, {.activation = "relu"}),
        ls::layers::Dropout(0.2),
        ls::layers::Dense(4),
    });
    model.compile({.optimizer = "adam",
                   .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {ls::metrics::SparseCategoricalAccuracy()}});
    return model;
  };

  // Weights after every second epoch (a file's name has the number of the epoch).
  auto model = create_model();
  const std::string checkpoint_path = folder + "/training/cp-{epoch:04d}.weights.h5";
  std::filesystem::create_directories(folder + "/training");
  const auto path_of = [&](int epoch) { return folder + "/training/cp-000" + std::to_string(epoch) + ".weights.h5"; };
  const auto cp_callback =
      ls::callbacks::ModelCheckpoint(checkpoint_path, {.save_weights_only = true, .save_freq = 2 * 4});
  model.save_weights(path_of(0));
  model.fit(train_images, train_labels,
            {.batch_size = 16,
             .epochs = 6,
             .verbose = 0,
             .callbacks = {cp_callback},
             .validation_data = {test_images, test_labels}});
  report("trained", model.evaluate(test_images, test_labels, {.verbose = 0})["loss"]);

  // A new model has other weights, until it loads those of the file.
  model = create_model();
  report("untrained", model.evaluate(test_images, test_labels, {.verbose = 0})["loss"]);
  for (const int epoch : {0, 2, 4, 6}) {
    model.load_weights(path_of(epoch));
    report("restored", model.evaluate(test_images, test_labels, {.verbose = 0})["loss"]);
  }

  // By hand.
  model.save_weights(folder + "/my_checkpoint.weights.h5");
  model = create_model();
  model.load_weights(folder + "/my_checkpoint.weights.h5");
  report("by_hand", model.evaluate(test_images, test_labels, {.verbose = 0})["loss"]);

  // Whole models, which continue training with their optimizers.
  model.fit(train_images, train_labels, {.epochs = 1, .verbose = 0});
  for (const std::string name : {"my_model.keras", "my_model.h5"}) {
    model.save(folder + "/" + name);
    const auto new_model = ls::keras::load_model(folder + "/" + name);
    report("loaded", new_model.evaluate(test_images, test_labels, {.verbose = 0})["loss"]);
    report("iterations", new_model.optimizer().iterations());
  }
  model.save(folder + "/model.keras");
}
