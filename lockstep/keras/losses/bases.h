// Keras's losses as classes, to derive from.
//
//   class WeightedCrossentropy : public losses::BinaryCrossentropy {
//    public:
//     using BinaryCrossentropy::BinaryCrossentropy;
//     Tensor call(const Tensor& y_true, const Tensor& y_pred) const override {
//       return 2.0 * BinaryCrossentropy::call(y_true, y_pred);
//     }
//   };
//   model.compile({.loss = WeightedCrossentropy()});
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors.
#pragma once

#include <concepts>
#include <utility>

#include "lockstep/keras/losses/ctc.h"
#include "lockstep/keras/losses/losses.h"

namespace lockstep::losses {

// Forwards each call to the built-in loss that it contains.
class BuiltInLoss : public Loss {
 public:
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override { return built_in_.call(y_true, y_pred); }
  bool mixes_rows(int rank) const override;
  Json get_config() const override;

 protected:
  explicit BuiltInLoss(LossPtr built_in);
  BuiltInLoss(const char* class_name, const Json& config);
  // Keras's own object: losses::Huber::from_config({{"delta", 2.0}}).
  static LossPtr of_class(const char* class_name, const Json& config);
  Tensor valid_mask(const Tensor& y_true, const Tensor& y_pred, const Tensor& values) const override;

 private:
  LossPtr built_in_;
};

#define LOCKSTEP_BASE(Name, parameters, arguments)                                     \
  class Name : public BuiltInLoss {                                                    \
   public:                                                                             \
    explicit Name parameters : BuiltInLoss(losses::Name arguments) {}                  \
    template <std::same_as<keras::detail::ConfigOnly> Config>                          \
    explicit Name(const Config& config) : BuiltInLoss(#Name, config.config) {}         \
    static LossPtr from_config(const Json& config) { return of_class(#Name, config); } \
  };
LOCKSTEP_BASE(MeanSquaredError, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanAbsoluteError, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanAbsolutePercentageError, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(MeanSquaredLogarithmicError, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CosineSimilarity, (CosineSimilarityOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Huber, (HuberOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(LogCosh, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Hinge, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(SquaredHinge, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoricalHinge, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(KLDivergence, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Poisson, (LossOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(BinaryCrossentropy, (BinaryCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(BinaryFocalCrossentropy, (BinaryFocalCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoricalCrossentropy, (CategoricalCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoricalFocalCrossentropy, (CategoricalFocalCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CategoricalGeneralizedCrossEntropy, (CategoricalGeneralizedCrossEntropyOptions options = {}),
              (std::move(options)))
LOCKSTEP_BASE(SparseCategoricalCrossentropy, (SparseCategoricalCrossentropyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Dice, (DiceOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Tversky, (TverskyOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Circle, (CircleOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(CTC, (LossOptions options = {}), (std::move(options)))
#undef LOCKSTEP_BASE

}  // namespace lockstep::losses
