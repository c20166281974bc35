// Symbolic tensors: placeholders of values while a graph or a functional model is built.
#pragma once

#include <optional>
#include <string>

#include "lockstep/tensor/tensor.h"

namespace lockstep {

namespace ops {
class Recorder;
}

// Base of graph edges (graph::Edge) and of Keras tensors (keras::KerasTensor).
class Symbol {
 public:
  Symbol(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {}
  virtual ~Symbol() = default;

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }

  // As it is called in Python; of most symbols nothing.
  virtual std::string name() const { return {}; }

  // Who records an operation that takes this symbol.
  virtual ops::Recorder& recorder() const = 0;
  // The value, when it is known while building (a Const, or computed from constants).
  virtual std::optional<Tensor> constant_value() const { return std::nullopt; }
  // For an integer vector that describes a shape: its value, unknown entries as kUnknownDim.
  virtual std::optional<Shape> value_as_shape() const { return std::nullopt; }

 private:
  DType dtype_;
  Shape shape_;
};

// The value of a tensor as far as it is known now: itself when it is a value, else Symbol::constant_value().
std::optional<Tensor> constant_value(const Tensor& tensor);
// The same for a vector used as a shape.
std::optional<Shape> constant_value_as_shape(const Tensor& tensor);

}  // namespace lockstep
