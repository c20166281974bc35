// A mark of callbacks.
#pragma once

namespace lockstep::keras {

// A base of callbacks that read the optimizer's state on all workers of a job at the same point, or not at all. Where
// workers keep parts of that state (shard_optimizer_state), fit gathers it at the end of an epoch for all other
// callbacks, which may read it on one worker alone; that takes as much memory as without sharding.
class ReadsTogether {
 protected:
  ~ReadsTogether() = default;
};

}  // namespace lockstep::keras
