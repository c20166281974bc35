#include "lockstep/ops/complex_functions.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep::ops {
namespace {

bool is_complex(const Tensor& x) { return x.dtype() == DType::kComplex64 || x.dtype() == DType::kComplex128; }
DType real_of(const Tensor& x) { return x.dtype() == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32; }

}  // namespace

Tensor real(const Tensor& x) { return is_complex(x) ? call1("Real", {x}, {{"Tout", real_of(x)}}) : x; }
Tensor imag(const Tensor& x) { return is_complex(x) ? call1("Imag", {x}, {{"Tout", real_of(x)}}) : zeros_like(x); }
Tensor conj(const Tensor& x) { return is_complex(x) ? call1("Conj", {x}) : x; }
Tensor angle(const Tensor& x) {
  if (is_complex(x)) return call1("Angle", {x}, {{"Tout", real_of(x)}});
  constexpr double pi = 3.14159265358979323846;
  return cast(less(x, zeros_like(x)), x.dtype()) * pi;
}
Tensor complex(const Tensor& real, const Tensor& imag) {
  const DType type = real.dtype() == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
  return call1("Complex", {real, imag}, {{"Tout", type}});
}

}  // namespace lockstep::ops

namespace lockstep::signal {
namespace {

// The last axis with `length` elements: cut, or with zeros at its end.
Tensor with_length(const Tensor& x, std::int64_t length) {
  const std::int64_t found = x.dim(-1);
  if (found == length) return x;
  if (found > length) {
    ops::Ints sizes(static_cast<std::size_t>(x.rank()), -1);
    sizes.back() = length;
    return ops::slice(x, ops::Ints(sizes.size(), 0), sizes);
  }
  std::vector<std::pair<std::int64_t, std::int64_t>> paddings(static_cast<std::size_t>(x.rank()));
  paddings.back().second = length - found;
  return ops::pad(x, paddings);
}

}  // namespace

Tensor fft(const Tensor& x) { return ops::call1("FFT", {x}); }
Tensor ifft(const Tensor& x) { return ops::call1("IFFT", {x}); }
Tensor fft2d(const Tensor& x) { return ops::call1("FFT2D", {x}); }
Tensor ifft2d(const Tensor& x) { return ops::call1("IFFT2D", {x}); }
Tensor fft3d(const Tensor& x) { return ops::call1("FFT3D", {x}); }
Tensor ifft3d(const Tensor& x) { return ops::call1("IFFT3D", {x}); }
Tensor rfft(const Tensor& x, std::optional<std::int64_t> fft_length) {
  const std::int64_t length = fft_length.value_or(x.dim(-1));
  const DType type = x.dtype() == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64;
  return ops::call1("RFFT", {with_length(x, length), ops::constant_ints({length})}, {{"Tcomplex", type}});
}
Tensor irfft(const Tensor& x, std::optional<std::int64_t> fft_length) {
  const std::int64_t length = fft_length.value_or(2 * (x.dim(-1) - 1));
  const DType type = x.dtype() == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32;
  return ops::call1("IRFFT", {with_length(x, length / 2 + 1), ops::constant_ints({length})}, {{"Treal", type}});
}

namespace {

// The numbers of the last axes that count, with zeros where there are fewer.
Tensor with_lengths(Tensor x, const std::vector<std::int64_t>& lengths) {
  const int axes = static_cast<int>(lengths.size());
  for (int i = 0; i < axes; ++i) {
    const int axis = x.rank() - axes + i;
    const std::int64_t wanted = lengths[static_cast<std::size_t>(i)], found = x.dim(axis);
    if (found > wanted) {
      x = ops::slice_axis(x, axis, 0, wanted);
    } else if (found < wanted) {
      ops::Paddings paddings(static_cast<std::size_t>(x.rank()));
      paddings[static_cast<std::size_t>(axis)].second = wanted - found;
      x = ops::pad(x, paddings, ops::PadKeywords{});
    }
  }
  return x;
}
Tensor real_transform(const char* op, int axes, bool inverse, const Tensor& x, const FftKeywords& o) {
  std::vector<std::int64_t> lengths = o.fft_length;
  if (lengths.empty()) {
    for (int axis = -axes; axis < 0; ++axis) lengths.push_back(x.dim(axis));
    if (inverse) lengths.back() = 2 * (lengths.back() - 1);
  }
  if (static_cast<int>(lengths.size()) != axes)
    throw_invalid_argument(fmt::format("{}: fft_length has {} numbers, expected {}", op, lengths.size(), axes));
  std::vector<std::int64_t> taken = lengths;
  if (inverse) taken.back() = lengths.back() / 2 + 1;
  const bool is_double = x.dtype() == DType::kFloat64 || x.dtype() == DType::kComplex128;
  const Tensor input = with_lengths(x, taken), length = ops::constant_ints(lengths);
  if (inverse) return ops::call1(op, {input, length}, {{"Treal", is_double ? DType::kFloat64 : DType::kFloat32}});
  return ops::call1(op, {input, length}, {{"Tcomplex", is_double ? DType::kComplex128 : DType::kComplex64}});
}

}  // namespace
Tensor rfft2d(const Tensor& x, const FftKeywords& o) { return real_transform("RFFT2D", 2, false, x, o); }
Tensor irfft2d(const Tensor& x, const FftKeywords& o) { return real_transform("IRFFT2D", 2, true, x, o); }
Tensor rfft3d(const Tensor& x, const FftKeywords& o) { return real_transform("RFFT3D", 3, false, x, o); }
Tensor irfft3d(const Tensor& x, const FftKeywords& o) { return real_transform("IRFFT3D", 3, true, x, o); }
Tensor rfft(const Tensor& x, const FftKeywords& o) { return real_transform("RFFT", 1, false, x, o); }
Tensor irfft(const Tensor& x, const FftKeywords& o) { return real_transform("IRFFT", 1, true, x, o); }

}  // namespace lockstep::signal
