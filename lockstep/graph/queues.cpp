// Queues of TensorFlow 1. A graph runs on one thread here, so an operation that would wait for another one is an error.
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/queues_internal.h"
#include "lockstep/ops/call.h"

namespace lockstep::graph {
namespace {

// Thread-safe.
class Queue final : public Resource {
 public:
  struct Options {
    std::vector<DType> types;
    std::vector<Shape> shapes;  // of components; none: any
    std::int64_t capacity = -1;
    bool pads = false, shuffles = false, by_priority = false;
    std::int64_t min_left = 0;  // after a dequeue, while the queue is open
    std::uint64_t seed = 0;
  };

  explicit Queue(Options options) : options_(std::move(options)), state_(options_.seed) {}
  std::string resource_name() const override { return "Queue"; }
  bool pads() const { return options_.pads; }

  void push(const Tensors& element) {
    const std::lock_guard lock(mutex_);
    if (closed_) throw_error(Code::kFailedPrecondition, "the queue is closed");
    if (element.size() != options_.types.size())
      throw_invalid_argument(fmt::format("an element of the queue has {} components, {} are given",
                                         options_.types.size(), element.size()));
    for (std::size_t i = 0; i < element.size(); ++i) {
      if (element[i].dtype() != options_.types[i])
        throw_invalid_argument(fmt::format("component {} is {}, expected {}", i, dtype_name(element[i].dtype()),
                                           dtype_name(options_.types[i])));
      if (i < options_.shapes.size() && !options_.shapes[i].compatible_with(element[i].shape()))
        throw_invalid_argument(fmt::format("component {} has shape {}, expected {}", i, element[i].shape().to_string(),
                                           options_.shapes[i].to_string()));
    }
    if (options_.capacity >= 0 && static_cast<std::int64_t>(elements_.size()) >= options_.capacity) {
      throw_failed_precondition(
          fmt::format("the queue is full ({} elements) and no other operation removes one", elements_.size()));
    }
    if (!options_.by_priority) return elements_.push_back(element);
    const auto after = std::upper_bound(
        elements_.begin(), elements_.end(), element[0].item<std::int64_t>(),
        [](std::int64_t priority, const Tensors& other) { return priority < other[0].item<std::int64_t>(); });
    elements_.insert(after, element);
  }

  // `count` elements, or, with `fewer`, those that there are.
  std::vector<Tensors> pop(std::int64_t count, bool fewer) {
    const std::lock_guard lock(mutex_);
    const auto size = static_cast<std::int64_t>(elements_.size());
    const std::int64_t available = closed_ ? size : std::max<std::int64_t>(0, size - options_.min_left);
    if (count < 0) throw_invalid_argument(fmt::format("{} elements of a queue", count));
    if (available < count && !(fewer && closed_ && available > 0)) {
      throw_out_of_range(fmt::format("{} elements are requested, but the queue has {}{}", count, available,
                                     closed_ ? " and is closed" : " and no other operation adds one"));
    }
    std::vector<Tensors> out;
    for (std::int64_t i = std::min(count, available); i > 0; --i) {
      const std::size_t at = options_.shuffles ? next_random() % elements_.size() : 0;
      out.push_back(std::move(elements_[at]));
      elements_.erase(elements_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    return out;
  }

  Tensors peek(std::int64_t place) const {
    const std::lock_guard lock(mutex_);
    if (place < 0 || place >= static_cast<std::int64_t>(elements_.size()))
      throw_out_of_range(fmt::format("element {} is requested, but there are {}", place, elements_.size()));
    return elements_[static_cast<std::size_t>(place)];
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  bool is_closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }
  std::int32_t size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int32_t>(elements_.size());
  }

 private:
  // TensorFlow's order depends on its threads; any order is right.
  std::uint64_t next_random() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }

  const Options options_;
  mutable std::mutex mutex_;
  std::deque<Tensors> elements_;
  bool closed_ = false;
  std::uint64_t state_;
};

Queue& queue_of(const Tensors& inputs) {
  auto* queue = !inputs.empty() && inputs[0].dtype() == DType::kResource && !inputs[0].is_symbolic()
                    ? dynamic_cast<Queue*>(inputs[0].resource_value().get())
                    : nullptr;
  if (!queue) throw_invalid_argument("the handle of a queue operation is not a queue");
  return *queue;
}

Tensors make_queue(const Step& step, const Tensors&, RunContext& context) {
  const auto make = [&]() -> std::shared_ptr<Resource> {
    const std::string& op = step.op->signature->name;
    Queue::Options options;
    options.types = step.attr<std::vector<DType>>("component_types");
    options.shapes = step.attr<std::vector<Shape>>("shapes");
    options.capacity = step.attr<std::int64_t>("capacity");
    options.pads = op.starts_with("Padding"), options.shuffles = op.starts_with("RandomShuffle");
    options.by_priority = op.starts_with("Priority");
    if (options.by_priority) {
      options.types.insert(options.types.begin(), DType::kInt64);
      if (!options.shapes.empty()) options.shapes.insert(options.shapes.begin(), Shape{});
    }
    if (options.shuffles) {
      options.min_left = step.attr<std::int64_t>("min_after_dequeue");
      options.seed = static_cast<std::uint64_t>(step.attr<std::int64_t>("seed2"));
    }
    return std::make_shared<Queue>(std::move(options));
  };
  const std::string& shared = step.attr<std::string>("shared_name");
  const std::string name =
      fmt::format("{}/{}", step.attr<std::string>("container"), shared.empty() ? step.node->name : shared);
  return {Tensor::resource(context.resources.find_or_put("queue", name, make))};
}

Tensors enqueue(const Step&, const Tensors& inputs, RunContext&) {
  queue_of(inputs).push(Tensors(inputs.begin() + 1, inputs.end()));
  return {};
}

Tensor row_of(const Tensor& x, std::int64_t row) {
  return ops::call1("GatherV2", {x, Tensor::scalar(row), Tensor::scalar(std::int32_t{0})});
}

Tensors enqueue_many(const Step&, const Tensors& inputs, RunContext&) {
  Queue& queue = queue_of(inputs);
  if (inputs.size() < 2) throw_invalid_argument("an element of a queue without components");
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].rank() < 1 || inputs[i].dim(0) != inputs[1].dim(0))
      throw_invalid_argument("the components differ in their number of elements");
  }
  for (std::int64_t row = 0; row < inputs[1].dim(0); ++row) {
    Tensors element;
    for (std::size_t i = 1; i < inputs.size(); ++i) element.push_back(row_of(inputs[i], row));
    queue.push(element);
  }
  return {};
}

Tensors dequeue(const Step&, const Tensors& inputs, RunContext&) { return queue_of(inputs).pop(1, false).at(0); }

// Grown with zeros at the end of each axis to the largest of its component.
void pad_to_largest(Tensors* parts) {
  std::vector<std::int64_t> most = parts->at(0).shape().dims();
  for (const Tensor& part : *parts) {
    if (part.rank() != static_cast<int>(most.size())) throw_invalid_argument("the elements differ in their rank");
    for (int axis = 0; axis < part.rank(); ++axis)
      most[static_cast<std::size_t>(axis)] = std::max(most[static_cast<std::size_t>(axis)], part.dim(axis));
  }
  for (Tensor& part : *parts) {
    std::vector<std::int64_t> paddings;
    for (int axis = 0; axis < part.rank(); ++axis) {
      paddings.push_back(0);
      paddings.push_back(most[static_cast<std::size_t>(axis)] - part.dim(axis));
    }
    if (part.rank() > 0) part = ops::call1("Pad", {part, Tensor::from_vector(paddings, Shape{part.rank(), 2})});
  }
}

Tensors dequeue_several(const Step& step, const Tensors& inputs, RunContext&) {
  Queue& queue = queue_of(inputs);
  const auto count = inputs.at(1).item<std::int32_t>();
  if (count == 0) throw_invalid_argument("the number of elements taken from a queue must be positive");
  const bool fewer = step.op->signature->name.find("UpTo") != std::string::npos;
  const std::vector<Tensors> elements = queue.pop(count, fewer);
  Tensors out;
  for (std::size_t i = 0; i < elements.at(0).size(); ++i) {
    Tensors parts;
    for (const Tensors& element : elements) parts.push_back(element[i]);
    if (queue.pads()) pad_to_largest(&parts);
    out.push_back(ops::call1("Pack", parts));
  }
  return out;
}

// ---- stages: queues without a handle, which the name finds -------------------------------------------------------
Queue& stage_of(const Step& step, RunContext& context) {
  const std::string& shared = step.attr<std::string>("shared_name");
  const std::string name =
      fmt::format("{}/{}", step.attr<std::string>("container"), shared.empty() ? step.node->name : shared);
  const auto make = [&]() -> std::shared_ptr<Resource> {
    Queue::Options options;
    options.types = step.attr<std::vector<DType>>("dtypes");
    if (const auto capacity = step.attr<std::int64_t>("capacity"); capacity > 0) options.capacity = capacity;
    return std::make_shared<Queue>(std::move(options));
  };
  return dynamic_cast<Queue&>(*context.resources.find_or_put("stage", name, make));
}
Tensors stage(const Step& step, const Tensors& inputs, RunContext& context) {
  stage_of(step, context).push(inputs);
  return {};
}
Tensors unstage(const Step& step, const Tensors&, RunContext& context) {
  return stage_of(step, context).pop(1, false).at(0);
}
Tensors peek_stage(const Step& step, const Tensors& inputs, RunContext& context) {
  return stage_of(step, context).peek(inputs.at(0).item<std::int32_t>());
}
Tensors clear_stage(const Step& step, const Tensors&, RunContext& context) {
  Queue& queue = stage_of(step, context);
  queue.pop(queue.size(), false);
  return {};
}
Tensors stage_size(const Step& step, const Tensors&, RunContext& context) {
  return {Tensor::scalar(stage_of(step, context).size())};
}

// ---- stages by key -----------------------------------------------------------------------------------------------
// Components may come in several parts; an element counts when all of them are there. Thread-safe.
class KeyedStage final : public Resource {
 public:
  KeyedStage(std::size_t components, std::int64_t capacity) : components_(components), capacity_(capacity) {}
  std::string resource_name() const override { return "MapStage"; }

  void put(std::int64_t key, const std::vector<std::int32_t>& places, const Tensors& values) {
    const std::lock_guard lock(mutex_);
    if (places.size() != values.size()) throw_invalid_argument("indices must have a number for each value");
    if (elements_.contains(key))
      throw_invalid_argument(fmt::format("there is an element with the key {} already", key));
    auto& element = incomplete_.try_emplace(key, components_).first->second;
    for (std::size_t i = 0; i < places.size(); ++i) {
      Tensor& component = element.at(place(places[i]));
      if (component.defined())
        throw_invalid_argument(fmt::format("component {} of key {} is there already", places[i], key));
      component = values[i];
    }
    if (!std::all_of(element.begin(), element.end(), [](const Tensor& x) { return x.defined(); })) return;
    if (capacity_ > 0 && static_cast<std::int64_t>(elements_.size()) >= capacity_) {
      incomplete_.erase(key);
      throw_failed_precondition(
          fmt::format("the stage is full ({} elements) and no other operation removes one", capacity_));
    }
    elements_.emplace(key, std::move(element));
    incomplete_.erase(key);
  }

  // Components of one element; they are removed with `take`.
  Tensors get(std::int64_t key, const std::vector<std::int32_t>& places, bool take) {
    const std::lock_guard lock(mutex_);
    const auto found = elements_.find(key);
    if (found == elements_.end())
      throw_out_of_range(fmt::format("no element has the key {} and no other operation adds one", key));
    Tensors out;
    for (const std::int32_t at : places) {
      Tensor& component = found->second.at(place(at));
      if (!component.defined()) throw_invalid_argument(fmt::format("component {} of key {} was taken", at, key));
      out.push_back(take ? std::exchange(component, Tensor()) : component);
    }
    if (std::none_of(found->second.begin(), found->second.end(), [](const Tensor& x) { return x.defined(); }))
      elements_.erase(found);
    return out;
  }
  // The element with the least key, which is as good as any where the order does not matter.
  std::pair<std::int64_t, Tensors> take_any(const std::vector<std::int32_t>& places) {
    std::optional<std::int64_t> key;
    {
      const std::lock_guard lock(mutex_);
      if (!elements_.empty()) key = elements_.begin()->first;
    }
    if (!key) throw_out_of_range("an element is requested, but the stage is empty and no other operation adds one");
    return {*key, get(*key, places, true)};
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    elements_.clear(), incomplete_.clear();
  }
  std::int32_t size(bool whole) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int32_t>((whole ? elements_ : incomplete_).size());
  }

 private:
  std::size_t place(std::int32_t at) const {
    if (at < 0 || static_cast<std::size_t>(at) >= components_)
      throw_invalid_argument(fmt::format("component {} of {}", at, components_));
    return static_cast<std::size_t>(at);
  }

  const std::size_t components_;
  const std::int64_t capacity_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, Tensors> elements_, incomplete_;
};

KeyedStage& keyed_stage(const Step& step, RunContext& context) {
  const std::string& shared = step.attr<std::string>("shared_name");
  const std::string name =
      fmt::format("{}/{}", step.attr<std::string>("container"), shared.empty() ? step.node->name : shared);
  return dynamic_cast<KeyedStage&>(
      *context.resources.find_or_put("map stage", name, [&]() -> std::shared_ptr<Resource> {
        return std::make_shared<KeyedStage>(step.attr<std::vector<DType>>("dtypes").size(),
                                            step.attr<std::int64_t>("capacity"));
      }));
}
Tensors put_keyed(const Step& step, const Tensors& inputs, RunContext& context) {
  keyed_stage(step, context)
      .put(inputs.at(0).item<std::int64_t>(), inputs.at(1).to_vector<std::int32_t>(),
           Tensors(inputs.begin() + 2, inputs.end()));
  return {};
}
template <bool take>
Tensors get_keyed(const Step& step, const Tensors& inputs, RunContext& context) {
  return keyed_stage(step, context)
      .get(inputs.at(0).item<std::int64_t>(), inputs.at(1).to_vector<std::int32_t>(), take);
}
Tensors take_any_keyed(const Step& step, const Tensors& inputs, RunContext& context) {
  auto [key, values] = keyed_stage(step, context).take_any(inputs.at(0).to_vector<std::int32_t>());
  values.insert(values.begin(), Tensor::scalar(key));
  return std::move(values);
}
Tensors clear_keyed(const Step& step, const Tensors&, RunContext& context) {
  keyed_stage(step, context).clear();
  return {};
}
template <bool whole>
Tensors keyed_size(const Step& step, const Tensors&, RunContext& context) {
  return {Tensor::scalar(keyed_stage(step, context).size(whole))};
}

Tensors close(const Step&, const Tensors& inputs, RunContext&) {
  queue_of(inputs).close();
  return {};
}
Tensors is_closed(const Step&, const Tensors& inputs, RunContext&) {
  return {Tensor::scalar(queue_of(inputs).is_closed())};
}
Tensors size(const Step&, const Tensors& inputs, RunContext&) { return {Tensor::scalar(queue_of(inputs).size())}; }

}  // namespace

ExecutorOp find_queue_operation(std::string_view op) {
  static const std::unordered_map<std::string_view, ExecutorOp> table = {
      {"FIFOQueue", make_queue},
      {"PaddingFIFOQueue", make_queue},
      {"RandomShuffleQueue", make_queue},
      {"PriorityQueue", make_queue},
      {"QueueEnqueue", enqueue},
      {"QueueEnqueueMany", enqueue_many},
      {"QueueDequeue", dequeue},
      {"QueueClose", close},
      {"QueueDequeueMany", dequeue_several},
      {"QueueDequeueUpTo", dequeue_several},
      {"QueueIsClosed", is_closed},
      {"QueueSize", size},
      {"Stage", stage},
      {"Unstage", unstage},
      {"StagePeek", peek_stage},
      {"StageClear", clear_stage},
      {"StageSize", stage_size},
      {"MapStage", put_keyed},
      {"MapPeek", get_keyed<false>},
      {"MapUnstage", get_keyed<true>},
      {"MapUnstageNoKey", take_any_keyed},
      {"MapClear", clear_keyed},
      {"MapSize", keyed_size<true>},
      {"MapIncompleteSize", keyed_size<false>},
  };
  if (op.ends_with("V2")) op.remove_suffix(2);
  if (op.starts_with("OrderedMap")) op.remove_prefix(std::string_view("Ordered").size());
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::graph
