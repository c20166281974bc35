// Dataset.prefetch: a thread that makes elements ahead.
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "lockstep/data/node_internal.h"

namespace lockstep::data {
namespace {

class PrefetchIterator : public NodeIterator {
 public:
  PrefetchIterator(const NodePtr& input, std::size_t capacity)
      : input_(input->make_iterator()), start_(input_->save()), capacity_(capacity) {}
  ~PrefetchIterator() override { stop(); }

  bool next(Item& out) override {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
    if (ready_.empty()) return false;
    Result result = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (result.error) std::rethrow_exception(result.error);
    out = Item(std::move(result.element));
    ++given_;
    return true;
  }

  // The thread is ahead of what was given, so the place is kept as a count from the start.
  Json save() const override { return {{"start", start_}, {"given", given_}}; }
  void restore(const Json& state) override {
    stop();
    start_ = state_at(state, "start");
    given_ = state_int(state, "given");
    input_->restore(start_);
    input_->advance(given_);
    ready_.clear();
    ended_ = stopping_ = false;
  }

 private:
  struct Result {
    Element element;
    std::exception_ptr error;
  };

  void run() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || ready_.size() < capacity_; });
        if (stopping_) return;
      }
      Result result;
      bool more = false;
      try {
        Item item;
        more = input_->next(item);
        if (more) result.element = item.element();
      } catch (...) {
        result.error = std::current_exception();
        more = true;
      }
      const std::lock_guard lock(mutex_);
      if (more) ready_.push_back(std::move(result));
      ended_ = !more;
      changed_.notify_all();
      if (ended_) return;
    }
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<NodeIterator> input_;
  Json start_;
  std::size_t capacity_;
  std::int64_t given_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Result> ready_;
  bool ended_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

class PrefetchNode : public PassingNode {
 public:
  PrefetchNode(NodePtr input, std::int64_t capacity)
      : PassingNode("prefetch", {std::move(input)}), capacity_(capacity) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<PrefetchIterator>(input(), static_cast<std::size_t>(capacity_));
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return prefetch_node(inputs[0], capacity_); }

 private:
  std::int64_t capacity_;
};

}  // namespace

NodePtr prefetch_node(NodePtr input, std::int64_t buffer_size) {
  return std::make_shared<PrefetchNode>(std::move(input), buffer_size);
}

}  // namespace lockstep::data
