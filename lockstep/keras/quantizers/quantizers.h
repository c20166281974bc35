// keras.quantizers: how layers keep their kernels as small integers, or multiply numbers of 8 bits. See
// Layer::quantize() and Model::quantize().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/json.h"
#include "lockstep/keras/numbers.h"

namespace lockstep::quantizers {

// x · scale, rounded half to even and clipped to value_range, with scale = value_range[1] / (max |x| + epsilon) over
// the axes.
struct AbsMaxQuantizer {
  FieldNamesOnly names_only = {};
  std::optional<keras::Axes> axis = std::nullopt;  // of weights; layers choose those of activations
  std::pair<std::int64_t, std::int64_t> value_range = {-127, 127};
  double epsilon = 1e-7;
  std::string output_dtype = "int8";
};

// What the arguments of layer.quantize() and model.quantize() describe: a name, "int8", "int4" or "float8", stands
// for the defaults of Int8QuantizationConfig, Int4QuantizationConfig and Float8QuantizationConfig.
class QuantizationConfig {
 public:
  QuantizationConfig(const char* mode) : QuantizationConfig(std::string(mode)) {}
  QuantizationConfig(const std::string& mode);  // throws InvalidArgument for another name
  // Keras's {"class_name": "Int8QuantizationConfig", "config": …}. Throws InvalidArgument, and Unimplemented for other
  // classes. Messages begin with `who`.
  static QuantizationConfig from_config(const Json& config, const std::string& who = {});
  Json serialize() const;

  const std::string& mode() const { return mode_; }
  const std::optional<AbsMaxQuantizer>& weight_quantizer() const { return weight_quantizer_; }
  const std::optional<AbsMaxQuantizer>& activation_quantizer() const { return activation_quantizer_; }
  // Rows of the kernel that share a scale and a zero point; nothing where all rows share a scale.
  std::optional<std::int64_t> block_size() const { return block_size_; }

 private:
  friend QuantizationConfig make_config(std::string, std::optional<AbsMaxQuantizer>, std::optional<AbsMaxQuantizer>,
                                        std::optional<std::int64_t>, const std::string&);
  QuantizationConfig() = default;
  std::string mode_;
  std::optional<AbsMaxQuantizer> weight_quantizer_, activation_quantizer_;
  std::optional<std::int64_t> block_size_;
};

struct Int8QuantizationConfigOptions {
  FieldNamesOnly names_only = {};
  std::optional<AbsMaxQuantizer> weight_quantizer = std::nullopt;  // default: one scale for each unit
  // nullopt: activations stay floating.
  std::optional<AbsMaxQuantizer> activation_quantizer = AbsMaxQuantizer();
};
// Kernels, and the inputs of products with them, as integers of 8 bits.
QuantizationConfig Int8QuantizationConfig(const Int8QuantizationConfigOptions& options = {});

struct Int4QuantizationConfigOptions {
  FieldNamesOnly names_only = {};
  std::optional<AbsMaxQuantizer> weight_quantizer = std::nullopt;
  std::optional<AbsMaxQuantizer> activation_quantizer = std::nullopt;  // nullopt: activations stay floating
  // Rows with a separate scale and zero point; nullopt or -1: one scale for each unit. Quantizers require that.
  std::optional<std::int64_t> block_size = 128;
};
// Kernels as integers of 4 bits, two in a byte.
QuantizationConfig Int4QuantizationConfig(const Int4QuantizationConfigOptions& options = {});

// Products of inputs and kernels that are rounded to float8_e4m3fn, and of their gradients rounded to float8_e5m2, with
// scales that training adapts to the greatest magnitudes of past steps.
QuantizationConfig Float8QuantizationConfig();

}  // namespace lockstep::quantizers
