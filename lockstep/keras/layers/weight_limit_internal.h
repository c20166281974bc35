// A limit on the weights that a config without values asks for. Internal to lockstep.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::keras {

// While one lives, the weights that layers of this thread create take at most `bytes` together; ResourceExhausted
// otherwise, before they are allocated.
class WeightLimit {
 public:
  explicit WeightLimit(std::int64_t bytes);
  ~WeightLimit();
  WeightLimit(const WeightLimit&) = delete;
  WeightLimit& operator=(const WeightLimit&) = delete;

  // Called for each new weight; `what` names it. Does nothing without a limit.
  static void take(std::int64_t bytes, const std::string& what);

 private:
  const std::int64_t limit_;
  std::int64_t left_;
  WeightLimit* previous_;
};

}  // namespace lockstep::keras
