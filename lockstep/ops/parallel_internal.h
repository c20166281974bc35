// Work shared among a few threads that do not wait for each other more than they must. OpenMP's threads meet at the end
// of each loop, and stand still there while one of them has no core; here whoever is free takes the next piece.
#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::ops {

// How many threads one loop started on this thread may use; at first the machine's cores, or OMP_NUM_THREADS.
int parallel_threads();
void set_parallel_threads(int threads);

// Calls work(from, to) for pieces of begin … end of at least `grain`, on this thread and on idle ones. Loops within
// loops, and those of several threads at once, run on their own thread. An exception of `work` is thrown here.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& work);

}  // namespace lockstep::ops
