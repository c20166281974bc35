// Lines of articles that train Keras models (Transformers, imbalanced data, mixtures of experts), as literally as C++
// permits.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;
namespace ops = lockstep::ops;
using ls::Tensor;

// Named: units of a build hold several files.
namespace lines_of_articles {

Tensor masked_loss(const Tensor& label, const Tensor& pred) { return ops::reduce_mean(ops::square(label - pred)); }
Tensor masked_accuracy(Tensor label, Tensor pred) {
  pred = ops::round(pred);
  return ops::cast(label == pred, ls::float32);
}

class Half : public keras::optimizers::schedules::LearningRateSchedule {
 public:
  float operator()(std::int64_t) const override { return 0.5f; }
};

TEST(ArticleLines, TheRateStandsBeforeTheOptions) {
  const Half learning_rate;
  const auto optimizer = keras::optimizers::Adam(learning_rate, {.beta_1 = 0.8, .epsilon = 1e-9});
  EXPECT_FLOAT_EQ(optimizer.learning_rate(), 0.5f);
  EXPECT_EQ(optimizer.get_config().at("beta_1"), 0.8);
  EXPECT_EQ(keras::optimizers::SGD(0.1, {.momentum = 0.9}).get_config().at("momentum"), 0.9);
}

TEST(ArticleLines, FunctionsListsAndMapsAreArgumentsOfCompileAndFit) {
  const auto model = keras::Sequential({keras::Input({1}), layers::Dense(1, {.kernel_initializer = "ones"})});
  model.compile({.optimizer = "sgd", .loss = masked_loss, .metrics = {masked_accuracy}});
  const Tensor x = {{1.0}, {2.0}, {3.0}}, y = {{1.0}, {2.0}, {5.0}};
  EXPECT_NEAR(model.evaluate(x, y, {.verbose = 0})[1], 2.0 / 3, 1e-6);
  EXPECT_EQ(model.metrics_names(), (std::vector<std::string>{"loss", "compile_metrics"}));

  const std::vector<keras::metrics::MetricPtr> metrics = {keras::metrics::MeanAbsoluteError({.name = "mae"}),
                                                          keras::metrics::MeanSquaredError({.name = "mse"})};
  model.compile({.optimizer = "sgd", .loss = "mse", .metrics = metrics});
  const auto [loss, mae, mse] = model.evaluate(x, y, {.verbose = 0}).parts<3>();
  EXPECT_NEAR(loss, 4.0 / 3, 1e-6);
  EXPECT_NEAR(mae, 2.0 / 3, 1e-6);
  EXPECT_NEAR(mse, 4.0 / 3, 1e-6);
  EXPECT_THROW(model.evaluate(x, y, {.verbose = 0}).parts<2>(), ls::errors::InvalidArgumentError);

  const std::map<int, double> class_weight = {{0, 0.5}, {1, 4.0}};
  const Tensor labels = {{0.0}, {0.0}, {1.0}};
  const auto history = model.fit(x, labels, {.verbose = 0, .class_weight = class_weight});
  EXPECT_NEAR(history.history["loss"][0], (0.5 * 1 + 0.5 * 4 + 4 * 4) / 3, 1e-5);
}

TEST(ArticleLines, TopKAndDTypes) {
  const auto metric = keras::metrics::SparseTopKCategoricalAccuracy(2, {.name = "top_2"});
  EXPECT_EQ(metric.get_config().at("k"), 2);
  metric.update_state({2, 0}, {{0.1, 0.5, 0.4}, {0.1, 0.5, 0.4}});
  EXPECT_FLOAT_EQ(float(metric.result()), 0.5f);
  EXPECT_EQ(layers::Dense(2, {.dtype = ls::float16}).get_config().at("dtype").at("config").at("name"), "float16");
}

class Expert : public keras::Layer {
 public:
  explicit Expert(double factor) : factor(factor) {}
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override { return x.leaf() * factor; }
  double factor;
};

class Experts : public keras::Layer {
 public:
  Experts() {
    for (int i = 0; i < 2; ++i) {
      dense.push_back(layers::Dense(1, {.use_bias = false}));
      experts.push_back(std::make_shared<Expert>(i + 2));
    }
    track("dense", dense);
    track("experts", experts);
  }
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override {
    return dense[0](x) + dense[1]((*experts[1])((*experts[0])(x)));
  }
  std::vector<keras::LayerHandle> dense;
  std::vector<std::shared_ptr<Expert>> experts;
};

class Mixture : public keras::Model {
 public:
  Mixture() {
    gate = track("gate", std::make_shared<Expert>(0.5));
    blocks = track("blocks", std::vector{std::make_shared<Experts>(), std::make_shared<Experts>()});
    for (int i = 0; i < 2; ++i) heads.push_back(keras::Sequential({layers::Dense(1, {.use_bias = false})}));
    track("heads", heads);
  }
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override {
    return heads[0]((*blocks[0])((*gate)(x))) + heads[1]((*blocks[1])(x));
  }
  std::shared_ptr<Expert> gate;
  std::vector<std::shared_ptr<Experts>> blocks;
  std::vector<keras::Model> heads;
};

TEST(ArticleLines, ListsOfLayersAndModelsAreTracked) {
  Mixture model;
  (void)model(Tensor{{1.0}});
  EXPECT_EQ(model.trainable_variables().size(), 6U);
  EXPECT_EQ(model.gate->factor, 0.5);
}

class TokenEmbedding : public keras::Layer {
 public:
  TokenEmbedding() { embedding = track("embedding", layers::Embedding(5, 2, {.mask_zero = true})); }
  keras::Structure compute_mask(const keras::Structure& x, const keras::Structure&, const keras::Structure&) override {
    return embedding.compute_mask(x);
  }
  keras::Structure call(const keras::Structure& x, const keras::CallContext&) override { return embedding(x) * 2.0; }
  keras::LayerHandle embedding;
};

TEST(ArticleLines, AClassWithComputeMaskSupportsMasking) {
  const Tensor mask = keras::make_layer<TokenEmbedding>()(Tensor{{1, 2, 0}}).mask();
  ASSERT_TRUE(mask.defined());
  EXPECT_EQ(ops::cast(mask, ls::int32).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 1, 0}));
  const Tensor other = keras::make_layer<Expert>(2.0)(layers::Embedding(5, 2, {.mask_zero = true})(Tensor{{1, 0}}));
  EXPECT_FALSE(other.mask().defined());
}

struct TokenModel : keras::Model {
  TokenModel() {
    embedding = track("embedding", layers::Embedding(9, 8));
    drop = track("drop", layers::Dropout(0.5));
    final = track("final", layers::Dense(1));
  }
  keras::LayerHandle embedding, drop, final;
};
struct CallOfInputs : TokenModel {
  keras::Structure call(const keras::Structure& x) override { return final(drop(embedding(x))); }
};
struct CallWithTraining : TokenModel {
  keras::Structure call(const keras::Structure& x, const keras::CallContext& context) override {
    return final(drop(embedding(x), {.training = context.training}));
  }
};
// call(self, x) and call(self, x, training=None) of one model: as in Keras 3.15, fit() passes training=True to the
// second only. Expected numbers: Keras 3.15.
TEST(ArticleLines, CallsWithAndWithoutTraining) {
  const auto losses = [](auto make) {
    keras::utils::set_random_seed(3);
    auto model = make();
    const auto ints = [](std::int64_t f, std::int64_t m) { return ops::range(std::int64_t(80)) * f % m; };
    const Tensor x = ops::reshape(ints(5, 9), {16, 5});
    const Tensor y = ops::cast(ops::reshape(ints(1, 3), {16, 5, 1}), ls::float32);
    model.compile({.optimizer = "sgd", .loss = "mse"});
    return model.fit(ls::data::Dataset::from_tensor_slices({x, y}).batch(4), {.epochs = 2, .verbose = 0})["loss"];
  };
  const auto plain = losses([] { return CallOfInputs(); }), trained = losses([] { return CallWithTraining(); });
  EXPECT_NEAR(plain[0], 1.59688079, 1e-5);
  EXPECT_NEAR(plain[1], 1.41878283, 1e-5);
  EXPECT_NEAR(trained[0], 1.58358431, 1e-5);
  EXPECT_NEAR(trained[1], 1.42404532, 1e-5);
}

TEST(ArticleLines, OptionsOfSavedModels) {
  const std::string folder = std::filesystem::temp_directory_path() / ("lockstep_articles_" + std::to_string(getpid()));
  const auto model = keras::Sequential({keras::Input({1}), layers::Dense(1)});
  ls::saved_model::save(model, folder, {.experimental_io_device = "/job:localhost"});
  const auto load_options = ls::saved_model::LoadOptions{.experimental_io_device = "/job:worker/task:9"};
  EXPECT_THROW(keras::models::load_model(folder, {.options = load_options}), ls::errors::InvalidArgumentError);
  std::filesystem::remove_all(folder);
}

TEST(ArticleLines, FilesOfASize) {
  const auto folder = std::filesystem::temp_directory_path() / ("lockstep_files_" + std::to_string(getpid()));
  const auto model = keras::Sequential({keras::Input({30}), layers::Dense(20), layers::Dense(1)});
  const auto policy = ls::train::experimental::MaxShardSizePolicy(1000);
  ls::saved_model::save(model, (folder / "saved").string(), {.experimental_sharding_callback = policy});
  const auto options = ls::train::CheckpointOptions{.experimental_sharding_callback = policy};
  const std::string path = ls::train::Checkpoint({{"model", model}}).save((folder / "ckpt").string(), options);
  for (const auto& name : {folder / "saved" / "variables" / "variables", std::filesystem::path(path)})
    EXPECT_EQ(std::filesystem::file_size(name.string() + ".data-00000-of-00004"), 1000) << name;
  const Tensor x = ops::ones({1, 30}), y = model(x);
  EXPECT_EQ(float(ls::saved_model::load((folder / "saved").string())(x)), float(y));
  const auto again = keras::Sequential({keras::Input({30}), layers::Dense(20), layers::Dense(1)});
  ls::train::Checkpoint({{"model", again}}).restore(path).assert_consumed();
  EXPECT_EQ(float(again(x)), float(y));
  std::filesystem::remove_all(folder);
}

// Expected numbers: Keras 3.15.
TEST(ArticleLines, FunctionsOfImages) {
  std::vector<float> values;
  for (int i = 0; i < 48; ++i) values.push_back(static_cast<float>(std::sin(0.3 * i)));
  const Tensor x = Tensor::from_vector(values, {1, 4, 4, 3});
  EXPECT_NEAR(float(kops::sum(kops::image::gaussian_blur(x, {.sigma = {0.7, 0.7}}))), 2.381090, 1e-5);
  EXPECT_NEAR(float(kops::sum(kops::image::resize(x, {2, 2}))), 0.921255, 1e-5);
  EXPECT_NEAR(float(kops::sum(kops::abs(kops::image::extract_patches(x, 2)))), 30.345062, 1e-4);
  EXPECT_NEAR(float(kops::sum(kops::abs(kops::image::extract_patches(x, {2, 2}, {.strides = {1, 1}})))), 68.863579,
              1e-4);
  EXPECT_NEAR(float(kops::sum(kops::image::rgb_to_grayscale(x))), 1.170764, 1e-5);
  const auto padded =
      kops::image::pad_images(x, {.top_padding = 1, .left_padding = 2, .target_height = 6, .target_width = 7});
  EXPECT_EQ(padded.shape(), (ls::Shape{1, 6, 7, 3}));
  EXPECT_THROW(kops::image::pad_images(x, {.top_padding = 1, .left_padding = 2}), ls::errors::InvalidArgumentError);
}

}  // namespace lines_of_articles
