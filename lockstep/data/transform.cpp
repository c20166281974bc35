// map, filter, take_while and with_options.
#include <mutex>

#include "lockstep/data/node_internal.h"
#include "lockstep/data/replay_limit_internal.h"

namespace lockstep::data {
namespace {

class MapIterator : public NodeIterator {
 public:
  MapIterator(const NodePtr& input, const MapFunction& fn) : input_(input->make_iterator()), fn_(fn) {}
  bool next(Item& out) override {
    Item item;
    if (!input_->next(item)) return false;
    out = Item(fn_(item.element()));
    return true;
  }
  // Skipped elements count if the function draws random numbers.
  std::int64_t advance(std::int64_t n) override {
    std::int64_t moved = 0;
    for (Item item; moved < n && fn_.may_draw(); ++moved) {
      if (!next(item)) return moved;
      ReplayLimit::check();
    }
    return moved + input_->advance(n - moved);
  }
  Json save() const override { return fn_.save({{"input", input_->save()}}); }
  void restore(const Json& state) override {
    fn_.restore(state);
    input_->restore(state_at(state, "input"));
  }

 private:
  std::unique_ptr<NodeIterator> input_;
  IteratorFunction<MapFunction> fn_;
};

class MapNode : public DatasetNode {
 public:
  MapNode(NodePtr input, MapFunction fn) : DatasetNode("map", {std::move(input)}), fn_(std::move(fn)) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return std::make_unique<MapIterator>(input(), fn_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return map_node(inputs[0], fn_); }
  std::int64_t cardinality() const override { return input()->cardinality(); }
  ElementSpec element_spec() const override {
    const std::lock_guard lock(mutex_);
    if (!spec_) {
      const std::optional<Element> one = sample(1);
      if (!one) return ElementSpec();
      spec_ = merge_specs(spec_of(*one), spec_of(*sample(2)));
    }
    return *spec_;
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return std::nullopt;
    return IteratorFunction<MapFunction>::sample(fn_, *element);
  }

 private:
  MapFunction fn_;
  mutable std::mutex mutex_;
  mutable std::optional<ElementSpec> spec_;
};

class FilterIterator : public NodeIterator {
 public:
  FilterIterator(const NodePtr& input, const FilterFunction& keep) : input_(input->make_iterator()), keep_(keep) {}
  bool next(Item& out) override {
    while (input_->next(out)) {
      if (keep_(out.element())) return true;
      ReplayLimit::check();
    }
    return false;
  }
  Json save() const override { return keep_.save({{"input", input_->save()}}); }
  void restore(const Json& state) override {
    keep_.restore(state);
    input_->restore(state_at(state, "input"));
  }

 private:
  std::unique_ptr<NodeIterator> input_;
  IteratorFunction<FilterFunction> keep_;
};

class TakeWhileIterator : public NodeIterator {
 public:
  TakeWhileIterator(const NodePtr& input, const FilterFunction& predicate)
      : input_(input->make_iterator()), predicate_(predicate) {}
  bool next(Item& out) override {
    if (ended_) return false;
    ended_ = !input_->next(out) || !predicate_(out.element());
    return !ended_;
  }
  Json save() const override { return predicate_.save({{"ended", ended_}, {"input", input_->save()}}); }
  void restore(const Json& state) override {
    predicate_.restore(state);
    ended_ = state_at(state, "ended") == Json(true);
    input_->restore(state_at(state, "input"));
  }

 private:
  std::unique_ptr<NodeIterator> input_;
  IteratorFunction<FilterFunction> predicate_;
  bool ended_ = false;
};

template <typename Iterator>
class PredicateNode : public PassingNode {
 public:
  PredicateNode(std::string name, NodePtr input, FilterFunction fn)
      : PassingNode(std::move(name), {std::move(input)}), fn_(std::move(fn)) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return std::make_unique<Iterator>(input(), fn_); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<PredicateNode>(name(), inputs[0], fn_);
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }

 private:
  FilterFunction fn_;
};

class OptionsNode : public PassingNode {
 public:
  OptionsNode(NodePtr input, Options options) : PassingNode("options", {std::move(input)}), options_(options) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return input()->make_iterator(); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return options_node(inputs[0], options_); }
  const Options* options() const override { return &options_; }

 private:
  Options options_;
};

}  // namespace

NodePtr options_node(NodePtr input, Options options) {
  return std::make_shared<OptionsNode>(std::move(input), options);
}

NodePtr map_node(NodePtr input, MapFunction fn) { return std::make_shared<MapNode>(std::move(input), std::move(fn)); }

NodePtr filter_node(NodePtr input, FilterFunction fn) {
  return std::make_shared<PredicateNode<FilterIterator>>("filter", std::move(input), std::move(fn));
}

NodePtr take_while_node(NodePtr input, FilterFunction fn) {
  return std::make_shared<PredicateNode<TakeWhileIterator>>("take_while", std::move(input), std::move(fn));
}

}  // namespace lockstep::data
