#include "lockstep/keras/backend.h"

#include <atomic>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/dtype_policy.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/random/seed_generator.h"

namespace lockstep::keras::backend {

namespace {
std::atomic<double> fuzz_factor = 1e-7;
}
double epsilon() { return fuzz_factor; }
void set_epsilon(double value) { fuzz_factor = value; }
std::string floatx() { return default_floatx(); }
void set_floatx(const std::string& value) { set_default_floatx(value); }
std::string image_data_format() { return "channels_last"; }
void set_image_data_format(const std::string& value) {
  if (value == "channels_last") return;
  throw_invalid_argument(fmt::format(
      "set_image_data_format: found '{}', expected 'channels_last'; give layers .data_format = \"channels_first\"",
      value));
}
std::string backend() { return "tensorflow"; }
void clear_session() {
  reset_auto_names();
  random::drop_global_seed_generator();
}

}  // namespace lockstep::keras::backend
