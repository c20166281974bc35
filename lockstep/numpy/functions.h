// More of NumPy: sets and counts, statistics, interpolation, linear algebra, Fourier transforms, text files, and how
// arrays print. As in numpy/arrays.h the results are arrays of NumPy's dtypes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/operations/operations.h"
#include "lockstep/numpy/arrays.h"
#include "lockstep/ops/complex_functions.h"

namespace lockstep::np {

using ndarray = Tensor;

// finfo(float32).eps, iinfo(uint8).max: the limits of a dtype. Throw InvalidArgument for a dtype of another kind.
struct finfo {
  explicit finfo(DTypeLike dtype);
  DType dtype;
  int bits = 0;
  double eps = 0;  // the distance from 1 to the next number
  double max = 0, min = 0;
  double tiny = 0;  // the smallest positive number with all digits
};
struct iinfo {
  explicit iinfo(DTypeLike dtype);
  DType dtype;
  int bits = 0;
  std::int64_t min = 0;
  std::uint64_t max = 0;
};

// ---- sets and counts ----
// The different elements in ascending order, of texts too.
Tensor unique(const Array& ar);
struct UniqueKeywords {
  FieldNamesOnly names_only = {};
  bool return_index = false;    // of the first of each
  bool return_inverse = false;  // for each element of `ar` its index in the result
  bool return_counts = false;
};
// const auto [values, counts] = np::unique(labels, {.return_counts = true}): a list of the values and what is asked
// for, in the order above.
keras::Structure unique(const Array& ar, const UniqueKeywords& o);
Tensor isin(const Array& element, const Array& test_elements);
Tensor intersect1d(const Array& a, const Array& b);
Tensor union1d(const Array& a, const Array& b);
Tensor setdiff1d(const Array& a, const Array& b);

struct BincountKeywords {
  FieldNamesOnly names_only = {};
  std::optional<Tensor> weights = std::nullopt;
  std::int64_t minlength = 0;
};
// How often each number from 0 to the largest is there: int64, or the float64 sums of the weights.
Tensor bincount(const Array& x, const BincountKeywords& o = {});

// A number of bins, or their edges.
class Bins {
 public:
  template <std::integral I>
  Bins(I count) : count_(count) {}
  template <typename T>
  requires std::is_convertible_v<const T&, Tensor> && std::is_class_v<T> Bins(const T& edges)
      : edges_(static_cast<Tensor>(edges)) {}
  Bins(std::initializer_list<double> edges) : edges_(Tensor(std::vector<double>(edges))) {}

  std::int64_t count() const { return count_; }
  const Tensor& edges() const { return edges_; }  // undefined for a number of bins

 private:
  std::int64_t count_ = 0;
  Tensor edges_;
};
struct HistogramKeywords {
  FieldNamesOnly names_only = {};
  Bins bins = 10;
  std::optional<std::pair<double, double>> range = std::nullopt;  // default: from the smallest to the largest value
  bool density = false;
};
// const auto [counts, edges] = np::histogram(x, {.bins = 20}).
struct Histogram {
  Tensor hist, bin_edges;
};
Histogram histogram(const Array& a, const HistogramKeywords& o = {});
template <std::convertible_to<Bins> B>  // GCC would take {.bins = 4} for a list
Histogram histogram(const Array& a, const B& bins, HistogramKeywords o = {}) {
  o.bins = bins;
  return histogram(a, o);
}
struct SearchsortedKeywords {
  FieldNamesOnly names_only = {};
  std::string side = "left";
};
inline Tensor searchsorted(const Array& a, const Array& v, const SearchsortedKeywords& o = {}) {
  const auto [sequence, values] = internal::together(a, v);
  return internal::cast(keras_ops::searchsorted(sequence, values, o.side), DType::kInt64);
}
template <std::convertible_to<std::string> Side>  // GCC would take {.side = "right"} for a string
Tensor searchsorted(const Array& a, const Array& v, const Side& side) {
  return searchsorted(a, v, SearchsortedKeywords{{}, side});
}
struct DigitizeKeywords {
  FieldNamesOnly names_only = {};
  bool right = false;
};
// The bins, whose edges ascend.
inline Tensor digitize(const Array& x, const Array& bins, const DigitizeKeywords& o = {}) {
  return searchsorted(bins, x, o.right ? "left" : "right");
}
Tensor argwhere(const Array& a);
inline Tensor flatnonzero(const Array& a) { return nonzero(a.ravel())[0].leaf(); }
inline Tensor count_nonzero(const Array& a) { return not_equal(a, 0).sum(); }
inline Tensor count_nonzero(const Array& a, const ops::AxisKeywords& o) { return not_equal(a, 0).sum(o); }
template <std::convertible_to<ops::Axes> A>
Tensor count_nonzero(const Array& a, const A& axis) {
  return not_equal(a, 0).sum(axis);
}

// ---- statistics ----
struct DiffKeywords {
  FieldNamesOnly names_only = {};
  int n = 1;
  int axis = -1;
};
Tensor diff(const Array& a, const DiffKeywords& o = {});
template <std::integral I>
Tensor diff(const Array& a, I n, int axis = -1) {
  return diff(a, DiffKeywords{{}, static_cast<int>(n), axis});
}
// Differences of the neighbours on both sides, at the ends of one side, over their distance: along one axis, or of
// several axes a list, one for each.
struct GradientKeywords {
  FieldNamesOnly names_only = {};
  std::optional<int> axis = std::nullopt;
};
keras::Structure gradient(const Array& f, double spacing, const GradientKeywords& o = {});
inline keras::Structure gradient(const Array& f, const GradientKeywords& o = {}) { return gradient(f, 1.0, o); }
struct AverageKeywords {
  FieldNamesOnly names_only = {};
  std::optional<int> axis = std::nullopt;
  std::optional<Tensor> weights = std::nullopt;
};
Tensor average(const Array& a, const AverageKeywords& o = {});
template <std::integral I>
Tensor average(const Array& a, I axis) {
  return average(a, AverageKeywords{{}, static_cast<int>(axis), std::nullopt});
}
// Of rows of observations, or of two vectors.
Tensor cov(const Array& m);
Tensor cov(const Array& m, const Array& y);
Tensor corrcoef(const Array& x);
Tensor corrcoef(const Array& x, const Array& y);
inline Tensor quantile(const Array& a, const Array& q) { return percentile(a, multiply(q, 100.0)); }
inline Tensor quantile(const Array& a, const Array& q, int axis) { return percentile(a, multiply(q, 100.0), axis); }
inline Tensor ptp(const Array& a, const ops::AxisKeywords& o = {}) { return a.max(o) - a.min(o); }
template <std::convertible_to<ops::Axes> A>
Tensor ptp(const Array& a, const A& axis) {
  return a.max(axis) - a.min(axis);
}
// Ignoring NaN.
#define LOCKSTEP_NUMPY(function)                                                                        \
  inline Tensor function(const Array& x) { return keras_ops::function(internal::to_float(x)).numpy(); } \
  inline Tensor function(const Array& x, int axis) {                                                    \
    return keras_ops::function(internal::to_float(x), axis).numpy();                                    \
  }                                                                                                     \
  inline Tensor function(const Array& x, const keras_ops::AxisKeepdimsOptions& o) {                     \
    return keras_ops::function(internal::to_float(x), o).numpy();                                       \
  }
LOCKSTEP_NUMPY(nanmax)
LOCKSTEP_NUMPY(nanmean)
LOCKSTEP_NUMPY(nanmedian)
LOCKSTEP_NUMPY(nanmin)
LOCKSTEP_NUMPY(nanstd)
LOCKSTEP_NUMPY(nansum)
LOCKSTEP_NUMPY(nanvar)
#undef LOCKSTEP_NUMPY

// ---- numbers ----
#define LOCKSTEP_NUMPY(function) \
  inline Tensor function(const Array& x) { return keras_ops::function(internal::to_float(x)).numpy(); }
LOCKSTEP_NUMPY(cbrt)
LOCKSTEP_NUMPY(deg2rad)
LOCKSTEP_NUMPY(exp2)
LOCKSTEP_NUMPY(nan_to_num)
LOCKSTEP_NUMPY(rad2deg)
LOCKSTEP_NUMPY(sinc)
#undef LOCKSTEP_NUMPY
#define LOCKSTEP_NUMPY(function)                                                            \
  inline Tensor function(const Array& x1, const Array& x2) {                                \
    const auto [a, b] = internal::together(internal::to_float(x1), internal::to_float(x2)); \
    return keras_ops::function(a, b).numpy();                                               \
  }
LOCKSTEP_NUMPY(hypot)
LOCKSTEP_NUMPY(logaddexp)
#undef LOCKSTEP_NUMPY
#define LOCKSTEP_NUMPY(function)                             \
  inline Tensor function(const Array& x1, const Array& x2) { \
    const auto [a, b] = internal::together(x1, x2);          \
    return keras_ops::function(a, b).numpy();                \
  }
LOCKSTEP_NUMPY(cross)
LOCKSTEP_NUMPY(fmod)
LOCKSTEP_NUMPY(inner)
LOCKSTEP_NUMPY(kron)
LOCKSTEP_NUMPY(logical_xor)
LOCKSTEP_NUMPY(vdot)
#undef LOCKSTEP_NUMPY
inline Tensor negative(const Array& x) { return -x; }
inline Tensor true_divide(const Array& a, const Array& b) { return divide(a, b); }
inline Tensor around(const Array& x, int decimals = 0) { return round(x, decimals); }
inline Tensor isclose(const Array& a, const Array& b, double rtol = 1e-5, double atol = 1e-8) {
  const auto [x, y] = internal::together(internal::to_float(a), internal::to_float(b));
  return keras_ops::isclose(x, y, rtol, atol).numpy();
}
inline Tensor real(const Array& x) {
  return is_complex(x.dtype()) ? keras_ops::real(static_cast<const Tensor&>(x)).numpy() : x.numpy();
}
inline Tensor imag(const Array& x) {
  return is_complex(x.dtype()) ? keras_ops::imag(static_cast<const Tensor&>(x)).numpy() : zeros_like(x);
}
inline Tensor angle(const Array& x) { return keras_ops::angle(static_cast<const Tensor&>(x)).numpy(); }
inline Tensor tensordot(const Array& a, const Array& b, const internal::OpArgument& axes = 2) {
  const auto [x, y] = internal::together(a, b);
  return keras_ops::tensordot(x, y, axes).numpy();
}
template <typename... Operands>
Tensor einsum(const std::string& subscripts, const Operands&... operands) {
  return keras_ops::einsum(subscripts, Tensor(Array(operands))...).numpy();
}
inline Tensor trace(const Array& a) { return keras_ops::trace(static_cast<const Tensor&>(a)).numpy(); }

// ---- shapes ----
inline Tensor flipud(const Array& m) { return flip(static_cast<const Tensor&>(m), 0); }
inline Tensor fliplr(const Array& m) { return flip(static_cast<const Tensor&>(m), 1); }
inline Tensor empty_like(const Array& x) { return zeros_like(x); }
inline Tensor atleast_1d(const Array& x) { return x.rank() == 0 ? x.reshape(1) : x.numpy(); }
inline Tensor atleast_2d(const Array& x) { return x.rank() < 2 ? x.reshape(1, -1) : x.numpy(); }
// Vectors as the columns of a matrix.
Tensor column_stack(const std::vector<Array>& columns);
// Without the elements (rows) of these indices.
Tensor delete_(const Array& arr, const Array& obj, std::optional<int> axis = std::nullopt);
// The coordinates of indices of the flattened array: an int64 array for each axis.
keras::Structure unravel_index(const Array& indices, const Shape& shape);
struct LogspaceKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num = 50;
  bool endpoint = true;
  double base = 10.0;
};
inline Tensor logspace(double start, double stop, const LogspaceKeywords& o = {}) {
  return power(o.base, linspace(start, stop, LinspaceKeywords{{}, o.num, o.endpoint, DType::kFloat64}));
}
template <std::integral I>
Tensor logspace(double start, double stop, I num, LogspaceKeywords o = {}) {
  o.num = num;
  return logspace(start, stop, o);
}

// ---- signals ----
// Linear interpolation between points of ascending x; beyond them the first and the last value.
Tensor interp(const Array& x, const Array& xp, const Array& fp);
// Of two vectors. mode: "full", "same" or "valid".
struct ConvolveKeywords {
  FieldNamesOnly names_only = {};
  std::string mode = "full";
};
Tensor convolve(const Array& a, const Array& v, const ConvolveKeywords& o = {});
template <std::convertible_to<std::string> Mode>
Tensor convolve(const Array& a, const Array& v, const Mode& mode) {
  return convolve(a, v, ConvolveKeywords{{}, mode});
}

namespace fft {

// Of the last axis: complex128.
inline Tensor fft(const Array& a) { return signal::fft(internal::cast(a, DType::kComplex128)).numpy(); }
inline Tensor ifft(const Array& a) { return signal::ifft(internal::cast(a, DType::kComplex128)).numpy(); }
inline Tensor rfft(const Array& a) { return signal::rfft(internal::cast(a, DType::kFloat64)).numpy(); }
inline Tensor irfft(const Array& a) { return signal::irfft(internal::cast(a, DType::kComplex128)).numpy(); }
Tensor fftfreq(std::int64_t n, double d = 1.0);
Tensor rfftfreq(std::int64_t n, double d = 1.0);

}  // namespace fft

namespace linalg {

inline Tensor cholesky(const Array& a) { return keras_ops::cholesky(internal::to_float(a)).numpy(); }
inline Tensor det(const Array& a) { return keras_ops::det(internal::to_float(a)).numpy(); }
inline keras::Structure eigh(const Array& a) { return np::internal::arrays(keras_ops::eigh(internal::to_float(a))); }
inline Tensor inv(const Array& a) { return keras_ops::inv(internal::to_float(a)).numpy(); }
inline Tensor pinv(const Array& a) { return keras_ops::pinv(internal::to_float(a)).numpy(); }
inline keras::Structure qr(const Array& a) { return np::internal::arrays(keras_ops::qr(internal::to_float(a))); }
inline Tensor solve(const Array& a, const Array& b) {
  return keras_ops::solve(internal::to_float(a), internal::to_float(b)).numpy();
}
struct SvdKeywords {
  FieldNamesOnly names_only = {};
  bool full_matrices = true;
};
inline keras::Structure svd(const Array& a, const SvdKeywords& o = {}) {
  return np::internal::arrays(keras_ops::svd(internal::to_float(a), o.full_matrices));
}

}  // namespace linalg

// ---- text files ----
struct LoadtxtKeywords {
  FieldNamesOnly names_only = {};
  std::string delimiter = {};  // default: white space
  std::int64_t skiprows = 0;
  std::vector<std::int64_t> usecols = {};  // default: all
  DTypeLike dtype = DType::kFloat64;
  std::string comments = "#";
};
// The numbers of a file, a row for each line; of one row or column a vector. Throws NotFound when the file does not
// exist, and InvalidArgument, with the line, when a field is not a number or the rows have different lengths.
Tensor loadtxt(const std::string& fname, const LoadtxtKeywords& o = {});
struct GenfromtxtKeywords {
  FieldNamesOnly names_only = {};
  std::string delimiter = {};  // default: white space
  std::int64_t skip_header = 0;
  std::vector<std::int64_t> usecols = {};
  DTypeLike dtype = DType::kFloat64;
  std::string comments = "#";
};
// The same, with NaN for each field that is not a number.
Tensor genfromtxt(const std::string& fname, const GenfromtxtKeywords& o = {});
struct SavetxtKeywords {
  FieldNamesOnly names_only = {};
  std::string fmt = "%.18e";  // of each number, or of a row
  std::string delimiter = " ";
  std::string header = {};
  std::string comments = "# ";  // before the header
};
// Writes a vector or a matrix. The file is replaced in one step. Throws InvalidArgument for a format that is not one of
// numbers (%d, %i, %f, %e, %g, with width and precision).
void savetxt(const std::string& fname, const Array& X, const SavetxtKeywords& o = {});

// ---- printing ----
struct PrintOptions {
  FieldNamesOnly names_only = {};
  std::optional<int> precision = std::nullopt;           // digits after the point, default 8
  std::optional<std::int64_t> threshold = std::nullopt;  // more elements are summarized, default 1000
  std::optional<std::int64_t> edgeitems = std::nullopt;  // as this many at each end of an axis, default 3
  std::optional<std::int64_t> linewidth = std::nullopt;  // default 75
  std::optional<bool> suppress = std::nullopt;           // no exponents, default false
};
// How arrays and tensors print in this process. What is not given stays as it is.
void set_printoptions(const PrintOptions& o);

}  // namespace lockstep::np
