// Collectives by LibTorch's Gloo.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/c10d_internal.h"
#include "lockstep/collectives/health_internal.h"
#include "lockstep/collectives/process_watch_internal.h"
#include "lockstep/collectives/rendezvous_internal.h"
#include "lockstep/collectives/shared_memory_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using GlooGroup = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

constexpr milliseconds kLook{100};               // how often a waiting worker looks whether the others are well
constexpr std::size_t kSmall = 8192;             // bytes that an all_gather carries in its first round
constexpr std::size_t kSmallTogether = 1 << 20;  // bytes of all ranks that are gathered in shared memory
constexpr double kPartOfFree = 0.5;              // of the machine's memory, that others need too
constexpr milliseconds kGlooGrace{60000};        // Gloo's own time is longer than ours, which can say more

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

// Waits for the signal while the others are well.
void await(const Job& job, Signal& signal, std::uint64_t number, milliseconds timeout) {
  const Clock::time_point begin = Clock::now();
  std::unique_lock lock(signal.mutex);
  while (!signal.changed.wait_for(lock, kLook, [&] { return signal.done; })) {
    job.check();
    const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    if (waited > timeout) job.raise(job.health->overdue(number, waited));
  }
  if (signal.problem.empty()) return;
  const std::string problem = signal.problem;
  lock.unlock();
  job.raise(job.health->diagnose(problem));
}

class GlooPending final : public Pending {
 public:
  GlooPending(JobPtr job, c10::intrusive_ptr<c10d::Work> work, std::uint64_t number)
      : job_(std::move(job)), work_(std::move(work)), number_(number), signal_(std::make_shared<Signal>()) {
    work_->getFuture()->addCallback([signal = signal_](c10::ivalue::Future& future) {
      signal->finish(future.hasError() ? problem_of(future) : std::string());
    });
  }
  void wait() override { await(*job_, *signal_, number_, job_->options.timeout); }

 private:
  static std::string problem_of(c10::ivalue::Future& future) {
    try {
      std::rethrow_exception(future.exception_ptr());
    } catch (const std::exception& error) {
      return plain_reason(error);
    }
  }

  JobPtr job_;
  c10::intrusive_ptr<c10d::Work> work_;
  std::uint64_t number_;
  std::shared_ptr<Signal> signal_;
};

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
  void make_share() override { go_(&SharedMemory::reduce); }
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
  Tensors updates_;  // the targets of what is made of sums
};

at::Tensor bytes_tensor(std::size_t size) { return at::zeros({static_cast<std::int64_t>(size)}, at::kByte); }

class GlooCommunicator final : public Communicator, public std::enable_shared_from_this<GlooCommunicator> {
 public:
  // Connects the ranks under a name that is new in the job.
  GlooCommunicator(JobPtr job, const std::string& name)
      : job_(std::move(job)), name_(name), group_(new GlooGroup(connect(name))) {}
  ~GlooCommunicator() override {
    // Work that never ends keeps its threads; the group of a broken job is left to the end of the process.
    if (!job_->health->fault()) delete group_;
  }

  // Sums go through memory when all ranks see the same.
  void share_memory() {
    const auto make = [this] { return SharedMemory::make(size()); };
    const auto open = [this](const std::string& name) { return SharedMemory::open(name, rank(), size()); };
    std::vector<std::string> processes;
    std::shared_ptr<SharedMemory> memory = seen_by_all(make, open, processes),
                                  aside = seen_by_all(make, open, processes);
    if (!memory || !aside) return;
    memory_ = std::move(memory);
    aside_ = std::move(aside);
    for (const std::string& process : processes) watches_.push_back(std::make_unique<ProcessWatch>(process));
  }

  int rank() const override { return job_->options.rank; }
  int size() const override { return static_cast<int>(job_->options.names.size()); }
  std::string member_name(int rank) const override { return job_->options.names.at(static_cast<std::size_t>(rank)); }

  std::unique_ptr<Pending> all_reduce_async(const Tensor& value) override {
    if (memory_ && SharedMemory::can_sum(value.dtype())) {
      const at::Tensor data = contiguous(value);
      auto sum = start_in_memory(memory_, {{data.data_ptr(), data.data_ptr(), data.nbytes()}}, value.dtype());
      sum->in_place = data;
      return sum;
    }
    return submit([&](c10d::ProcessGroupGloo& group) {
      std::vector<at::Tensor> tensors{contiguous(value)};
      return group.allreduce(tensors);
    });
  }

  std::unique_ptr<PendingSum> sum_async(std::vector<Addend> addends, bool aside) override {
    if (!memory_ || addends.empty() || !SharedMemory::can_sum(addends[0].value.dtype()))
      return Communicator::sum_async(std::move(addends), aside);
    std::vector<SharedMemory::Part> parts;
    std::vector<MemorySum::Result> results;
    for (const Addend& addend : addends) {
      const at::Tensor data = contiguous(addend.value);
      parts.push_back({addend.counts ? data.data_ptr() : nullptr, nullptr, data.nbytes()});
      results.push_back({data.sizes().vec(), data.scalar_type()});
    }
    auto sum = start_in_memory(aside ? aside_ : memory_, std::move(parts), addends[0].value.dtype(), aside);
    sum->results = std::move(results);
    return sum;
  }
  bool shares_memory() const override { return memory_ != nullptr; }
  std::shared_ptr<std::byte> shared_memory(std::size_t bytes) override {
    if (!memory_) return nullptr;
    std::vector<std::string> processes;
    const std::shared_ptr<SharedMapping> mapping =
        seen_by_all([&] { return SharedMapping::make(bytes, kPartOfFree); },
                    [&](const std::string& name) { return SharedMapping::open(name, bytes); }, processes);
    return mapping ? std::shared_ptr<std::byte>(mapping, mapping->data()) : nullptr;
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    std::vector<std::string> first = gather_blocks(bytes, kSmall);
    std::size_t longest = 0;
    for (const std::string& block : first) longest = std::max(longest, length_of(block));
    std::vector<std::string> blocks = longest + sizeof(std::uint64_t) <= kSmall
                                          ? std::move(first)
                                          : gather_blocks(bytes, longest + sizeof(std::uint64_t));
    for (std::string& block : blocks) block = block.substr(sizeof(std::uint64_t), length_of(block));
    return blocks;
  }

  std::string broadcast(const std::string& bytes, int root) override {
    at::Tensor size = at::full({1}, static_cast<std::int64_t>(bytes.size()), at::kLong);
    run_broadcast(size, root);
    const auto length = static_cast<std::size_t>(size.item<std::int64_t>());
    at::Tensor data = bytes_tensor(length);
    if (rank() == root) std::memcpy(data.data_ptr(), bytes.data(), bytes.size());
    if (length > 0) run_broadcast(data, root);
    return std::string(static_cast<const char*>(data.data_ptr()), length);
  }

  void broadcast(const Tensor& value, int root) override {
    at::Tensor data = contiguous(value);
    if (data.numel() > 0) run_broadcast(data, root);
  }

  void barrier() override {
    at::Tensor one = at::zeros({1}, at::kInt);
    all_reduce(wrap(one));
  }

  void fail(const std::string& reason) noexcept override {
    try {
      job_->health->publish({Code::kUnavailable, fmt::format("{} failed: {}", job_->name(), reason)});
    } catch (...) {  // the others will notice that this worker is gone
    }
  }

  CommunicatorPtr duplicate(const std::string& name) override {
    return std::make_shared<GlooCommunicator>(job_, name_ + "/" + name);
  }

 private:
  // Gloo's constructor connects all pairs; done aside, so that a worker that dies meanwhile is noticed.
  GlooGroup connect(const std::string& name) {
    struct Result {
      Signal signal;
      GlooGroup group;
    };
    auto result = std::make_shared<Result>();
    std::thread([result, name, job = job_] {
      try {
        auto store =
            c10::make_intrusive<c10d::PrefixStore>("gloo/" + name, c10d_store(*job->rendezvous.store->clone()));
        auto options = c10d::ProcessGroupGloo::Options::create(job->options.timeout + kGlooGrace);
        options->devices.push_back(
            job->rendezvous.local_address.empty()
                ? c10d::ProcessGroupGloo::createDefaultDevice()
                : c10d::ProcessGroupGloo::createDeviceForHostname(job->rendezvous.local_address));
        options->threads = 2;
        result->group = c10::make_intrusive<c10d::ProcessGroupGloo>(
            store, job->options.rank, static_cast<int>(job->options.names.size()), options);
        result->signal.finish({});
      } catch (const std::exception& error) {
        result->signal.finish(plain_reason(error));
      }
    }).detach();
    try {
      await(*job_, result->signal, job_->health->next_collective(), job_->options.startup_timeout);
    } catch (...) {
      job_->health->leave();  // the thread above keeps the job from ending, perhaps for good
      throw;
    }
    return result->group;
  }

  // What rank 0 makes and the others open by its name; null everywhere unless all see it. `processes`: who they are, by
  // rank.
  template <typename Make, typename Open>
  auto seen_by_all(Make make, Open open, std::vector<std::string>& processes) -> decltype(make()) {
    auto mine = rank() == 0 ? make() : nullptr;
    const std::string name = broadcast(mine ? mine->name() : "", 0);
    if (rank() != 0) mine = open(name);
    processes = all_gather(mine ? ProcessWatch::self() : "");
    if (mine) mine->unname();
    if (std::find(processes.begin(), processes.end(), "") != processes.end()) mine = nullptr;
    return mine;
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
      if (watches_[i]->ended()) job_->raise(job_->health->ended(static_cast<int>(i)));
    }
  }

  template <typename Fn>
  std::unique_ptr<Pending> submit(Fn fn) {
    job_->check();
    const std::uint64_t number = job_->health->next_collective();
    try {
      return std::make_unique<GlooPending>(job_, fn(**group_), number);
    } catch (const std::exception& error) {
      job_->raise(job_->health->diagnose(plain_reason(error)));
    }
  }

  void run_broadcast(at::Tensor& data, int root) {
    submit([&](c10d::ProcessGroupGloo& group) {
      std::vector<at::Tensor> tensors{data};
      c10d::BroadcastOptions options;
      options.rootRank = root;
      return group.broadcast(tensors, options);
    })->wait();
  }

  static at::Tensor contiguous(const Tensor& value) {
    const at::Tensor& tensor = aten(value);
    if (!tensor.is_contiguous()) throw_internal("an in-place collective requires a contiguous tensor");
    return tensor.detach();
  }

  static std::size_t length_of(const std::string& block) {
    std::uint64_t length = 0;
    std::memcpy(&length, block.data(), sizeof length);
    return static_cast<std::size_t>(length);
  }

  // Blocks of equal size: the length, then as many of the bytes as fit.
  std::vector<std::string> gather_blocks(const std::string& bytes, std::size_t block) {
    const auto fill = [&](char* data) {
      const std::uint64_t length = bytes.size();
      std::memcpy(data, &length, sizeof length);
      std::memcpy(data + sizeof length, bytes.data(), std::min(bytes.size(), block - sizeof length));
    };
    const std::size_t words = (block + sizeof(std::int64_t) - 1) / sizeof(std::int64_t),
                      ranks = static_cast<std::size_t>(size());
    if (memory_ && words * sizeof(std::int64_t) * ranks <= kSmallTogether) {
      // The sum of all rows, in each of which a rank has written its own block alone.
      std::vector<std::int64_t> all(words * ranks, 0);
      fill(reinterpret_cast<char*>(all.data() + words * static_cast<std::size_t>(rank())));
      start_in_memory(memory_, {{all.data(), all.data(), all.size() * sizeof(std::int64_t)}}, DType::kInt64)->wait();
      std::vector<std::string> out;
      for (std::size_t i = 0; i < ranks; ++i)
        out.emplace_back(reinterpret_cast<const char*>(all.data() + words * i), block);
      return out;
    }
    at::Tensor mine = bytes_tensor(block);
    fill(static_cast<char*>(mine.data_ptr()));
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int i = 0; i < size(); ++i) outputs[0].push_back(bytes_tensor(block));
    submit([&](c10d::ProcessGroupGloo& group) {
      std::vector<at::Tensor> inputs{mine};
      return group.allgather(outputs, inputs);
    })->wait();
    std::vector<std::string> out;
    for (const at::Tensor& tensor : outputs[0]) out.emplace_back(static_cast<const char*>(tensor.data_ptr()), block);
    return out;
  }

  JobPtr job_;
  std::string name_;
  GlooGroup* group_;
  std::shared_ptr<SharedMemory> memory_, aside_;        // null: ranks on several machines
  std::vector<std::unique_ptr<ProcessWatch>> watches_;  // of all ranks, with memory_
  std::atomic<std::uint64_t> begun_{0};                 // the last sum in memory: whoever has not come to it is late
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
  auto group = std::make_shared<GlooCommunicator>(job, "main");
  if (job->options.share_memory) group->share_memory();
  return group;
}

}  // namespace lockstep::collectives
