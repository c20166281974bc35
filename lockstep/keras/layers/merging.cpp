#include "lockstep/keras/layers/merging.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/tensor_ops_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// Inputs of a merge with axes of extent 1 inserted after the batch, so that all have the same rank.
Tensors same_rank(const std::vector<Tensor>& inputs) {
  int rank = 0;
  for (const Tensor& x : inputs) rank = std::max(rank, x.rank());
  Tensors out;
  for (Tensor x : inputs) {
    while (x.rank() < rank && x.rank() > 0) x = ops::expand_dims(x, 1);
    out.push_back(std::move(x));
  }
  return out;
}

// How a layer combines the masks of its inputs. Keras 3 keeps what any input keeps. In Keras 1 and 2 a step counts if
// it does in all inputs that have a mask, and masks change no values; files of theirs get "all_masks"
// (old_config_table.cpp), which is not written.
class MaskRule : public OldRules {
 public:
  void require_all_masks() { all_masks_ = true; }

 protected:
  bool all_masks_ = false;
};

template <typename L>
ClassRow merging_row() {
  return flagged_row<L>("all_masks", [](L& layer, const Json&) { layer.require_all_masks(); });
}

template <typename Derived>
class MergeLayer : public ConfiguredLayer<Derived, NamedOptions>, public MaskRule {
 public:
  template <typename V>
  static void fields(V&, NamedOptions&) {}
  explicit MergeLayer(NamedOptions options) : ConfiguredLayer<Derived, NamedOptions>(std::move(options)) {}
  bool supports_masking() const override { return true; }

  void build(const Nested<Shape>& shapes) override {
    if (!shapes.is_list() || shapes.parts().size() < 2) {
      throw_invalid_argument(fmt::format("{} takes a list of at least 2 inputs", who()));
    }
    check_count(shapes.parts().size());
    std::optional<std::int64_t> batch;
    for (const Shape& shape : shapes.flatten()) {
      if (!shape.known_rank() || shape.rank() == 0 || shape[0] == kUnknownDim) continue;
      if (batch && *batch != shape[0]) {
        throw_invalid_argument(fmt::format("{}: its inputs have batch sizes {} and {}", who(), *batch, shape[0]));
      }
      batch = shape[0];
    }
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    // A layer that was built from its config, or for another call, may get fewer inputs.
    const Tensors all = inputs.flatten();
    if (all.empty()) throw_invalid_argument(fmt::format("{} requires inputs", who()));
    check_count(all.size());
    const Tensors ready = in_common_dtype(same_rank(all));
    if constexpr (requires { Derived::merge_masked(ready); }) {
      if (!all_masks_) return Derived::merge_masked(ready);
    }
    return Derived::merge(ready);
  }

  // Elements that count in any input; nothing unless every input has a mask.
  Structure compute_mask(const Structure&, const Structure& mask, const Structure&) override {
    Tensor all;
    for (const Tensor& m : mask.flatten()) {
      if (!m.defined() && all_masks_) continue;
      if (!m.defined()) return Tensor();
      all = !all.defined() ? m : all_masks_ ? ops::logical_and(all, m) : ops::logical_or(all, m);
    }
    return all;
  }

 private:
  std::string who() const { return fmt::format("{} '{}'", Derived::kClass, this->name()); }
  void check_count(std::size_t count) const {
    if (Derived::kExactlyTwo && count != 2)
      throw_invalid_argument(fmt::format("{} takes exactly 2 inputs, {} were given", who(), count));
  }
};

// The mask of an input, for each of its elements; undefined without one.
Tensor element_mask(const Tensor& mask, const Tensor& input) {
  return mask.defined() ? ops::broadcast_to(ops::expand_dims(mask, -1), ops::shape_of(input)) : Tensor();
}

// Elements that are masked in one input are those of the other inputs. The mask of the result is where any input
// counts.
template <Tensor (*kCombine)(const Tensor&, const Tensor&)>
Tensor masked_fold(const Tensors& inputs) {
  Tensor out = inputs[0], seen = element_mask(inputs[0].mask(), inputs[0]);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const Tensor mask = element_mask(inputs[i].mask(), inputs[i]);
    const Tensor next = mask.defined() ? ops::where(mask, inputs[i], out) : inputs[i];
    if (seen.defined()) out = ops::where(seen, out, next);
    seen = mask.defined() && seen.defined() ? ops::logical_or(seen, mask) : Tensor();
    out = kCombine(out, next);
  }
  if (seen.defined()) out.set_mask(ops::reduce_any(seen, ops::Ints{-1}));
  return out;
}

// Masked elements are factors of 1; where all are masked the product is 0.
Tensor masked_product(const Tensors& inputs) {
  const bool all = std::all_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return x.mask().defined(); });
  Tensor out, seen;
  for (const Tensor& input : inputs) {
    const Tensor mask = element_mask(input.mask(), input);
    const Tensor x = mask.defined() ? ops::where(mask, input, ops::ones_like(input)) : input;
    if (all) seen = seen.defined() ? ops::logical_or(seen, mask) : mask;
    out = out.defined() ? ops::mul(out, x) : x;
  }
  if (!all) return out;
  out = ops::where(seen, out, ops::zeros_like(out));
  out.set_mask(ops::reduce_any(seen, ops::Ints{-1}));
  return out;
}

template <Tensor (*kCombine)(const Tensor&, const Tensor&)>
Tensor fold(const Tensors& inputs) {
  Tensor out = inputs[0];
  for (std::size_t i = 1; i < inputs.size(); ++i) out = kCombine(out, inputs[i]);
  return out;
}

struct AddLayer : MergeLayer<AddLayer> {
  static constexpr const char* kClass = "Add";
  static constexpr bool kExactlyTwo = false;
  using MergeLayer::MergeLayer;
  static Tensor merge(const Tensors& inputs) { return fold<ops::add>(inputs); }
};
struct SubtractLayer : MergeLayer<SubtractLayer> {
  static constexpr const char* kClass = "Subtract";
  static constexpr bool kExactlyTwo = true;
  using MergeLayer::MergeLayer;
  static Tensor merge(const Tensors& inputs) { return ops::sub(inputs[0], inputs[1]); }
};
struct MultiplyLayer : MergeLayer<MultiplyLayer> {
  static constexpr const char* kClass = "Multiply";
  static constexpr bool kExactlyTwo = false;
  using MergeLayer::MergeLayer;
  static Tensor merge(const Tensors& inputs) { return fold<ops::mul>(inputs); }
  static Tensor merge_masked(const Tensors& inputs) { return masked_product(inputs); }
};
struct AverageLayer : MergeLayer<AverageLayer> {
  static constexpr const char* kClass = "Average";
  static constexpr bool kExactlyTwo = false;
  using MergeLayer::MergeLayer;
  static Tensor merge(const Tensors& inputs) { return fold<ops::add>(inputs) / static_cast<double>(inputs.size()); }
};
struct MaximumLayer : MergeLayer<MaximumLayer> {
  static constexpr const char* kClass = "Maximum";
  static constexpr bool kExactlyTwo = false;
  using MergeLayer::MergeLayer;
  static Tensor merge(const Tensors& inputs) { return fold<ops::maximum>(inputs); }
  static Tensor merge_masked(const Tensors& inputs) { return masked_fold<ops::maximum>(inputs); }
};
struct MinimumLayer : MergeLayer<MinimumLayer> {
  static constexpr const char* kClass = "Minimum";
  static constexpr bool kExactlyTwo = false;
  using MergeLayer::MergeLayer;
  static Tensor merge(const Tensors& inputs) { return fold<ops::minimum>(inputs); }
  static Tensor merge_masked(const Tensors& inputs) { return masked_fold<ops::minimum>(inputs); }
};

class ConcatenateLayer : public ConfiguredLayer<ConcatenateLayer, ConcatenateOptions>, public MaskRule {
 public:
  static constexpr const char* kClass = "Concatenate";
  template <typename V>
  static void fields(V& v, ConcatenateOptions& o) {
    v("axis", o.axis);
  }
  explicit ConcatenateLayer(ConcatenateOptions options) : ConfiguredLayer(std::move(options)) {}
  bool supports_masking() const override { return true; }

  void build(const Nested<Shape>& shapes) override {
    const std::string who = fmt::format("Concatenate '{}'", name());
    if (!shapes.is_list() || shapes.parts().empty()) throw_invalid_argument(who + " takes a list of inputs");
    const std::vector<Shape> all = shapes.flatten();
    const Shape& first = all[0];
    if (options_.axis < -first.rank() || options_.axis >= first.rank()) {
      throw_invalid_argument(
          fmt::format("{}: axis {} is not among the axes of {}", who, options_.axis, first.to_string()));
    }
    const int axis = axis_of(first.rank());
    for (const Shape& shape : all) {
      bool fits = shape.rank() == first.rank();
      for (int i = 0; fits && i < shape.rank(); ++i) {
        fits = i == axis || i == 0 || shape[i] == first[i] || shape[i] == kUnknownDim || first[i] == kUnknownDim;
      }
      if (!fits) {
        throw_invalid_argument(fmt::format("{}: inputs of shapes {} and {} do not match except on axis {}", who,
                                           first.to_string(), shape.to_string(), options_.axis));
      }
    }
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const std::vector<Tensor> all = in_common_dtype(inputs.flatten());
    if (all.empty()) throw_invalid_argument(fmt::format("Concatenate '{}' requires inputs", name()));
    return all.size() == 1 ? all[0] : ops::concat(all, static_cast<int>(options_.axis));
  }
  Structure compute_mask(const Structure& inputs, const Structure& mask, const Structure&) override {
    const std::vector<Tensor> values = inputs.flatten(), masks = mask.flatten();
    if (std::none_of(masks.begin(), masks.end(), [](const Tensor& m) { return m.defined(); })) return Tensor();
    Tensors full;
    for (std::size_t i = 0; i < values.size(); ++i) {
      // In operations that keras.ops has, so that a model's config can contain them; true for NaN as well.
      Tensor all = ops::logical_or(ops::equal(values[i], values[i]), ops::not_equal(values[i], values[i]));
      if (i < masks.size() && masks[i].defined()) {
        Tensor m = ops::cast(masks[i], DType::kBool);
        while (m.rank() < values[i].rank()) m = ops::expand_dims(m, -1);
        all = ops::logical_and(all, m);
      }
      full.push_back(std::move(all));
    }
    const Tensor all = joined(full);
    return all_masks_ ? ops::reduce_all(all, ops::Ints{-1}) : ops::reduce_any(all, ops::Ints{-1});
  }

 private:
  // In a functional model an operation with its own name, as "concatenate" may be a layer's in the same file.
  Tensor joined(const Tensors& masks) const {
    if (std::none_of(masks.begin(), masks.end(), as_keras_tensor))
      return ops::concat(masks, static_cast<int>(options_.axis));
    const auto operation = std::make_shared<TensorOp>(
        *find_tensor_op("Concatenate"), Json{{"name", auto_name("ConcatenatedMasks")}, {"axis", options_.axis}});
    CallArguments arguments;
    arguments.args.push_back(Argument(std::vector<ArgValue>(masks.begin(), masks.end())));
    return (*operation)(std::move(arguments)).leaf();
  }
  int axis_of(int rank) const { return static_cast<int>(options_.axis < 0 ? options_.axis + rank : options_.axis); }
};

class DotLayer : public ConfiguredLayer<DotLayer, DotOptions> {
 public:
  static constexpr const char* kClass = "Dot";
  template <typename V>
  static void fields(V& v, DotOptions& o) {
    v("axes", OneOrMany{o.axes}, Field::kRequired);
    v("normalize", o.normalize);
  }
  explicit DotLayer(DotOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.axes.empty() || options_.axes.size() > 2) {
      throw_invalid_argument(fmt::format("Dot '{}': axes must be one number or two", name()));
    }
  }
  bool supports_masking() const override { return true; }
  Structure compute_mask(const Structure&, const Structure&, const Structure&) override { return Tensor(); }

  void build(const Nested<Shape>& shapes) override {
    const std::vector<Shape> all = shapes.flatten();
    if (!shapes.is_list() || all.size() != 2)
      throw_invalid_argument(fmt::format("Dot '{}' takes a list of 2 inputs", name()));
    const auto [a, b] = axes_for(all[0].rank(), all[1].rank());
    if (all[0][a] != all[1][b] && all[0][a] != kUnknownDim && all[1][b] != kUnknownDim) {
      throw_invalid_argument(fmt::format("Dot '{}': axis {} of {} and axis {} of {} differ", name(), a,
                                         all[0].to_string(), b, all[1].to_string()));
    }
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    Tensor x = inputs[0].leaf(), y = inputs[1].leaf();
    const auto [a, b] = axes_for(x.rank(), y.rank());
    if (options_.normalize) {
      x = ops::unit_vectors(x, ops::Ints{a});
      y = ops::unit_vectors(y, ops::Ints{b});
    }
    // batch, the rest of x, the rest of y; a scalar for each sample keeps an axis of extent 1.
    std::string left = "n", right = "n", out = "n";
    char next = 'a';
    for (int i = 1; i < x.rank(); ++i) left += i == a ? 'k' : (out += next == 'k' ? ++next : next, next++);
    for (int i = 1; i < y.rank(); ++i) right += i == b ? 'k' : (out += next == 'k' ? ++next : next, next++);
    Tensor result = ops::einsum(left + "," + right + "->" + out, {x, y});
    return result.rank() == 1 ? ops::expand_dims(result, 1) : result;
  }

 private:
  std::pair<int, int> axes_for(int rank_a, int rank_b) const {
    const auto resolve = [&](std::int64_t axis, int rank) {
      const std::int64_t at = axis < 0 ? axis + rank : axis;
      if (at < 1 || at >= rank)
        throw_invalid_argument(fmt::format("Dot '{}': axis {} does not fit rank {}", name(), axis, rank));
      return static_cast<int>(at);
    };
    return {resolve(options_.axes[0], rank_a), resolve(options_.axes.back(), rank_b)};
  }
};

}  // namespace

void register_merging_layers(ClassTable& registry) {
  registry.add(merging_row<AddLayer>());
  registry.add(merging_row<SubtractLayer>());
  registry.add(merging_row<MultiplyLayer>());
  registry.add(merging_row<AverageLayer>());
  registry.add(merging_row<MaximumLayer>());
  registry.add(merging_row<MinimumLayer>());
  registry.add(merging_row<ConcatenateLayer>());
  registry.add(layer_row<DotLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Add(NamedOptions options) { return std::make_shared<keras::AddLayer>(std::move(options)); }
LayerHandle Subtract(NamedOptions options) { return std::make_shared<keras::SubtractLayer>(std::move(options)); }
LayerHandle Multiply(NamedOptions options) { return std::make_shared<keras::MultiplyLayer>(std::move(options)); }
LayerHandle Average(NamedOptions options) { return std::make_shared<keras::AverageLayer>(std::move(options)); }
LayerHandle Maximum(NamedOptions options) { return std::make_shared<keras::MaximumLayer>(std::move(options)); }
LayerHandle Minimum(NamedOptions options) { return std::make_shared<keras::MinimumLayer>(std::move(options)); }
LayerHandle Concatenate(ConcatenateOptions options) {
  return std::make_shared<keras::ConcatenateLayer>(std::move(options));
}
LayerHandle Dot(DotOptions options) { return std::make_shared<keras::DotLayer>(std::move(options)); }

Tensor add(const std::vector<Tensor>& inputs, NamedOptions options) { return Add(std::move(options))(inputs).leaf(); }
Tensor subtract(const std::vector<Tensor>& inputs, NamedOptions options) {
  return Subtract(std::move(options))(inputs).leaf();
}
Tensor multiply(const std::vector<Tensor>& inputs, NamedOptions options) {
  return Multiply(std::move(options))(inputs).leaf();
}
Tensor average(const std::vector<Tensor>& inputs, NamedOptions options) {
  return Average(std::move(options))(inputs).leaf();
}
Tensor maximum(const std::vector<Tensor>& inputs, NamedOptions options) {
  return Maximum(std::move(options))(inputs).leaf();
}
Tensor minimum(const std::vector<Tensor>& inputs, NamedOptions options) {
  return Minimum(std::move(options))(inputs).leaf();
}
Tensor concatenate(const std::vector<Tensor>& inputs, std::int64_t axis, ConcatenateOptions options) {
  options.axis = axis;
  return Concatenate(std::move(options))(inputs).leaf();
}
Tensor concatenate(const std::vector<Tensor>& inputs, ConcatenateOptions options) {
  return Concatenate(std::move(options))(inputs).leaf();
}
Tensor dot(const std::vector<Tensor>& inputs, DotOptions options) { return Dot(std::move(options))(inputs).leaf(); }

}  // namespace lockstep::layers
