// tf.SparseTensor and tf.sparse. Names, order of arguments and defaults are TensorFlow's.
#pragma once

#include <functional>
#include <iosfwd>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/functions.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

// Values at some places of a tensor, zeros elsewhere:
//   SparseTensor({.indices = {{0, 3}, {2, 4}}, .values = {10, 20}, .dense_shape = {3, 10}}).
// Functions take indices in the order of rows, as reorder() gives them.
class SparseTensor {
 public:
  struct Parts {
    FieldNamesOnly names_only = {};
    Tensor indices = {};      // (n, rank), integers
    Tensor values = {};       // (n,)
    Tensor dense_shape = {};  // (rank,)
  };
  // Throw InvalidArgument for parts whose shapes do not fit.
  SparseTensor(const Parts& parts);
  SparseTensor(const Tensor& indices, const Tensor& values, const Tensor& dense_shape)
      : SparseTensor(Parts{{}, indices, values, dense_shape}) {}
  // Of {"indices", "values", "dense_shape"}, as io::parse_single_example gives features of variable length.
  SparseTensor(const Nested<Tensor>& parts);

  const Tensor& indices() const { return indices_; }  // int64
  const Tensor& values() const { return values_; }
  const Tensor& dense_shape() const { return dense_shape_; }  // int64
  Shape shape() const;
  DType dtype() const { return values_.dtype(); }
  SparseTensor with_values(const Tensor& values) const { return {indices_, values, dense_shape_}; }

 private:
  Tensor indices_, values_, dense_shape_;
};
// "SparseTensor(indices=..., values=..., dense_shape=...)".
std::ostream& operator<<(std::ostream& out, const SparseTensor& sparse);

namespace sparse {

Tensor to_dense(const SparseTensor& sp_input, const Tensor& default_value = {});
SparseTensor from_dense(const Tensor& tensor);
SparseTensor reorder(const SparseTensor& sp_input);
SparseTensor add(const SparseTensor& a, const SparseTensor& b);
Tensor add(const SparseTensor& a, const Tensor& b);
SparseTensor reshape(const SparseTensor& sp_input, const ShapeArg& shape);
SparseTensor concat(int axis, const std::vector<SparseTensor>& sp_inputs);
SparseTensor slice(const SparseTensor& sp_input, const ops::Ints& start, const ops::Ints& size);
SparseTensor eye(std::int64_t num_rows, std::int64_t num_columns, DTypeLike dtype = DType::kFloat32);
// fn of the values; zeros elsewhere stay zeros.
SparseTensor map_values(const std::function<Tensor(const Tensor&)>& fn, const SparseTensor& sp_input);
// Of matrices; differentiable in the values and in `b`.
struct MatmulKeywords {
  FieldNamesOnly names_only = {};
  bool adjoint_a = false;
  bool adjoint_b = false;
};
Tensor sparse_dense_matmul(const SparseTensor& sp_a, const Tensor& b, const MatmulKeywords& keywords = {});
Tensor reduce_sum(const SparseTensor& sp_input, const ops::Axes& axis = std::nullopt, bool keepdims = false);

}  // namespace sparse
}  // namespace lockstep
