#include "lockstep/keras/layers/reshaping.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/keras/layers/families.h"
#include "lockstep/keras/layers/fields.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {
namespace {

using namespace layers;

std::string checked_format(std::optional<std::string>& format, const char* layer) {
  if (!format) format = "channels_last";
  if (*format != "channels_last" && *format != "channels_first") {
    throw_invalid_argument(fmt::format("{}: data_format is '{}', expected channels_last or channels_first", layer, *format));
  }
  return *format;
}

// Brings 2, {1, 2} or {{1, 2}, {3, 4}} into a pair for each axis.
Json side_pairs(const Json& given, std::size_t axes, const char* layer, const char* what) {
  const auto fail = [&]() -> Json {
    throw_invalid_argument(fmt::format("{}: {} is {}, expected a number, a number for each of {} axes, or a pair for each", layer, what,
                                       dump_json(given), axes));
  };
  const auto amount = [&](const Json& value) -> Json {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0) fail();
    return value.get<std::int64_t>();
  };
  Json out = Json::array();
  if (given.is_number_integer()) {
    for (std::size_t i = 0; i < axes; ++i) out.push_back(Json::array({amount(given), amount(given)}));
    return out;
  }
  if (!given.is_array() || given.size() != axes) fail();
  for (const Json& item : given) {
    if (item.is_array()) {
      if (item.size() != 2) fail();
      out.push_back(Json::array({amount(item[0]), amount(item[1])}));
    } else {
      out.push_back(Json::array({amount(item), amount(item)}));
    }
  }
  return out;
}

// One axis: a number or a pair becomes {before, after}.
Json side_pair(const Json& given, const char* layer, const char* what) {
  if (given.is_array() && given.size() == 2 && given[0].is_number_integer()) return side_pairs(Json::array({given}), 1, layer, what)[0];
  return side_pairs(given, 1, layer, what)[0];
}

class FlattenLayer : public ConfiguredLayer<FlattenLayer, FlattenOptions> {
 public:
  static constexpr const char* kClass = "Flatten";
  explicit FlattenLayer(FlattenOptions options) : ConfiguredLayer(std::move(options)) { checked_format(options_.data_format, kClass); }
  template <typename V>
  static void fields(V& v, FlattenOptions& o) {
    v("data_format", o.data_format);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    Tensor x = inputs.leaf();
    if (x.rank() == 1) return ops::expand_dims(x, 1);
    if (*options_.data_format == "channels_first" && x.rank() > 2) {
      ops::Ints order{0};
      for (int axis = 2; axis < x.rank(); ++axis) order.push_back(axis);
      order.push_back(1);
      x = ops::transpose(x, order);
    }
    return ops::flatten(x);
  }
};

class ReshapeLayer : public ConfiguredLayer<ReshapeLayer, ReshapeOptions> {
 public:
  static constexpr const char* kClass = "Reshape";
  explicit ReshapeLayer(ReshapeOptions options) : ConfiguredLayer(std::move(options)) {
    set_built_in_constructor();
    if (std::count(options_.target_shape.begin(), options_.target_shape.end(), -1) > 1) {
      throw_invalid_argument(fmt::format("Reshape: target_shape {} has more than one -1", Shape(options_.target_shape).to_string()));
    }
  }
  template <typename V>
  static void fields(V& v, ReshapeOptions& o) {
    v("target_shape", o.target_shape);
  }
  static void read_legacy(FieldReader& reader, ReshapeOptions&) {
    for (const char* key : {"input_shape", "input_dim"}) reader.drop(key);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    ops::Ints target = options_.target_shape;
    resolve(target, x);
    if (x.dim(0) != kUnknownDim) {
      target.insert(target.begin(), x.dim(0));
      return ops::reshape(x, target);
    }
    if (std::find(target.begin(), target.end(), -1) == target.end()) {
      target.insert(target.begin(), -1);
      return ops::reshape(x, target);
    }
    Tensors dims{ops::dim_of(x, 0)};
    for (std::int64_t dim : target) dims.push_back(Tensor::scalar(static_cast<std::int32_t>(dim)));
    return ops::reshape(x, ops::stack(dims));
  }

 private:
  // Replaces -1 by what the other extents leave, where they are known.
  void resolve(ops::Ints& target, const Tensor& x) const {
    std::int64_t size = 1, known = 1;
    for (int axis = 1; axis < x.rank(); ++axis) {
      if (x.dim(axis) == kUnknownDim) return;
      size *= x.dim(axis);
    }
    for (std::int64_t dim : target) known *= dim == -1 ? 1 : dim;
    const auto open = std::find(target.begin(), target.end(), -1);
    if (known == 0 ? size != 0 && open != target.end() : size % known != 0 || (open == target.end() && size != known)) {
      throw_invalid_argument(fmt::format("Reshape '{}': an input of shape {} cannot become {}", name(), x.shape().to_string(),
                                         Shape(options_.target_shape).to_string()));
    }
    if (open != target.end()) *open = known == 0 ? 0 : size / known;
  }
};

class PermuteLayer : public ConfiguredLayer<PermuteLayer, PermuteOptions> {
 public:
  static constexpr const char* kClass = "Permute";
  explicit PermuteLayer(PermuteOptions options) : ConfiguredLayer(std::move(options)) {
    ops::Ints sorted = options_.dims;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int64_t>(i) + 1) {
        throw_invalid_argument(fmt::format("Permute: dims {} is no permutation of 1 … {}", Shape(options_.dims).to_string(), sorted.size()));
      }
    }
  }
  template <typename V>
  static void fields(V& v, PermuteOptions& o) {
    v("dims", o.dims);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    ops::Ints order{0};
    order.insert(order.end(), options_.dims.begin(), options_.dims.end());
    return ops::transpose(inputs.leaf(), order);
  }
};

class RepeatVectorLayer : public ConfiguredLayer<RepeatVectorLayer, RepeatVectorOptions> {
 public:
  static constexpr const char* kClass = "RepeatVector";
  explicit RepeatVectorLayer(RepeatVectorOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.n < 1) throw_invalid_argument(fmt::format("RepeatVector: n is {}, expected at least 1", options_.n));
  }
  template <typename V>
  static void fields(V& v, RepeatVectorOptions& o) {
    v("n", o.n);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::tile(ops::expand_dims(inputs.leaf(), 1), {1, options_.n, 1});
  }
};

std::vector<std::pair<std::int64_t, std::int64_t>> sides(int rank, int first_axis, const Json& pairs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> out(static_cast<std::size_t>(rank), {0, 0});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    out[static_cast<std::size_t>(first_axis) + i] = {pairs[i][0].get<std::int64_t>(), pairs[i][1].get<std::int64_t>()};
  }
  return out;
}

Tensor crop(const Layer& layer, Tensor x, int first_axis, const Json& pairs) {
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const int axis = first_axis + static_cast<int>(i);
    const auto before = pairs[i][0].get<std::int64_t>(), after = pairs[i][1].get<std::int64_t>();
    if (x.dim(axis) != kUnknownDim && before + after >= x.dim(axis)) {
      throw_invalid_argument(fmt::format("{} '{}': cropping {} and {} from axis {} of an input of shape {} leaves nothing",
                                         layer.class_name(), layer.name(), before, after, axis, x.shape().to_string()));
    }
    if (before == 0 && after == 0) continue;
    x = ops::slice_axis(x, axis, before, after == 0 ? std::optional<std::int64_t>() : std::optional<std::int64_t>(-after));
  }
  return x;
}

class ZeroPadding1DLayer : public ConfiguredLayer<ZeroPadding1DLayer, Padding1DOptions> {
 public:
  static constexpr const char* kClass = "ZeroPadding1D";
  explicit ZeroPadding1DLayer(Padding1DOptions options) : ConfiguredLayer(std::move(options)) {
    options_.padding = side_pair(options_.padding, kClass, "padding");
    checked_format(options_.data_format, kClass);
  }
  template <typename V>
  static void fields(V& v, Padding1DOptions& o) {
    v("padding", o.padding);
    v("data_format", o.data_format);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::pad(inputs.leaf(), sides(3, *options_.data_format == "channels_first" ? 2 : 1, Json::array({options_.padding})));
  }
};

class ZeroPadding2DLayer : public ConfiguredLayer<ZeroPadding2DLayer, Padding2DOptions> {
 public:
  static constexpr const char* kClass = "ZeroPadding2D";
  explicit ZeroPadding2DLayer(Padding2DOptions options) : ConfiguredLayer(std::move(options)) {
    options_.padding = side_pairs(options_.padding, 2, kClass, "padding");
    checked_format(options_.data_format, kClass);
  }
  template <typename V>
  static void fields(V& v, Padding2DOptions& o) {
    v("padding", o.padding);
    v("data_format", o.data_format);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::pad(inputs.leaf(), sides(4, *options_.data_format == "channels_first" ? 2 : 1, options_.padding));
  }
};

class Cropping1DLayer : public ConfiguredLayer<Cropping1DLayer, Cropping1DOptions> {
 public:
  static constexpr const char* kClass = "Cropping1D";
  explicit Cropping1DLayer(Cropping1DOptions options) : ConfiguredLayer(std::move(options)) {
    options_.cropping = side_pair(options_.cropping, kClass, "cropping");
  }
  template <typename V>
  static void fields(V& v, Cropping1DOptions& o) {
    v("cropping", o.cropping);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return crop(*this, inputs.leaf(), 1, Json::array({options_.cropping}));
  }
};

class Cropping2DLayer : public ConfiguredLayer<Cropping2DLayer, Cropping2DOptions> {
 public:
  static constexpr const char* kClass = "Cropping2D";
  explicit Cropping2DLayer(Cropping2DOptions options) : ConfiguredLayer(std::move(options)) {
    options_.cropping = side_pairs(options_.cropping, 2, kClass, "cropping");
    checked_format(options_.data_format, kClass);
  }
  template <typename V>
  static void fields(V& v, Cropping2DOptions& o) {
    v("cropping", o.cropping);
    v("data_format", o.data_format);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return crop(*this, inputs.leaf(), *options_.data_format == "channels_first" ? 2 : 1, options_.cropping);
  }
};

// Each index of an axis `times` times in a row.
Tensor repeat(const Tensor& x, int axis, std::int64_t times) {
  if (times == 1) return x;
  ops::Ints multiples(static_cast<std::size_t>(x.rank()) + 1, 1);
  multiples[static_cast<std::size_t>(axis) + 1] = times;
  const Tensor tiled = ops::tile(ops::expand_dims(x, axis + 1), multiples);
  Tensors dims;
  for (int i = 0; i < x.rank(); ++i) {
    const Tensor dim = ops::dim_of(x, i);
    dims.push_back(i == axis ? ops::mul(dim, Tensor::scalar(static_cast<std::int32_t>(times))) : dim);
  }
  return ops::reshape(tiled, ops::stack(dims));
}

class UpSampling1DLayer : public ConfiguredLayer<UpSampling1DLayer, UpSampling1DOptions> {
 public:
  static constexpr const char* kClass = "UpSampling1D";
  explicit UpSampling1DLayer(UpSampling1DOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.size < 1) throw_invalid_argument(fmt::format("UpSampling1D: size is {}, expected at least 1", options_.size));
  }
  template <typename V>
  static void fields(V& v, UpSampling1DOptions& o) {
    v("size", o.size);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override { return repeat(inputs.leaf(), 1, options_.size); }
};

class UpSampling2DLayer : public ConfiguredLayer<UpSampling2DLayer, UpSampling2DOptions> {
 public:
  static constexpr const char* kClass = "UpSampling2D";
  explicit UpSampling2DLayer(UpSampling2DOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.size.is_number_integer()) options_.size = Json::array({options_.size, options_.size});
    const Json pairs = side_pairs(options_.size, 2, kClass, "size");
    height_ = pairs[0][0];
    width_ = pairs[1][0];
    if (height_ < 1 || width_ < 1) throw_invalid_argument("UpSampling2D: size must be at least 1");
    if (options_.interpolation != "nearest" && options_.interpolation != "bilinear") {
      throw_unimplemented(fmt::format("UpSampling2D: interpolation '{}'; nearest and bilinear are there", options_.interpolation));
    }
    checked_format(options_.data_format, kClass);
  }
  template <typename V>
  static void fields(V& v, UpSampling2DOptions& o) {
    v("size", o.size);
    v("data_format", o.data_format);
    v("interpolation", o.interpolation);
  }
  std::string class_name() const override { return kClass; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const bool first = *options_.data_format == "channels_first";
    Tensor x = inputs.leaf();
    if (options_.interpolation == "nearest") {
      const int axis = first ? 2 : 1;
      return repeat(repeat(x, axis, height_), axis + 1, width_);
    }
    if (first) x = ops::transpose(x, {0, 2, 3, 1});
    if (x.dim(1) == kUnknownDim || x.dim(2) == kUnknownDim) {
      throw_unimplemented("UpSampling2D: bilinear interpolation of images of unknown size");
    }
    x = ops::resize_bilinear(x, x.dim(1) * height_, x.dim(2) * width_);
    return first ? ops::transpose(x, {0, 3, 1, 2}) : x;
  }

 private:
  std::int64_t height_ = 2, width_ = 2;
};

}  // namespace

void register_reshaping_layers(LayerRegistry& registry) {
  registry.add(layer_row<FlattenLayer>());
  registry.add(layer_row<ReshapeLayer>());
  registry.add(layer_row<PermuteLayer>());
  registry.add(layer_row<RepeatVectorLayer>());
  registry.add(layer_row<ZeroPadding1DLayer>());
  registry.add(layer_row<ZeroPadding2DLayer>());
  registry.add(layer_row<Cropping1DLayer>());
  registry.add(layer_row<Cropping2DLayer>());
  registry.add(layer_row<UpSampling1DLayer>());
  registry.add(layer_row<UpSampling2DLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

using keras::LayerHandle;
using keras::make_layer;

LayerHandle Flatten(FlattenOptions options) { return make_layer<keras::FlattenLayer>(std::move(options)); }
LayerHandle Reshape(std::vector<std::int64_t> target_shape, ReshapeOptions options) {
  options.target_shape = std::move(target_shape);
  return make_layer<keras::ReshapeLayer>(std::move(options));
}
LayerHandle Permute(std::vector<std::int64_t> dims, PermuteOptions options) {
  options.dims = std::move(dims);
  return make_layer<keras::PermuteLayer>(std::move(options));
}
LayerHandle RepeatVector(std::int64_t n, RepeatVectorOptions options) {
  options.n = n;
  return make_layer<keras::RepeatVectorLayer>(std::move(options));
}
LayerHandle ZeroPadding1D(Padding1DOptions options) { return make_layer<keras::ZeroPadding1DLayer>(std::move(options)); }
LayerHandle ZeroPadding2D(Padding2DOptions options) { return make_layer<keras::ZeroPadding2DLayer>(std::move(options)); }
LayerHandle Cropping1D(Cropping1DOptions options) { return make_layer<keras::Cropping1DLayer>(std::move(options)); }
LayerHandle Cropping2D(Cropping2DOptions options) { return make_layer<keras::Cropping2DLayer>(std::move(options)); }
LayerHandle UpSampling1D(UpSampling1DOptions options) { return make_layer<keras::UpSampling1DLayer>(std::move(options)); }
LayerHandle UpSampling2D(UpSampling2DOptions options) { return make_layer<keras::UpSampling2DLayer>(std::move(options)); }

}  // namespace lockstep::layers
