#include "lockstep/keras/layers/preprocessing.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
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

class RescalingLayer : public ConfiguredLayer<RescalingLayer, RescalingOptions> {
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
  bool supports_masking() const override { return true; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::cast(inputs, compute_dtype()) * scale_ + offset_;
  }

 private:
  Tensor scale_, offset_;
};

class NormalizationLayer : public ConfiguredLayer<NormalizationLayer, NormalizationOptions> {
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
            {.name = weight, .shape = kept_shape, .initializer = std::move(initializer), .trainable = false});
      };
      mean_ = add("mean", initializers::Zeros());
      variance_ = add("variance", initializers::Ones());
      add_weight({.name = "count",
                  .shape = {},
                  .initializer = initializers::Zeros(),
                  .dtype = DType::kInt32,
                  .trainable = false});
      return;
    }
    const std::string who = fmt::format("Normalization '{}'", name());
    given_mean_ = ops::broadcast_to(numbers(options_.mean, compute_dtype(), who + ": mean"), kept_shape.dims());
    given_variance_ =
        ops::broadcast_to(numbers(options_.variance, compute_dtype(), who + ": variance"), kept_shape.dims());
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor x = ops::cast(inputs, compute_dtype());
    const Tensor mean = ops::reshape(mean_ ? value(mean_) : given_mean_, broadcast_);
    const Tensor deviation =
        ops::maximum(ops::sqrt(ops::reshape(variance_ ? value(variance_) : given_variance_, broadcast_)), 1e-7);
    return options_.invert ? mean + x * deviation : (x - mean) / deviation;
  }

 private:
  int rank_ = 0;
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
    if (options_.output_mode == "multi_hot") return ops::reduce_max(rows, ops::Ints{-2});
    if (const Tensor weights = context.tensor("count_weights"); weights.defined()) {
      rows = rows * ops::expand_dims(ops::cast(weights, compute_dtype()), -1);
    }
    return ops::reduce_sum(rows, ops::Ints{-2});
  }
};

}  // namespace

void register_preprocessing_layers(ClassTable& registry) {
  registry.add(layer_row<RescalingLayer>());
  registry.add(layer_row<NormalizationLayer>());
  registry.add(layer_row<CategoryEncodingLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Rescaling(Json scale, RescalingOptions options) {
  options.scale = std::move(scale);
  return std::make_shared<keras::RescalingLayer>(std::move(options));
}
LayerHandle CategoryEncoding(std::int64_t num_tokens, CategoryEncodingOptions options) {
  options.num_tokens = num_tokens;
  return std::make_shared<keras::CategoryEncodingLayer>(std::move(options));
}
LayerHandle Normalization(NormalizationOptions options) {
  return std::make_shared<keras::NormalizationLayer>(std::move(options));
}

}  // namespace lockstep::layers
