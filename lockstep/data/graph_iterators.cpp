// Iterators over the datasets of graphs, and what reads a whole dataset.
#include <mutex>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/graph_datasets_internal.h"
#include "lockstep/ops/variants_internal.h"

namespace lockstep::data {
namespace {

using graph::RunContext;
using graph::Step;

// Thread-safe.
class IteratorResource : public Resource {
 public:
  std::string resource_name() const override { return "Iterator"; }
  void start(NodePtr node) {
    const std::lock_guard lock(mutex_);
    iterator_ = node->make_iterator();
    node_ = std::move(node);
  }
  std::optional<Tensors> next() {
    const std::lock_guard lock(mutex_);
    if (!iterator_) throw_failed_precondition("the iterator of a dataset is used before MakeIterator");
    Item item;
    if (!iterator_->next(item)) return std::nullopt;
    return components_of(item.element());
  }

 private:
  std::mutex mutex_;
  NodePtr node_;
  std::unique_ptr<NodeIterator> iterator_;
};

IteratorResource& iterator_in(const Tensor& handle) {
  auto* iterator = handle.dtype() == DType::kResource && !handle.is_symbolic()
                       ? dynamic_cast<IteratorResource*>(handle.resource_value().get())
                       : nullptr;
  if (!iterator) throw_invalid_argument("the handle is not the iterator of a dataset");
  return *iterator;
}

// Captured variables and weights may require gradients, which do not pass.
Tensors cut_off(Tensors values) {
  for (Tensor& value : values) {
    if (ops::requires_grad(value)) value = ops::detach(value);
  }
  return values;
}

std::string name_of(const Step& step) {
  const std::string& shared = step.attr<std::string>("shared_name");
  return fmt::format("{}/{}", step.attr<std::string>("container"), shared.empty() ? step.node->name : shared);
}

constexpr auto kKind = "iterator";

Tensors iterator(const Step& step, const Tensors&, RunContext& context) {
  const auto make = [] { return std::make_shared<IteratorResource>(); };
  return {Tensor::resource(context.resources.find_or_put(kKind, name_of(step), make))};
}

Tensors anonymous_iterator(const Step& step, const Tensors&, RunContext&) {
  Tensors out{Tensor::resource(std::make_shared<IteratorResource>())};
  if (step.num_outputs > 1) out.push_back(ops::variant_of({}));  // the deleter
  return out;
}

Tensors make_iterator(const Step&, const Tensors& inputs, RunContext& context) {
  const RunOfDatasets run(context);
  iterator_in(inputs.at(1)).start(dataset_in(inputs.at(0)));
  return {};
}

Tensors one_shot_iterator(const Step& step, const Tensors&, RunContext& context) {
  const std::string name = name_of(step);
  if (auto made = context.resources.find(kKind, name)) return {Tensor::resource(std::move(made))};
  const RunOfDatasets run(context);
  const Tensors made = graph::call_function(step.attr<ops::FunctionName>("dataset_factory").name, {}, context);
  const auto iterator = std::make_shared<IteratorResource>();
  iterator->start(dataset_in(made.at(0)));
  return {Tensor::resource(context.resources.find_or_put(kKind, name, [&] { return iterator; }))};
}

Tensors get_next(const Step&, const Tensors& inputs, RunContext& context) {
  const RunOfDatasets run(context);
  std::optional<Tensors> components = iterator_in(inputs.at(0)).next();
  if (!components) throw_out_of_range("End of sequence");
  return cut_off(std::move(*components));
}

Tensors get_next_as_optional(const Step&, const Tensors& inputs, RunContext& context) {
  const RunOfDatasets run(context);
  std::optional<Tensors> components = iterator_in(inputs.at(0)).next();
  return {ops::variant_of(components ? cut_off(std::move(*components)) : Tensors())};
}

Tensors nothing(const Step&, const Tensors&, RunContext&) { return {}; }

Tensors single_element(const Step&, const Tensors& inputs, RunContext& context) {
  const RunOfDatasets run(context);
  const auto iterator = dataset_in(inputs.at(0))->make_iterator();
  Item item, other;
  if (!iterator->next(item)) throw_invalid_argument("Dataset was empty.");
  if (iterator->next(other)) throw_invalid_argument("Dataset had more than one element.");
  return cut_off(components_of(item.element()));
}

Tensors reduce(const Step& step, const Tensors& inputs, RunContext& context) {
  const RunOfDatasets run(context);
  const std::size_t states = step.attr<std::vector<DType>>("Tstate").size();
  Tensors state(inputs.begin() + 1, inputs.begin() + 1 + static_cast<std::ptrdiff_t>(states));
  const GraphFunction function(step, "f", "Targuments", inputs, 1 + states);
  const auto iterator = dataset_in(inputs.at(0))->make_iterator();
  for (Item item; iterator->next(item);) {
    const Tensors components = components_of(item.element());
    state.insert(state.end(), components.begin(), components.end());
    state = function(std::move(state));
    if (state.size() != states)
      throw_invalid_argument(
          fmt::format("the function of a reduction gave {} values, expected {}", state.size(), states));
  }
  return cut_off(std::move(state));
}

}  // namespace

graph::ExecutorOp find_dataset_iterator(std::string_view op) {
  static const std::unordered_map<std::string_view, graph::ExecutorOp> table = {
      {"AnonymousIterator", anonymous_iterator},
      {"AnonymousIteratorV2", anonymous_iterator},
      {"AnonymousIteratorV3", anonymous_iterator},
      {"DatasetToSingleElement", single_element},
      {"DeleteIterator", nothing},
      {"Iterator", iterator},
      {"IteratorGetNext", get_next},
      {"IteratorGetNextAsOptional", get_next_as_optional},
      {"IteratorGetNextSync", get_next},
      {"IteratorV2", iterator},
      {"MakeIterator", make_iterator},
      {"OneShotIterator", one_shot_iterator},
      {"ReduceDataset", reduce},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::data
