#define LOCKSTEP_INFERENCE_KERNELS kKernels_avx2
#define LOCKSTEP_PANEL_VECTORS 2
namespace {
constexpr int kWidth = 8;
}
#include "lockstep/inference/loops.inc"
