// Save and load a model using a distribution strategy.
//
// Trains a small convolutional network on Fashion-MNIST under MirroredStrategy, saves it in three ways, and loads
// each under another strategy, or under none. Run it with no arguments:
//
//   build/bin/save_and_load [output folder; default: a temporary one]
//
// Every step prints what it does and its results; the program fails if a result differs from the expected one.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <lockstep/lockstep.h>

namespace ls = lockstep;
namespace fs = std::filesystem;

namespace {

constexpr int kBatchSizePerReplica = 64;
constexpr int kBufferSize = 10'000;

struct Data {
  ls::data::Dataset train;
  ls::data::Dataset eval;
};

// Images as floats between 0 and 1, shuffled, in global batches: each replica gets its share of every batch.
Data get_data(const ls::distribute::Strategy& strategy) {
  const auto [train, test] = ls::datasets::fashion_mnist();
  const int batch_size = kBatchSizePerReplica * strategy.num_replicas_in_sync();
  const auto scale = [](const ls::data::Element& element) {
    return ls::data::Element{ls::ops::cast(element[0], ls::DType::kFloat32) / 255.0, element[1]};
  };
  return {
      ls::data::Dataset::from_tensor_slices({train.images, train.labels})
          .map(scale)
          .cache()
          .shuffle(kBufferSize)
          .batch(batch_size),
      ls::data::Dataset::from_tensor_slices({test.images, test.labels}).map(scale).batch(batch_size),
  };
}

// Variables made inside the scope have one copy on each device.
ls::keras::Model get_model(ls::distribute::Strategy& strategy) {
  auto scope = strategy.scope();
  ls::keras::Sequential model({
      ls::layers::Input({28, 28, 1}),
      ls::layers::Conv2D(32, 3, {.activation = "relu"}),
      ls::layers::MaxPooling2D(),
      ls::layers::Flatten(),
      ls::layers::Dense(64, {.activation = "relu"}),
      ls::layers::Dense(10),
  });
  model.compile({.optimizer = ls::optimizers::Adam(),
                 .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                 .metrics = {ls::metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
  return model;
}

// A model written as a class: its inputs are known only once it has been called.
class SubclassedModel : public ls::keras::Model {
 public:
  SubclassedModel()
      : Model("SubclassedModel"),
        flatten(track("flatten", ls::layers::Flatten())),
        dense(track("dense", ls::layers::Dense(10))) {}
  ls::keras::Structure call(const ls::keras::Structure& inputs) override { return dense(flatten(inputs)); }
  ls::keras::LayerHandle flatten, dense;
};

void title(const char* text) { std::printf("\n== %s\n", text); }

// Whether all elements agree to within `tolerance`, relative to the largest.
bool all_close(const ls::Tensor& a, const ls::Tensor& b, double tolerance) {
  const double scale = ls::ops::reduce_max(ls::ops::abs(a)).item<double>();
  return ls::ops::reduce_max(ls::ops::abs(a - b)).item<double>() <= tolerance * std::max(scale, 1.0);
}

// The same names and values, to the rounding of a sum over two replicas instead of one.
bool agree(const ls::keras::Results& a, const ls::keras::Results& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.at(i).first != b.at(i).first || std::abs(a.at(i).second - b.at(i).second) > 1e-5) return false;
  }
  return true;
}

void expect(bool ok, const char* what) {
  std::printf("   %s: %s\n", what, ok ? "yes" : "NO");
  if (!ok) ls::throw_internal(std::string("check failed: ") + what);
}

}  // namespace

int main(int argc, char** argv) try {
  const fs::path folder = argc > 1 ? fs::path(argv[1]) : fs::temp_directory_path() / "lockstep-save-and-load";
  fs::create_directories(folder);
  ls::random::set_random_seed(42);

  title("Train under MirroredStrategy");
  ls::distribute::MirroredStrategy mirrored({"/cpu:0", "/cpu:1"});
  std::printf("   number of replicas: %d\n", mirrored.num_replicas_in_sync());
  auto [train, eval] = get_data(mirrored);
  auto model = get_model(mirrored);
  model.summary();
  model.fit(train, {.epochs = 2});
  const auto trained = model.evaluate(eval);

  title("Save it with Keras's API, load it without a strategy");
  const std::string keras_path = folder / "my_model.keras";
  model.save(keras_path);
  auto restored = ls::keras::load_model(keras_path);
  expect(agree(restored.evaluate(eval, {.verbose = 0}), trained),
         "the restored model evaluates to the same loss and accuracy");
  std::printf("   it is still compiled: training continues\n");
  restored.fit(train, {.epochs = 1});

  title("Load it under OneDeviceStrategy");
  ls::distribute::OneDeviceStrategy one_device("/cpu:0");
  {
    auto scope = one_device.scope();
    auto on_one_device = ls::keras::load_model(keras_path);
    on_one_device.fit(train, {.epochs = 1});
  }

  title("Save it as a SavedModel, load it with the low-level API");
  const std::string saved_model_path = folder / "tf_save";
  ls::saved_model::save(model, saved_model_path);
  const auto predict_dataset = eval.map([](const ls::data::Element& element) { return ls::data::Element{element[0]}; });
  {
    auto loaded = ls::saved_model::load(saved_model_path);
    auto inference = loaded.signatures("serving_default");
    const std::string input = inference.input_names().front();
    const auto batch = *predict_dataset.begin();
    const auto scores = inference({{input, batch[0]}}).begin()->second;
    std::printf("   signature 'serving_default', first batch: scores of shape %s\n",
                scores.shape().to_string().c_str());
    expect(all_close(scores, model.predict_on_batch(batch[0]).leaf(), 1e-5),
           "the signature gives the model's own predictions");
  }

  title("Inference with the loaded model under another MirroredStrategy");
  {
    ls::distribute::MirroredStrategy another({"/cpu:0", "/cpu:1"});
    auto scope = another.scope();
    auto loaded = ls::saved_model::load(saved_model_path);
    auto inference = loaded.signatures("serving_default");
    const std::string input = inference.input_names().front();
    std::int64_t images = 0;
    for (const auto& batch : another.experimental_distribute_dataset(predict_dataset)) {
      const auto scores = another.run(
          [&](const ls::data::Element& element) {
            return inference({{input, element[0]}}).begin()->second;
          },
          batch);
      for (const auto& part : another.experimental_local_results(scores)) images += part.dim(0);
    }
    std::printf("   images scored by two replicas: %lld\n", static_cast<long long>(images));
    expect(images == 10'000, "every image was scored once");
  }

  title("Use the loaded model as a layer of another, and train that");
  {
    ls::distribute::MirroredStrategy another({"/cpu:0", "/cpu:1"});
    auto scope = another.scope();
    auto loaded = ls::saved_model::load(saved_model_path);
    auto x = ls::layers::Input({28, 28, 1}, {.name = "input_x"});
    auto hub = ls::saved_model::KerasLayer(loaded, {.trainable = true});
    ls::keras::Model wrapped(x, hub(x));
    wrapped.compile({.optimizer = ls::optimizers::Adam(),
                     .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                     .metrics = {ls::metrics::SparseCategoricalAccuracy({.name = "accuracy"})}});
    wrapped.fit(train, {.epochs = 1});
  }

  title("Mix: saved by Keras's API as a SavedModel, loaded by the low-level one, from this machine's disk");
  {
    const std::string path = folder / "mixed";
    ls::saved_model::save(restored, path, {.experimental_io_device = "/job:localhost"});
    auto scope = mirrored.scope();
    auto loaded = ls::saved_model::load(path, {.experimental_io_device = "/job:localhost"});
    expect(!loaded.trainable_variables().empty(), "the loaded model has variables to train");
  }

  title("A subclassed model");
  {
    SubclassedModel subclassed;
    expect(!subclassed.save_spec(), "before its first call its inputs are not known (save_spec() is empty)");
    try {
      ls::saved_model::save(subclassed, folder / "subclassed");
      expect(false, "saving it then is refused");
    } catch (const ls::Error& error) {
      expect(error.code() == ls::Code::kFailedPrecondition, "saving it then is refused");
      std::printf("   %s\n", error.what());
    }
    subclassed.compile({.optimizer = ls::optimizers::SGD(0.1),
                        .loss = ls::losses::SparseCategoricalCrossentropy({.from_logits = true})});
    subclassed.fit(train, {.epochs = 1});
    ls::saved_model::save(subclassed, folder / "subclassed");
    std::printf("   after fit it is saved\n");
  }

  title("A custom training loop, with checkpoints");
  {
    // Trains from step `from` to step `to`.
    const auto small = get_data(mirrored).eval.take(6);
    const auto run = [&](ls::keras::Model& net, const ls::optimizers::OptimizerPtr& optimizer, int from, int to) {
      auto scope = mirrored.scope();
      int step = 0;
      for (const auto& batch : mirrored.experimental_distribute_dataset(small)) {
        if (step++ < from) continue;
        if (step > to) break;
        const auto losses = mirrored.run(
            [&](const ls::data::Element& element) {
              ls::GradientTape tape;
              const auto logits = net(element[0], {.training = true}).leaf();
              const auto each = ls::ops::sparse_softmax_cross_entropy_with_logits(
                  logits, ls::ops::cast(element[1], ls::DType::kInt64));
              const auto loss = ls::ops::reduce_sum(each) / (kBatchSizePerReplica * 2.0);
              optimizer.apply(tape.gradient(loss, net.trainable_weights()), net.trainable_weights());
              return ls::ops::stop_gradient(loss);
            },
            batch);
        const auto total = mirrored.reduce(ls::distribute::ReduceOp::kSum, losses, std::nullopt);
        std::printf("   step %d: loss %.4f\n", step, total.item<double>());
      }
    };
    const std::string directory = folder / "checkpoints";
    fs::remove_all(directory);
    const auto fresh = [&] {
      ls::random::set_random_seed(7);
      auto net = get_model(mirrored);
      auto scope = mirrored.scope();
      auto optimizer = ls::optimizers::Adam();
      optimizer.build(net.trainable_weights());
      return std::pair(net, optimizer);
    };
    auto [whole, whole_optimizer] = fresh();
    run(whole, whole_optimizer, 0, 6);
    {
      auto [first, first_optimizer] = fresh();
      ls::train::CheckpointManager manager(ls::train::Checkpoint(first, first_optimizer), directory,
                                           {.max_to_keep = 5});
      expect(!manager.restore_or_initialize(), "an empty folder has nothing to restore");
      run(first, first_optimizer, 0, 3);
      manager.save();
    }
    auto [second, second_optimizer] = fresh();
    ls::train::CheckpointManager manager(ls::train::Checkpoint(second, second_optimizer), directory,
                                         {.max_to_keep = 5});
    expect(manager.restore_or_initialize().has_value(), "the checkpoint is restored");
    manager.restore_status()->assert_consumed();
    run(second, second_optimizer, 3, 6);
    bool equal = true;
    const auto a = whole.get_weights(), b = second.get_weights();
    for (std::size_t i = 0; i < a.size(); ++i) equal = equal && a[i].to_vector<float>() == b[i].to_vector<float>();
    expect(equal, "stopped and resumed training equals uninterrupted training bit for bit");
  }

  std::printf("\nAll checks passed. The files are in %s\n", folder.c_str());
  return 0;
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
