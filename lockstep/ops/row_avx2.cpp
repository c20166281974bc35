#define LOCKSTEP_PANEL_VECTORS 2
namespace {
constexpr int kWidth = 8;
}
#include "lockstep/ops/row_loops.inc"

extern const RowKernels kRows_avx2;
const RowKernels kRows_avx2 = {
    packed_size,   pack_matrix, recurrent_forward, recurrent_backward, column_moments,
    scale_columns, column_sums, column_gradient,   normalize_rows,     normalize_rows_gradient,
    add,           unary,       unary_gradient};

}  // namespace lockstep::ops
