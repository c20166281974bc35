// The functional API: models inside of models, shared layers, residual connections, an ensemble, layers' outputs.
#include "guide.h"

void functional_api(const std::string& folder) {
  ls::random::set_random_seed(8);

  // An encoder and a decoder, which share their tensors with the autoencoder.
  const auto encoder_input = ls::layers::Input({8, 8, 1}, {.name = "img"});
  auto x = ls::layers::Conv2D(4, 3, {.activation = "relu"})(encoder_input);
  x = ls::layers::MaxPooling2D(2)(x);
  x = ls::layers::Conv2D(4, 3, {.activation = "relu"})(x);
  const auto encoder_output = ls::layers::GlobalMaxPooling2D()(x);
  ls::keras::Model encoder(encoder_input, encoder_output, "encoder");
  const auto decoder_input = ls::layers::Input({4}, {.name = "encoded_img"});
  x = ls::layers::Reshape({2, 2, 1})(decoder_input);
  x = ls::layers::Conv2DTranspose(4, 3, {.activation = "relu"})(x);
  x = ls::layers::UpSampling2D(2)(x);
  const auto decoder_output = ls::layers::Conv2DTranspose(1, 1)(x);
  ls::keras::Model decoder(decoder_input, decoder_output, "decoder");
  const auto autoencoder_input = ls::layers::Input({8, 8, 1}, {.name = "img"});
  const auto decoded_img = decoder(encoder(autoencoder_input));
  ls::keras::Model autoencoder(autoencoder_input, decoded_img, "autoencoder");
  const auto images = waves({16, 8, 8, 1}, 0.3);
  report("decoded", ls::ops::reduce_sum(autoencoder(images)));

  // An ensemble of models that are averaged.
  const auto get_model = [] {
    const auto inputs = ls::layers::Input({16});
    return ls::keras::Model(inputs, ls::layers::Dense(1)(inputs));
  };
  auto model1 = get_model(), model2 = get_model(), model3 = get_model();
  auto inputs = ls::layers::Input({16});
  ls::keras::Structure outputs = ls::layers::average({model1(inputs), model2(inputs), model3(inputs)});
  ls::keras::Model ensemble_model(inputs, outputs);
  report("ensemble", ls::ops::reduce_sum(ensemble_model(waves({4, 16}, 0.7))));

  // One embedding for two inputs.
  const auto shared_embedding = ls::layers::Embedding(30, 4);
  const auto text_input_a = ls::layers::Input({ls::kUnknownDim}, {.dtype = "int32"});
  const auto text_input_b = ls::layers::Input({ls::kUnknownDim}, {.dtype = "int32"});
  const auto encoded_input_a = shared_embedding(text_input_a);
  const auto encoded_input_b = shared_embedding(text_input_b);
  ls::keras::Model texts({text_input_a, text_input_b}, {encoded_input_a, encoded_input_b});
  const auto [first, second] =
      texts({ls::ops::reshape(labels(10, 30, 7), {2, 5}), ls::ops::reshape(labels(6, 30, 11), {2, 3})});
  report("first", ls::ops::reduce_sum(first));
  report("second", ls::ops::reduce_sum(second));

  // A toy ResNet.
  inputs = ls::layers::Input({12, 12, 3}, {.name = "img"});
  x = ls::layers::Conv2D(4, 3, {.activation = "relu"})(inputs);
  x = ls::layers::Conv2D(8, 3, {.activation = "relu"})(x);
  const auto block_1_output = ls::layers::MaxPooling2D(3)(x);
  x = ls::layers::Conv2D(8, 3, {.activation = "relu", .padding = "same"})(block_1_output);
  x = ls::layers::Conv2D(8, 3, {.activation = "relu", .padding = "same"})(x);
  const auto block_2_output = ls::layers::add({x, block_1_output});
  x = ls::layers::Conv2D(8, 3, {.activation = "relu", .padding = "same"})(block_2_output);
  x = ls::layers::Conv2D(8, 3, {.activation = "relu", .padding = "same"})(x);
  const auto block_3_output = ls::layers::add({x, block_2_output}, {.name = "sum"});
  x = ls::layers::GlobalAveragePooling2D()(block_3_output);
  x = ls::layers::Dense(16, {.activation = "relu"})(x);
  x = ls::layers::Dropout(0.5)(x);
  outputs = ls::layers::Dense(10)(x);
  ls::keras::Model model(inputs, outputs, "toy_resnet");
  report("parameters", model.count_params());
  model.compile({.optimizer = ls::optimizers::RMSprop(1e-3),
                 .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {"acc"}});
  const auto history = model.fit(waves({40, 12, 12, 3}, 0.17), labels(40, 10, 3),
                                 {.batch_size = 16, .epochs = 2, .verbose = 0, .validation_split = 0.2});
  for (const auto& [name, values] : history.history)
    for (const auto& value : values) report(name, value);

  // The outputs of its layers.
  std::vector<ls::Tensor> features_list;
  for (const auto& layer : model.layers()) features_list.push_back(layer.output());
  ls::keras::Model feat_extraction_model(model.inputs(), features_list);
  const auto extracted_features = feat_extraction_model(waves({1, 12, 12, 3}, 0.23));
  for (const auto& feature : extracted_features) report("feature", ls::ops::reduce_sum(feature));
  model.save(folder + "/model.keras");
}
