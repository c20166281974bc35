#include "lockstep/applications/building_internal.h"

#include <algorithm>

namespace lockstep::applications {

Tensor start(const std::string& architecture, const ApplicationOptions& o, std::int64_t default_size,
             std::int64_t least_size) {
  const auto fail = [&](const std::string& what) { throw_invalid_argument(fmt::format("{}: {}", architecture, what)); };
  if (o.classes < 1) fail(fmt::format("classes is {}, expected at least 1", o.classes));
  if (o.pooling && *o.pooling != "avg" && *o.pooling != "max")
    fail(fmt::format("pooling is '{}', expected 'avg', 'max' or nothing", *o.pooling));
  if (o.weights && *o.weights == "imagenet")
    fail("weights 'imagenet' would have to be downloaded; give the file with them, or nothing for random weights");
  std::vector<std::int64_t> shape = o.input_shape;
  if (shape.empty()) {
    shape = o.include_top ? std::vector<std::int64_t>{default_size, default_size, 3}
                          : std::vector<std::int64_t>{kUnknownDim, kUnknownDim, 3};
  }
  if (shape.size() != 3)
    fail(fmt::format("input_shape has {} numbers, expected height, width, channels", shape.size()));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t least = axis == 2 ? 1 : least_size;
    if (shape[axis] == kUnknownDim && axis < 2) {
      if (o.include_top && default_size != kUnknownDim)
        fail("input_shape requires a height and a width where include_top is true");
      continue;
    }
    if (shape[axis] < least)
      fail(fmt::format("input_shape is {}, expected height and width of at least {} and at least one channel",
                       Shape(shape).to_string(), least_size));
  }
  return layers::Input(Shape(shape));
}

keras::Model finish(const Tensor& input, const Tensor& output, const ApplicationOptions& o,
                    const std::string& default_name) {
  keras::Model model(input, output, o.name.empty() ? default_name : o.name);
  if (o.weights) model.load_weights(*o.weights);
  return model;
}

TopNames pool_names() { return {"avg_pool", "avg_pool", "max_pool"}; }

Tensor pooled(const Tensor& x, const ApplicationOptions& o, const std::string& average, const std::string& max) {
  if (!o.pooling) return x;
  if (*o.pooling == "avg") return layers::GlobalAveragePooling2D({.name = average})(x);
  return layers::GlobalMaxPooling2D({.name = max})(x);
}

Tensor classify(Tensor x, const ApplicationOptions& o, const TopNames& names, layers::DenseOptions dense) {
  if (!o.include_top) return pooled(x, o, names.average_without_top, names.max);
  x = layers::GlobalAveragePooling2D({.name = names.average})(x);
  dense.activation = o.classifier_activation;
  if (dense.name.empty()) dense.name = "predictions";
  return layers::Dense(o.classes, std::move(dense))(x);
}

Tensor conv(const Tensor& x, std::int64_t filters, Window kernel, layers::ConvOptions options) {
  return layers::Conv2D(filters, std::move(kernel), std::move(options))(x);
}

Tensor batch_norm(const Tensor& x, const std::string& name, layers::BatchNormalizationOptions options) {
  options.name = name;
  return layers::BatchNormalization(std::move(options))(x);
}

Tensor act(const Tensor& x, activations::ActivationArg activation, const std::string& name) {
  return layers::Activation(std::move(activation), {.name = name})(x);
}

Tensor pad(const Tensor& x, Json padding, const std::string& name) {
  return layers::ZeroPadding2D(std::move(padding), {.name = name})(x);
}

Json correct_pad(const Tensor& x, std::int64_t kernel) {
  const std::int64_t half = kernel / 2;
  Json sides = Json::array();
  for (const int axis : {1, 2}) {
    const std::int64_t adjust = x.dim(1) == kUnknownDim ? 1 : 1 - x.dim(axis) % 2;
    Json side = Json::array();
    side.push_back(half - adjust);
    side.push_back(half);
    sides.push_back(std::move(side));
  }
  return sides;
}

std::int64_t divisible(double v, std::int64_t divisor) {
  const std::int64_t rounded =
      std::max(divisor, static_cast<std::int64_t>(v + static_cast<double>(divisor) / 2) / divisor * divisor);
  return static_cast<double>(rounded) < 0.9 * v ? rounded + divisor : rounded;
}

}  // namespace lockstep::applications
