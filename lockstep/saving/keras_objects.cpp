#include "lockstep/saving/keras_objects.h"

#include "lockstep/keras/layers/registry.h"

namespace lockstep::saving {

Json serialize_keras_object(const keras::LayerHandle& layer) {
  return layer ? keras::serialize_operation(*layer) : Json(nullptr);
}
Json serialize_keras_object(const losses::LossPtr& loss) { return losses::serialize(loss); }
Json serialize_keras_object(const metrics::MetricPtr& metric) { return metrics::serialize(metric); }
Json serialize_keras_object(const optimizers::OptimizerPtr& optimizer) { return optimizers::serialize(optimizer); }
Json serialize_keras_object(const schedules::SchedulePtr& schedule) { return schedules::serialize(schedule); }
Json serialize_keras_object(const initializers::InitializerPtr& initializer) {
  return initializers::serialize(initializer);
}
Json serialize_keras_object(const regularizers::RegularizerPtr& regularizer) {
  return regularizers::serialize(regularizer);
}
Json serialize_keras_object(const constraints::ConstraintPtr& constraint) { return constraints::serialize(constraint); }
Json serialize_keras_object(const keras::CallbackPtr& callback) { return keras::serialize_callback(callback); }
Json serialize_keras_object(const activations::ActivationPtr& activation) { return activations::serialize(activation); }

keras::LayerHandle DeserializedObject::layer() const {
  if (config_.is_null()) return {};
  const keras::CustomObjectScope scope(custom_objects_);
  return keras::deserialize_layer(config_);
}
DeserializedObject::operator keras::LayerHandle() const { return layer(); }
DeserializedObject::operator keras::Model() const { return keras::as_model(layer()); }
DeserializedObject::operator losses::LossPtr() const {
  if (config_.is_null()) return {};
  const keras::CustomObjectScope scope(custom_objects_);
  return losses::deserialize(config_);
}
DeserializedObject::operator metrics::MetricPtr() const {
  if (config_.is_null()) return {};
  const keras::CustomObjectScope scope(custom_objects_);
  return metrics::deserialize(config_);
}
DeserializedObject::operator optimizers::OptimizerPtr() const {
  if (config_.is_null()) return {};
  const keras::CustomObjectScope scope(custom_objects_);
  return optimizers::deserialize(config_);
}
DeserializedObject::operator schedules::SchedulePtr() const {
  if (config_.is_null()) return {};
  const keras::CustomObjectScope scope(custom_objects_);
  return schedules::deserialize(config_);
}
DeserializedObject::operator initializers::InitializerPtr() const {
  const keras::CustomObjectScope scope(custom_objects_);
  return initializers::get(config_);
}
DeserializedObject::operator regularizers::RegularizerPtr() const {
  const keras::CustomObjectScope scope(custom_objects_);
  return regularizers::get(config_);
}
DeserializedObject::operator constraints::ConstraintPtr() const {
  const keras::CustomObjectScope scope(custom_objects_);
  return constraints::get(config_);
}
DeserializedObject::operator keras::CallbackPtr() const {
  const keras::CustomObjectScope scope(custom_objects_);
  return keras::deserialize_callback(config_);
}
DeserializedObject::operator activations::ActivationPtr() const {
  const keras::CustomObjectScope scope(custom_objects_);
  return activations::get(config_);
}

}  // namespace lockstep::saving
