// Sparse matrices, or batches of them, as one variant: TensorFlow's CSRSparseMatrix. It holds the shape, the positions
// of the entries in row-major order and their values, which keep their gradients.
#include <algorithm>
#include <map>
#include <numeric>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/variants_internal.h"

namespace lockstep::ops {
namespace {

struct SparseMatrix {
  Ints shape;         // [rows, columns], or with a batch before them
  Ints at;            // batch, row and column of each entry
  at::Tensor values;  // [entries]

  std::int64_t count() const { return static_cast<std::int64_t>(at.size() / 3); }
  const std::int64_t* entry(std::int64_t i) const { return at.data() + 3 * i; }
  bool batched() const { return shape.size() == 3; }
  std::int64_t batch() const { return batched() ? shape[0] : 1; }
  std::int64_t rows() const { return shape[shape.size() - 2]; }
  std::int64_t columns() const { return shape.back(); }
};

Tensor packed(const SparseMatrix& x) {
  return variant_of({wrap(int64_tensor(x.shape)), wrap(int64_tensor(x.at, {x.count(), 3})), wrap(x.values)});
}

SparseMatrix matrix_in(const Call& call, int i) {
  const Tensor& variant = call.input(i);
  const Tensors* parts = variant.impl()->list && variant.rank() == 0 ? &variant.list_elements() : nullptr;
  // Other operations make lists of three tensors, too.
  const auto fits = [](const Tensor& part, DType dtype, int rank) {
    return part.defined() && part.is_value() && part.dtype() == dtype && part.rank() == rank;
  };
  if (!parts || parts->size() != 3 || !fits((*parts)[0], DType::kInt64, 1) || !fits((*parts)[1], DType::kInt64, 2) ||
      !(*parts)[2].defined() || (*parts)[2].dtype() == DType::kString || (*parts)[2].rank() != 1)
    throw_invalid_argument(fmt::format("input {} is not a sparse matrix", i));
  SparseMatrix x{ints_of(dense((*parts)[0])), ints_of(dense((*parts)[1])), dense((*parts)[2])};
  const bool ranks = x.shape.size() == 2 || x.shape.size() == 3;
  bool inside = ranks && (*parts)[1].dim(1) == 3 && x.values.numel() == x.count();
  for (std::int64_t e = 0; inside && e < x.count(); ++e) {
    const std::int64_t* const entry = x.entry(e);
    inside = entry[0] >= 0 && entry[0] < x.batch() && entry[1] >= 0 && entry[1] < x.rows() && entry[2] >= 0 &&
             entry[2] < x.columns();
  }
  if (!inside || std::any_of(x.shape.begin(), x.shape.end(), [](std::int64_t size) { return size < 0; }))
    throw_invalid_argument(fmt::format("input {} is not a sparse matrix", i));
  element_count(x.shape);
  return x;
}

void check_type(const Call& call, const SparseMatrix& x) {
  const Attr* const attr = call.attrs().find("type");
  const auto* dtype = attr ? std::get_if<DType>(attr) : nullptr;
  if (dtype && to_scalar_type(*dtype) != x.values.scalar_type())
    throw_invalid_argument(fmt::format("the values of the sparse matrix are {}, expected {}",
                                       dtype_name(from_scalar_type(x.values.scalar_type())), dtype_name(*dtype)));
}

Ints checked_shape(const Ints& shape) {
  if (shape.size() != 2 && shape.size() != 3)
    throw_invalid_argument(
        fmt::format("a sparse matrix must have rank 2 or 3, found the shape {}", Shape(shape).to_string()));
  element_count(shape);
  return shape;
}

// Entries in row-major order; those of one place keep their order, or are added up.
SparseMatrix in_order(Ints shape, const Ints& at, const at::Tensor& values, bool add_up) {
  Ints order(at.size() / 3);
  std::iota(order.begin(), order.end(), 0);
  const auto entry = [&](std::int64_t i) { return at.data() + 3 * i; };
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::lexicographical_compare(entry(a), entry(a) + 3, entry(b), entry(b) + 3);
  });
  SparseMatrix out{std::move(shape), {}, {}};
  Ints place;
  for (const std::int64_t i : order) {
    const bool same = add_up && !out.at.empty() && std::equal(entry(i), entry(i) + 3, out.at.end() - 3);
    if (!same) out.at.insert(out.at.end(), entry(i), entry(i) + 3);
    place.push_back(out.count() - 1);
  }
  const at::Tensor sorted = values.index_select(0, int64_tensor(order));
  out.values = out.count() == static_cast<std::int64_t>(order.size())
                   ? sorted
                   : at::zeros({out.count()}, values.options()).index_add(0, int64_tensor(place), sorted);
  return out;
}

// Row-major coordinates [entries, rank] as batch, row and column, each inside of the shape.
Ints places_of(const Ints& indices, const Ints& shape) {
  const std::size_t rank = shape.size();
  Ints at;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::size_t axis = i % rank;
    if (indices[i] < 0 || indices[i] >= shape[axis])
      throw_invalid_argument(fmt::format("index {} is outside of the shape {}", indices[i], Shape(shape).to_string()));
    if (axis == 0 && rank == 2) at.push_back(0);
    at.push_back(indices[i]);
  }
  return at;
}

Ints indices_in(const Call& call, int i, std::size_t rank) {
  const at::Tensor& indices = in(call, i);
  if (indices.dim() != 2 || indices.size(1) != static_cast<std::int64_t>(rank))
    throw_invalid_argument(
        fmt::format("indices must have the shape [entries, {}], found {}", rank, call.input(i).shape().to_string()));
  return ints_of(indices);
}

at::Tensor flat_places(const SparseMatrix& x) {
  Ints flat;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t* const e = x.entry(i);
    flat.push_back((e[0] * x.rows() + e[1]) * x.columns() + e[2]);
  }
  return int64_tensor(flat);
}

at::Tensor dense_of(const SparseMatrix& x) {
  const std::int64_t size = element_count(x.shape, static_cast<std::int64_t>(x.values.element_size()));
  return at::zeros({size}, x.values.options()).index_put({flat_places(x)}, x.values).reshape(x.shape);
}

SparseMatrix transposed(SparseMatrix x, bool conjugate) {
  for (std::size_t i = 0; i < x.at.size(); i += 3) std::swap(x.at[i + 1], x.at[i + 2]);
  std::swap(x.shape[x.shape.size() - 2], x.shape.back());
  const at::Tensor values = conjugate ? at::conj(x.values).resolve_conj() : x.values;
  return in_order(x.shape, x.at, values, false);
}

// ---- between sparse matrices and tensors ---------------------------------------------------------------
Tensors from_sparse_tensor(const Call& call) {
  const Ints shape = checked_shape(ints_in(call, 2));
  const Ints indices = indices_in(call, 0, shape.size());
  const at::Tensor& values = in(call, 1);
  if (values.dim() != 1 || values.size(0) != in(call, 0).size(0))
    throw_invalid_argument("indices and values have different lengths");
  return {packed(in_order(shape, places_of(indices, shape), values, false))};
}

Tensors from_dense(const Call& call) {
  const at::Tensor& x = in(call, 0);
  const Ints shape = checked_shape(x.sizes().vec());
  SparseMatrix out = in_order(shape, places_of(indices_in(call, 1, shape.size()), shape),
                              at::zeros({in(call, 1).size(0)}, x.options()), false);
  out.values = x.reshape({-1}).index_select(0, flat_places(out));
  return {packed(out)};
}

Tensors to_dense(const Call& call) {
  const SparseMatrix x = matrix_in(call, 0);
  check_type(call, x);
  return one(dense_of(x));
}

Tensors to_sparse_tensor(const Call& call) {
  const SparseMatrix x = matrix_in(call, 0);
  check_type(call, x);
  const at::Tensor at = int64_tensor(x.at, {x.count(), 3});
  return {wrap((x.batched() ? at : at.slice(1, 1)).contiguous()), wrap(x.values), wrap(int64_tensor(x.shape))};
}

Ints row_starts(const SparseMatrix& x, std::int64_t batch, std::int64_t* first) {
  Ints starts(static_cast<std::size_t>(element_count({x.rows() + 1}, 8)), 0);
  *first = 0;
  for (std::int64_t i = 0; i < x.count(); ++i) {
    if (x.entry(i)[0] < batch) ++*first;
    if (x.entry(i)[0] == batch) ++starts[static_cast<std::size_t>(x.entry(i)[1] + 1)];
  }
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  return starts;
}

Tensors components(const Call& call) {
  const SparseMatrix x = matrix_in(call, 0);
  check_type(call, x);
  const std::int64_t batch = int_in(call, 1);
  if (batch < 0 || batch >= x.batch())
    throw_invalid_argument(fmt::format("invalid index: found {}, expected [0, {})", batch, x.batch()));
  std::int64_t first = 0;
  const Ints starts = row_starts(x, batch, &first);
  Ints columns;
  for (std::int64_t i = first; i < first + starts.back(); ++i) columns.push_back(x.entry(i)[2]);
  return {wrap(int64_tensor(starts).to(at::kInt)), wrap(int64_tensor(columns).to(at::kInt)),
          wrap(x.values.slice(0, first, first + starts.back()).contiguous())};
}

Tensors count_entries(const Call& call) {
  const SparseMatrix x = matrix_in(call, 0);
  Ints counts(static_cast<std::size_t>(element_count({x.batch()}, 8)), 0);
  for (std::int64_t i = 0; i < x.count(); ++i) ++counts[static_cast<std::size_t>(x.entry(i)[0])];
  const at::Tensor all = int64_tensor(counts).to(at::kInt);
  return one(x.batched() ? all : all.reshape({}));
}

// ---- arithmetic ----------------------------------------------------------------------------------------
Tensors transpose(const Call& call) {
  const SparseMatrix x = matrix_in(call, 0);
  check_type(call, x);
  return {packed(transposed(x, call.attr<bool>("conjugate")))};
}

struct Turns {
  bool transpose = false, conjugate = false;
};
Turns turns_of(const Call& call, const std::string& side) {
  const bool transpose = call.attr<bool>("transpose_" + side), adjoint = call.attr<bool>("adjoint_" + side);
  if (transpose && adjoint)
    throw_invalid_argument(fmt::format("transpose_{0} and adjoint_{0} exclude each other", side));
  return {transpose || adjoint, adjoint};
}

Tensors times_dense(const Call& call) {
  SparseMatrix a = matrix_in(call, 0);
  at::Tensor b = in(call, 1);
  if (b.dim() != static_cast<std::int64_t>(a.shape.size()) || (a.batched() && b.size(0) != a.batch()))
    throw_invalid_argument(fmt::format("a has the shape {}, b {}: ranks and batches must be equal",
                                       Shape(a.shape).to_string(), call.input(1).shape().to_string()));
  if (b.scalar_type() != a.values.scalar_type()) throw_invalid_argument("a and b have different types");
  const Turns of_a = turns_of(call, "a"), of_b = turns_of(call, "b");
  if (of_a.transpose) a = transposed(a, of_a.conjugate);
  if (of_b.transpose) b = b.transpose(-2, -1);
  if (of_b.conjugate) b = at::conj(b).resolve_conj();
  if (a.columns() != b.size(-2))
    throw_invalid_argument(fmt::format("a has {} columns, b {} rows", a.columns(), b.size(-2)));
  const std::int64_t width = b.size(-1);
  element_count({a.batch(), a.rows(), width}, static_cast<std::int64_t>(b.element_size()));
  element_count({a.count(), width}, static_cast<std::int64_t>(b.element_size()));
  Ints from, to;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    from.push_back(a.entry(i)[0] * a.columns() + a.entry(i)[2]);
    to.push_back(a.entry(i)[0] * a.rows() + a.entry(i)[1]);
  }
  const at::Tensor products = b.reshape({-1, width}).index_select(0, int64_tensor(from)) * a.values.unsqueeze(1);
  at::Tensor y = at::zeros({a.batch() * a.rows(), width}, b.options()).index_add(0, int64_tensor(to), products);
  y = a.batched() ? y.reshape({a.batch(), a.rows(), width}) : y;
  if (call.attr<bool>("transpose_output")) y = y.transpose(-2, -1);
  if (call.attr<bool>("conjugate_output")) y = at::conj(y).resolve_conj();
  return one(y.contiguous());
}

Tensors times_sparse(const Call& call) {
  SparseMatrix a = matrix_in(call, 0), b = matrix_in(call, 1);
  check_type(call, a), check_type(call, b);
  const Turns of_a = turns_of(call, "a"), of_b = turns_of(call, "b");
  if (of_a.transpose) a = transposed(a, of_a.conjugate);
  if (of_b.transpose) b = transposed(b, of_b.conjugate);
  if (a.shape.size() != b.shape.size() || a.batch() != b.batch() || a.columns() != b.rows())
    throw_invalid_argument(fmt::format("matrices of the shapes {} and {} cannot be multiplied",
                                       Shape(a.shape).to_string(), Shape(b.shape).to_string()));
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>> rows;  // of b: first, count
  for (std::int64_t i = 0; i < b.count(); ++i) {
    auto& row = rows.try_emplace({b.entry(i)[0], b.entry(i)[1]}, i, 0).first->second;
    ++row.second;
  }
  Ints at, left, right;
  for (std::int64_t i = 0; i < a.count(); ++i) {
    const std::int64_t* const e = a.entry(i);
    const auto row = rows.find({e[0], e[2]});
    if (row == rows.end()) continue;
    element_count({static_cast<std::int64_t>(left.size()) + row->second.second, 5}, 8);
    for (std::int64_t k = row->second.first; k < row->second.first + row->second.second; ++k) {
      at.insert(at.end(), {e[0], e[1], b.entry(k)[2]});
      left.push_back(i), right.push_back(k);
    }
  }
  const at::Tensor values =
      a.values.index_select(0, int64_tensor(left)) * b.values.index_select(0, int64_tensor(right));
  Ints shape = a.shape;
  shape.back() = b.columns();
  return {packed(in_order(std::move(shape), at, values, true))};
}

}  // namespace

void register_sparse_matrices(Table& table) {
  table.add("SparseTensorToCSRSparseMatrix", scalar_rule, from_sparse_tensor);
  table.add("DenseToCSRSparseMatrix", scalar_rule, from_dense);
  table.add("CSRSparseMatrixToDense", nullptr, to_dense);
  table.add("CSRSparseMatrixToSparseTensor", nullptr, to_sparse_tensor);
  table.add("CSRSparseMatrixComponents", nullptr, components);
  table.add("SparseMatrixNNZ", nullptr, count_entries);
  table.add("SparseMatrixTranspose", scalar_rule, transpose);
  table.add("SparseMatrixMatMul", nullptr, times_dense);
  table.add("SparseMatrixSparseMatMul", scalar_rule, times_sparse);
}

}  // namespace lockstep::ops
