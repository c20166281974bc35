// Workers of one job as processes of this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cli {

// Ports of this machine, reserved during the lifetime of the object: their sockets are bound but do not listen, so the
// worker that gets a port can bind it too.
class HeldPorts {
 public:
  // `first` 0: any free ports, else first, first + 1, … up to 65535. Throws Unavailable naming a port that is taken.
  HeldPorts(int count, int first);
  ~HeldPorts();
  HeldPorts(const HeldPorts&) = delete;
  HeldPorts& operator=(const HeldPorts&) = delete;
  const std::vector<int>& ports() const { return ports_; }

 private:
  HeldPorts() = default;
  std::vector<int> sockets_;
  std::vector<int> ports_;
};

struct LocalJob {
  std::string program;                 // path of the executable
  std::vector<std::string> arguments;  // without the program's name
  // Variables of each worker, in addition to those of this process; the first worker is the chief.
  std::vector<std::map<std::string, std::string>> environments;
  std::vector<std::string> names;   // "worker 1 (127.0.0.1:5000)"
  std::vector<std::string> labels;  // "worker 1": before each line of a process but the first one
  std::vector<std::string> logs;    // a file for each worker's output; empty: none
  bool append_to_logs = false;
  bool is_lockstep = false;                // the program is this one, whose exit statuses are known
  std::chrono::milliseconds grace{10000};  // between a worker's failure and the end of the others
  // The job continues when a process other than the chief fails, which is restarted automatically, `replacements` times
  // in all; it ends with the chief, whose status is the job's.
  bool chief_decides = false;
  std::int64_t replacements = 0;
};

struct JobEnd {
  int status = 0;  // of the first worker that failed or ended by the stop signal; 128 + n for one killed by signal n
  // A worker of this program exited because of its arguments or files, and none was killed: a restart cannot help.
  bool permanent = false;
  int stop_signal = 0;         // the signal that this process was sent and has passed on; 0: none
  bool stopped_twice = false;  // a second one came, and those that still ran were killed
};

// Starts all workers and waits for them. The chief has this process's standard streams; the output of the others goes
// to standard error, each line with "[worker 1] " before it. SIGINT, SIGTERM and SIGHUP are passed on to all workers, a
// second one kills them. When a worker fails without that, which is reported in a line, those that have not ended after
// the grace time are sent SIGTERM, and SIGKILL five seconds later. Throws NotFound when the program cannot be started.
JobEnd run_local_job(const LocalJob& job);

}  // namespace lockstep::cli
