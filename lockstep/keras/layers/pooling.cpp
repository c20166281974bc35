#include "lockstep/keras/layers/pooling.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/trace_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/following_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

constexpr std::int64_t kMaxAdaptive = std::int64_t{1} << 24;
constexpr std::int64_t kMaxAdaptiveSlices = 1024;  // that are pooled one after the other

// The axis becomes the height of an image of width 1, what follows it the channels.
Tensor adaptive_pool(const Tensor& x, int axis, std::int64_t count, bool max) {
  const std::int64_t n = x.dim(axis);
  if (count > kMaxAdaptive) {
    throw_resource_exhausted(
        fmt::format("invalid output_size of adaptive pooling: found {}, expected at most {}", count, kMaxAdaptive));
  }
  ops::Ints shape(x.shape().dims().begin(), x.shape().dims().end());
  std::int64_t channels = 1;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < shape.size(); ++i) channels *= shape[i];
  const Tensor image = ops::reshape(x, ops::Ints{-1, n, 1, channels});
  const auto pooled = [max](const Tensor& part, std::int64_t size, std::int64_t step) {
    const ops::PoolOptions how{.size = {size, 1}, .strides = {step, 1}};
    return max ? ops::max_pool(part, how) : ops::avg_pool(part, how);
  };
  const auto begin = [&](std::int64_t i) { return i * n / count; };
  const auto size = [&](std::int64_t i) { return ((i + 1) * n + count - 1) / count - begin(i); };
  Tensor y;
  if (n % count == 0) {
    y = pooled(image, n / count, n / count);
  } else if (count <= kMaxAdaptiveSlices) {
    Tensors entries;
    for (std::int64_t i = 0; i < count; ++i)
      entries.push_back(pooled(ops::slice_axis(image, 1, begin(i), begin(i) + size(i)), size(i), size(i)));
    y = ops::concat(entries, 1);
  } else {
    // A window has one of two sizes. The windows of each size at all positions, and those that are wanted of them.
    const std::int64_t small = (n + count - 1) / count, large = std::min(small + 1, n), windows = n - small + 1;
    std::vector<std::int64_t> wanted;
    for (std::int64_t i = 0; i < count; ++i) wanted.push_back(size(i) == small ? begin(i) : windows + begin(i));
    const Tensor all =
        large == small ? pooled(image, small, 1) : ops::concat({pooled(image, small, 1), pooled(image, large, 1)}, 1);
    y = ops::gather(all, Tensor::from_vector(wanted), 1);
  }
  shape[static_cast<std::size_t>(axis)] = count;
  return ops::reshape(y, shape);
}

namespace {

using namespace layers;

enum class Pool { kMax, kAverage };

template <typename Derived, Pool kPool, int kRank>
class PoolingLayer : public ConfiguredLayer<Derived, PoolingOptions> {
 public:
  using Base = ConfiguredLayer<Derived, PoolingOptions>;
  template <typename V>
  static void fields(V& v, PoolingOptions& o) {
    v.renamed("pool_length", "pool_size", o.pool_size);
    v("pool_size", o.pool_size, kPool == Pool::kMax ? Field::kOptional : Field::kRequired);
    v("padding", o.padding);
    v("strides", o.strides);
    v("data_format", DataFormat{o.data_format});
  }
  explicit PoolingLayer(PoolingOptions options) : Base(std::move(options)) {
    auto& o = this->options_;
    const std::string who = fmt::format("{} '{}'", Derived::kClass, this->name());
    normalize_window(o.pool_size, kRank, 1, who + ": pool_size");
    if (!o.strides) o.strides = o.pool_size;
    normalize_window(*o.strides, kRank, 1, who + ": strides");
    normalize_choice(o.padding, {"valid", "same"}, who + ": padding");
    normalize_data_format(o.data_format, who + ": data_format");
    this->set_built_in_constructor();
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 2}}; }

  std::optional<ops::FollowingPool> following() const requires(kPool == Pool::kMax && kRank == 2) {
    const auto& o = this->options_;
    if (o.data_format == "channels_first") return std::nullopt;
    const auto &size = o.pool_size.values, &strides = o.strides->values;
    return ops::FollowingPool{{size[0], size[1]}, {strides[0], strides[1]}, o.padding == "same"};
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    const bool first = o.data_format == "channels_first";
    Tensor x = first ? to_channels_last(inputs) : inputs.leaf();
    if (x.is_symbolic()) {
      require_place(inputs.leaf().shape(), o.data_format, o.pool_size.values, Ints(kRank, 1), o.padding,
                    fmt::format("{} '{}'", Derived::kClass, this->name()));
    }
    const std::string_view padding = o.padding == "same" ? "SAME" : "VALID";
    Tensor y;
    if constexpr (kRank == 3) {
      const ops::PoolOptions how{
          .size = o.pool_size.values, .strides = o.strides->values, .padding = padding, .data_format = "NDHWC"};
      y = kPool == Pool::kMax ? ops::max_pool3d(x, how) : ops::avg_pool3d(x, how);
    } else {
      ops::Ints size = o.pool_size.values, strides = o.strides->values;
      if (kRank == 1) {
        x = ops::expand_dims(x, 1);
        size.insert(size.begin(), 1);
        strides.insert(strides.begin(), 1);
      }
      const ops::PoolOptions how{.size = size, .strides = strides, .padding = padding};
      y = kPool == Pool::kMax ? ops::max_pool(x, how) : ops::avg_pool(x, how);
      if (kRank == 1) y = ops::squeeze(y, {1});
    }
    return first ? to_channels_first(y) : y;
  }
};

template <typename Derived, Pool kPool, int kRank>
class GlobalPoolingLayer : public ConfiguredLayer<Derived, GlobalPoolingOptions> {
 public:
  using Base = ConfiguredLayer<Derived, GlobalPoolingOptions>;
  static constexpr bool kMasked = kPool == Pool::kAverage && kRank == 1;
  template <typename V>
  static void fields(V& v, GlobalPoolingOptions& o) {
    v("data_format", DataFormat{o.data_format});
    v("keepdims", o.keepdims);
  }
  explicit GlobalPoolingLayer(GlobalPoolingOptions options) : Base(std::move(options)) {
    normalize_data_format(this->options_.data_format,
                          fmt::format("{} '{}': data_format", Derived::kClass, this->name()));
    this->set_built_in_constructor();
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 2}}; }
  bool supports_masking() const override { return kMasked; }
  bool uses_mask() const override { return kMasked; }
  Structure compute_mask(const Structure&, const Structure&, const Structure&) override { return Tensor(); }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const auto& o = this->options_;
    const Tensor& x = inputs.leaf();
    const bool first = o.data_format == "channels_first";
    ops::Ints axes;
    for (int i = 0; i < kRank; ++i) axes.push_back(first ? i + 2 : i + 1);
    if (kPool == Pool::kMax) return ops::reduce_max(x, axes, o.keepdims);
    if (kMasked && context.mask.is_leaf() && context.mask.leaf().defined()) {
      const Tensor mask = ops::expand_dims(ops::cast(context.mask.leaf(), x.dtype()), first ? 1 : 2);
      return ops::reduce_sum(x * mask, axes, o.keepdims) / ops::reduce_sum(mask, axes, o.keepdims);
    }
    return ops::reduce_mean(is_floating(x.dtype()) ? x : ops::cast(x, DType::kFloat32), axes, o.keepdims);
  }
};

// One axis after the other, as Keras does.
template <typename Derived, Pool kPool, int kRank>
class AdaptivePoolingLayer : public ConfiguredLayer<Derived, AdaptivePoolingOptions> {
 public:
  using Base = ConfiguredLayer<Derived, AdaptivePoolingOptions>;
  template <typename V>
  static void fields(V& v, AdaptivePoolingOptions& o) {
    v("output_size", o.output_size, Field::kRequired);
    v("data_format", DataFormat{o.data_format});
  }
  explicit AdaptivePoolingLayer(AdaptivePoolingOptions options) : Base(std::move(options)) {
    const std::string who = fmt::format("{} '{}'", Derived::kClass, this->name());
    normalize_window(this->options_.output_size, kRank, 1, who + ": output_size");
    normalize_data_format(this->options_.data_format, who + ": data_format");
  }
  std::vector<InputSpec> input_spec() const override { return {InputSpec{.ndim = kRank + 2}}; }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    const bool first = o.data_format == "channels_first";
    Tensor y = first ? to_channels_last(inputs) : inputs.leaf();
    for (int axis = 1; axis <= kRank; ++axis) {
      if (y.dim(axis) != kUnknownDim) continue;
      if (graph::stands_for_shape(y)) {  // the inputs will have extents
        Tensors sizes;
        for (const std::int64_t size : o.output_size.values)
          sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(size)));
        sizes.push_back(ops::dim_of(y, kRank + 1));
        y = ops::reshape(y, shape_with_batch_of(y, sizes));
        return first ? to_channels_first(y) : y;
      }
      throw_invalid_argument(fmt::format("{} '{}': the extents of its input must be known, found shape {}",
                                         Derived::kClass, this->name(), inputs.leaf().shape().to_string()));
    }
    for (int axis = 1; axis <= kRank; ++axis)
      y = adaptive_pool(y, axis, o.output_size.values[static_cast<std::size_t>(axis - 1)], kPool == Pool::kMax);
    return first ? to_channels_first(y) : y;
  }
};

struct MaxPooling1DLayer : PoolingLayer<MaxPooling1DLayer, Pool::kMax, 1> {
  static constexpr const char* kClass = "MaxPooling1D";
  using PoolingLayer::PoolingLayer;
};
struct MaxPooling2DLayer : PoolingLayer<MaxPooling2DLayer, Pool::kMax, 2> {
  static constexpr const char* kClass = "MaxPooling2D";
  using PoolingLayer::PoolingLayer;
};
struct MaxPooling3DLayer : PoolingLayer<MaxPooling3DLayer, Pool::kMax, 3> {
  static constexpr const char* kClass = "MaxPooling3D";
  using PoolingLayer::PoolingLayer;
};
struct AveragePooling1DLayer : PoolingLayer<AveragePooling1DLayer, Pool::kAverage, 1> {
  static constexpr const char* kClass = "AveragePooling1D";
  using PoolingLayer::PoolingLayer;
};
struct AveragePooling2DLayer : PoolingLayer<AveragePooling2DLayer, Pool::kAverage, 2> {
  static constexpr const char* kClass = "AveragePooling2D";
  using PoolingLayer::PoolingLayer;
};
struct AveragePooling3DLayer : PoolingLayer<AveragePooling3DLayer, Pool::kAverage, 3> {
  static constexpr const char* kClass = "AveragePooling3D";
  using PoolingLayer::PoolingLayer;
};
struct GlobalMaxPooling1DLayer : GlobalPoolingLayer<GlobalMaxPooling1DLayer, Pool::kMax, 1> {
  static constexpr const char* kClass = "GlobalMaxPooling1D";
  using GlobalPoolingLayer::GlobalPoolingLayer;
};
struct GlobalMaxPooling2DLayer : GlobalPoolingLayer<GlobalMaxPooling2DLayer, Pool::kMax, 2> {
  static constexpr const char* kClass = "GlobalMaxPooling2D";
  using GlobalPoolingLayer::GlobalPoolingLayer;
};
struct GlobalMaxPooling3DLayer : GlobalPoolingLayer<GlobalMaxPooling3DLayer, Pool::kMax, 3> {
  static constexpr const char* kClass = "GlobalMaxPooling3D";
  using GlobalPoolingLayer::GlobalPoolingLayer;
};
struct GlobalAveragePooling1DLayer : GlobalPoolingLayer<GlobalAveragePooling1DLayer, Pool::kAverage, 1> {
  static constexpr const char* kClass = "GlobalAveragePooling1D";
  using GlobalPoolingLayer::GlobalPoolingLayer;
};
struct GlobalAveragePooling2DLayer : GlobalPoolingLayer<GlobalAveragePooling2DLayer, Pool::kAverage, 2> {
  static constexpr const char* kClass = "GlobalAveragePooling2D";
  using GlobalPoolingLayer::GlobalPoolingLayer;
};
struct GlobalAveragePooling3DLayer : GlobalPoolingLayer<GlobalAveragePooling3DLayer, Pool::kAverage, 3> {
  static constexpr const char* kClass = "GlobalAveragePooling3D";
  using GlobalPoolingLayer::GlobalPoolingLayer;
};

struct AdaptiveMaxPooling1DLayer : AdaptivePoolingLayer<AdaptiveMaxPooling1DLayer, Pool::kMax, 1> {
  static constexpr const char* kClass = "AdaptiveMaxPooling1D";
  using AdaptivePoolingLayer::AdaptivePoolingLayer;
};
struct AdaptiveMaxPooling2DLayer : AdaptivePoolingLayer<AdaptiveMaxPooling2DLayer, Pool::kMax, 2> {
  static constexpr const char* kClass = "AdaptiveMaxPooling2D";
  using AdaptivePoolingLayer::AdaptivePoolingLayer;
};
struct AdaptiveMaxPooling3DLayer : AdaptivePoolingLayer<AdaptiveMaxPooling3DLayer, Pool::kMax, 3> {
  static constexpr const char* kClass = "AdaptiveMaxPooling3D";
  using AdaptivePoolingLayer::AdaptivePoolingLayer;
};
struct AdaptiveAveragePooling1DLayer : AdaptivePoolingLayer<AdaptiveAveragePooling1DLayer, Pool::kAverage, 1> {
  static constexpr const char* kClass = "AdaptiveAveragePooling1D";
  using AdaptivePoolingLayer::AdaptivePoolingLayer;
};
struct AdaptiveAveragePooling2DLayer : AdaptivePoolingLayer<AdaptiveAveragePooling2DLayer, Pool::kAverage, 2> {
  static constexpr const char* kClass = "AdaptiveAveragePooling2D";
  using AdaptivePoolingLayer::AdaptivePoolingLayer;
};
struct AdaptiveAveragePooling3DLayer : AdaptivePoolingLayer<AdaptiveAveragePooling3DLayer, Pool::kAverage, 3> {
  static constexpr const char* kClass = "AdaptiveAveragePooling3D";
  using AdaptivePoolingLayer::AdaptivePoolingLayer;
};

}  // namespace

std::optional<ops::FollowingPool> following_pool(const Layer& layer) {
  const auto* const pool = dynamic_cast<const MaxPooling2DLayer*>(&layer);
  return pool ? pool->following() : std::nullopt;
}

void register_pooling_layers(ClassTable& registry) {
  registry.add(layer_row<MaxPooling1DLayer>({"MaxPool1D"}));
  registry.add(layer_row<MaxPooling2DLayer>({"MaxPool2D"}));
  registry.add(layer_row<MaxPooling3DLayer>({"MaxPool3D"}));
  registry.add(layer_row<AveragePooling1DLayer>({"AvgPool1D"}));
  registry.add(layer_row<AveragePooling2DLayer>({"AvgPool2D"}));
  registry.add(layer_row<AveragePooling3DLayer>({"AvgPool3D"}));
  registry.add(layer_row<GlobalMaxPooling1DLayer>({"GlobalMaxPool1D"}));
  registry.add(layer_row<GlobalMaxPooling2DLayer>({"GlobalMaxPool2D"}));
  registry.add(layer_row<GlobalMaxPooling3DLayer>({"GlobalMaxPool3D"}));
  registry.add(layer_row<GlobalAveragePooling1DLayer>({"GlobalAvgPool1D"}));
  registry.add(layer_row<GlobalAveragePooling2DLayer>({"GlobalAvgPool2D"}));
  registry.add(layer_row<GlobalAveragePooling3DLayer>({"GlobalAvgPool3D"}));
  registry.add(layer_row<AdaptiveMaxPooling1DLayer>());
  registry.add(layer_row<AdaptiveMaxPooling2DLayer>());
  registry.add(layer_row<AdaptiveMaxPooling3DLayer>());
  registry.add(layer_row<AdaptiveAveragePooling1DLayer>());
  registry.add(layer_row<AdaptiveAveragePooling2DLayer>());
  registry.add(layer_row<AdaptiveAveragePooling3DLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle MaxPooling1D(PoolingOptions options) {
  return std::make_shared<keras::MaxPooling1DLayer>(std::move(options));
}
LayerHandle MaxPooling2D(PoolingOptions options) {
  return std::make_shared<keras::MaxPooling2DLayer>(std::move(options));
}
LayerHandle MaxPooling3D(PoolingOptions options) {
  return std::make_shared<keras::MaxPooling3DLayer>(std::move(options));
}
LayerHandle AveragePooling1D(PoolingOptions options) {
  return std::make_shared<keras::AveragePooling1DLayer>(std::move(options));
}
LayerHandle AveragePooling2D(PoolingOptions options) {
  return std::make_shared<keras::AveragePooling2DLayer>(std::move(options));
}
LayerHandle AveragePooling3D(PoolingOptions options) {
  return std::make_shared<keras::AveragePooling3DLayer>(std::move(options));
}
LayerHandle GlobalMaxPooling1D(GlobalPoolingOptions options) {
  return std::make_shared<keras::GlobalMaxPooling1DLayer>(std::move(options));
}
LayerHandle GlobalMaxPooling2D(GlobalPoolingOptions options) {
  return std::make_shared<keras::GlobalMaxPooling2DLayer>(std::move(options));
}
LayerHandle GlobalMaxPooling3D(GlobalPoolingOptions options) {
  return std::make_shared<keras::GlobalMaxPooling3DLayer>(std::move(options));
}
LayerHandle GlobalAveragePooling1D(GlobalPoolingOptions options) {
  return std::make_shared<keras::GlobalAveragePooling1DLayer>(std::move(options));
}
LayerHandle GlobalAveragePooling2D(GlobalPoolingOptions options) {
  return std::make_shared<keras::GlobalAveragePooling2DLayer>(std::move(options));
}
LayerHandle GlobalAveragePooling3D(GlobalPoolingOptions options) {
  return std::make_shared<keras::GlobalAveragePooling3DLayer>(std::move(options));
}

LayerHandle AdaptiveMaxPooling1D(AdaptivePoolingOptions options) {
  return std::make_shared<keras::AdaptiveMaxPooling1DLayer>(std::move(options));
}
LayerHandle AdaptiveMaxPooling2D(AdaptivePoolingOptions options) {
  return std::make_shared<keras::AdaptiveMaxPooling2DLayer>(std::move(options));
}
LayerHandle AdaptiveMaxPooling3D(AdaptivePoolingOptions options) {
  return std::make_shared<keras::AdaptiveMaxPooling3DLayer>(std::move(options));
}
LayerHandle AdaptiveAveragePooling1D(AdaptivePoolingOptions options) {
  return std::make_shared<keras::AdaptiveAveragePooling1DLayer>(std::move(options));
}
LayerHandle AdaptiveAveragePooling2D(AdaptivePoolingOptions options) {
  return std::make_shared<keras::AdaptiveAveragePooling2DLayer>(std::move(options));
}
LayerHandle AdaptiveAveragePooling3D(AdaptivePoolingOptions options) {
  return std::make_shared<keras::AdaptiveAveragePooling3DLayer>(std::move(options));
}

}  // namespace lockstep::layers
