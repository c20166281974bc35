// Kernels of small programs that reduce, multiply and add a bias.
#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "lockstep/ops/attributes_internal.h"
#include "lockstep/ops/small_values_internal.h"

namespace lockstep::ops {
namespace {

enum class Reduction { kSum, kMean, kProd, kMax, kMin, kAll, kAny };

template <typename T, Reduction how>
bool run_reduction(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &axes = instruction.in(frame, 1);
  SmallValue& out = frame.result(instruction.output);
  SmallDims list{};
  if (!x.data || !read_small_numbers(axes, list)) return false;
  std::array<bool, kSmallRank> reduced{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(axes.count); ++i) {
    if (!take_whole_axis(list[i], x.rank) || reduced[static_cast<std::size_t>(list[i])]) return false;
    reduced[static_cast<std::size_t>(list[i])] = true;
  }
  SmallDims steps{};  // of the result, by the axes of x
  out.dtype = x.dtype;
  out.rank = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.rank); ++i) {
    if (reduced[i] && instruction.numbers[0] == 0) continue;
    out.dims[static_cast<std::size_t>(out.rank++)] = reduced[i] ? 1 : x.dims[i];
  }
  std::int64_t step = 1;
  for (int i = x.rank - 1; i >= 0; --i) {
    const auto n = static_cast<std::size_t>(i);
    steps[n] = reduced[n] ? 0 : step;
    if (!reduced[n]) step *= x.dims[n];
  }
  auto* to = static_cast<T*>(frame.allocate(out));
  if (!to || x.count == 0) return false;
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, T>;
  std::array<Sum, kSmallElements> sums;
  constexpr bool kExtreme = how == Reduction::kMax || how == Reduction::kMin;
  std::array<bool, kExtreme ? kSmallElements : 1> seen{};
  if (!kExtreme) {
    std::fill_n(sums.begin(), out.count, static_cast<Sum>(how == Reduction::kProd || how == Reduction::kAll ? 1 : 0));
  }
  SmallDims at{};
  std::int64_t place = 0;
  for (std::int64_t i = 0; i < x.count; ++i) {
    const T value = x.as<T>()[i];
    Sum& sum = sums[static_cast<std::size_t>(place)];
    if constexpr (kExtreme) {
      bool& begun = seen[static_cast<std::size_t>(place)];
      if (value != value) return false;  // NaN
      if (!begun || (how == Reduction::kMax ? value > sum : value < sum)) sum = value;
      begun = true;
    } else if constexpr (how == Reduction::kProd) {
      sum *= value;
    } else if constexpr (how == Reduction::kAll) {
      sum = sum && value;
    } else if constexpr (how == Reduction::kAny) {
      sum = sum || value;
    } else {
      sum += value;
    }
    for (int axis = x.rank - 1; axis >= 0; --axis) {
      const auto n = static_cast<std::size_t>(axis);
      place += steps[n];
      if (++at[n] < x.dims[n]) break;
      place -= steps[n] * x.dims[n];
      at[n] = 0;
    }
  }
  const double share = how == Reduction::kMean ? static_cast<double>(x.count / out.count) : 1;
  for (std::int64_t i = 0; i < out.count; ++i) {
    if constexpr (how == Reduction::kMean)
      to[i] = static_cast<T>(sums[static_cast<std::size_t>(i)] / share);
    else
      to[i] = static_cast<T>(sums[static_cast<std::size_t>(i)]);
  }
  return true;
}

// numbers: transpose_a, transpose_b.
template <typename T>
bool run_matmul(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &a = instruction.in(frame, 0), &b = instruction.in(frame, 1);
  SmallValue& out = frame.result(instruction.output);
  if (!a.data || !b.data || a.rank != 2 || b.rank != 2) return false;
  const bool ta = instruction.numbers[0] != 0, tb = instruction.numbers[1] != 0;
  const std::int64_t rows = a.dims[ta], inner = a.dims[!ta], columns = b.dims[!tb];
  if (b.dims[tb] != inner || rows * columns * inner > 8 * kSmallElements) return false;
  out.dtype = a.dtype;
  out.rank = 2;
  out.dims[0] = rows;
  out.dims[1] = columns;
  auto* to = static_cast<T*>(frame.allocate(out));
  if (!to) return false;
  const T *x = a.as<T>(), *y = b.as<T>();
  std::fill_n(to, out.count, T(0));
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < inner; ++k) {
      const T factor = ta ? x[k * rows + i] : x[i * inner + k];
      T* row = to + i * columns;
      if (tb) {
        for (std::int64_t j = 0; j < columns; ++j) row[j] += factor * y[j * inner + k];
      } else {
        for (std::int64_t j = 0; j < columns; ++j) row[j] += factor * y[k * columns + j];
      }
    }
  }
  return true;
}

template <typename T>
bool run_bias_add(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &x = instruction.in(frame, 0), &bias = instruction.in(frame, 1);
  SmallValue& out = frame.result(instruction.output);
  if (!x.data || !bias.data || x.rank < 2 || bias.rank != 1) return false;
  if (bias.count == 0 || x.dims[static_cast<std::size_t>(x.rank - 1)] != bias.count) return false;
  out.dtype = x.dtype;
  out.rank = x.rank;
  out.dims = x.dims;
  auto* to = static_cast<T*>(frame.allocate(out));
  for (std::int64_t i = 0; i < x.count; ++i) to[i] = x.as<T>()[i] + bias.as<T>()[i % bias.count];
  return true;
}

template <Reduction how>
bool build_reduction(const Attrs& attrs, std::span<const DType> types, SmallInstruction& instruction) {
  if (!is_index_type(types[1])) return false;
  const auto* keep = find_attribute<bool>(attrs, "keep_dims");
  instruction.numbers = {keep && *keep ? 1 : 0};
  if constexpr (how == Reduction::kAll || how == Reduction::kAny) {
    if (types[0] == DType::kBool) instruction.kernel = run_reduction<bool, how>;
  } else {
    if (types[0] == DType::kFloat32) instruction.kernel = run_reduction<float, how>;
    if (types[0] == DType::kFloat64) instruction.kernel = run_reduction<double, how>;
    if constexpr (how == Reduction::kMax || how == Reduction::kMin) {
      if (types[0] == DType::kInt32) instruction.kernel = run_reduction<std::int32_t, how>;
      if (types[0] == DType::kInt64) instruction.kernel = run_reduction<std::int64_t, how>;
    }
  }
  return instruction.kernel != nullptr;
}

bool build_matmul(const Attrs& attrs, std::span<const DType> types, SmallInstruction& instruction) {
  for (const char* name : {"transpose_a", "transpose_b"}) {
    const auto* flag = find_attribute<bool>(attrs, name);
    instruction.numbers.push_back(flag && *flag ? 1 : 0);
  }
  if (types[0] == DType::kFloat32) instruction.kernel = run_matmul<float>;
  if (types[0] == DType::kFloat64) instruction.kernel = run_matmul<double>;
  return instruction.kernel != nullptr;
}

bool build_bias_add(const Attrs& attrs, std::span<const DType> types, SmallInstruction& instruction) {
  const auto* format = find_attribute<std::string>(attrs, "data_format");
  if (format && *format != "NHWC") return false;
  if (types[0] == DType::kFloat32) instruction.kernel = run_bias_add<float>;
  if (types[0] == DType::kFloat64) instruction.kernel = run_bias_add<double>;
  return instruction.kernel != nullptr;
}

}  // namespace

SmallBuilder find_small_reduction(std::string_view op) {
  static const std::unordered_map<std::string_view, SmallBuilder> table = {
      {"Sum", build_reduction<Reduction::kSum>},
      {"Mean", build_reduction<Reduction::kMean>},
      {"Prod", build_reduction<Reduction::kProd>},
      {"Max", build_reduction<Reduction::kMax>},
      {"Min", build_reduction<Reduction::kMin>},
      {"All", build_reduction<Reduction::kAll>},
      {"Any", build_reduction<Reduction::kAny>},
      {"MatMul", build_matmul},
      {"BiasAdd", build_bias_add},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::ops
