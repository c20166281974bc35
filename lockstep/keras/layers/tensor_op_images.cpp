// keras.ops.image
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/keras/layers/images_internal.h"
#include "lockstep/keras/layers/sampling_internal.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/ops/composed.h"

namespace lockstep::keras::tensor_ops {
namespace {

// Images with the channels last; a single one becomes a batch of one.
Structure on_images(const CallArguments& call, const Json& config, const std::function<Tensor(const Tensor&)>& run,
                    std::string_view keyword = "images") {
  return on_channels_last(tensor_operand(call, 0, keyword), config, 4, 4, true, run);
}

Tensor resized(const Tensor& given, const Json& config) {
  const ops::Ints size = int_list(get(config, "size"), "size");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1)
    bad(fmt::format("size is {}, expected [height, width]", dump_json(get(config, "size"))));
  const Size target = {size[0], size[1]};
  const bool cropped = get(config, "crop_to_aspect_ratio", false).get<bool>();
  const bool padded = get(config, "pad_to_aspect_ratio", false).get<bool>();
  if (cropped && padded) bad("only one of crop_to_aspect_ratio and pad_to_aspect_ratio can be set");
  const auto size_of = [&] { return Size{extent(given, 1, "Resize"), extent(given, 2, "Resize")}; };
  Tensor x = given;
  if (cropped) x = cut(x, aspect_crop(size_of(), target));
  if (padded) x = aspect_pad(x, size_of(), target, get(config, "fill_value", 0.0).get<double>());
  const std::string interpolation = get(config, "interpolation", "bilinear").get<std::string>();
  static const char* const kAll[] = {"bilinear", "nearest", "lanczos3", "lanczos5", "bicubic", "area"};
  if (std::find(std::begin(kAll), std::end(kAll), interpolation) == std::end(kAll))
    bad(fmt::format("unknown interpolation '{}'", interpolation));
  const Tensor y = resize_images(x, target, interpolation, get(config, "antialias", false).get<bool>());
  return in_dtype_of_images(y, given.dtype());
}

// Of two paddings (croppings) and the whole, one follows from the others.
std::pair<std::int64_t, std::int64_t> sides(const Json& config, const char* first, const char* second,
                                            const char* target, std::int64_t given, bool crop) {
  const Json a = get(config, first), b = get(config, second), whole = get(config, target);
  const int count = !a.is_null() + !b.is_null() + !whole.is_null();
  if (count != 2) bad(fmt::format("found {} of {}, {} and {}, expected two of them", count, first, second, target));
  const auto rest = [&](const Json& known) {
    const std::int64_t difference = crop ? given - whole.get<std::int64_t>() : whole.get<std::int64_t>() - given;
    return difference - known.get<std::int64_t>();
  };
  const std::int64_t begin = a.is_null() ? rest(b) : a.get<std::int64_t>();
  const std::int64_t end = b.is_null() ? rest(a) : b.get<std::int64_t>();
  if (begin < 0 || end < 0) bad(fmt::format("{} and {} are {} and {}, expected at least 0", first, second, begin, end));
  return {begin, end};
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// `transforms` are eight numbers for each image, or for all.
Tensor projected(const Tensor& x, const Tensor& transforms, const Json& config, const std::string& fill_mode) {
  const Tensor rows = transforms.rank() == 1 ? ops::expand_dims(transforms, 0) : transforms;
  return ops::call1("ImageProjectiveTransformV3",
                    {x, ops::cast(rows, DType::kFloat32), ops::slice_axis(ops::shape_of(x), 0, 1, 3),
                     Tensor::scalar(get(config, "fill_value", 0).get<double>(), DType::kFloat32)},
                    {{"interpolation", upper_case(get(config, "interpolation", "bilinear").get<std::string>())},
                     {"fill_mode", upper_case(fill_mode)}});
}

// The bell curve's values at the places of a window, which add up to 1.
std::vector<double> bell(std::int64_t size, double sigma) {
  std::vector<double> values;
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double x = (static_cast<double>(i) - static_cast<double>(size - 1) / 2) / sigma;
    values.push_back(std::exp(-0.5 * x * x));
    sum += values.back();
  }
  for (double& value : values) value /= sum;
  return values;
}

// A kernel (height, width, 1, 1). As in Keras, the products of the rows' and columns' curves are taken in the order of
// (width, height), which matters for windows that are not square.
Tensor bell_kernel(std::int64_t height, std::int64_t width, double sigma_y, double sigma_x, DType dtype) {
  if (height < 1 || width < 1 || height * width > 1 << 20) bad(fmt::format("a kernel of {} x {}", height, width));
  std::vector<double> values;
  for (const double b : bell(width, sigma_x)) {
    for (const double a : bell(height, sigma_y)) values.push_back(a * b);
  }
  return ops::cast(Tensor::from_vector(values, Shape{height, width, 1, 1}), dtype);
}

Tensor blurred(const Tensor& x, const Tensor& kernel) {
  const std::int64_t channels = extent(x, 3, "GaussianBlur");
  return ops::depthwise_conv2d(x, ops::tile(kernel, {1, 1, channels, 1}), {.padding = "SAME"});
}

Structure elastic(const CallArguments& call, const Json& config) {
  const double alpha = get(config, "alpha", 20.0).get<double>(), sigma = get(config, "sigma", 5.0).get<double>();
  const Json seed = get(config, "seed");
  if (!seed.is_null() && !seed.is_number_integer()) bad("ElasticTransform requires a seed that is an integer, or none");
  if (!(sigma > 0 && sigma < 1000)) bad(fmt::format("sigma is {}, expected a positive number", sigma));
  return on_images(call, config, [&](const Tensor& x) {
    const std::int64_t height = extent(x, 1, "ElasticTransform"), width = extent(x, 2, "ElasticTransform");
    const Tensor shape = ops::slice_axis(ops::shape_of(x), 0, 0, 3);
    const Tensor noise =
        seed.is_null()
            ? ops::call1("RandomStandardNormal", {shape}, {{"dtype", x.dtype()}})
            : ops::stateless_random_normal(
                  shape, Tensor::from_vector(std::vector<std::int64_t>{seed.get<std::int64_t>(), 0}), x.dtype());
    const std::int64_t window = 6 * static_cast<std::int64_t>(sigma) | 1;
    const Tensor kernel = bell_kernel(window, window, sigma, sigma, x.dtype());
    // Keras draws both directions from one seed, so they are equal.
    const Tensor moved = ops::squeeze(blurred(ops::expand_dims(noise * sigma, -1), kernel), {3}) * alpha;
    const Sampling how = {get(config, "interpolation", "bilinear") == "bilinear",
                          get(config, "fill_mode", "reflect").get<std::string>(),
                          get(config, "fill_value", 0.0).get<double>()};
    return sample_images(x, ops::reshape(ops::range(height, x.dtype()), {1, -1, 1}) + moved,
                         ops::reshape(ops::range(width, x.dtype()), {1, 1, -1}) + moved, how);
  });
}

// ---- scale_and_translate -----------------------------------------------------------------------------------------

// How much an entry counts for a place at a distance from it.
Tensor kernel_weight(const Tensor& x, const std::string& method) {
  const Tensor zero = ops::zeros_like(x), one = ops::ones_like(x);
  if (method == "linear" || method == "bilinear" || method == "trilinear" || method == "triangle")
    return ops::maximum(1.0 - ops::abs(x), 0.0);
  if (method == "cubic" || method == "bicubic" || method == "tricubic") {
    const Tensor near = ((x * 1.5 - 2.5) * x) * x + 1.0, far = ((x * -0.5 + 2.5) * x - 4.0) * x + 2.0;
    return ops::where(ops::greater_equal(x, 2.0), zero, ops::where(ops::greater_equal(x, 1.0), far, near));
  }
  if (method != "lanczos3" && method != "lanczos5") bad(fmt::format("unknown method '{}'", method));
  const double radius = method == "lanczos3" ? 3 : 5, pi = M_PI;
  const Tensor y = ops::sin(x * pi) * ops::sin(x * (pi / radius)) * radius;
  const Tensor square = ops::where(ops::not_equal(x, 0.0), ops::square(x) * (pi * pi), one);
  return ops::where(ops::greater(x, radius), zero, ops::where(ops::greater(x, 1e-3), y / square, one));
}

// (entries of the input, entries of the output) along one axis.
Tensor weight_matrix(std::int64_t given, std::int64_t wanted, const Tensor& scale, const Tensor& translation,
                     const std::string& method, bool antialias) {
  const Tensor inverse = 1.0 / scale;
  const Tensor place = (ops::cast(ops::range(wanted), scale.dtype()) + 0.5) * inverse - translation * inverse - 0.5;
  const Tensor distance =
      ops::abs(ops::expand_dims(place, 0) - ops::expand_dims(ops::cast(ops::range(given), scale.dtype()), 1));
  const Tensor weights = kernel_weight(antialias ? distance / ops::maximum(inverse, 1.0) : distance, method);
  const Tensor sum = ops::reduce_sum(weights, ops::Axes(0), true), zero = ops::zeros_like(weights);
  const Tensor divisor = ops::where(ops::not_equal(sum, 0.0), sum, ops::ones_like(sum));
  const Tensor normal = ops::where(ops::greater(ops::abs(sum), 1000.0 * 1.1920929e-7), weights / divisor, zero);
  const Tensor inside =
      ops::logical_and(ops::greater_equal(place, -0.5), ops::less_equal(place, static_cast<double>(given) - 0.5));
  return ops::where(ops::expand_dims(inside, 0), normal, zero);
}

Structure scale_and_translate(const CallArguments& call, const Json& config) {
  const Tensor x = tensor_operand(call, 0, "images");
  const Argument& wanted = argument(call, 1, "output_shape");
  Tensor scale = floating_operand(call, 2, "scale"), translation = floating_operand(call, 3, "translation");
  const ops::Ints axes = int_list(get(config, "spatial_dims"), "spatial_dims");
  ops::Ints shape;
  if (wanted.is_leaf()) {
    if (!wanted.leaf().is_tensor() || wanted.leaf().tensor.is_symbolic())
      bad("output_shape must be a list of integers");
    shape = ops::cast(wanted.leaf().tensor, DType::kInt64).to_vector<std::int64_t>();
  } else {
    for (const Argument& each : wanted.parts())
      shape.push_back(each.leaf().value.is_null() ? -1 : each.leaf().value.get<std::int64_t>());
  }
  if (static_cast<int>(shape.size()) != x.rank())
    bad(fmt::format("output_shape has {} numbers, the images have {} axes", shape.size(), x.rank()));
  Tensor y = to_floating(x);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = positive_axis(x, axes[i]);
    const std::int64_t target = shape[static_cast<std::size_t>(axis)];
    if (target < 1 || target > 1 << 20) bad(fmt::format("output_shape has {} along axis {}", target, axis));
    const Tensor at = Tensor::scalar(static_cast<std::int32_t>(i));
    const Tensor weights = weight_matrix(extent(x, axis, "ScaleAndTranslate"), target, ops::gather(scale, at),
                                         ops::gather(translation, at), get(config, "method").get<std::string>(),
                                         get(config, "antialias", true).get<bool>());
    ops::Ints last, back;
    for (int k = 0; k < x.rank(); ++k) {
      if (k != axis) last.push_back(k);
      back.push_back(k < axis ? k : k == axis ? x.rank() - 1 : k - 1);
    }
    last.push_back(axis);
    y = ops::transpose(ops::tensordot_last(ops::transpose(y, last), ops::cast(weights, y.dtype())), back);
  }
  if (is_floating(x.dtype())) return y;
  const Tensor low = ops::cast(ops::reduce_min(x), y.dtype()), high = ops::cast(ops::reduce_max(x), y.dtype());
  return ops::cast(ops::clip_by_value(ops::round(y), low, high), x.dtype());
}

// ---- patches, edges, similarity ----------------------------------------------------------------------------------
Structure patches(const CallArguments& call, const Json& config) {
  const ops::Ints given = int_list(get(config, "size"), "size");
  const Json strides = get(config, "strides");
  const int rank = given.size() == 3 ? 3 : 2;
  const ops::Ints size = per_axis(get(config, "size"), rank, "size");
  const ops::Ints steps = strides.is_null() ? size : per_axis(strides, rank, "strides");
  const ops::Ints rates = per_axis(get(config, "dilation_rate", 1), rank, "dilation_rate");
  const Tensor images = tensor_operand(call, 0, "images");
  return on_channels_last(images, config, rank + 2, rank + 2, true, [&](const Tensor& x) {
    if (rank == 2) {
      return ops::call1("ExtractImagePatches", {x},
                        {{"ksizes", ops::Ints{1, size[0], size[1], 1}},
                         {"strides", ops::Ints{1, steps[0], steps[1], 1}},
                         {"rates", ops::Ints{1, rates[0], rates[1], 1}},
                         {"padding", std::string(padding_of(config))}});
    }
    const std::int64_t channels = extent(x, 4, "ExtractPatches"), count = size[0] * size[1] * size[2] * channels;
    if (count < 1 || count > 1 << 12) bad(fmt::format("ExtractPatches of {} numbers each", count));
    const Tensor kernel =
        ops::reshape(ops::eye(count, std::nullopt, x.dtype()), {size[0], size[1], size[2], channels, count});
    return ops::conv3d(x, kernel,
                       {.strides = steps, .padding = padding_of(config), .dilations = rates, .data_format = "NDHWC"});
  });
}

Structure sobel_edges(const CallArguments& call, const Json& config) {
  const Tensor given = tensor_operand(call, 0, "images");
  const bool first = get(config, "data_format") == "channels_first";
  const Tensor x = first ? ops::transpose(given, {0, 2, 3, 1}) : given;
  if (x.rank() != 4) bad(fmt::format("SobelEdges: found shape {}, expected 4 axes", given.shape().to_string()));
  const std::int64_t channels = extent(x, 3, "SobelEdges");
  // (3, 3, 1, 2): down and to the right.
  const Tensor edges = Tensor::from_vector(
      std::vector<float>{-1, -1, -2, 0, -1, 1, 0, -2, 0, 0, 0, 2, 1, -1, 2, 0, 1, 1}, Shape{3, 3, 1, 2});
  const Tensor kernel = ops::cast(ops::tile(edges, {1, 1, channels, 1}), x.dtype());
  const Tensor y = ops::depthwise_conv2d(ops::mirror_pad(x, {{0, 0}, {1, 1}, {1, 1}, {0, 0}}, "REFLECT"), kernel);
  const Tensor apart = ops::reshape(y, ops::stack({ops::dim_of(x, 0), ops::dim_of(x, 1), ops::dim_of(x, 2),
                                                   ops::dim_of(x, 3), Tensor::scalar(std::int32_t{2})}));
  return first ? ops::transpose(apart, {0, 3, 1, 2, 4}) : apart;
}

// Structural similarity (Wang et al. 2004), one number for each pair of images.
Structure similarity(const CallArguments& call, const Json& config) {
  const auto [a, b] = operands(call, "image1", "image2");
  const auto number = [&](const char* key, double otherwise) { return get(config, key, otherwise).get<double>(); };
  const auto prepared = [&](const Tensor& given) {
    Tensor x = to_floating(given);
    if (x.rank() == 3) x = ops::expand_dims(x, 0);
    if (x.rank() != 4) bad(fmt::format("SSIM: found shape {}, expected 3 or 4 axes", given.shape().to_string()));
    return get(config, "data_format") == "channels_first" ? ops::transpose(x, {0, 2, 3, 1}) : x;
  };
  const Tensor x = prepared(a), y = prepared(b);
  const std::int64_t size = get(config, "filter_size", 11).get<std::int64_t>(), channels = extent(x, 3, "SSIM");
  const double sigma = number("filter_sigma", 1.5), most = number("max_val", 1.0);
  const Tensor kernel = ops::tile(bell_kernel(size, size, sigma, sigma, x.dtype()), {1, 1, channels, 1});
  const auto mean = [&](const Tensor& t) { return ops::depthwise_conv2d(t, kernel); };
  const Tensor mu_x = mean(x), mu_y = mean(y), xx = mu_x * mu_x, yy = mu_y * mu_y, xy = mu_x * mu_y;
  const Tensor var_x = mean(x * x) - xx, var_y = mean(y * y) - yy, covariance = mean(x * y) - xy;
  const double c1 = std::pow(number("k1", 0.01) * most, 2), c2 = std::pow(number("k2", 0.03) * most, 2);
  const Tensor map = ((xy * 2.0 + c1) * (covariance * 2.0 + c2)) / ((xx + yy + c1) * (var_x + var_y + c2));
  const Tensor each = ops::reduce_mean(map, ops::Axes{1, 2, 3});
  return ops::cast(a.rank() == 3 ? ops::squeeze(each, {0}) : each, a.dtype());
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
  row("AffineTransform", [](const CallArguments& call, const Json& config) {
    const Tensor transform = tensor_operand(call, 1, "transform");
    return on_images(call, config, [&](const Tensor& x) {
      return projected(x, transform, config, get(config, "fill_mode", "constant").get<std::string>());
    });
  });
  row("PerspectiveTransform", [](const CallArguments& call, const Json& config) {
    const auto points = [&](std::size_t index, const char* keyword) {
      const Tensor given = ops::cast(tensor_operand(call, index, keyword), DType::kFloat32);
      if (given.rank() < 2 || given.dim(-1) != 2 || given.dim(-2) != 4)
        bad(fmt::format("{}: found shape {}, expected (…, 4, 2)", keyword, given.shape().to_string()));
      return given.rank() == 2 ? ops::expand_dims(given, 0) : given;
    };
    const Tensor transform = homography(points(1, "start_points"), points(2, "end_points"));
    return on_images(call, config, [&](const Tensor& x) { return projected(x, transform, config, "constant"); });
  });
  row("MapCoordinates", [](const CallArguments& call, const Json& config) {
    const Json order = get(config, "order");
    if (order != 0 && order != 1) bad(fmt::format("order is {}, expected 0 or 1", dump_json(order)));
    const Sampling how = {order == 1, get(config, "fill_mode", "constant").get<std::string>(),
                          get(config, "fill_value", 0).get<double>()};
    return Structure(sample_array(tensor_operand(call, 0, "inputs"), tensor_operand(call, 1, "coordinates"), how));
  });
  row("GaussianBlur", [](const CallArguments& call, const Json& config) {
    const ops::Ints size = per_axis(get(config, "kernel_size", Json::array({3, 3})), 2, "kernel_size");
    const Json sigma = get(config, "sigma", Json::array({1.0, 1.0}));
    const auto of = [&](std::size_t i) { return (sigma.is_array() ? sigma.at(i) : sigma).get<double>(); };
    return on_images(call, config, [&](const Tensor& x) {
      return blurred(x, bell_kernel(size[0], size[1], of(0), of(1), x.dtype()));
    });
  });
  row("ElasticTransform", elastic);
  row("ScaleAndTranslate", scale_and_translate);
  row("ExtractPatches", patches);
  row("SobelEdges", sobel_edges);
  row("SSIM", similarity);
}

}  // namespace lockstep::keras::tensor_ops
