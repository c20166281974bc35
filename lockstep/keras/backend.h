// keras.backend and keras.config: the constants that programs read, and clear_session.
#pragma once

#include <string>

#include "lockstep/keras/layers/dtype_policy.h"

namespace lockstep::keras::backend {

double epsilon();  // 1e-7, unless it was set
// The small number of losses, metrics, constraints and normalizations from now on.
void set_epsilon(double value);
std::string floatx();  // "float32", unless it was set
// The dtype of layers made from now on, unless set_dtype_policy() has set one: "float16", "bfloat16", "float32" or
// "float64". Throws InvalidArgument for another one.
void set_floatx(const std::string& value);
std::string image_data_format();  // "channels_last"
// Throws InvalidArgument for anything but "channels_last": the field data_format of a layer's options sets it.
void set_image_data_format(const std::string& value);
std::string backend();  // "tensorflow"
// The policy of layers made from now on.
inline DTypePolicy dtype_policy() { return {}; }
using keras::set_dtype_policy;
// Forgets the counters of automatic names and the generator behind seedless draws.
void clear_session();
// K.get_value(optimizer.learning_rate), K.set_value(optimizer.learning_rate, 0.01) of tf.keras.
template <typename T>
auto get_value(const T& x) {
  return x.numpy();
}
template <typename T, typename V>
void set_value(const T& x, const V& value) {
  x.assign(value);
}

}  // namespace lockstep::keras::backend

namespace lockstep::utils {
using keras::backend::clear_session;
}
namespace lockstep::keras {
using backend::clear_session;
namespace config = backend;
}  // namespace lockstep::keras
