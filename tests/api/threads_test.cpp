// One model, or one loaded SavedModel, in several threads (docs/guide.md). `make tsan` looks for races in these.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/lockstep.h"

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace ops = lockstep::ops;
using ls::Tensor;

namespace threads {

constexpr int kThreads = 4, kTimes = 8;

void in_threads(const std::function<void(int)>& work) {
  std::vector<std::thread> all;
  for (int i = 0; i < kThreads; ++i) all.emplace_back(work, i);
  for (std::thread& each : all) each.join();
}
// How often `work` gives another value than it does here.
int differences(const std::function<Tensor(const Tensor&)>& work, const ls::Shape& input) {
  std::vector<Tensor> inputs, expected;
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back(ls::random::uniform(input, -1, 1));
    expected.push_back(work(inputs.back()));
  }
  std::atomic<int> others = 0;
  in_threads([&](int i) {
    const auto at = static_cast<std::size_t>(i);
    for (int time = 0; time < kTimes; ++time)
      if (!(ops::reduce_max(ops::abs(work(inputs[at]) - expected[at])).item<float>() < 1e-5f)) ++others;
  });
  return others;
}

keras::Model images() {
  const auto x = keras::Input({8, 8, 3});
  auto y = layers::Conv2D(4, 3, {.activation = "relu"})(x);
  y = layers::BatchNormalization()(y);
  y = layers::MaxPooling2D(2)(y);
  y = layers::Dropout(0.5)(layers::Flatten()(y));
  return keras::Model(x, layers::Dense(3)(y));
}
keras::Model texts() {
  const auto x = keras::Input({5});
  return keras::Model(x, layers::Dense(2)(layers::LSTM(4)(layers::Embedding(10, 3)(x))));
}

TEST(Threads, CallModels) {
  const keras::Model model = images(), other = texts();
  EXPECT_EQ(differences([&](const Tensor& x) { return model(x); }, {2, 8, 8, 3}), 0);
  EXPECT_EQ(differences([&](const Tensor& x) { return other(ops::floor(ops::abs(x) * 9.0)); }, {2, 5}), 0);
}

TEST(Threads, Predict) {
  const keras::Model model = images();
  EXPECT_EQ(differences([&](const Tensor& x) { return model.predict(x, {.verbose = 0}); }, {5, 8, 8, 3}), 0);
  EXPECT_EQ(differences([&](const Tensor& x) { return model.predict_on_batch(x); }, {2, 8, 8, 3}), 0);
}

TEST(Threads, CallSavedModels) {
  const auto folder = std::filesystem::temp_directory_path() / ("lockstep_threads_" + std::to_string(::getpid()));
  ls::saved_model::save(images(), folder.string());
  const auto loaded = ls::saved_model::load(folder.string());
  const auto infer = loaded.signatures("serving_default");
  EXPECT_EQ(differences([&](const Tensor& x) { return infer(x).begin()->second; }, {2, 8, 8, 3}), 0);
  std::filesystem::remove_all(folder);
}

TEST(Threads, OneTrains) {
  const keras::Model model = texts();
  model.compile({.optimizer = "sgd", .loss = "mse"});
  const Tensor x = ops::ones({4, 5}), y = ops::ones({4, 2});
  std::string found;
  const auto callback = keras::callbacks::LambdaCallback({.on_epoch_begin = [&](int, const keras::Logs&) {
    model.predict(x, {.verbose = 0});  // this thread may
    std::thread([&] {
      try {
        model.predict(x, {.verbose = 0});
      } catch (const ls::errors::FailedPreconditionError& error) {
        found = error.what();
      }
    }).join();
  }});
  model.fit(x, y, {.epochs = 1, .verbose = 0, .callbacks = {callback}});
  EXPECT_NE(found.find("is being trained by another thread"), std::string::npos) << found;
  in_threads([&](int) { model.evaluate(x, y, {.verbose = 0}); });
}

}  // namespace threads
