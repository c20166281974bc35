// Structures of tensors and of shapes.
#pragma once

#include <iosfwd>

#include "lockstep/base/nested.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// An element of a structure of shapes: a structure, or one extent.
class ShapePart : public Nested<Shape> {
 public:
  ShapePart(const Nested<Shape>& part) : Nested(part) {}
  ShapePart(std::int64_t extent) : extent_(extent), is_extent_(true) {}
  operator std::int64_t() const {
    if (!is_extent_) throw_wrong_structure(is_leaf() ? "a shape" : is_list() ? "a list" : "a dict", "one extent");
    return extent_;
  }

 private:
  std::int64_t extent_ = 0;
  bool is_extent_ = false;
};

template <>
inline Nested<Tensor>::Entry::Entry(std::string name, std::initializer_list<Values> values)
    : name(std::move(name)), value(Tensor(values)) {}

// {{"image", {2, 3}}}: the numbers are extents.
template <>
Nested<Shape>::Entry::Entry(std::string name, std::initializer_list<Values> values);

// Compiled once, in the library, instead of in every unit of a program.
extern template class Nested<Tensor>;
extern template class Nested<Shape>;

// As Python prints it: one tensor, [a, b], {'key': a} with the repr() of tensors.
std::ostream& operator<<(std::ostream& out, const Nested<Tensor>& structure);
std::ostream& operator<<(std::ostream& out, const Nested<Shape>& structure);

}  // namespace lockstep
