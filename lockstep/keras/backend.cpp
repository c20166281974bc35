#include "lockstep/keras/backend.h"

#include "lockstep/keras/layers/dtype_policy.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras::backend {

double epsilon() { return 1e-7; }
std::string floatx() { return default_floatx(); }
void set_floatx(const std::string& value) { set_default_floatx(value); }
std::string image_data_format() { return "channels_last"; }
std::string backend() { return "tensorflow"; }
void clear_session() {
  reset_auto_names();
  random::drop_global_seed_generator();
}

}  // namespace lockstep::keras::backend
