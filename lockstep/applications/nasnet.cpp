// NASNet-A (Zoph et al. 2018).
#include "lockstep/applications/building_internal.h"

namespace lockstep::applications {
namespace {

Tensor cell_norm(const Tensor& x, const std::string& name) { return batch_norm(x, name, {.momentum = 0.9997}); }

Tensor point_conv(const Tensor& x, std::int64_t filters, const std::string& name) {
  return conv(x, filters, 1, {.padding = "same", .use_bias = false, .kernel_initializer = "he_normal", .name = name});
}

Tensor separable(Tensor x, std::int64_t filters, int kernel, int stride, const std::string& id) {
  const auto layer = [&](const Tensor& y, int step, const char* padding, const std::string& name) {
    return layers::SeparableConv2D(filters, kernel,
                                   {.strides = step, .padding = padding, .use_bias = false, .name = name})(y);
  };
  x = act(x, "relu");
  if (stride == 2) x = pad(x, correct_pad(x, kernel), "separable_conv_1_pad_" + id);
  x = layer(x, stride, stride == 2 ? "valid" : "same", "separable_conv_1_" + id);
  x = act(cell_norm(x, "separable_conv_1_bn_" + id), "relu");
  return cell_norm(layer(x, 1, "same", "separable_conv_2_" + id), "separable_conv_2_bn_" + id);
}

Tensor average(const Tensor& x, int stride, const std::string& name) {
  return layers::AveragePooling2D(
      {.pool_size = 3, .strides = stride, .padding = stride == 1 ? "same" : "valid", .name = name})(x);
}

// The previous cell's input in the size and with the filters of this one's.
Tensor adjusted(Tensor p, const Tensor& x, std::int64_t filters, const std::string& id) {
  if (!p.defined()) return x;
  if (p.dim(2) != x.dim(2)) {
    const auto sampled = [&](const Tensor& y, int number) {
      const Tensor z = layers::AveragePooling2D(
          {.pool_size = 1, .strides = 2, .padding = "valid", .name = fmt::format("adjust_avg_pool_{}_{}", number, id)})(
          y);
      return point_conv(z, filters / 2, fmt::format("adjust_conv_{}_{}", number, id));
    };
    p = act(p, "relu", "adjust_relu_1_" + id);
    const Tensor first = sampled(p, 1);
    const Tensor shifted = layers::Cropping2D({{1, 0}, {1, 0}})(pad(p, {{0, 1}, {0, 1}}));
    return cell_norm(layers::concatenate({first, sampled(shifted, 2)}, {.axis = -1}), "adjust_bn_" + id);
  }
  if (p.dim(3) == filters) return p;
  return cell_norm(point_conv(act(p, "relu"), filters, "adjust_conv_projection_" + id), "adjust_bn_" + id);
}

Tensor add(const Tensor& a, const Tensor& b, const std::string& name) { return layers::add({a, b}, {.name = name}); }

// Both kinds of cells give their output; the next cell's previous input is this one's input.
Tensor normal_cell(const Tensor& x, Tensor p, std::int64_t filters, const std::string& id) {
  p = adjusted(p, x, filters, id);
  const Tensor h = cell_norm(point_conv(act(x, "relu"), filters, "normal_conv_1_" + id), "normal_bn_1_" + id);
  const Tensor a = separable(h, filters, 5, 1, "normal_left1_" + id);
  const Tensor x1 = add(a, separable(p, filters, 3, 1, "normal_right1_" + id), "normal_add_1_" + id);
  const Tensor b = separable(p, filters, 5, 1, "normal_left2_" + id);
  const Tensor x2 = add(b, separable(p, filters, 3, 1, "normal_right2_" + id), "normal_add_2_" + id);
  const Tensor x3 = add(average(h, 1, "normal_left3_" + id), p, "normal_add_3_" + id);
  const Tensor c = average(p, 1, "normal_left4_" + id);
  const Tensor x4 = add(c, average(p, 1, "normal_right4_" + id), "normal_add_4_" + id);
  const Tensor x5 = add(separable(h, filters, 3, 1, "normal_left5_" + id), h, "normal_add_5_" + id);
  return layers::concatenate({p, x1, x2, x3, x4, x5}, {.axis = -1, .name = "normal_concat_" + id});
}

Tensor reduction_cell(const Tensor& x, Tensor p, std::int64_t filters, const std::string& id) {
  const auto largest = [](const Tensor& y, const std::string& name) {
    return layers::MaxPooling2D({.pool_size = 3, .strides = 2, .padding = "valid", .name = name})(y);
  };
  p = adjusted(p, x, filters, id);
  const Tensor h = cell_norm(point_conv(act(x, "relu"), filters, "reduction_conv_1_" + id), "reduction_bn_1_" + id);
  const Tensor padded = pad(h, correct_pad(h, 3), "reduction_pad_1_" + id);
  const Tensor a = separable(h, filters, 5, 2, "reduction_left1_" + id);
  const Tensor x1 = add(a, separable(p, filters, 7, 2, "reduction_right1_" + id), "reduction_add_1_" + id);
  const Tensor b = largest(padded, "reduction_left2_" + id);
  const Tensor x2 = add(b, separable(p, filters, 7, 2, "reduction_right2_" + id), "reduction_add_2_" + id);
  const Tensor c = average(padded, 2, "reduction_left3_" + id);
  const Tensor x3 = add(c, separable(p, filters, 5, 2, "reduction_right3_" + id), "reduction_add3_" + id);
  const Tensor x4 = add(x2, average(x1, 1, "reduction_left4_" + id), "");
  const Tensor d = separable(x1, filters, 3, 1, "reduction_left4_" + id);
  const Tensor x5 = add(d, largest(padded, "reduction_right5_" + id), "reduction_add4_" + id);
  return layers::concatenate({x2, x3, x4, x5}, {.axis = -1, .name = "reduction_concat_" + id});
}

struct Size {
  std::int64_t penultimate_filters;
  int blocks;
  std::int64_t stem_filters;
  bool skips_reduction;
  std::int64_t image;
};

keras::Model nasnet(const std::string& architecture, const std::string& name, const Size& size,
                    const ApplicationOptions& o) {
  const Tensor input = start(architecture, o, size.image, 32);
  const std::int64_t filters = size.penultimate_filters / 24;
  Tensor x = conv(input, size.stem_filters, 3,
                  {.strides = 2, .use_bias = false, .kernel_initializer = "he_normal", .name = "stem_conv1"});
  x = cell_norm(x, "stem_bn1");
  Tensor p;  // the input of the cell before
  const auto advance = [&](Tensor next) { p = std::exchange(x, std::move(next)); };
  advance(reduction_cell(x, p, filters / 4, "stem_1"));
  advance(reduction_cell(x, p, filters / 2, "stem_2"));
  for (int stage = 0; stage < 3; ++stage) {
    const std::int64_t width = filters << stage;
    if (stage > 0) {
      const Tensor before = p;
      advance(reduction_cell(x, p, width, fmt::format("reduce_{}", stage * size.blocks)));
      if (size.skips_reduction) p = before;
    }
    for (int i = 0; i < size.blocks; ++i)
      advance(normal_cell(x, p, width, std::to_string(stage * size.blocks + i + (stage > 0 ? 1 : 0))));
  }
  return finish(input, classify(act(x, "relu"), o, {}), o, name);
}

}  // namespace

keras::Model NASNetMobile(ApplicationOptions options) {
  if (!options.include_top && options.input_shape.empty()) options.input_shape = {224, 224, 3};
  return nasnet("NASNetMobile", "nasnet_mobile", {1056, 4, 32, false, 224}, options);
}
keras::Model NASNetLarge(ApplicationOptions options) {
  return nasnet("NASNetLarge", "nasnet_large", {4032, 6, 96, true, 331}, options);
}

}  // namespace lockstep::applications
