#define LOCKSTEP_DIRECT_KERNELS kDirect_avx2
#define LOCKSTEP_PANEL_VECTORS 2
namespace {
constexpr int kWidth = 8;
}
#include "lockstep/ops/direct_loops.inc"
