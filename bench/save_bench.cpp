// The cost of saves, compared with the limits of the machine. Run by each worker of a job (TF_CONFIG) with a folder on
// the disk of interest, and perhaps megabytes; the chief prints seconds, the least of several, as JSON:
//   durable   a plain file written and synced          together  a checkpoint of all workers, of one state
//   memcpy    one copy of the state                    stall     what an asynchronous save takes of one worker's time
//   one, all  restoring by the chief alone, and by all workers
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "lockstep/base/error.h"

namespace ls = lockstep;
namespace fs = std::filesystem;

namespace {

constexpr int kRounds = 5;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs works on one worker or on all, which wait for each other before and after.
class Clock {
 public:
  explicit Clock(ls::collectives::Communicator& group) : group_(group) {}

  // The least of several, each after `prepare`, which the chief runs.
  double all(const std::function<void()>& work, const std::function<void()>& prepare = {}) const {
    double least = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      if (prepare && group_.rank() == 0) prepare();
      group_.barrier();
      least = std::min(least, seconds([&] {
                         work();
                         group_.barrier();
                       }));
    }
    return least;
  }
  double chief(const std::function<void()>& work, const std::function<void()>& prepare = {}) const {
    const auto of_chief = [&](const std::function<void()>& fn) {
      return [&] {
        if (fn && group_.rank() == 0) fn();
      };
    };
    return all(of_chief(work), of_chief(prepare));
  }

 private:
  ls::collectives::Communicator& group_;
};

struct State {
  explicit State(std::int64_t megabytes) {
    for (std::int64_t i = 0; i < megabytes; i += 8) {
      variables.push_back(ls::distribute::Variable::create(
          ls::Tensor::full(ls::Shape{2048, 1024}, static_cast<double>(i)), {.name = "v"}));
      items.emplace_back(variables.back());
    }
  }
  std::vector<ls::distribute::VariablePtr> variables;
  std::vector<ls::train::Tracked> items;
};

void durable(const std::string& path, const std::vector<char>& bytes) {
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  for (std::size_t at = 0; at < bytes.size();) {
    const auto wrote = ::write(file, bytes.data() + at, std::min<std::size_t>(bytes.size() - at, 8 << 20));
    if (wrote <= 0) std::abort();
    at += static_cast<std::size_t>(wrote);
  }
  ::fsync(file);
  ::close(file);
}

void run(const fs::path& folder, std::int64_t megabytes) {
  const ls::distribute::MultiWorkerMirroredStrategy strategy;
  const ls::collectives::CommunicatorPtr workers = strategy.workers();
  if (!workers) ls::throw_invalid_argument("there are no other workers: set TF_CONFIG");
  const bool chief = workers->rank() == 0;
  const Clock clock(*workers);
  fs::create_directories(folder);
  const auto clean = [&] {
    for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry);
    ::sync();
  };
  const std::vector<char> bytes(chief ? static_cast<std::size_t>(megabytes) << 20 : 0, 'x');
  std::vector<char> target(bytes.size());
  const State state(megabytes);
  const std::string prefix = (folder / "ckpt").string();
  const ls::train::Checkpoint checkpoint({{"v", state.items}});
  const ls::train::CheckpointOptions together{.workers = workers};

  const double raw = clock.chief([&] { durable((folder / "raw").string(), bytes); }, clean);
  const double shared = clock.all([&] { checkpoint.write(prefix, together); }, clean);
  std::uintmax_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder)) total += entry.file_size();
  const double one = clock.chief([&] { checkpoint.read(prefix).expect_partial(); });
  const double all = clock.all([&] { checkpoint.read(prefix, together).expect_partial(); });
  const double copy = clock.chief([&] { std::memcpy(target.data(), bytes.data(), bytes.size()); });
  const double stall =
      clock.chief([&] { checkpoint.write(prefix, {.enable_async = true}); }, [&] { checkpoint.wait(); });
  if (!chief) return;
  checkpoint.wait();
  fs::remove_all(folder);
  fmt::print(
      "{{\"megabytes\": {}, \"durable\": {:.4f}, \"together\": {:.4f}, \"bytes_of_one_copy\": {:.4f}, \"one\": {:.4f}, "
      "\"all\": {:.4f}, \"memcpy\": {:.4f}, \"stall\": {:.4f}}}\n",
      megabytes, raw, shared, static_cast<double>(total) / static_cast<double>(bytes.size()), one, all, copy, stall);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(fs::path(argc > 1 ? argv[1] : "/tmp") / "save_bench", argc > 2 ? std::atoll(argv[2]) : 512);
  } catch (const ls::Error& e) {
    fmt::print(stderr, "save_bench: {}\n", e.message());
    return 1;
  }
  return 0;
}
