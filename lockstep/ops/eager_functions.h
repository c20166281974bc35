// Functions of TensorFlow that graphs need, where everything runs at once: tf.no_op, tf.group, tf.control_dependencies,
// tf.name_scope, ...; tf.dtypes, tf.test, tf.autograph and tf.get_logger; and second names of functions:
// tf.assert_equal, tf.as_string, tf.dtypes.cast.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/log.h"
#include "lockstep/ops/complex_functions.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/debugging.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/string_functions.h"
#include "lockstep/ops/tensor_functions.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

// Whether the value is a tensor, a variable, ...: not a number, a string or a list of these.
template <typename T>
bool is_tensor(const T&) {
  return std::is_class_v<T> && std::is_convertible_v<const T&, Tensor> && !std::is_convertible_v<T, std::string_view>;
}
// What has run already needs no order.
inline void no_op() {}
template <typename... Operations>
void group(const Operations&...) {}
class [[maybe_unused]] control_dependencies {
 public:
  template <typename... T>
  explicit control_dependencies(const T&...) {}
  template <typename T>
  control_dependencies(std::initializer_list<T>) {}
  ~control_dependencies() {}
};
// A scope has no effect: names of tensors are not used.
class [[maybe_unused]] name_scope {
 public:
  explicit name_scope(std::string_view) {}
  ~name_scope() {}
};
class [[maybe_unused]] init_scope {
 public:
  init_scope() {}
  ~init_scope() {}
};
inline bool inside_function() { return false; }
// The value, or an undefined tensor where it is not known yet.
inline Tensor get_static_value(const Tensor& tensor) { return tensor.is_value() ? tensor : Tensor(); }
// Seconds since 1970, float64.
inline Tensor timestamp() {
  return Tensor::scalar(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
}

// tf.get_logger().setLevel("ERROR"): which messages of lockstep are shown.
class Logger {
 public:
  // "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL" or "FATAL", or their numbers 10, 20, ... of Python. Throws
  // InvalidArgument for another one.
  void setLevel(std::string_view level) const;
  void setLevel(int level) const;
};
inline Logger get_logger() { return {}; }

inline constexpr DType half = DType::kFloat16;
inline constexpr DType double_ = DType::kFloat64;  // `double` is a keyword of C++
inline DType as_dtype(DTypeLike type) { return type; }

namespace autograph {
inline void set_verbosity(int, bool = false) {}
namespace experimental {
template <typename Fn>
Fn do_not_convert(Fn fn) {
  return fn;
}
}  // namespace experimental
}  // namespace autograph

// This build runs on CPUs.
namespace test {
inline bool is_gpu_available() { return false; }
inline bool is_built_with_cuda() { return false; }
inline bool is_built_with_gpu_support() { return false; }
inline bool is_built_with_rocm() { return false; }
inline bool is_built_with_xla() { return false; }
inline std::string gpu_device_name() { return {}; }
}  // namespace test

namespace debugging {

// Throws InvalidArgument with the first values of `data` where not all elements of the condition are true.
void Assert(const Tensor& condition, const std::vector<Printed>& data = {}, std::int64_t summarize = 3);
void assert_rank_at_least(const Tensor& x, int rank, const AssertOptions& options = {});
void assert_rank_in(const Tensor& x, const std::vector<int>& ranks, const AssertOptions& options = {});
void assert_integer(const Tensor& x, const AssertOptions& options = {});
void assert_scalar(const Tensor& tensor, const AssertOptions& options = {});
Tensor assert_all_finite(const Tensor& x, std::string_view message);
inline bool is_numeric_tensor(const Tensor& x) {
  return is_floating(x.dtype()) || is_integer(x.dtype()) || is_complex(x.dtype());
}
inline void enable_traceback_filtering() {}
inline void disable_traceback_filtering() {}

}  // namespace debugging

namespace ops {

using debugging::Assert;
using debugging::assert_equal;
using debugging::assert_greater;
using debugging::assert_less;
using debugging::assert_rank;
using strings::as_string;
// Quotients of integers without their fractions, and what is left; and quotients of numbers of one dtype.
Tensor truncatediv(const Tensor& x, const Tensor& y);
Tensor truncatemod(const Tensor& x, const Tensor& y);
Tensor realdiv(const Tensor& x, const Tensor& y);

}  // namespace ops

namespace dtypes {

using lockstep::as_dtype;
using lockstep::bfloat16;
using lockstep::bool_;
using lockstep::complex128;
using lockstep::complex64;
using lockstep::double_;
using lockstep::float16;
using lockstep::float32;
using lockstep::float64;
using lockstep::half;
using lockstep::int16;
using lockstep::int32;
using lockstep::int64;
using lockstep::int8;
using lockstep::string;
using lockstep::uint16;
using lockstep::uint32;
using lockstep::uint64;
using lockstep::uint8;
using ops::cast;
using ops::complex;
using ops::saturate_cast;

}  // namespace dtypes
}  // namespace lockstep
