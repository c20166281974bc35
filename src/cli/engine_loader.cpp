#include "lockstep/cli/engine_loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <filesystem>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

std::filesystem::path engine_path() {
  std::error_code error;
  const auto here = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* place : {"../lib", ".", "../lib/x86_64-linux-gnu", "../lib64"}) {
    const auto path = here / place / "lockstep-engine.so";
    if (std::filesystem::exists(path, error)) return path;
  }
  throw_not_found(fmt::format("lockstep-engine.so is not beside {}: build or install the whole of lockstep", here.string()));
}

}  // namespace

int run_in_engine(const std::string& command, const Arguments& arguments) {
  const auto path = engine_path();
  void* module = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (!module) throw_internal(fmt::format("{} cannot be loaded: {}", path.string(), dlerror()));
  using Run = int (*)(const std::string&, const Arguments&);
  const auto run = reinterpret_cast<Run>(dlsym(module, "lockstep_engine_run"));
  if (!run) throw_internal(fmt::format("{} has no commands: {}", path.string(), dlerror()));
  return run(command, arguments);
}

}  // namespace lockstep::cli
