// Times one way of saving or loading and prints it, with the memory it took, as JSON:
//   io_bench save MODEL.keras OUT.keras        durable save of what was loaded
//   io_bench load MODEL.keras
//   io_bench checkpoint MODEL.keras PREFIX     durable save, then restore
//   io_bench predict SAVED_MODEL X.npy         load and first prediction
#include <sys/resource.h>

#include <chrono>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/formats/npy.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/saved_model.h"
#include "lockstep/train/model_io_internal.h"

namespace {

using lockstep::Json;
using Clock = std::chrono::steady_clock;

// Seconds that `work` takes.
template <typename Work>
double timed(Work work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

Json save(const std::string& in, const std::string& out) {
  const auto model = lockstep::keras::load_model(in);
  return {{"seconds", timed([&] { lockstep::saving::save_model(model, out); })}};
}

Json load(const std::string& in) {
  const double before = peak_mib();
  const double seconds = timed([&] { lockstep::keras::load_model(in); });
  return {{"seconds", seconds}, {"grown_mib", peak_mib() - before}};
}

Json checkpoint(const std::string& in, const std::string& prefix) {
  const auto model = lockstep::keras::load_model(in);
  const double write = timed([&] { lockstep::train::write_model_checkpoint(model, prefix); });
  const double read = timed([&] { lockstep::train::read_model_checkpoint(model, prefix); });
  return {{"seconds", write}, {"restore_seconds", read}};
}

Json predict(const std::string& folder, const std::string& input) {
  const auto x = lockstep::Tensor::from_data(lockstep::formats::read_npy(input));
  double sum = 0;
  const double seconds = timed([&] {
    const auto loaded = lockstep::saved_model::load(folder);
    const auto& serve = loaded.signatures("serving_default");
    const auto outputs = serve({{serve.inputs().front().name, x}});
    for (const float value : outputs.begin()->second.to_vector<float>()) sum += value;
  });
  return {{"seconds", seconds}, {"sum", sum}};
}

Json run(const std::string& what, const std::string& in, const std::string& other) {
  if (what == "save") return save(in, other);
  if (what == "load") return load(in);
  if (what == "checkpoint") return checkpoint(in, other);
  if (what == "predict") return predict(in, other);
  lockstep::throw_invalid_argument("unknown work " + what);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: io_bench save|load|checkpoint|predict PATH [OTHER]\n");
    return 2;
  }
  try {
    Json out = run(argv[1], argv[2], argc > 3 ? argv[3] : "");
    out["peak_mib"] = peak_mib();
    fmt::print("{}\n", lockstep::dump_json(out));
  } catch (const lockstep::Error& e) {
    fmt::print(stderr, "io_bench: {}\n", e.message());
    return 1;
  }
  return 0;
}
