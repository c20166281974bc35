// A custom training loop with parameter servers, as in TensorFlow's tutorial. Every process of the job runs this
// program:
//
//   lockstep launch -n 2 --ps 1 -- build/bin/parameter_servers
//
// The chief prints the result. The program fails if it differs from the expected one.
#include <cstdio>

#include <lockstep/lockstep.h>

#include "expect.h"

namespace ls = lockstep;

namespace {

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kFeatures = 8;

ls::data::Dataset get_data() {
  const auto x = ls::random::normal({kRows, kFeatures}, {.seed = 1});
  const auto sums = ls::ops::reduce_sum(x, std::vector<std::int64_t>{1}, true);
  const auto y = ls::ops::cast(ls::ops::greater(sums, ls::Tensor::scalar(0.0f)), ls::DType::kFloat32);
  return ls::data::Dataset::from_tensor_slices(ls::data::Element{x, y}).shuffle(kRows).repeat().batch(64);
}

int train(const ls::distribute::ClusterResolver& cluster) {
  ls::distribute::ParameterServerStrategy strategy(
      {.cluster_resolver = cluster, .variable_partitioner = ls::distribute::MinSizePartitioner(256, 2)});
  const auto scope = strategy.scope();
  ls::distribute::ClusterCoordinator coordinator(strategy);

  const ls::keras::Model model = ls::keras::Sequential({
      ls::layers::Input({kFeatures}),
      ls::layers::Dense(10, {.activation = "relu"}),
      ls::layers::Dense(1, {.activation = "sigmoid"}),
  });
  const auto optimizer = ls::optimizers::Adam({.learning_rate = 0.01});
  const auto loss_of = ls::losses::BinaryCrossentropy();
  const auto accuracy = ls::metrics::BinaryAccuracy();
  const auto batches = coordinator.create_per_worker_dataset(get_data);

  auto next = batches.begin();
  const auto step = [&] {
    const auto [x, y] = *next;
    ++next;
    ls::GradientTape tape;
    const ls::Tensor predictions = model(x);
    const ls::Tensor loss = loss_of(y, predictions);
    optimizer.apply_gradients(ls::zip(tape.gradient(loss, model.trainable_variables()), model.trainable_variables()));
    accuracy.update_state(y, predictions);
    return loss;
  };
  for (int epoch = 0; epoch < 5; ++epoch) {
    accuracy.reset_state();
    auto loss = coordinator.schedule(step);
    for (int i = 1; i < 40; ++i) loss = coordinator.schedule(step);
    coordinator.join();
    if (strategy.is_chief()) {
      std::printf("epoch %d: loss of the last step %.4f, accuracy %.4f\n", epoch + 1, loss.fetch().item<float>(),
                  accuracy.result().item<float>());
    }
  }
  if (strategy.is_chief()) expect(accuracy.result().item<float>() > 0.9F, "an accuracy of more than 0.9");
  return failures;
}

}  // namespace

int main() {
  const ls::distribute::ClusterResolver cluster = ls::distribute::resolve_cluster();
  if (cluster.task_type() != "ps") return train(cluster);
  ls::distribute::Server({.cluster_resolver = cluster}).join();
  return 0;
}
