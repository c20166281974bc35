// Recurrent layers: sequences and states, stacks, cells, both directions, state kept over batches, masking and padding.
#include "guide.h"

namespace {

class MinimalRNNCell : public ls::layers::Cell {
 public:
  explicit MinimalRNNCell(std::int64_t units) : units(units) {}
  std::vector<std::int64_t> state_size() const override { return {units}; }

  void build(const ls::keras::Nested<ls::Shape>& input_shape) override {
    kernel = add_weight({.shape = {input_shape[-1], units}, .initializer = "uniform", .name = "kernel"});
    recurrent_kernel = add_weight({.shape = {units, units}, .initializer = "uniform", .name = "recurrent"});
  }

  ls::keras::Structure call(const ls::keras::Structure& inputs, const ls::keras::Structure& states) override {
    const auto prev_output = states[0];
    const auto h = ls::ops::matmul(inputs, kernel);
    const auto output = h + ls::ops::matmul(prev_output, recurrent_kernel);
    return {output, {output}};
  }

  std::int64_t units;
  ls::Variable kernel, recurrent_kernel;
};

}  // namespace

void recurrent_networks(const std::string& folder) {
  namespace keras = ls::keras;
  namespace layers = ls::layers;
  namespace ops = ls::ops;
  ls::random::set_random_seed(18);

  // Integers through an embedding: all outputs of one layer, the last of the next.
  keras::Sequential model({
      layers::Input({7}, {.dtype = "int32"}),
      layers::Embedding(20, 6),
      layers::GRU(8, {.return_sequences = true}),
      layers::SimpleRNN(6),
      layers::Dense(4),
  });
  const auto tokens = ops::reshape(labels(5 * 7, 20, 7), {5, 7});
  report("stack", ops::reduce_sum(model(tokens)));

  // The states of an encoder are where a decoder starts.
  const auto encoder_input = layers::Input({ls::kUnknownDim}, {.dtype = "int32"});
  const auto encoder_embedded = layers::Embedding(20, 6)(encoder_input);
  const auto encoded = layers::LSTM(6, {.return_state = true, .name = "encoder"})(encoder_embedded);
  const auto state_h = encoded[1], state_c = encoded[2];
  const auto decoder_input = layers::Input({ls::kUnknownDim}, {.dtype = "int32"});
  const auto decoder_embedded = layers::Embedding(15, 6)(decoder_input);
  const auto decoder_output =
      layers::LSTM(6, {.name = "decoder"})(decoder_embedded, {.initial_state = {state_h, state_c}});
  const auto output = layers::Dense(4)(decoder_output);
  keras::Model translator({encoder_input, decoder_input}, output);
  report("translator", ops::reduce_sum(translator({tokens, ops::reshape(labels(5 * 3, 15, 4), {5, 3})})));

  // State that is kept from one batch to the next.
  const ls::Tensors paragraphs = {waves({4, 3, 5}, 0.2), waves({4, 3, 5}, 0.3), waves({4, 3, 5}, 0.4)};
  const auto lstm_layer = layers::LSTM(6, {.stateful = true});
  for (const auto& paragraph : paragraphs) report("stateful", ops::reduce_sum(lstm_layer(paragraph)));
  lstm_layer->reset_states();
  report("reset", ops::reduce_sum(lstm_layer(paragraphs[0])));

  // Both directions, and cells.
  const auto x = waves({4, 5, 3}, 0.6);
  const auto both = layers::Bidirectional(layers::LSTM(4, {.return_sequences = true}));
  report("both", ops::reduce_sum(both(x)));
  const auto rnn = layers::RNN(layers::StackedRNNCells({layers::LSTMCell(4), layers::LSTMCell(3)}));
  report("cells", ops::reduce_sum(rnn(x)));
  const auto backwards = layers::GRU(3, {.recurrent_initializer = "glorot_uniform", .go_backwards = true});
  report("backwards", ops::reduce_sum(backwards(x)));

  // Custom cells, stacked.
  const auto own = layers::RNN({keras::make_layer<MinimalRNNCell>(4), keras::make_layer<MinimalRNNCell>(2)},
                               {.return_sequences = true, .return_state = true});
  const auto [own_output, state_1, state_2] = own(x).parts<3>();
  report("own_cells", ops::reduce_sum(ops::abs(own_output)));
  report("own_states", ops::reduce_sum(ops::abs(state_1)) + ops::reduce_sum(ops::abs(state_2)));

  // Sequences of different lengths: padding, and masks that leave it out.
  const std::vector<std::vector<std::int32_t>> raw_inputs = {{7, 11, 2}, {3, 9, 4, 1, 5, 6}, {8, 12}};
  const auto padded_inputs = ls::utils::pad_sequences(raw_inputs, {.padding = "post"});
  for (int i = 0; i < 6; ++i) report("padded", padded_inputs[2][i]);
  const auto embedding = layers::Embedding(20, 4, {.mask_zero = true});
  const auto embedded = embedding(padded_inputs);
  const auto mask = embedded.leaf().mask();
  report("masked", ops::reduce_sum(ops::cast(mask, ls::DType::kFloat32)));
  const auto masked_lstm = layers::LSTM(5);
  report("with_mask", ops::reduce_sum(masked_lstm(embedded, {.mask = mask})));
  report("without_mask", ops::reduce_sum(masked_lstm(embedded)));
  const auto masking = layers::Masking({.mask_value = 0.0});
  report("masking",
         ops::reduce_sum(masked_lstm(masking(ops::concat({waves({2, 3, 4}, 0.5), ops::zeros({2, 2, 4})}, 1)))));

  // Trained, with dropout and a mask.
  keras::Sequential classifier({
      layers::Input({6}, {.dtype = "int32"}),
      layers::Embedding(20, 6, {.mask_zero = true}),
      layers::Bidirectional(layers::LSTM(6, {.return_sequences = true})),
      layers::Bidirectional(layers::GRU(4)),
      layers::Dense(6, {.activation = "relu"}),
      layers::Dropout(0.3),
      layers::Dense(1),
  });
  classifier.compile({.optimizer = ls::optimizers::Adam(0.01),
                      .loss = ls::losses::BinaryCrossentropy({.from_logits = true}),
                      .metrics = {"accuracy"}});
  const auto words = ops::reshape(labels(32 * 6, 20, 7), {32, 6});
  const auto history = classifier.fit(words, labels(32, 2), {.batch_size = 8, .epochs = 3, .verbose = 0});
  for (const auto& value : history["loss"]) report("loss", value);
  classifier.save(folder + "/model.keras");
}
