// The keywords of each optimizer beside the common ones, told once, in the order of Keras's config: read from configs
// and written to configs.
#pragma once

#include <concepts>
#include <type_traits>

#include "lockstep/keras/optimizers/optimizers.h"

namespace lockstep::optimizers {

// Options of type T, to be read or, where const, to be told.
template <typename O, typename T>
concept OptionsOf = std::same_as<std::remove_const_t<O>, T>;

template <typename V>
void fields(V v, OptionsOf<SGDOptions> auto& o) {
  v("momentum", o.momentum);
  v("nesterov", o.nesterov);
}

template <typename V, typename O>
requires OptionsOf<O, AdamOptions> || OptionsOf<O, AdamWOptions>
void fields(V v, O& o) {
  v("beta_1", o.beta_1);
  v("beta_2", o.beta_2);
  v("epsilon", o.epsilon);
  v("amsgrad", o.amsgrad);
}

template <typename V>
void fields(V v, OptionsOf<RMSpropOptions> auto& o) {
  v("rho", o.rho);
  v("momentum", o.momentum);
  v("epsilon", o.epsilon);
  v("centered", o.centered);
}

template <typename V>
void fields(V v, OptionsOf<AdagradOptions> auto& o) {
  v("initial_accumulator_value", o.initial_accumulator_value);
  v("epsilon", o.epsilon);
}

template <typename V>
void fields(V v, OptionsOf<AdadeltaOptions> auto& o) {
  v("rho", o.rho);
  v("epsilon", o.epsilon);
}

template <typename V>
void fields(V v, OptionsOf<BetaOptions> auto& o) {
  v("beta_1", o.beta_1);
  v("beta_2", o.beta_2);
  v("epsilon", o.epsilon);
}

template <typename V>
void fields(V v, OptionsOf<FtrlOptions> auto& o) {
  v("learning_rate_power", o.learning_rate_power);
  v("initial_accumulator_value", o.initial_accumulator_value);
  v("l1_regularization_strength", o.l1_regularization_strength);
  v("l2_regularization_strength", o.l2_regularization_strength);
  v("l2_shrinkage_regularization_strength", o.l2_shrinkage_regularization_strength);
  v("beta", o.beta);
}

template <typename V>
void fields(V v, OptionsOf<LionOptions> auto& o) {
  v("beta_1", o.beta_1);
  v("beta_2", o.beta_2);
}

template <typename V>
void fields(V v, OptionsOf<AdafactorOptions> auto& o) {
  v("beta_2_decay", o.beta_2_decay);
  v("epsilon_1", o.epsilon_1);
  v("epsilon_2", o.epsilon_2);
  v("clip_threshold", o.clip_threshold);
  v("relative_step", o.relative_step);
}

template <typename V>
void fields(V v, OptionsOf<MuonOptions> auto& o) {
  v("adam_beta_1", o.adam_beta_1);
  v("adam_beta_2", o.adam_beta_2);
  v("epsilon", o.epsilon);
  v("exclude_layers", o.exclude_layers);
  v("muon_a", o.muon_a);
  v("muon_b", o.muon_b);
  v("muon_c", o.muon_c);
  v("adam_lr_ratio", o.adam_lr_ratio);
  v("momentum", o.momentum);
  v("ns_steps", o.ns_steps);
  v("nesterov", o.nesterov);
  v("exclude_embeddings", o.exclude_embeddings);
  v("adam_weight_decay", o.adam_weight_decay);
  v("rms_rate", o.rms_rate);
}

// `config` with the fields of `options` after it.
template <typename Options>
Json with_fields(Json config, const Options& options) {
  fields(
      [&]<typename T>(const char* key, const T& field) {
        if constexpr (std::same_as<T, std::optional<double>>) {
          config[key] = field ? Json(*field) : Json(nullptr);
        } else {
          config[key] = field;
        }
      },
      options);
  return config;
}

}  // namespace lockstep::optimizers
