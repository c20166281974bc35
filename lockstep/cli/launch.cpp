// lockstep launch: the workers of a job on one machine.
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/command_table_internal.h"
#include "lockstep/cli/commands_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/local_job_internal.h"

namespace lockstep::cli {
namespace {

constexpr std::int64_t kMostWorkers = 1024;

std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || length == sizeof path)
    throw_internal("launch: /proc/self/exe does not tell where this program is");
  return std::string(path, static_cast<std::size_t>(length));
}

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

// Where an option of the command to be launched stands, or its value after "="; the end when it is not there.
std::vector<std::string>::const_iterator find_option(const std::vector<std::string>& words, const std::string& option) {
  return std::find_if(words.begin(), words.end(),
                      [&](const std::string& word) { return word == option || word.starts_with(option + "="); });
}

// What the command line after "--" starts: this program with one of its commands, or another program, which is given
// with a path.
void set_program(LocalJob& job, std::vector<std::string> words) {
  if (words.empty()) {
    throw_invalid_argument(
        "launch: nothing to start; give a command after --, as in lockstep launch -n 2 -- fit model.keras --data "
        "d.npz");
  }
  if (words[0].find('/') != std::string::npos) {
    if (access(words[0].c_str(), X_OK) != 0)
      throw_not_found(fmt::format("launch: {} cannot be started: {}", words[0], std::strerror(errno)));
    job.program = words[0];
    job.arguments.assign(words.begin() + 1, words.end());
    return;
  }
  if (words[0] != "fit" && words[0] != "evaluate") {
    throw_invalid_argument(
        fmt::format("launch: '{}' is no command for several workers; fit and evaluate are, and programs given with "
                    "their path, such as ./{}{}",
                    words[0], words[0], did_you_mean(words[0], std::vector<std::string>{"fit", "evaluate"})));
  }
  const auto strategy = find_option(words, "--strategy");
  if (strategy == words.end()) {
    words.insert(words.end(), {"--strategy", "multi_worker"});
  } else {
    const bool apart = *strategy == "--strategy";
    const std::string spec = !apart                        ? strategy->substr(strategy->find('=') + 1)
                             : strategy + 1 == words.end() ? ""
                                                           : *(strategy + 1);
    if (!spec.starts_with("multi_worker")) {
      throw_invalid_argument(
          fmt::format("launch: with --strategy {} each worker would train a model of its own; leave it out, or give "
                      "--strategy multi_worker",
                      spec));
    }
  }
  job.program = own_path();
  job.arguments = std::move(words);
}

void make_directory(const std::string& path) {
  struct stat found {};
  if (mkdir(path.c_str(), 0777) == 0 || (stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode))) return;
  throw_not_found(fmt::format("launch: the folder {} of --log-dir cannot be made: {}", path, std::strerror(errno)));
}

// The cluster of a start, and each worker's place in it.
void set_cluster(LocalJob& job, const std::vector<int>& ports) {
  Json workers = Json::array();
  for (const int port : ports) workers.push_back(fmt::format("127.0.0.1:{}", port));
  const std::size_t count = ports.size();
  const std::string threads = std::to_string(std::max(1, usable_cores() / static_cast<int>(count)));
  job.environments.assign(count, {});
  job.names.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const Json config = {{"cluster", {{"worker", workers}}}, {"task", {{"type", "worker"}, {"index", i}}}};
    job.environments[i]["TF_CONFIG"] = dump_json(config);
    if (!std::getenv("OMP_NUM_THREADS")) job.environments[i]["OMP_NUM_THREADS"] = threads;
    job.names.push_back(fmt::format("worker {} ({})", i, workers[i].get<std::string>()));
  }
}

// A job that was stopped from outside: who has saved says so itself.
void tell_stopped(const LocalJob& job, const JobEnd& end) {
  if (end.status == 0 || end.status == kPreempted) return;
  std::string text = fmt::format("stopped by SIG{}", sigabbrev_np(end.stop_signal));
  if (end.stopped_twice) text += "; the workers were killed at the second signal";
  if (job.arguments.empty() || job.arguments[0] != "fit") {
  } else if (find_option(job.arguments, "--checkpoint-dir") == job.arguments.end()) {
    text += "; nothing is saved, as fit has no --checkpoint-dir";
  } else {
    text += end.stopped_twice ? "" : " before all workers were training";
    text += "; the same command goes on from the last checkpoint";
  }
  fmt::print(stderr, "lockstep: launch: {}\n", text);
}

std::chrono::milliseconds seconds_of(const Arguments& arguments, const std::string& name) {
  return std::chrono::seconds(arguments.integer(name, 0));
}

}  // namespace

int launch(const Arguments& arguments) {
  const std::int64_t count = arguments.integer("-n", 1);
  if (count > kMostWorkers)
    throw_invalid_argument(
        fmt::format("launch: -n {} is too many workers for one machine; at most {}", count, kMostWorkers));
  const std::int64_t port = arguments.maybe_integer("--port", 1).value_or(0);
  if (port > 65535) throw_invalid_argument(fmt::format("launch: --port {} is no port; ports end at 65535", port));
  const std::int64_t restarts = arguments.integer("--restarts", 0);
  LocalJob job;
  job.grace = seconds_of(arguments, "--grace");
  set_program(job, arguments.rest());
  if (restarts > 0 && job.arguments.size() && job.arguments[0] == "fit" &&
      find_option(job.arguments, "--checkpoint-dir") == job.arguments.end()) {
    throw_invalid_argument("launch: --restarts goes on from checkpoints; give fit a --checkpoint-dir");
  }
  if (const auto directory = arguments.maybe("--log-dir")) {
    make_directory(*directory);
    for (std::int64_t i = 0; i < count; ++i) job.logs.push_back(fmt::format("{}/worker-{}.log", *directory, i));
  }
  for (std::int64_t attempt = 0;; ++attempt) {
    const HeldPorts ports(static_cast<int>(count), static_cast<int>(port));
    set_cluster(job, ports.ports());
    job.append_to_logs = attempt > 0;
    const JobEnd end = run_local_job(job);
    if (end.stop_signal != 0) tell_stopped(job, end);
    if (end.status == 0 || end.status == kPreempted || end.stop_signal != 0 || attempt == restarts) return end.status;
    fmt::print(stderr, "lockstep: launch: starting all workers again ({} of {})\n", attempt + 1, restarts);
  }
}

}  // namespace lockstep::cli
