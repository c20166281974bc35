// Optionals: variants that hold a value's tensors or nothing. Graphs of gradients pass what a branch has computed in
// them. Maps: variants that hold tensors by key.
#include "lockstep/ops/call.h"
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

// ---- maps: keys and values in turn ---------------------------------------------------------------------------------
bool same_key(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == DType::kString) return a.string_values() == b.string_values();
  return dense(a).equal(dense(b));
}
// The place of the key in the items, or their number.
std::size_t place_of(const Tensors& items, const Tensor& key) {
  std::size_t i = 0;
  while (i < items.size() && !same_key(items[i], key)) i += 2;
  return i;
}
Tensor map_of(Tensors items) { return Tensor::list(std::move(items), Shape::unknown_rank(), DType::kInvalid); }
const Tensors& items_of(const Call& call) {
  const Tensor& map = call.input(0);
  if (!map.impl()->list || map.rank() != 0 || map.list_elements().size() % 2 != 0)
    throw_invalid_argument("the variant is not a map");
  return map.list_elements();
}
[[noreturn]] void missing_key() { throw_invalid_argument("the map does not have the key"); }
void require_type(const Tensor& item, std::string_view what, DType expected) {
  if (item.dtype() != expected)
    throw_invalid_argument(
        fmt::format("the {} is {}, expected {}", what, dtype_name(item.dtype()), dtype_name(expected)));
}

Tensors put_item(const Call& call) {
  Tensors items = items_of(call);
  const std::size_t at = place_of(items, call.input(1));
  if (at == items.size()) items.resize(at + 2);
  items[at] = call.input(1), items[at + 1] = call.input(2);
  return {map_of(std::move(items))};
}
Tensors find_item(const Call& call) {
  const Tensors& items = items_of(call);
  const std::size_t at = place_of(items, call.input(1));
  if (at == items.size()) missing_key();
  require_type(items[at + 1], "value", call.attr<DType>("value_dtype"));
  return {items[at + 1]};
}
Tensors erase_item(const Call& call) {
  Tensors items = items_of(call);
  const auto at = static_cast<std::ptrdiff_t>(place_of(items, call.input(1)));
  if (at == static_cast<std::ptrdiff_t>(items.size())) missing_key();
  items.erase(items.begin() + at, items.begin() + at + 2);
  return {map_of(std::move(items))};
}
Tensors has_item(const Call& call) {
  const Tensors& items = items_of(call);
  return {Tensor::scalar(place_of(items, call.input(1)) < items.size())};
}
Tensors keys_of(const Call& call) {
  const Tensors& items = items_of(call);
  if (items.empty()) throw_invalid_argument("the keys of an empty map cannot be stacked");
  Tensors keys;
  for (std::size_t i = 0; i < items.size(); i += 2) {
    require_type(items[i], "key", call.attr<DType>("key_dtype"));
    keys.push_back(items[i]);
  }
  return {call1("Pack", keys)};
}

}  // namespace

void register_optionals(Table& table) {
  table.add("OptionalFromValue", scalar_rule,
            [](const Call& call) { return Tensors{variant_of(Tensors(call.inputs().begin(), call.inputs().end()))}; });
  table.add("OptionalNone", scalar_rule, [](const Call&) { return Tensors{variant_of({})}; });
  table.add("OptionalHasValue", scalar_rule,
            [](const Call& call) { return Tensors{Tensor::scalar<bool>(!content_of(call).empty())}; });
  table.add("OptionalGetValue", value_shapes, get_value);
  table.add("EmptyTensorMap", scalar_rule, [](const Call&) { return Tensors{map_of({})}; });
  table.add("TensorMapSize", scalar_rule, [](const Call& call) {
    return Tensors{Tensor::scalar(static_cast<std::int32_t>(items_of(call).size() / 2))};
  });
  table.add("TensorMapInsert", scalar_rule, put_item);
  table.add("TensorMapLookup", nullptr, find_item);
  table.add("TensorMapErase", scalar_rule, erase_item);
  table.add("TensorMapHasKey", scalar_rule, has_item);
  table.add("TensorMapStackKeys", nullptr, keys_of);
}

}  // namespace lockstep::ops
