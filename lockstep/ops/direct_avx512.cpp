#define LOCKSTEP_DIRECT_KERNELS kDirect_avx512
#define LOCKSTEP_PANEL_VECTORS 4
namespace {
constexpr int kWidth = 16;
}
#include "lockstep/ops/direct_loops.inc"
