#include "lockstep/collectives/health_internal.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "lockstep/collectives/heartbeat_board_internal.h"

namespace lockstep::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr const char* kFaultKey = "fault";
constexpr const char* kReportKey = "health";
// Set when a rank sends its heartbeats itself because its leader is silent.
constexpr const char* kDirectKey = "direct";
constexpr std::size_t kMostListed = 32;  // of the ranks in a report
constexpr const char* kLeft = "left";
constexpr milliseconds kSeeOff{3000};
constexpr int kSilentBeats = 4;  // so many missed beats identify the worker that broke a connection
constexpr int kLeaderBeats = 2;  // after so many missed beats of the leader, the ranks of its machine use the store

std::string beat_key(int rank) { return "beat/" + std::to_string(rank); }

// Heartbeats are "NUMBER COLLECTIVE", or "left"; that of a leader has an entry for each other rank of its machine. The
// report of rank 0 is "ROUND COMMON" with an entry for each rank that it lists.
struct Entry {
  std::size_t rank = 0;
  std::int64_t number = 0;  // of the heartbeat; in reports milliseconds of silence
  std::uint64_t collective = 0;
  bool left = false;
};

std::string entry_text(const Entry& entry) {
  return fmt::format(" {}:{}:{}:{}", entry.rank, entry.number, entry.collective, entry.left ? 1 : 0);
}

// The rest of a text; malformed entries and those of other ranks than 0 … ranks - 1 are left out.
std::vector<Entry> read_entries(std::istream& words, std::size_t ranks) {
  std::vector<Entry> entries;
  for (std::string word; words >> word;) {
    Entry entry;
    int left = 0;
    if (std::sscanf(word.c_str(), "%zu:%" SCNd64 ":%" SCNu64 ":%d", &entry.rank, &entry.number, &entry.collective,
                    &left) != 4 ||
        entry.rank >= ranks)
      continue;
    entry.left = left != 0;
    entries.push_back(entry);
  }
  return entries;
}

}  // namespace

// Outlives the monitor while the thread is inside the store, which may be for ever.
struct HealthMonitor::Shared {
  Options options;
  std::unique_ptr<JobStore> store;

  std::mutex mutex;
  std::condition_variable changed;
  bool started = false;
  bool stop = false;
  std::atomic<std::uint64_t> collective{0};
  std::optional<Fault> fault;
  bool fault_published = false;
  bool store_lost = false;
  bool gone = false;
  bool left = false;         // leave() was called
  std::uint64_t rounds = 0;  // done
  std::string report;        // the last one of rank 0
  int hurried = 0;           // rounds that are to follow at once
  struct Peer {
    std::uint64_t beat = 0;  // at rank 0: the number of the last one
    Clock::time_point heard;
    std::uint64_t collective = 0;
    bool left = false;
    milliseconds silent() const { return std::chrono::duration_cast<milliseconds>(Clock::now() - heard); }
  };
  std::vector<Peer> peers;
  Clock::time_point last_round = Clock::now();
  // After use_machines().
  std::optional<Machines> machines;
  std::vector<std::size_t> leader_of;   // the rank of each rank's leader
  std::optional<HeartbeatBoard> board;  // none for a rank that is alone on its machine
  bool direct = false;                  // at rank 0: all ranks are read, as some leader was silent
  std::uint64_t leader_beat = 0;        // of this rank's leader on the board
  Clock::time_point leader_heard;

  explicit Shared(Options given) : options(std::move(given)), peers(options.names.size()) {}
  void run();
  void round(std::uint64_t number);
  std::vector<std::size_t> ranks_in_store() const;
  bool leader_is_silent();
  void end_round(const std::string& published);
  void see_off();
  milliseconds silence_of(std::size_t rank) const;
  void note_beats(const std::vector<std::size_t>& ranks, const std::vector<std::string>& beats);
  void note_beat(std::size_t rank, const HeartbeatBoard::Beat& beat);
  std::string make_report(std::uint64_t number) const;
  void note_report(const std::string& text);
  void check_silence();
  Fault lost(std::size_t rank, milliseconds silent) const;
  Fault left_early(std::size_t rank) const;
  std::optional<Fault> most_silent(milliseconds limit) const;
  void set_fault(Fault found);
  void await_publication(std::unique_lock<std::mutex>& lock);
};

Fault HealthMonitor::Shared::lost(std::size_t rank, milliseconds silent) const {
  return {Code::kUnavailable, fmt::format("{} is lost: no heartbeat for {:.1f} s (killed, stopped, or disconnected)",
                                          options.names[rank], seconds(silent))};
}

Fault HealthMonitor::Shared::left_early(std::size_t rank) const {
  return {Code::kUnavailable, fmt::format("{} has ended its program while others still work", options.names[rank])};
}

// Returns when the others can read the fault, or cannot any more.
void HealthMonitor::Shared::await_publication(std::unique_lock<std::mutex>& lock) {
  changed.wait_for(lock, milliseconds(1000), [&] { return fault_published || store_lost; });
}

// The worker that has been silent for longest, and for longer than `limit`. While rank 0 does not answer, nothing is
// known of the others.
std::optional<Fault> HealthMonitor::Shared::most_silent(milliseconds limit) const {
  const auto unanswered = std::chrono::duration_cast<milliseconds>(Clock::now() - last_round);
  if (unanswered > limit) return options.rank == 0 ? std::nullopt : std::optional(lost(0, unanswered));
  std::optional<Fault> found;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const milliseconds silent = silence_of(i);
    if (static_cast<int>(i) == options.rank || peers[i].left || silent <= limit) continue;
    limit = silent;
    found = lost(i, silent);
  }
  return found;
}

void HealthMonitor::Shared::set_fault(Fault found) {
  if (!fault) fault = std::move(found);
  changed.notify_all();
}

// At rank 0: how long a rank has been silent, without the time for which only the leader of its machine was. When the
// leader is lost, the other ranks of its machine need a few intervals until they send heartbeats themselves.
milliseconds HealthMonitor::Shared::silence_of(std::size_t rank) const {
  const milliseconds silent = peers[rank].silent();
  if (options.rank != 0 || leader_of.empty() || leader_of[rank] == rank) return silent;
  const milliseconds of_leader = peers[leader_of[rank]].silent();
  if (of_leader - silent > options.interval / 2) return silent;  // it sends its heartbeats itself
  return std::max(silent - of_leader, milliseconds(0)) +
         std::max(of_leader - (kLeaderBeats + 1) * options.interval, milliseconds(0));
}

// The ranks whose heartbeats rank 0 reads in the store.
std::vector<std::size_t> HealthMonitor::Shared::ranks_in_store() const {
  std::vector<std::size_t> ranks;
  for (std::size_t i = 0; i < peers.size(); ++i)
    if (direct || leader_of.empty() || leader_of[i] == i) ranks.push_back(i);
  return ranks;
}

// At rank 0, with the mutex held, as all below.
void HealthMonitor::Shared::note_beat(std::size_t rank, const HeartbeatBoard::Beat& beat) {
  Peer& peer = peers[rank];
  peer.left = peer.left || beat.left;
  if (beat.number <= peer.beat) return;
  peer.beat = beat.number;
  peer.heard = Clock::now();
  peer.collective = beat.collective;
}

void HealthMonitor::Shared::note_beats(const std::vector<std::size_t>& ranks, const std::vector<std::string>& beats) {
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    std::istringstream words(beats[k]);
    HeartbeatBoard::Beat beat;
    beat.left = !(words >> beat.number >> beat.collective);
    note_beat(ranks[k], beat);
    for (const Entry& entry : read_entries(words, peers.size()))
      note_beat(entry.rank, {static_cast<std::uint64_t>(entry.number), entry.collective, entry.left});
  }
}

// The report of rank 0: the silence of ranks and their last collectives. The ranks that are not listed are well and
// have reached collective COMMON. In a healthy job of any size this is short.
std::string HealthMonitor::Shared::make_report(std::uint64_t number) const {
  std::vector<std::size_t> order(peers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank_of = [&](std::size_t i) {
    const Peer& peer = peers[i];
    const milliseconds silence = silence_of(i);
    const bool silent = !peer.left && silence > 2 * options.interval;
    return std::tuple(!peer.left, !silent, silent ? -silence.count() : 0, peer.collective);
  };
  const std::size_t listed = std::min(kMostListed, peers.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(listed), order.end(),
                    [&](std::size_t a, std::size_t b) { return rank_of(a) < rank_of(b); });
  std::uint64_t common = UINT64_MAX;
  for (std::size_t k = listed; k < order.size(); ++k) common = std::min(common, peers[order[k]].collective);
  if (common == UINT64_MAX) common = 0;
  std::string text = fmt::format("{} {}", number, common);
  for (std::size_t k = 0; k < listed; ++k) {
    const Peer& peer = peers[order[k]];
    text += entry_text({order[k], silence_of(order[k]).count(), peer.collective, peer.left});
  }
  return text;
}

// At the other ranks.
void HealthMonitor::Shared::note_report(const std::string& text) {
  if (text == report) return;  // rank 0 has made no round since the last one
  report = text;
  std::istringstream words(text);
  std::uint64_t number = 0, common = 0;
  words >> number >> common;
  const Clock::time_point now = Clock::now();
  for (Peer& peer : peers) {
    peer.heard = now;
    peer.collective = std::max(peer.collective, common);
  }
  for (const Entry& entry : read_entries(words, peers.size())) {
    Peer& peer = peers[entry.rank];
    peer.heard = now - milliseconds(entry.number);
    peer.collective = entry.collective;
    peer.left = entry.left;
  }
  peers[0].heard = now;
  last_round = now;
}

void HealthMonitor::Shared::check_silence() {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const milliseconds silent = silence_of(i);
    if (static_cast<int>(i) != options.rank && !peers[i].left && silent > options.timeout) set_fault(lost(i, silent));
  }
}

// Of the leader of this rank's machine, for a rank that does not lead.
bool HealthMonitor::Shared::leader_is_silent() {
  const HeartbeatBoard::Beat leader = board->get(0);
  if (std::exchange(leader_beat, leader.number) != leader.number) leader_heard = Clock::now();
  return leader.left || Clock::now() - leader_heard > kLeaderBeats * options.interval;
}

void HealthMonitor::Shared::end_round(const std::string& published) {
  check_silence();
  if (!published.empty()) set_fault(parse_fault(published));
  changed.notify_all();
}

void HealthMonitor::Shared::round(std::uint64_t number) {
  std::unique_lock lock(mutex);
  const HeartbeatBoard::Beat beat{number, collective.load(), false};
  if (board) board->set(machines->place, beat);
  const std::optional<Fault> own = fault_published ? std::nullopt : fault;
  const bool follows = board && !machines->leads(), replaces_leader = follows && leader_is_silent();
  if (follows && !replaces_leader && !own && hurried == 0) {
    const HeartbeatBoard::Post post = board->read();
    note_report(post.report);
    return end_round(post.fault);
  }
  std::string text = fmt::format("{} {}", beat.number, beat.collective);
  std::optional<HeartbeatBoard> led = follows ? std::nullopt : board;
  for (std::size_t place = 1; led && place < machines->local().size(); ++place) {
    const HeartbeatBoard::Beat theirs = led->get(static_cast<int>(place));
    text += entry_text({static_cast<std::size_t>(machines->local()[place]), static_cast<std::int64_t>(theirs.number),
                        theirs.collective, theirs.left});
  }
  const bool first = options.rank == 0;
  const std::vector<std::size_t> ranks = first ? ranks_in_store() : std::vector<std::size_t>();
  lock.unlock();

  std::vector<std::string> keys;
  for (const std::size_t rank : ranks) keys.push_back(beat_key(static_cast<int>(rank)));
  keys.emplace_back(first ? kDirectKey : kReportKey);
  keys.emplace_back(kFaultKey);
  if (own) store->set_once(kFaultKey, fault_text(*own));
  if (replaces_leader) store->set(kDirectKey, "1");
  store->set(beat_key(options.rank), text);
  const std::vector<std::string> values = store->get_all(keys);

  lock.lock();
  if (own) fault_published = true;
  std::string reported = values[ranks.size()];
  if (first) {
    note_beats(ranks, values);
    direct = !reported.empty();
    reported = make_report(number);
    last_round = Clock::now();
  } else {
    note_report(reported);
  }
  end_round(values.back());
  lock.unlock();
  if (first) store->set(kReportKey, reported);
  if (led) led->post(reported, values.back());
}

void HealthMonitor::Shared::run() {
  std::uint64_t number = 1;
  std::unique_lock lock(mutex);
  while (!stop && !store_lost) {
    lock.unlock();
    try {
      round(number++);
      lock.lock();
    } catch (const std::exception&) {
      lock.lock();
      store_lost = true;
      changed.notify_all();
      return;
    }
    ++rounds;
    changed.notify_all();
    changed.wait_for(lock, options.interval, [&] { return stop || hurried > 0 || (fault && !fault_published); });
    hurried = std::max(0, hurried - 1);
  }
  lock.unlock();
  try {
    if (board) board->set(machines->place, {number, collective.load(), true});
    store->set(beat_key(options.rank), kLeft);
    if (options.rank == 0) see_off();
  } catch (const std::exception&) {  // the job has ended in another way
  }
  lock.lock();
  gone = true;
  changed.notify_all();
}

// Until all other ranks have left or are lost.
void HealthMonitor::Shared::see_off() {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < peers.size(); ++i) keys.push_back(beat_key(static_cast<int>(i)));
  keys.emplace_back(kFaultKey);
  for (const Clock::time_point end = Clock::now() + kSeeOff; Clock::now() < end;) {
    const std::vector<std::string> values = store->get_all(keys);
    if (!values.back().empty()) return;
    if (std::all_of(values.begin(), values.end() - 1, [](const std::string& beat) { return beat == kLeft; })) return;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

HealthMonitor::HealthMonitor(std::unique_ptr<JobStore> store, Options options)
    : shared_(std::make_shared<Shared>(std::move(options))) {
  shared_->store = std::move(store);
}

HealthMonitor::~HealthMonitor() { leave(); }

void HealthMonitor::leave() {
  std::unique_lock lock(shared_->mutex);
  if (!shared_->fault) shared_->stop = true;
  shared_->changed.notify_all();
  if (!shared_->started || std::exchange(shared_->left, true)) return;
  if (shared_->fault) {
    // Time for the others to learn the reason: from the store, which goes with rank 0.
    shared_->await_publication(lock);
    lock.unlock();
    if (shared_->options.rank == 0) std::this_thread::sleep_for(2 * shared_->options.interval);
    return;
  }
  shared_->changed.wait_for(lock, kSeeOff + milliseconds(500), [&] { return shared_->gone || shared_->store_lost; });
}

void HealthMonitor::announce(JobStore& store, int rank) {
  if (rank == 0) {
    store.set(kFaultKey, "");
    store.set(kReportKey, "0 0");
    store.set(kDirectKey, "");
  }
  store.set(beat_key(rank), "0 0");
}

void HealthMonitor::report_lost(JobStore& store, const std::string& message) {
  store.set_once(kFaultKey, fault_text({Code::kUnavailable, message}));
}

void HealthMonitor::start() {
  for (auto& peer : shared_->peers) peer.heard = Clock::now();
  shared_->last_round = Clock::now();
  shared_->started = true;
  std::thread([shared = shared_] { shared->run(); }).detach();
}

void HealthMonitor::use_machines(const Machines& machines, std::shared_ptr<std::byte> board) {
  const std::lock_guard lock(shared_->mutex);
  shared_->machines = machines;
  shared_->leader_of.resize(shared_->peers.size());
  for (const std::vector<int>& local : machines.ranks)
    for (const int rank : local)
      shared_->leader_of[static_cast<std::size_t>(rank)] = static_cast<std::size_t>(local[0]);
  if (board) shared_->board.emplace(std::move(board));
  shared_->leader_heard = Clock::now();
}

std::uint64_t HealthMonitor::next_collective() { return ++shared_->collective; }

std::optional<Fault> HealthMonitor::fault() const {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->fault) return shared_->fault;
  const auto silent = std::chrono::duration_cast<milliseconds>(Clock::now() - shared_->last_round);
  if (shared_->store_lost) {
    shared_->fault = Fault{
        Code::kUnavailable,
        fmt::format("{} is lost: its connection is closed (it was killed or has ended)", shared_->options.names[0])};
  } else if (shared_->options.rank != 0 && silent > shared_->options.timeout) {
    shared_->fault = shared_->lost(0, silent);
  }
  return shared_->fault;
}

Fault HealthMonitor::diagnose(const std::string& reason) {
  const auto window = kSilentBeats * shared_->options.interval;
  const Clock::time_point end = Clock::now() + 2 * window;
  while (Clock::now() < end) {
    if (const auto known = fault()) return *known;
    std::unique_lock lock(shared_->mutex);
    for (std::size_t i = 0; i < shared_->peers.size(); ++i) {
      const milliseconds silent = shared_->silence_of(i);
      if (static_cast<int>(i) == shared_->options.rank) continue;
      if (shared_->peers[i].left) {
        shared_->set_fault(shared_->left_early(i));
        return *shared_->fault;
      }
      if (silent > window) {
        shared_->set_fault(shared_->lost(i, silent));
        return *shared_->fault;
      }
    }
    shared_->changed.wait_for(lock, milliseconds(100));
  }
  return {Code::kUnavailable, fmt::format("a connection between workers broke: {}", reason)};
}

Fault HealthMonitor::overdue(std::uint64_t number, milliseconds waited) {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->fault) return *shared_->fault;
  // A line that was cut shows as silence before it is as long as the timeout.
  if (const auto silent =
          shared_->most_silent(std::min(shared_->options.timeout, kSilentBeats * shared_->options.interval))) {
    shared_->set_fault(*silent);
    return *silent;
  }
  std::vector<std::string> late;
  for (std::size_t i = 0; i < shared_->peers.size(); ++i) {
    if (static_cast<int>(i) == shared_->options.rank || shared_->peers[i].collective >= number) continue;
    late.push_back(shared_->options.names[i]);
  }
  if (late.empty()) late.emplace_back("the network between the workers");
  shared_->set_fault(
      {Code::kDeadlineExceeded,
       fmt::format(
           "{} did not arrive at the step the others are at within {:.1f} s; it is too slow, stuck, or runs another "
           "program (a longer time can be set)",
           fmt::join(late, ", "), seconds(waited))});
  return *shared_->fault;
}

Fault HealthMonitor::ended(int rank) {
  std::unique_lock lock(shared_->mutex);
  shared_->hurried = 2;  // the first may have begun before the process ended
  const std::uint64_t before = shared_->rounds;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, 2 * shared_->options.interval,
                            [&] { return shared_->fault || shared_->store_lost || shared_->rounds >= before + 2; });
  shared_->set_fault({Code::kUnavailable, fmt::format("{} is lost: its process has ended (killed or crashed)",
                                                      shared_->options.names[static_cast<std::size_t>(rank)])});
  return *shared_->fault;
}

std::optional<Fault> HealthMonitor::departed(std::uint64_t number) {
  const std::lock_guard lock(shared_->mutex);
  for (std::size_t i = 0; i < shared_->peers.size(); ++i) {
    if (!shared_->peers[i].left || shared_->peers[i].collective >= number) continue;
    shared_->set_fault(shared_->left_early(i));
    return shared_->fault;
  }
  return std::nullopt;
}

void HealthMonitor::publish(const Fault& fault) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->fault) return;
  shared_->set_fault(fault);
  shared_->await_publication(lock);
}

}  // namespace lockstep::collectives
