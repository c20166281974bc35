#include <ATen/Dispatch.h>

#include "lockstep/ops/rows_internal.h"

#include <algorithm>
#include <numeric>

#include "lockstep/ops/memory_limit_internal.h"

namespace lockstep::ops {

Kernel for_strings_too(Kernel kernel) {
  return [kernel = std::move(kernel)](const Call& call) -> Tensors {
    const auto is_text = [](const Tensor& x) { return x.dtype() == DType::kString; };
    if (std::none_of(call.inputs().begin(), call.inputs().end(), is_text)) return kernel(call);
    Tensors inputs(call.inputs().begin(), call.inputs().end());
    std::vector<std::string> texts(1);
    for (Tensor& x : inputs) {
      if (!is_text(x)) continue;
      const auto first = static_cast<std::int64_t>(texts.size());
      texts.insert(texts.end(), x.string_values().begin(), x.string_values().end());
      x = wrap(at::arange(first, first + x.num_elements(), at::kLong).view(x.shape().dims()));
    }
    Tensors outputs = kernel(Call(call.signature(), inputs, call.attrs()));
    for (Tensor& y : outputs) {
      const at::Tensor& positions = dense(y);
      element_count({positions.numel()}, sizeof(std::string));
      std::vector<std::string> moved;
      for (const std::int64_t i : ints_of(positions)) moved.push_back(texts[static_cast<std::size_t>(i)]);
      y = Tensor::strings(std::move(moved), y.shape());
    }
    return outputs;
  };
}

const std::vector<std::string>& strings_in(const Call& call, int i) {
  if (call.input(i).dtype() != DType::kString) {
    throw_invalid_argument(fmt::format("input {} is {}, expected strings", i, dtype_name(call.input(i).dtype())));
  }
  return call.input(i).string_values();
}

const std::string& string_in(const Call& call, int i) {
  const std::vector<std::string>& texts = strings_in(call, i);
  if (texts.size() != 1) throw_invalid_argument(fmt::format("input {} must be one string", i));
  return texts[0];
}

at::Tensor int64_tensor(const Ints& values) { return at::tensor(at::IntArrayRef(values), at::kLong); }
at::Tensor int64_tensor(const Ints& values, const Ints& shape) { return int64_tensor(values).reshape(shape); }

Tensor take_rows(const Tensor& x, const Ints& rows) {
  if (x.rank() < 1) throw_invalid_argument("a scalar has no rows");
  if (x.dtype() != DType::kString) return wrap(dense(x).index_select(0, int64_tensor(rows)));
  Shape shape = x.shape();
  const std::int64_t width = x.dim(0) == 0 ? 0 : x.num_elements() / x.dim(0);
  shape[0] = static_cast<std::int64_t>(rows.size());
  element_count({static_cast<std::int64_t>(rows.size()), width}, sizeof(std::string));
  std::vector<std::string> out;
  out.reserve(rows.size() * static_cast<std::size_t>(width));
  for (const std::int64_t row : rows) {
    const auto first = x.string_values().begin() + row * width;
    out.insert(out.end(), first, first + width);
  }
  return Tensor::strings(std::move(out), shape);
}

at::Tensor extrema_in_order(const at::Tensor& rows, const at::Tensor& index, const at::Tensor& start, bool highest,
                            const Ints& strict) {
  at::Tensor out = start.clone();
  const at::Tensor from = rows.contiguous(), places = index.contiguous();
  const std::int64_t n = rows.size(0), columns = n == 0 ? 0 : rows.numel() / n;
  const std::int64_t* const ids = places.const_data_ptr<std::int64_t>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, rows.scalar_type(), "extrema", [&] {
    const scalar_t* value = from.const_data_ptr<scalar_t>();
    scalar_t* const to = out.mutable_data_ptr<scalar_t>();
    for (std::int64_t row = 0; row < n; ++row) {
      const std::int64_t kept = strict[static_cast<std::size_t>(ids[row])];
      scalar_t* best = to + ids[row] * columns;
      for (std::int64_t column = 0; column < columns; ++column, ++value, ++best) {
        const bool exceeds = highest ? *value > *best : *value < *best,
                   exceeded = highest ? *value < *best : *value > *best;
        if (column < kept ? exceeds : !exceeded) *best = *value;
      }
    }
  });
  return out;
}

at::Tensor add_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& values, bool subtract) {
  const int factor = subtract ? -1 : 1;
  if (!has_complex(x)) return x.index_add(0, rows, values, factor);
  const auto parts = [](const at::Tensor& y) { return at::view_as_real(y.resolve_conj()); };
  return at::view_as_complex(parts(x).index_add(0, rows, parts(values), factor));
}

Tensor concat_rows(const Tensors& parts) {
  if (parts.empty()) throw_invalid_argument("concat requires at least one tensor");
  if (parts[0].dtype() != DType::kString) {
    std::vector<at::Tensor> values;
    for (const Tensor& part : parts) values.push_back(dense(part));
    return wrap(at::cat(values));
  }
  Shape shape = parts[0].shape();
  std::vector<std::string> out;
  shape[0] = 0;
  for (const Tensor& part : parts) {
    shape[0] += part.dim(0);
    out.insert(out.end(), part.string_values().begin(), part.string_values().end());
  }
  return Tensor::strings(std::move(out), shape);
}

Sparse sparse_in(const Call& call, int indices, int values, int shape) {
  const at::Tensor& index = in(call, indices);
  Sparse out;
  if (in(call, shape).dim() != 1) throw_invalid_argument("the shape of a sparse tensor must be a vector");
  out.shape = ints_in(call, shape);
  if (index.dim() != 2 || index.size(1) != static_cast<std::int64_t>(out.shape.size())) {
    throw_invalid_argument(fmt::format("invalid indices of a sparse tensor: found shape {}, expected [n, {}]",
                                       call.input(indices).shape().to_string(), out.shape.size()));
  }
  out.count = index.size(0), out.rank = index.size(1);
  out.indices = ints_of(index);
  if (values >= 0) {
    out.values = call.input(values);
    if (out.values.rank() != 1 || out.values.dim(0) != out.count) {
      throw_invalid_argument(fmt::format("invalid values of a sparse tensor: found shape {}, expected [{}]",
                                         out.values.shape().to_string(), out.count));
    }
  }
  for (std::int64_t axis = 0; axis < out.rank; ++axis) {
    if (out.shape[static_cast<std::size_t>(axis)] < 0)
      throw_invalid_argument("the shape of a sparse tensor must not be negative");
  }
  for (std::size_t i = 0; i < out.indices.size(); ++i) {
    const std::int64_t extent = out.shape[i % static_cast<std::size_t>(out.rank)];
    if (out.indices[i] < 0 || out.indices[i] >= extent) {
      throw_invalid_argument(fmt::format("index {} of axis {} of a sparse tensor is out of bounds [0, {})",
                                         out.indices[i], i % static_cast<std::size_t>(out.rank), extent));
    }
  }
  return out;
}

Ints row_major_order(const Sparse& x) {
  Ints order(static_cast<std::size_t>(x.count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::lexicographical_compare(x.row(a), x.row(a) + x.rank, x.row(b), x.row(b) + x.rank);
  });
  return order;
}

Ints flat_positions(const Sparse& x) {
  std::int64_t cells = 1;
  for (const std::int64_t extent : x.shape) {
    if (__builtin_mul_overflow(cells, std::max<std::int64_t>(extent, 1), &cells))
      throw_invalid_argument(fmt::format("the shape {} has too many elements", Shape(x.shape).to_string()));
  }
  Ints out(static_cast<std::size_t>(x.count), 0);
  for (std::int64_t i = 0; i < x.count; ++i) {
    for (std::int64_t axis = 0; axis < x.rank; ++axis) {
      std::int64_t& position = out[static_cast<std::size_t>(i)];
      position = position * x.shape[static_cast<std::size_t>(axis)] + x.row(i)[axis];
    }
  }
  return out;
}

}  // namespace lockstep::ops
