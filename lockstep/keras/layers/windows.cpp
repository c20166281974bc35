#include "lockstep/keras/layers/windows_internal.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

void normalize_window(Window& window, int rank, std::int64_t least, const std::string& who) {
  constexpr std::int64_t kMost = 1 << 30;
  if (window.values.size() == 1) window.values.assign(static_cast<std::size_t>(rank), window.values[0]);
  if (static_cast<int>(window.values.size()) != rank) {
    throw_invalid_argument(fmt::format("{} has {} entries, expected 1 or {}", who, window.values.size(), rank));
  }
  for (std::int64_t extent : window.values) {
    if (extent < least || extent > kMost) {
      throw_invalid_argument(fmt::format("{} has the entry {}, expected at least {}", who, extent, least));
    }
  }
}

void normalize_choice(std::string& value, std::initializer_list<const char*> allowed, const std::string& who) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
  std::string list;
  for (const char* choice : allowed) list += fmt::format("{}'{}'", list.empty() ? "" : ", ", choice);
  throw_invalid_argument(fmt::format("{} is '{}', expected one of {}", who, value, list));
}

void normalize_data_format(std::string& data_format, const std::string& who) {
  if (data_format.empty() || data_format == "default") data_format = "channels_last";
  if (data_format == "tf") data_format = "channels_last";
  if (data_format == "th") data_format = "channels_first";
  normalize_choice(data_format, {"channels_last", "channels_first"}, who);
}

void require_place(const Shape& input, const std::string& data_format, const Ints& window, const Ints& dilation,
                   const std::string& padding, const std::string& who) {
  if (padding != "valid") return;
  const int first = data_format == "channels_first" ? 2 : 1;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const std::int64_t extent = input[first + static_cast<int>(i)], span = (window[i] - 1) * dilation[i] + 1;
    if (extent == kUnknownDim || extent >= span) continue;
    throw_invalid_argument(fmt::format(
        "{}: invalid input of shape {}: its output would be empty, because the window spans {} elements of axis {}, "
        "which has {}; a larger input, a smaller window or padding \"same\" is expected",
        who, input.to_string(), span, first + static_cast<int>(i), extent));
  }
}

Tensor to_channels_last(const Tensor& x) {
  ops::Ints permutation = {0};
  for (int axis = 2; axis < x.rank(); ++axis) permutation.push_back(axis);
  permutation.push_back(1);
  return ops::transpose(x, permutation);
}

Tensor to_channels_first(const Tensor& x) {
  ops::Ints permutation = {0, x.rank() - 1};
  for (int axis = 1; axis < x.rank() - 1; ++axis) permutation.push_back(axis);
  return ops::transpose(x, permutation);
}

Tensor shape_with_batch_of(const Tensor& x, const Tensors& sizes) {
  Tensors parts = {ops::dim_of(x, 0)};
  parts.insert(parts.end(), sizes.begin(), sizes.end());
  return ops::stack(parts);
}

}  // namespace lockstep::keras
