// Autoencoders: a dense one, one that takes noise out of images, and one that finds anomalies by a threshold.
#include "guide.h"

namespace {

class Autoencoder : public ls::keras::Model {
 public:
  explicit Autoencoder(std::int64_t latent_dim) : latent_dim_(latent_dim) {
    encoder = ls::keras::Sequential({
        ls::layers::Flatten(),
        ls::layers::Dense(latent_dim, {.activation = "relu"}),
    });
    decoder = ls::keras::Sequential({
        ls::layers::Dense(64, {.activation = "sigmoid"}),
        ls::layers::Reshape({8, 8}),
    });
    track("encoder", encoder.impl());
    track("decoder", decoder.impl());
  }
  explicit Autoencoder(const ls::Json& config) : Autoencoder(config.at("latent_dim").get<std::int64_t>()) {}

  ls::keras::Structure call(const ls::keras::Structure& x) override {
    const auto encoded = encoder(x);
    const auto decoded = decoder(encoded);
    return decoded;
  }

  ls::Json get_config() const override { return {{"latent_dim", latent_dim_}}; }

  ls::keras::Sequential encoder, decoder;

 private:
  std::int64_t latent_dim_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Autoencoder, "Guides")

}  // namespace

void autoencoders(const std::string& folder) {
  namespace keras = ls::keras;
  namespace layers = ls::layers;
  namespace ops = ls::ops;
  ls::random::set_random_seed(22);
  const auto x_train = (waves({32, 8, 8}, 0.21) + 1) / 2;
  const auto x_test = (waves({16, 8, 8}, 0.23) + 1) / 2;

  Autoencoder autoencoder(6);
  autoencoder.compile({.optimizer = "adam", .loss = ls::losses::MeanSquaredError()});
  auto history = autoencoder.fit(
      x_train, x_train,
      {.batch_size = 8, .epochs = 3, .verbose = 0, .validation_data = {x_test, x_test}, .shuffle = true});
  for (const auto& [name, values] : history.history)
    for (const auto& value : values) report(name, value);
  const auto encoded_imgs = autoencoder.encoder(x_test);
  const auto decoded_imgs = autoencoder.decoder(encoded_imgs);
  report("decoded", ops::reduce_sum(decoded_imgs));

  // Noise out of images, by convolutions.
  const double noise_factor = 0.2;
  const auto images = ops::expand_dims(x_train, -1);
  auto x_noisy = images + noise_factor * ls::random::normal({32, 8, 8, 1}, {.seed = 3});
  x_noisy = ops::clip_by_value(x_noisy, 0.0, 1.0);
  keras::Sequential denoise({
      layers::Input({8, 8, 1}),
      layers::Conv2D(8, {3, 3}, {.activation = "relu", .strides = 2, .padding = "same"}),
      layers::Conv2D(4, {3, 3}, {.activation = "relu", .strides = 2, .padding = "same"}),
      layers::Conv2DTranspose(4, 3, {.activation = "relu", .strides = 2, .padding = "same"}),
      layers::Conv2DTranspose(8, 3, {.activation = "relu", .strides = 2, .padding = "same"}),
      layers::Conv2D(1, {3, 3}, {.activation = "sigmoid", .padding = "same"}),
  });
  denoise.compile({.optimizer = "adam", .loss = ls::losses::MeanSquaredError()});
  history = denoise.fit(x_noisy, images, {.batch_size = 8, .epochs = 2, .verbose = 0});
  for (const auto& value : history["loss"]) report("denoise_loss", value);

  // Rows with a large reconstruction error are anomalies.
  const auto normal_data = (waves({40, 20}, 0.31) + 1) / 2;
  const auto anomalous_data = (waves({20, 20}, 1.9) + 1) / 2;
  keras::Sequential detector({
      layers::Input({20}),
      layers::Dense(8, {.activation = "relu"}),
      layers::Dense(3, {.activation = "relu"}),
      layers::Dense(8, {.activation = "relu"}),
      layers::Dense(20, {.activation = "sigmoid"}),
  });
  detector.compile({.optimizer = ls::optimizers::Adam(0.01), .loss = "mae"});
  detector.fit(normal_data, normal_data, {.batch_size = 8, .epochs = 10, .verbose = 0});
  const auto reconstructions = detector.predict(normal_data, {.verbose = 0});
  const auto train_loss = ls::losses::mean_absolute_error(reconstructions, normal_data);
  const auto [mean, variance] = ops::moments(train_loss, 0);
  const auto threshold = mean + ops::sqrt(variance);
  report("threshold", threshold);
  const auto loss = ls::losses::mean_absolute_error(detector(anomalous_data), anomalous_data);
  const auto predictions = ops::less(loss, threshold);
  report("normal", ops::reduce_sum(ops::cast(predictions, ls::DType::kInt32)));
  report("mean_error", ops::reduce_mean(loss));
  autoencoder.save(folder + "/model.keras");
}
