// The operations of tf.data in graphs from files. They build the nodes of this folder; functions of a graph's library
// take the place of C++ functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/data/node_internal.h"
#include "lockstep/graph/plan_internal.h"
#include "lockstep/ops/autograd_internal.h"

namespace lockstep::data {

// The run on whose behalf this thread asks datasets for elements: their functions are called in it. Gradients do not
// pass through datasets.
class RunOfDatasets {
 public:
  explicit RunOfDatasets(graph::RunContext& context) : before_(std::exchange(current_, &context)) {}
  ~RunOfDatasets() { current_ = before_; }
  RunOfDatasets(const RunOfDatasets&) = delete;
  RunOfDatasets& operator=(const RunOfDatasets&) = delete;

  static graph::RunContext& current();

 private:
  static thread_local graph::RunContext* current_;
  graph::RunContext* before_;
  const ops::GradientsOff gradients_off_;
};

// A function of the library, with the values that it captures.
class GraphFunction {
 public:
  // `first`: the place of the captured values among the inputs; `types` the attribute with their types.
  GraphFunction(const graph::Step& step, std::string_view attr, std::string_view types, const Tensors& inputs,
                std::size_t first);
  Tensors operator()(Tensors arguments) const;

 private:
  std::string name_;
  Tensors captured_;
};

// An element of these datasets: a list of tensors.
Element element_of(const Tensors& components);
Tensors components_of(const Element& element);

// A variant that holds a dataset.
Tensor variant_of_dataset(NodePtr node);
// Throws InvalidArgument for other tensors.
NodePtr dataset_in(const Tensor& variant);
// The seeds in two inputs; two zeros stand for seeds that are drawn.
std::pair<std::int64_t, std::int64_t> seeds_at(const Tensors& inputs, std::size_t at);

// Null for other operations.
graph::ExecutorOp find_dataset_source(std::string_view op);
graph::ExecutorOp find_dataset_transformation(std::string_view op);
graph::ExecutorOp find_dataset_iterator(std::string_view op);

}  // namespace lockstep::data
