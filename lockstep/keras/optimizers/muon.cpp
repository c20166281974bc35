#include <algorithm>

#include <fmt/format.h>
#include <re2/re2.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/optimizers/per_variable_internal.h"
#include "lockstep/ops/gram_matrix_internal.h"

namespace lockstep::optimizers {
namespace {

// Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
class MuonOptimizer : public PerVariableOptimizer {
 public:
  explicit MuonOptimizer(MuonOptions options)
      : PerVariableOptimizer("Muon", common_options(options)), options_(std::move(options)) {
    for (const std::string& pattern : options_.exclude_layers) {
      excluded_.push_back(std::make_unique<RE2>(pattern, RE2::Quiet));
      if (!excluded_.back()->ok())
        throw_invalid_argument(fmt::format("Muon: invalid exclude_layers: '{}' is not a regular expression of RE2: {}",
                                           pattern, excluded_.back()->error()));
    }
  }
  std::string class_name() const override { return "Muon"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }

 private:
  bool by_adam(std::size_t index) const {
    const distribute::VariableImpl& variable = *trainable_[index];
    std::string path = variable.path();
    std::transform(path.begin(), path.end(), path.begin(), [](unsigned char c) { return std::tolower(c); });
    if (variable.shape().rank() != 2) return true;
    if (options_.exclude_embeddings && path.find("embedding") != std::string::npos) return true;
    return std::any_of(excluded_.begin(), excluded_.end(),
                       [&](const auto& pattern) { return RE2::PartialMatch(variable.path(), *pattern); });
  }

  void create_slots() override {
    velocities_.resize(trainable_.size());
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      momenta_.push_back(add_slot(i, "momentum"));
      if (by_adam(i)) velocities_[i] = add_slot(i, "velocity");
    }
  }

  // adam_weight_decay counts for its variables whatever weight_decay is.
  float decay_of(std::size_t index) const override {
    if (!by_adam(index)) return Optimizer::decay_of(index);
    return is_excluded_from_weight_decay(index) ? 0.0f : static_cast<float>(options_.adam_weight_decay);
  }

  void update_one(std::size_t index, Tensor& w, const Tensor& g, const Step& step) override {
    if (velocities_[index]) {
      update_by_adam(index, w, g, step);
    } else {
      update_by_muon(index, w, g, step);
    }
  }

  void update_by_adam(std::size_t index, Tensor& w, const Tensor& g, const Step& step) {
    Tensor& m = momenta_[index]->shared_value();
    Tensor& v = velocities_[index]->shared_value();
    const double rate = step.learning_rate * options_.adam_lr_ratio;
    const double alpha =
        rate * std::sqrt(1.0 - power_of(options_.adam_beta_2, step.t)) / (1.0 - power_of(options_.adam_beta_1, step.t));
    m = m + (g - m) * (1.0 - options_.adam_beta_1);
    v = v + (ops::gradient_square(g) - v) * (1.0 - options_.adam_beta_2);
    w = w - m * alpha / (ops::sqrt(v) + options_.epsilon);
  }

  void update_by_muon(std::size_t index, Tensor& w, const Tensor& g, const Step& step) {
    Tensor& m = momenta_[index]->shared_value();
    m = m + g + m * (options_.momentum - 1.0);
    const Tensor direction = orthogonalized(options_.nesterov ? g + m * options_.momentum : m);
    double scale = step.learning_rate;
    if (options_.rms_rate) scale *= std::sqrt(static_cast<double>(std::max(w.dim(0), w.dim(1)))) * *options_.rms_rate;
    w = w - direction * scale;
  }

  static Tensor times_its_transpose(const Tensor& x) {
    if (auto product = ops::try_gram_matrix(x)) return *std::move(product);
    return ops::matmul(x, x, false, true);
  }

  // Newton-Schulz iteration towards the nearest orthogonal matrix.
  Tensor orthogonalized(const Tensor& g) const {
    const bool tall = g.dim(0) > g.dim(1);
    Tensor x = tall ? ops::transpose(g) : g;
    x = x / (ops::sqrt(ops::reduce_sum(ops::square(x))) + 1e-7);
    for (std::int64_t i = 0; i < options_.ns_steps; ++i) {
      const Tensor a = times_its_transpose(x);  // equal to its transpose
      const Tensor b = a * options_.muon_b + times_its_transpose(a) * options_.muon_c;
      x = x * options_.muon_a + ops::matmul(b, x);
    }
    return tall ? ops::transpose(x) : x;
  }

  MuonOptions options_;
  std::vector<std::unique_ptr<RE2>> excluded_;
  Variables momenta_, velocities_;
};

}  // namespace

OptimizerPtr Muon(MuonOptions options) { return std::make_shared<MuonOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
