#include "lockstep/inference/kernels_internal.h"

namespace lockstep::inference {

extern const Kernels kKernels_avx2, kKernels_avx512;

const Kernels& kernels() { return ops::direct_kernels().width == 16 ? kKernels_avx512 : kKernels_avx2; }

}  // namespace lockstep::inference
