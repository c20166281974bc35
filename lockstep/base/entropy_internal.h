// Where numbers come from that nobody chose: the system, or, in a job of several workers, one seed for all.
#pragma once

#include <cstdint>

namespace lockstep {

// The next number. Any thread.
std::uint32_t draw_entropy();
// From now on all processes that share `seed` draw the same numbers in the same order.
void share_entropy(std::uint64_t seed);
// How often share_entropy was called: who seeded itself from draw_entropy() before does so again when this grows.
int entropy_generation();

}  // namespace lockstep
