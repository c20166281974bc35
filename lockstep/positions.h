// Arguments with defaults given by position, in the order of Keras's signatures: LayerNormalization(-1, 1e-6),
// SGD(0.01, 0.9), Huber(1.5), AUC(100, "PR"). Keywords follow in braces: SGD(0.01, 0.9, {.nesterov = true}).
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "lockstep/keras/callbacks/callbacks.h"
#include "lockstep/keras/layers/keywords.h"
#include "lockstep/keras/layers/layers.h"
#include "lockstep/keras/losses/losses.h"
#include "lockstep/keras/metrics/metrics.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/preprocessing/preprocessing.h"
#include "lockstep/keras/schedules/schedules.h"
#include "lockstep/saving/saving.h"

namespace lockstep::internal {

// A string does not initialize a bool or a number, nor a number a string.
template <typename A, typename Field>
concept FitsField = std::is_convertible_v<const A&, Field> &&
    !(std::is_arithmetic_v<Field> && !std::is_arithmetic_v<A> && !std::is_enum_v<A>);

// The first fields that a list of arguments fills.
template <typename Options, auto... kFields>
struct Positions {
  template <typename... A>
  static constexpr bool take() {
    if constexpr (sizeof...(A) > sizeof...(kFields)) {
      return false;
    } else {
      return fits<A...>(std::make_index_sequence<sizeof...(A)>());
    }
  }
  template <typename... A>
  static Options filled(Options options, const A&... arguments) {
    fill<0, kFields...>(options, arguments...);
    return options;
  }

 private:
  template <std::size_t I, auto kFirst, auto... kRest>
  static constexpr auto field() {
    if constexpr (I == 0) {
      return kFirst;
    } else {
      return field<I - 1, kRest...>();
    }
  }
  template <typename... A, std::size_t... I>
  static constexpr bool fits(std::index_sequence<I...>) {
    return (FitsField<A, std::remove_reference_t<decltype(std::declval<Options&>().*field<I, kFields...>())>> && ...);
  }
  template <std::size_t, auto kFirst, auto... kRest, typename A, typename... B>
  static void fill(Options& options, const A& first, const B&... rest) {
    using Field = std::remove_reference_t<decltype(options.*kFirst)>;
    options.*kFirst = static_cast<Field>(first);
    if constexpr (sizeof...(B) > 0) fill<0, kRest...>(options, rest...);
  }
};

}  // namespace lockstep::internal

// Forms of `Function` with `least` to five arguments by position. Those with fewer are declared where the class is.
#define LOCKSTEP_POSITIONS(Result, Function, Options, least, ...)                                                     \
  template <typename A>                                                                                               \
  requires(least <= 1 && lockstep::internal::Positions<Options, __VA_ARGS__>::template take<A>()) Result Function(    \
      const A& a, Options options = {}) {                                                                             \
    return Function(lockstep::internal::Positions<Options, __VA_ARGS__>::filled(std::move(options), a));              \
  }                                                                                                                   \
  template <typename A, typename B>                                                                                   \
  requires(least <= 2 && lockstep::internal::Positions<Options, __VA_ARGS__>::template take<A, B>()) Result Function( \
      const A& a, const B& b, Options options = {}) {                                                                 \
    return Function(lockstep::internal::Positions<Options, __VA_ARGS__>::filled(std::move(options), a, b));           \
  }                                                                                                                   \
  template <typename A, typename B, typename C>                                                                       \
  requires(least <= 3 && lockstep::internal::Positions<Options, __VA_ARGS__>::template take<A, B, C>()) Result        \
  Function(const A& a, const B& b, const C& c, Options options = {}) {                                                \
    return Function(lockstep::internal::Positions<Options, __VA_ARGS__>::filled(std::move(options), a, b, c));        \
  }                                                                                                                   \
  template <typename A, typename B, typename C, typename D>                                                           \
  requires(least <= 4 && lockstep::internal::Positions<Options, __VA_ARGS__>::template take<A, B, C, D>()) Result     \
  Function(const A& a, const B& b, const C& c, const D& d, Options options = {}) {                                    \
    return Function(lockstep::internal::Positions<Options, __VA_ARGS__>::filled(std::move(options), a, b, c, d));     \
  }                                                                                                                   \
  template <typename A, typename B, typename C, typename D, typename E>                                               \
  requires(least <= 5 && lockstep::internal::Positions<Options, __VA_ARGS__>::template take<A, B, C, D, E>()) Result  \
  Function(const A& a, const B& b, const C& c, const D& d, const E& e, Options options = {}) {                        \
    return Function(lockstep::internal::Positions<Options, __VA_ARGS__>::filled(std::move(options), a, b, c, d, e));  \
  }

namespace lockstep::layers {

#define LOCKSTEP_LAYER(Function, Options, least, ...) \
  LOCKSTEP_POSITIONS(LayerHandle, Function, Options, least, __VA_ARGS__)
LOCKSTEP_LAYER(Dense, DenseOptions, 2, &DenseOptions::units, &DenseOptions::activation, &DenseOptions::use_bias)
LOCKSTEP_LAYER(Embedding, EmbeddingOptions, 3, &EmbeddingOptions::input_dim, &EmbeddingOptions::output_dim,
               &EmbeddingOptions::embeddings_initializer)
LOCKSTEP_LAYER(Flatten, FlattenOptions, 1, &FlattenOptions::data_format)
LOCKSTEP_LAYER(ReLU, ReLUOptions, 2, &ReLUOptions::max_value, &ReLUOptions::negative_slope, &ReLUOptions::threshold)
LOCKSTEP_LAYER(BatchNormalization, BatchNormalizationOptions, 1, &BatchNormalizationOptions::axis,
               &BatchNormalizationOptions::momentum, &BatchNormalizationOptions::epsilon,
               &BatchNormalizationOptions::center, &BatchNormalizationOptions::scale)
LOCKSTEP_LAYER(LayerNormalization, LayerNormalizationOptions, 1, &LayerNormalizationOptions::axis,
               &LayerNormalizationOptions::epsilon, &LayerNormalizationOptions::center,
               &LayerNormalizationOptions::scale)
LOCKSTEP_LAYER(GroupNormalization, GroupNormalizationOptions, 1, &GroupNormalizationOptions::groups,
               &GroupNormalizationOptions::axis, &GroupNormalizationOptions::epsilon)
LOCKSTEP_LAYER(UnitNormalization, UnitNormalizationOptions, 1, &UnitNormalizationOptions::axis)
LOCKSTEP_LAYER(RMSNormalization, RMSNormalizationOptions, 1, &RMSNormalizationOptions::axis,
               &RMSNormalizationOptions::epsilon)
LOCKSTEP_LAYER(Attention, AttentionOptions, 1, &AttentionOptions::use_scale)
LOCKSTEP_LAYER(MultiHeadAttention, MultiHeadAttentionOptions, 3, &MultiHeadAttentionOptions::num_heads,
               &MultiHeadAttentionOptions::key_dim, &MultiHeadAttentionOptions::value_dim,
               &MultiHeadAttentionOptions::dropout, &MultiHeadAttentionOptions::use_bias)
LOCKSTEP_LAYER(Dot, DotOptions, 2, &DotOptions::axes, &DotOptions::normalize)
#define LOCKSTEP_RNN(Function) LOCKSTEP_LAYER(Function, RNNOptions, 2, &RNNOptions::units, &RNNOptions::activation)
LOCKSTEP_RNN(SimpleRNN)
LOCKSTEP_RNN(LSTMCell)
LOCKSTEP_RNN(GRUCell)
LOCKSTEP_RNN(SimpleRNNCell)
#undef LOCKSTEP_RNN
LOCKSTEP_LAYER(LSTM, RNNOptions, 2, &RNNOptions::units, &RNNOptions::activation, &RNNOptions::recurrent_activation,
               &RNNOptions::use_bias)
LOCKSTEP_LAYER(GRU, RNNOptions, 2, &RNNOptions::units, &RNNOptions::activation, &RNNOptions::recurrent_activation,
               &RNNOptions::use_bias)
LOCKSTEP_LAYER(RNN, GenericRNNOptions, 2, &GenericRNNOptions::cell, &GenericRNNOptions::return_sequences,
               &GenericRNNOptions::return_state, &GenericRNNOptions::go_backwards, &GenericRNNOptions::stateful)
LOCKSTEP_LAYER(Bidirectional, BidirectionalOptions, 2, &BidirectionalOptions::layer, &BidirectionalOptions::merge_mode)
LOCKSTEP_LAYER(Resizing, ResizingOptions, 3, &ResizingOptions::height, &ResizingOptions::width,
               &ResizingOptions::interpolation, &ResizingOptions::crop_to_aspect_ratio)
LOCKSTEP_LAYER(RandomFlip, RandomFlipOptions, 2, &RandomFlipOptions::mode, &RandomFlipOptions::seed)
LOCKSTEP_LAYER(RandomRotation, RandomRotationOptions, 2, &RandomRotationOptions::factor,
               &RandomRotationOptions::fill_mode, &RandomRotationOptions::interpolation, &RandomRotationOptions::seed)
LOCKSTEP_LAYER(RandomTranslation, RandomTranslationOptions, 3, &RandomTranslationOptions::height_factor,
               &RandomTranslationOptions::width_factor, &RandomTranslationOptions::fill_mode,
               &RandomTranslationOptions::interpolation, &RandomTranslationOptions::seed)
LOCKSTEP_LAYER(RandomZoom, RandomZoomOptions, 3, &RandomZoomOptions::height_factor, &RandomZoomOptions::width_factor,
               &RandomZoomOptions::fill_mode, &RandomZoomOptions::interpolation, &RandomZoomOptions::seed)
LOCKSTEP_LAYER(RandomCrop, RandomCropOptions, 3, &RandomCropOptions::height, &RandomCropOptions::width,
               &RandomCropOptions::seed)
LOCKSTEP_LAYER(RandomShear, RandomShearOptions, 1, &RandomShearOptions::x_factor, &RandomShearOptions::y_factor,
               &RandomShearOptions::interpolation, &RandomShearOptions::fill_mode)
LOCKSTEP_LAYER(RandomGrayscale, RandomGrayscaleOptions, 1, &RandomGrayscaleOptions::factor,
               &RandomGrayscaleOptions::data_format, &RandomGrayscaleOptions::seed)
LOCKSTEP_LAYER(RandomInvert, RandomInvertOptions, 1, &RandomInvertOptions::factor, &RandomInvertOptions::value_range,
               &RandomInvertOptions::seed)
LOCKSTEP_LAYER(RandomErasing, RandomErasingOptions, 1, &RandomErasingOptions::factor, &RandomErasingOptions::scale,
               &RandomErasingOptions::fill_value)
LOCKSTEP_LAYER(RandomGaussianBlur, RandomGaussianBlurOptions, 1, &RandomGaussianBlurOptions::factor,
               &RandomGaussianBlurOptions::kernel_size, &RandomGaussianBlurOptions::sigma)
LOCKSTEP_LAYER(RandomPerspective, RandomPerspectiveOptions, 1, &RandomPerspectiveOptions::factor,
               &RandomPerspectiveOptions::scale)
LOCKSTEP_LAYER(RandomElasticTransform, RandomElasticTransformOptions, 1, &RandomElasticTransformOptions::factor,
               &RandomElasticTransformOptions::scale)
LOCKSTEP_LAYER(MixUp, MixUpOptions, 1, &MixUpOptions::alpha, &MixUpOptions::data_format, &MixUpOptions::seed)
LOCKSTEP_LAYER(CutMix, CutMixOptions, 1, &CutMixOptions::factor, &CutMixOptions::seed)
LOCKSTEP_LAYER(Solarization, SolarizationOptions, 1, &SolarizationOptions::addition_factor,
               &SolarizationOptions::threshold_factor)
LOCKSTEP_LAYER(Normalization, NormalizationOptions, 1, &NormalizationOptions::axis, &NormalizationOptions::mean,
               &NormalizationOptions::variance)
LOCKSTEP_LAYER(CategoryEncoding, CategoryEncodingOptions, 2, &CategoryEncodingOptions::num_tokens,
               &CategoryEncodingOptions::output_mode)
LOCKSTEP_LAYER(TextVectorization, TextVectorizationOptions, 1, &TextVectorizationOptions::max_tokens,
               &TextVectorizationOptions::standardize, &TextVectorizationOptions::split)
LOCKSTEP_LAYER(StringLookup, StringLookupOptions, 1, &StringLookupOptions::max_tokens,
               &StringLookupOptions::num_oov_indices)
LOCKSTEP_LAYER(IntegerLookup, IntegerLookupOptions, 1, &IntegerLookupOptions::max_tokens,
               &IntegerLookupOptions::num_oov_indices)
#undef LOCKSTEP_LAYER

}  // namespace lockstep::layers

namespace lockstep::optimizers {

#define LOCKSTEP_OPTIMIZER(Function, Options, ...) \
  LOCKSTEP_POSITIONS(OptimizerPtr, Function, Options, 2, &Options::learning_rate, __VA_ARGS__)
LOCKSTEP_OPTIMIZER(SGD, SGDOptions, &SGDOptions::momentum, &SGDOptions::nesterov)
LOCKSTEP_OPTIMIZER(Adam, AdamOptions, &AdamOptions::beta_1, &AdamOptions::beta_2, &AdamOptions::epsilon,
                   &AdamOptions::amsgrad)
LOCKSTEP_OPTIMIZER(AdamW, AdamWOptions, &AdamWOptions::weight_decay, &AdamWOptions::beta_1, &AdamWOptions::beta_2,
                   &AdamWOptions::epsilon)
LOCKSTEP_OPTIMIZER(RMSprop, RMSpropOptions, &RMSpropOptions::rho, &RMSpropOptions::momentum, &RMSpropOptions::epsilon)
LOCKSTEP_OPTIMIZER(Adagrad, AdagradOptions, &AdagradOptions::initial_accumulator_value, &AdagradOptions::epsilon)
LOCKSTEP_OPTIMIZER(Adadelta, AdadeltaOptions, &AdadeltaOptions::rho, &AdadeltaOptions::epsilon)
LOCKSTEP_OPTIMIZER(Adamax, BetaOptions, &BetaOptions::beta_1, &BetaOptions::beta_2, &BetaOptions::epsilon)
LOCKSTEP_OPTIMIZER(Nadam, BetaOptions, &BetaOptions::beta_1, &BetaOptions::beta_2, &BetaOptions::epsilon)
LOCKSTEP_OPTIMIZER(Lamb, BetaOptions, &BetaOptions::beta_1, &BetaOptions::beta_2, &BetaOptions::epsilon)
LOCKSTEP_OPTIMIZER(Lion, LionOptions, &LionOptions::beta_1, &LionOptions::beta_2)
#undef LOCKSTEP_OPTIMIZER

}  // namespace lockstep::optimizers

namespace lockstep::schedules {

#define LOCKSTEP_SCHEDULE(Class, ...) \
  LOCKSTEP_POSITIONS(SchedulePtr, Class, Class##Options, 3, &Class##Options::initial_learning_rate, __VA_ARGS__)
#define LOCKSTEP_DECAY(Class)                                                                       \
  LOCKSTEP_POSITIONS(SchedulePtr, Class, Class##Options, 4, &Class##Options::initial_learning_rate, \
                     &Class##Options::decay_steps, &Class##Options::decay_rate, &Class##Options::staircase)
LOCKSTEP_DECAY(ExponentialDecay)
LOCKSTEP_DECAY(InverseTimeDecay)
#undef LOCKSTEP_DECAY
LOCKSTEP_SCHEDULE(PolynomialDecay, &PolynomialDecayOptions::decay_steps, &PolynomialDecayOptions::end_learning_rate,
                  &PolynomialDecayOptions::power, &PolynomialDecayOptions::cycle)
LOCKSTEP_SCHEDULE(CosineDecay, &CosineDecayOptions::decay_steps, &CosineDecayOptions::alpha)
LOCKSTEP_SCHEDULE(CosineDecayRestarts, &CosineDecayRestartsOptions::first_decay_steps,
                  &CosineDecayRestartsOptions::t_mul, &CosineDecayRestartsOptions::m_mul,
                  &CosineDecayRestartsOptions::alpha)
#undef LOCKSTEP_SCHEDULE

}  // namespace lockstep::schedules

namespace lockstep::losses {

#define LOCKSTEP_LOSS(Function, Options, ...) LOCKSTEP_POSITIONS(LossPtr, Function, Options, 1, __VA_ARGS__)
#define LOCKSTEP_MEAN(Function) LOCKSTEP_LOSS(Function, LossOptions, &LossOptions::reduction, &LossOptions::name)
LOCKSTEP_MEAN(MeanSquaredError)
LOCKSTEP_MEAN(MeanAbsoluteError)
LOCKSTEP_MEAN(MeanAbsolutePercentageError)
LOCKSTEP_MEAN(MeanSquaredLogarithmicError)
LOCKSTEP_MEAN(LogCosh)
LOCKSTEP_MEAN(Hinge)
LOCKSTEP_MEAN(SquaredHinge)
LOCKSTEP_MEAN(CategoricalHinge)
LOCKSTEP_MEAN(KLDivergence)
LOCKSTEP_MEAN(Poisson)
#undef LOCKSTEP_MEAN
LOCKSTEP_LOSS(CosineSimilarity, CosineSimilarityOptions, &CosineSimilarityOptions::axis,
              &CosineSimilarityOptions::reduction)
LOCKSTEP_LOSS(Huber, HuberOptions, &HuberOptions::delta, &HuberOptions::reduction)
LOCKSTEP_LOSS(BinaryCrossentropy, BinaryCrossentropyOptions, &BinaryCrossentropyOptions::from_logits,
              &BinaryCrossentropyOptions::label_smoothing, &BinaryCrossentropyOptions::axis,
              &BinaryCrossentropyOptions::reduction)
LOCKSTEP_LOSS(CategoricalCrossentropy, CategoricalCrossentropyOptions, &CategoricalCrossentropyOptions::from_logits,
              &CategoricalCrossentropyOptions::label_smoothing, &CategoricalCrossentropyOptions::axis,
              &CategoricalCrossentropyOptions::reduction)
LOCKSTEP_LOSS(SparseCategoricalCrossentropy, SparseCategoricalCrossentropyOptions,
              &SparseCategoricalCrossentropyOptions::from_logits, &SparseCategoricalCrossentropyOptions::ignore_class,
              &SparseCategoricalCrossentropyOptions::reduction)
LOCKSTEP_LOSS(Tversky, TverskyOptions, &TverskyOptions::alpha, &TverskyOptions::beta)
LOCKSTEP_LOSS(Circle, CircleOptions, &CircleOptions::gamma, &CircleOptions::margin)
LOCKSTEP_LOSS(CategoricalGeneralizedCrossEntropy, CategoricalGeneralizedCrossEntropyOptions,
              &CategoricalGeneralizedCrossEntropyOptions::q)
#undef LOCKSTEP_LOSS

}  // namespace lockstep::losses

namespace lockstep::metrics {

#define LOCKSTEP_METRIC(Function, Options, least, ...) \
  LOCKSTEP_POSITIONS(MetricPtr, Function, Options, least, __VA_ARGS__)
#define LOCKSTEP_NAMED(Function) \
  LOCKSTEP_METRIC(Function, MetricOptions, 1, &MetricOptions::name, &MetricOptions::dtype)
LOCKSTEP_METRIC(Mean, MetricOptions, 2, &MetricOptions::name, &MetricOptions::dtype)
LOCKSTEP_NAMED(Sum)
LOCKSTEP_NAMED(Accuracy)
LOCKSTEP_NAMED(CategoricalAccuracy)
LOCKSTEP_NAMED(SparseCategoricalAccuracy)
LOCKSTEP_NAMED(MeanSquaredError)
LOCKSTEP_NAMED(RootMeanSquaredError)
LOCKSTEP_NAMED(MeanAbsoluteError)
LOCKSTEP_NAMED(MeanAbsolutePercentageError)
LOCKSTEP_NAMED(MeanSquaredLogarithmicError)
LOCKSTEP_NAMED(LogCoshError)
LOCKSTEP_NAMED(KLDivergence)
LOCKSTEP_NAMED(Poisson)
LOCKSTEP_NAMED(Hinge)
LOCKSTEP_NAMED(SquaredHinge)
LOCKSTEP_NAMED(CategoricalHinge)
#undef LOCKSTEP_NAMED
LOCKSTEP_METRIC(BinaryAccuracy, BinaryAccuracyOptions, 1, &BinaryAccuracyOptions::name, &BinaryAccuracyOptions::dtype,
                &BinaryAccuracyOptions::threshold)
LOCKSTEP_METRIC(BinaryCrossentropy, BinaryCrossentropyOptions, 1, &BinaryCrossentropyOptions::name,
                &BinaryCrossentropyOptions::dtype, &BinaryCrossentropyOptions::from_logits)
LOCKSTEP_METRIC(CategoricalCrossentropy, CategoricalCrossentropyOptions, 1, &CategoricalCrossentropyOptions::name,
                &CategoricalCrossentropyOptions::dtype, &CategoricalCrossentropyOptions::from_logits)
LOCKSTEP_METRIC(SparseCategoricalCrossentropy, SparseCategoricalCrossentropyOptions, 1,
                &SparseCategoricalCrossentropyOptions::name, &SparseCategoricalCrossentropyOptions::dtype,
                &SparseCategoricalCrossentropyOptions::from_logits)
LOCKSTEP_METRIC(CosineSimilarity, AxisOptions, 1, &AxisOptions::name, &AxisOptions::dtype, &AxisOptions::axis)
LOCKSTEP_METRIC(TopKCategoricalAccuracy, TopKOptions, 2, &TopKOptions::k, &TopKOptions::name, &TopKOptions::dtype)
LOCKSTEP_METRIC(SparseTopKCategoricalAccuracy, TopKOptions, 2, &TopKOptions::k, &TopKOptions::name, &TopKOptions::dtype)
LOCKSTEP_METRIC(AUC, AUCOptions, 1, &AUCOptions::num_thresholds, &AUCOptions::curve, &AUCOptions::summation_method,
                &AUCOptions::name, &AUCOptions::dtype)
LOCKSTEP_METRIC(Precision, PrecisionOptions, 1, &PrecisionOptions::thresholds, &PrecisionOptions::top_k,
                &PrecisionOptions::class_id, &PrecisionOptions::name)
LOCKSTEP_METRIC(Recall, RecallOptions, 1, &RecallOptions::thresholds, &RecallOptions::top_k, &RecallOptions::class_id,
                &RecallOptions::name)
LOCKSTEP_METRIC(FBetaScore, FBetaOptions, 1, &FBetaOptions::average, &FBetaOptions::beta, &FBetaOptions::threshold)
LOCKSTEP_METRIC(F1Score, F1Options, 1, &F1Options::average, &F1Options::threshold, &F1Options::name)
#undef LOCKSTEP_METRIC

}  // namespace lockstep::metrics

namespace lockstep::callbacks {

LOCKSTEP_POSITIONS(EarlyStoppingPtr, EarlyStopping, EarlyStoppingOptions, 1, &EarlyStoppingOptions::monitor,
                   &EarlyStoppingOptions::min_delta, &EarlyStoppingOptions::patience, &EarlyStoppingOptions::verbose,
                   &EarlyStoppingOptions::mode)
LOCKSTEP_POSITIONS(ModelCheckpointPtr, ModelCheckpoint, ModelCheckpointOptions, 2, &ModelCheckpointOptions::filepath,
                   &ModelCheckpointOptions::monitor, &ModelCheckpointOptions::verbose,
                   &ModelCheckpointOptions::save_best_only, &ModelCheckpointOptions::save_weights_only)
LOCKSTEP_POSITIONS(CallbackPtr, ReduceLROnPlateau, ReduceLROnPlateauOptions, 2, &ReduceLROnPlateauOptions::monitor,
                   &ReduceLROnPlateauOptions::factor, &ReduceLROnPlateauOptions::patience,
                   &ReduceLROnPlateauOptions::verbose)
LOCKSTEP_POSITIONS(CallbackPtr, CSVLogger, CSVLoggerOptions, 2, &CSVLoggerOptions::filename,
                   &CSVLoggerOptions::separator, &CSVLoggerOptions::append)

}  // namespace lockstep::callbacks
#undef LOCKSTEP_POSITIONS
