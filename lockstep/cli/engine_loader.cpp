#include "lockstep/cli/engine_loader_internal.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <filesystem>
#include <string_view>

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
  throw_not_found(
      fmt::format("lockstep-engine.so was not found next to {}; build or install all of lockstep", here.string()));
}

// LibTorch's registration walks through its code and constants once; the pages stay in the system's cache, but need not
// count as this process's memory. Pages that are used again return by themselves.
int forget_startup_pages(dl_phdr_info* library, std::size_t, void*) {
  if (std::string_view(library->dlpi_name).find("libtorch_cpu") == std::string_view::npos) return 0;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
    const std::uintptr_t begin = (library->dlpi_addr + part.p_vaddr) / page * page,
                         end = library->dlpi_addr + part.p_vaddr + part.p_memsz;
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 1;
}

}  // namespace

int run_in_engine(const std::string& command, const Arguments& arguments) {
  const auto path = engine_path();
  void* module = dlopen(path.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (!module) throw_internal(fmt::format("{} cannot be loaded: {}", path.string(), dlerror()));
  dl_iterate_phdr(forget_startup_pages, nullptr);
  using Run = int (*)(const std::string&, const Arguments&);
  const auto run = reinterpret_cast<Run>(dlsym(module, "lockstep_engine_run"));
  if (!run) throw_internal(fmt::format("{} has no commands: {}", path.string(), dlerror()));
  return run(command, arguments);
}

}  // namespace lockstep::cli
