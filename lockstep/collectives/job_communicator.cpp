// Collectives between processes: through shared memory within a machine, over TCP between machines.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <numeric>
#include <thread>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/block_gather_internal.h"
#include "lockstep/collectives/element_sum_internal.h"
#include "lockstep/collectives/health_internal.h"
#include "lockstep/collectives/machines_internal.h"
#include "lockstep/collectives/peer_links_internal.h"
#include "lockstep/collectives/pipeline_internal.h"
#include "lockstep/collectives/process_watch_internal.h"
#include "lockstep/collectives/rendezvous_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLook{100};          // how often a waiting worker looks whether the others are well
constexpr const char* kMainGroup = "main";  // the name of a job's first group
constexpr std::size_t kFirst = 256;         // bytes of each rank that an all_gather carries in its first round
constexpr double kPartOfFree = 0.5;         // of the machine's memory, that others need too
// Bytes of a piece on its way through the pipeline: long enough that the parts of a ring of machines are not dominated
// by the latency of a message, and short enough that the stages overlap. A function of the number of machines only, as
// the order of addition depends on it.
constexpr std::size_t kPiece = 4 << 20, kPiecePerMachine = 256 << 10;

// What the communicators of one job share.
struct Job {
  ~Job() {
    if (health) health->leave();  // before the store goes
  }

  JobOptions options;
  Rendezvous rendezvous;
  std::unique_ptr<HealthMonitor> health;

  const std::string& name() const { return options.names[static_cast<std::size_t>(options.rank)]; }
  [[noreturn]] void raise(const Fault& fault) const {
    throw_error(fault.code, fmt::format("{}: {}", name(), fault.message));
  }
  void check() const {
    if (const auto fault = health->fault()) raise(*fault);
  }
};
using JobPtr = std::shared_ptr<Job>;

// Completion of some work in another thread.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string problem;

  void finish(std::string text) {
    const std::lock_guard lock(mutex);
    done = true;
    problem = std::move(text);
    changed.notify_all();
  }
};

// Waits for the signal while the others are well; `look` is called from time to time.
void await(const Job& job, Signal& signal, std::uint64_t number, milliseconds timeout,
           const std::function<void()>& look = {}) {
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(signal.mutex);
  while (!signal.changed.wait_for(lock, kLook, [&] { return signal.done; })) {
    job.check();
    if (look) look();
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    if (waited > timeout) job.raise(job.health->overdue(number, waited));
  }
  if (signal.problem.empty()) return;
  const std::string problem = signal.problem;
  lock.unlock();
  job.raise(job.health->diagnose(problem));
}

// A sum in memory under way. It looks at the addends' memory until it is waited for or dropped.
class MemorySum final : public Pending, public PendingSum {
 public:
  struct Result {
    std::vector<std::int64_t> shape;
    at::ScalarType type;
  };
  using Step = void (SharedMemory::*)(std::uint64_t, const SharedMemory::AbortCheck&);
  MemorySum(std::shared_ptr<SharedMemory> memory, std::uint64_t sum, std::function<void(Step)> go)
      : memory_(std::move(memory)), sum_(sum), go_(std::move(go)) {}
  ~MemorySum() override { memory_->abandon(sum_); }

  void wait() override { go_(&SharedMemory::finish); }
  void update_local_shard() override { go_(&SharedMemory::reduce); }
  Tensors wait(const Tensors& targets) override {
    Tensors sums;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i < updates_.size() && updates_[i].defined()) {
        sums.emplace_back();
        continue;
      }
      const bool given = i < targets.size() && targets[i].defined();
      sums.push_back(given ? targets[i]
                           : wrap(at::empty(results[i].shape, at::TensorOptions().dtype(results[i].type))));
      memory_->target(sum_, i, aten(sums.back()).data_ptr());
    }
    wait();
    return sums;
  }
  void update(std::size_t addend, ShardedUpdate update) override {
    updates_.resize(results.size());
    updates_[addend] = update.target;
    memory_->set_shard_update(sum_, addend, aten(update.target).mutable_data_ptr(),
                              [make = std::move(update.make)](std::size_t offset, std::size_t bytes, std::byte* piece) {
                                make(static_cast<std::int64_t>(offset / sizeof(float)),
                                     static_cast<std::int64_t>(bytes / sizeof(float)), reinterpret_cast<float*>(piece));
                              });
  }

  std::vector<Result> results;  // what wait(targets) makes
  at::Tensor in_place;          // what is summed in place

 private:
  std::shared_ptr<SharedMemory> memory_;
  std::uint64_t sum_;
  std::function<void(Step)> go_;
  Tensors updates_;  // the targets of updates computed from sums
};

// What the ranks of one machine share, and the connections of its leader.
struct Connections {
  SharedMachine shared;
  std::unique_ptr<PeerLinks> links;  // between the leaders of machines; null on other ranks
};

// The result of a group of one rank.
class Done final : public Pending {
 public:
  void wait() override {}
};

class JobCommunicator final : public Communicator,
                              public BlockGather,
                              public std::enable_shared_from_this<JobCommunicator> {
 public:
  // Connects the ranks under a name that is new in the job.
  JobCommunicator(JobPtr job, const std::string& name, bool share_memory) : job_(std::move(job)), name_(name) {
    Connections made = connect(name, share_memory);
    machines_ = std::move(made.shared.machines);
    memory_ = std::move(made.shared.memory);
    second_memory_ = std::move(made.shared.second_memory);
    for (const std::string& process : made.shared.processes)
      watches_.push_back(std::make_unique<ProcessWatch>(process));
    links_ = std::move(made.links);
    if (machines_.count() > 1) {
      if (name_ == kMainGroup) {
        job_->health->use_machines(
            machines_, memory_ ? std::shared_ptr<std::byte>(memory_, memory_->board()) : std::shared_ptr<std::byte>());
      }
      const bool several = machines_.local().size() > 1;
      pipeline_ = std::make_unique<Pipeline>(std::array<bool, Pipeline::kStages>{several, machines_.leads(), several});
    }
  }

  int rank() const override { return job_->options.rank; }
  int size() const override { return static_cast<int>(job_->options.names.size()); }
  std::string member_name(int rank) const override { return job_->options.names.at(static_cast<std::size_t>(rank)); }

  std::unique_ptr<Pending> all_reduce_async(const Tensor& value) override {
    const at::Tensor data = contiguous(value);
    if (!element_sum(value.dtype())) {
      throw_unimplemented(fmt::format("a sum over workers of dtype {} is not supported", dtype_name(value.dtype())));
    }
    if (size() == 1) return std::make_unique<Done>();
    if (pipeline_) return sum_in_pieces(data, value.dtype());
    auto sum = start_in_memory(memory_, {{data.data_ptr(), data.data_ptr(), data.nbytes()}}, value.dtype());
    sum->in_place = data;
    return sum;
  }

  std::unique_ptr<PendingSum> sum_async(std::vector<Addend> addends, Channel channel) override {
    if (!memory_ || pipeline_ || addends.empty() || !SharedMemory::can_sum(addends[0].value.dtype()))
      return Communicator::sum_async(std::move(addends), channel);
    std::vector<SharedMemory::Part> parts;
    std::vector<MemorySum::Result> results;
    for (const Addend& addend : addends) {
      const at::Tensor data = contiguous(addend.value);
      parts.push_back({addend.contributes ? data.data_ptr() : nullptr, nullptr, data.nbytes()});
      results.push_back({data.sizes().vec(), data.scalar_type()});
    }
    const bool gradients = channel == Channel::kGradients;
    auto sum =
        start_in_memory(gradients ? second_memory_ : memory_, std::move(parts), addends[0].value.dtype(), gradients);
    sum->results = std::move(results);
    return sum;
  }
  bool shares_memory() const override { return memory_ && !pipeline_; }
  std::shared_ptr<std::byte> shared_memory(std::size_t bytes) override {
    if (!shares_memory()) return nullptr;
    auto mapping = rank() == 0 ? SharedMapping::make(bytes, kPartOfFree) : nullptr;
    const std::string name = broadcast(mapping ? mapping->name() : "", 0);
    if (rank() != 0) mapping = SharedMapping::open(name, bytes);
    const std::vector<std::string> seen = all_gather(mapping ? "1" : "");
    if (mapping) mapping->unname();
    if (std::find(seen.begin(), seen.end(), "") != seen.end()) return nullptr;
    const std::shared_ptr<SharedMapping> held = std::move(mapping);
    return std::shared_ptr<std::byte>(held, held->data());
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    const auto ranks = static_cast<std::size_t>(size());
    // The length of each rank's bytes, and as many of them as fit.
    std::vector<std::byte> first(kFirst * ranks);
    std::byte* const own = first.data() + kFirst * static_cast<std::size_t>(rank());
    const std::uint64_t length = bytes.size();
    std::memcpy(own, &length, sizeof length);
    std::memcpy(own + sizeof length, bytes.data(), std::min(bytes.size(), kFirst - sizeof length));
    std::vector<std::size_t> ends(ranks);
    for (std::size_t i = 0; i < ranks; ++i) ends[i] = (i + 1) * kFirst;
    gather_in_place(first, ends);
    std::vector<std::size_t> lengths(ranks);
    for (std::size_t i = 0; i < ranks; ++i) {
      std::uint64_t theirs = 0;
      std::memcpy(&theirs, first.data() + i * kFirst, sizeof theirs);
      lengths[i] = static_cast<std::size_t>(theirs);
    }
    const bool fits = *std::max_element(lengths.begin(), lengths.end()) <= kFirst - sizeof length;
    std::vector<std::byte> all;
    if (!fits) {
      std::inclusive_scan(lengths.begin(), lengths.end(), ends.begin());
      all.resize(ends.back());
      std::memcpy(all.data() + ends[static_cast<std::size_t>(rank())] - bytes.size(), bytes.data(), bytes.size());
      gather_in_place(all, ends);
    }
    std::vector<std::string> out;
    for (std::size_t i = 0; i < ranks; ++i) {
      const std::byte* const from =
          fits ? first.data() + i * kFirst + sizeof length : all.data() + ends[i] - lengths[i];
      out.emplace_back(reinterpret_cast<const char*>(from), lengths[i]);
    }
    return out;
  }

  void gather_in_place(std::span<std::byte> data, const std::vector<std::size_t>& ends) override {
    if (data.empty() || size() == 1) return;
    if (!pipeline_) {
      std::vector<SharedMemory::Part> parts;
      for (int source = 0; source < size(); ++source) parts.push_back(block_of(data, ends, source, source, true));
      start_in_memory(memory_, std::move(parts), DType::kUInt8)->wait();
      return;
    }
    // Blocks in the order of machines, which is that of the ranks in most jobs.
    std::vector<int> order;
    for (const auto& machine : machines_.ranks) order.insert(order.end(), machine.begin(), machine.end());
    if (std::is_sorted(order.begin(), order.end())) return gather_by_machine(data, ends);
    std::vector<std::byte> sorted(data.size());
    std::vector<std::size_t> sorted_ends;
    const auto each = [&](auto fn) {
      std::size_t at = 0;
      for (const int source : order) {
        const std::span<std::byte> block = block_at(data, ends, source);
        fn(source, block, std::span(sorted).subspan(at, block.size()));
        at += block.size();
      }
    };
    each([&](int source, std::span<std::byte> block, std::span<std::byte> place) {
      if (source == rank()) std::copy(block.begin(), block.end(), place.begin());
      sorted_ends.push_back((sorted_ends.empty() ? 0 : sorted_ends.back()) + block.size());
    });
    gather_by_machine(sorted, sorted_ends);
    each([](int, std::span<std::byte> block, std::span<std::byte> place) {
      std::copy(place.begin(), place.end(), block.begin());
    });
  }

  std::string broadcast(const std::string& bytes, int root) override {
    std::uint64_t length = bytes.size();
    broadcast_bytes({reinterpret_cast<std::byte*>(&length), sizeof length}, root);
    std::string out = rank() == root ? bytes : std::string(static_cast<std::size_t>(length), '\0');
    broadcast_bytes({reinterpret_cast<std::byte*>(out.data()), out.size()}, root);
    return out;
  }

  void broadcast(const Tensor& value, int root) override {
    const at::Tensor data = contiguous(value);
    broadcast_bytes({static_cast<std::byte*>(data.data_ptr()), data.nbytes()}, root);
  }

  void barrier() override {
    const at::Tensor one = at::zeros({1}, at::kInt);
    all_reduce(wrap(one));
  }

  void fail(const std::string& reason) noexcept override {
    try {
      job_->health->publish({Code::kUnavailable, fmt::format("{} failed: {}", job_->name(), reason)});
    } catch (...) {  // the others will notice that this worker is gone
    }
  }

  CommunicatorPtr duplicate(const std::string& name) override {
    return std::make_shared<JobCommunicator>(job_, name_ + "/" + name, false);
  }

 private:
  // A group of pieces that is complete when all have passed the pipeline.
  class PipelineWork final : public Pending {
   public:
    PipelineWork(std::shared_ptr<JobCommunicator> group, std::uint64_t number, std::size_t pieces, at::Tensor held)
        : group_(std::move(group)), number_(number), state_(std::make_shared<State>()) {
      state_->left = pieces;
      state_->held = std::move(held);
    }
    std::function<void(const std::string&)> piece_done() const {
      return [state = state_](const std::string& problem) {
        if (--state->left == 0) state->signal.finish(problem);
      };
    }
    void wait() override { group_->await_work(state_->signal, number_); }

   private:
    struct State {
      Signal signal;
      std::atomic<std::size_t> left{0};
      at::Tensor held;  // the memory that the pieces use
    };
    std::shared_ptr<JobCommunicator> group_;
    std::uint64_t number_;
    std::shared_ptr<State> state_;
  };

  // Finds the machines and connects their leaders; in another thread, since a call to the store may not return, and so
  // that a worker that is lost meanwhile is noticed.
  Connections connect(const std::string& name, bool share_memory) {
    struct Attempt {
      Signal signal;
      std::atomic<bool> abandoned{false};
      Connections connections;
    };
    auto attempt = std::make_shared<Attempt>();
    std::thread([attempt, name, share_memory, job = job_] {
      try {
        const auto check = [&] {
          job->check();
          if (attempt->abandoned) throw_unavailable("the start of the group was given up");
        };
        const auto store = job->rendezvous.store->clone();
        const int rank = job->options.rank, size = static_cast<int>(job->options.names.size());
        SharedMachine& shared = attempt->connections.shared;
        if (share_memory) {
          shared = share_machine(*store, name, rank, size, job->options.machine);
        } else {
          shared.machines = Machines::apart(rank, size);
        }
        if (shared.machines.count() > 1 && shared.machines.leads()) {
          std::string host = job->rendezvous.local_address;
          if (host.empty()) host = parse_address(job->options.addresses[0]).host;
          attempt->connections.links =
              std::make_unique<PeerLinks>(*store, name, shared.machines.machine, shared.machines.count(), host,
                                          job->options.startup_timeout, check);
        }
        attempt->signal.finish({});
      } catch (const std::exception& error) {
        attempt->signal.finish(error.what());
      }
    }).detach();
    try {
      await(*job_, attempt->signal, job_->health->next_collective(), job_->options.startup_timeout);
    } catch (...) {
      attempt->abandoned = true;
      job_->health->leave();  // the thread above keeps the job from ending, perhaps for good
      throw;
    }
    return std::move(attempt->connections);
  }

  std::unique_ptr<MemorySum> start_in_memory(const std::shared_ptr<SharedMemory>& memory,
                                             std::vector<SharedMemory::Part> parts, DType dtype,
                                             bool reduce_scatter = false) {
    job_->check();
    begun_ = job_->health->next_collective();
    const std::uint64_t sum = memory->start(std::move(parts), dtype, reduce_scatter);
    return std::make_unique<MemorySum>(memory, sum,
                                       [self = shared_from_this(), at = memory.get(), sum](MemorySum::Step step) {
                                         self->go_in_memory(*at, step, sum);
                                       });
  }

  void go_in_memory(SharedMemory& memory, MemorySum::Step step, std::uint64_t sum) {
    const Clock::time_point begin = Clock::now();
    (memory.*step)(sum, [&] {
      job_->check();
      look_after(begun_);
      const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
      if (waited > job_->options.timeout) job_->raise(job_->health->overdue(begun_, waited));
    });
  }

  // Throws when a worker that is waited for has gone.
  void look_after(std::uint64_t number) {
    if (const auto fault = job_->health->departed(number)) job_->raise(*fault);
    for (std::size_t i = 0; i < watches_.size(); ++i) {
      if (watches_[i]->ended()) job_->raise(job_->health->ended(machines_.local()[i]));
    }
  }

  void await_work(Signal& signal, std::uint64_t number) {
    await(*job_, signal, number, job_->options.timeout, [&] { look_after(number); });
  }

  // What the stages of the pipeline call while they wait.
  auto check_of_stage() {
    return [this] {
      pipeline_->check_abort();
      job_->check();
    };
  }

  // A copy or a sum in the memory of the machine, to its end.
  void pass_memory(SharedMemory& memory, std::vector<SharedMemory::Part> parts, DType dtype, int only) {
    memory.finish(memory.start(std::move(parts), dtype, false, only), check_of_stage());
  }
  // From the leader to the other ranks of the machine.
  std::function<void()> distribution(std::span<std::byte> data) {
    return [this, data] {
      pass_memory(*second_memory_, {{machines_.leads() ? data.data() : nullptr, data.data(), data.size(), 0}},
                  DType::kUInt8, SharedMemory::kAllRanks);
    };
  }

  std::unique_ptr<Pending> submit(std::vector<Pipeline::Piece> pieces, at::Tensor held) {
    job_->check();
    pipeline_->check_abort();
    auto work = std::make_unique<PipelineWork>(shared_from_this(), job_->health->next_collective(), pieces.size(),
                                               std::move(held));
    for (Pipeline::Piece& piece : pieces) {
      piece.done = work->piece_done();
      pipeline_->submit(std::move(piece));
    }
    return work;
  }

  std::unique_ptr<Pending> sum_in_pieces(const at::Tensor& tensor, DType dtype) {
    const std::span data(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    const std::size_t length = std::max(kPiece, kPiecePerMachine * static_cast<std::size_t>(machines_.count()));
    std::vector<Pipeline::Piece> pieces;
    for (std::size_t begin = 0; begin == 0 || begin < data.size(); begin += length) {
      const std::span<std::byte> part = data.subspan(begin, std::min(length, data.size() - begin));
      Pipeline::Piece piece;
      if (machines_.local().size() > 1) {
        piece.stages[0] = [this, part, dtype] {
          pass_memory(*memory_, {{part.data(), machines_.leads() ? part.data() : nullptr, part.size()}}, dtype, 0);
        };
        piece.stages[2] = distribution(part);
      }
      if (links_) piece.stages[1] = [this, part, dtype] { links_->sum(part, dtype, check_of_stage()); };
      pieces.push_back(std::move(piece));
    }
    return submit(std::move(pieces), tensor);
  }

  // Block `block` of the data as what the local rank `source` has, for those that are to `receive` it.
  SharedMemory::Part block_of(std::span<std::byte> data, const std::vector<std::size_t>& ends, int block, int source,
                              bool receive) const {
    const std::span<std::byte> range = block_at(data, ends, block);
    return {source == machines_.place ? range.data() : nullptr, receive ? range.data() : nullptr, range.size(), source};
  }

  // The blocks of the ranks in the order of machines.
  void gather_by_machine(std::span<std::byte> data, const std::vector<std::size_t>& ends) {
    std::vector<std::size_t> machine_ends;
    int begin = 0, block = 0;
    for (const auto& machine : machines_.ranks) {
      if (static_cast<int>(machine_ends.size()) == machines_.machine) begin = block;
      block += static_cast<int>(machine.size());
      machine_ends.push_back(ends[static_cast<std::size_t>(block) - 1]);
    }
    Pipeline::Piece piece;
    const int local = static_cast<int>(machines_.local().size());
    if (local > 1) {
      piece.stages[0] = [this, data, &ends, begin, local] {
        std::vector<SharedMemory::Part> parts;
        for (int source = 0; source < local; ++source)
          parts.push_back(block_of(data, ends, begin + source, source, machines_.leads()));
        pass_memory(*memory_, std::move(parts), DType::kUInt8, 0);
      };
      piece.stages[2] = distribution(data);
    }
    if (links_) piece.stages[1] = [&] { links_->gather(data, machine_ends, check_of_stage()); };
    submit_and_wait(std::move(piece));
  }

  void broadcast_bytes(std::span<std::byte> data, int root) {
    if (data.empty() || size() == 1) return;
    int machine = 0, place = 0;
    for (int i = 0; i < machines_.count(); ++i) {
      const std::vector<int>& ranks = machines_.ranks[static_cast<std::size_t>(i)];
      const auto found = std::find(ranks.begin(), ranks.end(), root);
      if (found == ranks.end()) continue;
      machine = i;
      place = static_cast<int>(found - ranks.begin());
    }
    if (!pipeline_) {
      start_in_memory(memory_, {{rank() == root ? data.data() : nullptr, data.data(), data.size(), place}},
                      DType::kUInt8)
          ->wait();
      return;
    }
    Pipeline::Piece piece;
    if (machines_.local().size() > 1) {
      if (machine == machines_.machine && place != 0) {
        piece.stages[0] = [this, data, place] {
          const bool mine = machines_.place == place;
          pass_memory(*memory_,
                      {{mine ? data.data() : nullptr, machines_.leads() ? data.data() : nullptr, data.size(), place}},
                      DType::kUInt8, 0);
        };
      }
      piece.stages[2] = distribution(data);
    }
    if (links_) piece.stages[1] = [&] { links_->broadcast(data, machine, check_of_stage()); };
    submit_and_wait(std::move(piece));
  }

  // The stages use memory of the caller: when the wait is given up, this returns after they have been.
  void submit_and_wait(Pipeline::Piece piece) {
    std::vector<Pipeline::Piece> pieces;
    pieces.push_back(std::move(piece));
    const auto work = submit(std::move(pieces), {});
    try {
      work->wait();
    } catch (...) {
      pipeline_->stop();
      throw;
    }
  }

  static at::Tensor contiguous(const Tensor& value) {
    const at::Tensor& tensor = aten(value);
    if (!tensor.is_contiguous()) throw_internal("an in-place collective requires a contiguous tensor");
    return tensor.detach();
  }

  JobPtr job_;
  std::string name_;
  Machines machines_;
  // Ring buffers of the machine's ranks: for all sums on a single machine (`second_memory_`: those of
  // Channel::kGradients), else for what goes to the leader, and for what comes from it.
  std::shared_ptr<SharedMemory> memory_, second_memory_;
  std::vector<std::unique_ptr<ProcessWatch>> watches_;  // of the machine's ranks, with memory_
  std::atomic<std::uint64_t> begun_{0};                 // the last sum in memory: whoever has not come to it is late
  std::unique_ptr<PeerLinks> links_;                    // between leaders
  std::unique_ptr<Pipeline> pipeline_;                  // null if all ranks are on one machine; goes first
};

}  // namespace

CommunicatorPtr join_job(JobOptions options) {
  auto job = std::make_shared<Job>();
  job->options = std::move(options);
  job->rendezvous = find_workers(job->options);
  job->health = std::make_unique<HealthMonitor>(
      std::move(job->rendezvous.health_store),
      HealthMonitor::Options{job->options.rank, job->options.names, job->options.timeout});
  job->health->start();
  const bool share_memory = job->options.share_memory;
  return std::make_shared<JobCommunicator>(std::move(job), kMainGroup, share_memory);
}

}  // namespace lockstep::collectives
