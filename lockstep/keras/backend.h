// keras.backend and keras.config: the constants that programs read, and clear_session.
#pragma once

#include <string>

namespace lockstep::keras::backend {

double epsilon();                 // 1e-7
std::string floatx();             // "float32"
std::string image_data_format();  // "channels_last"
std::string backend();            // "tensorflow"
// Forgets the counters of automatic names and the generator behind seedless draws.
void clear_session();

}  // namespace lockstep::keras::backend

namespace lockstep::keras {
using backend::clear_session;
namespace config = backend;
}  // namespace lockstep::keras
