// The readers of readers.cpp under randomly changed files for a given time, without a compiler's fuzzing engine: the
// minute that each test run spends on them (tests/judged/test_fuzz.py). tools/fuzz.sh searches deeper, guided by
// coverage.
//
//   fuzz_readers SECONDS CORPUS FOUND [SEED]
//   fuzz_readers READER FILE                  gives a reader one file, without limits
//
// CORPUS/<reader>/ holds files to start from: fuzz/corpus. An input that brings the program down is left in FOUND.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/readers.h"

namespace {

constexpr std::size_t kLargest = 64 << 10;
constexpr unsigned kSeconds = 5;  // of CPU, for one input
constexpr rlim_t kMemory = rlim_t{1} << 30;

using Input = std::vector<std::byte>;

Input current;           // the present input of the reader
std::string found_path;  // where it is left if that ends the program
std::string found_prefix;

void keep_input() {
  if (std::FILE* file = std::fopen(found_path.c_str(), "wb")) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "fuzz: the input is in %s\n", found_path.c_str());
  }
}

void on_signal(int number) {
  if (number == SIGPROF) {
    std::fprintf(stderr, "fuzz: a reader takes more than %u s\n", kSeconds);
  } else {
    std::fprintf(stderr, "fuzz: a reader ends with signal %d\n", number);
  }
  keep_input();
  _exit(1);
}

void limit_time(unsigned seconds) {
  const itimerval timer{{0, 0}, {static_cast<time_t>(seconds), 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

Input read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

template <typename Bytes>
auto at_index(Bytes& bytes, std::size_t index) {
  return bytes.begin() + static_cast<std::ptrdiff_t>(index);
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }

  Input mutate(Input input, const Input& other) {
    for (std::size_t left = std::size_t{1} << below(4); left > 0; --left) {
      if (input.empty()) input.resize(1);
      const std::size_t at = below(input.size());
      const std::size_t count = 1 + below(std::min<std::size_t>(input.size() - at, 64));
      switch (below(7)) {
        case 0: input[at] ^= std::byte{1} << static_cast<int>(below(8)); break;
        case 1: input[at] = static_cast<std::byte>(below(256)); break;
        case 2:  // an extreme length, count or offset, in either byte order
          write_number(input, at);
          break;
        case 3: input.erase(at_index(input, at), at_index(input, at + count)); break;
        case 4: {
          const Input part(at_index(input, at), at_index(input, at + count));
          input.insert(at_index(input, below(input.size())), part.begin(), part.end());
          break;
        }
        case 5: input.resize(at); break;
        default:  // a part of another file of the kind
          if (!other.empty()) {
            const std::size_t from = below(other.size());
            const std::size_t size = std::min({other.size() - from, input.size() - at, count});
            std::copy_n(at_index(other, from), size, at_index(input, at));
          }
      }
    }
    if (input.size() > kLargest) input.resize(kLargest);
    return input;
  }

 private:
  void write_number(Input& input, std::size_t at) {
    constexpr std::uint64_t kNumbers[] = {0,
                                          1,
                                          0x7f,
                                          0xff,
                                          0x7fff,
                                          0xffff,
                                          0x7fffffff,
                                          0x80000000,
                                          0xffffffff,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0xffffffffffffffff};
    const std::uint64_t number = kNumbers[below(std::size(kNumbers))];
    const std::size_t width = std::min(std::size_t{1} << below(4), input.size() - at);
    const bool big = below(2) == 1;
    for (std::size_t i = 0; i < width; ++i) {
      input[at + (big ? width - 1 - i : i)] = static_cast<std::byte>(number >> (8 * i));
    }
  }

  std::mt19937_64 random_;
};

struct Reader {
  std::string name;
  std::vector<Input> inputs;
  std::size_t runs = 0;
};

void run(Reader& reader, const Input& input) {
  Input(input).swap(current);  // of just this size, so that a sanitizer sees a read beyond its end
  found_path = found_prefix + reader.name;
  ++reader.runs;
  limit_time(kSeconds);
  run_reader(reader.name, current);
  limit_time(0);
}

void add_files(const std::filesystem::path& folder, std::vector<Input>& inputs) {
  for (const auto& file : std::filesystem::directory_iterator(folder)) inputs.push_back(read_file(file.path()));
}

// A reader without its own folder, which reads every format, starts from the files of all.
std::vector<Reader> readers_of(const std::filesystem::path& folder) {
  std::vector<Reader> readers;
  for (const std::string& name : reader_names()) {
    Reader& reader = readers.emplace_back(Reader{name, {}});
    if (std::filesystem::is_directory(folder / name)) {
      add_files(folder / name, reader.inputs);
    } else {
      for (const auto& kind : std::filesystem::directory_iterator(folder)) add_files(kind.path(), reader.inputs);
    }
  }
  return readers;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    run_reader(argv[1], read_file(argv[2]));
    return 0;
  }
  if (argc < 4) {
    std::fprintf(stderr, "usage: fuzz_readers SECONDS CORPUS FOUND [SEED] | fuzz_readers READER FILE\n");
    return 2;
  }
  const std::uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : std::random_device()();
  std::printf("fuzz: seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::filesystem::create_directories(argv[3]);
  found_prefix = std::string(argv[3]) + "/" + std::to_string(seed) + "-";
  std::vector<Reader> readers = readers_of(argv[2]);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(keep_input);
#else
  // An allocation beyond it throws std::bad_alloc, which no reader may let out.
  const rlimit memory{kMemory, kMemory};
  setrlimit(RLIMIT_AS, &memory);
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, on_signal);
#endif
  for (const int number : {SIGPROF, SIGABRT}) std::signal(number, on_signal);
  Mutator mutator(seed);
  for (Reader& reader : readers) {  // the files themselves: among them are those that brought a reader down
    for (const Input& input : reader.inputs) run(reader, input);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::strtol(argv[1], nullptr, 10));
  while (std::chrono::steady_clock::now() < end) {
    for (Reader& reader : readers) {
      for (int i = 0; i < 100; ++i) {
        const Input& start = reader.inputs[mutator.below(reader.inputs.size())];
        run(reader, mutator.mutate(start, reader.inputs[mutator.below(reader.inputs.size())]));
      }
    }
  }
  for (const Reader& reader : readers) {
    std::printf("fuzz: %s: %zu inputs\n", reader.name.c_str(), reader.runs);
  }
  return 0;
}
