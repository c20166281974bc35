// Dataset.cache in memory: the elements of the first pass that reads all of them, rows of equal shape in one block.
#include <mutex>
#include <optional>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"

namespace lockstep::data {
namespace {

struct Contents {
  std::vector<Item> items;
  Json start;  // where the input stood when the pass began
};

// The state that the iterators of one dataset share.
class Cache {
 public:
  std::shared_ptr<const Contents> contents() const {
    const std::lock_guard lock(mutex_);
    return contents_;
  }
  void publish(std::shared_ptr<const Contents> contents) {
    const std::lock_guard lock(mutex_);
    if (!contents_) contents_ = std::move(contents);
  }
  // Where the pass of a restored cache began; null when the next pass is a new one.
  Json restored_start() const {
    const std::lock_guard lock(mutex_);
    return restored_start_;
  }
  Json save() const {
    const std::lock_guard lock(mutex_);
    return {{"start", contents_ ? contents_->start : restored_start_}};
  }
  void restore(const Json& start) {
    const std::lock_guard lock(mutex_);
    if (contents_ && contents_->start != start) contents_.reset();
    restored_start_ = start;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Contents> contents_;
  Json restored_start_;
};

class CacheIterator : public NodeIterator {
 public:
  CacheIterator(NodePtr input, Cache& cache) : node_(std::move(input)), cache_(cache), contents_(cache.contents()) {
    if (!contents_) begin_pass(cache_.restored_start());
  }

  bool next(Item& out) override {
    if (contents_) {
      if (position_ >= contents_->items.size()) return false;
      out = contents_->items[position_++];
      return true;
    }
    if (!input_->next(out)) {
      contents_ = std::move(filling_);
      cache_.publish(contents_);
      return false;
    }
    if (!out.store()) out = keep(out.element());
    filling_->items.push_back(out);
    ++position_;
    // The cache is complete with its last element, as in TensorFlow: a reader that knows the cardinality, such as fit,
    // requests no further element.
    if (size_ == static_cast<std::int64_t>(position_)) {
      contents_ = std::move(filling_);
      cache_.publish(contents_);
    }
    return true;
  }
  std::int64_t advance(std::int64_t n) override {
    if (!contents_) return NodeIterator::advance(n);
    const auto count = std::min<std::int64_t>(n, static_cast<std::int64_t>(contents_->items.size() - position_));
    position_ += static_cast<std::size_t>(count);
    return count;
  }

  Json save() const override {
    return {{"start", contents_ ? contents_->start : filling_->start}, {"position", position_}};
  }
  void restore(const Json& state) override {
    const Json& start = state_at(state, "start");
    const std::int64_t position = state_count(state, "position");
    position_ = 0;
    contents_ = cache_.contents();
    if (contents_ && contents_->start != start) contents_.reset();
    if (!contents_) begin_pass(start);
    if (advance(position) != position) {
      throw_invalid_argument(fmt::format("invalid state of a dataset's cache: found element {}, expected at most {}",
                                         position, position_));
    }
  }

 private:
  void begin_pass(const Json& start) {
    input_ = node_->make_iterator();
    if (!start.is_null()) input_->restore(start);
    filling_ = std::make_shared<Contents>();
    filling_->start = input_->save();
    size_ = known(node_->cardinality());
    if (size_) filling_->items.reserve(static_cast<std::size_t>(*size_));
    rows_.reset();
  }
  Item keep(const Element& element) {
    if (!RowStore::can_hold(element)) return element;
    if (!rows_) rows_ = std::make_shared<RowStore>(element, known(node_->cardinality()));
    if (!rows_->append(element)) return element;
    return Item(rows_, rows_->num_rows() - 1);
  }

  NodePtr node_;
  Cache& cache_;
  std::shared_ptr<const Contents> contents_;  // once complete
  std::unique_ptr<NodeIterator> input_;
  std::shared_ptr<Contents> filling_;
  std::optional<std::int64_t> size_;  // of the input, where it is known
  std::shared_ptr<RowStore> rows_;
  std::size_t position_ = 0;
};

class CacheNode : public PassingNode {
 public:
  explicit CacheNode(NodePtr input) : PassingNode("cache", {std::move(input)}) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<CacheIterator>(input(), cache_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return cache_node(inputs[0]); }
  Json save_node() const override { return cache_.save(); }
  void restore_node(const Json& state) const override { cache_.restore(state_at(state, "start")); }

 private:
  mutable Cache cache_;
};

}  // namespace

NodePtr cache_node(NodePtr input) { return std::make_shared<CacheNode>(std::move(input)); }

}  // namespace lockstep::data
