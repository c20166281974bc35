// Values of options: parsed when the command line is read, so that a wrong one ends the tool before any work begins.
// All functions throw UsageError, which names the option, the value found and the expected form.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// Values of --strict, in the order of train::Strictness.
inline constexpr std::array<std::string_view, 4> kStrictLevels = {"none", "model", "optimizer", "all"};

std::int64_t parse_integer(const std::string& option, const std::string& text, std::int64_t least, std::int64_t most);
// Greater than 0.
double parse_seconds(const std::string& option, const std::string& text);
// "500000", "512M", "2G" (powers of 1024): bytes, at least 1.
std::int64_t parse_bytes(const std::string& option, const std::string& text);
// At least 0, less than 1.
double parse_fraction(const std::string& option, const std::string& text);
// "0.5" or "1/255".
double parse_factor(const std::string& option, const std::string& text);
// "0:1.0,1:2.5".
std::map<std::int64_t, double> parse_class_weights(const std::string& option, const std::string& text);

// "96x96x3": height, width and channels; "?" for any height or width (-1).
std::vector<std::int64_t> parse_image_shape(const std::string& option, const std::string& text);

// Checks for the rows of the command table.
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();
template <std::int64_t kLeast, std::int64_t kMost = std::numeric_limits<std::int64_t>::max()>
void check_integer(const std::string& option, const std::string& text) {
  parse_integer(option, text, kLeast, kMost);
}
// "fixed:4", "min_size:262144:4", "max_size:1M", "max_size:1M:4": a partitioner and its arguments.
struct PartitionerValue {
  std::string kind;
  std::int64_t size = 1;  // shards of "fixed", else bytes
  std::int64_t max_shards = 0;
};
PartitionerValue parse_partitioner(const std::string& option, const std::string& text);

void check_partitioner(const std::string& option, const std::string& text);
void check_seconds(const std::string& option, const std::string& text);
void check_bytes(const std::string& option, const std::string& text);
void check_fraction(const std::string& option, const std::string& text);
void check_factor(const std::string& option, const std::string& text);
void check_class_weights(const std::string& option, const std::string& text);
void check_communication(const std::string& option, const std::string& text);
void check_compression(const std::string& option, const std::string& text);
void check_image_shape(const std::string& option, const std::string& text);
void check_pooling(const std::string& option, const std::string& text);
void check_dialect(const std::string& name, const std::string& value);
void check_direction(const std::string& option, const std::string& text);
void check_quantization(const std::string& option, const std::string& text);
void check_strictness(const std::string& option, const std::string& text);
// 2.11, 2.11.1
void check_tensorflow_version(const std::string& option, const std::string& text);
// A .npy or .npz file to write.
void check_arrays_path(const std::string& option, const std::string& text);
// A .svg or .dot file to write.
void check_picture_path(const std::string& option, const std::string& text);

}  // namespace lockstep::cli
