// Memory of large tensors. Internal to lockstep/ops.
#pragma once

namespace lockstep::ops {

// From now on, freed blocks of 32 MiB and more, which glibc returns to the system, are kept for tensors of the same
// size. With those in use they never take more memory than blocks in use have taken before.
void keep_large_blocks();

}  // namespace lockstep::ops
