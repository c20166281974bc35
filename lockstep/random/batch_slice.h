// The rows of the global batch that this thread processes, so that random draws do not depend on replicas.
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/shape.h"

namespace lockstep::random {

// During its lifetime, a draw on this thread with the leading dimension `local_rows` returns the rows offset_rows …
// offset_rows + local_rows - 1 of the draw with the leading dimension `global_rows`: the draws of N replicas form the
// draw of one replica. Other draws are unchanged. Set by a strategy around a replica's step.
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

// The first element of a draw of this shape in the global draw.
std::int64_t draw_offset(const Shape& shape);
// Number of elements of the global draw; that of the shape outside of a slice.
std::int64_t global_draw_size(const Shape& shape);

}  // namespace lockstep::random
