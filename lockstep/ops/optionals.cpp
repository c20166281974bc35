// Optionals: variants that hold a value's tensors or nothing. Graphs of gradients pass what a branch has computed in
// them.
#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/variants_internal.h"

namespace lockstep::ops {
namespace {

const Tensors& content_of(const Call& call) {
  const Tensor& optional = call.input(0);
  if (!optional.impl()->list || optional.rank() != 0) throw_invalid_argument("the variant is not an optional");
  return optional.list_elements();
}

Tensors get_value(const Call& call) {
  const Tensors& content = content_of(call);
  const auto& types = call.attr<std::vector<DType>>("output_types");
  const auto& shapes = call.attr<std::vector<Shape>>("output_shapes");
  if (content.empty()) throw_invalid_argument("the optional has no value");
  if (content.size() != types.size())
    throw_invalid_argument(fmt::format("the optional has {} tensors, expected {}", content.size(), types.size()));
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (content[i].dtype() != types[i])
      throw_invalid_argument(fmt::format("tensor {} of the optional is {}, expected {}", i,
                                         dtype_name(content[i].dtype()), dtype_name(types[i])));
    if (!content[i].shape().compatible_with(shapes.at(i)))
      throw_invalid_argument(fmt::format("tensor {} of the optional has shape {}, expected {}", i,
                                         content[i].shape().to_string(), shapes[i].to_string()));
  }
  return content;
}

Shapes value_shapes(const Call& call) {
  const auto& shapes = call.attr<std::vector<Shape>>("output_shapes");
  const std::size_t types = call.attr<std::vector<DType>>("output_types").size();
  if (shapes.size() != types)
    throw_invalid_argument(fmt::format("output_shapes has {} entries, output_types {}", shapes.size(), types));
  return shapes;
}

}  // namespace

void register_optionals(Table& table) {
  table.add("OptionalFromValue", scalar_rule,
            [](const Call& call) { return Tensors{variant_of(Tensors(call.inputs().begin(), call.inputs().end()))}; });
  table.add("OptionalNone", scalar_rule, [](const Call&) { return Tensors{variant_of({})}; });
  table.add("OptionalHasValue", scalar_rule,
            [](const Call& call) { return Tensors{Tensor::scalar<bool>(!content_of(call).empty())}; });
  table.add("OptionalGetValue", value_shapes, get_value);
}

}  // namespace lockstep::ops
