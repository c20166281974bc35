// The quickstart for beginners: images of bytes scaled to fractions, a small dense network, probabilities.
#include "guide.h"

void quickstart(const std::string& folder) {
  ls::random::set_random_seed(1);
  ls::Tensor x_train = ls::ops::cast(ls::ops::reshape(labels(96 * 64, 256, 37), {96, 8, 8}), ls::DType::kUInt8);
  ls::Tensor x_test = ls::ops::cast(ls::ops::reshape(labels(32 * 64, 256, 41), {32, 8, 8}), ls::DType::kUInt8);
  const auto y_train = labels(96, 10, 3), y_test = labels(32, 10, 3);
  x_train = x_train / 255.0, x_test = x_test / 255.0;

  ls::keras::Sequential model({
      ls::layers::Input({8, 8}),
      ls::layers::Flatten(),
      ls::layers::Dense(32, {.activation = "relu"}),
      ls::layers::Dropout(0.2),
      ls::layers::Dense(10),
  });
  const ls::Tensor predictions = model(x_train[{0, 1}]);
  report("untrained", ls::ops::reduce_max(ls::ops::softmax(predictions)));
  auto loss_fn = ls::losses::SparseCategoricalCrossentropy({.from_logits = true});
  report("untrained_loss", loss_fn(y_train[{0, 1}], predictions));

  model.compile({.optimizer = "adam", .loss = loss_fn, .metrics = {"accuracy"}});
  const auto history = model.fit(x_train, y_train, {.epochs = 5, .verbose = 0});
  for (const auto& value : history["loss"]) report("loss", value);
  const auto results = model.evaluate(x_test, y_test, {.verbose = 0});
  report("test_loss", results["loss"]);
  report("test_accuracy", results["accuracy"]);

  ls::keras::Sequential probability_model({
      model,
      ls::layers::Softmax(),
  });
  const ls::Tensor probabilities = probability_model(x_test[{0, 5}]);
  for (int row = 0; row < 5; ++row) report("probability", probabilities[row][3]);
  model.save(folder + "/model.keras");
}
