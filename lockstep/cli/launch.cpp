// lockstep launch: the workers of a job on one machine.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
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
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::cli {
namespace {

std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0 || length == sizeof path)
    throw_internal("launch: the path of this program cannot be read from /proc/self/exe");
  return std::string(path, static_cast<std::size_t>(length));
}

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

// The position of an option ("--x V" or "--x=V") of the command to launch; the end if it is absent.
std::vector<std::string>::const_iterator find_option(const std::vector<std::string>& words, const std::string& option) {
  return std::find_if(words.begin(), words.end(),
                      [&](const std::string& word) { return word == option || word.starts_with(option + "="); });
}

// The program that the words after "--" name: this one with one of its commands, or another one by its path.
void set_program(LocalJob& job, std::vector<std::string> words, bool servers) {
  if (words.empty()) {
    throw_usage(
        "launch: no command; give one after --, as in lockstep launch -n 2 -- fit model.keras --data "
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
    throw_usage(fmt::format(
        "launch: '{}' cannot run on several workers; expected fit, evaluate, or the path of a program, such "
        "as ./{}{}",
        words[0], words[0], did_you_mean(words[0], std::vector<std::string>{"fit", "evaluate"})));
  }
  if (servers && words[0] != "fit") throw_usage(fmt::format("launch: --ps requires fit, found '{}'", words[0]));
  const char* const expected = servers ? "parameter_server" : "multi_worker";
  const auto strategy = find_option(words, "--strategy");
  if (strategy == words.end()) {
    words.insert(words.end(), {"--strategy", expected});
  } else {
    const bool apart = *strategy == "--strategy";
    const std::string spec = !apart                        ? strategy->substr(strategy->find('=') + 1)
                             : strategy + 1 == words.end() ? ""
                                                           : *(strategy + 1);
    if (!spec.starts_with(expected)) {
      throw_usage(
          spec == "parameter_server"
              ? "launch: --strategy parameter_server requires --ps"
              : fmt::format("launch: with --strategy {} each worker would train a separate model; omit it or use "
                            "--strategy {}",
                            spec, expected));
    }
  }
  job.program = own_path();
  job.is_lockstep = true;
  job.arguments = std::move(words);
}

// A process of the job.
struct Task {
  std::string job;
  std::int64_t index;
};

// Workers, the first of which is the chief; with parameter servers a chief, workers and servers.
std::vector<Task> tasks_of(std::int64_t workers, std::int64_t servers) {
  std::vector<Task> tasks;
  if (servers > 0) tasks.push_back({"chief", 0});
  for (std::int64_t i = 0; i < workers; ++i) tasks.push_back({"worker", i});
  for (std::int64_t i = 0; i < servers; ++i) tasks.push_back({"ps", i});
  return tasks;
}

// TF_CONFIG and the number of threads of each process. With parameter servers the chief computes little.
void set_cluster(LocalJob& job, const std::vector<Task>& tasks, const std::vector<int>& ports) {
  Json cluster = Json::object();
  int computing = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (!cluster.contains(tasks[i].job)) cluster[tasks[i].job] = Json::array();
    cluster[tasks[i].job].push_back(fmt::format("127.0.0.1:{}", ports[i]));
    if (tasks[i].job != "chief") ++computing;
  }
  const std::string threads = std::to_string(std::max(1, usable_cores() / computing));
  job.environments.assign(tasks.size(), {});
  job.names.clear();
  job.labels.clear();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const Json config = {{"cluster", cluster}, {"task", {{"type", tasks[i].job}, {"index", tasks[i].index}}}};
    job.environments[i]["TF_CONFIG"] = dump_json(config);
    if (job.is_lockstep) job.environments[i][kLaunchedVariable] = "1";
    if (!std::getenv("OMP_NUM_THREADS")) job.environments[i]["OMP_NUM_THREADS"] = threads;
    job.labels.push_back(fmt::format("{} {}", tasks[i].job, tasks[i].index));
    job.names.push_back(fmt::format("{} (127.0.0.1:{})", job.labels.back(), ports[i]));
  }
}

// A job that was stopped by a signal; a worker that has saved reports that itself.
void report_interrupted(const LocalJob& job, const JobEnd& end) {
  if (end.status == 0 || end.status == kPreempted) return;
  std::string text = fmt::format("stopped by SIG{}", sigabbrev_np(end.stop_signal));
  if (end.stopped_twice) text += "; the workers were killed at the second signal";
  if (job.arguments.empty() || job.arguments[0] != "fit") {
  } else if (find_option(job.arguments, "--checkpoint-dir") == job.arguments.end()) {
    text += "; nothing is saved, as fit has no --checkpoint-dir";
  } else {
    text += end.stopped_twice ? "" : " before all workers were training";
    text += "; run the same command again to resume from the last checkpoint";
  }
  fmt::print(stderr, "lockstep: launch: {}\n", text);
}

std::chrono::milliseconds seconds_of(const Arguments& arguments, const std::string& name) {
  return std::chrono::seconds(arguments.integer(name));
}

}  // namespace

int launch(const Arguments& arguments) {
  const std::int64_t servers = arguments.maybe_integer("--ps").value_or(0);
  const std::vector<Task> tasks = tasks_of(arguments.integer("-n"), servers);
  const auto count = static_cast<std::int64_t>(tasks.size());
  const std::int64_t port = arguments.maybe_integer("--port").value_or(0);
  if (port + count - 1 > 65535)
    throw_usage(fmt::format("launch: {} ports from {} on would exceed 65535; choose a lower --port", count, port));
  const std::int64_t restarts = arguments.integer("--restarts");
  LocalJob job;
  job.grace = seconds_of(arguments, "--grace");
  set_program(job, arguments.rest(), servers > 0);
  job.chief_decides = servers > 0;
  job.replacements = restarts;
  if (restarts > 0 && servers == 0 && job.arguments.size() && job.arguments[0] == "fit" &&
      find_option(job.arguments, "--checkpoint-dir") == job.arguments.end()) {
    throw_usage("launch: --restarts requires fit --checkpoint-dir, from which the workers resume");
  }
  if (const auto directory = arguments.maybe("--log-dir")) {
    io::make_directories(io::posix_file_system(), *directory);
    for (const Task& task : tasks) job.logs.push_back(fmt::format("{}/{}-{}.log", *directory, task.job, task.index));
  }
  for (std::int64_t attempt = 0;; ++attempt) {
    const HeldPorts ports(static_cast<int>(count), static_cast<int>(port));
    set_cluster(job, tasks, ports.ports());
    job.append_to_logs = attempt > 0;
    const JobEnd end = run_local_job(job);
    if (end.stop_signal != 0) report_interrupted(job, end);
    if (end.status == 0 || end.status == kPreempted || end.stop_signal != 0 || job.chief_decides ||
        attempt == restarts) {
      return end.status;
    }
    if (end.permanent) {
      fmt::print(stderr, "lockstep: launch: not restarted, because the same error would occur again\n");
      return end.status;
    }
    fmt::print(stderr, "lockstep: launch: starting all workers again ({} of {})\n", attempt + 1, restarts);
  }
}

}  // namespace lockstep::cli
