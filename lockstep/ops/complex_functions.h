// Complex numbers and spectra: tf.math.real, tf.complex, tf.signal.fft2d, ...
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

inline constexpr DType complex64 = DType::kComplex64;
inline constexpr DType complex128 = DType::kComplex128;

}  // namespace lockstep

namespace lockstep::ops {

// Of a tensor that is not complex itself, zeros, and itself.
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);
Tensor conj(const Tensor& x);
Tensor angle(const Tensor& x);
// complex64 of float32, complex128 of float64.
Tensor complex(const Tensor& real, const Tensor& imag);
struct ComplexKeywords {
  FieldNamesOnly names_only = {};
  Tensor real, imag;
};
inline Tensor complex(const ComplexKeywords& o) { return complex(o.real, o.imag); }

}  // namespace lockstep::ops

namespace lockstep::signal {

// Over the last axis, or the last two or three, of complex tensors.
Tensor fft(const Tensor& x);
Tensor ifft(const Tensor& x);
Tensor fft2d(const Tensor& x);
Tensor ifft2d(const Tensor& x);
Tensor fft3d(const Tensor& x);
Tensor ifft3d(const Tensor& x);
// Of real tensors over the last axis: fft_length / 2 + 1 complex numbers; and back. Default of fft_length: the extent
// of the axis, for irfft 2 * (extent - 1).
Tensor rfft(const Tensor& x, std::optional<std::int64_t> fft_length = std::nullopt);
Tensor irfft(const Tensor& x, std::optional<std::int64_t> fft_length = std::nullopt);
// Over the last two or three axes, of which the last one has half of the numbers. fft_length: of each of them.
struct FftKeywords {
  FieldNamesOnly names_only = {};
  std::vector<std::int64_t> fft_length = {};
};
Tensor rfft2d(const Tensor& x, const FftKeywords& o = {});
Tensor irfft2d(const Tensor& x, const FftKeywords& o = {});
Tensor rfft3d(const Tensor& x, const FftKeywords& o = {});
Tensor irfft3d(const Tensor& x, const FftKeywords& o = {});
Tensor rfft(const Tensor& x, const FftKeywords& o);
Tensor irfft(const Tensor& x, const FftKeywords& o);

}  // namespace lockstep::signal
