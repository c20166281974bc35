#define LOCKSTEP_WINOGRAD_KERNELS kWinograd_avx2
#define LOCKSTEP_PANEL_VECTORS 2
namespace {
constexpr int kWidth = 8;
}
#include "lockstep/ops/winograd_loops.inc"
