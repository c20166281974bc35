#include "fuzz/execution/isolated.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

// The memory that the two processes share.
struct Board {
  std::atomic<std::uint64_t> seed = 0;  // of the case that runs
  std::atomic<std::uint64_t> cases = 0, results = 0;
  std::atomic<bool> full = false;  // a finding is written, the child waits for nothing and ends
  char text[4096] = {};
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void write_text(Board& board, std::string_view text) {
  const std::size_t size = std::min(text.size(), sizeof(board.text) - 1);
  std::memcpy(board.text, text.data(), size);
  board.text[size] = 0;
  board.full = true;
}

void limit_cpu(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

[[noreturn]] void work(const Target& target, const Limits& limits, Board& board, std::uint64_t last,
                       Clock::time_point end) noexcept {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  for (std::uint64_t seed = board.seed; seed <= last && Clock::now() < end; ++seed) {
    board.seed = seed;
    limit_cpu(3 * limits.cpu_seconds_per_case + 2);
    const double start = cpu_seconds();
    Outcome outcome = target.run(seed);
    const double took = cpu_seconds() - start;
    ++board.cases;
    if (outcome.result) ++board.results;
    if (outcome.what.empty() && took > limits.cpu_seconds_per_case)
      outcome.what = fmt::format("{:.1f} s of CPU time", took);
    if (outcome.what.empty()) continue;
    write_text(board, outcome.what);
    std::_Exit(0);
  }
  std::_Exit(0);
}

// Waits for the child; one that makes no progress for a minute (a lock that nobody opens) is ended.
int wait_for(pid_t child, const Board& board) {
  int status = 0;
  std::uint64_t seen = board.cases;
  Clock::time_point since = Clock::now();
  while (waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (board.cases != seen) {
      seen = board.cases;
      since = Clock::now();
    } else if (Clock::now() - since > std::chrono::minutes(1)) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      break;
    }
  }
  return status;
}

// Describing a case makes its tensors: in a child too.
std::string described(const Target& target, std::uint64_t seed) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string text = target.describe(seed);
    const auto written = write(ends[1], text.data(), std::min<std::size_t>(text.size(), 4000));
    std::_Exit(written < 0 ? 1 : 0);
  }
  close(ends[1]);
  std::string text(4000, '\0');
  std::size_t size = 0;
  for (ssize_t more; (more = read(ends[0], text.data() + size, text.size() - size)) > 0;)
    size += static_cast<std::size_t>(more);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  text.resize(size);
  return text;
}

// The same for findings that differ in numbers only.
std::string kind_of(const Finding& finding) {
  std::string kind = finding.of.substr(0, finding.of.find('(')) + finding.what.substr(0, 80);
  std::erase_if(kind, [](char c) { return (c >= '0' && c <= '9') || c == '-'; });
  return kind;
}

template <typename T>
void take(const char* name, T& value) {
  if (const char* text = std::getenv(name)) value = static_cast<T>(std::strtod(text, nullptr));
}

bool is_accepted(const Error& error) {
  switch (error.code()) {
    case Code::kInvalidArgument:
    case Code::kUnimplemented:
    case Code::kResourceExhausted:
    case Code::kDeadlineExceeded:
    case Code::kOutOfRange:
    case Code::kFailedPrecondition:
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kDataLoss: return true;
    default: return false;
  }
}

}  // namespace

Outcome outcome_of(const std::function<void()>& body) {
  try {
    body();
    return {true, ""};
  } catch (const Error& error) {
    if (is_accepted(error)) return {};
    return {false, fmt::format("{}: {}", code_name(error.code()), error.message())};
  } catch (const std::exception& error) {
    return {false, fmt::format("an exception that is not an Error: {}", error.what())};
  }
}

Limits Limits::from_environment() const {
  Limits limits = *this;
  take("LOCKSTEP_FUZZ_SEED", limits.first_seed);
  take("LOCKSTEP_FUZZ_COUNT", limits.count);
  take("LOCKSTEP_FUZZ_SECONDS", limits.seconds);
  take("LOCKSTEP_FUZZ_FINDINGS", limits.max_findings);
  return limits;
}

Report run_isolated(const Target& target, const Limits& limits) {
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  Board& board = *new (memory) Board;
  Report report;
  std::set<std::string> kinds;
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits.seconds));
  const std::uint64_t last = limits.first_seed + limits.count - 1;
  for (std::uint64_t next = limits.first_seed; next <= last && Clock::now() < end; next = board.seed + 1) {
    board.seed = next;
    board.full = false;
    const pid_t child = fork();
    if (child == 0) work(target, limits, board, last, end);
    const int status = wait_for(child, board);
    std::string what;
    if (board.full) {
      what = board.text;
    } else if (WIFSIGNALED(status)) {
      ++board.cases;
      const int number = WTERMSIG(status);
      what = number == SIGPROF ? "does not end" : fmt::format("signal {} ({})", number, strsignal(number));
    } else if (WEXITSTATUS(status) != 0) {
      what = fmt::format("exit status {}", WEXITSTATUS(status));
    } else {
      break;
    }
    const Finding finding{board.seed, what, described(target, board.seed)};
    if (!kinds.insert(kind_of(finding)).second) continue;
    report.findings.push_back(finding);
    if (report.findings.size() >= limits.max_findings) break;
  }
  report.cases = board.cases;
  report.results = board.results;
  munmap(memory, sizeof(Board));
  return report;
}

}  // namespace lockstep::fuzz
