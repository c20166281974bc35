// Layers of augmentation.h that change images by their histograms.
#include <algorithm>

#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

class EqualizationLayer : public AugmentationLayer<EqualizationLayer, EqualizationOptions> {
 public:
  static constexpr const char* kClass = "Equalization";
  template <typename V>
  static void fields(V& v, EqualizationOptions& o) {
    image_fields(v, o);
    v("bins", o.bins);
    v("value_range", o.value_range);
  }
  explicit EqualizationLayer(EqualizationOptions options) : AugmentationLayer(std::move(options)) {
    check_value_range(options_.value_range, who());
    if (options_.bins < 2 || options_.bins > (1 << 24))
      throw_invalid_argument(
          fmt::format("invalid {}: bins is {}, expected at least 2 and at most 2^24", who(), options_.bins));
  }

 private:
  Tensors draw(const Tensor&) override { return {}; }
  Tensor transform(const Tensor& x, const Tensors&) const override {
    Tensors channels = ops::unstack(x, -1);
    for (Tensor& channel : channels) channel = equalized(channel);
    return ops::stack(channels, -1);
  }
  Tensor equalized(const Tensor& given) const {
    const std::vector<double>& range = options_.value_range;
    const double scale = 255 / (range[1] - range[0]), last = static_cast<double>(options_.bins - 1);
    const Tensor channel = given * scale + (0 - range[0] * scale);
    const auto bins_of = [&](const Tensor& places) {
      return ops::clip_by_value(ops::cast(places, DType::kInt32), Tensor::scalar(std::int32_t{0}),
                                Tensor::scalar(static_cast<std::int32_t>(options_.bins - 1)));
    };
    const Tensor counted = ops::cast(channel, DType::kFloat32);
    const Tensor histogram =
        ops::cast(ops::bincount(ops::reshape(bins_of(counted * last / 255.0), {-1}), options_.bins), DType::kFloat64);
    const Tensor cdf = ops::cumsum(histogram, 0);
    const Tensor total = ops::reduce_sum(histogram);
    // The cdf at the first bin that is not empty.
    const Tensor least = ops::reduce_min(ops::where(ops::greater(cdf, 0.0), cdf, ops::zeros_like(cdf) + total));
    const Tensor others = total - least;
    const Tensor divisor = ops::where(ops::equal(others, 0.0), ops::ones_like(others), others);
    const Tensor table = ops::clip_by_value(ops::round((cdf - least) * 255.0 / divisor), 0.0, 255.0);
    const Tensor places = ops::clip_by_value(channel / 255.0 * last, 0.0, last);
    const Tensor looked_up = ops::gather(table, ops::cast(places, DType::kInt32));
    const Tensor used = ops::reduce_sum(ops::cast(ops::greater(histogram, 0.0), DType::kFloat64));
    const Tensor spread = ops::where(ops::less_equal(used, 1.0), ops::cast(channel, DType::kFloat64), looked_up);
    const double back = (range[1] - range[0]) / 255;
    return ops::cast(spread * back + range[0], compute_dtype());
  }
};

using ClaheOptions = ContrastLimitedAdaptiveHistogramEqualizationOptions;

class ClaheLayer : public AugmentationLayer<ClaheLayer, ClaheOptions> {
 public:
  static constexpr const char* kClass = "ContrastLimitedAdaptiveHistogramEqualization";
  bool keeps_dtype_in_inference() const override { return true; }
  template <typename V>
  static void fields(V& v, ClaheOptions& o) {
    image_fields(v, o);
    v("value_range", o.value_range);
    v("clip_limit", o.clip_limit);
    v("tile_grid_size", o.tile_grid_size);
  }
  explicit ClaheLayer(ClaheOptions options) : AugmentationLayer(std::move(options)) {
    check_value_range(options_.value_range, who());
    const auto& grid = options_.tile_grid_size;
    if (grid.size() != 2 || grid[0] < 1 || grid[1] < 1 || grid[0] > 4096 || grid[1] > 4096)
      throw_invalid_argument(fmt::format("invalid {}: tile_grid_size requires two numbers from 1 to 4096, found {}",
                                         who(), dump_json(Json(grid)).substr(0, 60)));
  }

 private:
  bool works_in_inference() const override { return true; }
  Tensors draw(const Tensor&) override { return {}; }
  Tensor training_shape(const Tensor& x) const override { return x; }

  // One of the two axes: its extent, tiles, and the pixels of a tile.
  struct Side {
    std::int64_t extent, tiles, pixels;
    std::int64_t padded() const { return tiles * pixels; }
  };
  Side side(const Tensor& x, int axis, std::int64_t tiles) const {
    const std::int64_t extent = x.dim(axis);
    if (extent == kUnknownDim)
      throw_unimplemented(
          fmt::format("{} requires images of a known size, found shape {}", who(), x.shape().to_string()));
    return {extent, tiles, (extent + tiles - 1) / tiles};
  }
  // For each pixel of a side: the tiles before and after it, in a row with each end repeated, and the weight of the
  // latter.
  struct Neighbours {
    std::vector<std::int32_t> before, after;
    std::vector<float> weight;
  };
  static Neighbours neighbours(const Side& side) {
    Neighbours found;
    const auto pixels = static_cast<float>(side.pixels);
    for (std::int64_t i = 0; i < side.padded(); ++i) {
      const float at = (static_cast<float>(i) - pixels / 2.0f) / pixels + 1.0f;
      const float floor = std::floor(at);
      const auto last = static_cast<float>(side.tiles + 1);
      found.before.push_back(static_cast<std::int32_t>(std::clamp(floor, 0.0f, last)));
      found.after.push_back(static_cast<std::int32_t>(std::clamp(floor + 1.0f, 0.0f, last)));
      found.weight.push_back(at - floor);
    }
    return found;
  }

  Tensor transform(const Tensor& given, const Tensors&) const override {
    const Tensor x = change_range(ops::cast(given, DType::kFloat32), options_.value_range, kBytes);
    const Side rows = side(x, 1, options_.tile_grid_size[0]), columns = side(x, 2, options_.tile_grid_size[1]);
    const std::int64_t channels = x.dim(3);
    const Tensor padded = ops::mirror_pad(
        x, {{0, 0}, {0, rows.padded() - rows.extent}, {0, columns.padded() - columns.extent}, {0, 0}}, "SYMMETRIC");
    const Tensor pixels = ops::cast(ops::clip_by_value(padded, 0.0, 255.0), DType::kInt32);
    const Tensor table = tables(pixels, rows, columns, channels);

    const Neighbours down = neighbours(rows), along = neighbours(columns);
    const std::int64_t stride_x = 256 * channels, stride_y = stride_x * (columns.tiles + 2);
    const auto column = [](const std::vector<std::int32_t>& places, std::int64_t stride, const ops::Ints& shape) {
      return ops::reshape(Tensor::from_vector(places), shape) * Tensor::scalar(static_cast<std::int32_t>(stride));
    };
    const Tensor images =
        ops::range(Tensor::scalar(std::int32_t{0}), ops::dim_of(x, 0), Tensor::scalar(std::int32_t{1}));
    const Tensor base =
        ops::reshape(images, {-1, 1, 1, 1}) * Tensor::scalar(static_cast<std::int32_t>(stride_y * (rows.tiles + 2))) +
        ops::reshape(ops::range(channels), {1, 1, 1, channels}) * Tensor::scalar(std::int32_t{256}) + pixels;
    const ops::Ints vertical = {1, -1, 1, 1}, horizontal = {1, 1, -1, 1};
    const auto seen = [&](const std::vector<std::int32_t>& y, const std::vector<std::int32_t>& z) {
      return ops::gather(table, base + column(y, stride_y, vertical) + column(z, stride_x, horizontal));
    };
    const auto weights = [](const std::vector<float>& values, const ops::Ints& shape) {
      return ops::reshape(Tensor::from_vector(values), shape);
    };
    const Tensor wx = weights(along.weight, horizontal), wy = weights(down.weight, vertical);
    const Tensor top = seen(down.before, along.before) * (1.0 - wx) + seen(down.before, along.after) * wx;
    const Tensor bottom = seen(down.after, along.before) * (1.0 - wx) + seen(down.after, along.after) * wx;
    const Tensor mixed =
        ops::slice(top * (1.0 - wy) + bottom * wy, {0, 0, 0, 0}, {-1, rows.extent, columns.extent, -1});
    return ops::cast(change_range(mixed, kBytes, options_.value_range), given.dtype());
  }

  // The new values of the 256 old ones, flat: (batch, tiles down + 2, tiles along + 2, channels, 256).
  Tensor tables(const Tensor& pixels, const Side& rows, const Side& columns, std::int64_t channels) const {
    const std::int64_t area = rows.pixels * columns.pixels;
    const Tensor tiles =
        ops::transpose(ops::reshape(pixels, {-1, rows.tiles, rows.pixels, columns.tiles, columns.pixels, channels}),
                       {0, 1, 3, 5, 2, 4});
    Tensor histogram = ops::reduce_sum(
        ops::one_hot(ops::reshape(tiles, {-1, rows.tiles, columns.tiles, channels, area}), 256), ops::Ints{-2});
    const double clip_limit = options_.clip_limit;
    if (clip_limit > 0) {
      const Tensor clipped = ops::clip_by_value(histogram, 0.0, clip_limit * static_cast<double>(area) / 256.0);
      histogram = clipped + ops::reduce_sum(histogram - clipped, ops::Ints{-1}, true) / 256.0;
    }
    const Tensor cdf = ops::cumsum(histogram, -1);
    const Tensor least = ops::reduce_min(cdf, ops::Ints{-1}, true);
    Tensor divisor = static_cast<double>(area) - least;
    divisor = ops::where(ops::equal(divisor, 0.0), ops::ones_like(divisor), divisor);
    Tensor table = ops::clip_by_value((cdf - least) * 255.0 / divisor, 0.0, 255.0);
    for (const int axis : {1, 2}) {
      const std::int64_t last = (axis == 1 ? rows : columns).tiles;
      table =
          ops::concat({ops::slice_axis(table, axis, 0, 1), table, ops::slice_axis(table, axis, last - 1, last)}, axis);
    }
    return ops::reshape(table, {-1});
  }
};

}  // namespace

void register_equalization_layers(ClassTable& registry) {
  registry.add(layer_row<EqualizationLayer>());
  registry.add(layer_row<ClaheLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle Equalization(EqualizationOptions options) {
  return std::make_shared<keras::EqualizationLayer>(std::move(options));
}
LayerHandle ContrastLimitedAdaptiveHistogramEqualization(ContrastLimitedAdaptiveHistogramEqualizationOptions options) {
  return std::make_shared<keras::ClaheLayer>(std::move(options));
}

}  // namespace lockstep::layers
