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
