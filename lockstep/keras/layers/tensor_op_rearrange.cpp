// keras.ops.rearrange: axes split, moved and merged by a pattern, "b (h1 h) w c -> b h (h1 w) c".
#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras::tensor_ops {
namespace {

// The names of an axis: one, or those of a group in parentheses.
using Group = std::vector<std::string>;
using Groups = std::vector<Group>;

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

Groups groups_of(std::string_view side, std::string_view pattern) {
  const auto malformed = [&] { bad(fmt::format("Rearrange: invalid pattern \"{}\"", pattern)); };
  Groups groups;
  bool open = false;
  for (std::size_t i = 0; i < side.size();) {
    const char c = side[i];
    if (c == '(' || c == ')') {
      if (open == (c == '(')) malformed();
      open = c == '(';
      if (open) groups.emplace_back();
      ++i;
    } else if (is_name_character(c)) {
      std::size_t end = i;
      while (end < side.size() && is_name_character(side[end])) ++end;
      if (!open) groups.emplace_back();
      groups.back().emplace_back(side.substr(i, end - i));
      i = end;
    } else if (c == ' ') {
      ++i;
    } else {
      malformed();
    }
  }
  if (open) malformed();
  return groups;
}

// The extents of all names; kUnknownDim for at most one.
std::map<std::string, std::int64_t> extents_of(const Tensor& x, const Groups& input, const CallArguments& call) {
  std::map<std::string, std::int64_t> extents;
  for (const auto& [name, given] : call.kwargs) {
    if (name == "tensor" || name == "pattern") continue;
    if (!given.is_leaf() || given.leaf().is_tensor() || !given.leaf().value.is_number_integer()) {
      bad(fmt::format("Rearrange: the length of axis '{}' must be an integer", name));
    }
    extents[name] = given.leaf().value.get<std::int64_t>();
  }
  int unknown = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const std::int64_t whole = x.shape()[static_cast<int>(i)];
    std::int64_t known = 1;
    const std::string* missing = nullptr;
    for (const std::string& name : input[i]) {
      const auto extent = extents.find(name);
      if (extent != extents.end() && input[i].size() > 1) {
        known *= extent->second;
      } else if (missing) {
        bad(fmt::format("Rearrange: the length of axis '{}' or '{}' is required", *missing, name));
      } else {
        missing = &name;
      }
    }
    if (whole >= 0 && (known <= 0 || (missing ? whole % known != 0 : whole != known))) {
      bad(fmt::format("Rearrange: axis {} of extent {} cannot be divided into ({})", i, whole,
                      fmt::join(input[i], " ")));
    }
    if (!missing) continue;
    extents[*missing] = whole < 0 ? kUnknownDim : whole / known;
    if (whole < 0 && ++unknown > 1) bad("Rearrange: more than one extent is unknown");
  }
  return extents;
}

// The product of a group's extents.
std::int64_t extent_of(const Group& group, const std::map<std::string, std::int64_t>& extents) {
  std::int64_t product = 1;
  for (const std::string& name : group) {
    const std::int64_t extent = extents.at(name);
    if (extent == kUnknownDim) return kUnknownDim;
    product *= extent;
  }
  return product;
}

Structure rearrange(const CallArguments& call, const Json&) {
  const Tensor x = tensor_operand(call, 0, "tensor");
  const Argument& given = argument(call, 1, "pattern");
  if (!given.is_leaf() || given.leaf().is_tensor() || !given.leaf().value.is_string()) {
    bad("Rearrange: the pattern must be a string");
  }
  const std::string pattern = given.leaf().value.get<std::string>();
  const std::size_t arrow = pattern.find("->");
  if (arrow == std::string::npos) bad(fmt::format("Rearrange: pattern \"{}\" has no ->", pattern));
  const Groups input = groups_of(std::string_view(pattern).substr(0, arrow), pattern);
  const Groups output = groups_of(std::string_view(pattern).substr(arrow + 2), pattern);
  if (static_cast<int>(input.size()) != x.rank()) {
    bad(fmt::format("Rearrange: pattern \"{}\" is of {} axes, the tensor has {}", pattern, input.size(), x.rank()));
  }
  const auto extents = extents_of(x, input, call);
  Group names;
  ops::Ints divided, merged;
  for (const Group& group : input) {
    for (const std::string& name : group) {
      names.push_back(name);
      divided.push_back(extents.at(name));
    }
  }
  ops::Ints order;
  for (const Group& group : output) {
    for (const std::string& name : group) {
      const auto place = std::find(names.begin(), names.end(), name);
      if (place == names.end()) bad(fmt::format("Rearrange: axis '{}' is not in the input of \"{}\"", name, pattern));
      order.push_back(place - names.begin());
    }
    merged.push_back(extent_of(group, extents));
  }
  ops::Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() != names.size() || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    bad(fmt::format("Rearrange: each axis must be on both sides of \"{}\" once", pattern));
  }
  return Structure(ops::reshape(ops::transpose(ops::reshape(x, divided), order), merged));
}

}  // namespace

void add_einops(Rows& rows) { rows["Rearrange"] = {"Rearrange", "keras.src.ops.einops", rearrange}; }

}  // namespace lockstep::keras::tensor_ops
