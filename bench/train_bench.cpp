// Trains a model on the arrays of a file and prints the time of each epoch, as JSON; saves it if asked to:
//   train_bench MODEL.keras DATA.npz BATCH EPOCHS STRATEGY [TRAINED.keras]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>

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

void run(int argc, char** argv) {
  const auto strategy = lockstep::distribute::parse_strategy(argv[5]);
  auto scope = strategy->scope();
  const auto model = lockstep::keras::load_model(argv[1]);
  const lockstep::formats::NpzReader data(argv[2]);
  const auto x = lockstep::Tensor::from_data(data.read("x"));
  const auto y = lockstep::Tensor::from_data(data.read("y"));
  const auto times = std::make_shared<EpochTimes>();
  const auto history = model.fit(x, y,
                                 {.batch_size = std::atoi(argv[3]),
                                  .epochs = std::atoi(argv[4]),
                                  .verbose = 0,
                                  .callbacks = {times},
                                  .shuffle = false});
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
