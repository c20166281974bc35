// Shapes as arguments: of numbers, and of extents that are computed, {ops::shape(x)[0], 28}.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/tensor/structure.h"

namespace lockstep {

// One extent: an integer, or a tensor of one integer. While a graph or a functional model is built its value need not
// be known.
class Extent {
 public:
  template <std::integral I>
  Extent(I known) : known_(static_cast<std::int64_t>(known)) {}
  // A fraction with a value is cut off, as in TensorFlow. Throws InvalidArgument for other tensors than one integer.
  Extent(const Tensor& scalar);
  template <internal::StandsFor<Tensor> T>
  Extent(const T& scalar) : Extent(static_cast<Tensor>(scalar)) {}
  Extent(const Nested<Tensor>& scalar) : Extent(scalar.leaf()) {}
  // An extent of a model's or a layer's shapes: model.output_shape()[1].
  template <std::same_as<ShapePart> E>
  Extent(const E& extent) : Extent(static_cast<std::int64_t>(extent)) {}

  std::int64_t known() const { return known_; }     // kUnknownDim where tensor() stands for it
  const Tensor& tensor() const { return tensor_; }  // undefined where the number is known

 private:
  std::int64_t known_;
  Tensor tensor_;
};

// A Shape, integers in braces or in a vector, extents in braces, or an integer vector as ops::shape(x) gives it.
class ShapeArg {
 public:
  ShapeArg() = default;  // a scalar's
  ShapeArg(Shape shape) : shape_(std::move(shape)) {}
  ShapeArg(std::vector<std::int64_t> dims) : shape_(std::move(dims)) {}
  ShapeArg(std::initializer_list<Extent> extents) : ShapeArg(std::vector<Extent>(extents), 0) {}
  template <std::same_as<Extent> E>
  ShapeArg(std::vector<E> extents) : ShapeArg(std::move(extents), 0) {}
  template <std::integral I>
  ShapeArg(I extent) : shape_{static_cast<std::int64_t>(extent)} {}  // of a vector
  // Throws InvalidArgument for a tensor that is not a vector of integers.
  ShapeArg(const Tensor& vector);
  template <internal::StandsFor<Tensor> T>
  ShapeArg(const T& vector) : ShapeArg(static_cast<Tensor>(vector)) {}

  // As far as it is known: kUnknownDim for extents that are not, and for -1.
  const Shape& shape() const { return shape_; }
  // Whether shape() is all there is to know.
  bool is_known() const { return extents_.empty() && !vector_.defined(); }
  // Where it is not: the vector it was made from, or the extents.
  const Tensor& vector() const { return vector_; }
  const std::vector<Extent>& extents() const { return extents_; }

 private:
  ShapeArg(std::vector<Extent> extents, int);

  Shape shape_;
  std::vector<Extent> extents_;
  Tensor vector_;
};

}  // namespace lockstep
