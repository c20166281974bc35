// Dataset.shuffle, order for order as tf.data's: a ring of slots, one random word for each element out.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/data/seed_source_internal.h"
#include "lockstep/ops/philox_internal.h"

namespace lockstep::data {
namespace {

// The ring: fill to the brim, take one at random, move the oldest into its place.
class Ring {
 public:
  explicit Ring(std::int64_t capacity) : capacity_(capacity) {}

  std::int64_t count() const { return count_; }
  bool full() const { return count_ == capacity_; }
  void push(Item value) {
    const std::size_t slot = static_cast<std::size_t>((start_ + count_) % capacity_);
    if (slot == slots_.size()) {
      slots_.push_back(std::move(value));
    } else {
      slots_[slot] = std::move(value);
    }
    ++count_;
  }
  Item take(std::uint32_t random) {
    const auto first = static_cast<std::size_t>(start_ % capacity_);
    const auto slot = static_cast<std::size_t>((start_ + random % count_) % capacity_);
    Item out = std::move(slots_[slot]);
    if (slot != first) slots_[slot] = std::move(slots_[first]);
    slots_[first] = Item();
    ++start_;
    --count_;
    return out;
  }
  // The ring after `taken` elements were taken from it.
  void assign(std::vector<Item> contents, std::int64_t taken) {
    slots_.clear();
    slots_.resize(static_cast<std::size_t>(
        std::min<std::int64_t>(taken + static_cast<std::int64_t>(contents.size()), capacity_)));
    start_ = taken;
    count_ = 0;
    for (Item& value : contents) push(std::move(value));
  }

 private:
  std::int64_t capacity_;
  std::vector<Item> slots_;
  std::int64_t start_ = 0;  // elements taken so far
  std::int64_t count_ = 0;
};

class ShuffleIterator : public NodeIterator {
 public:
  ShuffleIterator(NodePtr input, std::int64_t buffer_size, Seeds seeds)
      : node_(std::move(input)),
        buffer_size_(buffer_size),
        seeds_(seeds),
        words_(words_from(seeds, 0)),
        ring_(buffer_size) {}

  bool next(Item& out) override {
    fill();
    if (ring_.count() == 0) return false;
    out = ring_.take(words_.next());
    ++emitted_;
    return true;
  }

  Json save() const override {
    Json state = {{"seeds", {seeds_.first, seeds_.second}},
                  {"emitted", emitted_},
                  {"buffered", ring_.count()},
                  {"ended", ended_}};
    if (input_) {
      state["input_start"] = input_start_;
      state["input"] = input_->save();
    }
    return state;
  }

  // Reads only the elements that were in the buffer.
  void restore(const Json& state) override {
    seeds_ = state_pair(state, "seeds");
    const std::int64_t emitted = state_count(state, "emitted");
    const std::int64_t buffered = state_count(state, "buffered");
    if (buffered > buffer_size_ || emitted > std::numeric_limits<std::int64_t>::max() - buffered) {
      throw_invalid_argument(
          fmt::format("invalid state of a dataset's shuffle: found {} elements emitted and {} buffered of {}", emitted,
                      buffered, buffer_size_));
    }
    const std::optional<std::int64_t> size = known(node_->cardinality());
    if (size && emitted + buffered > *size) {
      throw_failed_precondition(fmt::format(
          "the dataset has {} elements, the shuffle of the saved iterator had read {}: it is built on less data", *size,
          emitted + buffered));
    }
    words_ = words_from(seeds_, static_cast<std::uint64_t>(emitted));
    input_.reset();
    emitted_ = emitted;
    ended_ = state_at(state, "ended") == Json(true);
    if (!state.contains("input")) {
      ring_ = Ring(buffer_size_);
      return;
    }
    input_start_ = state_at(state, "input_start");
    input_ = node_->make_iterator();
    input_->restore(input_start_);
    ring_.assign(read_items(buffered_numbers(emitted, buffered)), emitted);
    input_->restore(state_at(state, "input"));
  }

 private:
  void fill() {
    if (ended_) return;
    if (!input_) {
      input_ = node_->make_iterator();
      input_start_ = input_->save();
    }
    Item item;
    while (!ring_.full()) {
      if (!input_->next(item)) {
        ended_ = true;
        return;
      }
      ring_.push(std::move(item));
    }
  }
  // The elements of the input that are in the buffer, beginning with its oldest slot. Element n was put into slot n of
  // the ring, and take t moved the element of slot t to the slot that it drew. So each slot is traced back to the take
  // before which it was filled, which requires a few times as many takes as the buffer has slots, not all takes.
  std::vector<std::int64_t> buffered_numbers(std::int64_t emitted, std::int64_t buffered) const {
    const std::int64_t total = emitted + buffered;
    const std::int64_t size = std::min(buffer_size_, total);
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(buffered));
    std::vector<std::int64_t> held(static_cast<std::size_t>(size), -1);  // by place: an index of `numbers`
    const auto at = [&](std::int64_t place) -> std::int64_t& { return held[static_cast<std::size_t>(place % size)]; };
    for (std::int64_t i = 0; i < buffered; ++i) at(emitted + i) = i;
    const ops::PhiloxState words = ops::philox_from_seeds(seeds_.first, seeds_.second);
    ops::PhiloxBlock block{};
    std::int64_t left = buffered;
    std::int64_t take = emitted;
    while (take > 0 && left > 0) {
      const bool other_block = take == emitted || take % 4 == 0;
      --take;
      if (other_block) block = ops::philox_block(words.skipped(static_cast<std::uint64_t>(take / 4)));
      if (take < total - size && at(take) >= 0) {  // place take + size, which was filled after this take
        numbers[static_cast<std::size_t>(std::exchange(at(take), -1))] = take + size;
        --left;
      }
      const std::int64_t drawn = take + block[static_cast<std::size_t>(take % 4)] % std::min(size, total - take);
      std::swap(at(drawn), at(take));
    }
    for (std::int64_t place = take; place < take + size && left > 0; ++place) {
      if (at(place) < 0) continue;
      numbers[static_cast<std::size_t>(at(place))] = place;
      --left;
    }
    return numbers;
  }
  std::vector<Item> read_items(const std::vector<std::int64_t>& numbers) const {
    std::vector<std::size_t> order(numbers.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
    std::vector<std::int64_t> sorted;
    for (const std::size_t i : order) sorted.push_back(numbers[i]);
    std::vector<Item> read = items_at(*input_, sorted);
    std::vector<Item> items(numbers.size());
    for (std::size_t i = 0; i < order.size(); ++i) items[order[i]] = std::move(read[i]);
    return items;
  }

  NodePtr node_;
  std::int64_t buffer_size_;
  Seeds seeds_;
  ops::PhiloxStream words_;
  std::unique_ptr<NodeIterator> input_;  // made when the first element is requested
  Json input_start_;
  Ring ring_;
  std::int64_t emitted_ = 0;
  bool ended_ = false;
};

class ShuffleNode : public PassingNode {
 public:
  ShuffleNode(NodePtr input, std::int64_t buffer_size, Seeds seeds, bool reshuffle)
      : PassingNode("shuffle", {std::move(input)}), buffer_size_(buffer_size), seeds_(seeds, reshuffle) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<ShuffleIterator>(input(), buffer_size_, seeds_.next());
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return shuffle_node(inputs[0], buffer_size_, {}, seeds_.reshuffles());
  }
  Json save_node() const override { return seeds_.save(); }
  void restore_node(const Json& state) const override { seeds_.restore(state); }

 private:
  std::int64_t buffer_size_;
  mutable SeedSource seeds_;
};

}  // namespace

NodePtr shuffle_node(NodePtr input, std::int64_t buffer_size, Seeds seeds, bool reshuffle_each_iteration) {
  return std::make_shared<ShuffleNode>(std::move(input), buffer_size, seeds, reshuffle_each_iteration);
}

}  // namespace lockstep::data
