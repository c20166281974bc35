#define LOCKSTEP_INFERENCE_KERNELS kKernels_avx512
#define LOCKSTEP_PANEL_VECTORS 4
namespace {
constexpr int kWidth = 16;
}
#include "lockstep/inference/loops.inc"
