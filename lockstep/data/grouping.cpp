// scan, unique, ignore_errors, group_by_window and bucket_by_sequence_length.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::data {
namespace {

// An iterator whose state is a function of the elements that it took: restored by taking them again.
class ReplayedIterator : public NodeIterator {
 public:
  explicit ReplayedIterator(const NodePtr& input) : input_(input->make_iterator()), start_(input_->save()) {}
  bool next(Item& out) final {
    if (ended_) return false;
    ended_ = !produce(out);
    given_ += ended_ ? 0 : 1;
    return !ended_;
  }
  Json save() const final { return {{"start", start_}, {"given", given_}, {"ended", ended_}}; }
  void restore(const Json& state) final {
    start_ = state_at(state, "start");
    const std::int64_t given = state_count(state, "given");
    const bool ended = state_at(state, "ended") == Json(true);
    input_->restore(start_);
    given_ = 0;
    ended_ = false;
    reset();
    advance(given);
    ended_ = ended;
  }

 protected:
  virtual bool produce(Item& out) = 0;
  virtual void reset() {}
  NodeIterator& input() { return *input_; }

 private:
  std::unique_ptr<NodeIterator> input_;
  Json start_;
  std::int64_t given_ = 0;
  bool ended_ = false;
};

class ScanIterator : public ReplayedIterator {
 public:
  ScanIterator(const NodePtr& input, const Element& initial_state, const ScanFunction& fn)
      : ReplayedIterator(input), initial_state_(initial_state), state_(initial_state), fn_(fn) {}

 protected:
  bool produce(Item& out) override {
    Item item;
    if (!input().next(item)) return false;
    auto [state, output] = fn_(state_, item.element());
    state_ = std::move(state);
    out = Item(std::move(output));
    return true;
  }
  void reset() override {
    state_ = initial_state_;
    fn_.reset();
  }

 private:
  Element initial_state_, state_;
  IteratorFunction<ScanFunction> fn_;
};

class ScanNode : public DatasetNode {
 public:
  ScanNode(NodePtr input, Element initial_state, ScanFunction fn)
      : DatasetNode("scan", {std::move(input)}), initial_state_(std::move(initial_state)), fn_(std::move(fn)) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<ScanIterator>(input(), initial_state_, fn_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return scan_node(inputs[0], initial_state_, fn_); }
  std::int64_t cardinality() const override { return input()->cardinality(); }
  ElementSpec element_spec() const override {
    const std::optional<Element> one = sample(1);
    return one ? merge_specs(spec_of(*one), spec_of(*sample(2))) : ElementSpec();
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return std::nullopt;
    return IteratorFunction<ScanFunction>::sample(fn_, initial_state_, *element).second;
  }

 private:
  Element initial_state_;
  ScanFunction fn_;
};

// Bytes that are equal for equal values.
std::string value_key(const Element& element) {
  if (!element.is_leaf()) throw_invalid_argument("unique requires elements that are one tensor each");
  const Tensor& value = element.leaf();
  if (value.dtype() != DType::kInt32 && value.dtype() != DType::kInt64 && value.dtype() != DType::kString) {
    throw_invalid_argument(
        fmt::format("unique: found elements of {}, expected int32, int64 or string", dtype_name(value.dtype())));
  }
  std::string key = value.shape().to_string();
  if (value.dtype() == DType::kString) {
    for (const std::string& text : value.string_values()) key += fmt::format("{}:", text.size()) + text;
  } else {
    const Tensor wide = value.dtype() == DType::kInt64 ? value : ops::cast(value, DType::kInt64);
    for (const std::int64_t number : wide.to_vector<std::int64_t>()) key += fmt::format("{},", number);
  }
  return key;
}

class UniqueIterator : public ReplayedIterator {
 public:
  using ReplayedIterator::ReplayedIterator;

 protected:
  bool produce(Item& out) override {
    while (input().next(out)) {
      if (seen_.insert(value_key(out.element())).second) return true;
    }
    return false;
  }
  void reset() override { seen_.clear(); }

 private:
  std::set<std::string> seen_;
};

template <bool kLogs>
class IgnoreErrorsIterator : public NodeIterator {
 public:
  explicit IgnoreErrorsIterator(const NodePtr& input) : input_(input->make_iterator()) {}
  bool next(Item& out) override {
    for (;;) {
      try {
        if (!input_->next(out)) return false;
        out = Item(out.element());
        return true;
      } catch (const Error& error) {
        if (kLogs) log_warning("ignore_errors: {}", error.what());
      }
    }
  }
  Json save() const override { return {{"input", input_->save()}}; }
  void restore(const Json& state) override { input_->restore(state_at(state, "input")); }

 private:
  std::unique_ptr<NodeIterator> input_;
};

// Elements of the input, but fewer.
template <typename Iterator>
class FewerNode : public PassingNode {
 public:
  FewerNode(std::string name, NodePtr input) : PassingNode(std::move(name), {std::move(input)}) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return std::make_unique<Iterator>(input()); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<FewerNode>(name(), inputs[0]);
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
};

using WindowSizes = std::function<std::int64_t(std::int64_t)>;

class GroupIterator : public ReplayedIterator {
 public:
  GroupIterator(const NodePtr& input, KeyFunction key, GroupFunction reduce, WindowSizes window_size)
      : ReplayedIterator(input),
        key_(std::move(key)),
        reduce_(std::move(reduce)),
        window_size_(std::move(window_size)) {}

 protected:
  bool produce(Item& out) override {
    for (;;) {
      if (flushed_) {
        if (flushed_->next(out)) return true;
        flushed_.reset();
      }
      Item item;
      while (!flushed_ && !input_ended_) {
        input_ended_ = !input().next(item);
        if (!input_ended_) add(item.element());
      }
      if (!flushed_) {
        if (groups_.empty()) return false;
        flush(groups_.begin()->first);
      }
    }
  }
  void reset() override {
    groups_.clear();
    flushed_.reset();
    input_ended_ = false;
  }

 private:
  void add(Element element) {
    const std::int64_t key = key_(element);
    const std::int64_t size = window_size_(key);
    if (size < 1) {
      throw_invalid_argument(
          fmt::format("group_by_window: invalid window size of key {}: found {}, expected at least 1", key, size));
    }
    std::vector<Element>& group = groups_[key];
    group.push_back(std::move(element));
    if (static_cast<std::int64_t>(group.size()) >= size) flush(key);
  }
  void flush(std::int64_t key) {
    const auto group = groups_.find(key);
    result_ = reduce_(key, Dataset(elements_node(std::move(group->second))));
    groups_.erase(group);
    flushed_ = result_.node()->make_iterator();
  }

  KeyFunction key_;
  GroupFunction reduce_;
  WindowSizes window_size_;
  std::map<std::int64_t, std::vector<Element>> groups_;
  Dataset result_;
  std::unique_ptr<NodeIterator> flushed_;  // the elements of result_
  bool input_ended_ = false;
};

class GroupNode : public DatasetNode {
 public:
  GroupNode(NodePtr input, KeyFunction key, GroupFunction reduce, WindowSizes window_size)
      : DatasetNode("group_by_window", {std::move(input)}),
        key_(std::move(key)),
        reduce_(std::move(reduce)),
        window_size_(std::move(window_size)) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<GroupIterator>(input(), key_, reduce_, window_size_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return group_by_window_node(inputs[0], key_, reduce_, window_size_);
  }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  ElementSpec element_spec() const override {
    const std::optional<Dataset> group = sample_group(1);
    return group ? group->element_spec() : ElementSpec();
  }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Dataset> group = sample_group(copies);
    if (!group) return std::nullopt;
    return group->node()->sample(copies);
  }

 private:
  std::optional<Dataset> sample_group(std::int64_t copies) const {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return std::nullopt;
    return reduce_(key_(*element), Dataset(elements_node({*element})));
  }

  KeyFunction key_;
  GroupFunction reduce_;
  WindowSizes window_size_;
};

}  // namespace

NodePtr scan_node(NodePtr input, Element initial_state, ScanFunction fn) {
  return std::make_shared<ScanNode>(std::move(input), std::move(initial_state), std::move(fn));
}

NodePtr unique_node(NodePtr input) { return std::make_shared<FewerNode<UniqueIterator>>("unique", std::move(input)); }

NodePtr ignore_errors_node(NodePtr input, bool log_warning) {
  if (log_warning) return std::make_shared<FewerNode<IgnoreErrorsIterator<true>>>("ignore_errors", std::move(input));
  return std::make_shared<FewerNode<IgnoreErrorsIterator<false>>>("ignore_errors", std::move(input));
}

NodePtr group_by_window_node(NodePtr input, KeyFunction key, GroupFunction reduce, WindowSizes window_size) {
  return std::make_shared<GroupNode>(std::move(input), std::move(key), std::move(reduce), std::move(window_size));
}

Dataset Dataset::bucket_elements(KeyFunction length, const std::vector<std::int64_t>& boundaries,
                                 const std::vector<std::int64_t>& batch_sizes, const BucketOptions& options) const {
  if (batch_sizes.size() != boundaries.size() + 1) {
    throw_invalid_argument(fmt::format("bucket_by_sequence_length: {} boundaries require {} batch sizes, found {}",
                                       boundaries.size(), boundaries.size() + 1, batch_sizes.size()));
  }
  for (std::size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] <= boundaries[i - 1])
      throw_invalid_argument("bucket_by_sequence_length: invalid bucket_boundaries: expected increasing ones");
  }
  for (const std::int64_t size : batch_sizes) {
    if (size < 1) {
      throw_invalid_argument(
          fmt::format("bucket_by_sequence_length: invalid batch size: found {}, expected at least 1", size));
    }
  }
  const auto bucket_of = [boundaries, length = std::move(length)](const Element& element) {
    const std::int64_t n = length(element);
    return static_cast<std::int64_t>(std::upper_bound(boundaries.begin(), boundaries.end(), n) - boundaries.begin());
  };
  const auto size_of = [batch_sizes](std::int64_t bucket) { return batch_sizes[static_cast<std::size_t>(bucket)]; };
  const auto batch = [boundaries, batch_sizes, options, node = node_](std::int64_t bucket, const Dataset& group) {
    const auto at = static_cast<std::size_t>(bucket);
    if (options.no_padding) return group.batch(batch_sizes[at], options.drop_remainder);
    std::vector<Shape> shapes;
    if (options.padded_shapes) {
      shapes = options.padded_shapes->flatten();
    } else if (options.pad_to_bucket_boundary) {
      for (const TensorSpec& spec : node->element_spec().flatten()) shapes.push_back(spec.shape);
    }
    if (options.pad_to_bucket_boundary) {
      if (at >= boundaries.size()) {
        throw_invalid_argument(
            fmt::format("bucket_by_sequence_length: pad_to_bucket_boundary requires lengths below the last boundary {}",
                        boundaries.empty() ? 0 : boundaries.back()));
      }
      for (Shape& shape : shapes) {
        for (int axis = 0; axis < shape.rank(); ++axis) {
          if (shape[axis] == kUnknownDim) shape[axis] = boundaries[at] - 1;
        }
      }
    }
    return group.padded_batch(batch_sizes[at], shapes, options.padding_values, options.drop_remainder);
  };
  return Dataset(group_by_window_node(node_, bucket_of, batch, size_of));
}

}  // namespace lockstep::data
