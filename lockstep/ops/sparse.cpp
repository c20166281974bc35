// Sparse tensors: coordinates [n, rank], values [n] and a shape, each one tensor.
#include <algorithm>
#include <map>
#include <numeric>

#include "lockstep/ops/call.h"
#include "lockstep/ops/rows_internal.h"

namespace lockstep::ops {
namespace {

Tensors sparse_out(const Ints& indices, Tensor values, const Ints& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  return {wrap(int64_tensor(indices, {values.dim(0), rank})), std::move(values), wrap(int64_tensor(shape))};
}

Shapes sparse_rule(const Call& call) {
  const Shape& shape = call.input(2).shape();
  const std::int64_t rank = shape.known_rank() && shape.rank() == 1 ? shape[0] : kUnknownDim;
  return {Shape{kUnknownDim, rank}, Shape{kUnknownDim}, Shape{rank}};
}

Ints rows_of(const Sparse& x, const Ints& order) {
  Ints out;
  out.reserve(x.indices.size());
  for (const std::int64_t i : order) out.insert(out.end(), x.row(i), x.row(i) + x.rank);
  return out;
}

// The product of the extents; throws InvalidArgument if it does not fit int64.
std::int64_t dense_size(const Ints& shape) {
  std::int64_t size = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(size, extent, &size))
      throw_invalid_argument(fmt::format("the shape {} has too many elements", Shape(shape).to_string()));
  }
  return size;
}

Tensors sparse_reshape(const Call& call) {
  const Sparse x = sparse_in(call, 0, -1, 1);
  Ints shape = ints_in(call, 2);
  const std::int64_t size = dense_size(x.shape);
  std::int64_t known = 1, unknown = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && unknown < 0) {
      unknown = static_cast<std::int64_t>(i);
    } else if (shape[i] < 0) {
      throw_invalid_argument(
          fmt::format("new_shape may have one -1 and no other negative number: {}", Shape(shape).to_string()));
    } else if (__builtin_mul_overflow(known, shape[i], &known)) {
      throw_invalid_argument("new_shape has too many elements");
    }
  }
  if (unknown >= 0) {
    if (known == 0 ? size != 0 : size % known != 0)
      throw_invalid_argument(fmt::format("{} elements do not divide into rows of {}", size, known));
    shape[static_cast<std::size_t>(unknown)] = known == 0 ? 0 : size / known;
  } else if (known != size) {
    throw_invalid_argument(fmt::format("the tensor has {} elements, new_shape {}", size, known));
  }
  const Ints flat = flat_positions(x);
  const std::size_t rank = shape.size();
  Ints indices(static_cast<std::size_t>(element_count({x.count, static_cast<std::int64_t>(rank)}, 8)));
  for (std::size_t i = 0; i < flat.size(); ++i) {
    std::int64_t rest = flat[i];
    for (std::size_t axis = rank; axis-- > 0;) {
      indices[i * rank + axis] = rest % shape[axis];
      rest /= shape[axis];
    }
  }
  return {wrap(int64_tensor(indices, {x.count, static_cast<std::int64_t>(rank)})), wrap(int64_tensor(shape))};
}

Tensors sparse_reorder(const Call& call) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  const Ints order = row_major_order(x);
  Tensors out = sparse_out(rows_of(x, order), take_rows(x.values, order), x.shape);
  out.pop_back();
  return out;
}

// Every row of the first axis gets an entry: those without one the default at column 0.
Tensors sparse_fill_empty_rows(const Call& call) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  if (x.rank < 1) throw_invalid_argument("a sparse tensor without axes has no rows");
  const std::int64_t rows = x.shape[0];
  element_count({rows, x.rank + 1}, sizeof(std::int64_t));
  std::vector<Ints> entries(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < x.count; ++i) entries[static_cast<std::size_t>(x.row(i)[0])].push_back(i);
  Ints indices, from, places(static_cast<std::size_t>(x.count));
  at::Tensor empty = at::zeros({rows}, at::kBool);
  for (std::int64_t row = 0; row < rows; ++row) {
    const Ints& own = entries[static_cast<std::size_t>(row)];
    for (const std::int64_t i : own) {
      places[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(from.size());
      from.push_back(i);
      indices.insert(indices.end(), x.row(i), x.row(i) + x.rank);
    }
    if (!own.empty()) continue;
    empty.mutable_data_ptr<bool>()[row] = true;
    from.push_back(x.count);
    indices.push_back(row);
    indices.insert(indices.end(), static_cast<std::size_t>(x.rank - 1), 0);
  }
  const Tensor standard = call1("Reshape", {call.input(3), Tensor::from_vector(std::vector<std::int32_t>{1})});
  const Tensor values = take_rows(concat_rows({x.values, standard}), from);
  Tensors out = sparse_out(indices, values, x.shape);
  return {out[0], out[1], wrap(empty), wrap(int64_tensor(places))};
}

// Narrow types are rounded after each step, as in TensorFlow.
at::Tensor sum_in_turn(const at::Tensor& x) {
  if (x.element_size() != 2 || !is_float(x) || x.requires_grad()) return x.sum(x.scalar_type());
  at::Tensor total = at::zeros({}, x.options());
  for (const at::Tensor& each : x.unbind()) total.add_(each);
  return total;
}

Tensors fill_empty_rows_grad(const Call& call) {
  const at::Tensor& gradient = in(call, 1);
  const Ints places = ints_in(call, 0);
  for (const std::int64_t at : places) {
    if (at < 0 || at >= gradient.size(0))
      throw_invalid_argument(fmt::format("reverse_index_map has {}, expected [0, {})", at, gradient.size(0)));
  }
  const at::Tensor own = gradient.index_select(0, int64_tensor(places));
  at::Tensor others = at::ones({gradient.size(0)}, at::kBool);
  others.index_fill_(0, int64_tensor(places), false);
  return {wrap(own), wrap(sum_in_turn(at::where(others, gradient, at::zeros({}, gradient.options()))))};
}

Tensors sparse_concat(const Call& call) {
  const auto n = static_cast<int>(call.attr<std::int64_t>("N"));
  std::vector<Sparse> parts;
  for (int i = 0; i < n; ++i) parts.push_back(sparse_in(call, i, n + i, 2 * n + i));
  const std::int64_t axis = whole_axis(call.attr<std::int64_t>("concat_dim"), parts[0].rank);
  Sparse all;
  all.rank = parts[0].rank;
  all.shape = parts[0].shape;
  std::int64_t& extent = all.shape[static_cast<std::size_t>(axis)];
  extent = 0;
  Tensors values;
  for (const Sparse& part : parts) {
    for (std::int64_t k = 0; k < all.rank; ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (part.rank != all.rank || (k != axis && part.shape[at] != all.shape[at]))
        throw_invalid_argument("the sparse tensors differ in an axis that is not concatenated");
    }
    for (std::int64_t i = 0; i < part.count; ++i) {
      for (std::int64_t k = 0; k < all.rank; ++k) all.indices.push_back(part.row(i)[k] + (k == axis ? extent : 0));
    }
    if (__builtin_add_overflow(extent, part.shape[static_cast<std::size_t>(axis)], &extent))
      throw_invalid_argument("the concatenated axis is too long");
    all.count += part.count;
    values.push_back(part.values);
  }
  const Ints order = row_major_order(all);
  return sparse_out(rows_of(all, order), take_rows(concat_rows(values), order), all.shape);
}

// The entries of x from `start` on, at most `size` along each axis.
Tensors cut_out(const Sparse& x, const Ints& start, const Ints& size) {
  Ints shape, indices, from;
  for (std::size_t axis = 0; axis < x.shape.size(); ++axis) {
    if (start[axis] < 0) throw_invalid_argument("the start of a slice must not be negative");
    shape.push_back(std::clamp<std::int64_t>(x.shape[axis] - start[axis], 0, std::max<std::int64_t>(size[axis], 0)));
  }
  for (std::int64_t i = 0; i < x.count; ++i) {
    bool inside = true;
    for (std::size_t axis = 0; axis < shape.size() && inside; ++axis) {
      const std::int64_t at = x.row(i)[axis] - start[axis];
      inside = at >= 0 && at < shape[axis];
    }
    if (!inside) continue;
    from.push_back(i);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) indices.push_back(x.row(i)[axis] - start[axis]);
  }
  return sparse_out(indices, take_rows(x.values, from), shape);
}

Tensors sparse_slice(const Call& call) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  const Ints start = ints_in(call, 3), size = ints_in(call, 4);
  if (start.size() != x.shape.size() || size.size() != x.shape.size())
    throw_invalid_argument(fmt::format("start and size must have {} numbers", x.shape.size()));
  return cut_out(x, start, size);
}

Tensors sparse_split(const Call& call) {
  const Sparse x = sparse_in(call, 1, 2, 3);
  const std::int64_t axis = whole_axis(int_in(call, 0), x.rank), parts = call.attr<std::int64_t>("num_split");
  const std::int64_t extent = x.shape[static_cast<std::size_t>(axis)];
  if (parts > extent) throw_invalid_argument(fmt::format("an axis of {} cannot be split into {}", extent, parts));
  Ints start(x.shape.size(), 0), size = x.shape;
  Tensors indices, values, shapes;
  for (std::int64_t part = 0; part < parts; ++part) {
    std::int64_t& length = size[static_cast<std::size_t>(axis)];
    length = extent / parts + (part < extent % parts ? 1 : 0);
    Tensors made = cut_out(x, start, size);
    indices.push_back(made[0]), values.push_back(made[1]), shapes.push_back(made[2]);
    start[static_cast<std::size_t>(axis)] += length;
  }
  indices.insert(indices.end(), values.begin(), values.end());
  indices.insert(indices.end(), shapes.begin(), shapes.end());
  return indices;
}

Tensors sparse_slice_grad(const Call& call) {
  const at::Tensor &gradient = in(call, 0), &input = in(call, 1), &output = in(call, 3);
  const Ints start = ints_in(call, 2), own = ints_of(input), taken = ints_of(output);
  if (output.dim() != 2 || output.size(1) != input.size(1) || gradient.dim() != 1 ||
      gradient.size(0) != output.size(0) || start.size() != static_cast<std::size_t>(input.size(1)))
    throw_invalid_argument("the gradient, the indices and the start have incompatible shapes");
  const std::size_t rank = start.size();
  std::map<Ints, std::int64_t> places;
  for (std::int64_t i = 0; i < output.size(0); ++i) {
    Ints key(taken.begin() + i * static_cast<std::int64_t>(rank),
             taken.begin() + (i + 1) * static_cast<std::int64_t>(rank));
    for (std::size_t axis = 0; axis < rank; ++axis)
      key[axis] =
          static_cast<std::int64_t>(static_cast<std::uint64_t>(key[axis]) + static_cast<std::uint64_t>(start[axis]));
    places.emplace(std::move(key), i);
  }
  Ints from;
  for (std::int64_t i = 0; i < input.size(0); ++i) {
    const auto found = places.find(Ints(own.begin() + i * static_cast<std::int64_t>(rank),
                                        own.begin() + (i + 1) * static_cast<std::int64_t>(rank)));
    from.push_back(found == places.end() ? gradient.size(0) : found->second);
  }
  return one(at::cat({gradient, at::zeros({1}, gradient.options())}).index_select(0, int64_tensor(from)));
}

// ---- two sparse tensors ----------------------------------------------------------------------------------------
// Entries of a and b in the order of their coordinates; equal ones together. -1: in one only.
struct Pairs {
  Ints indices, of_a, of_b;
};

Pairs merge_entries(const Sparse& a, const Sparse& b) {
  if (a.shape != b.shape) throw_invalid_argument("the sparse tensors must have the same shape");
  Pairs out;
  std::int64_t i = 0, j = 0;
  while (i < a.count || j < b.count) {
    int order = i == a.count ? 1 : j == b.count ? -1 : 0;
    for (std::int64_t axis = 0; axis < a.rank && order == 0; ++axis)
      order = a.row(i)[axis] < b.row(j)[axis] ? -1 : a.row(i)[axis] > b.row(j)[axis] ? 1 : 0;
    const std::int64_t* row = order <= 0 ? a.row(i) : b.row(j);
    out.indices.insert(out.indices.end(), row, row + a.rank);
    out.of_a.push_back(order <= 0 ? i++ : -1);
    out.of_b.push_back(order >= 0 ? j++ : -1);
  }
  return out;
}

// Values by position, 0 for missing ones.
at::Tensor or_zero(const Tensor& values, const Ints& from) {
  const at::Tensor& x = dense(values);
  const std::int64_t n = x.size(0);
  Ints places;
  for (const std::int64_t i : from) places.push_back(i < 0 ? n : i);
  return at::cat({x, at::zeros({1}, x.options())}).index_select(0, int64_tensor(places));
}

Tensors sparse_add(const Call& call) {
  const Sparse a = sparse_in(call, 0, 1, 2), b = sparse_in(call, 3, 4, 5);
  const Pairs pairs = merge_entries(a, b);
  const at::Tensor sum = widen(or_zero(a.values, pairs.of_a)) + widen(or_zero(b.values, pairs.of_b));
  if (in(call, 6).numel() != 1) throw_invalid_argument("thresh must be one number");
  // The threshold applies to sums of two entries; entries of only one tensor are kept.
  const at::Tensor alone = (int64_tensor(pairs.of_a) < 0).logical_or(int64_tensor(pairs.of_b) < 0);
  const at::Tensor large = at::abs(sum).ge(widen(in(call, 6)).reshape({}));
  const at::Tensor kept = at::nonzero(alone.logical_or(large)).reshape({-1});
  const at::Tensor indices = int64_tensor(pairs.indices, {sum.size(0), a.rank}).index_select(0, kept);
  return {wrap(indices), wrap(narrow_to(sum.index_select(0, kept), dense(a.values).scalar_type())), call.input(2)};
}

Tensors sparse_add_grad(const Call& call) {
  const at::Tensor& gradient = in(call, 0);
  const at::Tensor& sum = in(call, 3);
  if (sum.dim() != 2 || gradient.dim() != 1 || gradient.size(0) != sum.size(0))
    throw_invalid_argument("the gradient must have a value for each entry of the sum");
  const std::int64_t rank = sum.size(1);
  const Ints rows = ints_of(sum);
  std::map<Ints, std::int64_t> places;
  for (std::int64_t i = 0; i < sum.size(0); ++i)
    places.emplace(Ints(rows.begin() + i * rank, rows.begin() + (i + 1) * rank), i);
  const auto of = [&](int input) {
    const at::Tensor& index = in(call, input);
    if (index.size(1) != rank) throw_invalid_argument("the indices differ in their number of axes");
    const Ints own = ints_of(index);
    Ints from;
    for (std::int64_t i = 0; i < index.size(0); ++i) {
      const auto found = places.find(Ints(own.begin() + i * rank, own.begin() + (i + 1) * rank));
      from.push_back(found == places.end() ? -1 : found->second);
    }
    return wrap(or_zero(call.input(0), from));
  };
  return {of(1), of(2)};
}

Tensors sparse_choice(const Call& call, const char* name) {
  const Sparse a = sparse_in(call, 0, 1, 2), b = sparse_in(call, 3, 4, 5);
  const Pairs pairs = merge_entries(a, b);
  const Tensor values = call1(name, {wrap(or_zero(a.values, pairs.of_a)), wrap(or_zero(b.values, pairs.of_b))});
  return {wrap(int64_tensor(pairs.indices, {values.dim(0), a.rank})), values};
}

// ---- with dense tensors ------------------------------------------------------------------------------------------
Tensors sparse_dense_elementwise(const Call& call, const char* name) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  const at::Tensor& other = in(call, 3);
  if (other.dim() > x.rank) throw_invalid_argument("the dense tensor has more axes than the sparse one");
  Ints places(static_cast<std::size_t>(x.count), 0);
  for (std::int64_t axis = 0; axis < other.dim(); ++axis) {
    const std::int64_t own = x.rank - other.dim() + axis, extent = other.size(axis);
    if (extent != 1 && extent != x.shape[static_cast<std::size_t>(own)])
      throw_invalid_argument("the dense tensor cannot be broadcast to the shape of the sparse one");
    for (std::int64_t i = 0; i < x.count; ++i) {
      std::int64_t& at = places[static_cast<std::size_t>(i)];
      at = at * extent + (extent == 1 ? 0 : x.row(i)[own]);
    }
  }
  return {call1(name, {x.values, wrap(other.reshape({-1}).index_select(0, int64_tensor(places)))})};
}

Tensors sparse_dense_add(const Call& call) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  const at::Tensor& b = in(call, 3);
  if (b.sizes() != at::IntArrayRef(x.shape)) throw_invalid_argument("the tensors must have the same shape");
  const at::Tensor sum = add_rows(widen(b).reshape({-1}), int64_tensor(flat_positions(x)), widen(dense(x.values)));
  return one(narrow_to(sum.reshape(x.shape), b.scalar_type()));
}

Tensors sparse_matmul(const Call& call) {
  const Sparse a = sparse_in(call, 0, 1, 2);
  if (a.rank != 2) throw_invalid_argument(fmt::format("invalid a_shape: found {} axes, expected 2", a.rank));
  const bool adjoint_a = call.attr<bool>("adjoint_a"), adjoint_b = call.attr<bool>("adjoint_b");
  at::Tensor values = widen(dense(a.values)), b = widen(in(call, 3));
  if (adjoint_a && has_complex(values)) values = at::conj(values);
  if (adjoint_b) b = has_complex(b) ? at::conj(b).t() : b.t();
  const std::size_t out = adjoint_a ? 1 : 0, inner = 1 - out;
  if (b.size(0) != a.shape[inner])
    throw_invalid_argument(fmt::format(
        "cannot multiply: the sparse matrix has an inner size of {}, the dense one of {}", a.shape[inner], b.size(0)));
  Ints rows, columns;
  for (std::int64_t i = 0; i < a.count; ++i) rows.push_back(a.row(i)[out]), columns.push_back(a.row(i)[inner]);
  element_count({a.shape[out], b.size(1)}, static_cast<std::int64_t>(b.element_size()));
  const at::Tensor parts = values.unsqueeze(1) * b.index_select(0, int64_tensor(columns));
  const at::Tensor y = add_rows(at::zeros({a.shape[out], b.size(1)}, parts.options()), int64_tensor(rows), parts);
  return one(narrow_to(y, in(call, 3).scalar_type()));
}

// ---- reductions ----------------------------------------------------------------------------------------------------
// Groups of entries that agree in all axes but the reduced ones.
struct Groups {
  Ints shape;                           // of what is left, with extents of 1 for reduced axes if they are kept
  std::map<Ints, std::int64_t> places;  // coordinates of a group; its number in that order
  Ints of;                              // the group of each entry
};

Groups group_entries(const Sparse& x, const Ints& given, bool keep) {
  Ints axes = given;  // without one nothing is reduced
  for (std::int64_t& axis : axes) axis = whole_axis(axis, x.rank);
  const auto reduced = [&](std::int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  Groups groups;
  for (std::int64_t axis = 0; axis < x.rank; ++axis) {
    if (!reduced(axis)) groups.shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    if (reduced(axis) && keep) groups.shape.push_back(1);
  }
  std::vector<Ints> keys;
  for (std::int64_t i = 0; i < x.count; ++i) {
    Ints key;
    for (std::int64_t axis = 0; axis < x.rank; ++axis) {
      if (!reduced(axis)) key.push_back(x.row(i)[axis]);
      if (reduced(axis) && keep) key.push_back(0);
    }
    groups.places.emplace(key, 0);
    keys.push_back(std::move(key));
  }
  std::int64_t next = 0;
  for (auto& [key, number] : groups.places) number = next++;
  for (const Ints& key : keys) groups.of.push_back(groups.places.at(key));
  return groups;
}

at::Tensor reduce_groups(const at::Tensor& values, const Ints& of, std::int64_t count, bool sum) {
  const at::Tensor start = at::zeros({count}, values.options());
  if (sum) return narrow_to(add_rows(widen(start), int64_tensor(of), widen(values)), values.scalar_type());
  return from_ordered(at::scatter_reduce(ordered(start), 0, int64_tensor(of), ordered(values), "amax", false),
                      values.scalar_type());
}

Tensors sparse_reduce(const Call& call, bool sum, bool sparse) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  const Groups groups = group_entries(x, ints_in(call, 3), call.attr<bool>("keep_dims"));
  const at::Tensor reduced =
      reduce_groups(dense(x.values), groups.of, static_cast<std::int64_t>(groups.places.size()), sum);
  Ints indices;
  for (const auto& [key, number] : groups.places) indices.insert(indices.end(), key.begin(), key.end());
  if (sparse) return sparse_out(indices, wrap(reduced), groups.shape);
  Sparse made;
  made.indices = std::move(indices), made.shape = groups.shape;
  made.count = reduced.size(0), made.rank = static_cast<std::int64_t>(groups.shape.size());
  const std::int64_t size = element_count(groups.shape, static_cast<std::int64_t>(reduced.element_size()));
  const at::Tensor empty = at::zeros({size}, reduced.options());
  const at::Tensor filled = widen(empty).index_copy(0, int64_tensor(flat_positions(made)), widen(reduced));
  return one(narrow_to(filled.reshape(groups.shape), reduced.scalar_type()));
}

Tensors sparse_softmax(const Call& call) {
  const Sparse x = sparse_in(call, 0, 1, 2);
  if (x.rank < 2) throw_invalid_argument("sp_shape must have at least two axes");
  const Groups groups = group_entries(x, {-1}, false);
  const auto count = static_cast<std::int64_t>(groups.places.size());
  const at::Tensor &values = dense(x.values), rows = int64_tensor(groups.of);
  const at::Tensor highest = reduce_groups(values.detach(), groups.of, count, false);
  const at::Tensor powers = at::exp(values - highest.index_select(0, rows));
  const at::Tensor total = at::zeros({count}, values.options()).index_add(0, rows, powers);
  return one(powers / total.index_select(0, rows));
}

}  // namespace

void register_sparse(Table& table) {
  const ShapeRule values_rule = [](const Call& call) { return Shapes{call.input(1).shape()}; };
  table.add("SparseReshape", nullptr, sparse_reshape);
  table.add(
      "SparseReorder",
      [](const Call& call) {
        return Shapes{call.input(0).shape(), call.input(1).shape()};
      },
      sparse_reorder);
  table.add("SparseFillEmptyRows", nullptr, sparse_fill_empty_rows);
  for (auto name : {"SparseFillEmptyRowsGrad", "RaggedFillEmptyRowsGrad"}) {
    table.add(
        name,
        [](const Call& call) {
          return Shapes{call.input(0).shape(), Shape{}};
        },
        fill_empty_rows_grad);
  }
  table.add("SparseConcat", nullptr, sparse_concat);
  table.add("SparseSlice", sparse_rule, sparse_slice);
  table.add("SparseSliceGrad", nullptr, sparse_slice_grad);
  table.add("SparseSplit", nullptr, sparse_split);
  table.add("SparseAdd", sparse_rule, sparse_add);
  table.add("SparseAddGrad", nullptr, sparse_add_grad);
  table.add("SparseSparseMaximum", nullptr, [](const Call& call) { return sparse_choice(call, "Maximum"); });
  table.add("SparseSparseMinimum", nullptr, [](const Call& call) { return sparse_choice(call, "Minimum"); });
  table.add("SparseDenseCwiseAdd", values_rule,
            [](const Call& call) { return sparse_dense_elementwise(call, "AddV2"); });
  table.add("SparseDenseCwiseMul", values_rule, [](const Call& call) { return sparse_dense_elementwise(call, "Mul"); });
  table.add("SparseDenseCwiseDiv", values_rule, [](const Call& call) { return sparse_dense_elementwise(call, "Div"); });
  table.add(
      "SparseTensorDenseAdd", [](const Call& call) { return Shapes{call.input(3).shape()}; }, sparse_dense_add);
  table.add("SparseTensorDenseMatMul", nullptr, sparse_matmul);
  for (const bool sum : {true, false}) {
    const std::string name = sum ? "SparseReduceSum" : "SparseReduceMax";
    table.add(name, nullptr, [sum](const Call& call) { return sparse_reduce(call, sum, false); });
    table.add(name + "Sparse", nullptr, [sum](const Call& call) { return sparse_reduce(call, sum, true); });
  }
  table.add("SparseSoftmax", values_rule, sparse_softmax);
}

}  // namespace lockstep::ops
