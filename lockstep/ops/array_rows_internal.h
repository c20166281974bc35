// The rows of array operations that register_array adds from other files.
#pragma once

namespace lockstep::ops {

class Table;

void register_diagonals(Table& table);  // diagonals of matrices; dense tensors of sparse and ragged ones

}  // namespace lockstep::ops
