// keras.saving.serialize_keras_object and deserialize_keras_object: any of Keras's objects as JSON.
#pragma once

#include <type_traits>
#include <utility>

#include "lockstep/base/json.h"
#include "lockstep/keras/activations.h"
#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/initializers/initializers.h"
#include "lockstep/keras/losses/loss.h"
#include "lockstep/keras/metrics/metric.h"
#include "lockstep/keras/models/model.h"
#include "lockstep/keras/optimizers/optimizer.h"
#include "lockstep/keras/regularizers/regularizers.h"
#include "lockstep/keras/schedules/schedules.h"

namespace lockstep::saving {

// As Keras writes the object; null for an empty handle.
Json serialize_keras_object(const keras::LayerHandle& layer);
Json serialize_keras_object(const losses::LossPtr& loss);
Json serialize_keras_object(const metrics::MetricPtr& metric);
Json serialize_keras_object(const optimizers::OptimizerPtr& optimizer);
Json serialize_keras_object(const schedules::SchedulePtr& schedule);
Json serialize_keras_object(const initializers::InitializerPtr& initializer);
Json serialize_keras_object(const regularizers::RegularizerPtr& regularizer);
Json serialize_keras_object(const constraints::ConstraintPtr& constraint);
Json serialize_keras_object(const keras::CallbackPtr& callback);
Json serialize_keras_object(const activations::ActivationPtr& activation);
// A model, or an object of a user's class with its own handle.
template <typename T>
requires(std::is_convertible_v<const T&, keras::LayerHandle> && !std::is_same_v<T, keras::LayerHandle>) Json
    serialize_keras_object(const T& layer) {
  return serialize_keras_object(keras::LayerHandle(layer));
}

// The object of such JSON, which becomes what it is assigned to:
//
//   const keras::LayerHandle layer = keras::saving::deserialize_keras_object(config.at("layer"));
//
// The conversions throw as deserialize() of each family does.
class DeserializedObject {
 public:
  explicit DeserializedObject(Json config, keras::CustomObjects custom_objects = {})
      : config_(std::move(config)), custom_objects_(std::move(custom_objects)) {}
  operator keras::LayerHandle() const;
  operator keras::Model() const;
  operator losses::LossPtr() const;
  operator metrics::MetricPtr() const;
  operator optimizers::OptimizerPtr() const;
  operator schedules::SchedulePtr() const;
  operator initializers::InitializerPtr() const;
  operator regularizers::RegularizerPtr() const;
  operator constraints::ConstraintPtr() const;
  operator keras::CallbackPtr() const;
  operator activations::ActivationPtr() const;
  // Texts and lists of texts are themselves: the names of losses, metrics and optimizers.
  template <typename T>
  requires(std::same_as<T, std::string> || std::same_as<T, std::vector<std::string>>) operator T() const {
    return config_.get<T>();
  }
  template <typename L>
  operator keras::CustomLayer<L>() const {
    return keras::CustomLayer<L>(std::dynamic_pointer_cast<L>(std::shared_ptr<keras::Layer>(layer())));
  }

 private:
  keras::LayerHandle layer() const;

  Json config_;
  keras::CustomObjects custom_objects_;
};
inline DeserializedObject deserialize_keras_object(Json config, keras::CustomObjects custom_objects = {}) {
  return DeserializedObject(std::move(config), std::move(custom_objects));
}

}  // namespace lockstep::saving

namespace lockstep::utils {
using saving::deserialize_keras_object;
using saving::serialize_keras_object;
}  // namespace lockstep::utils
