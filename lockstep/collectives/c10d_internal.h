// The seam to LibTorch's c10d, for lockstep/collectives only.
#pragma once

#define USE_C10D_GLOO  // the headers hide Gloo behind it
#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/collectives/job_store_internal.h"

namespace lockstep::collectives {

// The store behind a JobStore.
c10::intrusive_ptr<c10d::Store> c10d_store(JobStore& store);
// The first line of an exception of LibTorch or Gloo, without its file names and traces.
std::string plain_reason(const std::exception& error);

}  // namespace lockstep::collectives
