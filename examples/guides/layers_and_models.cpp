// Layers and models as classes: weights, layers of layers, losses inside of call, and a variational autoencoder.
#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace ops = ls::ops;

class Linear : public keras::Layer {
 public:
  explicit Linear(std::int64_t units = 32) : units_(units) {}
  explicit Linear(const ls::Json& config) : Linear(config.at("units").get<std::int64_t>()) {}

  void build(const keras::Nested<ls::Shape>& input_shape) override {
    w_ = add_weight({.shape = {input_shape[-1], units_}, .initializer = "random_normal", .name = "w"});
    b_ = add_weight({.shape = {units_}, .initializer = "zeros", .name = "b"});
  }

  keras::Structure call(const keras::Structure& inputs) override { return ops::matmul(inputs, w_) + b_; }

  ls::Json get_config() const override { return {{"units", units_}}; }

 private:
  std::int64_t units_;
  ls::Variable w_, b_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Linear, "Guides")

// A sum over all calls, in a variable that is not trained.
class ComputeSum : public keras::Layer {
 public:
  explicit ComputeSum(std::int64_t input_dim) {
    total_ = add_weight({.shape = {input_dim}, .initializer = "zeros", .trainable = false, .name = "total"});
  }

  keras::Structure call(const keras::Structure& inputs) override {
    total_.assign_add(ops::reduce_sum(inputs, 0));
    return total_ + 0.0;
  }

 private:
  ls::Variable total_;
};

// Layers inside of a layer.
class MLPBlock : public keras::Layer {
 public:
  MLPBlock() {
    linear_1_ = track("linear_1", keras::make_layer<Linear>(8).ptr());
    linear_2_ = track("linear_2", keras::make_layer<Linear>(8).ptr());
    linear_3_ = track("linear_3", keras::make_layer<Linear>(1).ptr());
  }

  keras::Structure call(const keras::Structure& inputs) override {
    auto x = ops::relu(linear_1_(inputs));
    x = ops::relu(linear_2_(x));
    return linear_3_(x);
  }

 private:
  keras::LayerHandle linear_1_, linear_2_, linear_3_;
};

// A loss that is made while the layer computes.
class ActivityRegularizationLayer : public keras::Layer {
 public:
  explicit ActivityRegularizationLayer(double rate = 1e-2) : rate_(rate) {}

  keras::Structure call(const keras::Structure& inputs) override {
    add_loss(rate_ * ops::reduce_mean(inputs));
    return inputs;
  }

 private:
  double rate_;
};

// Draws a point of the latent space.
class Sampling : public keras::Layer {
 public:
  Sampling() : seed_generator_(add_seed_generator(1337)) {}

  keras::Structure call(const keras::Structure& inputs) override {
    const auto& [z_mean, z_log_var] = inputs;
    const auto epsilon = ls::random::normal(z_mean.leaf().shape(), {.seed = seed_generator_});
    return z_mean + ops::exp(0.5 * z_log_var) * epsilon;
  }

 private:
  ls::random::SeedGeneratorPtr seed_generator_;
};

class VariationalAutoEncoder : public keras::Model {
 public:
  explicit VariationalAutoEncoder(std::int64_t original_dim, std::int64_t intermediate_dim = 8,
                                  std::int64_t latent_dim = 2)
      : dims_({{"original_dim", original_dim}, {"intermediate_dim", intermediate_dim}, {"latent_dim", latent_dim}}) {
    encoder_ = track("encoder", ls::layers::Dense(intermediate_dim, {.activation = "relu"}));
    dense_mean_ = track("dense_mean", ls::layers::Dense(latent_dim));
    dense_log_var_ = track("dense_log_var", ls::layers::Dense(latent_dim));
    sampling_ = track("sampling", keras::make_layer<Sampling>());
    decoder_ = track("decoder", ls::layers::Dense(intermediate_dim, {.activation = "relu"}));
    dense_output_ = track("dense_output", ls::layers::Dense(original_dim, {.activation = "sigmoid"}));
  }
  explicit VariationalAutoEncoder(const ls::Json& config)
      : VariationalAutoEncoder(config.at("original_dim"), config.at("intermediate_dim"), config.at("latent_dim")) {}

  keras::Structure call(const keras::Structure& inputs) override {
    const auto x = encoder_(inputs);
    const ls::Tensor z_mean = dense_mean_(x), z_log_var = dense_log_var_(x);
    const auto z = sampling_({z_mean, z_log_var});
    const auto kl_loss = -0.5 * ops::reduce_mean(z_log_var - ops::square(z_mean) - ops::exp(z_log_var) + 1);
    add_loss(kl_loss);
    return dense_output_(decoder_(z));
  }

  ls::Json get_config() const override { return dims_; }

 private:
  ls::Json dims_;
  keras::LayerHandle encoder_, dense_mean_, dense_log_var_, sampling_, decoder_, dense_output_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(VariationalAutoEncoder, "Guides")

}  // namespace

void layers_and_models(const std::string& folder) {
  ls::random::set_random_seed(10);
  const auto x = waves({2, 3}, 0.9);
  const auto linear_layer = keras::make_layer<Linear>(4);
  const auto y = linear_layer(x);
  report("linear", ops::reduce_sum(y));
  report("weights", linear_layer.weights().size());

  const auto my_sum = keras::make_layer<ComputeSum>(3);
  report("sum", ops::reduce_sum(my_sum(x)));
  report("sum_of_two", ops::reduce_sum(my_sum(x)));
  report("trainable", my_sum.trainable_weights().size());

  const auto mlp = keras::make_layer<MLPBlock>();
  report("mlp", ops::reduce_sum(mlp(x)));
  report("mlp_weights", mlp.weights().size());

  const auto regularizing = keras::make_layer<ActivityRegularizationLayer>();
  regularizing(x);
  report("activity_loss", regularizing.losses()[0]);

  // The autoencoder in a custom training loop.
  const auto x_train = (waves({64, 10}, 0.37) + 1) / 2;
  const auto train_dataset = ls::data::Dataset::from_tensor_slices(x_train).shuffle(64).batch(16);
  VariationalAutoEncoder vae(10);
  const auto optimizer = ls::optimizers::Adam({.learning_rate = 1e-2});
  const auto mse_loss_fn = ls::losses::MeanSquaredError();
  const auto loss_metric = ls::metrics::Mean();
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (const ls::Tensor& x_batch_train : train_dataset) {
      ls::GradientTape tape;
      const auto reconstructed = vae(x_batch_train);
      auto loss = mse_loss_fn(x_batch_train, reconstructed);
      loss += ops::add_n(vae.losses());
      const auto grads = tape.gradient(loss, vae.trainable_variables());
      optimizer.apply_gradients(zip(grads, vae.trainable_variables()));
      loss_metric(loss);
      report("step", loss);
    }
    report("mean_loss", loss_metric.result());
  }

  // And in fit.
  VariationalAutoEncoder fitted(10);
  fitted.compile({.optimizer = ls::optimizers::Adam({.learning_rate = 1e-2}), .loss = ls::losses::MeanSquaredError()});
  const auto history = fitted.fit(x_train, x_train, {.batch_size = 16, .epochs = 3, .verbose = 0});
  for (const auto& value : history["loss"]) report("fit_loss", value);
  fitted.save(folder + "/model.keras");
}
