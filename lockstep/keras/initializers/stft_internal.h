// The initializer of kernels that compute a short-time Fourier transform.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/keras/fields_internal.h"
#include "lockstep/keras/initializers/initializers.h"

namespace lockstep::initializers {

// The values of a window: a name, a list of `length` numbers, or an array as Keras writes it. Throws InvalidArgument,
// naming `who`, for anything else.
std::vector<double> window_values(const Json& window, std::int64_t length, bool periodic, const std::string& who);

template <typename V>
void fields(V& v, StftOptions& o) {
  v("side", o.side);
  v("window", o.window);
  v("periodic", o.periodic);
  v("scaling", o.scaling);
}
void check_stft(const StftOptions& options);

class StftInitializer : public Initializer {
 public:
  explicit StftInitializer(StftOptions options) : options_(std::move(options)) { check_stft(options_); }
  std::string class_name() const override { return "STFT"; }
  Tensor operator()(const Shape& shape, DType dtype) const override;
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  StftOptions options_;
};

}  // namespace lockstep::initializers
