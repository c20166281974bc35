// The reason why a worker cannot continue, and how it is reported to the others.
#pragma once

#include <chrono>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::collectives {

struct Fault {
  Code code = Code::kUnavailable;
  std::string message;
};

// A fault as text for the other workers, and back; the code is valid for any text.
std::string fault_text(const Fault& fault);
Fault parse_fault(const std::string& text);

inline double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000.0; }

}  // namespace lockstep::collectives
