// tf.TensorArray: tensors by index, written one after the other.
#pragma once

#include <cstdint>
#include <memory>

#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct TensorArrayKeywords {
  FieldNamesOnly names_only = {};
  Place size = 0;
  bool dynamic_size = false;     // whether writing beyond the end makes it longer
  bool clear_after_read = true;  // whether an element can be read once only; not enforced
  bool infer_shape = true;       // has no effect
  Shape element_shape = Shape::unknown_rank();
};
// All arguments by name.
struct TensorArrayArguments {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kInvalid;
  Place size = 0;
  bool dynamic_size = false;
  bool clear_after_read = true;
  bool infer_shape = true;
  Shape element_shape = Shape::unknown_rank();
};

// Copies share the elements, which all have the same dtype and shape. Places have to be known. Throws OutOfRange for
// indices outside of it, InvalidArgument for another dtype or shape, and when an element is read that was not written.
class TensorArray {
 public:
  explicit TensorArray(DTypeLike dtype, const TensorArrayKeywords& keywords = {});
  explicit TensorArray(const TensorArrayArguments& arguments);

  // Returns the array.
  TensorArray write(const Place& index, const Tensor& value) const;
  Tensor read(const Place& index) const;
  // The elements on a new first axis; those that were not written are zeros.
  Tensor stack() const;
  Tensor gather(const Tensor& indices) const;
  Tensor concat() const;  // on their first axis
  // The rows of a tensor as elements: at these indices, or from index 0 on.
  TensorArray scatter(const Tensor& indices, const Tensor& value) const;
  TensorArray unstack(const Tensor& value) const;
  std::int64_t size() const;
  DType dtype() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep
