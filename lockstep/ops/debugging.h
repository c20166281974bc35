// tf.debugging, tf.print and tf.strings.format. Checks throw InvalidArgument at the first element that fails. While a
// graph or a functional model is built, values are not known and are not checked; shapes are, as far as they are known.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/structure.h"

namespace lockstep::debugging {

// A tensor or a number, which takes the dtype of the tensor that it is compared with.
class Operand {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(T number) : number_(number), is_number_(true) {}
  template <std::convertible_to<Tensor> T>
  requires std::is_class_v<T> Operand(const T& tensor) : tensor_(static_cast<Tensor>(tensor)) {}
  Operand(std::initializer_list<Values> values) : tensor_(values) {}
  const Tensor& tensor() const { return tensor_; }
  bool is_number() const { return is_number_; }
  Number number() const { return number_; }

 private:
  Tensor tensor_;
  Number number_ = 0;
  bool is_number_ = false;
};

struct AssertOptions {
  FieldNamesOnly names_only = {};
  std::string message = {};  // before the found values
};
void assert_equal(const Operand& x, const Operand& y, const AssertOptions& options = {});
void assert_none_equal(const Operand& x, const Operand& y, const AssertOptions& options = {});
void assert_greater(const Operand& x, const Operand& y, const AssertOptions& options = {});
void assert_greater_equal(const Operand& x, const Operand& y, const AssertOptions& options = {});
void assert_less(const Operand& x, const Operand& y, const AssertOptions& options = {});
void assert_less_equal(const Operand& x, const Operand& y, const AssertOptions& options = {});
void assert_positive(const Tensor& x, const AssertOptions& options = {});
void assert_non_negative(const Tensor& x, const AssertOptions& options = {});
void assert_negative(const Tensor& x, const AssertOptions& options = {});
void assert_non_positive(const Tensor& x, const AssertOptions& options = {});
struct NearOptions {
  FieldNamesOnly names_only = {};
  double rtol = -1;  // below 0: 10 times the distance from 1 to the next number of the dtype
  double atol = -1;  // the same
  std::string message = {};
};
// |x - y| <= atol + rtol * |y|.
void assert_near(const Operand& x, const Operand& y, const NearOptions& options = {});
void assert_rank(const Tensor& x, int rank, const AssertOptions& options = {});
void assert_type(const Tensor& x, DTypeLike tf_type, const AssertOptions& options = {});
// One extent of assert_shapes(): a number, kUnknownDim for any, or a name, which stands for the same number everywhere.
class NamedExtent {
 public:
  template <std::integral I>
  NamedExtent(I number) : number_(static_cast<std::int64_t>(number)) {}
  NamedExtent(const char* name) : name_(name) {}
  NamedExtent(std::string name) : name_(std::move(name)) {}
  std::int64_t number() const { return number_; }
  const std::string& name() const { return name_; }

 private:
  std::int64_t number_ = kUnknownDim;
  std::string name_;
};
// assert_shapes({{x, {"N", "Q"}}, {y, {"N", 3}}}).
void assert_shapes(const std::vector<std::pair<Tensor, std::vector<NamedExtent>>>& shapes,
                   const AssertOptions& options = {});
// From now on, and until disable_check_numerics(), an operation of which a result has a NaN or an infinite element
// throws InvalidArgument, which names the operation; in all threads. Operations that only move values, and the compiled
// inference of predict(), are not checked.
void enable_check_numerics();
void disable_check_numerics();
// x. Throws InvalidArgument, beginning with the message, where it has a NaN or an infinite element.
Tensor check_numerics(const Tensor& x, std::string_view message);

}  // namespace lockstep::debugging

namespace lockstep::strings {

struct FormatKeywords {
  FieldNamesOnly names_only = {};
  std::string_view placeholder = "{}";
  std::int64_t summarize = 3;  // elements at each end of an axis; -1: all
};
// The template with the tensors in the places of its placeholders, a string.
Tensor format(std::string_view text, const Nested<Tensor>& inputs, const FormatKeywords& keywords = {});

}  // namespace lockstep::strings

namespace lockstep {

struct PrintOptions {
  FieldNamesOnly names_only = {};
  std::string output_stream = "stderr";  // or "stdout", or "file://PATH", to whose end it is written
  std::int64_t summarize = 3;
  std::string sep = " ";
  std::string end = "\n";
};
// A string, a number, a tensor, or a structure of tensors.
class Printed {
 public:
  Printed(const char* text) : text_(text), is_text_(true) {}
  Printed(std::string text) : text_(std::move(text)), is_text_(true) {}
  Printed(bool value) : Printed(value ? "True" : "False") {}
  template <typename T>
  requires std::is_arithmetic_v<T> Printed(T number) : values_(Tensor(std::initializer_list<Values>{number})[0]) {}
  template <typename T>
  requires(std::is_class_v<T> && !std::is_convertible_v<const T&, std::string> &&
           std::is_convertible_v<const T&, Nested<Tensor>>) Printed(const T& values)
      : values_(values) {}
  std::string to_string(std::int64_t summarize) const;

 private:
  std::string text_;
  Nested<Tensor> values_;
  bool is_text_ = false;
};
namespace internal {
void print(const std::vector<Printed>& parts, const PrintOptions& options);
}
// tf.print(x, y, ...): to stderr, with spaces between them.
template <typename... T>
requires(std::is_convertible_v<const T&, Printed>&&...) void print(const T&... parts) {
  internal::print({Printed(parts)...}, {});
}
// With options: print("loss:", loss, {.output_stream = "stdout"}).
inline void print(const Printed& part, const PrintOptions& options) { internal::print({part}, options); }
inline void print(const Printed& a, const Printed& b, const PrintOptions& options) { internal::print({a, b}, options); }
inline void print(const Printed& a, const Printed& b, const Printed& c, const PrintOptions& options) {
  internal::print({a, b, c}, options);
}
inline void print(const Printed& a, const Printed& b, const Printed& c, const Printed& d, const PrintOptions& options) {
  internal::print({a, b, c, d}, options);
}

}  // namespace lockstep
