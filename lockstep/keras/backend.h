// keras.backend and keras.config: the constants that programs read, and clear_session.
#pragma once

#include <string>

namespace lockstep::keras::backend {

double epsilon();      // 1e-7
std::string floatx();  // "float32", unless it was set
// The dtype of layers made from now on, unless set_dtype_policy() has set one: "float16", "bfloat16", "float32" or
// "float64". Throws InvalidArgument for another one.
void set_floatx(const std::string& value);
std::string image_data_format();  // "channels_last"
std::string backend();            // "tensorflow"
// Forgets the counters of automatic names and the generator behind seedless draws.
void clear_session();

}  // namespace lockstep::keras::backend

namespace lockstep::keras {
using backend::clear_session;
namespace config = backend;
}  // namespace lockstep::keras
