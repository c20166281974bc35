// Dataset.prefetch: a thread that makes elements ahead.
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/base/threads_internal.h"
#include "lockstep/data/node_internal.h"

namespace lockstep::data {
namespace {

// The states of the nodes below a prefetch as they were when its iterator made the element that was delivered last: the
// thread is ahead of that, and may have opened iterators of a shuffle since. Empty while no thread runs.
class DeliveredNodes {
 public:
  std::optional<Json> get() const {
    const std::lock_guard lock(mutex_);
    return nodes_;
  }
  void set(const void* iterator, Json nodes) {
    const std::lock_guard lock(mutex_);
    nodes_ = std::move(nodes);
    iterator_ = iterator;
  }
  void clear(const void* iterator) {
    const std::lock_guard lock(mutex_);
    if (iterator_ == iterator) nodes_.reset();
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Json> nodes_;
  const void* iterator_ = nullptr;  // that set them
};

class PrefetchIterator : public NodeIterator {
 public:
  PrefetchIterator(NodePtr input, std::size_t capacity, std::shared_ptr<DeliveredNodes> nodes)
      : node_(std::move(input)),
        input_(node_->make_iterator()),
        state_(input_->save()),
        capacity_(capacity),
        nodes_(std::move(nodes)) {}
  ~PrefetchIterator() override { stop(); }

  bool next(Item& out) override {
    if (ended_) return false;
    start();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty(); });
    Result result = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (result.error) std::rethrow_exception(result.error);
    state_ = std::move(result.state);
    nodes_->set(this, std::move(result.nodes));
    ended_ = !result.element;
    if (ended_) return false;
    out = Item(std::move(*result.element));
    return true;
  }

  // The state of the input after the element that was delivered last.
  Json save() const override { return {{"input", state_}, {"ended", ended_}}; }
  void restore(const Json& state) override {
    stop();
    state_ = state_at(state, "input");
    ended_ = state_at(state, "ended") == Json(true);
    input_->restore(state_);
  }

 private:
  // An element or the end, with the states right after it was made, or an error.
  struct Result {
    std::optional<Element> element;
    std::exception_ptr error;
    Json state;
    Json nodes;
  };

  void start() {
    if (thread_.joinable()) return;
    nodes_->set(this, save_nodes(*node_));
    thread_ = start_thread([this] { run(); });
  }

  void run() {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopping_ || ready_.size() < capacity_; });
        if (stopping_) return;
      }
      Result result;
      try {
        Item item;
        if (input_->next(item)) result.element = item.element();
        result.state = input_->save();
        result.nodes = save_nodes(*node_);
      } catch (...) {
        result.error = std::current_exception();
      }
      const bool last = !result.element && !result.error;
      const std::lock_guard lock(mutex_);
      ready_.push_back(std::move(result));
      changed_.notify_all();
      if (last) return;
    }
  }
  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    ready_.clear();
    stopping_ = false;
    nodes_->clear(this);
  }

  NodePtr node_;  // the input's
  std::unique_ptr<NodeIterator> input_;
  Json state_;
  bool ended_ = false;
  std::size_t capacity_;
  std::shared_ptr<DeliveredNodes> nodes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Result> ready_;
  bool stopping_ = false;
  std::thread thread_;
};

class PrefetchNode : public PassingNode {
 public:
  PrefetchNode(NodePtr input, std::int64_t capacity)
      : PassingNode("prefetch", {std::move(input)}), capacity_(capacity) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<PrefetchIterator>(input(), static_cast<std::size_t>(capacity_), delivered_);
  }
  std::optional<Json> delivered_nodes() const override { return delivered_->get(); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return prefetch_node(inputs[0], capacity_); }

 private:
  std::int64_t capacity_;
  std::shared_ptr<DeliveredNodes> delivered_ = std::make_shared<DeliveredNodes>();
};

}  // namespace

NodePtr prefetch_node(NodePtr input, std::int64_t buffer_size) {
  return std::make_shared<PrefetchNode>(std::move(input), buffer_size);
}

}  // namespace lockstep::data
