#include "fuzz/execution/graphs.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "fuzz/execution/graph_changes.h"
#include "lockstep/formats/proto/graph.pb.h"
#include "lockstep/graph/executor_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::fuzz {
namespace {

using tensorflow::AttrValue;
using tensorflow::GraphDef;
using tensorflow::NodeDef;
using Nodes = google::protobuf::RepeatedPtrField<NodeDef>;

GraphDef changed(std::uint64_t seed, const std::vector<std::string>& seeds,
                 const std::vector<std::string>& operations) {
  Choices choices(seed * 0x9fb21c651e98df25u);
  GraphDef graph;
  graph.ParseFromString(seeds[seed % seeds.size()]);
  change_graph(choices, graph, operations);
  return graph;
}

Outcome run(const GraphDef& proto) {
  return outcome_of([&] {
    const graph::GraphAndLibrary parsed = graph::parse_graph_def(proto.SerializeAsString(), "graph");
    std::vector<graph::Output> feeds, fetches;
    Tensors values;
    std::vector<char> used(static_cast<std::size_t>(parsed.graph.size()), 0);
    for (int id = 0; id < parsed.graph.size(); ++id) {
      for (const graph::Output& input : parsed.graph.node(id).inputs) used[static_cast<std::size_t>(input.node)] = 1;
      if (parsed.graph.node(id).op != "Placeholder") continue;
      feeds.push_back({id, 0});
      const ops::Attr* attr = parsed.graph.node(id).attrs.find("shape");
      const Shape* shape = attr ? std::get_if<Shape>(attr) : nullptr;
      const bool images = shape && shape->known_rank() && shape->rank() == 4;
      values.push_back(Tensor::full(images ? Shape{1, 6, 6, 3} : Shape{2, 4}, 0.5));
    }
    for (int id = 0; id < parsed.graph.size(); ++id) {
      if (!used[static_cast<std::size_t>(id)] && parsed.graph.node(id).op != "NoOp") fetches.push_back({id, 0});
    }
    const auto resources = std::make_shared<graph::Resources>();
    resources->limits = {.max_memory = 64 << 20, .max_seconds = 0.5, .max_iterations = 1000};
    graph::Executable::prepare(parsed.graph, std::make_shared<graph::FunctionLibrary>(parsed.library), resources, feeds,
                               fetches)
        ->run(values);
  });
}

std::string text_of(const AttrValue& value) {
  switch (value.value_case()) {
    case AttrValue::kI: return fmt::format("{}", value.i());
    case AttrValue::kF: return fmt::format("{}", value.f());
    case AttrValue::kB: return fmt::format("{}", value.b());
    case AttrValue::kS: return value.s().substr(0, 40);
    case AttrValue::kType: return std::string(dtype_name(static_cast<DType>(value.type())));
    case AttrValue::kList: return fmt::format("[{}]", fmt::join(value.list().i(), ", "));
    case AttrValue::kShape: {
      std::vector<std::int64_t> dims;
      for (const auto& dim : value.shape().dim()) dims.push_back(dim.size());
      return value.shape().unknown_rank() ? "shape of unknown rank" : fmt::format("shape {}", dims);
    }
    case AttrValue::kTensor: {
      AttrValue shape;
      *shape.mutable_shape() = value.tensor().tensor_shape();
      return fmt::format("{} of {}", dtype_name(static_cast<DType>(value.tensor().dtype())), text_of(shape));
    }
    default: return "...";
  }
}

std::string text_of(const NodeDef& node) {
  std::string text = fmt::format("{} = {}({}", node.name(), node.op(), fmt::join(node.input(), ", "));
  for (const std::string& name : attr_names(node)) text += fmt::format(", {}={}", name, text_of(node.attr().at(name)));
  return text + ")";
}

// The same for equal nodes; SerializeAsString() writes attributes in any order.
std::string bytes_of(const NodeDef& node) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    node.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// The nodes that differ from the seed's.
std::string differences(const GraphDef& seed, const GraphDef& graph) {
  std::string text;
  const auto compare = [&](const Nodes& before, const Nodes& after) {
    for (int i = 0; i < after.size(); ++i) {
      if (bytes_of(before[i]) == bytes_of(after[i])) continue;
      text += text_of(after[i]) + "; ";
    }
  };
  compare(seed.node(), graph.node());
  for (int i = 0; i < graph.library().function_size(); ++i) {
    compare(seed.library().function(i).node_def(), graph.library().function(i).node_def());
  }
  return text;
}

}  // namespace

Target graphs_target(std::vector<std::string> seeds) {
  const auto operations = ops::Table::instance().names_with_kernel();
  return {[seeds, operations](std::uint64_t seed) { return run(changed(seed, seeds, operations)); },
          [seeds, operations](std::uint64_t seed) {
            GraphDef before;
            before.ParseFromString(seeds[seed % seeds.size()]);
            return fmt::format("graph {}(changed: {})", seed % seeds.size(),
                               differences(before, changed(seed, seeds, operations)));
          }};
}

}  // namespace lockstep::fuzz
