#include "lockstep/tensor/nest.h"

#include <algorithm>

#include <fmt/format.h>

namespace lockstep::nest {
namespace {

std::string kind_of(const Structure& part) {
  if (part.is_leaf()) return "one value";
  return fmt::format("a {} of {}", part.is_list() ? "list" : "dict", part.size());
}

[[noreturn]] void throw_different(const Structure& a, const Structure& b, const std::string& path) {
  throw_invalid_argument(fmt::format("the two structures differ{}: one has {}, the other {}",
                                     path.empty() ? "" : " at " + path, kind_of(a), kind_of(b)));
}

void check(const Structure& a, const Structure& b, const std::string& path) {
  if (a.is_leaf() != b.is_leaf() || a.is_list() != b.is_list() || a.size() != b.size()) throw_different(a, b, path);
  if (a.is_list()) {
    for (std::size_t i = 0; i < a.size(); ++i) check(a.parts()[i], b.parts()[i], fmt::format("{}[{}]", path, i));
  } else if (a.is_dict()) {
    for (const auto& [key, value] : a.entries()) {
      const std::string place = fmt::format("{}['{}']", path, key);
      const Structure* const other = b.find(key);
      if (!other) {
        throw_invalid_argument(fmt::format("the two structures differ: only one of them has {}", place));
      }
      check(value, *other, place);
    }
  }
}

}  // namespace

Tensors flatten(const Structure& structure) { return structure.flatten(); }

Structure pack_sequence_as(const Structure& structure, const Tensors& flat_sequence) {
  return structure.pack(flat_sequence);
}

void assert_same_structure(const Structure& a, const Structure& b) { check(a, b, {}); }

namespace internal {

namespace {

// The results in place of the leaves; leaves of dicts are in the order of sorted keys.
Structure with_results(const Structure& form, const std::vector<Structure>& results, std::size_t& next) {
  if (form.is_leaf()) return results[next++];
  Structure out = form;
  if (form.is_list()) {
    for (Structure& item : out.parts()) item = with_results(Structure(item), results, next);
    return out;
  }
  std::vector<std::pair<std::string, Structure>*> sorted;
  for (auto& entry : out.entries()) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  for (auto* entry : sorted) entry->second = with_results(Structure(entry->second), results, next);
  return out;
}

}  // namespace

Structure map(const std::function<Structure(const Tensors&)>& fn, const std::vector<Structure>& structures) {
  std::vector<Tensors> leaves;
  for (const Structure& structure : structures) {
    assert_same_structure(structures[0], structure);
    leaves.push_back(flatten(structure));
  }
  std::vector<Structure> results;
  for (std::size_t i = 0; i < leaves[0].size(); ++i) {
    Tensors place;
    for (const Tensors& of_structure : leaves) place.push_back(of_structure[i]);
    results.push_back(fn(place));
  }
  std::size_t next = 0;
  return with_results(structures[0], results, next);
}

}  // namespace internal
}  // namespace lockstep::nest

namespace lockstep::keras_tree {

Structure traverse(const std::function<std::optional<Structure>(const Structure&)>& fn, const Structure& structure,
                   const TraverseOptions& options) {
  if (options.top_down) {
    if (auto result = fn(structure)) return *std::move(result);
  }
  Structure visited = structure;
  if (structure.is_list()) {
    for (Structure& item : visited.parts()) item = traverse(fn, item, options);
  } else if (structure.is_dict()) {
    for (auto& [key, value] : visited.entries()) value = traverse(fn, value, options);
  }
  if (!options.top_down) {
    if (auto result = fn(visited)) return *std::move(result);
  }
  return visited;
}

}  // namespace lockstep::keras_tree
