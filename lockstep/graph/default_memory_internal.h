// The limit of memory that RunLimits{} stand for. Internal to lockstep.
#pragma once

#include <cstdint>

namespace lockstep::graph {

// 1.5 GiB and 64 times `held`, the bytes of inputs and files.
std::int64_t default_memory(std::int64_t held);

}  // namespace lockstep::graph
