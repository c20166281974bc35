#include "lockstep/ops/tensor_array.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep {

struct TensorArray::State {
  DType dtype;
  bool grows;
  Shape element_shape;
  Tensors elements;  // undefined where nothing was written
};

namespace {

std::int64_t known(const Place& place, const char* what) {
  if (!place.number()) throw_invalid_argument(fmt::format("TensorArray: the {} has to be known", what));
  return *place.number();
}

}  // namespace

TensorArray::TensorArray(DTypeLike dtype, const TensorArrayKeywords& keywords)
    : state_(std::make_shared<State>(State{dtype, keywords.dynamic_size, keywords.element_shape, {}})) {
  const std::int64_t size = known(keywords.size, "size");
  if (size < 0) throw_invalid_argument(fmt::format("TensorArray: invalid size {}", size));
  state_->elements.resize(static_cast<std::size_t>(size));
}
TensorArray::TensorArray(const TensorArrayArguments& arguments)
    : TensorArray(
          arguments.dtype,
          {.size = arguments.size, .dynamic_size = arguments.dynamic_size, .element_shape = arguments.element_shape}) {}

std::int64_t TensorArray::size() const { return static_cast<std::int64_t>(state_->elements.size()); }
DType TensorArray::dtype() const { return state_->dtype; }

TensorArray TensorArray::write(const Place& index, const Tensor& value) const {
  const std::int64_t at = known(index, "index");
  if (at < 0 || (at >= size() && !state_->grows)) {
    throw_out_of_range(fmt::format("TensorArray: index {} is outside of an array of {}{}", at, size(),
                                   state_->grows ? "" : " (dynamic_size is false)"));
  }
  if (value.dtype() != state_->dtype) {
    throw_invalid_argument(fmt::format("TensorArray: found a value of {}, expected {}", dtype_name(value.dtype()),
                                       dtype_name(state_->dtype)));
  }
  if (!state_->element_shape.compatible_with(value.shape())) {
    throw_invalid_argument(fmt::format("TensorArray: found a value of shape {}, expected the element_shape {}",
                                       value.shape().to_string(), state_->element_shape.to_string()));
  }
  for (const Tensor& other : state_->elements) {
    if (other.defined() && !other.shape().compatible_with(value.shape())) {
      throw_invalid_argument(fmt::format("TensorArray: found a value of shape {}, expected {} as of the others",
                                         value.shape().to_string(), other.shape().to_string()));
    }
  }
  if (at >= size()) state_->elements.resize(static_cast<std::size_t>(at) + 1);
  state_->elements[static_cast<std::size_t>(at)] = value;
  return *this;
}
Tensor TensorArray::read(const Place& index) const {
  const std::int64_t at = known(index, "index");
  if (at < 0 || at >= size())
    throw_out_of_range(fmt::format("TensorArray: index {} is outside of an array of {}", at, size()));
  const Tensor& value = state_->elements[static_cast<std::size_t>(at)];
  if (!value.defined()) throw_invalid_argument(fmt::format("TensorArray: nothing was written at index {}", at));
  return value;
}

Tensor TensorArray::stack() const {
  const auto written =
      std::find_if(state_->elements.begin(), state_->elements.end(), [](const Tensor& x) { return x.defined(); });
  const bool none = written == state_->elements.end();
  if (none && (!state_->element_shape.fully_known() || state_->elements.empty()))
    throw_invalid_argument("TensorArray: stack() requires an element that was written, or an element_shape");
  Tensors elements = state_->elements;
  for (Tensor& element : elements) {
    if (!element.defined())
      element = none ? ops::zeros(state_->element_shape, state_->dtype) : ops::zeros_like(*written);
  }
  return ops::stack(elements);
}
Tensor TensorArray::gather(const Tensor& indices) const { return ops::gather(stack(), indices); }
Tensor TensorArray::concat() const {
  Tensors elements;
  for (std::int64_t i = 0; i < size(); ++i) elements.push_back(read(i));
  return ops::concat(elements, 0);
}
TensorArray TensorArray::scatter(const Tensor& indices, const Tensor& value) const {
  const auto places = ops::cast(indices, DType::kInt64).to_vector<std::int64_t>();
  if (static_cast<std::int64_t>(places.size()) != len(value)) {
    throw_invalid_argument(
        fmt::format("TensorArray: found {} indices for {} elements, expected as many", places.size(), len(value)));
  }
  for (std::size_t i = 0; i < places.size(); ++i) write(places[i], value[static_cast<std::int64_t>(i)]);
  return *this;
}
TensorArray TensorArray::unstack(const Tensor& value) const {
  return scatter(ops::range(len(value), DType::kInt64), value);
}

}  // namespace lockstep
