#include "lockstep/tensor/structure.h"

namespace lockstep {

template class Nested<Tensor>;
template class Nested<Shape>;

Nested<Tensor> structure_of(std::initializer_list<Values> values) {
  using Kind = Values::Kind;
  Nested<Tensor>::Dict dict;
  for (const Values& item : values) {
    const std::vector<Values>& parts = item.items_;
    const bool is_entry =
        item.kind_ == Kind::kList && parts.size() == 2 && parts[0].kind_ == Kind::kText && parts[1].kind_ == Kind::kList;
    if (!is_entry) return Tensor(values);
    // A list of this one tensor, as its values are in a list already.
    dict.emplace_back(parts[0].text_, Tensor({parts[1]})[0]);
  }
  if (dict.empty()) return Tensor(values);
  return Nested<Tensor>::dict(std::move(dict));
}

}  // namespace lockstep
