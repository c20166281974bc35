// Exit statuses of the tool; 0 is success.
#pragma once

namespace lockstep::cli {

constexpr int kFailure = 1;   // diff: something differs
constexpr int kUsage = 2;     // the command line is wrong
constexpr int kDamaged = 3;   // verify found damage
constexpr int kFindings = 4;  // audit found something
// fit was asked to stop and has saved; TensorFlow's preemption handler exits with the same status.
constexpr int kPreempted = 42;
// The reader of standard output has ended (`lockstep ops | head`): the status that a shell reports for other tools
// then.
constexpr int kClosedPipe = 141;

// `lockstep launch` sets this variable for its workers. Such a worker exits with kPermanentFailure instead of kFailure
// when a restart would end in the same error; the launcher reports it as kFailure.
constexpr const char* kLaunchedVariable = "LOCKSTEP_LAUNCHED";
constexpr int kPermanentFailure = 65;

}  // namespace lockstep::cli
