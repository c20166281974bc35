// The cost of custom training loops: a step with a tape compared with a step of fit, and strategy.run alone.
//
//   build/bin/loop_bench [STEPS]
//
// Medians of rounds, in microseconds. The promises: a loop's step at most 1.15 times that of fit; strategy.run over two
// replicas at most 30 us.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <lockstep/lockstep.h>

namespace ls = lockstep;
namespace keras = lockstep::keras;
namespace layers = lockstep::layers;

namespace {

constexpr int kRounds = 9;

// Microseconds of one of `count` calls: the median of some rounds, after one that does not count.
double microseconds(int count, const std::function<void()>& round) {
  std::vector<double> times;
  for (int i = 0; i <= kRounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    round();
    const std::chrono::duration<double, std::micro> taken = std::chrono::steady_clock::now() - begin;
    if (i > 0) times.push_back(taken.count() / count);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return times[kRounds / 2];
}

struct Case {
  const char* name;
  std::int64_t batch, features;
  std::function<keras::Sequential()> model;
};

void compare_steps(const Case& test, int steps) {
  const auto x = ls::random::normal({test.batch * steps, test.features}, {.seed = 1});
  const auto y = ls::random::randint({test.batch * steps}, 0, 10, {.seed = 2});
  const auto dataset = ls::data::Dataset::from_tensor_slices({x, y}).batch(test.batch);

  const keras::Sequential fitted = test.model();
  fitted.compile({.optimizer = ls::optimizers::Adam(), .loss = "sparse_categorical_crossentropy"});
  const double fit = microseconds(steps, [&] { fitted.fit(dataset, {.verbose = 0}); });

  const keras::Sequential model = test.model();
  const auto optimizer = ls::optimizers::Adam();
  const auto loss_fn = ls::losses::SparseCategoricalCrossentropy();
  const double loop = microseconds(steps, [&] {
    for (const auto& [inputs, labels] : dataset) {
      ls::GradientTape tape;
      const ls::Tensor loss = loss_fn(labels, model(inputs, {.training = true}));
      const auto grads = tape.gradient(loss, model.trainable_variables());
      optimizer.apply_gradients(zip(grads, model.trainable_variables()));
    }
  });
  std::printf("%-24s fit %8.1f us/step   loop %8.1f us/step   ratio %.2f\n", test.name, fit, loop, loop / fit);
}

void measure_run(int replicas, int calls) {
  std::vector<std::string> devices;
  for (int i = 0; i < replicas; ++i) devices.push_back("/cpu:" + std::to_string(i));
  ls::distribute::MirroredStrategy strategy(devices);
  const double time = microseconds(calls, [&] {
    for (int i = 0; i < calls; ++i) strategy.run([] {});
  });
  std::printf("strategy.run, %d replicas  %8.1f us\n", replicas, time);
}

}  // namespace

int main(int argc, char** argv) try {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 100;
  compare_steps({"dense 784-128-10, 32", 32, 784,
                 [] {
                   return keras::Sequential({layers::Input({784}), layers::Dense(128, {.activation = "relu"}),
                                             layers::Dense(10, {.activation = "softmax"})});
                 }},
                steps);
  compare_steps({"dense 8-16-10, 32", 32, 8,
                 [] {
                   return keras::Sequential({layers::Input({8}), layers::Dense(16, {.activation = "relu"}),
                                             layers::Dense(10, {.activation = "softmax"})});
                 }},
                steps);
  compare_steps(
      {"conv 28x28x1, 32", 32, 784,
       [] {
         return keras::Sequential({layers::Input({784}), layers::Reshape({28, 28, 1}),
                                   layers::Conv2D(16, {3, 3}, {.activation = "relu"}), layers::MaxPooling2D({2, 2}),
                                   layers::Flatten(), layers::Dense(10, {.activation = "softmax"})});
       }},
      std::min(steps, 50));
  for (const int replicas : {1, 2}) measure_run(replicas, 2000);
  return 0;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
