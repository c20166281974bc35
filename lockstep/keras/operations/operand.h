// Arguments of the functions of keras.ops.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/json.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/nested.h"
#include "lockstep/tensor/none.h"

namespace lockstep::keras_ops {

using keras::Structure;

// An item of a list of operands.
class ListItem : public Structure {
 public:
  using Structure::Structure;
  ListItem(const Structure& item) : Structure(item) {}
  // Of one tensor its elements, as NumPy's flatten() of predictions; of several the list of them.
  ListItem(const Leaves& leaves)
      : Structure(leaves.size() == 1 ? Structure(static_cast<Tensor>(leaves)) : Structure(Tensors(leaves))) {}
};

// What is computed with: a tensor, a symbolic tensor of a functional model, a variable, a number, a list of these.
class Operand {
 public:
  Operand(std::nullptr_t) : value_(keras::ArgValue(Json(nullptr))) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(T number) : value_(keras::ArgValue(Json(number))) {}
  template <typename T>
  requires(std::convertible_to<const T&, Structure> && !std::is_arithmetic_v<T>) Operand(const T& value)
      : Operand(Structure(value), 0) {}
  // Numbers: one_hot(actions, 4) of a std::vector<int>.
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(const std::vector<T>& numbers)
      : Operand(Structure(Tensor::from_vector(numbers)), 0) {}
  Operand(const Leaves& leaves) : Operand(ListItem(leaves), 0) {}
  Operand(std::initializer_list<Values> values) : Operand(Structure(Tensor(values)), 0) {}
  template <int = 0>  // worse than the one above, as {{1.0}, {2.0}} would be a list of two tensors, too
  Operand(std::initializer_list<ListItem> items) : Operand(Structure::list({items.begin(), items.end()}), 0) {}

  const keras::Argument& value() const { return value_; }

 private:
  Operand(const Structure& value, int) : value_(keras::to_argument(value)) {}
  keras::Argument value_;
};

// An item of a list in braces: a number, or a list of them.
class ArgumentItem {
 public:
  template <typename T>
  requires std::is_arithmetic_v<T> ArgumentItem(T number) : value_(number) {}
  ArgumentItem(std::initializer_list<ArgumentItem> items);
  // Of an extent, ops::shape(x)[0]: its value. Throws InvalidArgument where that is not known.
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) ArgumentItem(const T& extent)
      : ArgumentItem(known_extent(extent)) {}

  const Json& value() const { return value_; }

 private:
  static std::int64_t known_extent(const Tensor& extent);
  Json value_;
};

// How it is computed: a number, a string, a dtype, a shape, a list, or nullptr for Python's None.
class OpArgument {
 public:
  OpArgument(std::nullptr_t) {}
  OpArgument(std::nullopt_t) {}
  OpArgument(NoneType) {}
  OpArgument(bool value) : value_(value) {}
  template <std::integral T>
  OpArgument(T value) : value_(static_cast<std::int64_t>(value)) {}
  OpArgument(double value) : value_(value) {}
  OpArgument(const char* value) : value_(std::string(value)) {}
  OpArgument(std::string value) : value_(std::move(value)) {}
  OpArgument(DType value) : value_(std::string(dtype_name(value))) {}
  template <std::derived_from<DTypeLike> T>  // np::float32
  OpArgument(const T& value) : OpArgument(static_cast<DType>(value)) {}
  OpArgument(const Shape& value) : value_(value.dims()) {}
  OpArgument(const std::vector<std::int64_t>& value) : value_(value) {}
  template <std::integral T>
  OpArgument(const std::vector<T>& value) : value_(std::vector<std::int64_t>(value.begin(), value.end())) {}
  // pad(x, paddings) of a table made in a loop.
  template <std::integral T>
  OpArgument(const std::vector<std::vector<T>>& rows) : value_(Json::array()) {
    for (const auto& row : rows) value_.push_back(std::vector<std::int64_t>(row.begin(), row.end()));
  }
  OpArgument(std::initializer_list<ArgumentItem> items);
  OpArgument(Json value) : value_(std::move(value)) {}
  // One integer or a vector of them: ops::shape(x)[0]. Throws InvalidArgument for other tensors and symbolic ones.
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor>) OpArgument(const T& integers) {
    set(static_cast<Tensor>(integers));
  }

  const Json& value() const { return value_; }

 private:
  void set(const Tensor& integers);

  Json value_;
};

namespace internal {

using Keywords = std::initializer_list<std::pair<const char*, OpArgument>>;
// The operation of a class of keras.ops: computed, or added to the functional model whose tensors are among the
// operands. Throws InvalidArgument for arguments that do not fit.
Structure run_several(std::string_view class_name, std::initializer_list<Operand> operands, Keywords config,
                      std::initializer_list<std::pair<const char*, Operand>> named = {});
Tensor run(std::string_view class_name, std::initializer_list<Operand> operands, Keywords config,
           std::initializer_list<std::pair<const char*, Operand>> named = {});

}  // namespace internal

}  // namespace lockstep::keras_ops
