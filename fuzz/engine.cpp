// The entry points of libFuzzer. All targets are one program under several names, fuzz_<reader>, so that it is compiled
// once.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "fuzz/readers.h"

namespace {
std::string reader;
}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  const std::string program = std::filesystem::path((*argv)[0]).filename();
  for (const std::string& name : reader_names()) {
    if (program == "fuzz_" + name) reader = name;
  }
  if (reader.empty()) {
    std::fprintf(stderr, "%s: the program's name must be fuzz_<reader>\n", program.c_str());
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of just this size, so that a sanitizer sees a read beyond its end.
  const std::vector<std::byte> copy(reinterpret_cast<const std::byte*>(data),
                                    reinterpret_cast<const std::byte*>(data) + size);
  run_reader(reader, copy);
  return 0;
}
