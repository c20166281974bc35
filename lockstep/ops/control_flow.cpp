#include "lockstep/ops/control_flow.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/control_flow_recorder_internal.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {

ControlFlowRecorder& control_flow_recorder(const Tensor& symbol, const char* function) {
  if (auto* const recorder = dynamic_cast<ControlFlowRecorder*>(&symbol.symbol_value()->recorder())) return *recorder;
  throw_invalid_argument(fmt::format(
      "{} requires a condition, or a number of rows, that is known when it is called; found a tensor of shape {} of a "
      "functional model: call it in a layer",
      function, symbol.shape().to_string()));
}

}  // namespace lockstep::ops

namespace lockstep::ops::internal {
namespace {

using Structure = Nested<Tensor>;
using Branch = std::function<Structure()>;

// kUnknownDim where that of one is not known.
std::int64_t rows_of(const Structure& elems) {
  std::optional<std::int64_t> rows;
  bool unknown = false;
  elems.visit([&](const Tensor& leaf) {
    const Shape& shape = leaf.shape();
    if (shape.rank() < 1) {
      throw_invalid_argument(
          fmt::format("map_fn, scan and foldl require tensors with rows; found one of shape {}", shape.to_string()));
    }
    unknown = unknown || shape[0] == kUnknownDim;
    if (shape[0] == kUnknownDim) return;
    if (rows && *rows != shape[0]) {
      throw_invalid_argument(
          fmt::format("map_fn, scan and foldl require tensors with the same number of rows; found {} "
                      "and {}",
                      *rows, shape[0]));
    }
    rows = shape[0];
  });
  if (!rows && !unknown) throw_invalid_argument("map_fn, scan and foldl require a tensor");
  return unknown ? kUnknownDim : *rows;
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

OutputType type_of(const Tensor& tensor) { return {tensor.dtype(), tensor.shape()}; }

// A state and the outputs of a step.
struct Stepped {
  Tensors state, outputs;
};
using Step = std::function<Stepped(const Tensors& state, const Structure& row)>;

// The last state and the outputs of the steps of all rows, whose number is not known, as a loop of the graph.
Stepped loop_over_rows(const char* function, const Step& step, const Tensors& initial, const Structure& elems,
                       bool reverse) {
  const Tensors columns = elems.flatten();
  const auto symbol =
      std::find_if(columns.begin(), columns.end(), [](const Tensor& x) { return x.shape()[0] == kUnknownDim; });
  ControlFlowRecorder& recorder = control_flow_recorder(*symbol, function);
  const std::size_t states = initial.size();
  std::vector<OutputType> inputs;
  for (const Tensor& state : initial) inputs.push_back(type_of(state));
  for (const Tensor& column : columns) inputs.push_back({column.dtype(), column.shape()[{1, {}}]});
  const auto results = recorder.infer(
      [&](const Tensors& given) {
        const auto split = given.begin() + static_cast<std::ptrdiff_t>(states);
        Stepped stepped = step(Tensors(given.begin(), split), elems.pack(Tensors(split, given.end())));
        stepped.state.insert(stepped.state.end(), stepped.outputs.begin(), stepped.outputs.end());
        return stepped.state;
      },
      inputs);
  const Tensor rows = ops::dim_of(*symbol, 0), one = Tensor::scalar(std::int32_t{1});
  Tensors loop{Tensor::scalar(std::int32_t{0})};
  std::vector<Tensor> element_shapes;
  for (std::size_t i = states; i < results.size(); ++i) {
    const Shape& shape = results[i].shape;
    element_shapes.push_back(shape.known_rank()
                                 ? Tensor::from_vector(std::vector<std::int32_t>(shape.begin(), shape.end()))
                                 : Tensor::scalar(std::int32_t{-1}));
    loop.push_back(
        ops::call1("TensorListReserve", {element_shapes.back(), rows}, {{"element_dtype", results[i].dtype}}));
  }
  const std::size_t lists = element_shapes.size();
  loop.insert(loop.end(), initial.begin(), initial.end());
  const auto body = [&](const Tensors& v) {
    const Tensor place = reverse ? ops::sub(ops::sub(rows, one), v[0]) : v[0];
    const Structure row = elems.map([&](const Tensor& column) { return ops::gather(column, place); });
    const Stepped next = step(Tensors(v.begin() + 1 + static_cast<std::ptrdiff_t>(lists), v.end()), row);
    Tensors out{ops::add(v[0], one)};
    for (std::size_t i = 0; i < lists; ++i)
      out.push_back(ops::call1("TensorListSetItem", {v[1 + i], place, next.outputs[i]}));
    out.insert(out.end(), next.state.begin(), next.state.end());
    return out;
  };
  const Tensors end = recorder.record_while([&](const Tensors& v) { return ops::less(v[0], rows); }, body, loop);
  Stepped all{Tensors(end.begin() + 1 + static_cast<std::ptrdiff_t>(lists), end.end()), {}};
  for (std::size_t i = 0; i < lists; ++i) {
    all.outputs.push_back(
        ops::call1("TensorListStack", {end[1 + i], element_shapes[i]}, {{"element_dtype", results[states + i].dtype}}));
  }
  return all;
}

}  // namespace

bool is_true(const Tensor& pred) {
  if (!pred.defined() || !pred.is_value() || pred.num_elements() != 1) {
    throw_invalid_argument("cond and while_loop require a condition of one value that is known when they are called");
  }
  return pred.item<bool>();
}

Structure choose(const Tensor& pred, const Branch& true_fn, const Branch& false_fn) {
  if (!pred.is_symbolic()) return is_true(pred) ? true_fn() : false_fn();
  Structure form;
  const auto traced = [&](const Branch& fn) {
    return [&form, &fn] {
      form = fn();
      return Tensors(form.flatten());
    };
  };
  const Tensors results = control_flow_recorder(pred, "cond").record_cond(pred, traced(true_fn), traced(false_fn));
  return form.pack(results);
}

Structure choose(const Tensor& index, const std::vector<Branch>& branches) {
  if (!index.is_symbolic()) return branches[chosen_branch(index, branches.size(), branches.size() - 1)]();
  std::function<Structure(std::size_t)> from = [&](std::size_t i) -> Structure {
    if (i + 1 == branches.size()) return branches[i]();
    return choose(ops::equal(index, Tensor::scalar(static_cast<double>(i), index.dtype())), branches[i],
                  [&, i] { return from(i + 1); });
  };
  return from(0);
}

namespace {

// `left`: how many iterations there may be; undefined: any number.
Structure recorded_loop(const Tensor& symbol, const StructureFunction& cond, const StructureFunction& body,
                        const Structure& loop_vars, const Tensor& left) {
  Tensors initial = loop_vars.flatten();
  if (left.defined()) initial.push_back(left);
  const auto variables = [&](const Tensors& v) {
    return loop_vars.pack(Tensors(v.begin(), v.end() - (left.defined() ? 1 : 0)));
  };
  const auto test = [&](const Tensors& v) {
    const Tensor goes_on = cond(variables(v)).leaf();
    return left.defined() ? ops::logical_and(goes_on, ops::greater(v.back(), Tensor::scalar(std::int64_t{0})))
                          : goes_on;
  };
  const auto step = [&](const Tensors& v) {
    Tensors next = body(variables(v)).flatten();
    if (left.defined()) next.push_back(ops::sub(v.back(), Tensor::scalar(std::int64_t{1})));
    return next;
  };
  Tensors end = control_flow_recorder(symbol, "while_loop").record_while(test, step, initial);
  if (left.defined()) end.pop_back();
  return loop_vars.pack(end);
}

}  // namespace

Structure while_loop(const StructureFunction& cond, const StructureFunction& body, Structure loop_vars,
                     std::optional<std::int64_t> maximum_iterations) {
  const std::size_t leaves = loop_vars.num_leaves();
  LoopDraws draws;
  for (std::int64_t i = 0; !maximum_iterations || i < *maximum_iterations; ++i) {
    const Tensor goes_on = cond(loop_vars).leaf();
    if (goes_on.is_symbolic()) {
      const Tensor left = maximum_iterations ? Tensor::scalar(*maximum_iterations - i) : Tensor();
      return recorded_loop(goes_on, cond, body, loop_vars, left);
    }
    if (!is_true(goes_on)) break;
    const Tensors next = draws.iteration([&] { return body(loop_vars).flatten(); });
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
  if (rows == kUnknownDim) {
    Structure form;
    const auto step = [&](const Tensors&, const Structure& row) {
      form = fn(row);
      return Stepped{{}, form.flatten()};
    };
    const Tensors outputs = loop_over_rows("map_fn", step, {}, elems, false).outputs;
    return form.pack(outputs);
  }
  std::vector<Structure> results;
  LoopDraws draws;
  for (std::int64_t i = 0; i < rows; ++i) results.push_back(draws.iteration([&] { return fn(row_of(elems, i)); }));
  return stacked(results, "map_fn");
}

Structure checked_dtype(Structure results, DType declared) {
  if (declared == DType::kInvalid) return results;
  results.visit([&](const Tensor& result) {
    if (result.dtype() == declared) return;
    throw_invalid_argument(fmt::format("map_fn: the function returned a tensor of {}, expected {}",
                                       dtype_name(result.dtype()), dtype_name(declared)));
  });
  return results;
}

std::size_t chosen_branch(const Tensor& index, std::size_t branches, std::size_t below) {
  if (branches == 0) throw_invalid_argument("switch requires at least one branch");
  if (!index.defined() || !index.is_value() || index.num_elements() != 1)
    throw_invalid_argument("switch requires an index of one value that is known when it is called");
  const auto place = index.item<std::int64_t>();
  return place < 0 ? below : std::min(static_cast<std::size_t>(place), branches - 1);
}

Structure first_true(const std::vector<std::pair<Tensor, Branch>>& cases, const Branch& otherwise, std::size_t from) {
  if (from < cases.size()) {
    const auto& [pred, fn] = cases[from];
    if (!otherwise && from + 1 == cases.size() && pred.is_symbolic()) return fn();
    return choose(pred, fn, [&] { return first_true(cases, otherwise, from + 1); });
  }
  if (!otherwise) throw_invalid_argument("case_: none of the conditions is true; give a default_fn");
  return otherwise();
}

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
  if (rows == kUnknownDim) {
    if (!initializer.defined())
      throw_invalid_argument("scan and foldl require an initializer where the number of rows is not known");
    const auto step = [&](const Tensors& state, const Structure& row) {
      const Tensors next = fn(Structure::list({initializer.pack(state), row})).flatten();
      return Stepped{next, keep_all ? next : Tensors()};
    };
    const Stepped end = loop_over_rows("scan", step, initializer.flatten(), elems, reverse);
    return initializer.pack(keep_all ? end.outputs : end.state);
  }
  std::int64_t done = 0;
  std::vector<Structure> results;
  const auto place = [&](std::int64_t step) { return reverse ? rows - 1 - step : step; };
  if (!initializer.defined()) {
    if (rows == 0) throw_invalid_argument("scan and foldl require an initializer where there are no rows");
    initializer = row_of(elems, place(done++));
    if (keep_all) results.push_back(initializer);
  }
  LoopDraws draws;
  for (; done < rows; ++done) {
    const Structure given = Structure::list({initializer, row_of(elems, place(done))});
    initializer = initializer.pack(draws.iteration([&] { return fn(given).flatten(); }));
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
  if (steps == kUnknownDim) {
    Structure form;
    const auto step = [&](const Tensors& state, const Structure& row) {
      const auto [carry, output] = fn(Structure::list({init.pack(state), row}));
      form = output;
      return Stepped{carry.flatten(), output.defined() ? Tensors(output.flatten()) : Tensors()};
    };
    const Stepped end = loop_over_rows("scan", step, init.flatten(), xs, reverse);
    return {init.pack(end.state), form.defined() ? form.pack(end.outputs) : Structure()};
  }
  if (length && *length != steps) {
    throw_invalid_argument(fmt::format("scan: length is {}, but xs has {} rows", *length, steps));
  }
  std::vector<Structure> outputs;
  LoopDraws draws;
  for (std::int64_t i = 0; i < steps; ++i) {
    const Structure x = xs.defined() ? row_of(xs, reverse ? steps - 1 - i : i) : Structure();
    const Structure next = draws.iteration([&] { return fn(Structure::list({init, x})); });
    const auto& [carry, output] = next;
    outputs.push_back(output);
    init = Structure(carry);
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
