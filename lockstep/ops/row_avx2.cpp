#define LOCKSTEP_ROW_KERNELS kRows_avx2
#define LOCKSTEP_PANEL_VECTORS 2
namespace {
constexpr int kWidth = 8;
}
#include "lockstep/ops/row_loops.inc"
