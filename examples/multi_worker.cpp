// Training with several workers: a small model, a custom training loop, checkpoints and saved models.
//
// Start it once per worker, each with its own TF_CONFIG, on the machines of the cluster; or all workers on this
// machine:
//
//   lockstep launch -n 2 -- build/bin/multi_worker [output folder]
//
// Started again with the same folder, it resumes from the newest checkpoint. The chief prints the progress. The program
// fails if a result differs from the expected one.
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <lockstep/lockstep.h>

#include "expect.h"

namespace ls = lockstep;
namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kRows = 512;
constexpr std::int64_t kFeatures = 8;
constexpr std::int64_t kGlobalBatch = 64;
constexpr int kEpochs = 6;

// Whether the features of a row add up to more than 0. Every worker makes the same rows; the strategy cuts each global
// batch among all replicas.
ls::data::Dataset get_data() {
  const auto x = ls::random::normal({kRows, kFeatures}, {.seed = 1});
  const auto sums = ls::ops::reduce_sum(x, std::vector<std::int64_t>{1}, true);
  const auto y = ls::ops::cast(ls::ops::greater(sums, ls::Tensor::scalar(0.0f)), ls::DType::kFloat32);
  return ls::data::Dataset::from_tensor_slices(ls::data::Element{x, y}).shuffle(kRows).batch(kGlobalBatch);
}

ls::keras::Model get_model() {
  return ls::keras::Sequential({
      ls::layers::Input({kFeatures}),
      ls::layers::Dense(10, {.activation = "relu"}),
      ls::layers::Dense(1, {.activation = "sigmoid"}),
  });
}

// ---- saving as in TensorFlow's tutorials: all workers write, the chief to the final path, the others to a temporary
// path that they remove ----

bool is_chief(const ls::distribute::ClusterResolver& cluster) {
  const std::string& type = cluster.task_type();
  return type.empty() || type == "chief" ||
         (type == "worker" && cluster.task_id() == 0 && !cluster.cluster_spec().has_job("chief"));
}

fs::path write_path(const fs::path& path, const ls::distribute::ClusterResolver& cluster) {
  if (is_chief(cluster)) return path;
  const fs::path temporary = path.parent_path() / ("workertemp_" + std::to_string(cluster.task_id()));
  fs::create_directories(temporary);
  return temporary / path.filename();
}

void remove_temporary(const fs::path& written, const ls::distribute::ClusterResolver& cluster) {
  if (!is_chief(cluster)) fs::remove_all(written.parent_path());
}

}  // namespace

int main(int argc, char** argv) try {
  const fs::path folder = argc > 1 ? argv[1] : "multi_worker_run";
  fs::create_directories(folder);
  ls::random::set_random_seed(1);

  ls::distribute::MultiWorkerMirroredStrategy strategy;
  const auto& cluster = strategy.cluster_resolver();
  const bool chief = is_chief(cluster);
  if (chief) std::printf("%d workers, %d replicas\n", strategy.num_workers(), strategy.num_replicas_in_sync());

  auto scope = strategy.scope();
  const auto dataset = strategy.experimental_distribute_dataset(get_data());
  auto model = get_model();
  auto optimizer = ls::optimizers::Adam({.learning_rate = 0.02});
  const auto loss_object = ls::losses::BinaryCrossentropy({.reduction = "none"});

  // The mean over the global batch: each replica's sum divided by the global batch size, summed over the replicas.
  const auto train_step = [&](const ls::data::Element& batch) {
    ls::GradientTape tape;
    const auto predictions = model(batch[0], {.training = true}).leaf();
    const auto loss = ls::ops::reduce_sum(loss_object(batch[1], predictions)) / static_cast<double>(kGlobalBatch);
    optimizer.apply(tape.gradient(loss, model.trainable_weights()), model.trainable_weights());
    return ls::ops::stop_gradient(loss);
  };

  const ls::train::Checkpoint checkpoint({{"model", model}, {"optimizer", optimizer}});
  const fs::path checkpoints = folder / "ckpt";
  int epoch = 0;
  if (const auto latest = ls::train::latest_checkpoint(checkpoints)) {
    checkpoint.restore(*latest);
    epoch = 2 * static_cast<int>(checkpoint.save_counter()->read().item<std::int64_t>());
    if (chief) std::printf("continuing after epoch %d\n", epoch);
  }
  const fs::path write_checkpoints = write_path(checkpoints, cluster);
  ls::train::CheckpointManager manager(checkpoint, write_checkpoints, {.max_to_keep = 1});

  double first = NAN, last = NAN;
  for (; epoch < kEpochs; ++epoch) {
    double total = 0;
    int steps = 0;
    for (const auto& batch : dataset) {
      const auto losses = strategy.run(train_step, batch);
      total += strategy.reduce(ls::distribute::ReduceOp::kSum, losses).item<double>();
      ++steps;
    }
    last = total / steps;
    if (std::isnan(first)) first = last;
    if (chief) std::printf("epoch %d: loss %.4f\n", epoch + 1, last);
    if (epoch % 2 == 1) {
      manager.save();
      remove_temporary(write_checkpoints, cluster);
    }
  }
  if (!std::isnan(first)) expect(last < first || last < 0.1, "the loss falls");

  // The model, saved as in TensorFlow's tutorials.
  const fs::path write_model = write_path(folder / "classic.keras", cluster);
  model.save(write_model);
  remove_temporary(write_model, cluster);

  // For serving.
  const fs::path write_served = write_path(folder / "served", cluster);
  ls::saved_model::save(model, write_served);
  remove_temporary(write_served, cluster);

  // The same with one collective call: every worker writes a part, and one rename makes the file visible.
  const fs::path together = folder / "together";
  checkpoint.write(together, {.workers = strategy.workers()});

  if (chief) {
    const auto rows = ls::random::normal({5, kFeatures}, {.seed = 2});
    const auto expected = model(rows).leaf().to_vector<float>();
    expect(ls::keras::load_model(folder / "classic.keras")(rows).leaf().to_vector<float>() == expected,
           "the classic file computes the same");
    expect(fs::exists(folder / "served" / "saved_model.pb"), "the SavedModel is there");
    checkpoint.read(together).assert_existing_objects_matched();
    expect(model(rows).leaf().to_vector<float>() == expected, "what all wrote together computes the same");
  }
  strategy.workers() ? strategy.workers()->barrier() : void();
  if (chief) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      expect(!entry.path().filename().string().starts_with("workertemp"), "nothing of the others is left behind");
    }
    std::printf("saved %s and %s\n", (folder / "classic.keras").c_str(), (folder / "served").c_str());
  }
  return failures == 0 ? 0 : 1;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
