// RandomHeight and RandomWidth, which Keras 2 has and Keras 3 has not.
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/images_internal.h"
#include "lockstep/keras/preprocessing/augmentation_internal.h"
#include "lockstep/keras/preprocessing/families_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

struct RandomSizeOptions {
  Json factor = nullptr;  // -1 or more, of the size
  std::string interpolation = "bilinear";
  std::optional<std::int64_t> seed = std::nullopt;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

// Derived has the axis of images (height, width, channels) whose size changes.
template <typename Derived>
class RandomSizeLayer : public ConfiguredLayer<Derived, RandomSizeOptions> {
 public:
  template <typename V>
  static void fields(V& v, RandomSizeOptions& o) {
    v("factor", o.factor, Field::kRequired);
    v("interpolation", o.interpolation);
    v("seed", o.seed);
    v.dropped("rng_type");
  }
  explicit RandomSizeLayer(RandomSizeOptions options)
      : ConfiguredLayer<Derived, RandomSizeOptions>(std::move(options)) {
    const Json& factor = this->options_.factor;
    const bool pair = factor.is_array() && factor.size() == 2 && factor[0].is_number() && factor[1].is_number();
    if (!pair && !factor.is_number())
      throw_invalid_argument(fmt::format("invalid {} '{}': factor is {}, expected a number or two", Derived::kClass,
                                         this->name(), dump_json(factor).substr(0, 60)));
    range_.lower = 1 + (pair ? factor[0].get<double>() : -factor.get<double>());
    range_.upper = 1 + (pair ? factor[1] : factor).get<double>();
    if (range_.lower > range_.upper || range_.lower < 0)
      throw_invalid_argument(fmt::format("invalid {} '{}': factor is {}, expected a range of numbers from -1 on",
                                         Derived::kClass, this->name(), dump_json(factor)));
    generator_ = this->add_seed_generator(this->options_.seed);
  }
  Layer::TrainingArgument training_argument() const override { return Layer::TrainingArgument::kDefaultTrue; }

  Structure call(const Structure& inputs, const CallContext& context) override {
    const Tensor& given = inputs.leaf();
    if (!context.training && !graph::stands_for_shape(given)) return given;
    const bool single = given.rank() == 3;
    const Tensor x = single ? ops::expand_dims(given, 0) : given;
    const Tensor factor = draw_one(range_, generator_);
    Tensors size = {ops::dim_of(x, 1), ops::dim_of(x, 2)};
    Tensor& changed = size[Derived::kAxis];
    changed = ops::cast(factor * ops::cast(changed, DType::kFloat32), DType::kInt32);
    const Tensor y = ops::cast(resize_images(x, ops::stack(size), this->options_.interpolation), this->compute_dtype());
    return single ? ops::squeeze(y, {0}) : y;
  }

 private:
  FactorRange range_;
  random::SeedGeneratorPtr generator_;
};

class RandomHeightLayer : public RandomSizeLayer<RandomHeightLayer> {
 public:
  static constexpr const char* kClass = "RandomHeight";
  static constexpr std::size_t kAxis = 0;
  explicit RandomHeightLayer(RandomSizeOptions options) : RandomSizeLayer(std::move(options)) {}
};

class RandomWidthLayer : public RandomSizeLayer<RandomWidthLayer> {
 public:
  static constexpr const char* kClass = "RandomWidth";
  static constexpr std::size_t kAxis = 1;
  explicit RandomWidthLayer(RandomSizeOptions options) : RandomSizeLayer(std::move(options)) {}
};

}  // namespace

void register_random_size_layers(ClassTable& registry) {
  registry.add(layer_row<RandomHeightLayer>());
  registry.add(layer_row<RandomWidthLayer>());
}

}  // namespace lockstep::keras
