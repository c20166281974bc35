// Two workers, described by TF_CONFIG: a custom loop, checkpoints and models that only the chief keeps.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;

std::vector<int> free_ports(int count) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < count; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* place = reinterpret_cast<sockaddr*>(&address);
    if (bind(sockets.back(), place, size) != 0 || getsockname(sockets.back(), place, &size) != 0)
      throw std::runtime_error("no free port");
    ports.push_back(ntohs(address.sin_port));
  }
  for (const int each : sockets) close(each);
  return ports;
}

bool is_chief(const std::string& task_type, int task_id) {
  return task_type.empty() || task_type == "chief" || (task_type == "worker" && task_id == 0);
}

// Every worker saves, as in TensorFlow; all but the chief into a folder that is removed.
std::string write_filepath(const std::filesystem::path& filepath, const std::string& task_type, int task_id) {
  if (is_chief(task_type, task_id)) return filepath;
  const auto temp_dir = filepath.parent_path() / ("workertemp_" + std::to_string(task_id));
  std::filesystem::create_directories(temp_dir);
  return temp_dir / filepath.filename();
}

void train(const std::string& folder) {
  ls::random::set_random_seed(6);
  constexpr int per_worker_batch_size = 8;
  constexpr int num_epochs = 2;
  constexpr int num_steps_per_epoch = 3;
  ls::distribute::MultiWorkerMirroredStrategy strategy;
  const auto task_type = strategy.cluster_resolver().task_type();
  const auto task_id = strategy.cluster_resolver().task_id();
  const auto num_workers = strategy.cluster_resolver().cluster_spec().num_tasks("worker");
  const auto global_batch_size = per_worker_batch_size * num_workers;

  auto scope = strategy.scope();
  keras::Sequential multi_worker_model({
      layers::Input({6}),
      layers::Dense(8, {.activation = "relu"}),
      layers::Dense(3),
  });
  const auto optimizer = ls::optimizers::SGD({.learning_rate = 0.1});
  const auto x = waves({96, 6}, 0.19), y = labels(96, 3);
  const auto dataset = ls::data::Dataset::from_tensor_slices({x, y}).repeat().batch(global_batch_size);
  const auto multi_worker_dataset = strategy.experimental_distribute_dataset(dataset);

  const auto train_step = [&](auto& iterator) {
    const auto step_fn = [&](const keras::Structure& inputs) {
      const auto& [x, y] = inputs;
      ls::GradientTape tape;
      const auto predictions = multi_worker_model(x, {.training = true});
      const auto per_example_loss =
          ls::losses::SparseCategoricalCrossentropy({.from_logits = true, .reduction = "none"})(y, predictions);
      const auto loss = ls::nn::compute_average_loss(per_example_loss, {.global_batch_size = global_batch_size});
      const auto grads = tape.gradient(loss, multi_worker_model.trainable_variables());
      optimizer.apply_gradients(zip(grads, multi_worker_model.trainable_variables()));
      return loss;
    };
    const auto per_replica_losses = strategy.run(step_fn, *iterator);
    ++iterator;
    return strategy.reduce(ls::distribute::ReduceOp::kSum, per_replica_losses);
  };

  ls::Variable epoch(ls::constant(0, ls::int64), {.name = "epoch"});
  ls::Variable step_in_epoch(ls::constant(0, ls::int64), {.name = "step_in_epoch"});
  const ls::train::Checkpoint checkpoint(
      {{"model", multi_worker_model}, {"epoch", epoch}, {"step_in_epoch", step_in_epoch}});
  const auto write_checkpoint_dir = write_filepath(folder + "/ckpt", task_type, task_id);
  ls::train::CheckpointManager checkpoint_manager(checkpoint, write_checkpoint_dir, {.max_to_keep = 1});

  while (int(epoch) < num_epochs) {
    auto iterator = multi_worker_dataset.begin();
    ls::Tensor total_loss = ops::zeros({});
    int num_batches = 0;
    while (int(step_in_epoch) < num_steps_per_epoch) {
      total_loss += train_step(iterator);
      num_batches += 1;
      step_in_epoch.assign_add(1);
    }
    if (task_id == 0) report("train_loss", total_loss / num_batches);
    checkpoint_manager.save();
    epoch.assign_add(1);
    step_in_epoch.assign(0);
  }

  // Back to the last checkpoint.
  const auto latest_checkpoint = ls::train::latest_checkpoint(write_checkpoint_dir);
  checkpoint.restore(latest_checkpoint);
  if (task_id == 0) {
    report("workers", num_workers);
    report("restored epoch", epoch);
    report("restored step", step_in_epoch);
    report("checkpoints", static_cast<double>(checkpoint_manager.checkpoints().size()));
  }
  const std::filesystem::path write_model_path = write_filepath(folder + "/model.keras", task_type, task_id);
  multi_worker_model.save(write_model_path);
  if (!is_chief(task_type, task_id)) std::filesystem::remove_all(write_model_path.parent_path());
}

}  // namespace

void multi_worker_training(const std::string& folder) {
  const auto ports = free_ports(2);
  const ls::Json cluster = {
      {"worker", {"localhost:" + std::to_string(ports[0]), "localhost:" + std::to_string(ports[1])}}};
  const pid_t other = fork();
  const int index = other == 0 ? 1 : 0;
  const ls::Json config = {{"cluster", cluster}, {"task", {{"type", "worker"}, {"index", index}}}};
  setenv("TF_CONFIG", config.dump().c_str(), 1);
  if (other == 0) {
    try {
      train(folder);
      _exit(0);
    } catch (const ls::Error& error) {
      std::fprintf(stderr, "worker 1: %s\n", error.what());
      _exit(1);
    }
  }
  train(folder);
  int status = 0;
  if (waitpid(other, &status, 0) != other || status != 0) throw std::runtime_error("the other worker failed");
}
