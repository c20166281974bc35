#include "lockstep/ops/direct_internal.h"

namespace lockstep::ops {

extern const DirectKernels kDirect_avx2, kDirect_avx512;

const DirectKernels& direct_kernels() {
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return wide ? kDirect_avx512 : kDirect_avx2;
}

}  // namespace lockstep::ops
