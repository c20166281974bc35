// Boxes and windows in images: gradients of crops, drawn boxes, glimpses, suppression by given overlaps.
// A position that is a whole number must stay one: products and sums round on their own.
#pragma GCC optimize("fp-contract=off")
#include <algorithm>
#include <cmath>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/shape_rules_internal.h"

namespace lockstep::ops {
namespace {

at::Tensor floats_in(const Call& call, int i) { return in(call, i).detach().to(at::kFloat).contiguous(); }

// ---- gradients of CropAndResize ----------------------------------------------------------------------------------
struct Crops {
  at::Tensor grads, boxes;
  Ints which;
  std::int64_t count = 0, height = 0, width = 0, depth = 0;
};

Crops crops_in(const Call& call, int boxes, std::int64_t images) {
  Crops crops;
  crops.grads = floats_in(call, 0), crops.boxes = floats_in(call, boxes), crops.which = ints_in(call, boxes + 1);
  if (crops.grads.dim() != 4 || crops.boxes.dim() != 2 || crops.boxes.size(1) != 4 ||
      crops.boxes.size(0) != crops.grads.size(0) ||
      static_cast<std::int64_t>(crops.which.size()) != crops.grads.size(0)) {
    throw_invalid_argument("grads must have rank 4 and a row for each of the boxes [n, 4] and of box_ind [n]");
  }
  crops.count = crops.grads.size(0), crops.height = crops.grads.size(1), crops.width = crops.grads.size(2);
  crops.depth = crops.grads.size(3);
  if (crops.height <= 0 || crops.width <= 0) throw_invalid_argument("grads dimensions must be positive");
  for (const std::int64_t image : crops.which) {
    if (image < 0 || image >= images)
      throw_out_of_range(fmt::format("box_ind has value {}, the batch has {} images", image, images));
  }
  return crops;
}

// The position in the image of cell `i` along an axis of a crop.
float crop_position(float begin, float end, std::int64_t i, std::int64_t size, std::int64_t image) {
  const auto last = static_cast<float>(image - 1);
  const float scale = size > 1 ? (end - begin) * last / static_cast<float>(size - 1) : 0;
  return size > 1 ? begin * last + static_cast<float>(i) * scale : 0.5f * (begin + end) * last;
}

// Calls visit(grad of the cell's channels, image number, y, x, row number in the crop, column) where the cell lies
// inside of the image.
template <typename Visit>
void for_each_cell(const Crops& crops, std::int64_t image_height, std::int64_t image_width, const Visit& visit) {
  const float* grad = crops.grads.const_data_ptr<float>();
  for (std::int64_t b = 0; b < crops.count; ++b) {
    const float* box = crops.boxes.const_data_ptr<float>() + b * 4;
    for (std::int64_t i = 0; i < crops.height; ++i) {
      const float y = crop_position(box[0], box[2], i, crops.height, image_height);
      for (std::int64_t j = 0; j < crops.width; ++j, grad += crops.depth) {
        const float x = crop_position(box[1], box[3], j, crops.width, image_width);
        if (!(y >= 0 && y <= static_cast<float>(image_height - 1) && x >= 0 &&
              x <= static_cast<float>(image_width - 1)))
          continue;
        visit(grad, b, y, x, i, j);
      }
    }
  }
}

Tensors crop_gradient_of_image(const Call& call) {
  const Ints size = ints_in(call, 3);
  if (size.size() != 4) throw_invalid_argument("image_size must have 4 numbers");
  element_count(size, sizeof(float));
  if (size[1] <= 0 || size[2] <= 0) throw_invalid_argument("image dimensions must be positive");
  const Crops crops = crops_in(call, 1, size[0]);
  if (crops.depth != size[3]) throw_invalid_argument("image_size and grads differ in depth");
  const bool nearest = call.attr<std::string>("method") == "nearest";
  at::Tensor out = at::zeros(size, at::kFloat);
  float* pixels = out.mutable_data_ptr<float>();
  for_each_cell(crops, size[1], size[2],
                [&](const float* grad, std::int64_t b, float y, float x, std::int64_t, std::int64_t) {
                  const std::int64_t image = crops.which[static_cast<std::size_t>(b)];
                  const auto add = [&](float row, float column, float weight) {
                    float* to = pixels + ((image * size[1] + static_cast<std::int64_t>(row)) * size[2] +
                                          static_cast<std::int64_t>(column)) *
                                             size[3];
                    for (std::int64_t k = 0; k < crops.depth; ++k) to[k] += grad[k] * weight;
                  };
                  if (nearest) return add(std::round(y), std::round(x), 1);
                  const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
                  add(top, left, (1 - down) * (1 - right));
                  add(top, std::ceil(x), (1 - down) * right);
                  add(std::ceil(y), left, down * (1 - right));
                  add(std::ceil(y), std::ceil(x), down * right);
                });
  return one(out.to(to_scalar_type(call.attr<DType>("T"))));
}

Tensors crop_gradient_of_boxes(const Call& call) {
  const at::Tensor image = floats_in(call, 1);
  if (image.dim() != 4 || image.size(1) <= 0 || image.size(2) <= 0)
    throw_invalid_argument("image must have rank 4 and positive dimensions");
  const Crops crops = crops_in(call, 2, image.size(0));
  if (crops.depth != image.size(3)) throw_invalid_argument("image and grads differ in depth");
  const std::int64_t height = image.size(1), width = image.size(2);
  at::Tensor out = at::zeros({crops.count, 4}, at::kFloat);
  const auto last_row = static_cast<float>(height - 1), last_column = static_cast<float>(width - 1);
  const float height_ratio = crops.height > 1 ? last_row / static_cast<float>(crops.height - 1) : 0;
  const float width_ratio = crops.width > 1 ? last_column / static_cast<float>(crops.width - 1) : 0;
  for_each_cell(
      crops, height, width, [&](const float* grad, std::int64_t b, float y, float x, std::int64_t i, std::int64_t j) {
        const float* pixels =
            image.const_data_ptr<float>() + crops.which[static_cast<std::size_t>(b)] * height * width * crops.depth;
        float* to = out.mutable_data_ptr<float>() + b * 4;
        const auto at = [&](float row, float column) {
          return pixels + (static_cast<std::int64_t>(row) * width + static_cast<std::int64_t>(column)) * crops.depth;
        };
        const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
        const float *a = at(top, left), *c = at(std::ceil(y), left), *d = at(top, std::ceil(x)),
                    *e = at(std::ceil(y), std::ceil(x));
        for (std::int64_t k = 0; k < crops.depth; ++k) {
          const float by_y = grad[k] * ((1 - right) * (c[k] - a[k]) + right * (e[k] - d[k]));
          const float by_x = grad[k] * ((1 - down) * (d[k] - a[k]) + down * (e[k] - c[k]));
          if (crops.height > 1) {
            to[0] += by_y * (last_row - static_cast<float>(i) * height_ratio);
            to[2] += by_y * (static_cast<float>(i) * height_ratio);
          } else {
            to[0] += by_y * 0.5f * last_row;
            to[2] += by_y * 0.5f * last_row;
          }
          if (crops.width > 1) {
            to[1] += by_x * (last_column - static_cast<float>(j) * width_ratio);
            to[3] += by_x * (static_cast<float>(j) * width_ratio);
          } else {
            to[1] += by_x * 0.5f * last_column;
            to[3] += by_x * 0.5f * last_column;
          }
        }
      });
  return one(out);
}

// ---- DrawBoundingBoxes -------------------------------------------------------------------------------------------
constexpr float kColors[10][4] = {{1, 1, 0, 1},     {0, 0, 1, 1},   {1, 0, 0, 1},   {0, 1, 0, 1}, {.5f, 0, .5f, 1},
                                  {.5f, .5f, 0, 1}, {.5f, 0, 0, 1}, {0, 0, .5f, 1}, {0, 1, 1, 1}, {1, 0, 1, 1}};

Tensors draw_boxes(const Call& call) {
  const at::Tensor boxes = floats_in(call, 1);
  at::Tensor out = in(call, 0).detach().to(at::kFloat).contiguous().clone();
  if (out.dim() != 4 || boxes.dim() != 3 || boxes.size(2) != 4 || boxes.size(0) != out.size(0))
    throw_invalid_argument("images must have rank 4 and boxes be [images, n, 4]");
  const std::int64_t height = out.size(1), width = out.size(2), depth = out.size(3);
  if (depth != 1 && depth != 3 && depth != 4) throw_invalid_argument("images must have 1, 3 or 4 channels");
  std::vector<std::vector<float>> colors;
  if (call.num_inputs() > 2) {
    const at::Tensor given = floats_in(call, 2);
    if (given.numel() > 0 && (given.dim() != 2 || given.size(1) < depth))
      throw_invalid_argument("colors must be [n, channels]");
    for (std::int64_t i = 0; given.dim() == 2 && i < given.size(0); ++i) {
      const float* row = given.const_data_ptr<float>() + i * given.size(1);
      colors.emplace_back(row, row + given.size(1));
    }
  }
  if (colors.empty()) {
    for (const auto& color : kColors) colors.emplace_back(color, color + 4);
    if (depth == 1) {
      for (auto& color : colors) color[0] = 1;
    }
  }
  float* pixels = out.mutable_data_ptr<float>();
  for (std::int64_t b = 0; b < out.size(0); ++b) {
    for (std::int64_t k = 0; k < boxes.size(1); ++k) {
      const float* box = boxes.const_data_ptr<float>() + (b * boxes.size(1) + k) * 4;
      const auto edge = [](float at, std::int64_t size) {
        const float scaled = at * static_cast<float>(size - 1);
        if (!(std::abs(scaled) < 1e9f)) throw_invalid_argument("a box is not given by numbers");
        return static_cast<std::int64_t>(scaled);
      };
      const std::int64_t top = edge(box[0], height), left = edge(box[1], width), bottom = edge(box[2], height),
                         right = edge(box[3], width);
      if (top > bottom || left > right || top >= height || bottom < 0 || left >= width || right < 0) continue;
      const std::vector<float>& color = colors[static_cast<std::size_t>(k) % colors.size()];
      const auto paint = [&](std::int64_t y, std::int64_t x) {
        std::copy_n(color.data(), depth, pixels + ((b * height + y) * width + x) * depth);
      };
      const std::int64_t first_row = std::max<std::int64_t>(top, 0), last_row = std::min(bottom, height - 1);
      const std::int64_t first_column = std::max<std::int64_t>(left, 0), last_column = std::min(right, width - 1);
      for (std::int64_t x = first_column; x <= last_column; ++x) {
        if (top >= 0) paint(top, x);
        if (bottom < height) paint(bottom, x);
      }
      for (std::int64_t y = first_row; y <= last_row; ++y) {
        if (left >= 0) paint(y, left);
        if (right < width) paint(y, right);
      }
    }
  }
  return one(out.to(in(call, 0).scalar_type()));
}

// ---- NonMaxSuppressionWithOverlaps -------------------------------------------------------------------------------
Tensors suppress_by_overlaps(const Call& call) {
  const at::Tensor overlaps = floats_in(call, 0), scores = floats_in(call, 1);
  const std::int64_t count = scores.numel(), most = int_in(call, 2);
  const auto threshold = in(call, 3).item<float>(), lowest = in(call, 4).item<float>();
  if (overlaps.dim() != 2 || overlaps.size(0) != count || overlaps.size(1) != count)
    throw_invalid_argument("overlaps must be square, with a row for each of the scores");
  const float* score = scores.const_data_ptr<float>();
  std::vector<std::int64_t> order, kept;
  for (std::int64_t i = 0; i < count; ++i) {
    if (score[i] > lowest) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return score[a] > score[b]; });
  for (const std::int64_t i : order) {
    if (static_cast<std::int64_t>(kept.size()) >= most) break;
    const float* row = overlaps.const_data_ptr<float>() + i * count;
    if (std::none_of(kept.begin(), kept.end(), [&](std::int64_t j) { return row[j] > threshold; })) kept.push_back(i);
  }
  return one(at::tensor(at::IntArrayRef(kept), at::kLong).to(at::kInt));
}

// ---- ExtractGlimpse ----------------------------------------------------------------------------------------------
Tensors extract_glimpse(const Call& call) {
  const at::Tensor x = floats_in(call, 0), offsets = floats_in(call, 2);
  const Ints size = ints_in(call, 1);
  if (x.dim() != 4 || size.size() != 2 || offsets.dim() != 2 || offsets.size(0) != x.size(0) || offsets.size(1) != 2)
    throw_invalid_argument("input must have rank 4, size be height and width, and offsets [images, 2]");
  const bool centered = call.attr<bool>("centered"), normalized = call.attr<bool>("normalized");
  const auto& noise = call.attr<std::string>("noise");
  if (noise == "gaussian" || (noise == "uniform" && call.attr<bool>("uniform_noise")))
    throw_unimplemented(
        "ExtractGlimpse fills with random numbers without a seed, which nobody can reproduce; export "
        "the model with noise='zero'");
  const std::int64_t height = x.size(1), width = x.size(2), depth = x.size(3);
  const Ints shape = {x.size(0), size[0], size[1], depth};
  element_count(shape, sizeof(float));
  at::Tensor out = at::zeros(shape, at::kFloat);
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    const auto begin = [&](int axis, std::int64_t image, std::int64_t glimpse) {
      float at = offsets.const_data_ptr<float>()[b * 2 + axis];
      if (normalized) at *= static_cast<float>(image);
      if (centered) {
        if (normalized || call.name() == "ExtractGlimpse") at /= 2;
        at += static_cast<float>(image) / 2;
      }
      if (call.name() == "ExtractGlimpse" || (centered && normalized)) at -= static_cast<float>(glimpse) / 2;
      if (!(std::abs(at) < 1e9f)) throw_invalid_argument("the offsets are not numbers");
      return static_cast<std::int64_t>(at);
    };
    const std::int64_t y = begin(0, height, size[0]), left = begin(1, width, size[1]);
    for (std::int64_t i = std::max<std::int64_t>(0, -y); i < size[0] && y + i < height; ++i) {
      for (std::int64_t j = std::max<std::int64_t>(0, -left); j < size[1] && left + j < width; ++j) {
        std::copy_n(x.const_data_ptr<float>() + ((b * height + y + i) * width + left + j) * depth, depth,
                    out.mutable_data_ptr<float>() + ((b * size[0] + i) * size[1] + j) * depth);
      }
    }
  }
  return one(out);
}

}  // namespace

void register_image_boxes(Table& table) {
  table.add("CropAndResizeGradImage", shape_of_input(3), crop_gradient_of_image);
  table.add(
      "CropAndResizeGradBoxes", [](const Call& call) { return Shapes{call.input(2).shape()}; }, crop_gradient_of_boxes);
  table.add("DrawBoundingBoxes", same_shape, draw_boxes);
  table.add("DrawBoundingBoxesV2", same_shape, draw_boxes);
  table.add("NonMaxSuppressionWithOverlaps", nullptr, suppress_by_overlaps);
  table.add("ExtractGlimpse", nullptr, extract_glimpse);
  table.add("ExtractGlimpseV2", nullptr, extract_glimpse);
}

}  // namespace lockstep::ops
