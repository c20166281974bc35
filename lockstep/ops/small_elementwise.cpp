// Elementwise kernels of small programs.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "lockstep/ops/small_program_internal.h"

namespace lockstep::ops {
namespace {

template <typename T>
constexpr DType kDType = DType::kInvalid;
template <>
constexpr DType kDType<float> = DType::kFloat32;
template <>
constexpr DType kDType<double> = DType::kFloat64;
template <>
constexpr DType kDType<std::int32_t> = DType::kInt32;
template <>
constexpr DType kDType<std::int64_t> = DType::kInt64;
template <>
constexpr DType kDType<bool> = DType::kBool;

bool same_dims(const SmallValue& a, const SmallValue& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.dims[static_cast<std::size_t>(i)] != b.dims[static_cast<std::size_t>(i)]) return false;
  }
  return true;
}

void copy_shape(const SmallValue& from, SmallValue& to) {
  to.rank = from.rank;
  to.dims = from.dims;
}

// Extent and step of the axes of a broadcast, the last axis first.
bool broadcast_dims(const SmallValue& a, SmallValue& out) {
  const int rank = std::max(a.rank, out.rank);
  std::array<std::int64_t, kSmallRank> dims{};
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t x = i <= a.rank ? a.dims[static_cast<std::size_t>(a.rank - i)] : 1;
    const std::int64_t y = i <= out.rank ? out.dims[static_cast<std::size_t>(out.rank - i)] : 1;
    if (x != y && x != 1 && y != 1) return false;
    dims[static_cast<std::size_t>(rank - i)] = x == 1 ? y : x;
  }
  out.rank = rank;
  out.dims = dims;
  return true;
}

// Visits the elements of `out` with the place of each in an operand that is broadcast to it.
class Places {
 public:
  Places(const SmallValue& x, const SmallValue& out) : out_(out) {
    std::int64_t step = 1;
    for (int i = 1; i <= x.rank; ++i) {
      const std::int64_t dim = x.dims[static_cast<std::size_t>(x.rank - i)];
      steps_[static_cast<std::size_t>(out.rank - i)] = dim == 1 ? 0 : step;
      step *= dim;
    }
  }
  std::int64_t at(std::int64_t element) const {
    std::int64_t place = 0;
    for (int i = out_.rank - 1; i >= 0; --i) {
      const std::int64_t dim = out_.dims[static_cast<std::size_t>(i)];
      place += element % dim * steps_[static_cast<std::size_t>(i)];
      element /= dim;
    }
    return place;
  }

 private:
  const SmallValue& out_;
  std::array<std::int64_t, kSmallRank> steps_{};
};

template <typename T, typename R, typename F>
bool run_unary(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& x = instruction.in(frame, 0);
  SmallValue& out = frame.result(instruction.output);
  if (!x.data) return false;
  out.dtype = kDType<R>;
  copy_shape(x, out);
  auto* to = static_cast<R*>(frame.allocate(out));
  const T* from = x.as<T>();
  for (std::int64_t i = 0; i < out.count; ++i) to[i] = F::template apply<T>(from[i]);
  return true;
}

template <typename T, typename R, typename F>
bool run_binary(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &a = instruction.in(frame, 0), &b = instruction.in(frame, 1);
  SmallValue& out = frame.result(instruction.output);
  if (!a.data || !b.data) return false;
  out.dtype = kDType<R>;
  const T *x = a.as<T>(), *y = b.as<T>();
  bool defined = true;
  if (b.count == 1 && b.rank <= a.rank) {
    copy_shape(a, out);
    auto* to = static_cast<R*>(frame.allocate(out));
    for (std::int64_t i = 0; i < out.count; ++i) to[i] = F::template apply<T>(x[i], y[0], defined);
    return defined;
  }
  if (a.count == 1 && a.rank <= b.rank) {
    copy_shape(b, out);
    auto* to = static_cast<R*>(frame.allocate(out));
    for (std::int64_t i = 0; i < out.count; ++i) to[i] = F::template apply<T>(x[0], y[i], defined);
    return defined;
  }
  if (same_dims(a, b)) {
    copy_shape(a, out);
    auto* to = static_cast<R*>(frame.allocate(out));
    for (std::int64_t i = 0; i < out.count; ++i) to[i] = F::template apply<T>(x[i], y[i], defined);
    return defined;
  }
  copy_shape(a, out);
  if (!broadcast_dims(b, out)) return false;
  auto* to = static_cast<R*>(frame.allocate(out));
  if (!to) return false;
  const Places of_a(a, out), of_b(b, out);
  for (std::int64_t i = 0; i < out.count; ++i) {
    to[i] = F::template apply<T>(x[of_a.at(i)], y[of_b.at(i)], defined);
  }
  return defined;
}

template <typename T>
bool run_select(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue &test = instruction.in(frame, 0), &a = instruction.in(frame, 1), &b = instruction.in(frame, 2);
  SmallValue& out = frame.result(instruction.output);
  if (!test.data || !a.data || !b.data) return false;
  // Select, the older operation, has its own rules for a vector of conditions.
  const bool older = !instruction.numbers.empty();
  if (older && (!same_dims(a, b) || !(test.rank == 0 || same_dims(test, a)))) return false;
  out.dtype = instruction.dtype;
  copy_shape(a, out);
  if (!broadcast_dims(b, out) || !broadcast_dims(test, out)) return false;
  auto* to = static_cast<T*>(frame.allocate(out));
  if (!to) return false;
  const Places of_test(test, out), of_a(a, out), of_b(b, out);
  for (std::int64_t i = 0; i < out.count; ++i) {
    to[i] = test.as<bool>()[of_test.at(i)] ? a.as<T>()[of_a.at(i)] : b.as<T>()[of_b.at(i)];
  }
  return true;
}

template <typename T>
bool run_add_n(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& first = instruction.in(frame, 0);
  SmallValue& out = frame.result(instruction.output);
  if (!first.data) return false;
  out.dtype = instruction.dtype;
  copy_shape(first, out);
  auto* to = static_cast<T*>(frame.allocate(out));
  std::copy_n(first.as<T>(), out.count, to);
  for (std::size_t n = 1; n < instruction.operands.size(); ++n) {
    const SmallValue& x = instruction.in(frame, n);
    if (!x.data || !same_dims(x, first)) return false;
    for (std::int64_t i = 0; i < out.count; ++i) to[i] += x.as<T>()[i];
  }
  return true;
}

bool run_identity(const SmallInstruction& instruction, SmallFrame& frame) {
  frame.result(instruction.output) = instruction.in(frame, 0);
  return true;
}

// ---- functions of numbers ----------------------------------------------------------------------------------
// Integers wrap around, as they do in TensorFlow and LibTorch.
template <typename T>
using Wrapping = std::make_unsigned_t<T>;

#define LOCKSTEP_UNARY(Name, expression) \
  struct Name {                          \
    template <typename T>                \
    static auto apply(T x) {             \
      return expression;                 \
    }                                    \
  }
#define LOCKSTEP_BINARY(Name, expression)                    \
  struct Name {                                              \
    template <typename T>                                    \
    static auto apply(T a, T b, [[maybe_unused]] bool& ok) { \
      return expression;                                     \
    }                                                        \
  }
#define LOCKSTEP_WRAPPING(Name, op)                                                        \
  struct Name {                                                                            \
    template <typename T>                                                                  \
    static T apply(T a, T b, bool&) {                                                      \
      if constexpr (std::is_integral_v<T>)                                                 \
        return static_cast<T>(static_cast<Wrapping<T>>(a) op static_cast<Wrapping<T>>(b)); \
      else                                                                                 \
        return a op b;                                                                     \
    }                                                                                      \
  }

LOCKSTEP_WRAPPING(Add, +);
LOCKSTEP_WRAPPING(Subtract, -);
LOCKSTEP_WRAPPING(Multiply, *);
struct SquaredDifference {
  template <typename T>
  static T apply(T a, T b, bool& ok) {
    const T d = Subtract::apply(a, b, ok);
    return Multiply::apply(d, d, ok);
  }
};
LOCKSTEP_BINARY(Divide, a / b);
LOCKSTEP_BINARY(DivideNoNan, b == T(0) ? T(0) : a / b);
LOCKSTEP_BINARY(Larger, a > b || std::isnan(static_cast<double>(a)) ? a : b);
LOCKSTEP_BINARY(Smaller, a < b || std::isnan(static_cast<double>(a)) ? a : b);
LOCKSTEP_BINARY(Power, std::pow(a, b));
LOCKSTEP_BINARY(IsLess, a < b);
LOCKSTEP_BINARY(IsLessOrEqual, a <= b);
LOCKSTEP_BINARY(IsGreater, a > b);
LOCKSTEP_BINARY(IsGreaterOrEqual, a >= b);
LOCKSTEP_BINARY(IsEqual, a == b);
LOCKSTEP_BINARY(IsNotEqual, a != b);
LOCKSTEP_BINARY(Both, a&& b);
LOCKSTEP_BINARY(Either, a || b);

// Integers only; LibTorch's kernel reports a division by zero, and divides by -1 without a trap.
struct FloorQuotient {
  template <typename T>
  static T apply(T a, T b, bool& ok) {
    if (b == 0 || b == -1) return ok = false, T(0);
    const T quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  }
};
struct FloorRemainder {
  template <typename T>
  static T apply(T a, T b, bool& ok) {
    if (b == 0 || b == -1) return ok = false, T(0);
    const T rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};

LOCKSTEP_UNARY(Exponential, std::exp(x));
LOCKSTEP_UNARY(Logarithm, std::log(x));
LOCKSTEP_UNARY(Log1p, std::log1p(x));
LOCKSTEP_UNARY(Expm1, std::expm1(x));
LOCKSTEP_UNARY(Root, std::sqrt(x));
LOCKSTEP_UNARY(InverseRoot, T(1) / std::sqrt(x));
LOCKSTEP_UNARY(HyperbolicTangent, std::tanh(x));
LOCKSTEP_UNARY(Logistic, T(1) / (T(1) + std::exp(-x)));
LOCKSTEP_UNARY(Sine, std::sin(x));
LOCKSTEP_UNARY(Cosine, std::cos(x));
LOCKSTEP_UNARY(Tangent, std::tan(x));
LOCKSTEP_UNARY(ArcTangent, std::atan(x));
LOCKSTEP_UNARY(ErrorFunction, std::erf(x));
LOCKSTEP_UNARY(RoundDown, std::floor(x));
LOCKSTEP_UNARY(RoundUp, std::ceil(x));
LOCKSTEP_UNARY(RoundHalfEven, std::nearbyint(x));
LOCKSTEP_UNARY(Rectified, x < T(0) ? T(0) : x);
LOCKSTEP_UNARY(RectifiedTo6, x < T(0) ? T(0) : (x > T(6) ? T(6) : x));
LOCKSTEP_UNARY(ExponentialUnit, x > T(0) ? x : std::expm1(x));
LOCKSTEP_UNARY(SmoothRectified, std::log1p(std::exp(-std::abs(x))) + (x > T(0) ? x : T(0)));
LOCKSTEP_UNARY(SmoothSign, x / (T(1) + std::abs(x)));
LOCKSTEP_UNARY(Inverse, T(1) / x);
LOCKSTEP_UNARY(IsNan, std::isnan(x));
LOCKSTEP_UNARY(IsInfinite, std::isinf(x));
LOCKSTEP_UNARY(IsFinite, std::isfinite(x));
LOCKSTEP_UNARY(Not, !x);
LOCKSTEP_UNARY(Zero, (static_cast<void>(x), T(0)));
LOCKSTEP_UNARY(One, (static_cast<void>(x), T(1)));
struct Negative {
  template <typename T>
  static T apply(T x) {
    bool ok = true;
    if constexpr (std::is_integral_v<T>) return Subtract::apply(T(0), x, ok);
    return -x;
  }
};
struct Magnitude {
  template <typename T>
  static T apply(T x) {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Negative::apply(x) : x;
    else
      return std::abs(x);
  }
};
struct Squared {
  template <typename T>
  static T apply(T x) {
    bool ok = true;
    return Multiply::apply(x, x, ok);
  }
};
struct SignOf {
  template <typename T>
  static T apply(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;  // that of NaN is NaN
  }
};

template <typename T, typename R>
bool run_cast(const SmallInstruction& instruction, SmallFrame& frame) {
  const SmallValue& x = instruction.in(frame, 0);
  SmallValue& out = frame.result(instruction.output);
  if (!x.data) return false;
  out.dtype = kDType<R>;
  copy_shape(x, out);
  auto* to = static_cast<R*>(frame.allocate(out));
  for (std::int64_t i = 0; i < out.count; ++i) {
    const T value = x.as<T>()[i];
    // Out of range, and for NaN, the result depends on the CPU.
    if constexpr (std::is_floating_point_v<T> && std::is_integral_v<R> && !std::is_same_v<R, bool>) {
      if (!(std::abs(static_cast<double>(value)) < 0x1p31)) return false;
    }
    to[i] = static_cast<R>(value);
  }
  return true;
}

// ---- builders --------------------------------------------------------------------------------------------------
constexpr unsigned kFloats = 1, kInts = 2, kBools = 4, kNumbers = kFloats | kInts, kAll = kNumbers | kBools;

// make<T>() for the C++ type of `dtype`; null for a dtype that is not among `kinds`.
template <unsigned kinds, typename Make>
SmallKernel kernel_for(DType dtype, const Make& make) {
  if constexpr ((kinds & kFloats) != 0) {
    if (dtype == DType::kFloat32) return make.template operator()<float>();
    if (dtype == DType::kFloat64) return make.template operator()<double>();
  }
  if constexpr ((kinds & kInts) != 0) {
    if (dtype == DType::kInt32) return make.template operator()<std::int32_t>();
    if (dtype == DType::kInt64) return make.template operator()<std::int64_t>();
  }
  if constexpr ((kinds & kBools) != 0) {
    if (dtype == DType::kBool) return make.template operator()<bool>();
  }
  return nullptr;
}

template <typename F, unsigned kinds>
bool build_unary(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  instruction.kernel = kernel_for<kinds>(
      types[0], []<typename T>() -> SmallKernel { return run_unary<T, decltype(F::template apply<T>(T())), F>; });
  return instruction.kernel != nullptr;
}

template <typename F, unsigned kinds>
bool build_binary(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  instruction.kernel = kernel_for<kinds>(types[0], []<typename T>() -> SmallKernel {
    using R = decltype(F::template apply<T>(T(), T(), std::declval<bool&>()));
    return run_binary<T, R, F>;
  });
  return instruction.kernel != nullptr;
}

template <bool older>
bool build_select(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  if (types[0] != DType::kBool) return false;
  instruction.dtype = types[1];
  if (older) instruction.numbers = {1};
  instruction.kernel = kernel_for<kAll>(types[1], []<typename T>() -> SmallKernel { return run_select<T>; });
  return instruction.kernel != nullptr;
}

bool build_add_n(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  instruction.dtype = types[0];
  instruction.kernel = kernel_for<kFloats>(types[0], []<typename T>() -> SmallKernel { return run_add_n<T>; });
  return instruction.kernel != nullptr;
}

bool build_cast(const Attrs& attrs, std::span<const DType> types, SmallInstruction& instruction) {
  const auto* to = std::get_if<DType>(attrs.find("DstT"));
  if (!to) return false;
  instruction.kernel = kernel_for<kAll>(types[0], [to]<typename T>() -> SmallKernel {
    return kernel_for<kAll>(*to, []<typename R>() -> SmallKernel { return run_cast<T, R>; });
  });
  return instruction.kernel != nullptr;
}

bool build_identity(const Attrs&, std::span<const DType> types, SmallInstruction& instruction) {
  instruction.kernel = kernel_for<kAll>(types[0], []<typename T>() -> SmallKernel { return run_identity; });
  return instruction.kernel != nullptr;
}

}  // namespace

SmallBuilder find_small_elementwise(std::string_view op) {
  static const std::unordered_map<std::string_view, SmallBuilder> table = {
      {"Add", build_binary<Add, kNumbers>},
      {"AddV2", build_binary<Add, kNumbers>},
      {"Sub", build_binary<Subtract, kNumbers>},
      {"Mul", build_binary<Multiply, kNumbers>},
      {"RealDiv", build_binary<Divide, kFloats>},
      {"Div", build_binary<Divide, kFloats>},
      {"DivNoNan", build_binary<DivideNoNan, kFloats>},
      {"FloorDiv", build_binary<FloorQuotient, kInts>},
      {"FloorMod", build_binary<FloorRemainder, kInts>},
      {"Maximum", build_binary<Larger, kNumbers>},
      {"Minimum", build_binary<Smaller, kNumbers>},
      {"SquaredDifference", build_binary<SquaredDifference, kNumbers>},
      {"Pow", build_binary<Power, kFloats>},
      {"Less", build_binary<IsLess, kNumbers>},
      {"LessEqual", build_binary<IsLessOrEqual, kNumbers>},
      {"Greater", build_binary<IsGreater, kNumbers>},
      {"GreaterEqual", build_binary<IsGreaterOrEqual, kNumbers>},
      {"Equal", build_binary<IsEqual, kAll>},
      {"NotEqual", build_binary<IsNotEqual, kAll>},
      {"LogicalAnd", build_binary<Both, kBools>},
      {"LogicalOr", build_binary<Either, kBools>},
      {"LogicalNot", build_unary<Not, kBools>},
      {"Neg", build_unary<Negative, kNumbers>},
      {"Abs", build_unary<Magnitude, kNumbers>},
      {"Square", build_unary<Squared, kNumbers>},
      {"Sign", build_unary<SignOf, kNumbers>},
      {"Exp", build_unary<Exponential, kFloats>},
      {"Log", build_unary<Logarithm, kFloats>},
      {"Log1p", build_unary<Log1p, kFloats>},
      {"Expm1", build_unary<Expm1, kFloats>},
      {"Sqrt", build_unary<Root, kFloats>},
      {"Rsqrt", build_unary<InverseRoot, kFloats>},
      {"Tanh", build_unary<HyperbolicTangent, kFloats>},
      {"Sigmoid", build_unary<Logistic, kFloats>},
      {"Sin", build_unary<Sine, kFloats>},
      {"Cos", build_unary<Cosine, kFloats>},
      {"Tan", build_unary<Tangent, kFloats>},
      {"Atan", build_unary<ArcTangent, kFloats>},
      {"Erf", build_unary<ErrorFunction, kFloats>},
      {"Floor", build_unary<RoundDown, kFloats>},
      {"Ceil", build_unary<RoundUp, kFloats>},
      {"Round", build_unary<RoundHalfEven, kFloats>},
      {"Rint", build_unary<RoundHalfEven, kFloats>},
      {"Relu", build_unary<Rectified, kFloats>},
      {"Relu6", build_unary<RectifiedTo6, kFloats>},
      {"Elu", build_unary<ExponentialUnit, kFloats>},
      {"Softplus", build_unary<SmoothRectified, kFloats>},
      {"Softsign", build_unary<SmoothSign, kFloats>},
      {"Reciprocal", build_unary<Inverse, kFloats>},
      {"Inv", build_unary<Inverse, kFloats>},
      {"IsNan", build_unary<IsNan, kFloats>},
      {"IsInf", build_unary<IsInfinite, kFloats>},
      {"IsFinite", build_unary<IsFinite, kFloats>},
      {"ZerosLike", build_unary<Zero, kNumbers>},
      {"OnesLike", build_unary<One, kNumbers>},
      {"Select", build_select<true>},
      {"SelectV2", build_select<false>},
      {"AddN", build_add_n},
      {"Cast", build_cast},
      {"Identity", build_identity},
      {"StopGradient", build_identity},
      {"PreventGradient", build_identity},
      {"Snapshot", build_identity},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::ops
