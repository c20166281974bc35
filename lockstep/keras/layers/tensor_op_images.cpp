// keras.ops.image
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"

namespace lockstep::keras::tensor_ops {
namespace {

// Images with the channels last; a single one becomes a batch of one.
Structure on_images(const CallArguments& call, const Json& config, const std::function<Tensor(const Tensor&)>& run,
                    std::string_view keyword = "images") {
  const Json format = get(config, "data_format");
  if (!format.is_null() && format != "channels_last")
    bad("data_format channels_first is not supported in keras.ops.image");
  const Tensor x = tensor_operand(call, 0, keyword);
  if (x.rank() != 3 && x.rank() != 4) bad(fmt::format("an image has {} axes, expected 3 or 4", x.rank()));
  return x.rank() == 4 ? run(x) : ops::squeeze(run(ops::expand_dims(x, 0)), {0});
}

Tensor resized(const Tensor& x, const Json& config) {
  for (const char* key : {"antialias", "crop_to_aspect_ratio", "pad_to_aspect_ratio"}) {
    if (get(config, key, false) == true)
      bad(fmt::format("Resize with {} is not supported; use the layer Resizing", key));
  }
  const ops::Ints size = int_list(get(config, "size"), "size");
  if (size.size() != 2) bad(fmt::format("size is {}, expected [height, width]", dump_json(get(config, "size"))));
  const Json interpolation = get(config, "interpolation", "bilinear");
  Tensor y;
  if (interpolation == "bilinear") {
    y = ops::resize_bilinear(x, size[0], size[1]);
  } else if (interpolation == "nearest") {
    y = ops::resize_nearest(x, size[0], size[1]);
  } else if (interpolation == "bicubic") {
    y = ops::call1("ResizeBicubic", {x, ops::constant_ints(size)}, {{"half_pixel_centers", true}});
  } else {
    bad(fmt::format("Resize with interpolation {} is not supported", dump_json(interpolation)));
  }
  return y.dtype() == x.dtype() ? y : ops::cast(y, x.dtype());
}

// Of two paddings (croppings) and the whole, one follows from the others.
std::pair<std::int64_t, std::int64_t> sides(const Json& config, const char* first, const char* second,
                                            const char* target, std::int64_t given, bool crop) {
  const Json a = get(config, first), b = get(config, second), whole = get(config, target);
  const auto rest = [&](const Json& known) {
    const std::int64_t difference = crop ? given - whole.get<std::int64_t>() : whole.get<std::int64_t>() - given;
    return difference - known.get<std::int64_t>();
  };
  const std::int64_t begin = a.is_null() ? rest(b) : a.get<std::int64_t>();
  const std::int64_t end = b.is_null() ? rest(a) : b.get<std::int64_t>();
  if (begin < 0 || end < 0) bad(fmt::format("{} and {} are {} and {}, expected at least 0", first, second, begin, end));
  return {begin, end};
}

}  // namespace

void add_images(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.image", std::move(run)}; };
  row("Resize", [](const CallArguments& call, const Json& config) {
    return on_images(call, config, [&](const Tensor& x) { return resized(x, config); });
  });
  row("RGBToGrayscale", [](const CallArguments& call, const Json& config) {
    return on_images(call, config, [](const Tensor& x) {
      const Tensor weights = Tensor::from_vector(std::vector<float>{0.2989F, 0.5870F, 0.1140F});
      const Tensor y =
          ops::reduce_sum(to_floating(x) * ops::cast(weights, to_floating(x).dtype()), ops::Ints{-1}, true);
      return ops::cast(y, x.dtype());
    });
  });
  row("RGBToHSV", [](const CallArguments& call, const Json& config) {
    return on_images(call, config, [](const Tensor& x) { return ops::call1("RGBToHSV", {x}); });
  });
  row("HSVToRGB", [](const CallArguments& call, const Json& config) {
    return on_images(call, config, [](const Tensor& x) { return ops::call1("HSVToRGB", {x}); });
  });
  row("PadImages", [](const CallArguments& call, const Json& config) {
    return on_images(call, config, [&](const Tensor& x) {
      const auto rows =
          sides(config, "top_padding", "bottom_padding", "target_height", extent(x, 1, "PadImages"), false);
      const auto columns =
          sides(config, "left_padding", "right_padding", "target_width", extent(x, 2, "PadImages"), false);
      return ops::pad(x, {{0, 0}, rows, columns, {0, 0}});
    });
  });
  row("CropImages", [](const CallArguments& call, const Json& config) {
    return on_images(call, config, [&](const Tensor& x) {
      const std::int64_t height = extent(x, 1, "CropImages"), width = extent(x, 2, "CropImages");
      const auto rows = sides(config, "top_cropping", "bottom_cropping", "target_height", height, true);
      const auto columns = sides(config, "left_cropping", "right_cropping", "target_width", width, true);
      return ops::slice_axis(ops::slice_axis(x, 1, rows.first, height - rows.second), 2, columns.first,
                             width - columns.second);
    });
  });
}

}  // namespace lockstep::keras::tensor_ops
