#include "lockstep/ops/control_flow.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::ops::internal {
namespace {

using Structure = Nested<Tensor>;

std::int64_t rows_of(const Structure& elems) {
  std::optional<std::int64_t> rows;
  elems.visit([&](const Tensor& leaf) {
    const Shape& shape = leaf.shape();
    if (shape.rank() < 1 || shape[0] == kUnknownDim) {
      throw_invalid_argument(
          fmt::format("map_fn, scan and foldl require tensors whose number of rows is known; found "
                      "one of shape {}",
                      shape.to_string()));
    }
    if (rows && *rows != shape[0]) {
      throw_invalid_argument(
          fmt::format("map_fn, scan and foldl require tensors with the same number of rows; found {} "
                      "and {}",
                      *rows, shape[0]));
    }
    rows = shape[0];
  });
  if (!rows) throw_invalid_argument("map_fn, scan and foldl require a tensor");
  return *rows;
}

Structure row_of(const Structure& elems, std::int64_t i) {
  return elems.map([&](const Tensor& leaf) { return leaf[i]; });
}

// The results of all steps as rows.
Structure stacked(const std::vector<Structure>& results, std::string_view what) {
  if (results.empty()) throw_invalid_argument(fmt::format("{} requires at least one row", what));
  const std::size_t leaves = results[0].num_leaves();
  std::vector<Tensors> columns(leaves);
  for (const Structure& result : results) {
    const Tensors parts = result.flatten();
    if (parts.size() != leaves) {
      throw_invalid_argument(fmt::format("{}: the function returned {} tensors for one row and {} for another", what,
                                         leaves, parts.size()));
    }
    for (std::size_t i = 0; i < leaves; ++i) columns[i].push_back(parts[i]);
  }
  Tensors out;
  for (const Tensors& column : columns) out.push_back(ops::stack(column));
  return results[0].pack(out);
}

}  // namespace

bool is_true(const Tensor& pred) {
  if (!pred.defined() || !pred.is_value() || pred.num_elements() != 1) {
    throw_invalid_argument("cond and while_loop require a condition of one value that is known when they are called");
  }
  return pred.item<bool>();
}

Structure while_loop(const StructureFunction& cond, const StructureFunction& body, Structure loop_vars,
                     std::optional<std::int64_t> maximum_iterations) {
  const std::size_t leaves = loop_vars.num_leaves();
  for (std::int64_t i = 0; !maximum_iterations || i < *maximum_iterations; ++i) {
    if (!is_true(cond(loop_vars).leaf())) break;
    const Tensors next = body(loop_vars).flatten();
    if (next.size() != leaves) {
      throw_invalid_argument(
          fmt::format("while_loop: the body returned {} tensors for {} variables", next.size(), leaves));
    }
    loop_vars = loop_vars.pack(next);
  }
  return loop_vars;
}

Structure map_rows(const StructureFunction& fn, const Structure& elems) {
  const std::int64_t rows = rows_of(elems);
  std::vector<Structure> results;
  for (std::int64_t i = 0; i < rows; ++i) results.push_back(fn(row_of(elems, i)));
  return stacked(results, "map_fn");
}

std::size_t chosen_branch(const Tensor& index, std::size_t branches, std::size_t below) {
  if (branches == 0) throw_invalid_argument("switch requires at least one branch");
  if (!index.defined() || !index.is_value() || index.num_elements() != 1)
    throw_invalid_argument("switch requires an index of one value that is known when it is called");
  const auto place = index.item<std::int64_t>();
  return place < 0 ? below : std::min(static_cast<std::size_t>(place), branches - 1);
}

void throw_no_case() { throw_invalid_argument("case_: none of the conditions is true; give a default_fn"); }

namespace {

Structure take(const Structure& elems, std::int64_t begin, std::int64_t end, std::int64_t step, int axis) {
  return elems.map([&](const Tensor& leaf) {
    std::vector<std::int32_t> places;
    for (std::int64_t i = begin; i < end; i += step) places.push_back(static_cast<std::int32_t>(i));
    return ops::gather(leaf, Tensor::from_vector(places), axis);
  });
}

// Pairs of neighbours are combined, their results scanned, and the results between them combined from these: the
// order in which Keras rounds.
Structure scan_pairs(const StructureFunction& fn, const Structure& elems, std::int64_t count, int axis) {
  if (count < 2) return elems;
  const auto combine = [&](const Structure& a, const Structure& b) {
    return elems.pack(Tensors(fn(Structure::list({a, b})).flatten()));
  };
  const Structure odd =
      scan_pairs(fn, combine(take(elems, 0, count - 1, 2, axis), take(elems, 1, count, 2, axis)), count / 2, axis);
  const std::int64_t evens = (count - 1) / 2;
  Structure even = take(elems, 0, 1, 1, axis);
  if (evens > 0) {
    const Tensors rest = combine(take(odd, 0, evens, 1, axis), take(elems, 2, count, 2, axis)).flatten();
    std::size_t next = 0;
    even = even.map([&](const Tensor& first) { return ops::concat({first, rest[next++]}, axis); });
  }
  std::vector<std::int32_t> order;
  for (std::int64_t i = 0; i < count; ++i)
    order.push_back(static_cast<std::int32_t>(i % 2 == 0 ? i / 2 : evens + 1 + i / 2));
  const Tensors odds = odd.flatten();
  std::size_t next = 0;
  return even.map([&](const Tensor& leaf) {
    return ops::gather(ops::concat({leaf, odds[next++]}, axis), Tensor::from_vector(order), axis);
  });
}

}  // namespace

Structure associative_scan(const StructureFunction& fn, const Structure& elems, bool reverse, int axis) {
  std::optional<std::int64_t> count;
  elems.visit([&](const Tensor& leaf) {
    const std::int64_t own = leaf.dim(axis);
    if (own == kUnknownDim || (count && *count != own))
      throw_invalid_argument("associative_scan requires tensors of the same known extent on the axis");
    count = own;
  });
  if (!count) throw_invalid_argument("associative_scan requires a tensor");
  const auto turned = [&](const Structure& values) {
    return reverse ? values.map([&](const Tensor& leaf) { return ops::reverse(leaf, {axis}); }) : values;
  };
  return turned(scan_pairs(fn, turned(elems), *count, axis));
}

Structure scan(const StructureFunction& fn, const Structure& elems, Structure initializer, bool reverse,
               bool keep_all) {
  const std::int64_t rows = rows_of(elems);
  std::int64_t done = 0;
  std::vector<Structure> results;
  const auto place = [&](std::int64_t step) { return reverse ? rows - 1 - step : step; };
  if (!initializer.defined()) {
    if (rows == 0) throw_invalid_argument("scan and foldl require an initializer where there are no rows");
    initializer = row_of(elems, place(done++));
    if (keep_all) results.push_back(initializer);
  }
  for (; done < rows; ++done) {
    initializer = initializer.pack(fn(Structure::list({initializer, row_of(elems, place(done))})).flatten());
    if (keep_all) results.push_back(initializer);
  }
  if (!keep_all) return initializer;
  if (reverse) std::reverse(results.begin(), results.end());
  return stacked(results, "scan");
}

std::pair<Structure, Structure> scan_with_carry(const StructureFunction& fn, Structure init, const Structure& xs,
                                                std::optional<std::int64_t> length, bool reverse) {
  if (!xs.defined() && !length) throw_invalid_argument("scan requires xs or length");
  const std::int64_t steps = xs.defined() ? rows_of(xs) : *length;
  if (length && *length != steps) {
    throw_invalid_argument(fmt::format("scan: length is {}, but xs has {} rows", *length, steps));
  }
  std::vector<Structure> outputs;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Structure x = xs.defined() ? row_of(xs, reverse ? steps - 1 - i : i) : Structure();
    const auto [carry, output] = fn(Structure::list({init, x}));
    init = carry;
    outputs.push_back(output);
  }
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  const bool none = !outputs.empty() && !outputs[0].defined();
  return {init, none ? Structure() : stacked(outputs, "scan")};
}

Tensor map_places(const StructureFunction& fn, const Tensors& tensors) {
  if (tensors.empty()) throw_invalid_argument("vectorize: the function got no tensors");
  Tensor sum = zeros_like(tensors[0]);
  for (const Tensor& x : tensors) sum = add(cast(zeros_like(x), DType::kInt32), cast(sum, DType::kInt32));
  const Shape shape = sum.shape();
  std::vector<Structure> flat;
  for (const Tensor& x : tensors) flat.emplace_back(reshape(broadcast_to(x, shape), {-1}));
  return reshape(map_rows(fn, flat.size() == 1 ? flat[0] : Structure::list(flat)).leaf(), shape);
}

}  // namespace lockstep::ops::internal
