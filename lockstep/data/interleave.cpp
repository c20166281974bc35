// Dataset.interleave, and flat_map, which is interleave with a cycle of one.
#include "lockstep/data/node_internal.h"

namespace lockstep::data {
namespace {

class InterleaveIterator : public NodeIterator {
 public:
  InterleaveIterator(const NodePtr& input, const FlatMapFunction& fn, std::int64_t cycle_length,
                     std::int64_t block_length)
      : fn_(fn),
        functions_(SharedFunctions::of_datasets(&fn)),
        input_(input->make_iterator()),
        start_(input_->save()),
        slots_(static_cast<std::size_t>(cycle_length)),
        block_length_(block_length) {}

  // A slot gives block_length elements in turn. One whose dataset has ended waits for its next turn to be
  // given the next dataset.
  bool next(Item& out) override {
    while (!ended_ || open_ > 0) {
      Slot& slot = slots_[current_];
      if (slot.iterator) {
        if (next_of(slot, out)) {
          if (++block_ == block_length_) next_slot();
          return true;
        }
        slot = Slot();
        --open_;
        next_slot();
      } else if (!ended_) {
        Item item;
        ended_ = !input_->next(item);
        if (!ended_) {
          open(slot, item, consumed_++);
          slot.iterator = iterator_of(slot.dataset);
        }
      } else {
        next_slot();
      }
    }
    return false;
  }

  Json save() const override {
    Json slots = Json::array();
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Slot& slot = slots_[i];
      if (!slot.iterator) continue;
      slots.push_back({{"slot", i},
                       {"element", slot.element},
                       {"nodes", save_nodes(*slot.dataset.node())},
                       {"iterator", slot.iterator->save()}});
    }
    return fn_.save({{"start", start_},
                     {"input", input_->save()},
                     {"consumed", consumed_},
                     {"ended", ended_},
                     {"current", current_},
                     {"block", block_},
                     {"slots", std::move(slots)}});
  }

  void restore(const Json& state) override {
    start_ = state_at(state, "start");
    consumed_ = state_count(state, "consumed");
    ended_ = state_at(state, "ended") == Json(true);
    current_ = slot_at(state, "current");
    block_ = state_count(state, "block");
    slots_ = std::vector<Slot>(slots_.size());
    open_ = 0;
    std::vector<std::pair<std::int64_t, const Json*>> saved;  // by number of the input's element
    for (const Json& slot : state_at(state, "slots")) saved.emplace_back(state_count(slot, "element"), &slot);
    std::sort(saved.begin(), saved.end());
    std::vector<std::int64_t> numbers;
    for (const auto& entry : saved) numbers.push_back(entry.first);
    input_->restore(start_);
    const std::vector<Item> items = items_at(*input_, numbers);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      const Json& from = *saved[i].second;
      Slot& slot = slots_[slot_at(from, "slot")];
      if (slot.iterator) throw_invalid_argument("invalid state of a dataset's interleave: one slot twice");
      open(slot, items[i], saved[i].first);
      slot.iterator = iterator_of(slot.dataset);
      const SharedFunctions::Scope scope(functions_.get());
      slot.iterator->restore(state_at(from, "iterator"));
      restore_nodes(*slot.dataset.node(), state_at(from, "nodes"));
    }
    input_->restore(state_at(state, "input"));
    fn_.restore(state);  // after the datasets of the slots are made again
  }

 private:
  struct Slot {
    Dataset dataset;
    std::unique_ptr<NodeIterator> iterator;  // null: the slot is free
    std::int64_t element = 0;                // number of the input's element that produced it
  };
  std::size_t slot_at(const Json& state, std::string_view key) const {
    const auto number = static_cast<std::size_t>(state_count(state, key));
    if (number >= slots_.size()) {
      throw_invalid_argument(
          fmt::format("invalid state of a dataset's interleave: found slot {} of {}", number, slots_.size()));
    }
    return number;
  }
  std::unique_ptr<NodeIterator> iterator_of(const Dataset& dataset) const {
    const SharedFunctions::Scope scope(functions_.get());
    return dataset.node()->make_iterator();
  }
  bool next_of(Slot& slot, Item& out) const {
    const SharedFunctions::Scope scope(functions_.get());
    return slot.iterator->next(out);
  }
  void open(Slot& slot, const Item& item, std::int64_t element) {
    slot.dataset = fn_(item.element());
    slot.element = element;
    ++open_;
  }
  void next_slot() {
    block_ = 0;
    current_ = (current_ + 1) % slots_.size();
  }

  IteratorFunction<FlatMapFunction> fn_;
  std::shared_ptr<SharedFunctions> functions_;  // of the datasets
  std::unique_ptr<NodeIterator> input_;
  Json start_;
  std::vector<Slot> slots_;
  std::int64_t block_length_;
  std::size_t current_ = 0;
  std::int64_t block_ = 0;     // elements given in this turn
  std::int64_t open_ = 0;      // slots in use
  std::int64_t consumed_ = 0;  // elements of the input
  bool ended_ = false;         // the input has
};

bool any_reads_files(const DatasetNode& node) {
  return node.reads_files() || std::any_of(node.inputs().begin(), node.inputs().end(),
                                           [](const NodePtr& input) { return any_reads_files(*input); });
}

class InterleaveNode : public DatasetNode {
 public:
  InterleaveNode(NodePtr input, FlatMapFunction fn, std::int64_t cycle_length, std::int64_t block_length)
      : DatasetNode("interleave", {std::move(input)}),
        fn_(std::move(fn)),
        cycle_length_(cycle_length),
        block_length_(block_length) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<InterleaveIterator>(input(), fn_, cycle_length_, block_length_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return interleave_node(inputs[0], fn_, cycle_length_, block_length_);
  }
  bool reads_files() const override {
    const std::optional<Element> element = input()->sample(1);
    return element && any_reads_files(*dataset_of(*element).node());
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  ElementSpec element_spec() const override {
    const std::optional<Element> element = input()->sample(1);
    return element ? dataset_of(*element).element_spec() : ElementSpec();
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return std::nullopt;
    return dataset_of(*element).node()->sample(copies);
  }

 private:
  Dataset dataset_of(const Element& element) const { return IteratorFunction<FlatMapFunction>::sample(fn_, element); }

  FlatMapFunction fn_;
  std::int64_t cycle_length_, block_length_;
};

}  // namespace

NodePtr interleave_node(NodePtr input, FlatMapFunction fn, std::int64_t cycle_length, std::int64_t block_length) {
  return std::make_shared<InterleaveNode>(std::move(input), std::move(fn), cycle_length, block_length);
}

}  // namespace lockstep::data
