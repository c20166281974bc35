// Option structs that cannot be mistaken for lists.
#pragma once

namespace lockstep {

// First field of option structs that are written with field names only: a braced list without names, such as a list of
// tensors or a window, is then never mistaken for one.
class FieldNamesOnly {
 public:
  constexpr FieldNamesOnly() noexcept {}
};

}  // namespace lockstep
