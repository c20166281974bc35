// The layers of augmentation.h that combine others.
#include <algorithm>

#include "lockstep/distribute/replica_context.h"
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/random/python_random.h"

namespace lockstep::keras {
namespace {

using namespace layers;

using ImageChangePtr = std::shared_ptr<ImageChange>;

// The changes that these layers choose from.
template <typename Options>
struct Changes {
  explicit Changes(const Options& o, double strongest) : options(o), strongest(strongest) {}

  ImageChangePtr shear() const {
    return made(RandomShear(common(RandomShearOptions{.x_factor = options.factor, .y_factor = options.factor})));
  }
  ImageChangePtr translation() const {
    return made(RandomTranslation(options.factor, options.factor, common(RandomTranslationOptions{})));
  }
  ImageChangePtr rotation() const { return made(RandomRotation(options.factor, common(RandomRotationOptions{}))); }
  ImageChangePtr brightness() const {
    return made(RandomBrightness(options.factor, common(RandomBrightnessOptions{})));
  }
  ImageChangePtr degeneration() const {
    return made(RandomColorDegeneration(options.factor, common(RandomColorDegenerationOptions{})));
  }
  ImageChangePtr contrast() const { return made(RandomContrast(options.factor, common(RandomContrastOptions{}))); }
  ImageChangePtr sharpness() const { return made(RandomSharpness(options.factor, common(RandomSharpnessOptions{}))); }
  ImageChangePtr posterization() const {
    const auto bits = std::max<std::int64_t>(1, static_cast<std::int64_t>(8 * strongest));
    return made(RandomPosterization(bits, common(RandomPosterizationOptions{})));
  }
  ImageChangePtr solarization() const {
    return made(Solarization(
        common(SolarizationOptions{.addition_factor = options.factor, .threshold_factor = options.factor})));
  }
  ImageChangePtr auto_contrast() const { return made(AutoContrast(common(AutoContrastOptions{}))); }
  ImageChangePtr equalization() const { return made(Equalization(common(EqualizationOptions{}))); }

 private:
  template <typename Part>
  Part common(Part part) const {
    if constexpr (requires { part.seed; }) part.seed = options.seed;
    if constexpr (requires { part.interpolation; }) part.interpolation = options.interpolation;
    if constexpr (requires { part.value_range; }) part.value_range = options.value_range;
    part.data_format = options.data_format;
    part.dtype = options.dtype;
    return part;
  }
  static ImageChangePtr made(const LayerHandle& layer) { return std::dynamic_pointer_cast<ImageChange>(layer.ptr()); }

  const Options& options;
  double strongest;
};

class RandAugmentLayer : public AugmentationLayer<RandAugmentLayer, RandAugmentOptions> {
 public:
  static constexpr const char* kClass = "RandAugment";
  template <typename V>
  static void fields(V& v, RandAugmentOptions& o) {
    image_fields(v, o);
    v("value_range", o.value_range);
    v("num_ops", o.num_ops);
    v("factor", o.factor);
    v("interpolation", o.interpolation);
    v("seed", o.seed);
  }
  explicit RandAugmentLayer(RandAugmentOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    const FactorRange range = resolve_factor(options_.factor, 0, 1, who() + ": factor");
    check_value_range(options_.value_range, who());
    if (options_.num_ops < 0)
      throw_invalid_argument(fmt::format("invalid {}: num_ops is {}, expected at least 0", who(), options_.num_ops));
    const Changes changes(options_, range.upper);
    parts_ = {changes.shear(),        changes.translation(),   changes.rotation(),    changes.brightness(),
              changes.degeneration(), changes.contrast(),      changes.sharpness(),   changes.posterization(),
              changes.solarization(), changes.auto_contrast(), changes.equalization()};
  }

 private:
  Targets targets() const override { return Targets::kUnknown; }
  // The numbers of the changes to make, then those that each of the changes draws.
  Tensors draw(const Tensor& x) override {
    const auto parts = static_cast<std::int64_t>(parts_.size());
    Tensors drawn = {random::randint(Shape{options_.num_ops}, 0, parts, DType::kInt32, generator_)};
    for (const auto& part : parts_) {
      for (Tensor& numbers : part->draw_with(x, generator_)) drawn.push_back(std::move(numbers));
      drawn.push_back({});  // ends the part
    }
    return drawn;
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    std::vector<Tensors> numbers(1);
    for (std::size_t i = 1; i < drawn.size(); ++i) {
      if (drawn[i].defined()) {
        numbers.back().push_back(drawn[i]);
      } else {
        numbers.emplace_back();
      }
    }
    Tensor y = x;
    for (const Tensor& chosen : ops::unstack(drawn[0])) {
      if (chosen.is_value()) {
        const auto at = static_cast<std::size_t>(chosen.item<std::int32_t>());
        y = parts_[at]->change(y, numbers[at]);
        continue;
      }
      const Tensor before = y;  // a graph computes all changes
      for (std::size_t at = 0; at < parts_.size(); ++at)
        y = ops::where(ops::equal(chosen, static_cast<double>(at)), parts_[at]->change(before, numbers[at]), y);
    }
    return y;
  }
  std::vector<ImageChangePtr> parts_;
};

class AugMixLayer : public AugmentationLayer<AugMixLayer, AugMixOptions> {
 public:
  static constexpr const char* kClass = "AugMix";
  template <typename V>
  static void fields(V& v, AugMixOptions& o) {
    image_fields(v, o);
    v("value_range", o.value_range);
    v("num_chains", o.num_chains);
    v("chain_depth", o.chain_depth);
    v("factor", o.factor);
    v("alpha", o.alpha);
    v("all_ops", o.all_ops);
    v("interpolation", o.interpolation);
    v("seed", o.seed);
  }
  explicit AugMixLayer(AugMixOptions options) : AugmentationLayer(std::move(options)) {
    generator_ = add_seed_generator(options_.seed);
    const FactorRange range = resolve_factor(options_.factor, 0, 1, who() + ": factor");
    check_value_range(options_.value_range, who());
    if (options_.num_chains < 1 || options_.chain_depth < 1 || !(options_.alpha > 0))
      throw_invalid_argument(
          fmt::format("invalid {}: num_chains {} and chain_depth {} must be at least 1, and alpha {} above 0", who(),
                      options_.num_chains, options_.chain_depth, options_.alpha.value));
    const Changes changes(options_, range.upper);
    parts_ = {changes.shear(),        changes.translation(),   changes.rotation(),    changes.posterization(),
              changes.solarization(), changes.auto_contrast(), changes.equalization()};
    if (!options_.all_ops) return;
    for (const ImageChangePtr& part :
         {changes.brightness(), changes.degeneration(), changes.contrast(), changes.sharpness()})
      parts_.push_back(part);
  }

 private:
  Targets targets() const override { return Targets::kUnknown; }
  // The weights of the chains and of the images; for each chain the chosen changes, each its number and what it draws,
  // which an undefined tensor ends, and another undefined tensor at the end of the chain.
  Tensors draw(const Tensor& x) override {
    const distribute::ReplicaContext* const replica = distribute::get_replica_context();
    if (replica && replica->num_replicas_in_sync() > 1)
      throw_unimplemented(fmt::format("{} requires one replica: its changes are chosen by Python's generator", who()));
    const double alpha = options_.alpha;
    const Tensor gammas = random::gamma(Shape{options_.num_chains}, alpha, {.seed = generator_});
    const Tensor chains = gammas / ops::reduce_sum(gammas);
    Tensors drawn = {chains, draw_beta(x, false, Tensor::scalar(static_cast<float>(alpha)), generator_)};
    for (std::int64_t chain = 0; chain < options_.num_chains; ++chain) {
      for (std::int64_t depth = 0; depth < options_.chain_depth; ++depth) {
        // The number after the last one stands for no change.
        const auto none = static_cast<std::int64_t>(parts_.size());
        const std::int64_t chosen = ops::FunctionDraws::traced([none] { return random::python_randint(0, none); });
        if (chosen == none) continue;
        drawn.push_back(Tensor::scalar(static_cast<std::int32_t>(chosen)));
        for (Tensor& numbers : parts_[static_cast<std::size_t>(chosen)]->draw_with(x, generator_))
          drawn.push_back(std::move(numbers));
        drawn.push_back({});
      }
      drawn.push_back({});
    }
    return drawn;
  }
  Tensor transform(const Tensor& x, const Tensors& drawn) const override {
    Tensor mixed = ops::zeros_like(x);
    std::size_t next = 2;
    for (std::int64_t chain = 0; chain < options_.num_chains; ++chain) {
      Tensor y = x;
      while (drawn.at(next).defined()) {
        const auto chosen = static_cast<std::size_t>(drawn[next++].item<std::int32_t>());
        Tensors numbers;
        while (drawn.at(next).defined()) numbers.push_back(drawn[next++]);
        ++next;
        y = parts_[chosen]->change(y, numbers);
      }
      ++next;
      const Tensor weight = ops::reshape(ops::slice_axis(drawn[0], 0, chain, chain + 1), ops::Ints{});
      mixed = mixed + y * ops::cast(weight, x.dtype());
    }
    const Tensor weight = ops::cast(drawn[1], x.dtype());
    return clip_to(weight * x + (1.0 - weight) * mixed, options_.value_range);
  }
  std::vector<ImageChangePtr> parts_;
};

}  // namespace

void register_combined_augmentation(ClassTable& registry) {
  registry.add(layer_row<RandAugmentLayer>());
  registry.add(layer_row<AugMixLayer>());
}

}  // namespace lockstep::keras

namespace lockstep::layers {

LayerHandle RandAugment(RandAugmentOptions options) {
  return std::make_shared<keras::RandAugmentLayer>(std::move(options));
}
LayerHandle AugMix(AugMixOptions options) { return std::make_shared<keras::AugMixLayer>(std::move(options)); }

}  // namespace lockstep::layers
