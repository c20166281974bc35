// A custom layer and a custom train step.
//
//   build/bin/custom_layer
#include <cstdio>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

namespace {

// y = x · w + b, by hand.
class Linear : public ls::keras::Layer {
 public:
  explicit Linear(std::int64_t units) : Layer("Linear"), units_(units) {}
  explicit Linear(const ls::Json& config) : Linear(config.at("units").get<std::int64_t>()) {}
  ls::Json get_config() const override {
    ls::Json config = Layer::get_config();
    config["units"] = units_;
    return config;
  }
  void build(const ls::keras::Nested<ls::Shape>& shapes) override {
    w_ = add_weight(
        {.shape = {shapes.leaf()[-1], units_}, .initializer = ls::initializers::GlorotUniform(), .name = "w"});
    b_ = add_weight({.shape = {units_}, .initializer = ls::initializers::Zeros(), .name = "b"});
  }
  ls::keras::Structure call(const ls::keras::Structure& inputs) override {
    return ls::ops::matmul(inputs.leaf(), value(w_)) + value(b_);
  }

 private:
  std::int64_t units_;
  ls::keras::VariablePtr w_, b_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Linear, "Examples")

// A model that trains on its inputs and on their negatives at once.
class Mirrored : public ls::keras::Model {
 public:
  Mirrored() : Model("Mirrored"), linear(track("linear", ls::keras::make_layer<Linear>(1))) {}
  ls::keras::Structure call(const ls::keras::Structure& x) override { return linear(x); }

  ls::keras::Results train_step(const ls::keras::Batch& batch) override {
    const auto variables = trainable_weights();
    ls::GradientTape tape;
    const ls::Tensor x = batch.x.leaf(), y = batch.y.leaf();
    const ls::Tensor error = (*this)(x).leaf() - y, mirrored = (*this)(-x).leaf() + y;
    const ls::Tensor loss = ls::ops::reduce_mean(error * error) + ls::ops::reduce_mean(mirrored * mirrored);
    optimizer()->apply(tape.gradient(loss, variables), variables);
    return {{"loss", loss.item<double>()}};
  }

  ls::keras::LayerHandle linear;
};

}  // namespace

int main() try {
  ls::random::set_random_seed(2);
  const auto x = ls::random::normal({256, 3}, {.seed = 1});
  const auto y = ls::ops::matmul(x, ls::Tensor::from_vector<float>({1, -2, 3}, {3, 1}));

  Mirrored model;
  model.compile({.optimizer = ls::optimizers::SGD(0.1), .loss = "mse"});
  model.fit(x, y, {.batch_size = 64, .epochs = 5, .verbose = 2});
  const auto weights = model.get_weights();
  std::printf("w = %.3f %.3f %.3f (expected 1 -2 3), b = %.3f\n", weights[0].to_vector<float>()[0],
              weights[0].to_vector<float>()[1], weights[0].to_vector<float>()[2], weights[1].to_vector<float>()[0]);

  // The layer in a functional model, saved and loaded again.
  const auto inputs = ls::layers::Input({3});
  ls::keras::Model functional(inputs, ls::keras::make_layer<Linear>(2)(inputs));
  functional.save("custom_layer.keras");
  const auto loaded = ls::keras::load_model("custom_layer.keras");
  const bool same = loaded.predict(x, {.verbose = 0}).leaf().to_vector<float>() ==
                    functional.predict(x, {.verbose = 0}).leaf().to_vector<float>();
  std::remove("custom_layer.keras");
  std::printf("saved and loaded, it computes the same: %s\n", same ? "yes" : "NO");
  return same ? 0 : 1;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
