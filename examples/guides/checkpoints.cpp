// Training checkpoints: model, optimizer, step and position in the data are saved, kept, restored, and read in part.
#include "guide.h"

namespace {

ls::data::Dataset toy_dataset() {
  const auto inputs = waves({10, 1}, 0.5);
  const auto targets = inputs * 5.0 + ls::ops::reshape(ls::ops::range(5, ls::DType::kFloat32), {1, 5});
  return ls::data::Dataset::from_tensor_slices({inputs, targets}).repeat().batch(2);
}

ls::keras::Model make_net() {
  return ls::keras::Sequential({ls::layers::Input({1}), ls::layers::Dense(5, {.name = "l1"})});
}

ls::Tensor train_step(const ls::keras::Model& net, const ls::Tensor& x, const ls::Tensor& y,
                      const ls::optimizers::OptimizerPtr& optimizer) {
  ls::GradientTape tape;
  const ls::Tensor output = net(x);
  const auto loss = ls::ops::reduce_mean(ls::ops::abs(output - y));
  const auto variables = net.trainable_variables();
  const auto gradients = tape.gradient(loss, variables);
  optimizer.apply_gradients(zip(gradients, variables));
  return loss;
}

std::size_t train_and_checkpoint(const ls::keras::Model& net, const ls::optimizers::OptimizerPtr& optimizer,
                                 const std::string& directory, int steps) {
  optimizer.build(net.trainable_variables());
  ls::Variable step(1);
  const auto iterator = std::make_shared<ls::data::DatasetIterator>(toy_dataset().make_iterator());
  const ls::train::Checkpoint checkpoint(
      {{"step", step}, {"optimizer", optimizer}, {"net", net}, {"iterator", iterator}});
  ls::train::CheckpointManager manager(checkpoint, directory, {.max_to_keep = 3});
  checkpoint.restore(manager.latest_checkpoint());
  report("restored", manager.latest_checkpoint().has_value());
  for (int i = 0; i < steps; ++i) {
    const auto [x, y] = *iterator->next();
    const auto loss = train_step(net, x, y, optimizer);
    step.assign_add(1);
    if (int(step) % 4 == 0) {
      manager.save();
      report("step", step);
      report("loss", loss);
    }
  }
  return manager.checkpoints().size();
}

}  // namespace

void checkpoints(const std::string& folder) {
  ls::random::set_random_seed(26);
  auto net = make_net();
  train_and_checkpoint(net, ls::optimizers::Adam(0.1), folder + "/tf_ckpts", 18);

  // A new model, optimizer and iterator continue where the last checkpoint was saved.
  net = make_net();
  const auto kept = train_and_checkpoint(net, ls::optimizers::Adam(0.1), folder + "/tf_ckpts", 10);
  report("kept", kept);

  // Only the model.
  const auto latest = ls::train::latest_checkpoint(folder + "/tf_ckpts");
  const auto fresh = make_net();
  const auto status = ls::train::Checkpoint({{"net", fresh}}).restore(latest);
  status.assert_existing_objects_matched();
  status.expect_partial();
  report("model", ls::ops::reduce_sum(fresh(waves({4, 1}, 0.9))));

  // Under a strategy the same file gives all copies their values.
  ls::distribute::MirroredStrategy strategy({"/cpu:0", "/cpu:1"});
  auto scope = strategy.scope();
  const auto mirrored = make_net();
  ls::train::Checkpoint({{"net", mirrored}}).restore(latest).expect_partial();
  const auto sums = strategy.run([&] { return ls::ops::reduce_sum(mirrored(waves({4, 1}, 0.9))); });
  for (const auto& value : strategy.experimental_local_results(sums)) report("replica", value);
  fresh.save(folder + "/model.keras");
}
