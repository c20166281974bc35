// What saves cost, beside what the machine can do: run with a folder on the disk of interest, and perhaps megabytes.
//   durable   a plain file written and synced          together  a checkpoint of 4 ranks (threads)
//   memcpy    one copy of the state                    stall     what an asynchronous save takes of the caller's time
//   one, four restoring by one rank and by four
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

#include "lockstep/collectives/thread_group.h"

namespace ls = lockstep;
namespace fs = std::filesystem;

namespace {

constexpr int kRanks = 4, kRounds = 5;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The least of several, each after `prepare`.
double best(const std::function<void()>& work, const std::function<void()>& prepare = {}) {
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    if (prepare) prepare();
    least = std::min(least, seconds(work));
  }
  return least;
}

struct State {
  explicit State(std::int64_t megabytes) {
    for (std::int64_t i = 0; i < megabytes; i += 8) {
      variables.push_back(ls::distribute::Variable::create(ls::Tensor::full(ls::Shape{2048, 1024}, static_cast<double>(i)), {.name = "v"}));
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

}  // namespace

int main(int argc, char** argv) {
  const fs::path folder = fs::path(argc > 1 ? argv[1] : "/tmp") / "save_bench";
  const std::int64_t megabytes = argc > 2 ? std::atoll(argv[2]) : 512;
  fs::create_directories(folder);
  const std::vector<char> bytes(static_cast<std::size_t>(megabytes) << 20, 'x');
  const auto clean = [&] {
    for (const auto& entry : fs::directory_iterator(folder)) fs::remove_all(entry);
    ::sync();
  };
  const double raw = best([&] { durable((folder / "raw").string(), bytes); }, clean);
  std::vector<State> states;
  for (int rank = 0; rank < kRanks; ++rank) states.emplace_back(megabytes);
  const std::string prefix = (folder / "ckpt").string();
  const auto all = [&](const std::function<void(const ls::train::Checkpoint&, const ls::train::CheckpointOptions&)>& work) {
    ls::collectives::run_ranks(kRanks, [&](ls::collectives::Communicator& group) {
      ls::train::CheckpointOptions options;
      options.workers = ls::collectives::CommunicatorPtr(ls::collectives::CommunicatorPtr(), &group);
      work(ls::train::Checkpoint({{"v", states[static_cast<std::size_t>(group.rank())].items}}), options);
    });
  };
  const double together = best([&] { all([&](const auto& checkpoint, const auto& options) { checkpoint.write(prefix, options); }); }, clean);
  std::uintmax_t total = 0;
  for (const auto& entry : fs::directory_iterator(folder)) total += entry.file_size();
  const ls::train::Checkpoint alone({{"v", states[0].items}});
  const double one = best([&] { alone.read(prefix).expect_partial(); });
  const double four = best([&] {
    all([&](const auto& checkpoint, const auto& options) { checkpoint.read(prefix, options).expect_partial(); });
  });
  std::vector<char> target(bytes.size());
  const double copy = best([&] { std::memcpy(target.data(), bytes.data(), bytes.size()); });
  const double stall = best([&] { alone.write(prefix, {.enable_async = true}); }, [&] { alone.wait(); });
  alone.wait();
  fs::remove_all(folder);
  fmt::print("{{\"megabytes\": {}, \"durable\": {:.4f}, \"together\": {:.4f}, \"bytes_of_one_copy\": {:.4f}, \"one\": {:.4f}, "
             "\"four\": {:.4f}, \"memcpy\": {:.4f}, \"stall\": {:.4f}}}\n",
             megabytes, raw, together, static_cast<double>(total) / static_cast<double>(bytes.size()), one, four, copy, stall);
  return 0;
}
