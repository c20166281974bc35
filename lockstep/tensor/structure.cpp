#include "lockstep/tensor/structure.h"

namespace lockstep {

template class Nested<Tensor>;
template class Nested<Shape>;

}  // namespace lockstep
