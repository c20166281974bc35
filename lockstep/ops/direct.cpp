#include "lockstep/ops/direct_internal.h"
#include "lockstep/ops/row_kernels_internal.h"
#include "lockstep/ops/winograd_internal.h"

namespace lockstep::ops {

extern const DirectKernels kDirect_avx2, kDirect_avx512;
extern const RowKernels kRows_avx2, kRows_avx512;
extern const WinogradKernels kWinograd_avx2, kWinograd_avx512;

namespace {

bool has_wide_vectors() {
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return wide;
}

}  // namespace

const DirectKernels& direct_kernels() { return has_wide_vectors() ? kDirect_avx512 : kDirect_avx2; }
const RowKernels& row_kernels() { return has_wide_vectors() ? kRows_avx512 : kRows_avx2; }
const WinogradKernels& winograd_kernels() { return has_wide_vectors() ? kWinograd_avx512 : kWinograd_avx2; }

}  // namespace lockstep::ops
