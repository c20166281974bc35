// Each kind of save, killed and failed at each of its calls to the disk: the artifact read afterwards is the old or the
// new state, whole, and after the next save nothing else is left.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <regex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/faulty_file_system_internal.h"
#include "lockstep/io/scoped_file_system_internal.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/random/seeds.h"
#include "lockstep/saving/backup_and_restore.h"
#include "lockstep/saving/keras_export.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/saved_model.h"
#include "lockstep/train/training_checkpoints.h"

namespace lockstep {
namespace {

using collectives::Communicator;
using collectives::CommunicatorPtr;
using Fault = io::FaultyFileSystem::Fault;
namespace fs = std::filesystem;

constexpr int kMostCalls = 400;  // of one save
constexpr int kRanks = 3;
thread_local int t_rank = -1;

keras::Model make_model() {
  random::set_random_seed(3);
  keras::Sequential model(
      {layers::Input({3}), layers::Dense(4, {.activation = "relu"}), layers::Dropout(0.25), layers::Dense(2)});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.05, .momentum = 0.9}), .loss = "mse"});
  model.trainer().build_optimizer();
  return model;
}

std::vector<distribute::VariablePtr> variables_of(const keras::Model& model) {
  auto all = model.weights();
  for (const auto& slot : model.optimizer()->variables()) {
    if (slot->dtype() == DType::kFloat32 && slot->shape().rank() > 0) all.push_back(slot);
  }
  return all;
}

// A state is one number, in every element.
keras::Model model_of(int value) {
  const keras::Model model = make_model();
  for (const auto& variable : variables_of(model)) variable->assign(Tensor::full(variable->shape(), value));
  return model;
}

int value_of(const std::vector<distribute::VariablePtr>& variables) {
  std::vector<float> all;
  for (const auto& variable : variables) {
    const auto part = variable->numpy().to_vector<float>();
    all.insert(all.end(), part.begin(), part.end());
  }
  for (const float each : all) {
    if (each != all.front()) return -1;  // parts of two states
  }
  return static_cast<int>(all.at(0));
}

CommunicatorPtr borrowed(Communicator* group) { return group ? CommunicatorPtr(CommunicatorPtr(), group) : nullptr; }

// A kind of save. Each function runs in a separate process: all that it knows of the past is in the folder.
struct Kind {
  std::string name;
  std::function<void(const fs::path& folder, int value, Communicator* group)> save;
  std::function<int(const fs::path& folder)> load;  // 0: there is nothing
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

Kind manager_kind(bool async) {
  const auto manager_of = [](const keras::Model& model, const fs::path& folder, Communicator* group) {
    return train::CheckpointManager(train::Checkpoint(model, model.optimizer()), folder / "run",
                                    {.max_to_keep = 1, .workers = borrowed(group)});
  };
  return {async ? "async_manager" : "manager",
          [=](const fs::path& folder, int value, Communicator* group) {
            const keras::Model model = model_of(value);
            auto manager = manager_of(model, folder, group);
            manager.restore_or_initialize();
            for (const auto& variable : variables_of(model)) variable->assign(Tensor::full(variable->shape(), value));
            manager.save({}, true, {.enable_async = async});
            manager.wait();
          },
          [=](const fs::path& folder) {
            const keras::Model model = model_of(0);
            auto manager = manager_of(model, folder, nullptr);
            return manager.restore_or_initialize() ? value_of(variables_of(model)) : 0;
          }};
}

Kind checkpoint_kind() {
  return {"checkpoint",
          [](const fs::path& folder, int value, Communicator* group) {
            const keras::Model model = model_of(value);
            train::Checkpoint(model, model.optimizer()).write(folder / "ckpt", {.workers = borrowed(group)});
          },
          [](const fs::path& folder) {
            if (!fs::exists(folder / "ckpt.index")) return 0;
            const keras::Model model = model_of(0);
            train::Checkpoint(model, model.optimizer()).read(folder / "ckpt").assert_consumed();
            return value_of(variables_of(model));
          }};
}

Kind file_kind(const std::string& file) {
  return {fmt::format("file_{}", file.substr(file.rfind('.') + 1)),
          [file](const fs::path& folder, int value, Communicator* group) {
            saving::save_model(model_of(value), folder / file, {.workers = borrowed(group)});
          },
          [file](const fs::path& folder) {
            return fs::exists(folder / file) ? value_of(variables_of(saving::load_model(folder / file))) : 0;
          }};
}

Kind weights_kind() {
  return {"weights",
          [](const fs::path& folder, int value, Communicator*) {
            saving::save_weights(*model_of(value).impl(), folder / "m.weights.h5");
          },
          [](const fs::path& folder) {
            if (!fs::exists(folder / "m.weights.h5")) return 0;
            const keras::Model model = model_of(0);
            saving::load_weights(*model.impl(), folder / "m.weights.h5");
            return value_of(variables_of(model));
          }};
}

Kind saved_model_kind() {
  return {"saved_model",
          [](const fs::path& folder, int value, Communicator* group) {
            saved_model::save(model_of(value), folder / "served", {.workers = borrowed(group)});
          },
          [](const fs::path& folder) {
            if (!fs::exists(folder / "served")) return 0;
            std::vector<distribute::VariablePtr> weights;
            const saved_model::LoadedModel loaded = saved_model::load(folder / "served");
            for (const auto& variable : loaded.variables()) {
              if (variable->dtype() == DType::kFloat32) weights.push_back(variable);
            }
            return value_of(weights);
          }};
}

class Interrupted : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '_');
    // In memory if possible: thousands of syncs would take minutes on a disk.
    const fs::path memory = "/dev/shm";
    folder_ = (::access(memory.c_str(), W_OK) == 0 ? memory : fs::path(::testing::TempDir())) /
              fmt::format("lockstep-{}-{}", ::getpid(), name);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    std::cout << kills_ << " interrupted saves\n";
  }

  void clear_folder() const {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  // The contents of the folder, except numbers.
  std::vector<std::string> shapes() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      all.push_back(std::regex_replace(entry.path().lexically_relative(folder_).string(), std::regex("[0-9]+"), "#"));
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  // Temporary files are known by their process; the one that was killed here still runs.
  void bury() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) all.push_back(entry.path());
    std::sort(all.rbegin(), all.rend());
    for (const fs::path& path : all) {
      const std::string name = path.filename();
      if (io::temporary_target(name).empty()) continue;
      fs::rename(path,
                 path.parent_path() / std::regex_replace(name, std::regex("-[0-9]+(-[0-9]+(-old)?(\\..*)?)$"), "-1$1"));
    }
  }

  // `save` of the second state is interrupted by `fault` at each call in turn.
  void interrupt(Fault fault, const std::function<void(io::FaultyFileSystem&, int value)>& save, const Kind& kind) {
    const auto undisturbed = [&](int value) {
      io::FaultyFileSystem none(io::posix_file_system(), Fault::kFail, 0);
      save(none, value);
    };
    clear_folder();
    for (const int value : {1, 2, 3}) undisturbed(value);
    const auto expected = shapes();
    for (int at = 1;; ++at) {
      ASSERT_LT(at, kMostCalls);
      clear_folder();
      undisturbed(1);
      const auto before = shapes();
      bool failed = false;
      io::FaultyFileSystem faulty(io::posix_file_system(), fault, at);
      try {
        const io::ScopedFileSystem scoped(faulty);
        save(faulty, 2);
      } catch (const Error&) {
        failed = true;
      }
      if (!faulty.struck()) break;
      ++kills_;
      const std::string where = fmt::format("{}: call {} of fault {}", kind.name, at, static_cast<int>(fault));
      const int found = kind.load(folder_);
      ASSERT_TRUE(found == 2 || (found == 1 && failed)) << where << " gave " << found;
      // A process that survives removes its unfinished files; failures of that removal are not checked here.
      if (fault == Fault::kFail && found == 1) {
        EXPECT_EQ(shapes(), before) << where;
      }
      bury();
      undisturbed(3);
      ASSERT_EQ(kind.load(folder_), 3) << where;
      ASSERT_EQ(shapes(), expected) << where;
    }
  }

  fs::path folder_;
  int kills_ = 0;
};

class InterruptedSaves : public Interrupted, public ::testing::WithParamInterface<Kind> {};

TEST_P(InterruptedSaves, OfOneProcess) {
  for (const Fault fault : {Fault::kDie, Fault::kFail, Fault::kTear}) {
    interrupt(
        fault, [&](io::FaultyFileSystem&, int value) { GetParam().save(folder_, value, nullptr); }, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, InterruptedSaves,
                         ::testing::Values(manager_kind(false), manager_kind(true), checkpoint_kind(),
                                           file_kind("m.keras"), file_kind("m.h5"), weights_kind(), saved_model_kind()),
                         [](const auto& info) { return info.param.name; });

class InterruptedSavesTogether : public InterruptedSaves {};

// All ranks are killed at once: the machine, or the job.
TEST_P(InterruptedSavesTogether, OfAllRanks) {
  for (const Fault fault : {Fault::kDie, Fault::kFail}) {
    interrupt(
        fault,
        [&](io::FaultyFileSystem&, int value) {
          collectives::run_ranks(kRanks, [&](Communicator& group) { GetParam().save(folder_, value, &group); });
        },
        GetParam());
  }
}

// One rank is killed, the others learn of it and end by themselves.
TEST_P(InterruptedSavesTogether, OfOneRank) {
  for (int victim = 0; victim < kRanks; ++victim) {
    interrupt(
        Fault::kDie,
        [&](io::FaultyFileSystem& files, int value) {
          files.set_scope([&] { return t_rank == victim; });
          collectives::run_ranks(kRanks, [&](Communicator& group) {
            t_rank = group.rank();
            if (t_rank == victim) files.on_strike([&] { group.fail("killed"); });
            GetParam().save(folder_, value, &group);
          });
        },
        GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, InterruptedSavesTogether,
                         ::testing::Values(manager_kind(false), manager_kind(true), checkpoint_kind(),
                                           file_kind("m.keras"), saved_model_kind()),
                         [](const auto& info) { return info.param.name; });

// ---- a whole fit ----

struct Fit {
  std::vector<std::vector<float>> weights;
  std::vector<double> losses;
  bool operator==(const Fit&) const = default;
};

using Saver = std::function<keras::CallbackPtr(const keras::Model&, const fs::path&)>;

Fit train(const Saver& saver, const fs::path& folder) {
  const keras::Model model = make_model();
  std::vector<float> x, y;
  for (int i = 0; i < 24; ++i) x.push_back(static_cast<float>(i * 5 % 7) / 7.0F);
  for (int i = 0; i < 16; ++i) y.push_back(static_cast<float>(i * 3 % 5) / 5.0F);
  keras::FitOptions options{.batch_size = 3, .epochs = 2, .verbose = 0};
  if (saver) options.callbacks = {saver(model, folder)};
  const auto history = model.fit(Tensor::from_vector(x, Shape{8, 3}), Tensor::from_vector(y, Shape{8, 2}), options);
  Fit fit;
  for (const Tensor& weight : model.get_weights()) fit.weights.push_back(weight.to_vector<float>());
  fit.losses = history["loss"];
  return fit;
}

class InterruptedFits : public Interrupted {
 protected:
  // Killed at each call to the disk and started again, the fit ends with the same bits. `history_is_whole`: else the
  // history has the epochs since the restart only, as Keras's BackupAndRestore leaves it.
  void interrupt_fit(const Saver& saver, bool history_is_whole = true) {
    const Fit whole = train({}, folder_);
    clear_folder();
    EXPECT_EQ(train(saver, folder_), whole);
    const auto expected = shapes();
    for (int at = 1;; ++at) {
      ASSERT_LT(at, kMostCalls);
      clear_folder();
      io::FaultyFileSystem faulty(io::posix_file_system(), Fault::kDie, at);
      try {
        const io::ScopedFileSystem scoped(faulty);
        train(saver, folder_);
      } catch (const Error&) {
      }
      if (!faulty.struck()) break;
      ++kills_;
      bury();
      const Fit resumed = train(saver, folder_);
      ASSERT_EQ(resumed.weights, whole.weights) << "killed at call " << at;
      if (history_is_whole) {
        ASSERT_EQ(resumed.losses, whole.losses) << "killed at call " << at;
      }
      ASSERT_LE(resumed.losses.size(), whole.losses.size());
      ASSERT_TRUE(std::equal(resumed.losses.rbegin(), resumed.losses.rend(), whole.losses.rbegin()))
          << "killed at call " << at;
      ASSERT_EQ(shapes(), expected) << "killed at call " << at;
    }
  }
};

TEST_F(InterruptedFits, WithCheckpoints) {
  interrupt_fit([](const keras::Model& model, const fs::path& folder) {
    return std::make_shared<train::TrainingCheckpoints>(
        model, folder / "run", train::TrainingCheckpointsOptions{.every_batches = 2, .max_to_keep = 2});
  });
}

TEST_F(InterruptedFits, WithAsynchronousCheckpoints) {
  interrupt_fit([](const keras::Model& model, const fs::path& folder) {
    return std::make_shared<train::TrainingCheckpoints>(
        model, folder / "run",
        train::TrainingCheckpointsOptions{.every_batches = 2, .max_to_keep = 2, .enable_async = true});
  });
}

TEST_F(InterruptedFits, WithBackups) {
  for (const bool doubled : {false, true}) {
    interrupt_fit(
        [&](const keras::Model&, const fs::path& folder) {
          return callbacks::BackupAndRestore(folder / "backup", {.save_freq = 2, .double_checkpoint = doubled});
        },
        false);
  }
}

}  // namespace
}  // namespace lockstep
