#include "lockstep/keras/layers/merging.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/keras/layers/families.h"
#include "lockstep/keras/layers/fields.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using layers::ConcatenateOptions;
using layers::DotOptions;
using layers::MergeOptions;

Tensors list_of_inputs(const Structure& inputs, const Layer& layer, std::size_t least) {
  const Tensors list = inputs.flatten();
  if (inputs.is_leaf() || list.size() < least) {
    throw_invalid_argument(fmt::format("{} '{}': it takes a list of at least {} inputs, found {}", layer.class_name(), layer.name(),
                                       least, inputs.is_leaf() ? 1 : list.size()));
  }
  return list;
}

Structure any_mask(const Structure& mask) {
  Tensor joined;
  for (const Tensor& each : mask.flatten()) {
    if (!each.defined()) return Tensor();
    joined = joined.defined() ? ops::logical_or(joined, each) : each;
  }
  return joined;
}

// All elementwise merges: `Rule` names the class and joins two tensors.
template <typename Rule>
class Merge : public ConfiguredLayer<Merge<Rule>, MergeOptions> {
 public:
  static constexpr const char* kClass = Rule::kClass;
  explicit Merge(MergeOptions options) : ConfiguredLayer<Merge<Rule>, MergeOptions>(std::move(options)) {}
  template <typename V>
  static void fields(V&, MergeOptions&) {}
  std::string class_name() const override { return kClass; }
  bool supports_masking() const override { return true; }

  Structure call(const Structure& inputs, const CallContext&) override {
    Tensors list = list_of_inputs(inputs, *this, 2);
    if (Rule::kExactlyTwo && list.size() != 2) {
      throw_invalid_argument(fmt::format("{} '{}': it takes exactly 2 inputs, found {}", kClass, this->name(), list.size()));
    }
    int rank = 0;
    for (const Tensor& tensor : list) rank = std::max(rank, tensor.rank());
    for (Tensor& tensor : list) {
      while (tensor.rank() < rank) tensor = ops::expand_dims(tensor, 1);
    }
    Tensor out = list[0];
    for (std::size_t i = 1; i < list.size(); ++i) out = Rule::join(out, list[i]);
    return Rule::finish(out, list.size());
  }
  Structure compute_mask(const Structure&, const Structure& mask, const Structure&) override { return any_mask(mask); }
};

struct AnyRule {
  static constexpr bool kExactlyTwo = false;
  static Tensor finish(const Tensor& out, std::size_t) { return out; }
};
struct AddRule : AnyRule {
  static constexpr const char* kClass = "Add";
  static Tensor join(const Tensor& a, const Tensor& b) { return a + b; }
};
struct SubtractRule : AnyRule {
  static constexpr const char* kClass = "Subtract";
  static constexpr bool kExactlyTwo = true;
  static Tensor join(const Tensor& a, const Tensor& b) { return a - b; }
};
struct MultiplyRule : AnyRule {
  static constexpr const char* kClass = "Multiply";
  static Tensor join(const Tensor& a, const Tensor& b) { return a * b; }
};
struct AverageRule : AnyRule {
  static constexpr const char* kClass = "Average";
  static Tensor join(const Tensor& a, const Tensor& b) { return a + b; }
  static Tensor finish(const Tensor& out, std::size_t count) { return out / static_cast<double>(count); }
};
struct MaximumRule : AnyRule {
  static constexpr const char* kClass = "Maximum";
  static Tensor join(const Tensor& a, const Tensor& b) { return ops::maximum(a, b); }
};
struct MinimumRule : AnyRule {
  static constexpr const char* kClass = "Minimum";
  static Tensor join(const Tensor& a, const Tensor& b) { return ops::minimum(a, b); }
};

class ConcatenateLayer : public ConfiguredLayer<ConcatenateLayer, ConcatenateOptions> {
 public:
  static constexpr const char* kClass = "Concatenate";
  explicit ConcatenateLayer(ConcatenateOptions options) : ConfiguredLayer(std::move(options)) {}
  template <typename V>
  static void fields(V& v, ConcatenateOptions& o) {
    v("axis", o.axis);
  }
  std::string class_name() const override { return kClass; }
  bool supports_masking() const override { return true; }

  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::concat(list_of_inputs(inputs, *this, 1), static_cast<int>(options_.axis));
  }

  // Masks of all inputs (ones where an input has none), joined as the inputs are, true where the whole last axis is.
  Structure compute_mask(const Structure& inputs, const Structure& mask, const Structure&) override {
    const Tensors masks = mask.flatten(), values = inputs.flatten();
    if (std::none_of(masks.begin(), masks.end(), [](const Tensor& m) { return m.defined(); })) return Tensor();
    Tensors spread;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Tensor ones = ops::cast(ops::ones_like(values[i]), DType::kBool);
      if (i >= masks.size() || !masks[i].defined()) {
        spread.push_back(ones);
        continue;
      }
      Tensor own = masks[i];
      while (own.rank() < values[i].rank()) own = ops::expand_dims(own, -1);
      spread.push_back(ops::logical_and(own, ones));
    }
    return ops::reduce_all(ops::concat(spread, static_cast<int>(options_.axis)), ops::Ints{-1});
  }
};

class DotLayer : public ConfiguredLayer<DotLayer, DotOptions> {
 public:
  static constexpr const char* kClass = "Dot";
  explicit DotLayer(DotOptions options) : ConfiguredLayer(std::move(options)) {}
  template <typename V>
  static void fields(V& v, DotOptions& o) {
    v("axes", o.axes);
    v("normalize", o.normalize);
  }
  std::string class_name() const override { return kClass; }

  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensors list = list_of_inputs(inputs, *this, 2);
    Tensor a = list[0], b = list[1];
    int axis_a = axis(0), axis_b = axis(1);
    if (axis_a < 0) axis_a += a.rank();
    if (axis_b < 0) axis_b += b.rank();
    if (axis_a < 1 || axis_a >= a.rank() || axis_b < 1 || axis_b >= b.rank()) {
      throw_invalid_argument(fmt::format("Dot '{}': axes {} do not fit inputs of shapes {} and {}", name(), dump_json(options_.axes),
                                         a.shape().to_string(), b.shape().to_string()));
    }
    if (options_.normalize) {
      a = ops::l2_normalize(a, ops::Ints{axis_a});
      b = ops::l2_normalize(b, ops::Ints{axis_b});
    }
    return contract(a, b, axis_a, axis_b);
  }

 private:
  int axis(std::size_t input) const {
    const Json& value = options_.axes.is_array() ? options_.axes.at(input) : options_.axes;
    return value.get<int>();
  }
  // Batched contraction as an einsum: output axes are a's others, then b's others; (batch, 1) when none is left.
  static Tensor contract(const Tensor& a, const Tensor& b, int axis_a, int axis_b) {
    std::string left = "z", right = "z", out = "z";
    char next = 'a';
    for (int i = 1; i < a.rank(); ++i) {
      const char letter = i == axis_a ? 'y' : next++;
      left += letter;
      if (letter != 'y') out += letter;
    }
    for (int i = 1; i < b.rank(); ++i) {
      const char letter = i == axis_b ? 'y' : next++;
      right += letter;
      if (letter != 'y') out += letter;
    }
    const Tensor result = ops::einsum(left + "," + right + "->" + out, {a, b});
    return out.size() == 1 ? ops::expand_dims(result, 1) : result;
  }
};

}  // namespace

void register_merging_layers(LayerRegistry& registry) {
  registry.add(layer_row<Merge<AddRule>>());
  registry.add(layer_row<Merge<SubtractRule>>());
  registry.add(layer_row<Merge<MultiplyRule>>());
  registry.add(layer_row<Merge<AverageRule>>());
  registry.add(layer_row<Merge<MaximumRule>>());
  registry.add(layer_row<Merge<MinimumRule>>());
  registry.add(layer_row<ConcatenateLayer>());
  registry.add(layer_row<DotLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

using keras::LayerHandle;

LayerHandle Add(MergeOptions options) { return keras::make_layer<keras::Merge<keras::AddRule>>(std::move(options)); }
LayerHandle Subtract(MergeOptions options) { return keras::make_layer<keras::Merge<keras::SubtractRule>>(std::move(options)); }
LayerHandle Multiply(MergeOptions options) { return keras::make_layer<keras::Merge<keras::MultiplyRule>>(std::move(options)); }
LayerHandle Average(MergeOptions options) { return keras::make_layer<keras::Merge<keras::AverageRule>>(std::move(options)); }
LayerHandle Maximum(MergeOptions options) { return keras::make_layer<keras::Merge<keras::MaximumRule>>(std::move(options)); }
LayerHandle Minimum(MergeOptions options) { return keras::make_layer<keras::Merge<keras::MinimumRule>>(std::move(options)); }
LayerHandle Concatenate(ConcatenateOptions options) { return keras::make_layer<keras::ConcatenateLayer>(std::move(options)); }
LayerHandle Dot(DotOptions options) { return keras::make_layer<keras::DotLayer>(std::move(options)); }

}  // namespace lockstep::layers
