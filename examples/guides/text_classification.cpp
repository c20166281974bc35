// Text classification from raw text: a folder of files for each class, TextVectorization in a pipeline.
#include <filesystem>
#include <fstream>

#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;
using ls::data::Element;

// The text without tags, in lower case, without punctuation.
ls::Tensor custom_standardization(const ls::Tensor& input_data) {
  const auto lowercase = ls::strings::lower(input_data);
  const auto stripped_html = ls::strings::regex_replace(lowercase, "<br />", " ");
  return ls::strings::regex_replace(stripped_html, R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])", "");
}

}  // namespace

void text_classification(const std::string& folder) {
  ls::random::set_random_seed(3);

  const std::vector<std::string> good = {"a wonderful film", "I loved every minute<br />of it",
                                         "Great acting, great music!", "truly moving and funny"};
  const std::vector<std::string> bad = {"a boring film", "I hated every minute<br />of it", "Bad acting, bad music!",
                                        "truly slow and sad"};
  const std::vector<std::string> endings = {"", " It is long.", " See it twice<br />or not?", " My friends agreed."};
  for (const auto& [label, sentences] : {std::pair{"neg", bad}, std::pair{"pos", good}}) {
    std::filesystem::create_directories(folder + "/train/" + label);
    for (std::size_t i = 0; i < 16; ++i) {
      const std::string name = i < 10 ? "0" + std::to_string(i) : std::to_string(i);
      std::ofstream(folder + "/train/" + label + "/" + name + ".txt") << sentences[i % 4] + endings[i / 4];
    }
  }

  constexpr int batch_size = 4;
  const auto raw_train_ds = ls::utils::text_dataset_from_directory(
      folder + "/train",
      {.batch_size = batch_size, .seed = 1337, .validation_split = 0.25, .subset = "training", .verbose = false});
  const auto raw_val_ds = ls::utils::text_dataset_from_directory(
      folder + "/train",
      {.batch_size = batch_size, .seed = 1337, .validation_split = 0.25, .subset = "validation", .verbose = false});
  report("batches", static_cast<double>(raw_train_ds.cardinality()));
  for (const auto& [text_batch, label_batch] : raw_train_ds.take(2)) {
    const ls::Tensor texts = text_batch, classes = label_batch;
    for (int i = 0; i < 4; ++i) {
      report("text", ls::strings::length(texts[i]));
      report("label", classes[i]);
    }
  }

  constexpr int max_features = 60;
  constexpr int embedding_dim = 8;
  constexpr int sequence_length = 12;
  const auto vectorize_layer = layers::TextVectorization({.max_tokens = max_features,
                                                          .standardize = custom_standardization,
                                                          .output_mode = "int",
                                                          .output_sequence_length = sequence_length});
  const auto text_ds = raw_train_ds.map([](const ls::Tensor& x, const ls::Tensor&) { return x; });
  vectorize_layer.adapt(text_ds);
  report("vocabulary", static_cast<double>(vectorize_layer.vocabulary_size()));
  for (const std::string& word : vectorize_layer.get_vocabulary()[{0, 10}].string_values())
    report("word " + (word.empty() ? "padding" : word), static_cast<double>(word.size()));

  const auto vectorize_text = [vectorize_layer](const ls::Tensor& text, const ls::Tensor& label) {
    return Element{vectorize_layer(ops::expand_dims(text, -1)), label};
  };
  const auto train_ds = raw_train_ds.map(vectorize_text).cache().prefetch(10);
  const auto val_ds = raw_val_ds.map(vectorize_text).cache().prefetch(10);

  const auto inputs = keras::Input({ls::kUnknownDim}, {.dtype = "int64"});
  auto x = layers::Embedding(max_features, embedding_dim)(inputs);
  x = layers::Dropout(0.5)(x);
  x = layers::Conv1D(8, 3, {.activation = "relu", .strides = 1, .padding = "valid"})(x);
  x = layers::GlobalMaxPooling1D()(x);
  x = layers::Dense(8, {.activation = "relu"})(x);
  x = layers::Dropout(0.5)(x);
  const auto predictions = layers::Dense(1, {.activation = "sigmoid", .name = "predictions"})(x);
  const keras::Model model(inputs, predictions);
  model.compile({.optimizer = "adam", .loss = "binary_crossentropy", .metrics = {"accuracy"}});
  const auto history = model.fit(train_ds, {.epochs = 3, .verbose = 0, .validation_data = val_ds});
  for (const char* name : {"loss", "accuracy", "val_loss", "val_accuracy"}) {
    for (const double value : history.history[name]) report(name, value);
  }

  // A model of raw text.
  const auto text_input = keras::Input({1}, {.dtype = "string"});
  const auto outputs = model(vectorize_layer(text_input));
  const keras::Model end_to_end_model(text_input, outputs);
  end_to_end_model.compile({.optimizer = "adam", .loss = "binary_crossentropy", .metrics = {"accuracy"}});
  for (const auto& [name, value] : end_to_end_model.evaluate(raw_val_ds, {.verbose = 0})) report("end to end", value);
  const ls::Tensor probabilities =
      end_to_end_model.predict(ls::Tensor{{"great funny music"}, {"slow<br />and boring!"}}, {.verbose = 0});
  for (int i = 0; i < 2; ++i) report("prediction", probabilities.index({i, 0}));

  // Characters, a custom split, bigrams, counts.
  const layers::TextVectorizationOptions all_options[] = {
      {.split = "character"},
      {.split = [](const ls::Tensor& texts) { return ls::strings::split(texts, "-"); }},
      {.ngrams = 2},
      {.output_mode = "multi_hot"},
      {.output_mode = "count"},
      {.output_mode = "tf_idf"}};
  for (const auto& options : all_options) {
    const auto layer = layers::TextVectorization(options);
    layer.adapt(ls::Tensor{"one-two three", "two-two", "Three; four-one"});
    report("tokens", static_cast<double>(layer.vocabulary_size()));
    report("sum", ops::reduce_sum(ops::cast(layer(ls::Tensor{"three four-one two", "one-two"}), ls::float32)));
  }
  model.save(folder + "/model.keras");
}
