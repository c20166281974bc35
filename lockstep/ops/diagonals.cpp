// Diagonals of matrices, and dense tensors of sparse and ragged ones.
#include <algorithm>

#include "lockstep/ops/array_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

// ---- diagonals: number 0 is the main one, positive ones lie above it ------------------------------------------
struct Band {
  std::int64_t low = 0, high = 0;
  std::int64_t count() const { return high - low + 1; }
};

Band band_in(const Call& call, int i) {
  const Ints k = ints_in(call, i);
  if (k.empty() || k.size() > 2)
    throw_invalid_argument(fmt::format("k must have one or two numbers, it has {}", k.size()));
  const Band band{k[0], k.back()};
  if (band.low > band.high) throw_invalid_argument(fmt::format("k: {} must not be above {}", band.low, band.high));
  return band;
}

std::int64_t diagonal_length(std::int64_t k, std::int64_t rows, std::int64_t columns) {
  return std::min(rows + std::min<std::int64_t>(k, 0), columns - std::max<std::int64_t>(k, 0));
}

std::int64_t longest_of(const Band& band, std::int64_t rows, std::int64_t columns) {
  return std::min(rows + std::min<std::int64_t>(band.high, 0), columns - std::max<std::int64_t>(band.low, 0));
}

// Whether a diagonal's row in the packed form is filled from its left end. "RIGHT_LEFT": those above from the right.
bool from_left(std::int64_t k, const std::string& align) {
  return (k >= 0 && align.starts_with("LEFT")) || (k <= 0 && align.ends_with("LEFT"));
}

// The places of a band's elements in matrices of rows x columns and in the packed form, highest diagonal first.
struct Places {
  Ints matrix, packed;
};

Places places_of(const Band& band, std::int64_t rows, std::int64_t columns, const std::string& align) {
  if (band.low <= -rows || band.high >= columns) {
    if (rows > 0 && columns > 0 && !(band.low == 0 && band.high == 0)) {
      throw_invalid_argument(
          fmt::format("k [{}, {}] is beyond matrices of {} x {}", band.low, band.high, rows, columns));
    }
  }
  const std::int64_t longest = longest_of(band, rows, columns);
  Places places;
  for (std::int64_t d = 0; d < band.count(); ++d) {
    const std::int64_t k = band.high - d, length = diagonal_length(k, rows, columns);
    const std::int64_t offset = from_left(k, align) ? 0 : longest - length;
    for (std::int64_t n = 0; n < length; ++n) {
      places.matrix.push_back((n + std::max<std::int64_t>(-k, 0)) * columns + n + std::max<std::int64_t>(k, 0));
      places.packed.push_back(d * longest + offset + n);
    }
  }
  return places;
}

// LibTorch copies no uint16, uint32 and uint64 by index.
at::Tensor with_columns(const at::Tensor& x, int axis, const at::Tensor& places, const at::Tensor& values) {
  return narrow_to(widen(x).index_copy(axis, places, widen(values)), x.scalar_type());
}

at::Tensor index_of(const Ints& places) { return at::tensor(at::IntArrayRef(places), at::kLong); }

std::string alignment(const Call& call) {
  return call.attrs().find("align") ? call.attr<std::string>("align") : std::string("LEFT_LEFT");
}

at::Tensor flat_matrices(const at::Tensor& x) {
  std::int64_t count = 1;
  for (std::int64_t i = 0; i + 2 < x.dim(); ++i) count *= x.size(i);
  return x.reshape({count, x.size(-2) * x.size(-1)});
}

Tensors diagonal_part(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 2)
    throw_invalid_argument(
        fmt::format("input must have at least two axes, found shape {}", call.input(0).shape().to_string()));
  const Band band = band_in(call, 1);
  const std::int64_t rows = x.size(-2), columns = x.size(-1), longest = longest_of(band, rows, columns);
  const Places places = places_of(band, rows, columns, alignment(call));
  const at::Tensor flat = flat_matrices(x);
  const at::Tensor empty = in(call, 2).detach().reshape({1, 1}).expand({flat.size(0), band.count() * longest}).clone();
  Ints shape(x.sizes().begin(), x.sizes().end() - 2);
  if (band.count() > 1) shape.push_back(band.count());
  shape.push_back(longest);
  return one(
      with_columns(empty, 1, index_of(places.packed), flat.index_select(1, index_of(places.matrix))).reshape(shape));
}

// `matrices` [n, rows * columns] with the packed diagonals in their places.
at::Tensor with_diagonals(const at::Tensor& matrices, const at::Tensor& packed, const Places& places) {
  if (matrices.size(0) == 0) return matrices;
  const at::Tensor values =
      packed.reshape({matrices.size(0), packed.numel() / matrices.size(0)}).index_select(1, index_of(places.packed));
  return with_columns(matrices, 1, index_of(places.matrix), values);
}

void check_packed(const at::Tensor& packed, const Band& band, std::int64_t longest) {
  const bool counted = band.count() == 1 || (packed.dim() > 1 && packed.size(-2) == band.count());
  if (packed.dim() < 1 || !counted || packed.size(-1) != longest) {
    throw_invalid_argument(fmt::format("diagonal must end in {} diagonals of {} elements, found shape {}", band.count(),
                                       longest, Shape(packed.sizes().vec()).to_string()));
  }
}

Tensors matrix_diagonal(const Call& call) {
  const at::Tensor& packed = in(call, 0);
  const Band band = band_in(call, 1);
  std::int64_t rows = int_in(call, 2), columns = int_in(call, 3);
  if (packed.dim() < 1) throw_invalid_argument("diagonal must have at least one axis");
  const std::int64_t longest = packed.size(-1);
  const std::int64_t least_rows = longest - std::min<std::int64_t>(band.high, 0),
                     least_columns = longest + std::max<std::int64_t>(band.low, 0);
  if (rows == -1 && columns == -1) {
    rows = columns = std::max(least_rows, least_columns);
  } else if (rows == -1) {
    rows = least_rows;
  } else if (columns == -1) {
    columns = least_columns;
  }
  if (rows < least_rows || columns < least_columns)
    throw_invalid_argument("num_rows or num_cols is too small for the diagonals");
  check_packed(packed, band, longest_of(band, rows, columns));
  Ints shape(packed.sizes().begin(), packed.sizes().end() - (band.count() == 1 ? 1 : 2));
  std::int64_t matrices = 1;
  for (std::int64_t dim : shape) matrices *= dim;
  shape.insert(shape.end(), {rows, columns});
  const at::Tensor empty = in(call, 4).detach().reshape({1, 1}).expand({matrices, rows * columns}).clone();
  return one(with_diagonals(empty, packed, places_of(band, rows, columns, alignment(call))).reshape(shape));
}

Tensors set_diagonal(const Call& call) {
  const at::Tensor& x = in(call, 0);
  if (x.dim() < 2) throw_invalid_argument("input must have at least two axes");
  const Band band = band_in(call, 2);
  const std::int64_t rows = x.size(-2), columns = x.size(-1);
  check_packed(in(call, 1), band, longest_of(band, rows, columns));
  return one(with_diagonals(flat_matrices(x), in(call, 1), places_of(band, rows, columns, alignment(call)))
                 .reshape(x.sizes()));
}

// ---- dense from sparse and ragged -----------------------------------------------------------------------------
Tensors sparse_to_dense(const Call& call) {
  const Ints shape = ints_in(call, 1);
  if (call.input(2).dtype() == DType::kString) {
    element_count(shape, sizeof(std::string));
    std::vector<std::string> texts = call.input(2).string_values();
    const auto count = static_cast<std::int64_t>(texts.size());
    texts.push_back(call.input(3).string_values().at(0));
    const at::Tensor numbers = at::arange(count, at::kLong).reshape(call.input(2).shape().dims());
    const Tensors inputs{call.input(0), call.input(1), wrap(numbers), Tensor::scalar(count)};
    std::vector<std::string> out;
    for (const std::int64_t at : ints_of(dense(sparse_to_dense(Call(call.signature(), inputs, call.attrs()))[0])))
      out.push_back(texts[static_cast<std::size_t>(at)]);
    return {Tensor::strings(std::move(out), Shape(shape))};
  }
  at::Tensor indices = in(call, 0).to(at::kLong);
  if (indices.dim() < 2) indices = indices.reshape({-1, 1});
  if (indices.size(1) != static_cast<std::int64_t>(shape.size())) {
    throw_invalid_argument(
        fmt::format("sparse_indices have {} coordinates, output_shape {}", indices.size(1), shape.size()));
  }
  const at::Tensor values = in(call, 2).dim() == 0 ? in(call, 2).expand({indices.size(0)}) : in(call, 2);
  if (values.numel() != indices.size(0))
    throw_invalid_argument(fmt::format("{} values for {} indices", values.numel(), indices.size(0)));
  at::Tensor flat = at::zeros({indices.size(0)}, at::kLong);
  const std::int64_t count = element_count(shape);
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const at::Tensor at = indices.select(1, static_cast<std::int64_t>(axis));
    for (const std::int64_t i : ints_of(at)) {
      if (i < 0 || i >= shape[axis])
        throw_invalid_argument(fmt::format("index {} of axis {} is out of bounds [0, {})", i, axis, shape[axis]));
    }
    flat = flat * shape[axis] + at;
  }
  const Ints order = ints_of(flat);
  if (call.attr<bool>("validate_indices") && !std::is_sorted(order.begin(), order.end(), std::less_equal<>())) {
    throw_invalid_argument("the indices must be in order and not repeated");
  }
  return one(with_columns(in(call, 3).expand({count}).clone(), 0, flat, values).reshape(shape));
}

// One level of rows: how many values each row has. `rows` is the number of rows, -1 at the outermost level where only
// the partition itself gives it.
Ints row_lengths(const at::Tensor& partition, const std::string& type, std::int64_t rows) {
  const Ints numbers = ints_of(partition);
  Ints lengths;
  if (type == "ROW_SPLITS") {
    if (numbers.empty() || numbers[0] != 0) throw_invalid_argument("row splits must begin with 0");
    if (rows >= 0 && static_cast<std::int64_t>(numbers.size()) - 1 != rows) {
      throw_invalid_argument(
          fmt::format("row splits of {} rows follow a level with {} values", numbers.size() - 1, rows));
    }
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      if (numbers[i] < numbers[i - 1]) throw_invalid_argument("row splits must not descend");
      lengths.push_back(numbers[i] - numbers[i - 1]);
    }
    return lengths;
  }
  if (type != "VALUE_ROWIDS") throw_invalid_argument(fmt::format("unsupported row partition type '{}'", type));
  rows = std::max<std::int64_t>(rows, 0);
  lengths.assign(static_cast<std::size_t>(element_count({rows}, sizeof(std::int64_t))), 0);
  for (const std::int64_t row : numbers) {
    if (row < 0 || row >= rows) throw_invalid_argument(fmt::format("row id {} is not below {}", row, rows));
    ++lengths[static_cast<std::size_t>(row)];
  }
  return lengths;
}

// The levels' row lengths, from the outermost.
std::vector<Ints> ragged_levels(const Call& call, int first) {
  const auto& types = call.attr<std::vector<std::string>>("row_partition_types");
  std::vector<Ints> levels;
  std::int64_t rows = -1;
  if (static_cast<int>(types.size()) != call.num_inputs() - first) {
    throw_invalid_argument(fmt::format("{} row partitions have {} types", call.num_inputs() - first, types.size()));
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    const at::Tensor& partition = in(call, first + static_cast<int>(i));
    if (types[i] == "FIRST_DIM_SIZE") {
      rows = int_in(call, first + static_cast<int>(i));
      if (rows < 0) throw_invalid_argument(fmt::format("a first dimension must not be negative: {}", rows));
      continue;
    }
    levels.push_back(row_lengths(partition, types[i], rows));
    rows = 0;
    for (const std::int64_t length : levels.back()) rows += length;
  }
  if (levels.empty()) throw_invalid_argument("a ragged tensor needs a row partition");
  return levels;
}

Tensors ragged_to_dense(const Call& call) {
  const std::vector<Ints> levels = ragged_levels(call, 3);
  const Tensor& values = call.input(1);
  if (values.rank() == 0) throw_invalid_argument("the values of a ragged tensor must not be a scalar");
  if (call.input(2).num_elements() < 1) throw_invalid_argument("default_value must not be empty");
  Ints dims = {static_cast<std::int64_t>(levels[0].size())};
  for (const Ints& lengths : levels)
    dims.push_back(lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()));
  const Ints wanted = call.input(0).rank() == 0 ? Ints{} : ints_in(call, 0);
  for (std::size_t i = 0; i < dims.size() && i < wanted.size(); ++i) {
    if (wanted[i] >= 0) dims[i] = wanted[i];
  }
  // Where the rows of each level begin in the dense tensor; -1 for those cut off.
  Ints places;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(levels[0].size()); ++i) places.push_back(i < dims[0] ? i : -1);
  for (std::size_t level = 0; level < levels.size(); ++level) {
    Ints next;
    for (std::size_t row = 0; row < levels[level].size(); ++row) {
      for (std::int64_t p = 0; p < levels[level][row]; ++p) {
        next.push_back(places[row] < 0 || p >= dims[level + 1] ? -1 : places[row] * dims[level + 1] + p);
      }
    }
    places = std::move(next);
  }
  if (static_cast<std::int64_t>(places.size()) > values.dim(0))
    throw_invalid_argument("the row partitions name more values than there are");
  const bool strings = values.dtype() == DType::kString;
  const std::int64_t count = element_count(dims, strings ? sizeof(std::string) : 1);
  const Ints inner(values.shape().dims().begin() + 1, values.shape().dims().end());
  dims.insert(dims.end(), inner.begin(), inner.end());
  Ints from, to;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) continue;
    from.push_back(static_cast<std::int64_t>(i));
    to.push_back(places[i]);
  }
  if (strings) {
    const Tensor filler = call1("BroadcastTo", {call.input(2), wrap(int64_tensor(inner))});
    const std::vector<std::string>& row = filler.string_values();
    const auto width = static_cast<std::int64_t>(row.size());
    std::vector<std::string> out;
    out.reserve(static_cast<std::size_t>(element_count(dims, sizeof(std::string))));
    for (std::int64_t i = 0; i < count; ++i) out.insert(out.end(), row.begin(), row.end());
    for (std::size_t i = 0; i < to.size(); ++i)
      std::copy_n(values.string_values().begin() + from[i] * width, width, out.begin() + to[i] * width);
    return {Tensor::strings(std::move(out), Shape(dims))};
  }
  const at::Tensor& dense = aten(values);
  Ints whole = {count};
  whole.insert(whole.end(), inner.begin(), inner.end());
  const at::Tensor empty = in(call, 2).expand(whole).clone();
  return one(with_columns(empty, 0, index_of(to), dense.index_select(0, index_of(from))).reshape(dims));
}

}  // namespace

void register_diagonals(Table& table) {
  for (auto name : {"MatrixDiagPartV2", "MatrixDiagPartV3"}) table.add(name, nullptr, diagonal_part);
  for (auto name : {"MatrixDiagV2", "MatrixDiagV3"}) table.add(name, nullptr, matrix_diagonal);
  for (auto name : {"MatrixSetDiagV2", "MatrixSetDiagV3"}) table.add(name, same_shape, set_diagonal);
  table.add("SparseToDense", shape_of_input(1), sparse_to_dense);
  table.add("RaggedTensorToTensor", nullptr, ragged_to_dense);
}

}  // namespace lockstep::ops
