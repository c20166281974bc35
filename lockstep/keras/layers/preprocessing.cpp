#include "lockstep/keras/layers/preprocessing.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/flagged_row_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

// A number, or nested lists of numbers, as a tensor.
Tensor numbers(const Json& json, DType dtype, const std::string& who) {
  std::vector<double> values;
  Shape shape;
  const std::function<void(const Json&, int)> walk = [&](const Json& item, int depth) {
    if (item.is_number()) {
      values.push_back(item.get<double>());
      return;
    }
    if (item.is_object() && item.contains("config") && item["config"].is_object() && item["config"].contains("value")) {
      walk(item["config"]["value"], depth);
      return;
    }
    if (!item.is_array() || depth > 8)
      throw_invalid_argument(fmt::format("{} is {}, expected numbers", who, dump_json(json).substr(0, 60)));
    if (depth == shape.rank()) shape.push_back(static_cast<std::int64_t>(item.size()));
    if (shape[depth] != static_cast<std::int64_t>(item.size()))
      throw_invalid_argument(fmt::format("{} has rows of different lengths", who));
    for (const Json& inner : item) walk(inner, depth + 1);
  };
  walk(json, 0);
  return ops::cast(Tensor::from_vector(values, shape), dtype);
}

class RescalingLayer : public ConfiguredLayer<RescalingLayer, RescalingOptions>, public MaskSupport {
 public:
  static constexpr const char* kClass = "Rescaling";
  template <typename V>
  static void fields(V& v, RescalingOptions& o) {
    v("scale", o.scale, Field::kRequired);
    v("offset", o.offset);
  }
  explicit RescalingLayer(RescalingOptions options) : ConfiguredLayer(std::move(options)) {
    scale_ = numbers(options_.scale, compute_dtype(), fmt::format("Rescaling '{}': scale", name()));
    offset_ = numbers(options_.offset, compute_dtype(), fmt::format("Rescaling '{}': offset", name()));
  }
  bool supports_masking() const override { return keeps_masks_; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::cast(inputs, compute_dtype()) * scale_ + offset_;
  }

 private:
  Tensor scale_, offset_;
};

class NormalizationLayer : public ConfiguredLayer<NormalizationLayer, NormalizationOptions>, public MaskSupport {
 public:
  static constexpr const char* kClass = "Normalization";
  template <typename V>
  static void fields(V& v, NormalizationOptions& o) {
    v("axis", o.axis);
    v("invert", o.invert);
    v("mean", o.mean);
    v("variance", o.variance);
  }
  explicit NormalizationLayer(NormalizationOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.mean.is_null() != options_.variance.is_null()) {
      throw_invalid_argument(fmt::format("Normalization '{}': mean and variance must be given together", name()));
    }
    if (options_.mean.is_null()) return;
    given_mean_ = given("mean", options_.mean);
    given_variance_ = given("variance", options_.variance);
  }
  void build(const Nested<Shape>& shapes) override {
    const Shape& shape = shapes.leaf();
    rank_ = shape.rank();
    std::vector<std::int64_t> kept;
    broadcast_.assign(static_cast<std::size_t>(std::max(rank_, 1)), 1);
    std::vector<std::int64_t> axes = options_.axis.value_or(Ints{});
    for (std::int64_t& axis : axes) {
      if (axis < -rank_ || axis >= rank_)
        throw_invalid_argument(
            fmt::format("Normalization '{}': axis {} is not among the axes of {}", name(), axis, shape.to_string()));
      if (axis < 0) axis += rank_;
    }
    std::sort(axes.begin(), axes.end());
    kept_ = axes;
    for (std::int64_t axis : axes) {
      if (shape[static_cast<int>(axis)] == kUnknownDim) {
        throw_invalid_argument(fmt::format("Normalization '{}': axis {} of its input must be known, found shape {}",
                                           name(), axis, shape.to_string()));
      }
      kept.push_back(shape[static_cast<int>(axis)]);
      broadcast_[static_cast<std::size_t>(axis)] = shape[static_cast<int>(axis)];
    }
    const Shape kept_shape{std::vector<std::int64_t>(kept)};
    if (options_.mean.is_null()) {
      const auto add = [&](const char* weight, initializers::InitializerPtr initializer) {
        return add_weight(
            {.shape = kept_shape, .initializer = std::move(initializer), .trainable = false, .name = weight});
      };
      mean_ = add("mean", initializers::Zeros());
      variance_ = add("variance", initializers::Ones());
      add_weight({.shape = {},
                  .initializer = initializers::Zeros(),
                  .dtype = DType::kInt64,
                  .trainable = false,
                  .name = "count"});
      return;
    }
    given_mean_ = spread("mean", given_mean_, kept_shape);
    given_variance_ = spread("variance", given_variance_, kept_shape);
  }
  // Mean and variance of all samples.
  void adapt(const Structure& data) override {
    const Tensor& x = data.leaf();
    begin_adapting(x.shape());
    const auto [mean, variance] = ops::moments(ops::cast(x, DType::kFloat64), reduced_axes());
    mean_.assign(ops::cast(mean, mean_.dtype()));
    variance_.assign(ops::cast(variance, variance_.dtype()));
  }
  // Of batches, whose statistics are combined as Keras does; scalars are put into batches first.
  void adapt(const data::Dataset& given) override {
    const auto inputs_of = [](const data::Element& element) -> Tensor {
      return element.is_list() ? element[0].leaf() : element.leaf();
    };
    data::Dataset batches = given;
    Tensor mean, variance;
    double count = 0;
    bool begun = false;
    const data::ElementSpec spec = given.element_spec();
    if ((spec.is_list() ? spec[0] : spec).leaf().shape.rank() == 1) batches = given.batch(128);
    for (const data::Element& element : batches) {
      const Tensor x = ops::cast(inputs_of(element), compute_dtype());
      if (!std::exchange(begun, true)) begin_adapting(x.shape());
      check_kept(x.shape());
      double rows = 1;
      for (const std::int64_t axis : reduced_axes()) rows *= static_cast<double>(x.dim(static_cast<int>(axis)));
      const auto [batch_mean, batch_variance] = ops::moments(x, reduced_axes());
      if (!mean.defined()) mean = variance = ops::zeros_like(batch_mean);
      count += rows;
      const double part = rows / count, rest = 1.0 - part;
      const Tensor together = mean * rest + batch_mean * part;
      variance = (variance + ops::square(mean - together)) * rest +
                 (batch_variance + ops::square(batch_mean - together)) * part;
      mean = together;
    }
    if (!begun)
      throw_invalid_argument(fmt::format("Normalization '{}': adapt() requires data: found no batches", name()));
    mean_.assign(ops::cast(mean, mean_.dtype()));
    variance_.assign(ops::cast(variance, variance_.dtype()));
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor x = ops::cast(inputs, compute_dtype());
    const Tensor center = mean(), deviation = ops::maximum(ops::sqrt(variance()), backend::epsilon());
    return options_.invert ? center + x * deviation : (x - center) / deviation;
  }
  Tensor mean() const override { return broadcast(mean_, given_mean_); }
  Tensor variance() const override { return broadcast(variance_, given_variance_); }

 private:
  Tensor broadcast(const VariablePtr& learned, const Tensor& given) const {
    if (!learned && !given.defined()) {
      throw_failed_precondition(
          fmt::format("Normalization '{}' has no statistics yet: call adapt(), or the layer, first", name()));
    }
    return ops::reshape(learned ? value(learned) : given, broadcast_);
  }
  // A mean or variance of the config, whose axes are the last of those that the layer keeps. Keras 2 also takes leading
  // axes of extent 1.
  Tensor given(const char* argument, const Json& value) const {
    Tensor out = numbers(value, compute_dtype(), fmt::format("Normalization '{}': {}", name(), argument));
    const auto axes = static_cast<int>(options_.axis ? options_.axis->size() : 0);
    while (out.rank() > axes && out.dim(0) == 1) out = ops::squeeze(out, {0});
    if (out.rank() > axes) {
      throw_invalid_argument(
          fmt::format("invalid Normalization '{}': {} has the shape {}, expected at most {} axes, one for each of the "
                      "argument axis",
                      name(), argument, out.shape().to_string(), axes));
    }
    return out;
  }
  Tensor spread(const char* argument, const Tensor& values, const Shape& kept) const {
    for (int axis = 1; axis <= values.rank(); ++axis) {
      if (values.dim(-axis) == 1 || values.dim(-axis) == kept[kept.rank() - axis]) continue;
      throw_invalid_argument(fmt::format(
          "invalid Normalization '{}': {} has the shape {}, expected {}, the extents of its input along axis", name(),
          argument, values.shape().to_string(), kept.to_string()));
    }
    return ops::broadcast_to(values, kept.dims());
  }
  // Makes the variables for data of this shape.
  void begin_adapting(const Shape& shape) {
    if (!options_.mean.is_null()) {
      throw_failed_precondition(fmt::format(
          "Normalization '{}' was given its mean and variance; adapt() requires a layer without them", name()));
    }
    ensure_built(shape);
    check_kept(shape);
  }
  void check_kept(const Shape& shape) const {
    bool fits = shape.rank() == rank_;
    for (std::size_t axis = 0; axis < broadcast_.size() && fits; ++axis)
      fits = broadcast_[axis] == 1 || broadcast_[axis] == shape[static_cast<int>(axis)];
    if (fits) return;
    throw_invalid_argument(
        fmt::format("Normalization '{}': invalid data of adapt(): found shape {}, expected one like {}, for which the "
                    "layer was built",
                    name(), shape.to_string(), build_shapes()->leaf().to_string()));
  }
  ops::Ints reduced_axes() const {
    ops::Ints axes;
    for (int axis = 0; axis < rank_; ++axis) {
      if (std::find(kept_.begin(), kept_.end(), axis) == kept_.end()) axes.push_back(axis);
    }
    return axes;
  }

  int rank_ = 0;
  std::vector<std::int64_t> kept_;  // axes with one mean per index
  ops::Ints broadcast_;
  VariablePtr mean_, variance_;
  Tensor given_mean_, given_variance_;
};

class CategoryEncodingLayer : public ConfiguredLayer<CategoryEncodingLayer, CategoryEncodingOptions> {
 public:
  static constexpr const char* kClass = "CategoryEncoding";
  template <typename V>
  static void fields(V& v, CategoryEncodingOptions& o) {
    v("num_tokens", o.num_tokens);
    v("output_mode", o.output_mode);
    v.dropped("sparse", false);
  }
  explicit CategoryEncodingLayer(CategoryEncodingOptions options) : ConfiguredLayer(std::move(options)) {
    const std::string who = fmt::format("CategoryEncoding '{}'", name());
    if (options_.output_mode == "binary") options_.output_mode = "multi_hot";  // Keras 2's word
    normalize_choice(options_.output_mode, {"multi_hot", "one_hot", "count"}, who + ": output_mode");
    if (options_.num_tokens < 1)
      throw_invalid_argument(fmt::format("{}: num_tokens is {}, expected at least 1", who, options_.num_tokens));
  }
  bool casts_inputs() const override { return false; }
  std::vector<std::string> call_parameters() const override { return {"inputs", "count_weights"}; }
  Structure call(const Structure& inputs, const CallContext& context) override {
    Tensor x = ops::cast(inputs, DType::kInt64);
    const bool one_hot = options_.output_mode == "one_hot";
    if (one_hot && x.rank() > 1 && x.dim(-1) == 1) x = ops::squeeze(x, {-1});
    Tensor rows = ops::one_hot(x, options_.num_tokens, compute_dtype());
    if (one_hot) return rows;
    const ops::Ints axis = {x.rank() > 1 ? 1 : 0};  // Keras's, whatever the rank
    if (options_.output_mode == "multi_hot") return ops::reduce_max(rows, axis);
    if (const Tensor weights = context.tensor("count_weights"); weights.defined()) {
      rows = rows * ops::expand_dims(ops::cast(weights, compute_dtype()), -1);
    }
    return ops::reduce_sum(rows, axis);
  }
};

}  // namespace

void register_preprocessing_layers(ClassTable& registry) {
  registry.add(mask_dropping_row<RescalingLayer>());
  registry.add(mask_dropping_row<NormalizationLayer>());
  registry.add(layer_row<CategoryEncodingLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Rescaling(RescalingOptions options) { return std::make_shared<keras::RescalingLayer>(std::move(options)); }
LayerHandle CategoryEncoding(std::int64_t num_tokens, CategoryEncodingOptions options) {
  options.num_tokens = num_tokens;
  return std::make_shared<keras::CategoryEncodingLayer>(std::move(options));
}
LayerHandle Normalization(NormalizationOptions options) {
  return std::make_shared<keras::NormalizationLayer>(std::move(options));
}

}  // namespace lockstep::layers
