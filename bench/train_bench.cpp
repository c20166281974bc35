// Trains a model on the arrays of a file (x and y, or x0, x1, ... where a model has several inputs or outputs; weights
// of samples as sample_weight) and prints the time of each epoch, as JSON; saves it if asked to:
//   train_bench MODEL.keras DATA.npz BATCH EPOCHS STRATEGY [TRAINED.keras]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/distribute/strategy_spec_internal.h"
#include "lockstep/formats/npy.h"
#include "lockstep/ops/runtime.h"
#include "lockstep/saving/keras_saving.h"

namespace {

using Clock = std::chrono::steady_clock;
using lockstep::keras::Logs;

class EpochTimes : public lockstep::keras::Callback {
 public:
  void on_epoch_begin(int, const Logs&) override { begin_ = Clock::now(), cpu_begin_ = std::clock(); }
  void on_epoch_end(int, Logs&) override {
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin_).count());
    cpu_milliseconds.push_back(static_cast<double>(std::clock() - cpu_begin_) * 1000 / CLOCKS_PER_SEC);
  }
  std::vector<double> milliseconds, cpu_milliseconds;

 private:
  Clock::time_point begin_;
  std::clock_t cpu_begin_ = 0;
};

// The array of this name, or the list of those that are numbered; empty if there is none.
lockstep::keras::Structure arrays(const lockstep::formats::NpzReader& data, const std::string& name) {
  const auto has = [&](const std::string& wanted) {
    return std::ranges::any_of(data.list(), [&](const auto& info) { return info.name == wanted; });
  };
  const auto read = [&](const std::string& wanted) { return lockstep::Tensor::from_data(data.read(wanted)); };
  if (has(name)) return read(name);
  std::vector<lockstep::keras::Structure> list;
  for (int i = 0; has(name + std::to_string(i)); ++i) list.emplace_back(read(name + std::to_string(i)));
  return list.empty() ? lockstep::keras::Structure() : lockstep::keras::Structure(list);
}

void run(int argc, char** argv) {
  const auto strategy = lockstep::distribute::parse_strategy(argv[5]);
  auto scope = strategy->scope();
  const auto model = lockstep::keras::load_model(argv[1]);
  const lockstep::formats::NpzReader data(argv[2]);
  const auto times = std::make_shared<EpochTimes>();
  const auto history = model.fit(arrays(data, "x"), arrays(data, "y"),
                                 {.batch_size = std::atoi(argv[3]),
                                  .epochs = std::atoi(argv[4]),
                                  .verbose = 0,
                                  .callbacks = {times},
                                  .shuffle = false,
                                  .sample_weight = arrays(data, "sample_weight")});
  const lockstep::Json out = {
      {"epoch_ms", times->milliseconds}, {"epoch_cpu_ms", times->cpu_milliseconds}, {"loss", history["loss"]}};
  if (argc > 6) lockstep::saving::save_model(model, argv[6]);
  fmt::print("{}\n", lockstep::dump_json(out));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) {
    fmt::print(stderr, "usage: train_bench MODEL.keras DATA.npz BATCH EPOCHS STRATEGY [TRAINED.keras]\n");
    return 2;
  }
  lockstep::configure_runtime();
  try {
    run(argc, argv);
  } catch (const lockstep::Error& e) {
    fmt::print(stderr, "train_bench: {}\n", e.message());
    return 1;
  }
  return 0;
}
