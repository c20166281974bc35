// Classes drawn at random for sampled losses, with the same numbers as TensorFlow, and crops drawn for training.
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/random_draws_internal.h"
#include "lockstep/ops/random_scope_internal.h"

namespace lockstep::ops {
namespace {

// A distribution over the classes 0 … range - 1.
struct ClassDistribution {
  std::function<std::int64_t(PhiloxStream&)> draw;
  std::function<float(std::int64_t)> probability;
};

ClassDistribution uniform_classes(std::int64_t range) {
  return {[range](PhiloxStream& words) {
            return static_cast<std::int64_t>(words.next_below64(static_cast<std::uint64_t>(range)));
          },
          [range](std::int64_t) { return 1.0f / static_cast<float>(range); }};
}

ClassDistribution log_uniform_classes(std::int64_t range) {
  const double log_range = std::log1p(static_cast<double>(range));
  return {[=](PhiloxStream& words) {
            const auto value = static_cast<std::int64_t>(std::exp(words.next_double() * log_range)) - 1;
            return value % range;
          },
          [=](std::int64_t value) {
            const auto v = static_cast<double>(value);
            return static_cast<float>(std::log((v + 2.0) / (v + 1.0)) / log_range);
          }};
}

// Walker's alias method, with the pairs in TensorFlow's order.
ClassDistribution weighted_classes(const std::vector<float>& weights) {
  struct Alias {
    float probability = 1;
    std::size_t other = 0;
  };
  const std::size_t n = weights.size();
  double sum = 0;
  for (const float weight : weights) sum += static_cast<double>(weight);
  std::vector<double> share(n);
  std::vector<std::size_t> high, low;
  for (std::size_t i = 0; i < n; ++i) {
    share[i] = static_cast<double>(weights[i]) * static_cast<double>(n) / sum;
    (share[i] < 1 ? low : high).push_back(i);
  }
  std::vector<Alias> aliases(n);
  while (!high.empty() && !low.empty()) {
    const std::size_t l = low.back(), h = high.back();
    low.pop_back(), high.pop_back();
    aliases[l].other = h;
    share[h] -= 1 - share[l];
    (share[h] < 1 ? low : high).push_back(h);
  }
  for (std::size_t i = 0; i < n; ++i) aliases[i].probability = static_cast<float>(share[i]);
  for (const auto* rest : {&high, &low}) {
    for (const std::size_t i : *rest) aliases[i] = {1, i};
  }
  return {[aliases = std::move(aliases)](PhiloxStream& words) {
            const float r = words.next_float();
            const auto i = words.next_below(static_cast<std::uint32_t>(aliases.size()));
            return static_cast<std::int64_t>(r < aliases[i].probability ? i : aliases[i].other);
          },
          [weights, total = static_cast<float>(sum)](std::int64_t value) {
            return weights[static_cast<std::size_t>(value)] / total;
          }};
}

ClassDistribution unigrams_of(const Call& call, std::int64_t range) {
  if (!call.attr<std::string>("vocab_file").empty())
    throw_unimplemented("weights of classes from a file; give them as unigrams");
  std::vector<float> weights(static_cast<std::size_t>(call.attr<std::int64_t>("num_reserved_ids")), 0.0f);
  const float distortion = call.attr<float>("distortion");
  const std::int64_t shards = call.attr<std::int64_t>("num_shards"), shard = call.attr<std::int64_t>("shard");
  if (shard >= shards) throw_invalid_argument("shard must be less than num_shards");
  std::int64_t number = static_cast<std::int64_t>(weights.size());
  for (const float weight : call.attr<std::vector<float>>("unigrams")) {
    if (number++ % shards == shard) weights.push_back(std::pow(weight, distortion));
  }
  if (static_cast<std::int64_t>(weights.size()) != range)  // also with one of several shards, as in TensorFlow
    throw_invalid_argument(fmt::format("range_max is {}, but there are weights of {} classes", range, weights.size()));
  float sum = 0;
  for (const float weight : weights) sum += weight;
  if (!(sum > 0)) throw_invalid_argument("the weights of the classes must have a positive sum");
  return weighted_classes(weights);
}

// Weights of classes that grow by one each time that a class is a true one. They belong to the node, or to its seeds.
// A tree of sums, so that drawing and adding take log(n) steps.
class LearnedWeights {
 public:
  explicit LearnedWeights(std::int64_t range) : range_(range), sums_(static_cast<std::size_t>(range) + 1, 0) {
    for (std::int64_t i = 1; i <= range; ++i) {
      sums_[at(i)] += 1;
      if (const std::int64_t parent = i + (i & -i); parent <= range) sums_[at(parent)] += sums_[at(i)];
    }
    total_ = range;
  }
  std::int64_t total() const { return total_; }
  void add(std::int64_t value) {
    for (std::int64_t i = value + 1; i <= range_; i += i & -i) ++sums_[at(i)];
    ++total_;
  }
  std::int64_t weight(std::int64_t value) const { return sum_below(value + 1) - sum_below(value); }
  // The class whose weights are at `position` when all are laid end to end.
  std::int64_t class_at(std::int64_t position) const {
    std::int64_t found = 0;
    for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(range_))); step > 0;
         step /= 2) {
      if (found + step > range_ || sums_[at(found + step)] > position) continue;
      found += step;
      position -= sums_[at(found)];
    }
    return found;
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::int64_t sum_below(std::int64_t i) const {
    std::int64_t sum = 0;
    for (; i > 0; i -= i & -i) sum += sums_[at(i)];
    return sum;
  }

  std::int64_t range_, total_ = 0;
  std::vector<std::int64_t> sums_;
};

struct LearnedClasses {
  std::mutex mutex;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t>, LearnedWeights> of;
};
LearnedClasses& learned_classes() {
  static LearnedClasses* const instance = new LearnedClasses();
  return *instance;
}

float expected_count(float probability, std::int64_t samples, std::int64_t tries) {
  if (tries == samples) return probability * static_cast<float>(samples);
  return static_cast<float>(-std::expm1(static_cast<double>(tries) * std::log1p(-static_cast<double>(probability))));
}

Tensors sample_from(const Call& call, const ClassDistribution& classes) {
  const std::int64_t range = call.attr<std::int64_t>("range_max"), samples = call.attr<std::int64_t>("num_sampled");
  const bool unique = call.attr<bool>("unique");
  const at::Tensor truth = in(call, 0).contiguous();
  if (truth.size(1) != call.attr<std::int64_t>("num_true"))
    throw_invalid_argument(fmt::format("true_classes has {} columns, expected num_true = {}", truth.size(1),
                                       call.attr<std::int64_t>("num_true")));
  if (unique && samples > range)
    throw_invalid_argument(fmt::format("{} different classes cannot be drawn from {}", samples, range));
  element_count({samples});
  // 2,048 words are reserved for each number.
  PhiloxStream words(advance_stateful(call, static_cast<std::uint64_t>(samples) * 2048 / 4));
  Ints drawn;
  std::unordered_set<std::int64_t> seen;
  std::int64_t tries = 0;
  while (static_cast<std::int64_t>(drawn.size()) < samples) {
    constexpr std::int64_t kMostTries = std::int64_t{1} << 31;
    if (++tries > kMostTries) throw_invalid_argument("the classes that have a weight are too few");
    const std::int64_t value = classes.draw(words);
    if (!unique || seen.insert(value).second) drawn.push_back(value);
  }
  const auto count_of = [&](std::int64_t value) {
    if (value < 0 || value >= range) throw_invalid_argument(fmt::format("class {} is not in [0, {})", value, range));
    return expected_count(classes.probability(value), samples, tries);
  };
  at::Tensor of_truth = at::empty(truth.sizes(), at::kFloat), of_drawn = at::empty({samples}, at::kFloat);
  for (std::int64_t i = 0; i < truth.numel(); ++i)
    of_truth.mutable_data_ptr<float>()[i] = count_of(truth.const_data_ptr<std::int64_t>()[i]);
  for (std::int64_t i = 0; i < samples; ++i)
    of_drawn.mutable_data_ptr<float>()[i] = count_of(drawn[static_cast<std::size_t>(i)]);
  return {wrap(at::tensor(at::IntArrayRef(drawn), at::kLong)), wrap(of_truth), wrap(of_drawn)};
}

Tensors sample_classes(const Call& call) {
  const std::int64_t range = call.attr<std::int64_t>("range_max");
  return sample_from(call, call.name().starts_with("Log")       ? log_uniform_classes(range)
                           : call.name().starts_with("Uniform") ? uniform_classes(range)
                                                                : unigrams_of(call, range));
}

Tensors sample_learned_classes(const Call& call) {
  const std::int64_t range = call.attr<std::int64_t>("range_max");
  element_count({range}, sizeof(std::int64_t));
  LearnedClasses& all = learned_classes();
  const std::lock_guard lock(all.mutex);
  LearnedWeights& weights = all.of
                                .try_emplace({call.name() + RandomScope::path(), call.attr<std::int64_t>("seed"),
                                              call.attr<std::int64_t>("seed2"), range},
                                             range)
                                .first->second;
  Tensors out =
      sample_from(call, {[&](PhiloxStream& words) {
                           return weights.class_at(words.next_below(static_cast<std::uint32_t>(weights.total())));
                         },
                         [&](std::int64_t value) {
                           return static_cast<float>(weights.weight(value)) / static_cast<float>(weights.total());
                         }});
  for (const std::int64_t value : ints_in(call, 0)) weights.add(value);
  return out;
}

// A part of an image at a random place.
Tensors random_crop(const Call& call) {
  const at::Tensor& image = in(call, 0);
  const Ints size = ints_in(call, 1);
  if (image.dim() != 3 || size.size() != 2) throw_invalid_argument("image must have three axes, size two numbers");
  if (size[0] < 0 || size[1] < 0 || size[0] > image.size(0) || size[1] > image.size(1))
    throw_invalid_argument(
        fmt::format("the image of {} x {} has no part of {} x {}", image.size(0), image.size(1), size[0], size[1]));
  if (size[0] == image.size(0) && size[1] == image.size(1)) return {call.input(0)};
  PhiloxStream words(advance_stateful(call, 1));
  Ints first;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t places = image.size(static_cast<std::int64_t>(i)) - size[i] + 1;
    first.push_back(places > 1 ? static_cast<std::int64_t>(words.next() % static_cast<std::uint32_t>(places)) : 0);
  }
  return one(image.detach().narrow(0, first[0], size[0]).narrow(1, first[1], size[1]).contiguous());
}

// All classes below num_sampled, in order.
Tensors all_classes(const Call& call) {
  const std::int64_t samples = call.attr<std::int64_t>("num_sampled");
  element_count({samples}, sizeof(std::int64_t));
  const at::Tensor& truth = in(call, 0);
  if (truth.size(1) != call.attr<std::int64_t>("num_true"))
    throw_invalid_argument(fmt::format("true_classes has {} columns, expected num_true = {}", truth.size(1),
                                       call.attr<std::int64_t>("num_true")));
  if (truth.numel() > 0 && (truth.min().item<std::int64_t>() < 0 || truth.max().item<std::int64_t>() >= samples))
    throw_invalid_argument(fmt::format("a true class is out of bounds [0, {})", samples));
  return {wrap(at::arange(samples, at::kLong)), wrap(at::ones(truth.sizes(), at::kFloat)),
          wrap(at::ones({samples}, at::kFloat))};
}

Shapes sampled_shapes(const Call& call) {
  const Shape samples{call.attr<std::int64_t>("num_sampled")};
  return {samples, call.input(0).shape(), samples};
}

// Drawn classes that are true ones of a row.
Tensors accidental_hits(const Call& call) {
  const at::Tensor truth = in(call, 0).contiguous();
  std::unordered_map<std::int64_t, std::int64_t> position;
  const Ints drawn = ints_in(call, 1);
  for (std::size_t i = 0; i < drawn.size(); ++i) position[drawn[i]] = static_cast<std::int64_t>(i);
  const std::int64_t columns = truth.size(1);
  if (columns != call.attr<std::int64_t>("num_true"))
    throw_invalid_argument(fmt::format("true_classes has {} columns, expected num_true = {}", columns,
                                       call.attr<std::int64_t>("num_true")));
  Ints rows, ids;
  for (std::int64_t i = 0; i < truth.numel(); ++i) {
    const auto found = position.find(truth.const_data_ptr<std::int64_t>()[i]);
    if (found == position.end()) continue;
    rows.push_back(i / columns), ids.push_back(found->second);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  return {wrap(at::tensor(at::IntArrayRef(rows), at::kInt)), wrap(at::tensor(at::IntArrayRef(ids), at::kLong)),
          wrap(at::full({count}, -std::numeric_limits<float>::max(), at::kFloat))};
}

// ---- crops ----

struct Crop {
  int left = 0, top = 0, right = 0, bottom = 0;
  float area() const { return static_cast<float>((right - left) * (bottom - top)); }
};

struct CropLimits {
  float smallest, largest;  // parts of the image's area
};

int rounded(float value) { return static_cast<int>(std::lrintf(value)); }

std::optional<Crop> draw_crop(int width, int height, const CropLimits& limits, float aspect, PhiloxStream& words) {
  if (limits.largest <= 0 || aspect <= 0 || width <= 0 || height <= 0 || limits.smallest > limits.largest) return {};
  const float image = static_cast<float>(width), rows = static_cast<float>(height);
  const float smallest = limits.smallest * image * rows, largest = limits.largest * image * rows;
  int h = rounded(std::sqrt(smallest / aspect)), most = rounded(std::sqrt(largest / aspect));
  if (rounded(static_cast<float>(most) * aspect) > width) {
    constexpr float kEpsilon = 0.0000001f;
    most = static_cast<int>((static_cast<double>(width) + 0.5 - static_cast<double>(kEpsilon)) /
                            static_cast<double>(aspect));
    if (rounded(static_cast<float>(most) * aspect) > width) --most;
  }
  most = std::min(most, height);
  h = std::min(h, most);
  if (h < most) h += static_cast<int>(words.next_below(static_cast<std::uint32_t>(most - h + 1)));
  int w = rounded(static_cast<float>(h) * aspect);
  const auto area = [&] { return static_cast<float>(w) * static_cast<float>(h); };
  if (area() < smallest) ++h, w = rounded(static_cast<float>(h) * aspect);
  if (area() > largest) --h, w = rounded(static_cast<float>(h) * aspect);
  if (area() < smallest || area() > largest || w > width || h > height || w <= 0 || h <= 0) return {};
  const int y = h < height ? static_cast<int>(words.next_below(static_cast<std::uint32_t>(height - h))) : 0;
  const int x = w < width ? static_cast<int>(words.next_below(static_cast<std::uint32_t>(width - w))) : 0;
  return Crop{x, y, x + w, y + h};
}

bool covers_an_object(const Crop& crop, const std::vector<Crop>& objects, float least) {
  if (crop.area() < 1) return false;
  return std::any_of(objects.begin(), objects.end(), [&](const Crop& object) {
    if (object.area() < 1) return false;
    const Crop common{std::max(crop.left, object.left), std::max(crop.top, object.top),
                      std::min(crop.right, object.right), std::min(crop.bottom, object.bottom)};
    const bool meet = common.left <= common.right && common.top <= common.bottom;
    return (meet ? common.area() : 0.0f) / object.area() >= least;
  });
}

std::vector<Crop> objects_in(const Call& call, int width, int height) {
  const at::Tensor boxes = in(call, 1).reshape({-1, in(call, 1).size(-1)}).contiguous();
  if (boxes.size(1) != 4) throw_invalid_argument("bounding_boxes must have the shape [batch, N, 4]");
  std::vector<Crop> objects;
  for (std::int64_t i = 0; i < boxes.size(0); ++i) {
    const float* const box = boxes.const_data_ptr<float>() + 4 * i;  // y and x of two corners
    for (int k = 0; k < 4; ++k) {
      if (!(box[k] >= 0 && box[k] <= 1))
        throw_invalid_argument(fmt::format("All bounding box coordinates must be in [0.0, 1.0]: {}", box[k]));
    }
    if (!(box[0] < box[2] && box[1] < box[3]))
      throw_invalid_argument("the first corner of a bounding box must be above and left of the second one");
    const float w = static_cast<float>(width), h = static_cast<float>(height);
    objects.push_back({static_cast<int>(box[1] * w), static_cast<int>(box[0] * h), static_cast<int>(box[3] * w),
                       static_cast<int>(box[2] * h)});
  }
  if (objects.empty()) {
    if (!call.attr<bool>("use_image_if_no_bounding_boxes"))
      throw_invalid_argument("there is no bounding box; set use_image_if_no_bounding_boxes to crop any part");
    objects.push_back({0, 0, width, height});
  }
  return objects;
}

Tensors distorted_bounding_box(const Call& call) {
  const Ints size = ints_in(call, 0);
  if (size.size() != 3) throw_invalid_argument("image_size must have three numbers");
  constexpr std::int64_t kLargest = 1 << 24;  // whole numbers of float32
  if (size[0] <= 0 || size[1] <= 0 || size[0] > kLargest || size[1] > kLargest)
    throw_invalid_argument(fmt::format("invalid image_size: found {} x {}", size[0], size[1]));
  const int height = static_cast<int>(size[0]), width = static_cast<int>(size[1]);
  const auto &aspects = call.attr<std::vector<float>>("aspect_ratio_range"),
             &areas = call.attr<std::vector<float>>("area_range");
  if (aspects.size() != 2 || areas.size() != 2)
    throw_invalid_argument("aspect_ratio_range and area_range must have two numbers each");
  if (!(aspects[0] > 0 && aspects[1] > 0 && areas[0] > 0 && areas[1] > 0))
    throw_invalid_argument("aspect_ratio_range and area_range must be positive");
  const bool first_version = call.name() == "SampleDistortedBoundingBox";
  const float least = first_version ? call.attr<float>("min_object_covered") : in(call, 2).item<float>();
  const std::vector<Crop> objects = objects_in(call, width, height);
  const std::int64_t attempts = call.attr<std::int64_t>("max_attempts");
  if (attempts < 1) throw_invalid_argument("max_attempts must be positive");
  PhiloxStream words(call.name().starts_with("Stateless")
                         ? stateless_seed_in(call, 3)
                         : advance_stateful(call, static_cast<std::uint64_t>(attempts)));
  Crop crop{0, 0, width, height};
  for (std::int64_t i = 0; i < attempts; ++i) {
    const float aspect = words.next_float() * (aspects[1] - aspects[0]) + aspects[0];
    const auto drawn = draw_crop(width, height, {areas[0], areas[1]}, aspect, words);
    if (!drawn || !covers_an_object(*drawn, objects, least)) continue;
    crop = *drawn;
    break;
  }
  const at::ScalarType type = in(call, 0).scalar_type();
  const Ints begin{crop.top, crop.left, 0}, extent{crop.bottom - crop.top, crop.right - crop.left, -1};
  const float w = static_cast<float>(width), h = static_cast<float>(height);
  const std::vector<float> box{static_cast<float>(crop.top) / h, static_cast<float>(crop.left) / w,
                               static_cast<float>(crop.bottom) / h, static_cast<float>(crop.right) / w};
  return {wrap(at::tensor(at::IntArrayRef(begin), at::kLong).to(type)),
          wrap(at::tensor(at::IntArrayRef(extent), at::kLong).to(type)), Tensor::from_vector(box, Shape{1, 1, 4})};
}

}  // namespace

void register_candidate_sampling(Table& table) {
  for (auto name : {"UniformCandidateSampler", "LogUniformCandidateSampler", "FixedUnigramCandidateSampler"})
    table.add(name, sampled_shapes, sample_classes);
  for (auto name : {"LearnedUnigramCandidateSampler", "ThreadUnsafeUnigramCandidateSampler"})
    table.add(name, sampled_shapes, sample_learned_classes);
  table.add("RandomCrop", nullptr, random_crop);
  table.add("AllCandidateSampler", sampled_shapes, all_classes);
  table.add(
      "ComputeAccidentalHits",
      [](const Call&) {
        return Shapes{Shape{kUnknownDim}, Shape{kUnknownDim}, Shape{kUnknownDim}};
      },
      accidental_hits);
  for (auto name :
       {"SampleDistortedBoundingBox", "SampleDistortedBoundingBoxV2", "StatelessSampleDistortedBoundingBox"})
    table.add(
        name,
        [](const Call&) {
          return Shapes{Shape{3}, Shape{3}, Shape{1, 1, 4}};
        },
        distorted_bounding_box);
}

}  // namespace lockstep::ops
