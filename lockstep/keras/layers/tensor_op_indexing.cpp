// keras.ops: segments, scattering, searching and counting
#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras::tensor_ops {
namespace {

constexpr std::int64_t kMostCounted = 1 << 26;  // entries that a number in a config may ask for

Tensor int_scalar(std::int64_t n) { return Tensor::scalar(static_cast<std::int32_t>(n)); }

std::int64_t count_of(const Json& config, const char* key) {
  const Json value = get(config, key);
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0 || value.get<std::int64_t>() > kMostCounted)
    bad(fmt::format("{} is {}, expected an integer from 0 to 2^26", key, dump_json(value)));
  return value.get<std::int64_t>();
}

// `kind` is "Sum", "Max", "Min" or "Prod".
Run segment_reduction(std::string kind) {
  return [kind](const CallArguments& call, const Json& config) {
    const Tensor data = tensor_operand(call, 0, "data");
    const Tensor ids = ops::cast(tensor_operand(call, 1, "segment_ids"), DType::kInt32);
    const bool given = !get(config, "num_segments").is_null();
    if (get(config, "sorted", false).get<bool>()) {
      if (given) bad("num_segments requires sorted=False");
      return Structure(ops::call1("Segment" + kind, {data, ids}));
    }
    // Keras counts the different ids of a sum, and takes the largest id of other reductions.
    const Tensor count = given           ? int_scalar(count_of(config, "num_segments"))
                         : kind == "Sum" ? ops::dim_of(ops::call("Unique", {ops::reshape(ids, {-1})})[0], 0)
                                         : ops::reduce_max(ids) + int_scalar(1);
    return Structure(ops::call1("UnsortedSegment" + kind, {data, ids, count}));
  };
}

// One factor after another, since an index may come twice.
Tensor scatter_products(Tensor x, const Tensor& indices, const Tensor& updates) {
  const std::int64_t count = extent(indices, 0, "ScatterUpdate");
  if (count > 4096) bad(fmt::format("ScatterUpdate by \"mul\" with {} updates, expected at most 4096", count));
  for (std::int64_t i = 0; i < count; ++i) {
    const Tensor index = ops::slice_axis(indices, 0, i, i + 1), factor = ops::slice_axis(updates, 0, i, i + 1);
    x = ops::tensor_scatter_nd_update(x, index, ops::gather_nd(x, index) * factor);
  }
  return x;
}

Structure scatter_update(const CallArguments& call, const Json& config) {
  const Tensor x = tensor_operand(call, 0, "inputs"), indices = tensor_operand(call, 1, "indices");
  const Tensor updates = ops::cast(tensor_operand(call, 2, "updates"), x.dtype());
  const Json reduction = get(config, "reduction");
  if (reduction.is_null()) return ops::tensor_scatter_nd_update(x, indices, updates);
  if (reduction == "add") return ops::tensor_scatter_nd_add(x, indices, updates);
  if (reduction == "max") return ops::tensor_scatter_nd_max(x, indices, updates);
  if (reduction == "min") return ops::tensor_scatter_nd_min(x, indices, updates);
  if (reduction == "mul") return scatter_products(x, indices, updates);
  bad(fmt::format("reduction is {}, expected \"add\", \"max\", \"min\", \"mul\" or null", dump_json(reduction)));
}

// A block written over part of x. A block that would reach beyond x is moved back into it, as XLA does.
Structure slice_update(const CallArguments& call, const Json&) {
  const Tensor x = tensor_operand(call, 0, "inputs");
  const Tensor starts = ops::cast(tensor_operand(call, 1, "start_indices"), DType::kInt32);
  Tensor block = ops::cast(tensor_operand(call, 2, "updates"), x.dtype());
  if (block.rank() != x.rank())
    bad(fmt::format("SliceUpdate: updates have {} axes, inputs {}", block.rank(), x.rank()));
  if (block.shape().num_elements() == 0) return x;
  Tensor inside;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Tensor whole = ops::dim_of(x, axis), part = ops::dim_of(block, axis);
    const Tensor start = ops::minimum(ops::maximum(ops::gather(starts, int_scalar(axis)), int_scalar(0)), whole - part);
    const Tensor place = ops::range(int_scalar(0), whole, int_scalar(1)) - start;
    ops::Ints shape(static_cast<std::size_t>(x.rank()), 1);
    shape[static_cast<std::size_t>(axis)] = -1;
    const Tensor here =
        ops::reshape(ops::logical_and(ops::greater_equal(place, int_scalar(0)), ops::less(place, part)), shape);
    inside = inside.defined() ? ops::logical_and(inside, here) : here;
    block = ops::gather(block, ops::minimum(ops::maximum(place, int_scalar(0)), part - int_scalar(1)), axis);
  }
  return inside.defined() ? ops::where(inside, block, x) : block;
}

// Places of values in a sorted vector, int32.
Tensor search(const Tensor& sorted, const Tensor& values, bool right) {
  const Tensor places =
      ops::call1(right ? "UpperBound" : "LowerBound", {ops::reshape(sorted, {1, -1}), ops::reshape(values, {1, -1})},
                 {{"out_type", DType::kInt32}});
  return values.rank() == 1 ? ops::reshape(places, {-1}) : ops::reshape(places, ops::shape_of(values));
}

Structure bincount(const CallArguments& call, const Json& config) {
  Tensor x = tensor_operand(call);
  if (!get(config, "weights").is_null()) bad("Bincount with weights is not supported: they are not saved by Keras");
  if (get(config, "sparse", false) == true) bad("Bincount with sparse=True is not supported");
  if (x.rank() != 1 && x.rank() != 2) bad(fmt::format("Bincount of {} axes, expected 1 or 2", x.rank()));
  if (x.dtype() != DType::kInt64) x = ops::cast(x, DType::kInt32);
  const Tensor size = ops::maximum(ops::cast(ops::reduce_max(x), DType::kInt32) + int_scalar(1),
                                   int_scalar(count_of(config, "minlength")));
  const Tensor none = Tensor::from_vector(std::vector<std::int32_t>{}, Shape{0});
  return ops::call1("DenseBincount", {x, ops::cast(size, x.dtype()), none}, {{"binary_output", false}});
}

Structure digitize(const CallArguments& call, const Json&) {
  const Tensor x = tensor_operand(call), bins = ops::cast(tensor_operand(call, 1, "bins"), DType::kFloat32);
  const DType dtype = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  return search(ops::cast(bins, dtype), ops::cast(x, dtype), true);
}

// Keras takes the axes of the shape in their order for one axis of indices, and from the first to the last for more.
Structure unravel_index(const CallArguments& call, const Json& config) {
  Tensor x = tensor_operand(call, 0, "indices");
  ops::Ints dims = int_list(get(config, "shape"), "shape");
  if (x.rank() == 1) std::reverse(dims.begin(), dims.end());
  Structure::List places;
  for (const std::int64_t dim : dims) {
    if (dim < 1)
      bad(fmt::format("UnravelIndex: shape is {}, expected positive numbers", dump_json(get(config, "shape"))));
    const Tensor size = ops::cast(Tensor::scalar(dim), x.dtype());
    places.insert(places.begin(), Structure(ops::floor_mod(x, size)));
    x = ops::floor_div(x, size);
  }
  return Structure::list(std::move(places));
}

Structure is_in(const CallArguments& call, const Json& config) {
  const auto [x, among] = operands(call, "x1", "x2");
  const Tensor found = ops::reduce_any(ops::equal(ops::expand_dims(x, -1), ops::reshape(among, {-1})), ops::Axes(-1));
  return get(config, "invert", false) == true ? ops::logical_not(found) : found;
}

Structure nonzero(const CallArguments& call, const Json&) {
  const Tensor x = tensor_operand(call);
  const Tensor places = ops::cast(ops::where(logical(x)), DType::kInt32);
  Structure::List axes;
  for (Tensor& axis : ops::unstack(ops::reshape(places, {-1, x.rank()}), 1)) axes.emplace_back(std::move(axis));
  return Structure::list(std::move(axes));
}

// Keras on TensorFlow compares integers and takes vectors only; what it puts after the smallest `kth + 1` follows from
// zeros in their places.
Structure partition(const CallArguments& call, const Json& config) {
  const Tensor given = tensor_operand(call);
  if (given.rank() != 1) bad(fmt::format("Argpartition of {} axes, expected 1", given.rank()));
  const Tensor x = ops::cast(given, DType::kInt32);
  const std::int64_t n = extent(x, 0, "Argpartition");
  const std::int64_t kth = std::clamp<std::int64_t>(get(config, "kth").get<std::int64_t>(), 0, n - 1);
  const Tensor least = ops::top_k(-x, kth + 1).indices;
  const Tensor chosen = ops::reduce_any(ops::equal(ops::expand_dims(ops::range(n), 1), least), ops::Axes(1));
  const Tensor rest = ops::top_k(ops::where(chosen, ops::zeros_like(x), x), n - kth - 1).indices;
  return ops::concat({least, rest}, 0);
}

// The different elements of x, and what else is asked for.
Structure unique(const CallArguments& call, const Json& config) {
  const Tensor given = tensor_operand(call);
  if (!get(config, "axis").is_null()) bad("Unique along an axis is not supported");
  if (!get(config, "size").is_null()) bad("Unique with a size is not supported");
  const Tensors found = ops::call("UniqueWithCounts", {ops::reshape(given, {-1})});
  Tensor values = found[0], inverse = found[1], counts = found[2];
  const Tensor places = ops::range(int_scalar(0), ops::dim_of(inverse, 0), int_scalar(1));
  Tensor first = ops::call1("UnsortedSegmentMin", {places, inverse, ops::dim_of(values, 0)});
  if (get(config, "sorted", true).get<bool>()) {
    const Tensor order = ops::argsort(values);
    for (Tensor* each : {&values, &first, &counts}) *each = ops::gather(*each, order);
    inverse = ops::gather(ops::call1("InvertPermutation", {order}), inverse);
  }
  Structure::List out = {values};
  if (get(config, "return_index", false) == true) out.emplace_back(first);
  if (get(config, "return_inverse", false) == true) out.emplace_back(ops::reshape(inverse, ops::shape_of(given)));
  if (get(config, "return_counts", false) == true) out.emplace_back(counts);
  return out.size() == 1 ? out[0] : Structure::list(std::move(out));
}

}  // namespace

void add_indexing(Rows& rows) {
  const auto core = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.core", std::move(run)}; };
  const auto numpy = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.numpy", std::move(run)}; };
  for (const char* kind : {"Sum", "Max", "Min", "Prod"}) {
    const std::string name = std::string("Segment") + kind;
    rows[name] = {name, "keras.src.ops.math", segment_reduction(kind)};
  }
  core("Scatter", [](const CallArguments& call, const Json& config) {
    const ops::Ints shape = int_list(get(config, "shape"), "shape");
    return Structure(ops::scatter_nd(ops::cast(tensor_operand(call, 0, "indices"), DType::kInt32),
                                     tensor_operand(call, 1, "values"), ops::constant_ints(shape)));
  });
  core("ScatterUpdate", scatter_update);
  core("SliceUpdate", slice_update);
  numpy("Bincount", bincount);
  numpy("Digitize", digitize);
  numpy("SearchSorted", [](const CallArguments& call, const Json& config) {
    const auto [sorted, values] = operands(call, "sorted_sequence", "values");
    if (sorted.rank() != 1) bad(fmt::format("SearchSorted in {} axes, expected 1", sorted.rank()));
    return Structure(search(sorted, values, get(config, "side", "left") == "right"));
  });
  numpy("UnravelIndex", unravel_index);
  numpy("IsIn", is_in);
  numpy("Nonzero", nonzero);
  numpy("Argpartition", partition);
  numpy("Unique", unique);
}

}  // namespace lockstep::keras::tensor_ops
