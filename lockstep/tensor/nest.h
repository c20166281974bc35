// tf.nest and keras.tree: functions of structures of tensors.
//
//   nest::map_structure([](const Tensor& x) { return x * 2; }, {{"a", a}, {"b", {b, c}}});
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>

#include "lockstep/tensor/structure.h"

namespace lockstep::nest {

using Structure = Nested<Tensor>;

inline bool is_nested(const Structure& structure) { return !structure.is_leaf(); }
// The tensors of lists in order and of dicts by sorted key.
Tensors flatten(const Structure& structure);
// Throws InvalidArgument for another number of tensors.
Structure pack_sequence_as(const Structure& structure, const Tensors& flat_sequence);
// Throws InvalidArgument, naming the first path where they differ, unless both are lists and dicts of the same
// lengths and keys.
void assert_same_structure(const Structure& a, const Structure& b);

namespace internal {
template <typename Fn, typename... Leaf>
concept OfLeaves = std::invocable<Fn&, const Leaf&...>;
Structure map(const std::function<Structure(const Tensors&)>& fn, const std::vector<Structure>& structures);
}  // namespace internal

// The structure of the results of fn, which is called with the tensors of one path of all structures. Throws
// InvalidArgument for structures that differ. The defaults of Fn are for names that several functions have:
// map_structure(ops::add, a, b).
template <internal::OfLeaves<Tensor> Fn = Tensor (*)(const Tensor&)>
Structure map_structure(Fn fn, const Structure& structure) {
  return internal::map([&fn](const Tensors& x) -> Structure { return fn(x[0]); }, {structure});
}
// Of numbers: map_structure(fn, {1, 2}).
template <internal::OfLeaves<Tensor> Fn = Tensor (*)(const Tensor&)>
Structure map_structure(Fn fn, std::initializer_list<Tensor> list) {
  return internal::map([&fn](const Tensors& x) -> Structure { return fn(x[0]); }, {Structure(Tensors(list))});
}
template <internal::OfLeaves<Tensor, Tensor> Fn = Tensor (*)(const Tensor&, const Tensor&)>
Structure map_structure(Fn fn, const Structure& a, const Structure& b) {
  return internal::map([&fn](const Tensors& x) -> Structure { return fn(x[0], x[1]); }, {a, b});
}
template <internal::OfLeaves<Tensor, Tensor, Tensor> Fn>
Structure map_structure(Fn fn, const Structure& a, const Structure& b, const Structure& c) {
  return internal::map([&fn](const Tensors& x) -> Structure { return fn(x[0], x[1], x[2]); }, {a, b, c});
}

}  // namespace lockstep::nest

// keras.tree, in addition to the functions of tf.nest.
namespace lockstep::keras_tree {

using lockstep::nest::assert_same_structure;
using lockstep::nest::flatten;
using lockstep::nest::is_nested;
using lockstep::nest::map_structure;
using lockstep::nest::pack_sequence_as;
using lockstep::nest::Structure;

struct TraverseOptions {
  bool top_down = true;
};
// Each part of the structure, itself included, where fn returns one is what fn returns, else its parts are visited too;
// from the leaves up with top_down false.
Structure traverse(const std::function<std::optional<Structure>(const Structure&)>& fn, const Structure& structure,
                   const TraverseOptions& options = {});
// Lists and tuples are the same here.
inline Structure lists_to_tuples(const Structure& structure) { return structure; }
// A structure of shapes, whose leaves are shapes.
template <std::invocable<const Shape&> Fn>
auto map_shape_structure(Fn fn, const Nested<Shape>& structure) {
  return structure.map(fn);
}

}  // namespace lockstep::keras_tree
