// keras.ops.math and keras.ops.numpy: Fourier transforms and complex numbers
#include <algorithm>
#include <numbers>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/initializers/stft_internal.h"
#include "lockstep/keras/layers/frames_internal.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"

namespace lockstep::keras {

Tensor frames_of(const Tensor& x, std::int64_t length, std::int64_t stride) {
  const Tensor step = Tensor::scalar(static_cast<std::int32_t>(stride));
  const std::int64_t extent = x.dim(-1);
  const Tensor starts = extent != kUnknownDim
                            ? ops::range(extent < length ? 0 : (extent - length) / stride + 1) * step
                            : ops::range(Tensor::scalar(std::int32_t{0}),
                                         ops::maximum(ops::dim_of(x, x.rank() - 1) -
                                                          Tensor::scalar(static_cast<std::int32_t>(length - 1)),
                                                      Tensor::scalar(std::int32_t{0})),
                                         step);
  const Tensor places = ops::expand_dims(starts, 1) + ops::expand_dims(ops::range(length), 0);
  return ops::gather(x, places, x.rank() - 1);
}

std::vector<double> padded_window(const Json& window, std::int64_t length, std::int64_t whole, std::string_view who) {
  std::vector<double> out(static_cast<std::size_t>(whole));
  // TensorFlow's periodic windows of an odd length are symmetric.
  const std::vector<double> middle = initializers::window_values(window, length, length % 2 == 0, std::string(who));
  std::copy(middle.begin(), middle.end(), out.begin() + (whole - length) / 2);
  return out;
}

}  // namespace lockstep::keras

namespace lockstep::keras::tensor_ops {
namespace {

constexpr std::int64_t kLongest = 1 << 24;

DType real_of(const Tensor& x) { return x.dtype() == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32; }
DType complex_of(const Tensor& x) { return x.dtype() == DType::kFloat64 ? DType::kComplex128 : DType::kComplex64; }

Tensor real_part(const Tensor& x) {
  return is_complex(x.dtype()) ? ops::call1("Real", {x}, {{"Tout", real_of(x)}}) : ops::identity(x);
}
Tensor imaginary_part(const Tensor& x) {
  return is_complex(x.dtype()) ? ops::call1("Imag", {x}, {{"Tout", real_of(x)}}) : ops::zeros_like(x);
}
Tensor conjugate(const Tensor& x) { return is_complex(x.dtype()) ? ops::call1("Conj", {x}) : ops::identity(x); }
Tensor magnitude(const Tensor& x) {
  if (x.dtype() == DType::kBool || is_unsigned(x.dtype())) return ops::identity(x);
  return is_complex(x.dtype()) ? ops::call1("ComplexAbs", {x}, {{"Tout", real_of(x)}}) : ops::abs(x);
}
Tensor angle(const Tensor& x) {
  if (is_complex(x.dtype())) return ops::call1("Angle", {x}, {{"Tout", real_of(x)}});
  const Tensor y = to_floating(x);
  return ops::where(ops::less(y, 0.0), ops::zeros_like(y) + std::numbers::pi, ops::zeros_like(y));
}
Tensor is_real(const Tensor& x) {
  return is_complex(x.dtype()) ? ops::equal(imaginary_part(x), 0.0) : logical(ops::ones_like(x));
}

Tensor complex_tensor(const Tensor& real, const Tensor& imaginary) {
  return ops::call1("Complex", {real, imaginary}, {{"Tout", complex_of(real)}});
}
Structure both_parts(const Tensor& x) { return Structure::list({real_part(x), imaginary_part(x)}); }

// The argument of the transforms: a pair of real and imaginary parts.
Tensor complex_operand(const CallArguments& call) {
  const Tensors parts = tensor_list(argument(call, 0, "x"));
  if (parts.size() != 2)
    bad(fmt::format("a Fourier transform requires real and imaginary parts, found {} tensors", parts.size()));
  return complex_tensor(to_floating(parts[0]), to_floating(parts[1]));
}

Run transform(const char* op) {
  return [op](const CallArguments& call, const Json&) { return both_parts(ops::call1(op, {complex_operand(call)})); };
}

std::int64_t positive(const Json& config, const char* key) {
  const Json value = get(config, key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > kLongest)
    bad(fmt::format("{} is {}, expected an integer from 1 to 2^24", key, dump_json(value)));
  return value.get<std::int64_t>();
}

// The last axis cut, or filled with zeros, to `extent` entries.
Tensor fitted(const Tensor& x, std::int64_t extent_wanted, std::string_view op) {
  const int axis = x.rank() - 1;
  const std::int64_t found = extent(x, axis, op);
  if (found >= extent_wanted) return ops::slice_axis(x, axis, 0, extent_wanted);
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(static_cast<std::size_t>(x.rank()));
  widths.back().second = extent_wanted - found;
  return ops::pad(x, widths);
}

Tensor real_transform(const Tensor& x, std::int64_t length) {
  return ops::call1("RFFT", {fitted(x, length, "RFFT"), ops::constant_ints({length})}, {{"Tcomplex", complex_of(x)}});
}
Tensor inverse_real_transform(const Tensor& x, std::int64_t length) {
  // Complex numbers cannot be padded: parts can.
  const std::int64_t needed = length / 2 + 1;
  const Tensor y = complex_tensor(fitted(real_part(x), needed, "IRFFT"), fitted(imaginary_part(x), needed, "IRFFT"));
  return ops::call1("IRFFT", {y, ops::constant_ints({length})}, {{"Treal", real_of(x)}});
}

// What STFT and ISTFT share.
struct Window {
  std::int64_t sequence = 1, stride = 1, whole = 1;
  bool centred = true;
  std::vector<double> values;  // of `whole` entries; none without a window

  Window(const Json& config, std::string_view who)
      : sequence(positive(config, "sequence_length")),
        stride(positive(config, "sequence_stride")),
        whole(positive(config, "fft_length")),
        centred(get(config, "center", true).get<bool>()) {
    if (whole < sequence)
      bad(fmt::format("{}: fft_length is {}, expected at least sequence_length, which is {}", who, whole, sequence));
    const Json window = get(config, "window", "hann");
    if (!window.is_null()) values = padded_window(window, sequence, whole, who);
  }
  // So that overlapping pieces that were windowed twice add up to the signal (Griffin and Lim 1984, equation 7).
  std::vector<double> inverse() const {
    std::vector<double> sums(static_cast<std::size_t>(stride)), out = values;
    for (std::size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += values[i] * values[i];
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double sum = sums[i % sums.size()];
      out[i] = sum == 0 ? 0 : out[i] / sum;
    }
    return out;
  }
};

Structure stft(const CallArguments& call, const Json& config) {
  const Window window(config, "STFT");
  Tensor x = floating_operand(call);
  if (window.centred) {
    std::vector<std::pair<std::int64_t, std::int64_t>> widths(static_cast<std::size_t>(x.rank()));
    widths.back() = {window.whole / 2, window.whole / 2};
    x = ops::mirror_pad(x, widths, "REFLECT");
  }
  Tensor pieces = frames_of(x, window.whole, window.stride);
  if (!window.values.empty()) pieces = pieces * ops::cast(Tensor::from_vector(window.values), x.dtype());
  return both_parts(ops::call1("RFFT", {pieces, ops::constant_ints({window.whole})}, {{"Tcomplex", complex_of(x)}}));
}

// Pieces [..., pieces, length] added where they overlap: [..., (pieces - 1) · stride + length].
Tensor overlapped(const Tensor& pieces, std::int64_t stride) {
  const int rank = pieces.rank();
  const std::int64_t count = extent(pieces, rank - 2, "ISTFT"), length = pieces.dim(-1);
  if (count < 1 || count * length > kLongest * 16) bad(fmt::format("ISTFT of {} pieces", count));
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < length; ++j) places.push_back(static_cast<std::int32_t>(i * stride + j));
  }
  ops::Ints first = {rank - 2, rank - 1}, last;
  for (int i = 0; i + 2 < rank; ++i) first.push_back(i), last.push_back(i + 1);
  last.push_back(0);
  const Tensor ids = Tensor::from_vector(places, Shape{count, length});
  return ops::transpose(ops::unsorted_segment_sum(ops::transpose(pieces, first), ids, (count - 1) * stride + length),
                        last);
}

Structure istft(const CallArguments& call, const Json& config) {
  const Window window(config, "ISTFT");
  const Tensor x = complex_operand(call);
  Tensor pieces = inverse_real_transform(x, window.whole);
  if (!window.values.empty()) pieces = pieces * ops::cast(Tensor::from_vector(window.inverse()), pieces.dtype());
  const Tensor y = overlapped(pieces, window.stride);
  const std::int64_t start = window.centred ? window.whole / 2 : 0;
  const Json length = get(config, "length");
  if (!length.is_null()) return Structure(ops::slice_axis(y, y.rank() - 1, start, start + positive(config, "length")));
  return Structure(ops::slice_axis(y, y.rank() - 1, start, y.dim(-1) - start));
}

}  // namespace

void add_fourier(Rows& rows) {
  const auto numpy = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.numpy", std::move(run)}; };
  numpy("Real", unary(real_part));
  numpy("Imag", unary(imaginary_part));
  numpy("Conjugate", unary(conjugate));
  numpy("Conj", unary(conjugate));
  numpy("Absolute", unary(magnitude));
  numpy("Abs", unary(magnitude));
  numpy("Angle", unary(angle));
  numpy("Isreal", unary(is_real));
  rows["Polar"] = {"Polar", "keras.src.ops.nn", [](const CallArguments& call, const Json&) {
                     const Tensor size = floating_operand(call, 0, "abs_"), turn = floating_operand(call, 1, "angle");
                     return Structure(complex_tensor(size * ops::cos(turn), size * ops::sin(turn)));
                   }};
  const auto math = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.math", std::move(run)}; };
  math("FFT", transform("FFT"));
  math("FFT2", transform("FFT2D"));
  math("IFFT2", transform("IFFT2D"));
  math("RFFT", [](const CallArguments& call, const Json& config) {
    const Tensor x = floating_operand(call);
    const bool all = get(config, "fft_length").is_null();
    return both_parts(real_transform(x, all ? extent(x, x.rank() - 1, "RFFT") : positive(config, "fft_length")));
  });
  math("IRFFT", [](const CallArguments& call, const Json& config) {
    const Tensor x = complex_operand(call);
    const bool all = get(config, "fft_length").is_null();
    return Structure(
        inverse_real_transform(x, all ? 2 * (extent(x, x.rank() - 1, "IRFFT") - 1) : positive(config, "fft_length")));
  });
  math("CDist", [](const CallArguments& call, const Json&) {
    const auto [x, y] = operands(call, "x", "y");
    const Tensor difference = ops::expand_dims(to_floating(x), -2) - ops::expand_dims(to_floating(y), -3);
    return Structure(ops::sqrt(ops::reduce_sum(ops::square(difference), ops::Axes(-1))));
  });
  math("STFT", stft);
  math("ISTFT", istft);
  math("ExtractSequences", [](const CallArguments& call, const Json& config) {
    return Structure(
        frames_of(tensor_operand(call), positive(config, "sequence_length"), positive(config, "sequence_stride")));
  });
  math("ViewAsComplex", [](const CallArguments& call, const Json&) {
    const Tensor x = floating_operand(call);
    if (x.rank() < 1 || x.dim(-1) != 2)
      bad(fmt::format("ViewAsComplex: found shape {}, expected a last axis of 2", x.shape().to_string()));
    const Tensors parts = ops::unstack(x, x.rank() - 1);
    return Structure(complex_tensor(parts[0], parts[1]));
  });
  math("ViewAsReal", [](const CallArguments& call, const Json&) {
    const Tensor x = tensor_operand(call);
    return Structure(ops::stack({real_part(x), imaginary_part(x)}, -1));
  });
}

}  // namespace lockstep::keras::tensor_ops
