// Elements kept as rows of contiguous memory, one block of rows for each leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/formats/tensor_data.h"

namespace lockstep::data {

// Rows of equal shape and dtype. A store is filled by one thread and read by others only afterwards.
class RowStore {
 public:
  // The slices of axis 0. Shares memory with the tensors. Throws InvalidArgument naming `what` for scalars
  // and for leaves with different numbers of rows.
  RowStore(const Element& tensors, const std::string& what);
  // An empty one for rows like `first`; `expected` rows are made room for when that is known. Use can_hold
  // first.
  RowStore(const Element& first, std::optional<std::int64_t> expected);
  // Whether the leaves have fixed-size or string elements.
  static bool can_hold(const Element& element);

  std::int64_t num_rows() const { return num_rows_; }
  ElementSpec spec() const;
  // False, and nothing kept, when the element's structure, shapes or dtypes differ from the store's.
  bool append(const Element& element);

  // Row `row` as an element that shares the memory (strings are copied). `self` is this store.
  static Element row(const std::shared_ptr<const RowStore>& self, std::int64_t row);
  // The rows stacked.
  Element gather(const std::vector<std::int64_t>& rows) const;

 private:
  struct Column {
    DType dtype = DType::kInvalid;
    Shape shape;  // of a row
    std::size_t row_bytes = 0;
    std::int64_t row_elements = 1;
    std::vector<std::byte*> blocks;  // of block_rows_ rows each
    std::vector<std::shared_ptr<const void>> owners;
    std::vector<std::string> strings;  // of all rows, when dtype is kString

    const std::byte* at(std::int64_t row, std::int64_t block_rows) const {
      return blocks[static_cast<std::size_t>(row / block_rows)] +
             static_cast<std::size_t>(row % block_rows) * row_bytes;
    }
  };
  Tensor gather_column(const Column& column, const std::vector<std::int64_t>& rows) const;
  void add_block(Column& column);

  Element structure_;  // leaves undefined
  std::vector<Column> columns_;
  std::int64_t num_rows_ = 0;
  std::int64_t block_rows_ = 1;
};

// The rows of tensors of which some are ragged; nullopt if none is.
std::optional<std::vector<Element>> ragged_rows(const Element& tensors);

// Elements stacked along a new first axis. Throws InvalidArgument naming component and shapes where they
// do not fit.
Element stack_elements(const std::vector<Element>& elements);

}  // namespace lockstep::data
