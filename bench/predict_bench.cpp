// Times predictions of a model on the arrays of a file (x, or x0, x1, ... where a model has several inputs), as JSON;
// MODEL is a .keras file or a SavedModel with one output:
//   predict_bench MODEL DATA.npz BATCH CALLS
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/formats/npy.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/runtime.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/saved_model.h"

namespace {

using Clock = std::chrono::steady_clock;

using Inputs = std::vector<lockstep::Tensor>;
using Predict = std::function<lockstep::Tensor(const Inputs&)>;

Predict load(const std::string& path) {
  if (path.ends_with(".keras")) {
    return [model = lockstep::keras::load_model(path)](const Inputs& x) {
      if (x.size() == 1) return model(x[0], {.training = false}).leaf();
      return model(std::vector<lockstep::keras::Structure>(x.begin(), x.end()), {.training = false}).leaf();
    };
  }
  return [model = lockstep::saved_model::load(path)](const Inputs& x) {
    const auto call = model.signatures("serving_default");
    if (x.size() == 1) return call(x[0]).begin()->second;
    std::map<std::string, lockstep::Tensor> named;
    for (std::size_t i = 0; i < x.size(); ++i) named.emplace(call.inputs()[i].name, x[i]);
    return call(named).begin()->second;
  };
}

// The first rows of each input.
Inputs read(const lockstep::formats::NpzReader& data, std::int64_t batch) {
  Inputs inputs;
  for (const auto& info : data.list()) {
    if (!info.name.starts_with('x')) continue;
    const auto all = lockstep::Tensor::from_data(data.read(info.name));
    std::vector<std::int64_t> begin(static_cast<std::size_t>(all.rank()), 0), size(begin.size(), -1);
    size[0] = batch;
    inputs.push_back(lockstep::ops::slice(all, begin, size));
  }
  return inputs;
}

void run(char** argv) {
  const Predict predict = load(argv[1]);
  const lockstep::formats::NpzReader data(argv[2]);
  const int batch = std::atoi(argv[3]), calls = std::atoi(argv[4]);
  const Inputs x = read(data, batch);
  std::vector<double> times;
  lockstep::Tensor y;
  std::clock_t cpu = 0;
  for (int i = 0; i < calls + 2; ++i) {
    if (i == 2) cpu = std::clock();
    const auto start = Clock::now();
    y = predict(x);
    if (i >= 2) times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  const auto values = y.to_vector<float>();
  const lockstep::Json out = {{"ms", times},
                              {"cpu_ms", static_cast<double>(std::clock() - cpu) * 1000 / CLOCKS_PER_SEC / calls},
                              {"sum", std::accumulate(values.begin(), values.end(), 0.0)}};
  fmt::print("{}\n", lockstep::dump_json(out));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: predict_bench MODEL DATA.npz BATCH CALLS\n");
    return 2;
  }
  lockstep::configure_runtime();
  try {
    run(argv);
  } catch (const lockstep::Error& e) {
    fmt::print(stderr, "predict_bench: {}\n", e.message());
    return 1;
  }
  return 0;
}
