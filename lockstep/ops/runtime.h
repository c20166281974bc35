// Settings of the process that suit programs whose main work is training.
#pragma once

namespace lockstep {

// Keeps freed memory in the process (glibc's mallopt: one arena, no mapping of single blocks below 32 MiB, 64 MiB of
// growth at a time), because a training step frees and allocates the same blocks again and again. Memory use of the
// process stays at its peak. To be called once, at the start of main() and before other threads are started. The
// lockstep tool calls it. The library itself changes no setting of the process: a program that does not call this works
// the same, with more page faults.
void configure_runtime();

}  // namespace lockstep
