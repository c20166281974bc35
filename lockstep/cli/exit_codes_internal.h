// How the tool ends; 0 is success.
#pragma once

namespace lockstep::cli {

constexpr int kFailure = 1;  // diff: something differs
constexpr int kUsage = 2;    // the command line is wrong
constexpr int kDamaged = 3;  // verify found damage
constexpr int kPreempted =
    42;  // fit was asked to stop and has saved; TensorFlow's preemption handler ends with the same

}  // namespace lockstep::cli
