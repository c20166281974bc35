#include "lockstep/data/row_store_internal.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/ragged_elements_internal.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kBlockRows = 4096;

Shape row_shape_of(const Shape& shape) {
  return Shape(std::vector<std::int64_t>(shape.dims().begin() + 1, shape.dims().end()));
}

Shape with_rows(std::int64_t rows, const Shape& shape) {
  std::vector<std::int64_t> dims{rows};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(std::move(dims));
}

bool same_structure(const Element& a, const Element& b) {
  if (a.is_leaf()) return b.is_leaf();
  if (a.size() != b.size()) return false;
  if (a.is_list()) {
    if (!b.is_list()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same_structure(a[i], b[i])) return false;
    }
    return true;
  }
  if (!b.is_dict()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Element* other = b.find(key);
    if (!other || !same_structure(value, *other)) return false;
  }
  return true;
}

}  // namespace

RowStore::RowStore(const Element& tensors, const std::string& what)
    : structure_(tensors.map([](const Tensor&) { return Tensor(); })) {
  bool first = true;
  tensors.visit([&](const Tensor& leaf) {
    if (!leaf.defined() || !leaf.is_value() || leaf.rank() == 0) {
      throw_invalid_argument(fmt::format("{}: invalid component {}: found {}, expected a tensor with at least one axis",
                                         what, columns_.size(), leaf.defined() ? "a scalar" : "not a tensor"));
    }
    if (first) num_rows_ = leaf.dim(0);
    first = false;
    if (leaf.dim(0) != num_rows_) {
      throw_invalid_argument(fmt::format("{}: component {} has {} rows, expected {} as component 0", what,
                                         columns_.size(), leaf.dim(0), num_rows_));
    }
    formats::TensorData data = leaf.to_data();
    Column column;
    column.dtype = data.dtype;
    column.shape = row_shape_of(data.shape);
    column.row_elements = column.shape.num_elements().value();
    column.row_bytes = static_cast<std::size_t>(column.row_elements) * dtype_size(data.dtype);
    column.blocks = {const_cast<std::byte*>(data.bytes.data())};
    column.owners = {std::move(data.owner)};
    column.strings = std::move(data.strings);
    columns_.push_back(std::move(column));
  });
  block_rows_ = std::max<std::int64_t>(num_rows_, 1);
}

RowStore::RowStore(const Element& first, std::optional<std::int64_t> expected)
    : structure_(first.map([](const Tensor&) { return Tensor(); })),
      block_rows_(std::max<std::int64_t>(expected.value_or(kBlockRows), 1)) {
  first.visit([&](const Tensor& leaf) {
    Column column;
    column.dtype = leaf.dtype();
    column.shape = leaf.shape();
    column.row_elements = leaf.num_elements();
    column.row_bytes = static_cast<std::size_t>(column.row_elements) * dtype_size(column.dtype);
    columns_.push_back(std::move(column));
  });
}

bool RowStore::can_hold(const Element& element) {
  bool holds = true;
  element.visit([&](const Tensor& leaf) { holds = holds && leaf.defined() && leaf.is_value(); });
  return holds;
}

ElementSpec RowStore::spec() const {
  std::vector<TensorSpec> specs;
  for (const Column& column : columns_) specs.push_back({column.shape, column.dtype});
  return structure_.pack(specs);
}

void RowStore::add_block(Column& column) {
  std::span<std::byte> memory;
  const formats::TensorData block =
      formats::TensorData::allocate(column.dtype, with_rows(block_rows_, column.shape), memory);
  column.blocks.push_back(memory.data());
  column.owners.push_back(block.owner);
}

bool RowStore::append(const Element& element) {
  if (!same_structure(structure_, element)) return false;
  const Tensors leaves = element.flatten();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined() || !leaves[i].is_value() || leaves[i].dtype() != columns_[i].dtype ||
        leaves[i].shape() != columns_[i].shape) {
      return false;
    }
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    Column& column = columns_[i];
    if (column.dtype == DType::kString) {
      const auto& values = leaves[i].string_values();
      column.strings.insert(column.strings.end(), values.begin(), values.end());
      continue;
    }
    if (num_rows_ % block_rows_ == 0) add_block(column);
    const formats::TensorData data = leaves[i].to_data();
    auto* target = const_cast<std::byte*>(column.at(num_rows_, block_rows_));
    if (!data.bytes.empty()) std::memcpy(target, data.bytes.data(), data.bytes.size());
  }
  ++num_rows_;
  return true;
}

Element RowStore::row(const std::shared_ptr<const RowStore>& self, std::int64_t row) {
  Tensors leaves;
  leaves.reserve(self->columns_.size());
  for (const Column& column : self->columns_) {
    formats::TensorData data;
    data.dtype = column.dtype;
    data.shape = column.shape;
    if (column.dtype == DType::kString) {
      const auto begin = column.strings.begin() + row * column.row_elements;
      data.strings.assign(begin, begin + column.row_elements);
    } else {
      data.bytes = {column.at(row, self->block_rows_), column.row_bytes};
      data.owner = column.owners[static_cast<std::size_t>(row / self->block_rows_)];
    }
    leaves.push_back(Tensor::from_data(data));
  }
  return self->structure_.is_leaf() ? Element(leaves[0]) : self->structure_.pack(leaves);
}

Tensor RowStore::gather_column(const Column& column, const std::vector<std::int64_t>& rows) const {
  const Shape shape = with_rows(static_cast<std::int64_t>(rows.size()), column.shape);
  if (column.dtype == DType::kString) {
    std::vector<std::string> values;
    values.reserve(rows.size() * static_cast<std::size_t>(column.row_elements));
    for (const std::int64_t row : rows) {
      const auto begin = column.strings.begin() + row * column.row_elements;
      values.insert(values.end(), begin, begin + column.row_elements);
    }
    return Tensor::strings(std::move(values), shape);
  }
  std::span<std::byte> memory;
  const formats::TensorData data = formats::TensorData::allocate(column.dtype, shape, memory);
  if (column.row_bytes > 0) {
    std::byte* target = memory.data();
    for (const std::int64_t row : rows) {
      std::memcpy(target, column.at(row, block_rows_), column.row_bytes);
      target += column.row_bytes;
    }
  }
  return Tensor::from_data(data);
}

Element RowStore::gather(const std::vector<std::int64_t>& rows) const {
  Tensors leaves;
  leaves.reserve(columns_.size());
  for (const Column& column : columns_) leaves.push_back(gather_column(column, rows));
  return structure_.pack(leaves);
}

void internal::require_tensor(const Element& part, std::size_t place) {
  if (part.is_leaf()) return;
  throw_invalid_argument("Dataset: part " + std::to_string(place) + " of the element is a " +
                         (part.is_dict() ? "dict" : "tuple") +
                         ", but the function was called with tensors: declare each of its parameters with a type, "
                         "this one as const ls::data::Element&");
}

bool has_ragged(const Element& element) {
  bool has = false;
  element.visit([&](const Tensor& leaf) { has = has || ops::holds_ragged(leaf); });
  return has;
}

namespace {

// Each leaf on its own: ragged ones become rows of a ragged tensor.
Element stack_leaves(const std::vector<Element>& elements) {
  std::vector<Tensors> rows;
  for (const Element& element : elements) {
    rows.push_back(element.flatten());
    if (rows.back().size() != rows[0].size())
      throw_invalid_argument("batch: invalid element: its structure differs from that of the first");
  }
  Tensors stacked;
  for (std::size_t c = 0; c < rows[0].size(); ++c) {
    std::vector<Element> column;
    std::vector<RaggedTensor> ragged;
    for (const Tensors& leaves : rows) {
      const Tensor& leaf = leaves.at(c);
      column.emplace_back(leaf);
      if (ops::holds_ragged(leaf)) ragged.push_back(ops::ragged_in(leaf));
    }
    if (!ragged.empty() && ragged.size() != rows.size())
      throw_invalid_argument(fmt::format("batch: component {} is ragged in some elements and a tensor in others", c));
    stacked.push_back(ragged.empty() ? stack_elements(column).leaf() : ops::variant_of_ragged(ragged::stack(ragged)));
  }
  return elements[0].pack(stacked);
}

}  // namespace

Element with_plain_rows(const Element& element) {
  return element.map([](const Tensor& leaf) {
    if (!ops::holds_ragged(leaf)) return leaf;
    const RaggedTensor ragged = ops::ragged_in(leaf);
    return ragged.ragged_rank() > 0 ? leaf : ragged.flat_values();
  });
}

std::optional<std::vector<Element>> ragged_rows(const Element& tensors) {
  if (!has_ragged(tensors)) return std::nullopt;
  std::vector<Tensors> columns;
  for (const Tensor& leaf : tensors.flatten()) {
    if (ops::holds_ragged(leaf)) {
      columns.push_back(ops::variants_of_rows(ops::ragged_in(leaf)));
    } else {
      columns.emplace_back();
      for (std::int64_t row = 0; row < leaf.dim(0); ++row) columns.back().push_back(leaf[row]);
    }
    if (columns.back().size() != columns[0].size()) {
      throw_invalid_argument(fmt::format("from_tensor_slices: found components of {} and {} rows", columns[0].size(),
                                         columns.back().size()));
    }
  }
  std::vector<Element> rows;
  for (std::size_t row = 0; row < columns[0].size(); ++row) {
    Tensors leaves;
    for (const Tensors& column : columns) leaves.push_back(column[row]);
    rows.push_back(tensors.pack(leaves));
  }
  return rows;
}

Element stack_elements(const std::vector<Element>& elements) {
  if (std::any_of(elements.begin(), elements.end(), has_ragged)) return stack_leaves(elements);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!RowStore::can_hold(elements[i])) {
      throw_unimplemented("batch requires dense tensors or strings: an element contains another kind");
    }
  }
  const auto store = std::make_shared<RowStore>(elements.at(0), static_cast<std::int64_t>(elements.size()));
  const Tensors first = elements[0].flatten();
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (!store->append(elements[i])) {
      const Tensors leaves = elements[i].flatten();
      for (std::size_t c = 0; c < std::min(first.size(), leaves.size()); ++c) {
        if (leaves[c].shape() != first[c].shape()) {
          throw_invalid_argument(
              fmt::format("Cannot batch tensors with different shapes in component {}. First element had shape {} and "
                          "element {} had shape {}",
                          c, first[c].shape().to_string(), i, leaves[c].shape().to_string()));
        }
      }
      throw_invalid_argument(
          fmt::format("batch: invalid element {}: its structure or dtype differs from that of the first", i));
    }
    rows.push_back(static_cast<std::int64_t>(i));
  }
  return store->gather(rows);
}

}  // namespace lockstep::data
