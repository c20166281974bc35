// Saved under one strategy, loaded under another and under none; training resumes from a checkpoint.
#include "guide.h"

void save_under_strategies(const std::string& folder) {
  ls::random::set_random_seed(19);
  const auto x = waves({64, 5}, 0.27), y = waves({64, 1}, 0.45);
  const auto dataset = ls::data::Dataset::from_tensor_slices({x, y}).batch(16);
  const auto make = [] {
    ls::keras::Sequential model({
        ls::layers::Input({5}),
        ls::layers::Dense(6, {.activation = "tanh"}),
        ls::layers::Dense(1),
    });
    model.compile({.optimizer = ls::optimizers::Adam({.learning_rate = 0.02}), .loss = "mse"});
    return model;
  };

  ls::distribute::MirroredStrategy mirrored({"/cpu:0", "/cpu:1"});
  {
    auto scope = mirrored.scope();
    auto model = make();
    model.fit(dataset, {.epochs = 2, .verbose = 0});
    report("mirrored", model.evaluate(dataset, {.verbose = 0})["loss"]);
    model.save(folder + "/model.keras");
    const ls::train::Checkpoint checkpoint({{"model", model}});
    checkpoint.write(folder + "/ckpt");
  }

  const auto plain = ls::keras::load_model(folder + "/model.keras");
  report("none", plain.evaluate(dataset, {.verbose = 0})["loss"]);

  ls::distribute::OneDeviceStrategy one("/cpu:0");
  {
    auto scope = one.scope();
    const auto loaded = ls::keras::load_model(folder + "/model.keras");
    const auto history = loaded.fit(dataset, {.epochs = 2, .verbose = 0});  // the optimizer continues, too
    for (const auto& value : history["loss"]) report("one_device", value);
  }

  auto fresh = make();
  const ls::train::Checkpoint checkpoint({{"model", fresh}});
  checkpoint.read(folder + "/ckpt");
  report("restored", fresh.evaluate(dataset, {.verbose = 0})["loss"]);
}
