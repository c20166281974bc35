#include "lockstep/keras/layers/reshaping.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/images_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {
namespace {

// Numbers for the sides of axes. They are null in options until they are given, but not in configs.
struct GivenSides {
  Json& value;
};

}  // namespace

template <>
struct FieldType<GivenSides> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "integer or list of integers"; }
  static bool read(const Json& found, const GivenSides& v) {
    v.value = found;
    return true;
  }
  static Json write(const GivenSides& v) { return v.value; }
};

namespace {

using namespace layers;

class FlattenLayer : public ConfiguredLayer<FlattenLayer, FlattenOptions> {
 public:
  static constexpr const char* kClass = "Flatten";
  template <typename V>
  static void fields(V& v, FlattenOptions& o) {
    v("data_format", DataFormat{o.data_format});
  }
  explicit FlattenLayer(FlattenOptions options) : ConfiguredLayer(std::move(options)) {
    normalize_data_format(options_.data_format, fmt::format("Flatten '{}': data_format", name()));
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.min_ndim = 1}}; }
  Structure call(const Structure& inputs, const CallContext&) override {
    Tensor x = inputs;
    if (x.rank() == 1) return ops::expand_dims(x, -1);
    if (options_.data_format == "channels_first" && x.rank() > 2) x = to_channels_last(x);
    return ops::flatten(x);
  }
};

class ReshapeLayer : public ConfiguredLayer<ReshapeLayer, ReshapeOptions> {
 public:
  static constexpr const char* kClass = "Reshape";
  template <typename V>
  static void fields(V& v, ReshapeOptions& o) {
    v("target_shape", static_cast<keras::Ints&>(o.target_shape), Field::kRequired);
  }
  explicit ReshapeLayer(ReshapeOptions options) : ConfiguredLayer(std::move(options)) {
    const auto& target = options_.target_shape;
    if (std::count(target.begin(), target.end(), -1) > 1 ||
        std::any_of(target.begin(), target.end(), [](std::int64_t d) { return d < -1; })) {
      throw_invalid_argument(fmt::format("Reshape '{}': target_shape {} may hold one -1 and no other negative entry",
                                         name(), Shape(target).to_string()));
    }
    set_built_in_constructor();
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    const Tensor& x = inputs.leaf();
    if (x.rank() < 1)
      throw_invalid_argument(fmt::format("invalid input of Reshape '{}': found shape {}, expected at least one axis",
                                         name(), x.shape().to_string()));
    ops::Ints target = options_.target_shape;
    const auto unknown = std::find(target.begin(), target.end(), -1);
    if (unknown != target.end()) {
      Shape rest(std::vector<std::int64_t>(x.shape().dims().begin() + 1, x.shape().dims().end()));
      std::int64_t others = 1;
      for (std::int64_t d : target) {
        if (d != -1 && __builtin_mul_overflow(others, d, &others)) misfit(x.shape());
      }
      if (const auto total = rest.num_elements(); total && others > 0) {
        if (*total % others != 0) misfit(x.shape());
        *unknown = *total / others;
      }
    } else if (const auto total = Shape(std::vector<std::int64_t>(x.shape().dims().begin() + 1, x.shape().dims().end()))
                                      .num_elements()) {
      if (Shape(target).num_elements() != total) misfit(x.shape());
    }
    const std::int64_t batch = x.dim(0);
    if (batch != kUnknownDim || std::find(target.begin(), target.end(), -1) == target.end()) {
      target.insert(target.begin(), batch);
      return ops::reshape(x, target);
    }
    Tensors sizes;
    for (std::int64_t d : target) sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(d)));
    return ops::reshape(x, shape_with_batch_of(x, sizes));
  }

 private:
  [[noreturn]] void misfit(const Shape& shape) const {
    throw_invalid_argument(
        fmt::format("Reshape '{}': an input of shape {} cannot take the shape {} (without the batch)", name(),
                    shape.to_string(), Shape(options_.target_shape).to_string()));
  }
};

class PermuteLayer : public ConfiguredLayer<PermuteLayer, PermuteOptions> {
 public:
  static constexpr const char* kClass = "Permute";
  template <typename V>
  static void fields(V& v, PermuteOptions& o) {
    v("dims", o.dims, Field::kRequired);
  }
  explicit PermuteLayer(PermuteOptions options) : ConfiguredLayer(std::move(options)) {
    Ints sorted = options_.dims;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int64_t>(i) + 1) {
        throw_invalid_argument(fmt::format("Permute '{}': dims {} must be an order of 1 … {}", name(),
                                           Shape(options_.dims).to_string(), sorted.size()));
      }
    }
  }
  std::vector<InputSpec> input_spec() const override {
    return {InputSpec{.ndim = static_cast<int>(options_.dims.size()) + 1}};
  }
  Structure call(const Structure& inputs, const CallContext&) override {
    ops::Ints permutation = {0};
    permutation.insert(permutation.end(), options_.dims.begin(), options_.dims.end());
    return ops::transpose(inputs, permutation);
  }
};

class RepeatVectorLayer : public ConfiguredLayer<RepeatVectorLayer, RepeatVectorOptions> {
 public:
  static constexpr const char* kClass = "RepeatVector";
  template <typename V>
  static void fields(V& v, RepeatVectorOptions& o) {
    v("n", o.n, Field::kRequired);
  }
  explicit RepeatVectorLayer(RepeatVectorOptions options) : ConfiguredLayer(std::move(options)) {
    if (options_.n < 1 || options_.n > 1 << 30)
      throw_invalid_argument(fmt::format("RepeatVector '{}': n is {}", name(), options_.n));
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = 2}}; }
  Structure call(const Structure& inputs, const CallContext&) override {
    return ops::tile(ops::expand_dims(inputs, 1), ops::Ints{1, options_.n, 1});
  }
};

using Sides = std::vector<std::pair<std::int64_t, std::int64_t>>;

// A pair for each axis from 1, {1, 2} or {{1, 0}, {2, 2}}.
Sides parse_sides(const Json& value, int rank, const std::string& who) {
  const auto side = [&](const Json& number) {
    if (!number.is_number_integer() || number.get<std::int64_t>() < 0 || number.get<std::int64_t>() > 1 << 30) {
      throw_invalid_argument(fmt::format("{} is {}, expected integers of at least 0", who, dump_json(value)));
    }
    return number.get<std::int64_t>();
  };
  Sides sides;
  const Json list = value.is_object() && value.contains("items") ? value["items"] : value;
  if (list.is_number()) {
    sides.assign(static_cast<std::size_t>(rank), {side(list), side(list)});
  } else if (rank == 1 && list.is_array() && list.size() == 2 && list[0].is_number()) {
    sides.emplace_back(side(list[0]), side(list[1]));
  } else if (list.is_array() && static_cast<int>(list.size()) == rank) {
    for (const Json& entry : list) {
      const Json pair = entry.is_object() && entry.contains("items") ? entry["items"] : entry;
      if (pair.is_array() && pair.size() == 2) {
        sides.emplace_back(side(pair[0]), side(pair[1]));
      } else {
        sides.emplace_back(side(pair), side(pair));
      }
    }
  } else {
    throw_invalid_argument(
        fmt::format("{} is {}, expected a number, {} numbers or {} pairs", who, dump_json(value), rank, rank));
  }
  return sides;
}

Json sides_to_json(const Sides& sides) {
  Json out = Json::array();
  for (const auto& [before, after] : sides) out.push_back({before, after});
  return sides.size() == 1 ? out[0] : out;
}

int first_spatial_axis(const std::string& data_format) { return data_format == "channels_first" ? 2 : 1; }

template <typename Derived, int kRank>
class ZeroPaddingLayer : public ConfiguredLayer<Derived, ZeroPaddingOptions> {
 public:
  using Base = ConfiguredLayer<Derived, ZeroPaddingOptions>;
  template <typename V>
  static void fields(V& v, ZeroPaddingOptions& o) {
    v("padding", GivenSides{o.padding});
    v("data_format", DataFormat{o.data_format});
  }
  explicit ZeroPaddingLayer(ZeroPaddingOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    const std::string who = fmt::format("{} '{}'", Derived::kClass, this->name());
    sides_ = parse_sides(o.padding.is_null() ? Json(1) : o.padding, kRank, who + ": padding");
    o.padding = sides_to_json(sides_);
    normalize_data_format(o.data_format, who + ": data_format");
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 2}}; }
  Structure call(const Structure& inputs, const CallContext&) override {
    Sides all(kRank + 2, {0, 0});
    std::copy(sides_.begin(), sides_.end(), all.begin() + first_spatial_axis(this->options_.data_format));
    return ops::pad(inputs, all);
  }

 private:
  Sides sides_;
};

template <typename Derived, int kRank>
class CroppingLayer : public ConfiguredLayer<Derived, CroppingOptions> {
 public:
  using Base = ConfiguredLayer<Derived, CroppingOptions>;
  template <typename V>
  static void fields(V& v, CroppingOptions& o) {
    v("cropping", GivenSides{o.cropping});
    if constexpr (kRank > 1) v("data_format", DataFormat{o.data_format});
  }
  explicit CroppingLayer(CroppingOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    const std::string who = fmt::format("{} '{}'", Derived::kClass, this->name());
    sides_ = parse_sides(o.cropping.is_null() ? Json(kRank == 2 ? 0 : 1) : o.cropping, kRank, who + ": cropping");
    o.cropping = sides_to_json(sides_);
    normalize_data_format(o.data_format, who + ": data_format");
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 2}}; }
  Structure call(const Structure& inputs, const CallContext&) override {
    Tensor x = inputs;
    for (int i = 0; i < kRank; ++i) {
      const int axis = first_spatial_axis(this->options_.data_format) + i;
      const auto [before, after] = sides_[static_cast<std::size_t>(i)];
      const std::int64_t extent = x.dim(axis);
      if (extent != kUnknownDim && before + after >= extent) {
        throw_invalid_argument(fmt::format("{} '{}': cropping {} and {} leaves nothing of {} cells", Derived::kClass,
                                           this->name(), before, after, extent));
      }
      x = ops::slice_axis(x, axis, before, after == 0 ? std::nullopt : std::optional<std::int64_t>(-after));
    }
    return x;
  }

 private:
  Sides sides_;
};

// Each slice along `axis` n times, one after the other.
Tensor repeat(const Tensor& x, int axis, std::int64_t n) {
  if (n == 1) return x;
  ops::Ints multiples(static_cast<std::size_t>(x.rank()) + 1, 1);
  multiples[static_cast<std::size_t>(axis) + 1] = n;
  const Tensor tiled = ops::tile(ops::expand_dims(x, axis + 1), multiples);
  ops::Ints merged;
  int unknown = 0;
  for (int i = 0; i < x.rank(); ++i) {
    merged.push_back(x.dim(i) == kUnknownDim ? -1 : x.dim(i) * (i == axis ? n : 1));
    unknown += x.dim(i) == kUnknownDim;
  }
  if (unknown <= 1) return ops::reshape(tiled, merged);
  Tensors sizes;
  for (int i = 0; i < x.rank(); ++i)
    sizes.push_back(i == axis ? ops::dim_of(x, i) * static_cast<double>(n) : ops::dim_of(x, i));
  return ops::reshape(tiled, ops::stack(sizes));
}

template <typename Derived, int kRank>
class UpSamplingLayer : public ConfiguredLayer<Derived, UpSamplingOptions> {
 public:
  using Base = ConfiguredLayer<Derived, UpSamplingOptions>;
  template <typename V>
  static void fields(V& v, UpSamplingOptions& o) {
    v.renamed("length", "size", o.size);
    if constexpr (kRank == 1) {
      v("size", OneOrMany{o.size.values});
    } else {
      v("size", o.size);
    }
    if constexpr (kRank > 1) v("data_format", DataFormat{o.data_format});
    if constexpr (kRank == 2) v("interpolation", o.interpolation);
  }
  explicit UpSamplingLayer(UpSamplingOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    const std::string who = fmt::format("{} '{}'", Derived::kClass, this->name());
    normalize_window(o.size, kRank, 1, who + ": size");
    normalize_data_format(o.data_format, who + ": data_format");
    // The last two are Keras 2's.
    normalize_choice(o.interpolation,
                     {"nearest", "bilinear", "bicubic", "lanczos3", "lanczos5", "area", "gaussian", "mitchellcubic"},
                     who + ": interpolation");
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 2}}; }
  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    Tensor x = inputs;
    const int first = first_spatial_axis(o.data_format);
    if (o.interpolation != "nearest") {
      const bool channels_first = first == 2;
      if (channels_first) x = to_channels_last(x);
      const Tensor given = ops::stack({ops::dim_of(x, 1), ops::dim_of(x, 2)});
      x = resize_images(x, given * ops::constant_ints({o.size.values[0], o.size.values[1]}), o.interpolation);
      return channels_first ? to_channels_first(x) : x;
    }
    if (auto repeated = ops::try_repeat(x, first, o.size.values)) return *repeated;
    for (int i = 0; i < kRank; ++i) x = repeat(x, first + i, o.size.values[static_cast<std::size_t>(i)]);
    return x;
  }
};

struct ZeroPadding1DLayer : ZeroPaddingLayer<ZeroPadding1DLayer, 1> {
  static constexpr const char* kClass = "ZeroPadding1D";
  using ZeroPaddingLayer::ZeroPaddingLayer;
};
struct ZeroPadding2DLayer : ZeroPaddingLayer<ZeroPadding2DLayer, 2> {
  static constexpr const char* kClass = "ZeroPadding2D";
  using ZeroPaddingLayer::ZeroPaddingLayer;
};
struct ZeroPadding3DLayer : ZeroPaddingLayer<ZeroPadding3DLayer, 3> {
  static constexpr const char* kClass = "ZeroPadding3D";
  using ZeroPaddingLayer::ZeroPaddingLayer;
};
struct Cropping1DLayer : CroppingLayer<Cropping1DLayer, 1> {
  static constexpr const char* kClass = "Cropping1D";
  using CroppingLayer::CroppingLayer;
};
struct Cropping2DLayer : CroppingLayer<Cropping2DLayer, 2> {
  static constexpr const char* kClass = "Cropping2D";
  using CroppingLayer::CroppingLayer;
};
struct Cropping3DLayer : CroppingLayer<Cropping3DLayer, 3> {
  static constexpr const char* kClass = "Cropping3D";
  using CroppingLayer::CroppingLayer;
};
struct UpSampling1DLayer : UpSamplingLayer<UpSampling1DLayer, 1> {
  static constexpr const char* kClass = "UpSampling1D";
  using UpSamplingLayer::UpSamplingLayer;
};
struct UpSampling2DLayer : UpSamplingLayer<UpSampling2DLayer, 2> {
  static constexpr const char* kClass = "UpSampling2D";
  using UpSamplingLayer::UpSamplingLayer;
};
struct UpSampling3DLayer : UpSamplingLayer<UpSampling3DLayer, 3> {
  static constexpr const char* kClass = "UpSampling3D";
  using UpSamplingLayer::UpSamplingLayer;
};
}  // namespace

void register_reshaping_layers(ClassTable& registry) {
  registry.add(layer_row<FlattenLayer>());
  registry.add(layer_row<ReshapeLayer>());
  registry.add(layer_row<PermuteLayer>());
  registry.add(layer_row<RepeatVectorLayer>());
  registry.add(layer_row<ZeroPadding1DLayer>());
  registry.add(layer_row<ZeroPadding2DLayer>());
  registry.add(layer_row<ZeroPadding3DLayer>());
  registry.add(layer_row<Cropping1DLayer>());
  registry.add(layer_row<Cropping2DLayer>());
  registry.add(layer_row<Cropping3DLayer>());
  registry.add(layer_row<UpSampling1DLayer>());
  registry.add(layer_row<UpSampling2DLayer>());
  registry.add(layer_row<UpSampling3DLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Flatten(FlattenOptions options) { return std::make_shared<keras::FlattenLayer>(std::move(options)); }
LayerHandle Reshape(ReshapeOptions options) { return std::make_shared<keras::ReshapeLayer>(std::move(options)); }
LayerHandle Permute(PermuteOptions options) { return std::make_shared<keras::PermuteLayer>(std::move(options)); }
LayerHandle RepeatVector(std::int64_t n, RepeatVectorOptions options) {
  options.n = n;
  return std::make_shared<keras::RepeatVectorLayer>(std::move(options));
}
LayerHandle ZeroPadding1D(ZeroPaddingOptions options) {
  return std::make_shared<keras::ZeroPadding1DLayer>(std::move(options));
}
LayerHandle ZeroPadding2D(ZeroPaddingOptions options) {
  return std::make_shared<keras::ZeroPadding2DLayer>(std::move(options));
}
LayerHandle ZeroPadding3D(ZeroPaddingOptions options) {
  return std::make_shared<keras::ZeroPadding3DLayer>(std::move(options));
}
LayerHandle Cropping1D(CroppingOptions options) { return std::make_shared<keras::Cropping1DLayer>(std::move(options)); }
LayerHandle Cropping2D(CroppingOptions options) { return std::make_shared<keras::Cropping2DLayer>(std::move(options)); }
LayerHandle Cropping3D(CroppingOptions options) { return std::make_shared<keras::Cropping3DLayer>(std::move(options)); }
LayerHandle UpSampling1D(UpSamplingOptions options) {
  return std::make_shared<keras::UpSampling1DLayer>(std::move(options));
}
LayerHandle UpSampling2D(UpSamplingOptions options) {
  return std::make_shared<keras::UpSampling2DLayer>(std::move(options));
}
LayerHandle UpSampling3D(UpSamplingOptions options) {
  return std::make_shared<keras::UpSampling3DLayer>(std::move(options));
}

}  // namespace lockstep::layers
