// Recurrent layers over all their steps.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/inference/recurrent_step_internal.h"

namespace lockstep::inference {
namespace {

class RecurrentStep : public Step {
 public:
  RecurrentStep(std::vector<int> reads, int result, Dims dims, Recurrence layer)
      : Step(std::move(reads), result, std::move(dims)), layer_(std::move(layer)) {}

  void prepare(WeightStore& store) override {
    const ops::RecurrentPass& pass = layer_.pass;
    packed_ = store.get(fmt::format("recurrent {}", static_cast<int>(pass.cell)), layer_.kernel, {},
                        ops::packed_recurrent_size(pass),
                        [&](float* to) { ops::pack_recurrent(pass, layer_.kernel.data, to); });
    Step::prepare(store);
  }
  bool follow(const Chain& chain, int own, int result) override {
    return !layer_.gives_states && Step::follow(chain, own, result);
  }
  std::int64_t workspace() const override { return 3 * state(); }  // of what nobody reads
  std::int64_t weights_read() const override { return packed_.size * layer_.pass.steps; }
  bool pays_threads() const override {
    return layer_.batch * layer_.pass.steps * packed_.size >= kFewestMultiplications;
  }

  void run(const Run& run) const override {
    const bool has_cells = layer_.pass.cell == ops::RecurrentCell::kLstm;
    ops::RecurrentForward pass;
    static_cast<ops::RecurrentPass&>(pass) = layer_.pass;
    ops::set_recurrent_weights(packed_.data, pass);
    pass.projected = input(run, 0), pass.bias = layer_.bias.data, pass.h0 = input(run, 1);
    pass.c0 = has_cells ? input(run, 2) : nullptr;
    if (layer_.masked) pass.mask = reinterpret_cast<const std::uint8_t*>(input(run, has_cells ? 3 : 2));
    float* const result = output(run);
    const std::int64_t width = layer_.batch * pass.units, all = layer_.sequences ? width * pass.steps : width;
    pass.all = layer_.sequences ? result : nullptr, pass.last = layer_.sequences ? run.workspace : result;
    pass.h = layer_.gives_states ? result + aligned(all) : run.workspace + state();
    pass.c = layer_.gives_states ? pass.h + state() : run.workspace + 2 * state();
    for_parts(run, layer_.batch, ops::recurrent_grain(layer_.batch), [&](std::int64_t begin, std::int64_t end) {
      ops::row_kernels().recurrent_forward(pass, begin, end);
      if (layer_.gives_states) return;
      const std::int64_t row = all / layer_.batch;
      finish(run, begin * row, end * row);
    });
  }

 private:
  std::int64_t state() const { return aligned(layer_.batch * layer_.pass.units); }

  Recurrence layer_;
  Constant packed_;
};

}  // namespace

std::int64_t floats_of(const Recurrence& layer) {
  const std::int64_t width = layer.batch * layer.pass.units, all = layer.sequences ? width * layer.pass.steps : width;
  return layer.gives_states ? aligned(all) + 2 * aligned(width) : all;
}

StepPtr recurrent(std::vector<int> reads, int result, Dims dims, Recurrence layer) {
  return std::make_unique<RecurrentStep>(std::move(reads), result, std::move(dims), std::move(layer));
}

}  // namespace lockstep::inference
