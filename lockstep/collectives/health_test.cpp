// Heartbeats of jobs on several machines, over a store in this process.
#include "lockstep/collectives/health_internal.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/collectives/heartbeat_board_internal.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kInterval{50}, kTimeout{1000};

struct StoredKeys {
  std::mutex mutex;
  std::map<std::string, std::string> values;
};

// A connection that counts its requests, and hangs while `cut` is set.
class TestStore final : public JobStore {
 public:
  struct Line {
    std::atomic<int> requests{0};
    std::atomic<bool> cut{false};
  };
  TestStore(std::shared_ptr<StoredKeys> keys, std::shared_ptr<Line> line)
      : keys_(std::move(keys)), line_(std::move(line)) {}
  void set(const std::string& key, const std::string& value) override {
    const auto lock = request();
    keys_->values[key] = value;
  }
  std::string get(const std::string& key) override { return get_all({key})[0]; }
  std::vector<std::string> get_all(const std::vector<std::string>& keys) override {
    const auto lock = request();
    std::vector<std::string> values;
    for (const std::string& key : keys) values.push_back(keys_->values.at(key));
    return values;
  }
  bool has(const std::string& key) override {
    const auto lock = request();
    return keys_->values.contains(key);
  }
  bool set_once(const std::string& key, const std::string& value) override {
    const auto lock = request();
    std::string& known = keys_->values[key];
    if (known.empty()) known = value;
    return known == value;
  }
  std::unique_ptr<JobStore> clone() override { return std::make_unique<TestStore>(keys_, line_); }

 private:
  std::unique_lock<std::mutex> request() {
    while (line_->cut) std::this_thread::sleep_for(milliseconds(5));
    ++line_->requests;
    return std::unique_lock(keys_->mutex);
  }
  std::shared_ptr<StoredKeys> keys_;
  std::shared_ptr<Line> line_;
};

// Two machines with four ranks each: 0 to 3 and 4 to 7.
class HealthOfMachines : public ::testing::Test {
 protected:
  static constexpr int kRanks = 8, kEach = 4;

  void SetUp() override {
    for (int rank = 0; rank < kRanks; ++rank) {
      lines_.push_back(std::make_shared<TestStore::Line>());
      TestStore store(keys_, lines_.back());
      HealthMonitor::announce(store, rank);
      machine_numbers_.push_back(rank / kEach);
    }
    for (int machine = 0; machine < kRanks / kEach; ++machine) {
      memory_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, HeartbeatBoard::bytes())), std::free);
      std::fill_n(memory_.back().get(), HeartbeatBoard::bytes(), std::byte{0});
    }
    std::vector<std::string> names;
    for (int rank = 0; rank < kRanks; ++rank) names.push_back("worker " + std::to_string(rank));
    for (int rank = 0; rank < kRanks; ++rank) {
      monitors_.push_back(
          std::make_unique<HealthMonitor>(std::make_unique<TestStore>(keys_, lines_[static_cast<std::size_t>(rank)]),
                                          HealthMonitor::Options{rank, names, kTimeout, kInterval}));
      monitors_.back()->start();
    }
  }
  void TearDown() override {
    for (const auto& line : lines_) line->cut = false;
    std::vector<std::thread> threads;
    for (auto& monitor : monitors_) threads.emplace_back([&monitor] { monitor.reset(); });
    for (std::thread& thread : threads) thread.join();
  }
  void use_machines(int rank) {
    monitors_[static_cast<std::size_t>(rank)]->use_machines(Machines::of(machine_numbers_, rank),
                                                            memory_[static_cast<std::size_t>(rank / kEach)]);
  }
  void use_machines() {
    for (int rank = 0; rank < kRanks; ++rank) use_machines(rank);
  }
  TestStore::Line& line(int rank) { return *lines_[static_cast<std::size_t>(rank)]; }
  HealthMonitor& monitor(int rank) { return *monitors_[static_cast<std::size_t>(rank)]; }
  // The fault that a rank knows at last.
  std::string fault_of(int rank) {
    for (int i = 0; i < 400; ++i) {
      if (const auto fault = monitor(rank).fault()) return fault->message;
      std::this_thread::sleep_for(milliseconds(20));
    }
    return "none";
  }

  std::shared_ptr<StoredKeys> keys_ = std::make_shared<StoredKeys>();
  std::vector<std::shared_ptr<TestStore::Line>> lines_;
  std::vector<int> machine_numbers_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<std::unique_ptr<HealthMonitor>> monitors_;
};

TEST_F(HealthOfMachines, OnlyLeadersUseTheStore) {
  use_machines();
  std::this_thread::sleep_for(6 * kInterval);
  std::vector<int> before;
  for (int rank = 0; rank < kRanks; ++rank) before.push_back(line(rank).requests);
  std::this_thread::sleep_for(2 * kTimeout);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int requests = line(rank).requests - before[static_cast<std::size_t>(rank)];
    if (rank % kEach == 0) {
      EXPECT_GT(requests, 0) << rank;
    } else {
      EXPECT_LE(requests, 4) << rank;  // a leader that the system keeps waiting counts as silent for a moment
    }
    EXPECT_FALSE(monitor(rank).fault()) << rank;
  }
}

TEST_F(HealthOfMachines, ALostLeaderIsNamedAndTheRanksOfItsMachineAreNot) {
  use_machines();
  std::this_thread::sleep_for(4 * kInterval);
  line(4).cut = true;
  for (const int rank : {0, 1, 2, 3, 5, 6, 7}) EXPECT_THAT(fault_of(rank), HasSubstr("worker 4 is lost")) << rank;
}

TEST_F(HealthOfMachines, ALostRankBehindALeaderIsNamed) {
  for (const int rank : {0, 1, 2, 3, 4, 5, 7}) use_machines(rank);  // 6 neither writes on the board nor to the store
  line(6).cut = true;
  for (const int rank : {0, 1, 4, 7}) EXPECT_THAT(fault_of(rank), HasSubstr("worker 6 is lost")) << rank;
}

TEST_F(HealthOfMachines, ADepartureBehindALeaderIsKnown) {
  use_machines();
  for (int i = 0; i < 3; ++i) monitor(6).next_collective();
  std::this_thread::sleep_for(4 * kInterval);
  monitor(6).leave();
  bool departed = false;
  for (int i = 0; i < 400 && !departed; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    EXPECT_FALSE(monitor(0).departed(3));
    departed = monitor(0).departed(4).has_value();  // this becomes a fault of rank 0
  }
  EXPECT_TRUE(departed);
  for (int rank = 1; rank < kRanks; ++rank) {
    if (rank == 6) continue;
    EXPECT_THAT(fault_of(rank), HasSubstr("worker 6 has ended its program")) << rank;
  }
}

TEST(HeartbeatBoard, ReadersSeeWholePosts) {
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(64, HeartbeatBoard::bytes())),
                                          std::free);
  std::fill_n(memory.get(), HeartbeatBoard::bytes(), std::byte{0});
  HeartbeatBoard board(memory);
  EXPECT_EQ(board.read().report, "");
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 20000; ++i) {
      const std::string text(static_cast<std::size_t>(i % 97), static_cast<char>('a' + i % 26));
      board.post(text, text);
    }
    done = true;
  });
  while (!done) {
    const auto post = board.read();
    ASSERT_EQ(post.report, post.fault);
    ASSERT_EQ(post.report.find_first_not_of(post.report.empty() ? 'a' : post.report[0]), std::string::npos);
  }
  writer.join();
  board.post(std::string(10000, 'x'), "");
  EXPECT_EQ(board.read().report.size(), HeartbeatBoard::kMaxText);
}

}  // namespace
}  // namespace lockstep::collectives
