#define LOCKSTEP_ROW_KERNELS kRows_avx512
#define LOCKSTEP_PANEL_VECTORS 4
namespace {
constexpr int kWidth = 16;
}
#include "lockstep/ops/row_loops.inc"
