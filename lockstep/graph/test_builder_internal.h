// For tests: graphs written node by node.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/graph/executor_internal.h"

namespace lockstep::graph {

// Builds graphs by hand: g("name", "Op", {"input", "other:1", "^control"}, {attributes}).
struct Builder {
  Graph graph;
  std::vector<std::pair<std::string, std::vector<std::string>>> wiring;

  void operator()(const std::string& name, const std::string& op, const std::vector<std::string>& inputs = {},
                  ops::Attrs attrs = {}) {
    Node node;
    node.name = name;
    node.op = op;
    node.attrs = std::move(attrs);
    graph.add(std::move(node));
    wiring.emplace_back(name, inputs);
  }
  void constant(const std::string& name, Tensor value, const std::vector<std::string>& inputs = {}) {
    const DType dtype = value.dtype();
    (*this)(name, "Const", inputs, {{"dtype", dtype}, {"value", std::move(value)}});
  }
  const Graph& finish() {
    for (const auto& [name, inputs] : wiring) {
      Node& node = graph.node(graph.find(name));
      for (const std::string& input : inputs) {
        if (input[0] == '^') {
          node.control_inputs.push_back(graph.find(input.substr(1)));
        } else {
          node.inputs.push_back(graph.parse_output(input));
        }
      }
    }
    wiring.clear();
    graph.check("test");
    return graph;
  }
  Tensors run(const std::vector<std::pair<std::string, Tensor>>& feeds, const std::vector<std::string>& fetches) {
    finish();
    std::vector<Output> in, out;
    Tensors values;
    for (const auto& [name, value] : feeds) {
      in.push_back(graph.parse_output(name));
      values.push_back(value);
    }
    for (const std::string& name : fetches) out.push_back(graph.parse_output(name));
    return Executable::prepare(graph, library, resources, in, out)->run(values);
  }
  std::shared_ptr<FunctionLibrary> library = std::make_shared<FunctionLibrary>();
  std::shared_ptr<Resources> resources = std::make_shared<Resources>();
};

}  // namespace lockstep::graph
