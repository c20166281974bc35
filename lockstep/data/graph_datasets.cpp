// Datasets of graphs: what all operations share, and the sources.
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/graph_datasets_internal.h"
#include "lockstep/data/sequence_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/variants_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data {

using graph::RunContext;
using graph::Step;

thread_local RunContext* RunOfDatasets::current_ = nullptr;

RunContext& RunOfDatasets::current() {
  if (!current_) throw_internal("a dataset of a graph is read outside of a run");
  return *current_;
}

GraphFunction::GraphFunction(const Step& step, std::string_view attr, std::string_view types, const Tensors& inputs,
                             std::size_t first)
    : name_(step.attr<ops::FunctionName>(attr).name) {
  const std::size_t count = step.attr<std::vector<DType>>(types).size();
  for (std::size_t i = 0; i < count; ++i) captured_.push_back(inputs.at(first + i));
}

Tensors GraphFunction::operator()(Tensors arguments) const {
  RunContext& context = RunOfDatasets::current();
  arguments.insert(arguments.end(), captured_.begin(), captured_.end());
  return graph::call_function(name_, std::move(arguments), context);
}

Element element_of(const Tensors& components) {
  return Element::list(Element::List(components.begin(), components.end()));
}
Tensors components_of(const Element& element) { return element.flatten(); }

namespace {

class DatasetResource : public Resource {
 public:
  explicit DatasetResource(NodePtr node) : node_(std::move(node)) {}
  std::string resource_name() const override { return "Dataset"; }
  const NodePtr& node() const { return node_; }

 private:
  NodePtr node_;
};

// Counts each element and each pass as an iteration, so that no dataset of a file runs for ever.
class CountedIterator : public NodeIterator {
 public:
  explicit CountedIterator(const NodePtr& input) : input_(input->make_iterator()) { count(); }
  bool next(Item& out) override {
    count();
    return input_->next(out);
  }
  std::int64_t advance(std::int64_t n) override { return input_->advance(n); }
  Json save() const override { return {{"input", input_->save()}}; }
  void restore(const Json& state) override { input_->restore(state_at(state, "input")); }

 private:
  static void count() { RunOfDatasets::current().budget.count_iteration(); }
  std::unique_ptr<NodeIterator> input_;
};

class CountedNode : public PassingNode {
 public:
  explicit CountedNode(NodePtr input) : PassingNode("counted", {std::move(input)}) {}
  std::unique_ptr<NodeIterator> make_iterator() const override { return std::make_unique<CountedIterator>(input()); }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override { return std::make_shared<CountedNode>(inputs[0]); }
};

Tensors source(NodePtr node) { return {variant_of_dataset(std::make_shared<CountedNode>(std::move(node)))}; }

Tensors range(const Step& step, const Tensors& inputs, RunContext&) {
  const auto number = [&](std::size_t i) { return inputs.at(i).item<std::int64_t>(); };
  const DType dtype = step.attr<std::vector<DType>>("output_types").at(0);
  return source(map_node(Dataset::range(number(0), number(1), number(2)).node(), [dtype](const Element& element) {
    return element_of({dtype == DType::kInt64 ? element.leaf() : element.leaf().astype(dtype)});
  }));
}

Tensors whole(const Step&, const Tensors& inputs, RunContext&) { return source(elements_node({element_of(inputs)})); }

bool is_variant(const Tensor& tensor) { return tensor.dtype() == DType::kVariant; }

Tensors slices(const Step&, const Tensors& inputs, RunContext&) {
  if (std::none_of(inputs.begin(), inputs.end(), is_variant)) {
    return source(Dataset::from_tensor_slices(element_of(inputs)).node());
  }
  // Rows of ragged tensors are variants.
  std::vector<Tensors> columns;
  for (const Tensor& input : inputs) {
    columns.push_back(is_variant(input) ? ops::variants_in(input)
                                        : ops::call("Unpack", {input}, {{"num", input.dim(0)}}));
    if (columns.back().size() != columns[0].size())
      throw_invalid_argument("the components of a dataset of slices differ in their number of rows");
  }
  std::vector<Element> elements;
  for (std::size_t row = 0; row < columns.at(0).size(); ++row) {
    Tensors components;
    for (const Tensors& column : columns) components.push_back(column[row]);
    elements.push_back(element_of(components));
  }
  return source(elements_node(std::move(elements)));
}

// The components of one element after those of the other.
Tensors list(const Step& step, const Tensors& inputs, RunContext&) {
  const std::size_t width = step.attr<std::vector<DType>>("output_types").size();
  if (width == 0 || inputs.size() % width != 0)
    throw_invalid_argument(fmt::format("{} tensors are not elements of {} each", inputs.size(), width));
  std::vector<Element> elements;
  for (auto at = inputs.begin(); at != inputs.end(); at += static_cast<std::ptrdiff_t>(width))
    elements.push_back(element_of(Tensors(at, at + static_cast<std::ptrdiff_t>(width))));
  return source(elements_node(std::move(elements)));
}

Tensors random_numbers(const Step& step, const Tensors& inputs, RunContext&) {
  const bool rerandomizes = step.node->op == "RandomDatasetV2" && step.attr<bool>("rerandomize_each_iteration");
  return source(random_node(seeds_at(inputs, 0), rerandomizes));
}

// The dataset that one component of a window is.
Tensors window(const Step&, const Tensors& inputs, RunContext&) {
  if (inputs.empty()) throw_invalid_argument("a window without components");
  return source(Dataset::from_tensor_slices(element_of(inputs)).node());
}

// A handle of a state that each dataset has for itself here.
Tensors handle(const Step&, const Tensors&, RunContext&) {
  return {Tensor::resource(std::make_shared<DatasetResource>(nullptr))};
}

graph::ExecutorOp implementation(std::string_view op) {
  if (const graph::ExecutorOp found = find_dataset_source(op)) return found;
  if (const graph::ExecutorOp found = find_dataset_transformation(op)) return found;
  return find_dataset_iterator(op);
}

Tensors run_on_values(const Step& step, const Tensors& inputs, RunContext& context) {
  if (context.recording) throw_unimplemented(fmt::format("a {} cannot be traced", step.node->op));
  return implementation(step.node->op)(step, inputs, context);
}

graph::ExecutorOp find(std::string_view op) { return implementation(op) ? run_on_values : nullptr; }

[[maybe_unused]] const bool contributed = (graph::contribute_executor_ops(find), true);

}  // namespace

Tensor variant_of_dataset(NodePtr node) {
  return ops::variant_of({Tensor::resource(std::make_shared<DatasetResource>(std::move(node)))});
}

NodePtr dataset_in(const Tensor& variant) {
  const Tensor& part = ops::parts_of(variant)[0];
  const auto* resource =
      part.dtype() == DType::kResource ? dynamic_cast<DatasetResource*>(part.resource_value().get()) : nullptr;
  if (!resource || !resource->node()) throw_invalid_argument("the variant is not a dataset");
  return resource->node();
}

std::pair<std::int64_t, std::int64_t> seeds_at(const Tensors& inputs, std::size_t at) {
  const std::pair seeds{inputs.at(at).item<std::int64_t>(), inputs.at(at + 1).item<std::int64_t>()};
  return seeds == std::pair<std::int64_t, std::int64_t>() ? random::op_seeds(std::nullopt) : seeds;
}

graph::ExecutorOp find_dataset_source(std::string_view op) {
  static const std::unordered_map<std::string_view, graph::ExecutorOp> table = {
      {"RangeDataset", range},
      {"TensorDataset", whole},
      {"TensorSliceDataset", slices},
      {"ListDataset", list},
      {"WindowOp", window},
      {"DummySeedGenerator", handle},
      {"DummyMemoryCache", handle},
      {"RandomDataset", random_numbers},
      {"RandomDatasetV2", random_numbers},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::data
