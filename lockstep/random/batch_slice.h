// Which rows of the global batch this thread works on, so that random draws do not depend on replicas.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/shape.h"

namespace lockstep::random {

// While one lives, a draw on this thread whose leading dimension is `local_rows` gives rows offset_rows …
// offset_rows + local_rows - 1 of the draw with leading dimension `global_rows`: N replicas draw together
// what one replica draws. Other draws are not touched. Set by a strategy around a replica's step.
class BatchSlice {
 public:
  BatchSlice(std::int64_t offset_rows, std::int64_t local_rows, std::int64_t global_rows);
  ~BatchSlice();
  BatchSlice(const BatchSlice&) = delete;
  BatchSlice& operator=(const BatchSlice&) = delete;

  std::int64_t offset_rows() const { return offset_rows_; }
  std::int64_t local_rows() const { return local_rows_; }
  std::int64_t global_rows() const { return global_rows_; }

  // The innermost one of this thread; null outside.
  static const BatchSlice* current();

 private:
  std::int64_t offset_rows_, local_rows_, global_rows_;
  const BatchSlice* previous_;
};

// Where a draw of this shape starts: the number of elements before it in the global draw.
std::int64_t draw_offset(const Shape& shape);
// How many elements the global draw has: the shape's own number outside of a slice.
std::int64_t global_draw_size(const Shape& shape);

}  // namespace lockstep::random
