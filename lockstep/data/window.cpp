// Dataset.window: lists of consecutive elements, each of which is then taken for a dataset.
#include <deque>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset_views.h"
#include "lockstep/data/node_internal.h"

namespace lockstep::data {
namespace {

struct WindowSize {
  std::int64_t size = 1, shift = 1, stride = 1;
  bool drop_remainder = false;
  std::int64_t span() const { return (size - 1) * stride + 1; }  // from the first to the last element of a window
};

class WindowIterator : public NodeIterator {
 public:
  WindowIterator(const NodePtr& input, WindowSize window)
      : input_(input->make_iterator()), start_(input_->save()), window_(window) {}

  bool next(Item& out) override {
    Item item;
    while (static_cast<std::int64_t>(buffer_.size()) < window_.span() && input_->next(item))
      buffer_.push_back(item.element());
    const auto held = static_cast<std::int64_t>(buffer_.size());
    if (held == 0 || (window_.drop_remainder && held < window_.span())) return false;
    Element::List elements;
    for (std::int64_t i = 0; i < std::min(held, window_.span()); i += window_.stride)
      elements.push_back(buffer_[static_cast<std::size_t>(i)]);
    out = Item(Element::list(std::move(elements)));
    const std::int64_t drop = std::min(held, window_.shift);
    buffer_.erase(buffer_.begin(), buffer_.begin() + drop);
    if (window_.shift > drop) input_->advance(window_.shift - drop);
    ++given_;
    return true;
  }
  Json save() const override { return {{"start", start_}, {"given", given_}}; }
  void restore(const Json& state) override {
    start_ = state_at(state, "start");
    given_ = state_count(state, "given");
    if (given_ > std::numeric_limits<std::int64_t>::max() / window_.shift)
      throw_invalid_argument(fmt::format("invalid state of a window: found {} windows", given_));
    buffer_.clear();
    input_->restore(start_);
    input_->advance(given_ * window_.shift);
  }

 private:
  std::unique_ptr<NodeIterator> input_;
  Json start_;
  WindowSize window_;
  std::deque<Element> buffer_;  // from the first element of the next window
  std::int64_t given_ = 0;
};

class WindowNode : public DatasetNode {
 public:
  WindowNode(NodePtr input, WindowSize window) : DatasetNode("window", {std::move(input)}), window_(window) {}
  std::unique_ptr<NodeIterator> make_iterator() const override {
    return std::make_unique<WindowIterator>(input(), window_);
  }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<WindowNode>(inputs[0], window_);
  }
  std::int64_t cardinality() const override {
    const std::int64_t n = input()->cardinality();
    if (n < 0) return n;
    const std::int64_t last = window_.drop_remainder ? n - window_.span() : n - 1;  // where a window may begin
    return last < 0 ? 0 : last / window_.shift + 1;
  }
  ElementSpec element_spec() const override { return input()->element_spec(); }
  std::optional<Element> sample(std::int64_t copies) const override {
    const std::optional<Element> element = input()->sample(copies);
    if (!element) return std::nullopt;
    return Element::list(Element::List(static_cast<std::size_t>(window_.size), *element));
  }

 private:
  WindowSize window_;
};

}  // namespace

NodePtr window_node(NodePtr input, std::int64_t size, std::int64_t shift, std::int64_t stride, bool drop_remainder) {
  const auto check = [](const char* what, std::int64_t value) {
    if (value < 1)
      throw_invalid_argument(fmt::format("window: invalid {}: found {}, expected at least 1", what, value));
    if (value > std::int64_t{1} << 40)
      throw_invalid_argument(fmt::format("window: invalid {}: found {}, which is too large", what, value));
  };
  check("size", size);
  check("shift", shift);
  check("stride", stride);
  check("span of a window", stride > (std::int64_t{1} << 40) / size ? -1 : size * stride);
  return std::make_shared<WindowNode>(std::move(input), WindowSize{size, shift, stride, drop_remainder});
}

Windows Dataset::window(std::int64_t size, const WindowOptions& options) const {
  return Windows(
      Dataset(window_node(node_, size, options.shift.value_or(size), options.stride, options.drop_remainder)));
}

Dataset Windows::dataset_of(const Element& list) { return Dataset(elements_node(list.parts())); }

Dataset Windows::part_of(const Element& list, std::size_t index) {
  std::vector<Element> parts;
  for (const Element& element : list) parts.push_back(element[index]);
  return Dataset(elements_node(std::move(parts)));
}

}  // namespace lockstep::data
