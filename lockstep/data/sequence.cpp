// repeat, take, skip, shard, concatenate, enumerate, zip, choose_from_datasets, assert_cardinality.
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/data/replay_limit_internal.h"
#include "lockstep/data/sequence_internal.h"

namespace lockstep::data {
namespace {

using IteratorPtr = std::unique_ptr<NodeIterator>;

class RepeatIterator : public NodeIterator {
 public:
  RepeatIterator(NodePtr input, std::int64_t count)
      : node_(std::move(input)), count_(count), functions_(SharedFunctions::of_repeat()), input_(begin_pass()) {}

  bool next(Item& out) override {
    const SharedFunctions::Scope scope(functions_.get());
    while (input_) {
      if (input_->next(out)) {
        given_in_epoch_ = true;
        return true;
      }
      begin_epoch();
    }
    return false;
  }
  std::int64_t advance(std::int64_t n) override {
    const SharedFunctions::Scope scope(functions_.get());
    std::int64_t moved = 0;
    while (input_ && moved < n) {
      ReplayLimit::check();
      const std::int64_t of_epoch = input_->advance(n - moved);
      moved += of_epoch;
      given_in_epoch_ = given_in_epoch_ || of_epoch > 0;
      if (moved < n) begin_epoch();
    }
    return moved;
  }
  // Later epochs take their seeds from the nodes below, so these belong to the place.
  Json save() const override {
    return {{"epoch", epoch_},
            {"given", given_in_epoch_},
            {"input", input_ ? input_->save() : Json()},
            {"nodes", save_nodes(*node_)}};
  }
  void restore(const Json& state) override {
    epoch_ = state_count(state, "epoch");
    given_in_epoch_ = state_at(state, "given") == Json(true);
    const Json& input = state_at(state, "input");
    input_ = nullptr;
    if (!input.is_null()) {
      const SharedFunctions::Scope scope(functions_.get());
      input_ = begin_pass();
      input_->restore(input);
    }
    restore_nodes(*node_, state_at(state, "nodes"));
  }

 private:
  // An empty input would be repeated forever without producing an element.
  void begin_epoch() {
    ++epoch_;
    const bool more = count_ < 0 ? given_in_epoch_ : epoch_ < count_;
    input_ = more ? begin_pass() : nullptr;
    // TensorFlow creates one iterator more than there are passes, for which the shuffles below draw seeds, unless it
    // merges the repeat with a shuffle.
    if (count_ >= 0 && epoch_ == count_ && node_->name() != "shuffle") node_->make_iterator();
    given_in_epoch_ = false;
  }
  IteratorPtr begin_pass() {
    const SharedFunctions::Scope scope(functions_.get());
    return node_->make_iterator();
  }
  NodePtr node_;
  std::int64_t count_;
  std::shared_ptr<SharedFunctions> functions_;
  IteratorPtr input_;  // null at the end
  std::int64_t epoch_ = 0;
  bool given_in_epoch_ = false;
};

class RepeatNode : public PassingNode {
 public:
  RepeatNode(NodePtr input, std::int64_t count) : PassingNode("repeat", {std::move(input)}), count_(count) {}
  IteratorPtr make_iterator() const override {
    if (count_ == 0) return empty_node()->make_iterator();
    return std::make_unique<RepeatIterator>(input(), count_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return repeat_node(inputs[0], count_); }
  std::int64_t cardinality() const override {
    const std::int64_t n = input()->cardinality();
    if (n == 0 || count_ == 0) return 0;
    if (count_ < 0) return kInfiniteCardinality;
    std::int64_t product = 0;
    return n < 0 ? n : __builtin_mul_overflow(n, count_, &product) ? kUnknownCardinality : product;
  }

 private:
  std::int64_t count_;
};

class TakeIterator : public NodeIterator {
 public:
  // take(0) makes no iterator of its input, whose seeds it would use up.
  TakeIterator(const NodePtr& input, std::int64_t count)
      : input_((count == 0 ? empty_node() : input)->make_iterator()), count_(count) {}
  bool next(Item& out) override {
    if (given_ >= count_ || !input_->next(out)) return false;
    ++given_;
    return true;
  }
  std::int64_t advance(std::int64_t n) override {
    const std::int64_t moved = input_->advance(std::min(n, count_ - given_));
    given_ += moved;
    return moved;
  }
  Json save() const override { return {{"given", given_}, {"input", input_->save()}}; }
  void restore(const Json& state) override {
    given_ = state_count(state, "given");
    input_->restore(state_at(state, "input"));
  }

 private:
  IteratorPtr input_;
  std::int64_t count_;
  std::int64_t given_ = 0;
};

class TakeNode : public PassingNode {
 public:
  TakeNode(NodePtr input, std::int64_t count) : PassingNode("take", {std::move(input)}), count_(count) {}
  IteratorPtr make_iterator() const override { return std::make_unique<TakeIterator>(input(), count_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return take_node(inputs[0], count_); }
  std::int64_t cardinality() const override {
    const std::int64_t n = input()->cardinality();
    return n == kInfiniteCardinality ? count_ : n < 0 ? n : std::min(n, count_);
  }

 private:
  std::int64_t count_;
};

class SkipIterator : public NodeIterator {
 public:
  SkipIterator(const NodePtr& input, std::int64_t count)
      : input_(input->make_iterator()), count_(count), to_skip_(count) {}
  bool next(Item& out) override {
    start();
    return input_->next(out);
  }
  std::int64_t advance(std::int64_t n) override {
    start();
    return input_->advance(n);
  }
  Json save() const override { return {{"to_skip", to_skip_}, {"input", input_->save()}}; }
  void restore(const Json& state) override {
    to_skip_ = state_count(state, "to_skip", count_);
    input_->restore(state_at(state, "input"));
  }

 private:
  void start() {
    if (to_skip_ > 0) input_->advance(std::exchange(to_skip_, 0));
  }
  IteratorPtr input_;
  std::int64_t count_, to_skip_;
};

class SkipNode : public PassingNode {
 public:
  SkipNode(NodePtr input, std::int64_t count) : PassingNode("skip", {std::move(input)}), count_(count) {}
  IteratorPtr make_iterator() const override { return std::make_unique<SkipIterator>(input(), count_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return skip_node(inputs[0], count_); }
  std::int64_t cardinality() const override {
    const std::int64_t n = input()->cardinality();
    return n < 0 ? n : std::max<std::int64_t>(n - count_, 0);
  }

 private:
  std::int64_t count_;
};

class ShardIterator : public NodeIterator {
 public:
  ShardIterator(const NodePtr& input, std::int64_t num_shards, std::int64_t index)
      : input_(input->make_iterator()), stride_(num_shards), gap_(index) {}
  bool next(Item& out) override {
    const std::int64_t gap = std::exchange(gap_, stride_ - 1);
    return input_->advance(gap) == gap && input_->next(out);
  }
  Json save() const override { return {{"gap", gap_}, {"input", input_->save()}}; }
  void restore(const Json& state) override {
    gap_ = state_count(state, "gap", stride_);
    input_->restore(state_at(state, "input"));
  }

 private:
  IteratorPtr input_;
  std::int64_t stride_;
  std::int64_t gap_;  // elements to pass over before the next
};

class ShardNode : public PassingNode {
 public:
  ShardNode(NodePtr input, std::int64_t num_shards, std::int64_t index)
      : PassingNode("shard", {std::move(input)}), num_shards_(num_shards), index_(index) {}
  IteratorPtr make_iterator() const override { return std::make_unique<ShardIterator>(input(), num_shards_, index_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return shard_node(inputs[0], num_shards_, index_); }
  std::int64_t cardinality() const override {
    const std::int64_t n = input()->cardinality();
    return n < 0 ? n : n / num_shards_ + (index_ < n % num_shards_ ? 1 : 0);
  }

 private:
  std::int64_t num_shards_, index_;
};

bool same_types(const ElementSpec& a, const ElementSpec& b) {
  if (a.is_leaf() && b.is_leaf()) return a.leaf().dtype == b.leaf().dtype;
  if (a.size() != b.size() || a.is_list() != b.is_list() || a.is_dict() != b.is_dict()) return false;
  if (a.is_dict()) {
    return std::all_of(a.entries().begin(), a.entries().end(), [&](const auto& entry) {
      const ElementSpec* other = b.find(entry.first);
      return other && same_types(entry.second, *other);
    });
  }
  return std::equal(a.begin(), a.end(), b.begin(), same_types);
}
std::string describe(const ElementSpec& spec) {
  if (spec.is_leaf()) return fmt::format("{} {}", dtype_name(spec.leaf().dtype), spec.leaf().shape.to_string());
  std::vector<std::string> parts;
  if (spec.is_list()) {
    for (const ElementSpec& part : spec) parts.push_back(describe(part));
    return fmt::format("({})", fmt::join(parts, ", "));
  }
  for (const auto& [name, part] : spec.entries()) parts.push_back(fmt::format("'{}': {}", name, describe(part)));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

// The second dataset's iterator is made when the first has ended, as tf.data does.
class ConcatenateIterator : public NodeIterator {
 public:
  explicit ConcatenateIterator(const std::vector<NodePtr>& inputs)
      : inputs_(inputs), current_(inputs[0]->make_iterator()) {}
  bool next(Item& out) override {
    while (current_) {
      if (current_->next(out)) {
        if (!checked_) check(out.element());
        return true;
      }
      current_ = ++index_ < inputs_.size() ? inputs_[index_]->make_iterator() : nullptr;
      checked_ = false;
    }
    return false;
  }
  std::int64_t advance(std::int64_t n) override {
    std::int64_t moved = 0;
    while (current_ && moved < n) {
      moved += current_->advance(n - moved);
      if (moved < n) current_ = ++index_ < inputs_.size() ? inputs_[index_]->make_iterator() : nullptr;
    }
    return moved;
  }
  Json save() const override {
    return {{"index", index_}, {"input", current_ ? current_->save() : Json()}, {"nodes", save_nodes(*inputs_[1])}};
  }
  void restore(const Json& state) override {
    const std::int64_t index = state_count(state, "index");
    const Json& input = state_at(state, "input");
    index_ = static_cast<std::size_t>(std::clamp<std::int64_t>(index, 0, static_cast<std::int64_t>(inputs_.size())));
    current_ = nullptr;
    if (index_ < inputs_.size() && !input.is_null()) {
      current_ = inputs_[index_]->make_iterator();
      current_->restore(input);
    }
    restore_nodes(*inputs_[1], state_at(state, "nodes"));
  }

 private:
  const std::vector<NodePtr>& inputs_;
  IteratorPtr current_;
  // The first element of the second dataset has the structure and the dtypes of those of the first.
  void check(const Element& element) {
    checked_ = true;
    if (!first_) {
      first_ = spec_of(element);
    } else if (!same_types(*first_, spec_of(element))) {
      throw_invalid_argument(
          fmt::format("concatenate: incompatible elements: {} in the first dataset, {} in the second",
                      describe(*first_), describe(spec_of(element))));
    }
  }

  std::size_t index_ = 0;
  std::optional<ElementSpec> first_;
  bool checked_ = false;
};

class ConcatenateNode : public DatasetNode {
 public:
  ConcatenateNode(NodePtr a, NodePtr b) : DatasetNode("concatenate", {std::move(a), std::move(b)}) {}
  IteratorPtr make_iterator() const override { return std::make_unique<ConcatenateIterator>(inputs()); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return concatenate_node(inputs[0], inputs[1]); }
  std::int64_t cardinality() const override {
    const std::int64_t a = inputs()[0]->cardinality(), b = inputs()[1]->cardinality();
    if (a == kInfiniteCardinality || b == kInfiniteCardinality) return kInfiniteCardinality;
    return a < 0 || b < 0 ? kUnknownCardinality : a + b;
  }
  ElementSpec element_spec() const override {
    return merge_specs(inputs()[0]->element_spec(), inputs()[1]->element_spec());
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    std::optional<Element> first = inputs()[0]->sample(copies);
    return first ? first : inputs()[1]->sample(copies);
  }
};

class EnumerateIterator : public NodeIterator {
 public:
  EnumerateIterator(const NodePtr& input, std::int64_t start) : input_(input->make_iterator()), number_(start) {}
  bool next(Item& out) override {
    Item item;
    if (!input_->next(item)) return false;
    out = Item(Element::list({Element(Tensor::scalar<std::int64_t>(number_++)), item.element()}));
    return true;
  }
  std::int64_t advance(std::int64_t n) override {
    const std::int64_t moved = input_->advance(n);
    number_ += moved;
    return moved;
  }
  Json save() const override { return {{"number", number_}, {"input", input_->save()}}; }
  void restore(const Json& state) override {
    number_ = state_count(state, "number");
    input_->restore(state_at(state, "input"));
  }

 private:
  IteratorPtr input_;
  std::int64_t number_;
};

class EnumerateNode : public DatasetNode {
 public:
  EnumerateNode(NodePtr input, std::int64_t start) : DatasetNode("enumerate", {std::move(input)}), start_(start) {}
  IteratorPtr make_iterator() const override { return std::make_unique<EnumerateIterator>(input(), start_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return enumerate_node(inputs[0], start_); }
  std::int64_t cardinality() const override { return input()->cardinality(); }
  ElementSpec element_spec() const override {
    return ElementSpec::list({ElementSpec(TensorSpec(Shape(), DType::kInt64)), input()->element_spec()});
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return std::nullopt;
    return Element::list({Element(Tensor::scalar<std::int64_t>(start_)), *element});
  }

 private:
  std::int64_t start_;
};

Json save_all(const std::vector<IteratorPtr>& iterators) {
  Json states = Json::array();
  for (const IteratorPtr& iterator : iterators) states.push_back(iterator->save());
  return states;
}

void restore_all(const std::vector<IteratorPtr>& iterators, const Json& states) {
  if (!states.is_array() || states.size() != iterators.size()) {
    throw_invalid_argument(
        fmt::format("the state of a dataset iterator does not fit this dataset: {} inputs where {} are expected",
                    states.size(), iterators.size()));
  }
  for (std::size_t i = 0; i < iterators.size(); ++i) iterators[i]->restore(states[i]);
}

class ZipIterator : public NodeIterator {
 public:
  explicit ZipIterator(const std::vector<NodePtr>& inputs) {
    for (const NodePtr& input : inputs) inputs_.push_back(input->make_iterator());
  }
  bool next(Item& out) override {
    if (ended_) return false;
    Element::List parts;
    for (const IteratorPtr& input : inputs_) {
      Item item;
      if (!input->next(item)) {
        ended_ = true;
        return false;
      }
      parts.push_back(item.element());
    }
    out = Item(Element::list(std::move(parts)));
    return true;
  }
  std::int64_t advance(std::int64_t n) override {
    for (const IteratorPtr& input : inputs_) {
      const std::int64_t moved = input->advance(n);
      if (moved < n) ended_ = true;
      n = moved;
    }
    return n;
  }
  Json save() const override { return {{"ended", ended_}, {"inputs", save_all(inputs_)}}; }
  void restore(const Json& state) override {
    ended_ = state_at(state, "ended") == Json(true);
    restore_all(inputs_, state_at(state, "inputs"));
  }

 private:
  std::vector<IteratorPtr> inputs_;
  bool ended_ = false;
};

class ZipNode : public DatasetNode {
 public:
  explicit ZipNode(std::vector<NodePtr> inputs) : DatasetNode("zip", std::move(inputs)) {}
  IteratorPtr make_iterator() const override { return std::make_unique<ZipIterator>(inputs()); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return zip_node(std::move(inputs)); }
  std::int64_t cardinality() const override {
    std::int64_t least = kInfiniteCardinality;
    for (const NodePtr& input : inputs()) {
      const std::int64_t n = input->cardinality();
      if (n == kUnknownCardinality) return n;
      if (n >= 0) least = least < 0 ? n : std::min(least, n);
    }
    return least;
  }
  ElementSpec element_spec() const override {
    ElementSpec::List specs;
    for (const NodePtr& input : inputs()) specs.push_back(input->element_spec());
    return ElementSpec::list(std::move(specs));
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    Element::List parts;
    for (const NodePtr& input : inputs()) {
      std::optional<Element> part = input->sample(copies);
      if (!part) return std::nullopt;
      parts.push_back(std::move(*part));
    }
    return Element::list(std::move(parts));
  }
};

// inputs: the choices, then the datasets to choose from.
class ChooseIterator : public NodeIterator {
 public:
  ChooseIterator(const std::vector<NodePtr>& inputs, bool stop_on_empty)
      : choices_(inputs[0]->make_iterator()), stop_on_empty_(stop_on_empty) {
    for (std::size_t i = 1; i < inputs.size(); ++i) inputs_.push_back(inputs[i]->make_iterator());
  }
  bool next(Item& out) override {
    Item choice;
    while (!ended_ && choices_->next(choice)) {
      const auto index = choice.element().leaf().item<std::int64_t>();
      if (index < 0 || index >= static_cast<std::int64_t>(inputs_.size())) {
        throw_invalid_argument(
            fmt::format("choose_from_datasets: invalid choice: found {}, expected 0 to {}", index, inputs_.size() - 1));
      }
      const auto at = static_cast<std::size_t>(index);
      if (inputs_[at]->next(out)) return true;
      exhausted_.insert(at);
      ended_ = stop_on_empty_ || exhausted_.size() == inputs_.size();
    }
    return false;
  }
  Json save() const override {
    return {{"ended", ended_}, {"choices", choices_->save()}, {"inputs", save_all(inputs_)}};
  }
  void restore(const Json& state) override {
    ended_ = state_at(state, "ended") == Json(true);
    choices_->restore(state_at(state, "choices"));
    restore_all(inputs_, state_at(state, "inputs"));
    exhausted_.clear();
  }

 private:
  IteratorPtr choices_;
  std::vector<IteratorPtr> inputs_;
  std::set<std::size_t> exhausted_;  // of inputs_
  bool stop_on_empty_;
  bool ended_ = false;
};

class ChooseNode : public DatasetNode {
 public:
  ChooseNode(std::vector<NodePtr> inputs, bool stop_on_empty)
      : DatasetNode("choose_from_datasets", std::move(inputs)), stop_on_empty_(stop_on_empty) {}
  IteratorPtr make_iterator() const override { return std::make_unique<ChooseIterator>(inputs(), stop_on_empty_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return choose_node(std::move(inputs), stop_on_empty_);
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  ElementSpec element_spec() const override {
    ElementSpec spec = inputs()[1]->element_spec();
    for (std::size_t i = 2; i < inputs().size(); ++i) spec = merge_specs(spec, inputs()[i]->element_spec());
    return spec;
  }
  std::optional<Element> sample(std::int64_t copies) const override { return inputs()[1]->sample(copies); }

 private:
  bool stop_on_empty_;
};

class AssertCardinalityIterator : public NodeIterator {
 public:
  AssertCardinalityIterator(const NodePtr& input, std::int64_t expected)
      : input_(input->make_iterator()), expected_(expected) {}
  bool next(Item& out) override {
    const bool more = input_->next(out);
    given_ += more ? 1 : 0;
    const bool wrong = more ? expected_ >= 0 && given_ > expected_ : given_ != expected_;
    if (wrong) {
      throw_failed_precondition(
          fmt::format("assert_cardinality: expected {} elements, the input has {}{}",
                      expected_ == kInfiniteCardinality ? "infinitely many" : std::to_string(expected_),
                      more ? "at least " : "", given_));
    }
    return more;
  }
  Json save() const override { return {{"given", given_}, {"input", input_->save()}}; }
  void restore(const Json& state) override {
    given_ = state_count(state, "given");
    input_->restore(state_at(state, "input"));
  }

 private:
  IteratorPtr input_;
  std::int64_t expected_;
  std::int64_t given_ = 0;
};

class AssertCardinalityNode : public PassingNode {
 public:
  AssertCardinalityNode(NodePtr input, std::int64_t count)
      : PassingNode("assert_cardinality", {std::move(input)}), count_(count) {}
  IteratorPtr make_iterator() const override { return std::make_unique<AssertCardinalityIterator>(input(), count_); }
  std::int64_t cardinality() const override { return count_; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return assert_cardinality_node(inputs[0], count_); }

 private:
  std::int64_t count_;
};

}  // namespace

NodePtr repeat_node(NodePtr input, std::int64_t count) { return std::make_shared<RepeatNode>(std::move(input), count); }
NodePtr take_node(NodePtr input, std::int64_t count) { return std::make_shared<TakeNode>(std::move(input), count); }
NodePtr skip_node(NodePtr input, std::int64_t count) { return std::make_shared<SkipNode>(std::move(input), count); }
NodePtr shard_node(NodePtr input, std::int64_t num_shards, std::int64_t index) {
  return std::make_shared<ShardNode>(std::move(input), num_shards, index);
}
NodePtr concatenate_node(NodePtr a, NodePtr b) { return std::make_shared<ConcatenateNode>(std::move(a), std::move(b)); }
NodePtr enumerate_node(NodePtr input, std::int64_t start) {
  return std::make_shared<EnumerateNode>(std::move(input), start);
}
NodePtr zip_node(std::vector<NodePtr> inputs) { return std::make_shared<ZipNode>(std::move(inputs)); }
NodePtr choose_node(std::vector<NodePtr> choices_and_inputs, bool stop_on_empty) {
  return std::make_shared<ChooseNode>(std::move(choices_and_inputs), stop_on_empty);
}
NodePtr assert_cardinality_node(NodePtr input, std::int64_t count) {
  return std::make_shared<AssertCardinalityNode>(std::move(input), count);
}

}  // namespace lockstep::data
