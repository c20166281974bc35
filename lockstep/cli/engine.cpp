// The commands that compute, in a module that the tool loads.
#include <map>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/engine_commands_internal.h"
#include "lockstep/cli/worker_job_internal.h"
#include "lockstep/ops/runtime.h"

// Looked up by name. Errors are exceptions.
extern "C" int lockstep_engine_run(const std::string& command, const lockstep::cli::Arguments& arguments) {
  using namespace lockstep;
  static const std::map<std::string, int (*)(const cli::Arguments&)> kCommands = {
      {"predict", cli::predict}, {"evaluate", cli::evaluate},     {"fit", cli::fit},
      {"summary", cli::summary}, {"convert", cli::convert_model}, {"rewrite", cli::rewrite_model},
      {"ops", cli::list_ops},    {"new", cli::new_model},         {"plot", cli::plot},
  };
  if (cli::is_class_family(command)) return cli::list_classes(command, arguments);
  configure_runtime();
  const auto found = kCommands.find(command);
  if (found == kCommands.end()) throw_internal(fmt::format("the engine has no command '{}'", command));
  try {
    const int status = found->second(arguments);
    cli::leave_job();
    return status;
  } catch (const std::exception& error) {
    cli::abort_peers(error.what());
    cli::leave_job();
    throw;
  }
}
