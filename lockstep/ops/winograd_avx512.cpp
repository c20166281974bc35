#define LOCKSTEP_WINOGRAD_KERNELS kWinograd_avx512
#define LOCKSTEP_PANEL_VECTORS 4
namespace {
constexpr int kWidth = 16;
}
#include "lockstep/ops/winograd_loops.inc"
