// Several inputs and outputs by name: an Embedding with masking, an LSTM, and data as dicts.
#include "guide.h"

void several_inputs(const std::string& folder) {
  ls::random::set_random_seed(3);
  const auto words = ls::ops::reshape(labels(48 * 6, 10, 7), {48, 6}), tags = waves({48, 4}, 0.29);
  const auto priority = waves({48, 1}, 0.11), department = labels(48, 4, 3);

  const auto body = ls::layers::Input({6}, {.dtype = "int32", .name = "body"});
  const auto tag = ls::layers::Input({4}, {.name = "tags"});
  auto x = ls::layers::Embedding(10, 8, {.mask_zero = true})(body);
  x = ls::layers::LSTM(8)(x);
  x = ls::layers::Concatenate()({x, tag});
  const auto first = ls::layers::Dense(1, {.name = "priority"})(x);
  const auto second = ls::layers::Dense(4, {.activation = "softmax", .name = "department"})(x);
  ls::keras::Model model({{"body", body}, {"tags", tag}}, {{"priority", first}, {"department", second}});

  model.compile(
      {.optimizer = ls::optimizers::RMSprop({.learning_rate = 0.01}),
       .loss = ls::keras::LossTree::dict({{"priority", "mse"}, {"department", "sparse_categorical_crossentropy"}}),
       .loss_weights = {{"priority", 1.0}, {"department", 0.2}}});
  const auto history =
      model.fit({{"body", words}, {"tags", tags}}, {{"priority", priority}, {"department", department}},
                {.batch_size = 16, .epochs = 3, .verbose = 0, .shuffle = false});
  for (const auto& [name, values] : history.history)
    for (const auto& value : values) report(name, value);
  const auto predicted = model.predict({{"body", words[{0, 4}]}, {"tags", tags[{0, 4}]}}, {.verbose = 0});
  report("priority", ls::ops::reduce_sum(predicted.at("priority")));
  report("department", ls::ops::reduce_max(predicted.at("department")));
  model.save(folder + "/model.keras");
}
