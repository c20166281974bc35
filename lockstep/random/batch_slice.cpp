#include "lockstep/random/batch_slice.h"

namespace lockstep::random {
namespace {

thread_local const BatchSlice* t_slice = nullptr;

bool sliced(const Shape& shape) { return t_slice && shape.rank() > 0 && shape[0] == t_slice->local_rows(); }

std::int64_t row_size(const Shape& shape) {
  std::int64_t size = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) size *= shape[axis];
  return size;
}

}  // namespace

BatchSlice::BatchSlice(std::int64_t offset_rows, std::int64_t local_rows, std::int64_t global_rows)
    : offset_rows_(offset_rows), local_rows_(local_rows), global_rows_(global_rows), previous_(t_slice) {
  t_slice = this;
}

BatchSlice::~BatchSlice() { t_slice = previous_; }

const BatchSlice* BatchSlice::current() { return t_slice; }

std::int64_t draw_offset(const Shape& shape) { return sliced(shape) ? t_slice->offset_rows() * row_size(shape) : 0; }

std::int64_t global_draw_size(const Shape& shape) {
  return sliced(shape) ? t_slice->global_rows() * row_size(shape) : *shape.num_elements();
}

}  // namespace lockstep::random
