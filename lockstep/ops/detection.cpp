// Boxes in images: non-maximum suppression and cropping.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/image_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

// A box as y1, x1, y2, x2; corners may be swapped.
float overlap(const float* a, const float* b) {
  const auto low = [](const float* box, int axis) { return std::min(box[axis], box[axis + 2]); };
  const auto high = [](const float* box, int axis) { return std::max(box[axis], box[axis + 2]); };
  const auto area = [&](const float* box) { return (high(box, 0) - low(box, 0)) * (high(box, 1) - low(box, 1)); };
  const float area_a = area(a), area_b = area(b);
  if (area_a <= 0 || area_b <= 0) return 0;
  const auto common = [&](int axis) {
    return std::max(std::min(high(a, axis), high(b, axis)) - std::max(low(a, axis), low(b, axis)), 0.0f);
  };
  const float both = common(0) * common(1);
  return both / (area_a + area_b - both);
}

struct Suppression {
  std::int64_t most = 0;    // how many boxes are kept
  float overlap = 0.5f;     // above it a box falls to a better one
  float score = -INFINITY;  // candidates score above it
  float sigma = 0;          // above 0: scores fade instead (soft suppression)
};

struct Selection {
  std::vector<std::int32_t> indices;
  std::vector<float> scores;
};

// Boxes [n, 4], scores [n]: the kept ones, best first; of equal scores the first box is the better.
Selection suppress(const float* boxes, const float* scores, std::int64_t n, const Suppression& rule) {
  struct Candidate {
    float score;
    std::int32_t index;
    std::size_t seen;  // how many of the kept boxes its score has been faded by
    bool operator<(const Candidate& other) const {
      return score == other.score ? index > other.index : score < other.score;
    }
  };
  std::priority_queue<Candidate> queue;
  for (std::int64_t i = 0; i < n; ++i) {
    if (scores[i] > rule.score) queue.push({scores[i], static_cast<std::int32_t>(i), 0});
  }
  const float scale = rule.sigma > 0 ? -0.5f / rule.sigma : 0.0f;
  Selection kept;
  while (static_cast<std::int64_t>(kept.indices.size()) < rule.most && !queue.empty()) {
    Candidate next = queue.top();
    queue.pop();
    const float before = next.score;
    bool dropped = false;
    // From the last kept one, so that the scores of boxes that came back fade by new ones only.
    for (std::size_t at = kept.indices.size(); at > next.seen && !dropped; --at) {
      const float shared = overlap(boxes + next.index * 4, boxes + kept.indices[at - 1] * 4);
      if (rule.sigma > 0) next.score *= std::exp(scale * shared * shared);
      dropped = rule.sigma > 0 ? next.score <= rule.score : shared > rule.overlap;
    }
    next.seen = kept.indices.size();
    if (dropped) continue;
    if (next.score == before) {
      kept.indices.push_back(next.index);
      kept.scores.push_back(next.score);
    } else if (next.score > rule.score) {
      queue.push(next);
    }
  }
  return kept;
}

at::Tensor floats(const Call& call, int i) { return in(call, i).to(at::kFloat).contiguous(); }
float float_in(const Call& call, int i) { return in(call, i).to(at::kFloat).item<float>(); }

void check_boxes(const Call& call, float overlap) {
  const Shape &boxes = call.input(0).shape(), &scores = call.input(1).shape();
  if (boxes.rank() != 2 || boxes[1] != 4 || scores.rank() != 1 || scores[0] != boxes[0]) {
    throw_invalid_argument(
        fmt::format("boxes must be [n, 4] and scores [n], found {} and {}", boxes.to_string(), scores.to_string()));
  }
  if (!(overlap >= 0 && overlap <= 1))
    throw_invalid_argument(fmt::format("iou_threshold must be in [0, 1], it is {}", overlap));
}

Selection selected(const Call& call) {
  const int inputs = call.num_inputs();
  Suppression rule;
  rule.most = int_in(call, 2);
  if (rule.most < 0) throw_invalid_argument("max_output_size must not be negative");
  rule.overlap = inputs > 3 ? float_in(call, 3) : call.attr<float>("iou_threshold");
  if (inputs > 4) rule.score = float_in(call, 4);
  if (inputs > 5) rule.sigma = float_in(call, 5);
  check_boxes(call, rule.overlap);
  if (rule.sigma < 0) throw_invalid_argument("soft_nms_sigma must not be negative");
  const at::Tensor boxes = floats(call, 0), scores = floats(call, 1);
  return suppress(boxes.const_data_ptr<float>(), scores.const_data_ptr<float>(), boxes.size(0), rule);
}

Tensor indices_of(const Selection& kept) {
  return Tensor::from_vector(kept.indices, Shape{static_cast<std::int64_t>(kept.indices.size())});
}

Tensors suppression(const Call& call) { return {indices_of(selected(call))}; }

// V4 and V5 may pad their results to max_output_size, and return the number of boxes.
Tensors padded_suppression(const Call& call) {
  Selection kept = selected(call);
  const auto count = static_cast<std::int32_t>(kept.indices.size());
  if (call.attr<bool>("pad_to_max_output_size")) {
    const auto most = static_cast<std::size_t>(int_in(call, 2));
    kept.indices.resize(most, 0);
    kept.scores.resize(most, 0);
  }
  if (call.num_inputs() == 5) return {indices_of(kept), Tensor::scalar(count)};
  const Tensor scores = Tensor::from_vector(kept.scores, Shape{static_cast<std::int64_t>(kept.scores.size())});
  return {indices_of(kept), wrap(narrow_to(aten(scores), in(call, 1).scalar_type())), Tensor::scalar(count)};
}

Shapes suppression_shape(const Call& call) {
  const bool pads = call.attrs().find("pad_to_max_output_size") && call.attr<bool>("pad_to_max_output_size");
  const auto most = known_int(call, 2);
  const Shape list{pads && most ? *most : kUnknownDim};
  if (call.num_inputs() < 5 || call.signature().outputs.size() == 1) return {list};
  if (call.signature().outputs.size() == 2) return {list, Shape{}};
  return {list, list, Shape{}};
}

struct Detection {
  float score;
  float box[4];
  float type;
};

// One image: boxes [n, 1 or classes, 4], scores [n, classes].
std::vector<Detection> detect(const at::Tensor& boxes, const at::Tensor& scores, const Suppression& rule,
                              std::size_t most) {
  std::vector<Detection> all;
  for (std::int64_t type = 0; type < scores.size(1); ++type) {
    const at::Tensor of_type = boxes.select(1, boxes.size(1) == 1 ? 0 : type).contiguous();
    const at::Tensor its_scores = scores.select(1, type).contiguous();
    const float* data = of_type.const_data_ptr<float>();
    const Selection kept = suppress(data, its_scores.const_data_ptr<float>(), of_type.size(0), rule);
    for (std::size_t i = 0; i < kept.indices.size(); ++i) {
      Detection found{kept.scores[i], {}, static_cast<float>(type)};
      std::copy_n(data + kept.indices[i] * 4, 4, found.box);
      all.push_back(found);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Detection& a, const Detection& b) { return a.score > b.score; });
  if (all.size() > most) all.resize(most);
  return all;
}

Tensors combined_suppression(const Call& call) {
  const at::Tensor boxes = floats(call, 0), scores = floats(call, 1);
  if (boxes.dim() != 4 || scores.dim() != 3 || boxes.size(3) != 4 || boxes.size(0) != scores.size(0) ||
      boxes.size(1) != scores.size(1) || (boxes.size(2) != 1 && boxes.size(2) != scores.size(2))) {
    throw_invalid_argument(
        fmt::format("boxes must be [batch, n, 1 or classes, 4] and scores [batch, n, classes], found {} and {}",
                    call.input(0).shape().to_string(), call.input(1).shape().to_string()));
  }
  const Suppression rule{int_in(call, 2), float_in(call, 4), float_in(call, 5), 0};
  std::int64_t width = int_in(call, 3);
  if (rule.most < 1 || width < 1) throw_invalid_argument("the greatest numbers of boxes must be positive");
  if (call.attr<bool>("pad_per_class")) width = std::min(width, rule.most * scores.size(2));
  const std::int64_t batch = boxes.size(0);
  at::Tensor out_boxes = at::zeros({batch, width, 4}), out_scores = at::zeros({batch, width}),
             types = at::zeros({batch, width});
  at::Tensor counts = at::zeros({batch}, at::kInt);
  for (std::int64_t image = 0; image < batch; ++image) {
    const auto found = detect(boxes[image], scores[image], rule, static_cast<std::size_t>(width));
    counts[image] = static_cast<std::int64_t>(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto at = static_cast<std::size_t>(image * width) + i;
      out_scores.mutable_data_ptr<float>()[at] = found[i].score;
      types.mutable_data_ptr<float>()[at] = found[i].type;
      for (std::size_t c = 0; c < 4; ++c) {
        const float edge = found[i].box[c];
        out_boxes.mutable_data_ptr<float>()[at * 4 + c] =
            call.attr<bool>("clip_boxes") ? std::clamp(edge, 0.0f, 1.0f) : edge;
      }
    }
  }
  return {wrap(out_boxes), wrap(out_scores), wrap(types), wrap(counts)};
}

// Where the pixels of one axis of a crop come from: align-corners positions between two edges in [0, 1].
std::vector<float> crop_positions(float begin, float end, std::int64_t size, std::int64_t image) {
  const auto last = static_cast<float>(image - 1);
  std::vector<float> at;
  if (size == 1) return {0.5f * (begin + end) * last};
  const float step = (end - begin) * last / static_cast<float>(size - 1);
  for (std::int64_t i = 0; i < size; ++i) at.push_back(begin * last + static_cast<float>(i) * step);
  return at;
}

Tensors crop_and_resize(const Call& call) {
  const at::Tensor image = floats(call, 0), boxes = floats(call, 1);
  const Ints which = ints_in(call, 2), size = ints_in(call, 3);
  if (image.dim() != 4 || boxes.dim() != 2 || boxes.size(1) != 4 || size.size() != 2 ||
      static_cast<std::int64_t>(which.size()) != boxes.size(0)) {
    throw_invalid_argument("image must have rank 4, boxes be [n, 4], box_ind [n] and crop_size height and width");
  }
  if (size[0] <= 0 || size[1] <= 0) throw_invalid_argument("crop dimensions must be positive");
  const bool nearest = call.attr<std::string>("method") == "nearest";
  const auto outside = call.attr<float>("extrapolation_value");
  const std::int64_t height = image.size(1), width = image.size(2), depth = image.size(3);
  at::Tensor out = at::full({boxes.size(0), size[0], size[1], depth}, outside);
  float* to = out.mutable_data_ptr<float>();
  for (std::int64_t b = 0; b < boxes.size(0); ++b) {
    const std::int64_t from = which[static_cast<std::size_t>(b)];
    if (from < 0 || from >= image.size(0))
      throw_out_of_range(fmt::format("box_ind has value {}, the batch has {} images", from, image.size(0)));
    const float* pixels = image.const_data_ptr<float>() + from * height * width * depth;
    const float* box = boxes.const_data_ptr<float>() + b * 4;
    const auto ys = crop_positions(box[0], box[2], size[0], height),
               xs = crop_positions(box[1], box[3], size[1], width);
    for (const float y : ys) {
      for (const float x : xs) {
        float* const cell = std::exchange(to, to + depth);
        if (!(y >= 0 && y <= static_cast<float>(height - 1) && x >= 0 && x <= static_cast<float>(width - 1))) continue;
        const auto pixel = [&](float row, float column) {
          return pixels + (static_cast<std::int64_t>(row) * width + static_cast<std::int64_t>(column)) * depth;
        };
        if (nearest) {
          std::copy_n(pixel(std::round(y), std::round(x)), depth, cell);
          continue;
        }
        const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
        const float *a = pixel(top, left), *c = pixel(std::ceil(y), left);
        const float *d = pixel(top, std::ceil(x)), *e = pixel(std::ceil(y), std::ceil(x));
        for (std::int64_t i = 0; i < depth; ++i) {
          const float above = a[i] + (d[i] - a[i]) * right, below = c[i] + (e[i] - c[i]) * right;
          cell[i] = above + (below - above) * down;
        }
      }
    }
  }
  const Tensor tied = with_adjoint(
      call.input(0), wrap(out.to(at::kFloat)),
      [=, boxes = call.input(1), which = call.input(2), type = call.input(0).dtype(),
       method = call.attr<std::string>("method")](const Tensor& dy) {
        const Tensor shape = wrap(at::tensor(image.sizes(), at::kInt));
        return call1("CropAndResizeGradImage", {dy, boxes, which, shape}, {{"T", type}, {"method", method}});
      });
  if (!requires_grad(call.input(1))) return {tied};
  const Tensor of_boxes =
      with_adjoint(call.input(1), wrap(at::zeros_like(out)),
                   [given = call.input(0), boxes = call.input(1), which = call.input(2)](const Tensor& dy) {
                     return call1("CropAndResizeGradBoxes", {dy, given, boxes, which});
                   });
  return one(dense(tied) + dense(of_boxes));
}

Shapes crop_shape(const Call& call) {
  const Shape &image = call.input(0).shape(), &boxes = call.input(1).shape();
  const auto size = known_ints(call, 3);
  return {Shape{boxes.known_rank() && boxes.rank() == 2 ? boxes[0] : kUnknownDim,
                size && size->size() == 2 ? (*size)[0] : kUnknownDim,
                size && size->size() == 2 ? (*size)[1] : kUnknownDim,
                image.known_rank() && image.rank() == 4 ? image[3] : kUnknownDim}};
}

}  // namespace

void register_detection(Table& table) {
  for (auto name : {"NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3"})
    table.add(name, suppression_shape, suppression);
  for (auto name : {"NonMaxSuppressionV4", "NonMaxSuppressionV5"})
    table.add(name, suppression_shape, padded_suppression);
  table.add("CombinedNonMaxSuppression", nullptr, combined_suppression);
  table.add("CropAndResize", crop_shape, crop_and_resize);
}

}  // namespace lockstep::ops
