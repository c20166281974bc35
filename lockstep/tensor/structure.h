// Structures of tensors and of shapes.
#pragma once

#include <iosfwd>

#include "lockstep/base/nested.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

// Compiled once, in the library, instead of in every unit of a program.
extern template class Nested<Tensor>;
extern template class Nested<Shape>;

// As Python prints it: one tensor, [a, b], {'key': a}.
std::ostream& operator<<(std::ostream& out, const Nested<Tensor>& structure);

}  // namespace lockstep
