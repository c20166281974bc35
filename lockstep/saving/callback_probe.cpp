// Fits with callbacks, for the judged tests:
//   callback_probe MODEL.keras DATA.npz CALLBACKS.json OUT.keras HISTORY.json
// DATA has x, y, vx and vy. CALLBACKS is {"epochs", "batch_size", "seed", "callbacks": [{"class_name", "config"}, …]},
// and perhaps "initial_epoch", "validation_freq" and "times", how often it fits with the same callbacks; the history is
// the last.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/json.h"
#include "lockstep/formats/npy.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/random/seeds.h"
#include "lockstep/saving/callback_classes_internal.h"
#include "lockstep/saving/keras_saving.h"

namespace {

using namespace lockstep;

// Halves the rate every `every` epochs.
keras::CallbackPtr scheduler(const Json& c) {
  const int every = c.at("every").get<int>();
  return callbacks::LearningRateScheduler(
      [every](int epoch, double rate) { return epoch > 0 && epoch % every == 0 ? rate * 0.5 : rate; },
      c.value("verbose", 0));
}

keras::CallbackPtr make(const Json& row) {
  const auto name = row.at("class_name").get<std::string>();
  return name == "LearningRateScheduler" ? scheduler(row.at("config"))
                                         : callbacks::classes().make(name, row.at("config"));
}

void fit(const std::vector<std::string>& args) {
  const Json job = parse_json(io::read_text(io::posix_file_system(), args.at(2)), args.at(2));
  random::set_random_seed(job.at("seed").get<std::int64_t>());
  const keras::Model model = saving::load_model(args.at(0));
  const formats::NpzReader data(args.at(1));
  const auto array = [&](const char* name) { return Tensor::from_data(data.read(name)); };
  keras::FitOptions options{
      .batch_size = job.at("batch_size").get<std::int64_t>(), .epochs = job.at("epochs").get<int>(), .verbose = 0};
  options.initial_epoch = job.value("initial_epoch", 0);
  options.validation_freq = job.value("validation_freq", 1);
  options.validation_data = keras::ValidationArrays{array("vx"), array("vy"), {}};
  for (const Json& row : job.at("callbacks")) options.callbacks.push_back(make(row));
  keras::History history;
  for (int i = 0; i < job.value("times", 1); ++i) history = model.fit(array("x"), array("y"), options);
  Json out = Json::object();
  for (const auto& [name, values] : history.history) out[name] = values;
  io::write_atomically(args.at(4), dump_json(out));
  saving::save_model(model, args.at(3));
}

}  // namespace

int main(int count, char** values) {
  try {
    fit({values + 1, values + count});
  } catch (const std::exception& error) {
    fmt::print(stderr, "callback_probe: {}\n", error.what());
    return 1;
  }
}
