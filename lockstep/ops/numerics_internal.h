// debugging::enable_check_numerics().
#pragma once

#include <atomic>

namespace lockstep::ops {

// Whether run_kernel() checks results for NaNs and infinite elements.
inline std::atomic<bool> check_numerics_enabled = false;

}  // namespace lockstep::ops
