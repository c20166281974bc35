// Text classification with a Transformer block: embeddings of tokens and positions, attention, layer normalization.
#include "guide.h"

void attention(const std::string& folder) {
  ls::random::set_random_seed(13);
  constexpr std::int64_t kWords = 20, kLength = 8, kWidth = 12;
  const auto x_train = ls::ops::reshape(labels(64 * kLength, kWords, 7), {64, kLength}), y_train = labels(64, 2);
  const auto x_val = ls::ops::reshape(labels(16 * kLength, kWords, 3), {16, kLength}), y_val = labels(16, 2);

  const auto tokens = ls::layers::Input({kLength}, {.dtype = "int32"}), positions = ls::layers::Input({kLength});
  auto x = ls::layers::Add()(
      {ls::layers::Embedding(kWords, kWidth)(tokens), ls::layers::Embedding(kLength, kWidth)(positions)});
  const auto attended = ls::layers::MultiHeadAttention(2, kWidth)({x, x});
  x = ls::layers::LayerNormalization({.epsilon = 1e-6})(ls::layers::Add()({x, attended}));
  auto feed_forward = ls::layers::Dense(16, {.activation = "relu"})(x);
  feed_forward = ls::layers::Dense(kWidth)(feed_forward);
  x = ls::layers::LayerNormalization({.epsilon = 1e-6})(ls::layers::Add()({x, feed_forward}));
  x = ls::layers::GlobalAveragePooling1D()(x);
  x = ls::layers::Dense(8, {.activation = "relu"})(x);
  const auto outputs = ls::layers::Dense(2, {.activation = "softmax"})(x);
  ls::keras::Model model({tokens, positions}, outputs);

  const auto places = [&](std::int64_t rows) {
    return ls::ops::tile(ls::ops::cast(ls::ops::reshape(ls::ops::range(kLength), {1, kLength}), ls::DType::kFloat32),
                         {rows, 1});
  };
  model.compile({.optimizer = ls::optimizers::AdamW({.learning_rate = 0.005, .weight_decay = 0.01}),
                 .loss = "sparse_categorical_crossentropy",
                 .metrics = {"accuracy"}});
  const auto history =
      model.fit({x_train, places(64)}, y_train,
                {.batch_size = 16, .epochs = 3, .verbose = 0, .validation_data = {{x_val, places(16)}, y_val}});
  for (const auto& [name, values] : history.history)
    for (const auto& value : values) report(name, value);
  model.save(folder + "/model.keras");
}
