#include "lockstep/keras/callbacks/swap_ema_weights.h"

#include <algorithm>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/keras/optimizers/optimizer.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::callbacks {
namespace {

class EmaSwapper final : public keras::Callback {
 public:
  explicit EmaSwapper(SwapEMAWeightsOptions options) : options_(options) {}
  std::string class_name() const override { return "SwapEMAWeights"; }

  void on_epoch_begin(int, const keras::Logs&) override {
    if (options_.swap_on_epoch) use_averages(false);
  }
  void on_epoch_end(int epoch, keras::Logs&) override {
    if (!options_.swap_on_epoch || averages_in_model_) return;
    use_averages(true);
    if (epoch != params_.epochs - 1) return;
    // The end of a fit puts the averages into the model.
    const auto [weights, averages] = pairs();
    for (std::size_t i = 0; i < weights.size(); ++i) averages[i]->assign(weights[i]->numpy());
  }
  void on_test_begin(const keras::Logs&) override { use_averages(true); }
  void on_test_end(const keras::Logs&) override { use_averages(false); }
  void on_predict_begin(const keras::Logs&) override { use_averages(true); }
  void on_predict_end(const keras::Logs&) override { use_averages(false); }

 private:
  using Variables = std::vector<keras::VariablePtr>;

  void use_averages(bool used) {
    if (averages_in_model_ == used) return;
    const auto [weights, averages] = pairs();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const Tensor weight = weights[i]->numpy();
      weights[i]->assign(averages[i]->numpy());
      averages[i]->assign(weight);
    }
    averages_in_model_ = used;
  }

  // The trainable weights and their averages, in the optimizer's order.
  std::pair<Variables, Variables> pairs() const {
    const optimizers::OptimizerPtr optimizer = trainer_ ? trainer_->optimizer() : nullptr;
    Variables averages;
    if (optimizer && optimizer.built()) {
      for (const keras::VariablePtr& variable : optimizer.variables()) {
        if (variable->path().ends_with("_average")) averages.push_back(variable);
      }
    }
    const Variables weights = trainer_ ? trainer_->model().trainable_weights() : Variables();
    if (averages.empty() || averages.size() != weights.size())
      throw_failed_precondition(
          "SwapEMAWeights requires an optimizer with use_ema that has been built, such as Adam({.use_ema = true})");
    return {weights, averages};
  }

  SwapEMAWeightsOptions options_;
  bool averages_in_model_ = false;
};

}  // namespace

keras::CallbackPtr SwapEMAWeights(SwapEMAWeightsOptions options) { return std::make_shared<EmaSwapper>(options); }

}  // namespace lockstep::callbacks
