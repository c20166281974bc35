// Fits that stop somewhere and continue with another model object, as after a restart.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/files.h"
#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/keras/callbacks/csv_logger.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/random.h"
#include "lockstep/random/seeds.h"
#include "lockstep/saving/backup_and_restore.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/model_checkpoint.h"
#include "lockstep/train/training_checkpoints.h"

namespace lockstep::train {
namespace {

using keras::Callback;
using keras::CallbackArg;
using keras::CallbackPtr;
namespace fs = std::filesystem;

constexpr int kEpochs = 4;
constexpr int kRows = 38, kBatch = 8;  // 5 batches, the last of 6

// Stands for a process that dies: nothing of fit runs after the n-th batch.
class Bomb : public Callback {
 public:
  explicit Bomb(int batches) : left_(batches) {}
  void after_callbacks() override {
    if (--left_ == 0) throw_error(Code::kCancelled, "the end");
  }

 private:
  int left_;
};

using Curves = std::vector<std::pair<std::string, std::vector<double>>>;
Curves curves(const keras::History& history) {
  Curves all;
  for (const auto& [name, values] : history.history) all.emplace_back(name, history[name]);
  return all;
}

struct Outcome {
  std::vector<std::vector<float>> weights;
  Curves history;
  std::string log;
};

// The history that BackupAndRestore leaves has the epochs since the last restart only.
enum class HistoryIs { kWhole, kSinceRestart };
void expect_equal(const Outcome& resumed, const Outcome& whole, const std::string& what,
                  HistoryIs history = HistoryIs::kSinceRestart) {
  EXPECT_EQ(resumed.weights, whole.weights) << what;
  Curves expected = whole.history;
  if (history == HistoryIs::kSinceRestart) {
    const auto epochs = static_cast<std::ptrdiff_t>(resumed.history.at(0).second.size());
    EXPECT_LE(epochs, kEpochs) << what;
    for (auto& [name, values] : expected) values.erase(values.begin(), values.end() - epochs);
  }
  EXPECT_EQ(resumed.history, expected) << what;
  EXPECT_EQ(resumed.log, whole.log) << what;
}

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              fmt::format("resume_{}_{}", getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // A model with all kinds of state: slots, moving averages, random numbers, metrics that build themselves.
  static keras::Model model(bool normalized = true) {
    random::set_random_seed(11);
    std::vector<keras::SequentialItem> items{layers::Input({5}), layers::Dense(6, {.activation = "relu"})};
    if (normalized) items.push_back(layers::BatchNormalization());  // on replicas it sees other batches
    for (keras::SequentialItem item : {keras::SequentialItem(layers::Dropout(0.5)),
                                       keras::SequentialItem(layers::Dense(3, {.activation = "softmax"}))})
      items.push_back(item);
    keras::Sequential model(items);
    model.compile({.optimizer = optimizers::Adam(),
                   .loss = "categorical_crossentropy",
                   .metrics = {"accuracy", metrics::F1Score({.average = "macro"})}});
    return model;
  }
  static keras::ValidationArrays examples(int rows, int seed) {
    std::vector<float> x, y;
    for (int i = 0; i < rows; ++i) {
      for (int k = 0; k < 5; ++k) x.push_back(static_cast<float>((i * 7 + k * 13 + seed) % 11) / 11.0F);
      for (int k = 0; k < 3; ++k) y.push_back((i + seed) % 3 == k ? 1.0F : 0.0F);
    }
    return {Tensor::from_vector(x, Shape{rows, 5}), Tensor::from_vector(y, Shape{rows, 3}), {}};
  }

  using Saver = std::function<CallbackPtr(const keras::Model&)>;
  // Trains until a bomb goes off, or to the end.
  Outcome train(bool dataset, const Saver& saver, int bomb, std::optional<std::int64_t> steps = {}) const {
    const keras::Model trained = model();
    const auto data = examples(kRows, 1);
    keras::FitOptions options{
        .epochs = kEpochs, .verbose = 0, .validation_data = examples(7, 2), .steps_per_epoch = steps};
    options.callbacks = {
        saver ? saver(trained) : std::make_shared<Callback>(),
        callbacks::ReduceLROnPlateau({.factor = 0.5, .patience = 1, .min_delta = 10}),
        callbacks::EarlyStopping({.monitor = "val_accuracy", .patience = 9, .restore_best_weights = true}),
        callbacks::CSVLogger(path("log.csv"))};
    if (bomb > 0) options.callbacks.push_back(std::make_shared<Bomb>(bomb));
    Outcome outcome;
    if (dataset) {
      auto rows = data::Dataset::from_tensor_slices({data.x.leaf(), data.y.leaf()}).shuffle(12).batch(kBatch);
      if (steps) rows = rows.repeat();
      outcome.history = curves(trained.fit(rows, options));
    } else {
      options.batch_size = kBatch;
      outcome.history = curves(trained.fit(data.x, data.y, options));
    }
    for (const Tensor& weight : trained.get_weights()) outcome.weights.push_back(weight.to_vector<float>());
    std::ifstream file(path("log.csv"), std::ios::binary);
    outcome.log.assign(std::istreambuf_iterator<char>(file), {});
    return outcome;
  }

  // Trains with bombs one after the other, then to the end.
  Outcome interrupted(bool dataset, const Saver& saver, const std::vector<int>& bombs,
                      std::optional<std::int64_t> steps = {}) const {
    for (const int bomb : bombs) EXPECT_THROW(train(dataset, saver, bomb, steps), Error);
    return train(dataset, saver, 0, steps);
  }

  fs::path folder_;
};

TEST_F(ResumeTest, FromAnyBatchOfArraysAndDatasets) {
  for (const bool dataset : {false, true}) {
    const Outcome whole = train(dataset, {}, 0);
    ASSERT_EQ(whole.history.size(), 7u);  // with val_ and learning_rate
    for (int bomb = 1; bomb <= 6 * kEpochs; bomb += 4) {
      const std::string run = path(fmt::format("run{}{}", dataset, bomb));
      const Saver backup = [&](const keras::Model&) { return callbacks::BackupAndRestore(run, {.save_freq = 2}); };
      expect_equal(interrupted(dataset, backup, {bomb}), whole,
                   fmt::format("dataset {}, backup, stopped after {}", dataset, bomb));
      EXPECT_FALSE(fs::exists(run));
      const Saver checkpoints = [&](const keras::Model& model) {
        return std::make_shared<TrainingCheckpoints>(model, run, TrainingCheckpointsOptions{.every_batches = 2});
      };
      expect_equal(interrupted(dataset, checkpoints, {bomb + 1}), whole,
                   fmt::format("dataset {}, stopped after {}", dataset, bomb + 1), HistoryIs::kWhole);
    }
  }
}

TEST_F(ResumeTest, FromBackupsOfEpochsAndAgainAndAgain) {
  const Outcome whole = train(true, {}, 0);
  const Saver backup = [&](const keras::Model&) {
    return callbacks::BackupAndRestore(path("run"), {.double_checkpoint = true});
  };
  const Outcome resumed = interrupted(true, backup, {3, 8, 2, 7, 6});
  expect_equal(resumed, whole, "five stops");
  EXPECT_LT(resumed.history[0].second.size(), whole.history[0].second.size());
}

TEST_F(ResumeTest, AnIteratorThatContinuesOverEpochs) {
  const Outcome whole = train(true, {}, 0, 3);
  for (const int bomb : {3, 6, 9}) {
    const Saver backup = [&](const keras::Model&) {
      return callbacks::BackupAndRestore(path(fmt::format("run{}", bomb)), {.save_freq = 1});
    };
    expect_equal(interrupted(true, backup, {bomb, 2}, 3), whole, fmt::format("stopped after {}", bomb));
  }
}

// Runs fit with checkpoints of the model it trains.
Curves fit_with_checkpoints(const keras::Model& model, const keras::ValidationArrays& data, const std::string& folder,
                            int epochs, int bomb, std::optional<int> every = {}, std::string* resumed = nullptr) {
  TrainingCheckpointsOptions options{.every_batches = every};
  options.on_resume = [&](const std::string& path, const keras::TrainingState& state) {
    if (resumed) *resumed = fmt::format("{} {} {}", fs::path(path).filename().string(), state.epoch(), state.batches());
  };
  keras::FitOptions fit{.batch_size = kBatch, .epochs = epochs, .verbose = 0};
  fit.callbacks = {std::make_shared<TrainingCheckpoints>(model, folder, options)};
  if (bomb > 0) fit.callbacks.push_back(std::make_shared<Bomb>(bomb));
  return curves(model.fit(data.x, data.y, fit));
}

TEST_F(ResumeTest, CheckpointsHoldTheWholeFit) {
  const auto data = examples(kRows, 1);
  const auto weights = [](const keras::Model& model) {
    std::vector<std::vector<float>> all;
    for (const Tensor& weight : model.get_weights()) all.push_back(weight.to_vector<float>());
    return all;
  };
  const keras::Model straight = model();
  const auto history = fit_with_checkpoints(straight, data, path("a"), 3, 0, 2);
  std::string resumed;
  EXPECT_THROW(fit_with_checkpoints(model(), data, path("b"), 3, 10, 2), Error);
  const keras::Model again = model();
  EXPECT_EQ(fit_with_checkpoints(again, data, path("b"), 3, 0, 2, &resumed), history);
  EXPECT_EQ(resumed, "ckpt-5 1 3");  // after batches 2 and 4 of epoch 1, its end, batches 1 and 3 of epoch 2
  EXPECT_EQ(weights(again), weights(straight));
  // A finished fit returns its history again, and one with more epochs continues.
  const keras::Model over = model();
  EXPECT_EQ(fit_with_checkpoints(over, data, path("b"), 3, 0), history);
  EXPECT_EQ(weights(over), weights(straight));
  EXPECT_EQ(fit_with_checkpoints(model(), data, path("b"), 5, 0)[0].second.size(), 5u);
  // On two replicas: the same to rounding, each example once.
  const auto plain = fit_with_checkpoints(model(false), data, path("p"), 3, 0);
  distribute::MirroredStrategy two({"/cpu:0", "/cpu:1"});
  EXPECT_THROW(fit_with_checkpoints(model(false), data, path("c"), 3, 8, 2), Error);
  const auto scope = two.scope();
  const auto spread = fit_with_checkpoints(model(false), data, path("c"), 3, 0, 2);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_THAT(spread[i].second, ::testing::Pointwise(::testing::DoubleNear(1e-4), plain[i].second)) << plain[i].first;
  }
}

TEST_F(ResumeTest, OtherDataWithinAnEpochIsRefused) {
  EXPECT_THROW(fit_with_checkpoints(model(), examples(kRows, 1), path("run"), 2, 2, 2), Error);
  try {
    fit_with_checkpoints(model(), examples(20, 1), path("run"), 2, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("found 20 samples, expected 38"));
  }
}

TEST_F(ResumeTest, ADamagedCheckpointIsPassedOver) {
  const auto data = examples(kRows, 1);
  const auto history = fit_with_checkpoints(model(), data, path("whole"), 3, 0);
  EXPECT_THROW(fit_with_checkpoints(model(), data, path("run"), 3, 12), Error);
  std::fstream file(formats::bundle_data_path(path("run/ckpt-2"), 0, 1),
                    std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(100);
  file.put('\x55');
  file.close();
  std::string resumed;
  EXPECT_EQ(fit_with_checkpoints(model(), data, path("run"), 3, 0, {}, &resumed), history);
  EXPECT_EQ(resumed, "ckpt-1 1 0");
}

TEST_F(ResumeTest, MetadataBelongsToItsCheckpoint) {
  const auto variable = distribute::Variable::create(Tensor::scalar(1.0F));
  const Checkpoint checkpoint({{"v", variable}});
  EXPECT_EQ(checkpoint_metadata(checkpoint.save(path("m"))), std::vector<Json>{});
  const Json metadata{{"loss", {0.5, NAN}}, {"note", "größer"}};
  const auto saved = checkpoint_metadata(checkpoint.save(path("m"), {.metadata = metadata}));
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(dump_json(saved[0]), dump_json(metadata));
  checkpoint.restore(path("m-2")).assert_consumed();
}

// Workers that each read their own files, then others in another number from the middle of the epoch.
TEST_F(ResumeTest, WorkersOfAnyNumberResumeWithinAnEpochOfFiles) {
  std::vector<std::string> files;
  for (int file = 0, row = 0; file < 4; ++file) {
    files.push_back(path(fmt::format("part-{}", file)));
    std::ofstream out(files.back());
    for (int line = 0; line < 5 + file; ++line) out << row++ << "\n";
  }
  const auto fit = [&](int workers, int bomb) {
    std::vector<float> weights;
    collectives::run_ranks(workers, [&](collectives::Communicator& group) {
      distribute::MultiWorkerMirroredStrategy strategy(
          collectives::CommunicatorPtr(collectives::CommunicatorPtr(), &group));
      const auto scope = strategy.scope();
      const keras::Model model = keras::Sequential(
          {layers::Input({1}), layers::Dense(1, {.kernel_initializer = "ones", .name = "dense"})}, "line");
      model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1, .momentum = 0.5}), .loss = "mse"});
      data::Options options;
      options.experimental_distribute.auto_shard_policy = data::AutoShardPolicy::kFile;
      const auto pair = [](const data::Element& line) -> data::Element {
        const float x = std::stof(line.leaf().string_values()[0]) / 30.0F;
        return {Tensor::from_vector<float>({x}), Tensor::from_vector<float>({x * x})};
      };
      const auto rows = data::TextLineDataset(files).map(pair).shuffle(5, 3).batch(4).with_options(options);
      TrainingCheckpointsOptions saving{.every_batches = 1, .workers = strategy.workers()};
      std::vector<CallbackArg> callbacks{std::make_shared<TrainingCheckpoints>(model, path("run"), saving)};
      if (bomb > 0) callbacks.push_back(std::make_shared<Bomb>(bomb));
      model.fit(rows, {.epochs = 1, .verbose = 0, .callbacks = callbacks});
      if (group.rank() == 0) {
        for (const Tensor& weight : model.get_weights()) weights.push_back(weight.to_vector<float>()[0]);
      }
    });
    return weights;
  };
  for (const auto& [before, after] : {std::pair{2, 3}, std::pair{4, 2}, std::pair{3, 4}}) {
    fs::remove_all(path("run"));
    const auto whole = fit(before, 0);
    fs::remove_all(path("run"));
    EXPECT_THROW(fit(before, 2), Error);
    EXPECT_THROW(fit(after, 2), Error);
    const auto resumed = fit(after, 0);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(resumed[i], whole[i], 1e-6) << before << " -> " << after;
  }
}

// Workers with parts of the optimizer's state write the same files as workers with all of it: archives within an epoch,
// of a callback and of a call, backups, from which another number of workers continues, and what the chief's callback
// reads alone.
TEST_F(ResumeTest, WorkersWithPartsOfTheStateSaveAllOfIt) {
  const auto bytes_of = [](const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  std::vector<float> x(24 * 200), y(24);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 101.0F;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 5);
  const auto fit = [&](int workers, bool parts, const std::string& folder, int bomb, bool reads) {
    std::vector<std::vector<float>> weights;
    fs::create_directories(path(folder));
    const auto in = [&](const std::string& name) { return path(folder + "/" + name); };
    collectives::run_ranks(workers, [&](collectives::Communicator& group) {
      distribute::MultiWorkerMirroredStrategy strategy(
          collectives::CommunicatorPtr(collectives::CommunicatorPtr(), &group), {"/cpu:0"},
          {.shard_optimizer_state = parts});
      const auto scope = strategy.scope();
      const keras::Model model =
          keras::Sequential({layers::Input({200}), layers::Dense(200, {.kernel_initializer = "zeros", .name = "wide"}),
                             layers::Dense(1, {.kernel_initializer = "ones", .name = "out"})},
                            "m");
      model.compile({.optimizer = optimizers::Adam({.learning_rate = 0.01, .name = "adam"}), .loss = "mse"});
      std::vector<CallbackArg> all{
          callbacks::ModelCheckpoint({.filepath = in("m-{epoch}-{batch}.keras"), .save_freq = 2}),
          callbacks::BackupAndRestore(in("backup"), {.save_freq = 2, .delete_checkpoint = false})};
      std::vector<float> seen;
      if (reads) {
        all.push_back(keras::LambdaCallback({.on_epoch_end = [&](int, const keras::Logs&) {
          if (group.rank() != 0) return;
          for (const auto& slot : model.optimizer()->variables())
            seen.push_back(ops::cast(slot->numpy(), DType::kFloat32).to_vector<float>()[0]);
        }}));
      }
      if (bomb > 0) all.push_back(std::make_shared<Bomb>(bomb));
      model.fit(Tensor::from_vector(x, Shape{24, 200}), Tensor::from_vector(y, Shape{24, 1}),
                {.batch_size = 8, .epochs = 2, .verbose = 0, .callbacks = all, .shuffle = false});
      const auto slots = model.optimizer()->variables();
      if (parts) {
        EXPECT_TRUE(std::any_of(slots.begin(), slots.end(),
                                [](const auto& slot) { return optimizers::slot_range(*slot) != nullptr; }));
      }
      saving::save_model(model, in("end.keras"), {.workers = strategy.workers()});
      if (group.rank() == 0) {
        for (const Tensor& weight : model.get_weights()) weights.push_back(weight.to_vector<float>());
        weights.push_back(seen);
      }
    });
    return weights;
  };
  const auto whole = fit(3, false, "whole", 0, true), parts = fit(3, true, "parts", 0, true);
  EXPECT_EQ(parts, whole);
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(path("whole"))) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file()) continue;
    const auto saved = formats::KerasArchive::open(path("parts/" + name));
    const auto expected = formats::KerasArchive::open(entry.path().string());
    ASSERT_EQ(saved.weights().list().size(), 14u) << name;  // 4 weights, step and rate, 8 slots
    for (const formats::TensorInfo& info : expected.weights().list()) {
      const auto found = saved.weights().read(info.name), wanted = expected.weights().read(info.name);
      EXPECT_TRUE(std::ranges::equal(found.bytes, wanted.bytes)) << name << " " << info.name;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 4);
  EXPECT_TRUE(bytes_of(path("parts/backup/latest.weights.h5")) == bytes_of(path("whole/backup/latest.weights.h5")));
  EXPECT_THROW(fit(3, true, "stopped", 3, false), Error);
  const auto resumed = fit(2, true, "stopped", 0, false);
  for (std::size_t i = 0; i + 1 < resumed.size(); ++i) {
    for (std::size_t k = 0; k < resumed[i].size(); ++k) EXPECT_NEAR(resumed[i][k], whole[i][k], 1e-4);
  }
}

TEST(RandomState, LaterDrawsAreTheSame) {
  random::set_random_seed(5);
  const auto draw = [] {
    return std::vector<std::int64_t>{random::make_default_seed(), random::numpy_randint(1000),
                                     random::op_seeds({}).second, random::draw_seed({}).first,
                                     random::draw_seed({}).second};
  };
  draw();
  const Json state = Json::parse(random::save_state().dump());
  const auto expected = draw();
  EXPECT_NE(draw(), expected);
  random::restore_state(state);
  EXPECT_EQ(draw(), expected);
  Json broken = state;
  broken["numpy"] = std::vector<Json>(state["numpy"].begin() + 1, state["numpy"].end());
  EXPECT_THROW(random::restore_state(broken), Error);
}

}  // namespace
}  // namespace lockstep::train
