// Models for serving: export, signatures, and a loaded SavedModel as a layer that is trained further.
#include "guide.h"

void saved_model(const std::string& folder) {
  ls::random::set_random_seed(6);
  const auto x = waves({32, 6, 2}, 0.21), y = labels(32, 3);
  const auto inputs = ls::layers::Input({6, 2}, {.name = "signal"});
  auto hidden = ls::layers::Conv1D(8, 3, {.activation = "relu"})(inputs);
  hidden = ls::layers::GlobalMaxPooling1D()(hidden);
  ls::keras::Model model(inputs, ls::layers::Dense(3, {.activation = "softmax", .name = "classes"})(hidden));
  model.compile({.optimizer = "rmsprop", .loss = "sparse_categorical_crossentropy"});
  model.fit(x, y, {.epochs = 2, .verbose = 0});
  ls::saved_model::save(model, folder + "/exported");  // `export` is a word of C++

  const auto loaded = ls::saved_model::load(folder + "/exported");
  report("signatures", loaded.signature_names().size());
  const auto infer = loaded.signatures("serving_default");
  const auto labeling = infer({{"signal", x[{0, 4}]}}).at("output_0");
  report("difference", ls::ops::reduce_max(ls::ops::abs(labeling - model(x[{0, 4}]))));
  for (int row = 0; row < 4; ++row) report("scores", labeling[row][0]);
  report("served", ls::ops::reduce_sum(ls::ops::slice_axis(loaded.call("serve", {x}), 1, 1, 2)));
  report("variables", loaded.variables().size());
  report("trainable_variables", loaded.trainable_variables().size());

  const auto layer = ls::saved_model::KerasLayer(folder + "/exported");
  report("as_layer", ls::ops::reduce_sum(ls::ops::slice_axis(layer(x), 1, 2, 3)));
  model.save(folder + "/model.keras");
}
