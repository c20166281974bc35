// Models for serving: export, signatures, and a loaded SavedModel as a layer that is trained further.
#include "guide.h"

class Scale : public ls::Module {
 public:
  ls::Variable factor = track("factor", ls::Variable(2.0));
  ls::Function call = track("__call__", ls::function([this](const ls::Tensor& x) { return x * factor; }));
  ls::Function set_factor = track("set_factor", ls::function([this](const ls::Tensor& value) { factor.assign(value); },
                                                             {.input_signature = {ls::TensorSpec({}, ls::float32)}}));
};

void saved_model(const std::string& folder) {
  ls::random::set_random_seed(6);
  const auto x = waves({32, 6, 2}, 0.21), y = labels(32, 3);
  const auto inputs = ls::layers::Input({6, 2}, {.name = "signal"});
  auto hidden = ls::layers::Conv1D(8, 3, {.activation = "relu"})(inputs);
  hidden = ls::layers::GlobalMaxPooling1D()(hidden);
  ls::keras::Model model(inputs, ls::layers::Dense(3, {.activation = "softmax", .name = "classes"})(hidden));
  model.compile({.optimizer = "rmsprop", .loss = "sparse_categorical_crossentropy"});
  model.fit(x, y, {.epochs = 2, .verbose = 0});
  model.export_(folder + "/exported");  // `export` is a word of C++

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

  // A module: the functions with an input signature, and those that were called.
  Scale scale;
  scale.call(ls::constant(1.0));
  const auto served = scale.call.get_concrete_function(ls::TensorSpec({ls::None}, ls::float32, "x"));
  ls::saved_model::save(scale, folder + "/scale", {.signatures = served});
  const auto imported = ls::saved_model::load(folder + "/scale");
  report("called", imported.call("__call__", {ls::constant(3.0)}));
  imported.call("set_factor", {ls::constant(5.0)});
  report("changed", imported.call("__call__", {ls::constant(3.0)}));
  report("signature", imported.signatures("serving_default")({{"x", ls::constant({1.0, 2.0})}}).at("output_0")[1]);
}
