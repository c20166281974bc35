// Whether another process of this machine still runs.
#pragma once

#include <string>

namespace lockstep::collectives {

class ProcessWatch {
 public:
  // The data by which another process of this machine can watch this one.
  static std::string self();
  // Watches a process by what its self() gave. One that cannot be seen from here (another container) is taken to run.
  explicit ProcessWatch(const std::string& process);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Notices at once.
  bool ended() const;

 private:
  int handle_ = -1;
};

}  // namespace lockstep::collectives
