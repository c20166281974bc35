// Sequence to sequence: a GRU reads, another writes with teacher forcing; then each token that it writes is its next
// input.
#include "guide.h"

void sequence_to_sequence(const std::string& folder) {
  namespace keras = ls::keras;
  namespace layers = ls::layers;
  namespace ops = ls::ops;
  ls::random::set_random_seed(20);
  constexpr std::int64_t kVocabulary = 12, kUnits = 8, kStart = 1;
  const auto sources = ops::reshape(labels(24 * 5, kVocabulary - 2, 7), {24, 5}) + 2;
  const auto targets = ops::reverse(sources, {1});
  const auto start = ls::Tensor::full({24, 1}, kStart, ls::DType::kInt32);
  const auto decoder_inputs = ops::concat({start, ops::slice_axis(targets, 1, 0, -1)}, 1);

  const auto encoder_in = layers::Input({5}, {.dtype = "int32", .name = "source"});
  const auto encoder_embedding = layers::Embedding(kVocabulary, 6, {.name = "source_embedding"});
  const auto encoder_gru = layers::GRU(kUnits, {.return_state = true, .name = "encoder"});
  const auto [_, encoded] = encoder_gru(encoder_embedding(encoder_in));
  const auto decoder_in = layers::Input({ls::kUnknownDim}, {.dtype = "int32", .name = "target"});
  const auto decoder_embedding = layers::Embedding(kVocabulary, 6, {.name = "target_embedding"});
  const auto decoder_gru = layers::GRU(kUnits, {.return_sequences = true, .return_state = true, .name = "decoder"});
  const auto decoder_dense = layers::Dense(kVocabulary, {.name = "words"});
  const auto outputs = decoder_gru(decoder_embedding(decoder_in), {.initial_state = encoded})[0];
  keras::Model model({encoder_in, decoder_in}, decoder_dense(outputs));
  model.compile({.optimizer = ls::optimizers::Adam(0.05),
                 .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"accuracy"}});
  const auto history = model.fit({sources, decoder_inputs}, targets, {.batch_size = 8, .epochs = 4, .verbose = 0});
  for (const auto& [name, values] : history.history)
    for (const auto& value : values) report(name, value);

  // For inference the same layers, one step at a time.
  keras::Model encoder(encoder_in, encoded);
  const auto state_in = layers::Input({kUnits}, {.name = "state"});
  const auto [step_outputs, step_state] = decoder_gru(decoder_embedding(decoder_in), {.initial_state = state_in});
  keras::Model decoder({decoder_in, state_in}, {decoder_dense(step_outputs), step_state});

  ls::Tensor state = encoder(sources[{0, 4}]);
  ls::Tensor token = ls::Tensor::full({4, 1}, kStart, ls::DType::kInt32);
  for (int step = 0; step < 5; ++step) {
    const auto [logits, next] = decoder({token, state});
    state = next;
    token = ops::argmax(logits, -1, ls::DType::kInt32);
    report("token", ops::reduce_sum(token));
    report("logits", ops::reduce_max(logits));
  }
  model.save(folder + "/model.keras");
}
