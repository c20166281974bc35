#include "lockstep/cli/local_job_internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/exit_codes_internal.h"

extern char** environ;

namespace lockstep::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFromTermToKill{5};
constexpr int kCannotStart = 127;

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset();
    fd_ = std::exchange(other.fd_, -1);
    return *this;
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t done = write(fd, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return;  // nobody reads; the workers continue
    text.remove_prefix(static_cast<std::size_t>(done));
  }
}

void report(const std::string& line) { write_all(STDERR_FILENO, "lockstep: launch: " + line + "\n"); }

// Output of a worker's stream, forwarded in complete lines with a prefix, or unchanged without one.
class Stream {
 public:
  Stream(Descriptor from, int to, std::string prefix, int log)
      : from_(std::move(from)), to_(to), prefix_(std::move(prefix)), log_(log) {
    fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }
  int fd() const { return from_.get(); }
  bool open() const { return static_cast<bool>(from_); }

  // Forwards all available output.
  void pump() {
    char buffer[16384];
    while (open()) {
      const ssize_t got = read(from_.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) return finish();
      if (prefix_.empty()) write_all(to_, {buffer, static_cast<std::size_t>(got)});
      line_.append(buffer, static_cast<std::size_t>(got));
      pass_lines();
    }
  }
  // The rest, also if the last line has no line break.
  void finish() {
    if (!line_.empty()) pass(line_ + "\n");
    line_.clear();
    from_.reset();
  }

 private:
  void pass_lines() {
    std::size_t begin = 0;
    for (std::size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n', begin)) {
      pass(line_.substr(begin, end - begin + 1));
      begin = end + 1;
    }
    line_.erase(0, begin);
  }
  void pass(const std::string& line) {
    if (!prefix_.empty()) write_all(to_, prefix_ + line);
    if (log_ >= 0) write_all(log_, line);
  }
  Descriptor from_;
  int to_;
  std::string prefix_;
  int log_;
  std::string line_;
};

struct Worker {
  pid_t pid = -1;
  bool running = false;
  std::vector<Stream> streams;
  Descriptor log;
};

// Signals that are read by the loop during its lifetime instead of being delivered.
class WatchedSignals {
 public:
  WatchedSignals() {
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, &before_);
    fd_ = Descriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_)
      throw_resource_exhausted(fmt::format("launch: cannot create a descriptor for signals: {}", std::strerror(errno)));
  }
  ~WatchedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  std::optional<int> next() {
    signalfd_siginfo info;
    if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }

 private:
  Descriptor fd_;
  sigset_t before_;
};

std::pair<Descriptor, Descriptor> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw_resource_exhausted(
        fmt::format("launch: cannot create a pipe for a worker's output: {}", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<std::string> environment_of(const std::map<std::string, std::string>& own) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    if (!own.contains(text.substr(0, text.find('=')))) out.push_back(text);
  }
  for (const auto& [name, value] : own) out.push_back(name + "=" + value);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

class Runner {
 public:
  explicit Runner(const LocalJob& job) : job_(job), workers_(job.environments.size()) {}
  // No worker survives the launcher.
  ~Runner() {
    for (Worker& worker : workers_) {
      if (!worker.running) continue;
      kill(worker.pid, SIGKILL);
      waitpid(worker.pid, nullptr, 0);
    }
  }

  JobEnd run() {
    for (std::size_t i = 0; i < workers_.size(); ++i) start(i);
    while (running() > 0) {
      wait_for_events();
      while (const auto signal = signals_.next()) handle_signal(*signal);
      reap();
      end_stragglers();
    }
    for (Worker& worker : workers_) {
      for (Stream& stream : worker.streams) {
        stream.pump();
        stream.finish();
      }
    }
    end_.permanent = permanent_ && !killed_;
    return end_;
  }

 private:
  std::int64_t running() const {
    return std::count_if(workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.running; });
  }

  // The chief keeps this process's streams, unless its output goes to a log too.
  void start(std::size_t i, bool again = false) {
    Worker& worker = workers_[i];
    const bool piped = i > 0 || !job_.logs.empty();
    if (!job_.logs.empty()) {
      const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (job_.append_to_logs || again ? 0 : O_TRUNC);
      worker.log = Descriptor(open(job_.logs[i].c_str(), flags, 0644));
      if (!worker.log)
        throw_not_found(fmt::format("launch: {} cannot be written: {}", job_.logs[i], std::strerror(errno)));
    }
    Descriptor out, err;
    if (piped) {
      const std::string prefix = i > 0 ? fmt::format("[{}] ", job_.labels[i]) : "";
      // A bar is drawn for a terminal only, so the chief keeps one.
      if (i > 0 || !isatty(STDOUT_FILENO)) {
        auto [read_end, write_end] = make_pipe();
        worker.streams.emplace_back(std::move(read_end), i > 0 ? STDERR_FILENO : STDOUT_FILENO, prefix,
                                    worker.log.get());
        out = std::move(write_end);
      }
      auto [read_end, write_end] = make_pipe();
      worker.streams.emplace_back(std::move(read_end), STDERR_FILENO, prefix, worker.log.get());
      err = std::move(write_end);
    }
    std::vector<std::string> arguments{job_.program};
    arguments.insert(arguments.end(), job_.arguments.begin(), job_.arguments.end());
    std::vector<std::string> environment = environment_of(job_.environments[i]);
    const std::vector<char*> argv = pointers(arguments);
    const std::vector<char*> envp = pointers(environment);
    const pid_t parent = getpid();
    worker.pid = fork();
    if (worker.pid < 0)
      throw_resource_exhausted(fmt::format("launch: {} cannot be started: {}", job_.names[i], std::strerror(errno)));
    if (worker.pid == 0) become_worker(argv, envp, out.get(), err.get(), i > 0, parent);
    worker.running = true;
  }

  // In the child: async-signal-safe calls only.
  [[noreturn]] void become_worker(const std::vector<char*>& argv, const std::vector<char*>& envp, int out, int err,
                                  bool no_input, pid_t parent) const {
    setpgid(0, 0);  // signals of the terminal come through the launcher, once
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kCannotStart);
    if (no_input) {
      const int null = open("/dev/null", O_RDONLY);
      if (null >= 0) dup2(null, STDIN_FILENO);
    }
    if (out >= 0) dup2(out, STDOUT_FILENO);
    if (err >= 0) dup2(err, STDERR_FILENO);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
    execve(argv[0], argv.data(), envp.data());
    const char* const reason = strerrordesc_np(errno);
    for (const char* text :
         {"lockstep: launch: ", static_cast<const char*>(argv[0]), " cannot be started: ", reason, "\n"}) {
      if (write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
    }
    _exit(kCannotStart);
  }

  void wait_for_events() {
    std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
    std::vector<Stream*> streams;
    for (Worker& worker : workers_) {
      for (Stream& stream : worker.streams) {
        if (!stream.open()) continue;
        polled.push_back({stream.fd(), POLLIN, 0});
        streams.push_back(&stream);
      }
    }
    int timeout = -1;
    if (deadline_) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
      timeout = static_cast<int>(std::max<std::int64_t>(left + 1, 0));
    }
    poll(polled.data(), polled.size(), timeout);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (polled[i + 1].revents != 0) streams[i]->pump();
    }
  }

  void handle_signal(int signal) {
    if (signal == SIGCHLD) return;
    const bool again = end_.stop_signal != 0;
    if (!again) end_.stop_signal = signal;
    end_.stopped_twice = again;
    send(again ? SIGKILL : signal);
  }

  void send(int signal) {
    for (const Worker& worker : workers_) {
      if (worker.running) kill(worker.pid, signal);
    }
  }

  void reap() {
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      for (std::size_t i = 0; i < workers_.size(); ++i) {
        if (workers_[i].pid != pid || !workers_[i].running) continue;
        workers_[i].running = false;
        for (Stream& stream : workers_[i].streams) stream.pump();
        if (job_.chief_decides && handle_end_beside_chief(i, status)) continue;
        if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0) handle_failure(i, status);
      }
    }
  }

  // Of a job that ends with its chief; whether that was all there is to do.
  bool handle_end_beside_chief(std::size_t i, int status) {
    if (i == 0) {
      chief_ended_ = true;
      if (!deadline_) deadline_ = Clock::now() + job_.grace;
      return false;
    }
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int code = signal ? 0 : WEXITSTATUS(status);
    if (chief_ended_ || end_.stop_signal != 0 || (signal == 0 && code == 0)) return true;
    if (job_.is_lockstep && (code == kUsage || code == kPermanentFailure)) return false;
    const char* const name = signal ? sigabbrev_np(signal) : nullptr;
    const std::string how = signal ? fmt::format("was killed by signal {} (SIG{})", signal, name ? name : "?")
                                   : fmt::format("ended with status {}", code);
    const bool again = replacements_ < job_.replacements;
    report(fmt::format("{} {}; {}", job_.names[i], how,
                       again ? fmt::format("it is started again ({} of {})", ++replacements_, job_.replacements)
                             : "it is not started again"));
    if (!again) return true;
    for (Stream& stream : workers_[i].streams) stream.finish();
    workers_[i].streams.clear();
    start(i, true);
    return true;
  }

  void handle_failure(std::size_t i, int status) {
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int code = signal ? 128 + signal : WEXITSTATUS(status);
    if (signal && !terminated_ && end_.stop_signal == 0) killed_ = true;
    if (job_.is_lockstep && (code == kUsage || code == kPermanentFailure)) permanent_ = true;
    if (job_.is_lockstep && code == kPermanentFailure) code = kFailure;
    if (signal && (signal == end_.stop_signal || end_.stopped_twice)) end_.status = 128 + end_.stop_signal;
    if (end_.status != 0 && deadline_) return;  // a consequence of the first failure
    if (end_.status == 0) end_.status = code;
    deadline_ = Clock::now() + job_.grace;
    if (end_.stop_signal != 0) return;  // on request
    const char* const name = signal ? sigabbrev_np(signal) : nullptr;
    std::string how = signal ? fmt::format("was killed by signal {} (SIG{})", signal, name ? name : "?")
                             : fmt::format("ended with status {}", end_.status);
    if (running() > 0) {
      how += fmt::format("; the others have {} s to end", std::chrono::duration<double>(job_.grace).count());
    }
    report(fmt::format("{} {}", job_.names[i], how));
  }

  void end_stragglers() {
    if (!deadline_ || Clock::now() < *deadline_ || running() == 0) return;
    send(terminated_ ? SIGKILL : SIGTERM);
    terminated_ = true;
    deadline_ = Clock::now() + kFromTermToKill;
  }

  const LocalJob& job_;
  WatchedSignals signals_;
  std::vector<Worker> workers_;
  JobEnd end_;
  std::optional<Clock::time_point> deadline_;  // when the running workers are terminated
  bool terminated_ = false;
  bool chief_ended_ = false;
  std::int64_t replacements_ = 0;
  bool killed_ = false;     // a worker, by a signal that is not the launcher's
  bool permanent_ = false;  // a worker reported an error that a restart cannot remove
};

}  // namespace

HeldPorts::HeldPorts(int count, int first) : HeldPorts() {
  for (int i = 0; i < count; ++i) {
    sockets_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(sockets_.back(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(static_cast<std::uint16_t>(first > 0 ? first + i : 0));
    socklen_t length = sizeof address;
    if (bind(sockets_.back(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
      const std::string reason = std::strerror(errno);
      throw_unavailable(
          first > 0
              ? fmt::format("launch: port {} cannot be used: {}; choose another --port, or leave it out for free ones",
                            first + i, reason)
              : fmt::format("launch: no free port for worker {}: {}", i, reason));
    }
    getsockname(sockets_.back(), reinterpret_cast<sockaddr*>(&address), &length);
    ports_.push_back(ntohs(address.sin_port));
  }
}

HeldPorts::~HeldPorts() {
  for (const int fd : sockets_) close(fd);
}

JobEnd run_local_job(const LocalJob& job) { return Runner(job).run(); }

}  // namespace lockstep::cli
