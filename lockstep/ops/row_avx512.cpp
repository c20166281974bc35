#define LOCKSTEP_PANEL_VECTORS 4
namespace {
constexpr int kWidth = 16;
}
#include "lockstep/ops/row_loops.inc"

extern const RowKernels kRows_avx512;
const RowKernels kRows_avx512 = {
    packed_size,   pack_matrix, recurrent_forward, recurrent_backward, column_moments,
    scale_columns, column_sums, column_gradient,   normalize_rows,     normalize_rows_gradient,
    add,           unary,       unary_gradient};

}  // namespace lockstep::ops
