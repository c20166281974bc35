// The one tensor type: a value in memory, an edge of a graph being built, or a handle.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lockstep/base/dtype.h"
#include "lockstep/base/shape.h"
#include "lockstep/formats/tensor_data.h"
#include "lockstep/tensor/axes.h"

namespace lockstep {

namespace ops {
struct SliceSpec;
}
struct TensorImpl;
class Symbol;
class Resource;
class Tensor;
class RaggedTensor;
class Json;
struct NoneType;
class ShapePart;

using Tensors = std::vector<Tensor>;

// A number combined with a tensor, as in `x * 2` and `x + 0.5`: it takes the tensor's dtype.
class Number {
 public:
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Number(T value)
      : real_(static_cast<double>(value)), is_integer_(std::is_integral_v<T>), is_bool_(std::is_same_v<T, bool>) {
    if constexpr (std::is_integral_v<T>) integer_ = static_cast<std::int64_t>(value);
  }
  // An extent: input_shape[1] in a layer's build().
  template <std::same_as<ShapePart> Extent>
  Number(const Extent& extent) : Number(static_cast<std::int64_t>(extent)) {}
  bool is_integer() const { return is_integer_; }  // as it was written: 2 is, 2.0 is not
  bool is_bool() const { return is_bool_; }        // true and false, which are integers too
  double value() const { return real_; }
  std::int64_t integer() const { return integer_; }

 private:
  std::int64_t integer_ = 0;
  double real_;
  bool is_integer_;
  bool is_bool_;
};

// x.item(): the number in a tensor of one element, which prints as in Python and is a double elsewhere.
class Item : public Number {
 public:
  using Number::Number;
  explicit Item(Number number) : Number(number) {}
  operator double() const { return value(); }
};
std::ostream& operator<<(std::ostream& out, const Item& item);
// Next to other numbers, which these would be ambiguous with. Integers stay integers, except in a quotient.
#define LOCKSTEP_ITEM_OPERATOR(op, result)                                           \
  inline auto operator op(const Item& a, const Item& b) { return result(a, b, op); } \
  template <typename T>                                                              \
  requires std::is_arithmetic_v<T>                                                   \
  auto operator op(const Item& a, T b) { return a op Item(b); }                      \
  template <typename T>                                                              \
  requires std::is_arithmetic_v<T>                                                   \
  auto operator op(T a, const Item& b) { return Item(a) op b; }
#define LOCKSTEP_OF_ITEMS(a, b, op) \
  (a.is_integer() && b.is_integer() ? Item(a.integer() op b.integer()) : Item(a.value() op b.value()))
#define LOCKSTEP_OF_VALUES(a, b, op) (a.value() op b.value())
LOCKSTEP_ITEM_OPERATOR(+, LOCKSTEP_OF_ITEMS)
LOCKSTEP_ITEM_OPERATOR(-, LOCKSTEP_OF_ITEMS)
LOCKSTEP_ITEM_OPERATOR(*, LOCKSTEP_OF_ITEMS)
LOCKSTEP_ITEM_OPERATOR(/, LOCKSTEP_OF_VALUES)
LOCKSTEP_ITEM_OPERATOR(<, LOCKSTEP_OF_VALUES)
LOCKSTEP_ITEM_OPERATOR(<=, LOCKSTEP_OF_VALUES)
LOCKSTEP_ITEM_OPERATOR(>, LOCKSTEP_OF_VALUES)
LOCKSTEP_ITEM_OPERATOR(>=, LOCKSTEP_OF_VALUES)
LOCKSTEP_ITEM_OPERATOR(==, LOCKSTEP_OF_VALUES)
LOCKSTEP_ITEM_OPERATOR(!=, LOCKSTEP_OF_VALUES)
#undef LOCKSTEP_OF_ITEMS
#undef LOCKSTEP_OF_VALUES
#undef LOCKSTEP_ITEM_OPERATOR

// Numbers, booleans or strings in braces, nested as the axes of a tensor: {{1, 2}, {3, 4}}.
class Values {
 public:
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Values(T value)
      : kind_(std::is_same_v<T, bool>       ? Kind::kBool
              : std::is_floating_point_v<T> ? Kind::kReal
              : sizeof(T) > 4               ? Kind::kLong
                                            : Kind::kInt),
        number_(value) {}
  Values(const char* text) : kind_(Kind::kText), text_(text) {}
  Values(std::string text) : kind_(Kind::kText), text_(std::move(text)) {}
  Values(std::initializer_list<Values> items) : kind_(Kind::kList), items_(items) {}
  template <typename T>
  Values(const std::vector<T>& items) : kind_(Kind::kList), items_(items.begin(), items.end()) {}

 private:
  friend class Tensor;
  friend class RaggedTensor;
  enum class Kind { kBool, kInt, kLong, kReal, kText, kList };
  Kind kind_;
  Number number_ = 0;
  std::string text_;
  std::vector<Values> items_;
};

// Vectors in a vector, and so on.
template <typename T>
struct NestedVector {
  using Element = T;
};
template <typename T>
struct NestedVector<std::vector<T>> : NestedVector<T> {};

struct Range;
class Leaves;
class ShapeArg;
class TensorRows;

// By keywords, and by position. The latter is a template, because GCC would take {.axis = 1} for a list.
#define LOCKSTEP_ARRAY_REDUCTION(function)                       \
  Tensor function(const ops::AxisKeywords& keywords = {}) const; \
  template <std::convertible_to<ops::Axes> A = ops::Axes>        \
  Tensor function(const A& axis, bool keepdims = false) const {  \
    return function(ops::AxisKeywords{{}, axis, keepdims});      \
  }

// A cheap handle; copies share the same memory. Its content is one of
//   - a dense value (a LibTorch tensor; data layout is TensorFlow's, e.g. NHWC),
//   - byte strings (dtype kString),
//   - a resource handle (dtype kResource: a variable, a table),
//   - a variant value (dtype kVariant: a TensorList, which is a plain list of tensors),
//   - a symbol (any dtype): the output of a node of a graph or of a functional model being built.
// Values are immutable to users, except those of NumPy's arrays; a Variable has a value that changes.
class Tensor {
 public:
  Tensor() = default;  // undefined: "no tensor", e.g. an absent mask
  Tensor(std::nullopt_t) {}
  // A number: float32 of a fraction, int32 (int64 of a 64-bit integer), bool. As in Python it takes the dtype of a
  // tensor that it is added to, subtracted from, ...: `Tensor loss = 0; loss += x;`
  template <typename T>
  requires std::is_arithmetic_v<T> Tensor(T number) : Tensor(of_number(number)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  // `x[0] = y`, `x.index({i, j}) = 1.0`: changes the elements of NumPy's arrays, of np::zeros and the like, in all
  // copies of the handle; integers and booleans in brackets work, too. Tensors are immutable, as in TensorFlow: throws
  // FailedPrecondition. (A variable has v.index({...}).assign(y).) Defined in ops/functions_array.cpp.
  void operator=(const Tensor& values) &&;
  template <typename T>
  requires std::is_arithmetic_v<T>
  void operator=(T number) && { assign_number(number); }

  // tf.constant of a list: {1, 2} is int32 (int64 of 64-bit integers), {1.5, 2} float32, {true, false} bool, {"a"} a
  // string tensor; or of the given dtype. Throws InvalidArgument for lists of different lengths.
  Tensor(std::initializer_list<Values> values, DType dtype = DType::kInvalid);
  // np.array of a list of numbers, with the dtype of its elements.
  template <typename T>
  requires std::is_arithmetic_v<T> Tensor(const std::vector<T>& values) : Tensor(from_vector(values)) {}
  template <std::same_as<std::string> T>
  Tensor(const std::vector<T>& texts) : Tensor(strings(texts, Shape{static_cast<std::int64_t>(texts.size())})) {}

  // np.array of a list of lists, of which each has an axis. Throws InvalidArgument for lists of different lengths.
  template <typename T, typename E = typename NestedVector<T>::Element>
  requires std::is_arithmetic_v<E> || std::is_same_v<E, std::string> Tensor(const std::vector<std::vector<T>>& rows)
      : Tensor(of_rows<E>(rows)) {}

  // Dense values. Throw InvalidArgument when the number of elements does not fit the shape.
  template <typename T>
  static Tensor scalar(T value);  // T: float, double, bool, [u]int8..64
  static Tensor scalar(double value, DType dtype);
  template <typename T>
  static Tensor from_vector(const std::vector<T>& values, const Shape& shape);
  template <typename T>
  static Tensor from_vector(const std::vector<T>& values) {
    return from_vector(values, Shape{static_cast<std::int64_t>(values.size())});
  }
  // Shares the bytes (no copy); string data becomes a string tensor.
  static Tensor from_data(const formats::TensorData& data);
  static Tensor zeros(const Shape& shape, DType dtype = DType::kFloat32);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::kFloat32);

  static Tensor strings(std::vector<std::string> values, Shape shape);
  static Tensor resource(std::shared_ptr<Resource> resource);
  static Tensor list(Tensors elements, Shape element_shape, DType element_dtype);
  static Tensor symbol(std::shared_ptr<const Symbol> symbol);

  bool defined() const { return impl_ != nullptr; }
  bool is_symbolic() const;
  bool is_value() const;   // dense or strings
  bool is_number() const;  // made of a C++ number, by the constructor above
  DType dtype() const;
  const Shape& shape() const&;  // fully known unless symbolic
  Shape shape() && { return std::as_const(*this).shape(); }
  int rank() const { return shape().rank(); }
  Shape get_shape() const { return shape(); }
  std::string name() const;  // of a symbol; throws InvalidArgument for a value
  int ndim() const { return rank(); }
  std::int64_t dim(int axis) const {  // throws OutOfRange
    const Shape& own = shape();
    if (axis >= own.rank() || axis < -own.rank()) throw_no_such_axis(axis);
    return own[axis];
  }
  std::int64_t num_elements() const;  // of a value
  std::int64_t size() const { return num_elements(); }
  std::int64_t nbytes() const { return num_elements() * static_cast<std::int64_t>(dtype_size(dtype())); }

  // The elements in row-major order in host memory; copies when the value is in other memory or strided.
  // T must be the C++ type of the dtype (bool for kBool, std::uint16_t for the 16-bit floats, std::string for kString).
  template <typename T>
  std::vector<T> to_vector() const;
  // The single element of a tensor with one element, converted.
  template <typename T>
  T item() const;
  Item item() const;
  // float(t), int(t), …: the same.
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  explicit operator T() const {
    return item<T>();
  }
  // std::string(t): the same of a string.
  template <std::same_as<std::string> T>
  explicit operator T() const {
    return item<T>();
  }
  // The value, which tapes do not know: what is a NumPy array in Python is a tensor here, with the members of arrays
  // that programs use most: x_train.reshape(60000, 784).astype("float32"). Axes and results are NumPy's: sums of
  // integers are int64, means float64, std divides by n, argmax without an axis is an index among all elements.
  // std::cout << x.numpy() prints "[1. 2.]". Next to a tensor an array takes the tensor's dtype, as in TensorFlow.
  Tensor numpy() const;
  // The elements as lists in lists, as x.tolist() of an array. Throws InvalidArgument for complex numbers.
  Json tolist() const;
  // RaggedTensor's functions of these names, of a ragged value in a structure; to_tensor() of another tensor is the
  // tensor. Defined in ops/ragged_tensor.cpp.
  Tensor to_tensor() const;
  Json to_list() const;
  // tf.Tensor.set_shape: throws InvalidArgument unless the tensor has this shape, which may have unknown extents.
  void set_shape(const Shape& shape) const;
  Tensor reshape(const ShapeArg& shape) const;
  template <std::integral... I>
  Tensor reshape(I... extents) const {
    return reshaped({static_cast<std::int64_t>(extents)...});
  }
  Tensor astype(DType dtype) const;
  Tensor astype(std::string_view dtype) const;
  Tensor flatten() const;
  Tensor ravel() const { return flatten(); }
  Tensor copy() const;  // of an array with elements of its own
  Tensor transpose() const;
  Tensor transpose(std::initializer_list<std::int64_t> axes) const;
  Tensor T() const { return transpose(); }
  Tensor swapaxes(int a, int b) const;
  Tensor squeeze(std::optional<int> axis = std::nullopt) const;
  Tensor repeat(std::int64_t repeats, std::optional<int> axis = std::nullopt) const;
  Tensor clip(Number min, Number max) const;
  Tensor round(int decimals = 0) const;
  Tensor cumsum(std::optional<int> axis = std::nullopt) const;
  Tensor dot(const Tensor& other) const;
  // x.sum(), x.sum(0), x.sum({0, 1}), x.sum({.axis = 0, .keepdims = true}).
  LOCKSTEP_ARRAY_REDUCTION(sum)
  LOCKSTEP_ARRAY_REDUCTION(prod)
  LOCKSTEP_ARRAY_REDUCTION(mean)
  LOCKSTEP_ARRAY_REDUCTION(std)
  LOCKSTEP_ARRAY_REDUCTION(var)
  LOCKSTEP_ARRAY_REDUCTION(max)
  LOCKSTEP_ARRAY_REDUCTION(min)
  LOCKSTEP_ARRAY_REDUCTION(any)
  LOCKSTEP_ARRAY_REDUCTION(all)
#undef LOCKSTEP_ARRAY_REDUCTION
  Tensor argmax(std::optional<int> axis = std::nullopt) const;
  Tensor argmin(std::optional<int> axis = std::nullopt) const;
  Tensor argsort(int axis = -1) const;
  // "tf.Tensor([1. 2.], shape=(2,), dtype=float32)", as TensorFlow prints it.
  std::string to_string() const;

  // x[3] and x[{0, 32}] as in Python, recorded and differentiated like operations. Throw OutOfRange for an index beyond
  // the first axis. Defined in ops/functions_array.cpp.
  Tensor operator[](std::int64_t index) const;
  Tensor operator[](const Range& range) const;
  // x[mask], x[i], x[indices]: of booleans the elements where the mask is true (ops::boolean_mask), of one integer the
  // element, of several, as in NumPy, these elements (ops::gather). Throws InvalidArgument for other dtypes. A
  // template, because {0, 3} would also be a tensor.
  template <typename T>
  requires(std::is_class_v<T> && !std::same_as<T, NoneType> && std::is_convertible_v<const T&, Tensor>) Tensor
  operator[](const T& entries) const {
    return elements(static_cast<Tensor>(entries));
  }
  // x[None], x[newaxis]: with a new first axis; x[all], x[ellipsis]: x.
  template <typename S>
  requires(std::same_as<S, ops::SliceSpec> || std::same_as<S, NoneType>) Tensor operator[](const S& entry) const {
    return index({entry});
  }
  // for (const auto& row : x): the elements of the first axis. Throw InvalidArgument for a scalar and where their
  // number is not known.
  TensorRows begin() const;
  TensorRows end() const;
  // const auto [a, b] = x, const auto [a, b, c] = x.parts<3>(): the elements of the first axis. Throw InvalidArgument
  // for another number of them.
  template <std::size_t N>
  std::array<Tensor, N> parts() const {
    std::array<Tensor, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = part_of(i, N);
    return out;
  }
  template <std::size_t I>
  Tensor get() const {
    return part_of(I, 2);
  }
  // Several axes: x.index({all, 0}) is Python's x[:, 0], x.index({ellipsis, {0, 2}}) is x[..., 0:2]. Throws OutOfRange
  // for an index outside an axis.
  Tensor index(std::initializer_list<ops::SliceSpec> entries) const;

  formats::TensorData to_data() const;  // shares memory when contiguous on the host

  const std::vector<std::string>& string_values() const&;  // of a string tensor
  std::vector<std::string> string_values() && { return std::as_const(*this).string_values(); }
  const std::shared_ptr<Resource>& resource_value() const;
  const Tensors& list_elements() const&;
  Tensors list_elements() && { return std::as_const(*this).list_elements(); }
  const Shape& list_element_shape() const;
  DType list_element_dtype() const;
  const std::shared_ptr<const Symbol>& symbol_value() const;

  // Attributes that Keras attaches to a tensor; undefined if there are none. Operations do not pass them on.
  Tensor mask() const;    // which elements count, a bool tensor
  Tensor logits() const;  // the input of the softmax or sigmoid that computed this tensor
  void set_mask(const Tensor& mask) const;
  void set_logits(const Tensor& logits) const;

  const std::shared_ptr<const TensorImpl>& impl() const { return impl_; }
  explicit Tensor(std::shared_ptr<const TensorImpl> impl) : impl_(std::move(impl)) {}

  // Whether both handles are the very same tensor.
  friend bool same(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }

 private:
  static Tensor of_number(const Values& number);
  [[noreturn]] static void throw_uneven_lists(std::int64_t first, std::size_t other, std::size_t axis);
  template <typename E, typename T>
  static void collect(const T& items, std::size_t axis, std::vector<std::int64_t>& dims, std::vector<E>& values) {
    if (axis == dims.size()) {
      dims.push_back(static_cast<std::int64_t>(items.size()));
    } else if (dims[axis] != static_cast<std::int64_t>(items.size())) {
      throw_uneven_lists(dims[axis], items.size(), axis);
    }
    if constexpr (std::is_same_v<typename T::value_type, E>) {
      values.insert(values.end(), items.begin(), items.end());
    } else {
      for (const auto& item : items) collect(item, axis + 1, dims, values);
    }
  }
  template <typename E, typename T>
  static Tensor of_rows(const T& rows) {
    std::vector<std::int64_t> dims;
    std::vector<E> values;
    collect(rows, 0, dims, values);
    if constexpr (std::is_same_v<E, std::string>) {
      return strings(std::move(values), Shape(dims));
    } else {
      return from_vector(values, Shape(dims));
    }
  }
  [[noreturn]] void throw_no_such_axis(int axis) const;
  Tensor reshaped(std::vector<std::int64_t> dims) const;
  void assign_number(Number number) const;
  Tensor elements(const Tensor& given) const;
  Tensor part_of(std::size_t index, std::size_t size) const;

  std::shared_ptr<const TensorImpl> impl_;
};

// The tensors of a structure in order: model.outputs().flatten(). As a tensor it is, of one tensor, the vector of its
// elements, as NumPy's flatten() of predictions: const Tensor errors = model.predict(x).flatten() - y. Throws
// InvalidArgument for another number of tensors.
class Leaves : public Tensors {
 public:
  using Tensors::Tensors;
  operator Tensor() const;
};

// An index on an axis: a number, or an integer tensor of one element, whose value need not be known while a graph or a
// functional model is built. Default: none.
class Place {
 public:
  Place() = default;
  Place(std::nullopt_t) {}
  template <std::integral I>
  Place(I number) : number_(static_cast<std::int64_t>(number)) {}
  Place(const std::optional<std::int64_t>& number) : number_(number) {}
  // A tensor, or what converts to one. Throws InvalidArgument for a tensor that is not one integer.
  template <typename T>
  requires(std::is_class_v<T> && !std::same_as<T, NoneType> && std::is_convertible_v<const T&, Tensor>)
      Place(const T& scalar) {
    set(static_cast<Tensor>(scalar));
  }

  bool has_value() const { return number_ || tensor_.defined(); }
  const std::optional<std::int64_t>& number() const { return number_; }  // if it is known
  const Tensor& tensor() const { return tensor_; }                       // undefined where the number is known

 private:
  void set(const Tensor& scalar);

  std::optional<std::int64_t> number_;
  Tensor tensor_;
};

// Elements begin, begin + step, … before end, of the first axis: x[{0, 32}] is Python's x[0:32]. Negative indices count
// from the end; std::nullopt: from the first, to the last.
struct Range {
  Place begin, end;
  std::int64_t step = 1;
  // Both, so that x[{None}], which Python would read as x[[None]], is not a range.
  Range(Place begin, Place end, std::int64_t step = 1) : begin(std::move(begin)), end(std::move(end)), step(step) {}
};

// Iterates over the elements of a tensor's first axis.
class TensorRows {
 public:
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;
  // Of a loop in a function: see LoopDraws in ops/function_draws_internal.h.
  class Loop {
   public:
    virtual ~Loop() = default;
    virtual void enter(std::int64_t row) = 0;  // does nothing where it is in that row
    virtual void leave() = 0;
  };
  TensorRows(Tensor tensor, std::int64_t row, std::shared_ptr<Loop> loop = nullptr)
      : tensor_(std::move(tensor)), row_(row), loop_(std::move(loop)) {}
  Tensor operator*() const {
    if (loop_) loop_->enter(row_);
    return tensor_[row_];
  }
  TensorRows& operator++() {
    if (loop_) loop_->leave();
    ++row_;
    return *this;
  }
  TensorRows operator++(int) {
    const TensorRows before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const TensorRows& a, const TensorRows& b) { return a.row_ == b.row_; }

 private:
  Tensor tensor_;
  std::int64_t row_;
  std::shared_ptr<Loop> loop_;
};

// Python's len(): the extent of a tensor's first axis, the number of items of others. Throws InvalidArgument for a
// scalar.
std::int64_t len(const Tensor& tensor);
template <typename T>
requires(!std::is_convertible_v<const T&, Tensor>) std::int64_t len(const T& items) {
  return static_cast<std::int64_t>(items.size());
}
template <typename T>
std::int64_t len(const std::vector<T>& items) {
  return static_cast<std::int64_t>(items.size());
}

template <>
std::vector<std::string> Tensor::to_vector<std::string>() const;
template <>
std::string Tensor::item<std::string>() const;

std::ostream& operator<<(std::ostream& out, const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
// As a tensor is written in a list: "<tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 2], dtype=int32)>"; an array
// as NumPy's repr() writes it.
std::string repr(const Tensor& tensor);

// Something that operations change or look up by reference.
class Resource {
 public:
  virtual ~Resource() = default;
  virtual std::string resource_name() const = 0;
};

// A resource that holds one tensor: the object of VarHandleOp's handle.
class VariableResource : public Resource {
 public:
  virtual DType dtype() const = 0;
  virtual Shape shape() const = 0;
  virtual bool is_initialized() const = 0;
  // Inside a GradientTape the value is tied to the tape. Throws FailedPrecondition before initialization.
  virtual Tensor read() = 0;
  virtual void assign(const Tensor& value) = 0;
};

}  // namespace lockstep

template <>
struct std::tuple_size<lockstep::Tensor> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, lockstep::Tensor> {
  using type = lockstep::Tensor;
};
