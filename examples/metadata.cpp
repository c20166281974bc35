// Statistics of each worker, committed together with their checkpoint.
//
// Each worker records the losses and times of its steps. They are saved with the weights and committed by the same
// rename: when the job dies, the newest checkpoint contains the history of each worker, and a resumed job continues
// its statistics. Start it with several workers:
//
//   lockstep launch -n 2 -- build/bin/metadata [output folder]
#include <chrono>
#include <cstdio>
#include <filesystem>

#include <lockstep/lockstep.h>

#include "expect.h"

namespace ls = lockstep;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kRows = 256, kFeatures = 6, kGlobalBatch = 32;
constexpr int kEpochs = 4;

ls::data::Dataset get_data() {
  const auto x = ls::random::normal({kRows, kFeatures}, {.seed = 3});
  const auto y = ls::ops::reduce_sum(x, std::vector<std::int64_t>{1}, true);
  return ls::data::Dataset::from_tensor_slices(ls::data::Element{x, y}).batch(kGlobalBatch);
}

}  // namespace

int main(int argc, char** argv) try {
  const fs::path folder = argc > 1 ? argv[1] : "metadata_run";
  ls::random::set_random_seed(2);
  ls::distribute::MultiWorkerMirroredStrategy strategy;
  auto scope = strategy.scope();
  const auto dataset = strategy.experimental_distribute_dataset(get_data());
  const auto model = ls::keras::Sequential({ls::layers::Input({kFeatures}), ls::layers::Dense(1)});
  auto optimizer = ls::optimizers::SGD(0.05);

  ls::train::CheckpointManager manager(ls::train::Checkpoint(model, optimizer), folder.string(),
                                       {.max_to_keep = 2, .workers = strategy.workers()});
  ls::Json mine{
      {"worker", strategy.worker_index()}, {"since", 0}, {"losses", ls::Json::array()}, {"seconds", ls::Json::array()}};
  int epoch = 0;
  if (const auto newest = manager.restore_or_initialize()) {
    // In a job of another size, a worker continues its own part if there is one, else it begins a new one.
    const auto all = ls::train::checkpoint_metadata(*newest);
    const auto place = static_cast<std::size_t>(strategy.worker_index());
    epoch = all.at(0).at("epoch");
    mine["since"] = epoch;
    if (place < all.size()) mine = all[place];
    if (strategy.is_chief()) std::printf("continuing after epoch %d\n", epoch);
  }

  const bool trains = epoch < kEpochs;
  for (; epoch < kEpochs; ++epoch) {
    for (const auto& batch : dataset) {
      const auto start = std::chrono::steady_clock::now();
      const auto losses = strategy.run(
          [&](const ls::data::Element& part) {
            ls::GradientTape tape;
            const auto error = model(part[0]).leaf() - part[1];
            const auto loss = ls::ops::reduce_sum(error * error) / static_cast<double>(kGlobalBatch);
            optimizer.apply(tape.gradient(loss, model.trainable_weights()), model.trainable_weights());
            return ls::ops::stop_gradient(loss);
          },
          batch);
      mine["losses"].push_back(losses[0].item<double>());  // of this worker's rows
      mine["seconds"].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    mine["epoch"] = epoch + 1;
    manager.save({}, true, {.enable_async = true, .metadata = mine});
  }
  manager.wait();

  if (strategy.is_chief()) {
    const auto all = ls::train::checkpoint_metadata(*manager.latest_checkpoint());
    expect(!trains || static_cast<int>(all.size()) == strategy.num_workers(), "every worker's statistics are there");
    for (const auto& each : all) {
      const std::size_t steps = each.at("losses").size();
      std::printf("worker %d: %zu steps, loss %.4f -> %.4f\n", each.at("worker").get<int>(), steps,
                  each["losses"].front().get<double>(), each["losses"].back().get<double>());
      expect(each.at("epoch") == kEpochs, "the statistics are those of the newest checkpoint");
      expect(steps == each.at("seconds").size(), "one loss and one time a step");
      expect(steps == (kEpochs - each.at("since").get<std::size_t>()) * (kRows / kGlobalBatch), "no step is missing");
      expect(each["losses"].back() < each["losses"].front(), "the loss falls");
    }
  }
  return failures == 0 ? 0 : 1;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
