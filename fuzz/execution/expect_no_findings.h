#pragma once

#include "fuzz/execution/isolated.h"

namespace lockstep::fuzz {

// Runs cases under `limits`, changed by the environment, prints their number, and fails the test for each finding, or
// if fewer than one of `results_in` cases ended with a result.
void expect_no_findings(const char* what, const Target& target, Limits limits, std::uint64_t results_in = 20);

}  // namespace lockstep::fuzz
