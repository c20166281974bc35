#include "lockstep/keras/backend.h"

#include "lockstep/keras/naming_internal.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras::backend {

double epsilon() { return 1e-7; }
std::string floatx() { return "float32"; }
std::string image_data_format() { return "channels_last"; }
std::string backend() { return "tensorflow"; }
void clear_session() {
  reset_auto_names();
  random::drop_global_seed_generator();
}

}  // namespace lockstep::keras::backend
