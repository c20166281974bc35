// The command line: parse, call the library, print.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/base/version.h"
#include "lockstep/cli/command_table_internal.h"
#include "lockstep/cli/engine_loader_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/report_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/io/file_system.h"

namespace lockstep::cli {
namespace {

const Command* find_command(const std::vector<Command>& commands, const std::string& name) {
  for (const Command& command : commands) {
    if (command.name == name) return &command;
  }
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  throw_usage(fmt::format("unknown command '{}'{}; see lockstep --help", name, did_you_mean(name, names)));
}

bool asks_for_help(const std::vector<std::string>& given) {
  for (const std::string& argument : given) {
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

// fit --restarts: a worker was lost, and this one may start again from the last checkpoint. The process is replaced, so
// that nothing of the broken job is left in it. Returns when it may not.
void restart_after(const Error& error, const Command& command, const Arguments& arguments,
                   const std::vector<std::string>& given) {
  constexpr const char* kCount = "LOCKSTEP_RESTARTS";
  if (command.name != "fit" || (error.code() != Code::kUnavailable && error.code() != Code::kDeadlineExceeded)) return;
  const std::int64_t allowed = arguments.maybe_integer("--restarts").value_or(0);
  const char* const text = std::getenv(kCount);
  const long done = text ? std::strtol(text, nullptr, 10) : 0;
  if (done >= allowed) return;
  report(error.message());
  report(fmt::format("starting again from the last checkpoint ({} of {})", done + 1, allowed));
  setenv(kCount, std::to_string(done + 1).c_str(), 1);
  std::vector<char*> words;
  std::vector<std::string> line{"lockstep", command.name};
  line.insert(line.end(), given.begin(), given.end());
  for (std::string& word : line) words.push_back(word.data());
  words.push_back(nullptr);
  execv("/proc/self/exe", words.data());
  report(fmt::format("cannot restart: {}", std::strerror(errno)));
}

// kFailure; a worker that `lockstep launch` started distinguishes errors that a restart cannot remove: they follow from
// the arguments and the files alone.
int failure_status(Code code) {
  if (!std::getenv(kLaunchedVariable)) return kFailure;
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kPermissionDenied:
    case Code::kFailedPrecondition:
    case Code::kUnimplemented:
    case Code::kDataLoss: return kPermanentFailure;
    default: return kFailure;
  }
}

int run(std::vector<std::string> given) {
  const std::vector<Command>& commands = command_table();
  if (given.empty()) {
    fmt::print(stderr, "lockstep: no command given; see lockstep --help\n");
    return kUsage;
  }
  const std::string name = given.front();
  given.erase(given.begin());
  if (name == "--help" || name == "-h" || (name == "help" && given.empty())) {
    fmt::print("{}", overview(commands));
    return 0;
  }
  if (name == "--version") {
    fmt::print("lockstep {}\n", version());
    return 0;
  }
  const Command* const command = find_command(commands, name == "help" ? given.front() : name);
  if (name == "help" || asks_for_help(own_words(*command, given))) {
    fmt::print("{}", command_help(*command));
    return 0;
  }
  const Arguments arguments = parse_arguments(*command, given);
  if (command->run) return command->run(arguments);
  try {
    return run_in_engine(command->name, arguments);
  } catch (const Error& error) {
    restart_after(error, *command, arguments, given);
    throw;
  }
}

}  // namespace
}  // namespace lockstep::cli

namespace {

// An exception that nothing can catch, as of the initializers of LibTorch while it is loaded: an error like others.
// There may be no memory for its text.
[[noreturn]] void end_after_exception() noexcept {
  const char* text = "lockstep: internal error: an exception that was not caught\n";
  try {
    if (const std::exception_ptr exception = std::current_exception()) std::rethrow_exception(exception);
  } catch (const std::bad_alloc&) {
    text = "lockstep: out of memory\n";
  } catch (...) {
  }
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
  std::_Exit(lockstep::cli::kFailure);
}

// Whether standard output is a pipe, or a connection, whose reader has ended, as `head` does after its lines.
bool reader_has_ended() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int guarded_run(int argc, char** argv) {
  std::set_terminate(end_after_exception);
  // A file that may grow no further, or a reader that went away, is an error like others.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  lockstep::io::handle_truncated_mappings();
  try {
    const int code = lockstep::cli::run({argv + 1, argv + argc});
    lockstep::io::check_mappings();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      if (reader_has_ended()) return lockstep::cli::kClosedPipe;
      fmt::print(stderr, "lockstep: standard output cannot be written\n");
      return lockstep::cli::kFailure;
    }
    return code;
  } catch (const lockstep::cli::UsageError& e) {
    lockstep::cli::report(e.message());
    return lockstep::cli::kUsage;
  } catch (const lockstep::Error& e) {
    lockstep::cli::report(e.message());
    return lockstep::cli::failure_status(e.code());
  } catch (const std::bad_alloc&) {
    lockstep::cli::report("out of memory");
  } catch (const std::system_error& e) {
    if (reader_has_ended()) return lockstep::cli::kClosedPipe;
    // Of the standard library's, which name no cause: of the library's own errors, only threads throw them.
    lockstep::cli::report(fmt::format("a system call failed: {}", e.what()));
  } catch (const std::exception& e) {
    lockstep::cli::report(fmt::format("internal error: {}", e.what()));
  }
  return lockstep::cli::kFailure;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = guarded_run(argc, argv);
  // Taking LibTorch's registries apart would cost more than many a command; all files are closed by now.
  std::cout.flush();
  std::fflush(stderr);
  std::_Exit(code);
}
