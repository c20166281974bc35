#include "lockstep/keras/initializers/initializers.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/initializers/orthogonal_internal.h"
#include "lockstep/keras/initializers/stft_internal.h"
#include "lockstep/keras/initializers/tensorflow_initializers_internal.h"
#include "lockstep/keras/object_config.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/random.h"

namespace lockstep::keras {

template <>
struct FieldType<random::Seed> {
  static constexpr bool kTakesNull = true;
  static std::string name() { return "integer, SeedGenerator or null"; }
  static bool read(const Json& found, random::Seed& v) {
    v = {};
    if (found.is_null()) return true;
    if (const auto object = parse_object_config(found)) {
      std::optional<std::int64_t> seed;
      std::string name = "seed_generator";
      FieldReader reader(object->class_name, object->config);
      reader("name", name);
      reader("seed", seed);
      reader.finish();
      v = std::make_shared<random::SeedGenerator>(seed, name);
      return true;
    }
    std::int64_t number = 0;
    if (!FieldType<std::int64_t>::read(found, number)) return false;
    v = number;
    return true;
  }
  static Json write(const random::Seed& v) {
    if (v.number()) return *v.number();
    if (!v.generator()) return nullptr;
    return object_config("keras.random", "SeedGenerator", v.generator()->config());
  }
};

}  // namespace lockstep::keras

namespace lockstep::initializers {

template <typename V>
void fields(V& v, VarianceScalingOptions& o) {
  v("seed", o.seed);
  v("scale", o.scale);
  v("mode", o.mode);
  v("distribution", o.distribution);
  v("input_axes", o.input_axes);
  v("output_axes", o.output_axes);
  v.dropped("dtype");
}

template <typename V>
void fields(V& v, FanOptions& o) {
  v("seed", o.seed);
  v("input_axes", o.input_axes);
  v("output_axes", o.output_axes);
  v.dropped("dtype");
}

template <typename V>
void fields(V& v, RandomNormalOptions& o) {
  v("seed", o.seed);
  v("mean", o.mean);
  v("stddev", o.stddev);
  v.dropped("dtype");
}

template <typename V>
void fields(V& v, RandomUniformOptions& o) {
  v("seed", o.seed);
  v("minval", o.minval);
  v("maxval", o.maxval);
  v.dropped("dtype");
}

template <typename V>
void fields(V& v, OrthogonalOptions& o) {
  v("seed", o.seed);
  v("gain", o.gain);
  v.dropped("dtype");
}

namespace {

struct IdentityOptions {
  double gain = 1.0;
};
template <typename V>
void fields(V& v, IdentityOptions& o) {
  v("gain", o.gain);
  v.dropped("dtype");
}

struct ConstantOptions {
  Json value = 0.0;  // a number, nested lists, or an array as Keras writes it
};
template <typename V>
void fields(V& v, ConstantOptions& o) {
  v("value", o.value);
  v.dropped("dtype");
}

struct NoOptions {};
template <typename V>
void fields(V& v, NoOptions&) {
  v.dropped("dtype");
}

constexpr double kTruncatedStddev = 0.8796256610342398;  // of a unit normal cut at two standard deviations

// The seed that is used: drawn at construction when none is given.
class SeedHolder {
 public:
  explicit SeedHolder(const random::Seed& seed) : used_(seed) {
    if (!seed.number() && !seed.generator()) used_ = random::make_default_seed();
  }
  const random::Seed& used() const { return used_; }

 private:
  random::Seed used_;
};

DType floating(std::string_view who, DType dtype) {
  if (!is_floating(dtype)) {
    throw_invalid_argument(fmt::format("{}: dtype {} was given, expected a floating one", who, dtype_name(dtype)));
  }
  return dtype;
}

class VarianceScalingInitializer : public Initializer {
 public:
  VarianceScalingInitializer(std::string class_name, VarianceScalingOptions options)
      : class_name_(std::move(class_name)), options_(std::move(options)), seed_(options_.seed) {
    if (options_.distribution == "normal") options_.distribution = "truncated_normal";
    check();
  }
  VarianceScalingInitializer(const VarianceScalingInitializer& other, const Axes& input_axes, const Axes& output_axes)
      : class_name_(other.class_name_), options_(other.options_), seed_(other.seed_) {
    if (!options_.input_axes) options_.input_axes = input_axes;
    if (!options_.output_axes) options_.output_axes = output_axes;
  }

  std::string class_name() const override { return class_name_; }

  Tensor operator()(const Shape& shape, DType dtype) const override {
    floating(class_name_, dtype);
    const double scale = options_.scale / std::max(1.0, fan(shape));
    if (options_.distribution == "uniform") {
      const double limit = std::sqrt(3.0 * scale);
      return random::uniform(shape, -limit, limit, dtype, seed_.used());
    }
    if (options_.distribution == "untruncated_normal") {
      return random::normal(shape, 0.0, std::sqrt(scale), dtype, seed_.used());
    }
    return random::truncated_normal(shape, 0.0, std::sqrt(scale) / kTruncatedStddev, dtype, seed_.used());
  }

  Json get_config() const override {
    if (class_name_ == "VarianceScaling") return keras::with_fields({}, options_);
    return keras::with_fields({}, FanOptions{options_.seed, options_.input_axes, options_.output_axes});
  }

 private:
  void check() const {
    if (!(options_.scale > 0)) throw_invalid_argument(fmt::format("{}: scale must be positive", class_name_));
    if (options_.mode != "fan_in" && options_.mode != "fan_out" && options_.mode != "fan_avg") {
      throw_invalid_argument(
          fmt::format("{}: mode '{}', expected fan_in, fan_out or fan_avg", class_name_, options_.mode));
    }
    if (options_.distribution != "uniform" && options_.distribution != "truncated_normal" &&
        options_.distribution != "untruncated_normal") {
      throw_invalid_argument(
          fmt::format("{}: distribution '{}', expected truncated_normal, untruncated_normal or uniform", class_name_,
                      options_.distribution));
    }
  }

  double fan(const Shape& shape) const {
    auto [in, out] = compute_fans(shape);
    if (options_.input_axes && options_.output_axes) {
      const auto product = [&](const Axes& axes) {
        double size = 1;
        for (std::int64_t axis : axes) {
          if (axis < -shape.rank() || axis >= shape.rank()) {
            throw_invalid_argument(
                fmt::format("{}: axis {} is outside of shape {}", class_name_, axis, shape.to_string()));
          }
          size *= static_cast<double>(shape[static_cast<int>(axis)]);
        }
        return size;
      };
      in = product(*options_.input_axes);
      out = product(*options_.output_axes);
    }
    return options_.mode == "fan_in" ? in : options_.mode == "fan_out" ? out : (in + out) / 2.0;
  }

  std::string class_name_;
  VarianceScalingOptions options_;
  SeedHolder seed_;
};

InitializerPtr fan_scaled(const char* class_name, double scale, const char* mode, const char* distribution,
                          FanOptions options) {
  return std::make_shared<VarianceScalingInitializer>(
      class_name, VarianceScalingOptions{scale, mode, distribution, std::move(options.seed),
                                         std::move(options.input_axes), std::move(options.output_axes)});
}

class NormalInitializer : public Initializer {
 public:
  NormalInitializer(bool truncated, RandomNormalOptions options)
      : truncated_(truncated), options_(std::move(options)), seed_(options_.seed) {}
  std::string class_name() const override { return truncated_ ? "TruncatedNormal" : "RandomNormal"; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    floating(class_name(), dtype);
    if (truncated_) return random::truncated_normal(shape, options_.mean, options_.stddev, dtype, seed_.used());
    return random::normal(shape, options_.mean, options_.stddev, dtype, seed_.used());
  }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  bool truncated_;
  RandomNormalOptions options_;
  SeedHolder seed_;
};

class UniformInitializer : public Initializer {
 public:
  explicit UniformInitializer(RandomUniformOptions options) : options_(std::move(options)), seed_(options_.seed) {}
  std::string class_name() const override { return "RandomUniform"; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    return random::uniform(shape, options_.minval, options_.maxval, floating("RandomUniform", dtype), seed_.used());
  }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  RandomUniformOptions options_;
  SeedHolder seed_;
};

class OrthogonalInitializer : public Initializer {
 public:
  explicit OrthogonalInitializer(OrthogonalOptions options) : options_(std::move(options)), seed_(options_.seed) {}
  std::string class_name() const override { return "Orthogonal"; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    if (shape.rank() < 2) {
      throw_invalid_argument(
          fmt::format("Orthogonal: shape {} was given, expected two axes or more", shape.to_string()));
    }
    const std::int64_t cols = shape[-1], rows = cols == 0 ? 0 : *shape.num_elements() / cols;
    const std::int64_t tall = std::max(rows, cols), wide = std::min(rows, cols);
    const Tensor noise = random::normal(Shape{tall, wide}, 0.0, 1.0, DType::kFloat32, seed_.used());
    std::vector<float> q = orthonormal_columns(noise.to_vector<float>(), tall, wide);
    if (rows < cols) q = transposed(q, tall, wide);
    for (float& value : q) value *= static_cast<float>(options_.gain);
    return random::from_floats(q, shape, floating("Orthogonal", dtype));
  }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  OrthogonalOptions options_;
  SeedHolder seed_;
};

class IdentityInitializer : public Initializer {
 public:
  explicit IdentityInitializer(double gain) : gain_(gain) {}
  std::string class_name() const override { return "Identity"; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    if (shape.rank() != 2) {
      throw_invalid_argument(fmt::format("Identity: shape {} was given, expected two axes", shape.to_string()));
    }
    std::vector<float> values(static_cast<std::size_t>(*shape.num_elements()));
    for (std::int64_t i = 0; i < std::min(shape[0], shape[1]); ++i) {
      values[static_cast<std::size_t>(i * shape[1] + i)] = static_cast<float>(gain_);
    }
    return ops::cast(Tensor::from_vector(values, shape), dtype);
  }
  // Keras records only constructor arguments that it can write: {} for the default gain.
  Json get_config() const override { return gain_ == 1.0 ? Json::object() : Json{{"gain", gain_}}; }

 private:
  double gain_;
};

class ConstantInitializer : public Initializer {
 public:
  ConstantInitializer(std::string class_name, double value) : class_name_(std::move(class_name)), value_(value) {}
  explicit ConstantInitializer(Tensor value) : class_name_("Constant"), tensor_(std::move(value)) {}
  std::string class_name() const override { return class_name_; }
  Tensor operator()(const Shape& shape, DType dtype) const override {
    if (!tensor_.defined()) return Tensor::full(shape, value_, dtype);
    return ops::broadcast_to(ops::cast(tensor_, dtype), shape.dims());
  }
  Json get_config() const override;

 private:
  std::string class_name_;
  double value_ = 0;
  Tensor tensor_;
};

// Nested lists of a dense tensor's values, as NumPy's tolist() gives them.
Json nested_list(const std::vector<double>& values, const Shape& shape, int axis, std::size_t& at) {
  Json list = Json::array();
  for (std::int64_t i = 0; i < shape[axis]; ++i) {
    if (axis + 1 == shape.rank()) {
      list.push_back(values[at++]);
    } else {
      list.push_back(nested_list(values, shape, axis + 1, at));
    }
  }
  return list;
}

Json ConstantInitializer::get_config() const {
  if (class_name_ != "Constant") return Json::object();
  if (!tensor_.defined()) return keras::with_fields({}, ConstantOptions{value_});
  const std::vector<double> values = ops::cast(tensor_, DType::kFloat64).to_vector<double>();
  if (tensor_.rank() == 0) return keras::with_fields({}, ConstantOptions{values[0]});
  std::size_t at = 0;
  const Json array = {{"value", nested_list(values, tensor_.shape(), 0, at)},
                      {"dtype", std::string(dtype_name(tensor_.dtype()))}};
  return keras::with_fields({}, ConstantOptions{{{"class_name", "__numpy__"}, {"config", array}}});
}

}  // namespace

std::pair<double, double> compute_fans(const Shape& shape) {
  if (shape.rank() == 0) return {1, 1};
  if (shape.rank() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double receptive = 1;
  for (int axis = 0; axis < shape.rank() - 2; ++axis) receptive *= static_cast<double>(shape[axis]);
  return {static_cast<double>(shape[-2]) * receptive, static_cast<double>(shape[-1]) * receptive};
}

InitializerPtr VarianceScaling(VarianceScalingOptions options) {
  return std::make_shared<VarianceScalingInitializer>("VarianceScaling", std::move(options));
}
InitializerPtr GlorotUniform(FanOptions o) {
  return fan_scaled("GlorotUniform", 1, "fan_avg", "uniform", std::move(o));
}
InitializerPtr GlorotNormal(FanOptions o) {
  return fan_scaled("GlorotNormal", 1, "fan_avg", "truncated_normal", std::move(o));
}
InitializerPtr HeUniform(FanOptions o) { return fan_scaled("HeUniform", 2, "fan_in", "uniform", std::move(o)); }
InitializerPtr HeNormal(FanOptions o) { return fan_scaled("HeNormal", 2, "fan_in", "truncated_normal", std::move(o)); }
InitializerPtr LecunUniform(FanOptions o) { return fan_scaled("LecunUniform", 1, "fan_in", "uniform", std::move(o)); }
InitializerPtr LecunNormal(FanOptions o) {
  return fan_scaled("LecunNormal", 1, "fan_in", "truncated_normal", std::move(o));
}
InitializerPtr RandomNormal(RandomNormalOptions options) {
  return std::make_shared<NormalInitializer>(false, std::move(options));
}
InitializerPtr TruncatedNormal(RandomNormalOptions options) {
  return std::make_shared<NormalInitializer>(true, std::move(options));
}
InitializerPtr RandomUniform(RandomUniformOptions options) {
  return std::make_shared<UniformInitializer>(std::move(options));
}
InitializerPtr Orthogonal(OrthogonalOptions options) {
  return std::make_shared<OrthogonalInitializer>(std::move(options));
}
InitializerPtr Identity(double gain) { return std::make_shared<IdentityInitializer>(gain); }
InitializerPtr Zeros() { return std::make_shared<ConstantInitializer>("Zeros", 0.0); }
InitializerPtr Ones() { return std::make_shared<ConstantInitializer>("Ones", 1.0); }
InitializerPtr Constant(double value) { return std::make_shared<ConstantInitializer>("Constant", value); }
InitializerPtr STFT(StftOptions options) { return std::make_shared<StftInitializer>(std::move(options)); }
InitializerPtr Constant(Tensor value) { return std::make_shared<ConstantInitializer>(std::move(value)); }

InitializerPtr with_axes(const InitializerPtr& initializer, const Axes& input_axes, const Axes& output_axes) {
  const auto* scaling = dynamic_cast<const VarianceScalingInitializer*>(initializer.get());
  if (!scaling) return initializer;
  return std::make_shared<VarianceScalingInitializer>(*scaling, input_axes, output_axes);
}

namespace {

double constant_number(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1.0 : 0.0;
  if (!value.is_number())
    throw_invalid_argument(fmt::format("Constant: 'value' is {}, expected numbers", dump_json(value).substr(0, 80)));
  return value.get<double>();
}

void flatten_list(const Json& list, std::size_t depth, Shape& shape, std::vector<double>& values) {
  if (!list.is_array()) {
    values.push_back(constant_number(list));
    return;
  }
  const auto size = static_cast<std::int64_t>(list.size());
  if (depth == shape.dims().size()) shape.push_back(size);
  if (shape[static_cast<int>(depth)] != size) throw_invalid_argument("Constant: 'value' is a ragged list");
  for (const Json& item : list) flatten_list(item, depth + 1, shape, values);
}

InitializerPtr constant_of(ConstantOptions o) {
  Json value = std::move(o.value);
  if (value.is_object()) value = value.value("config", Json::object()).value("value", Json(0.0));
  if (!value.is_array()) return Constant(constant_number(value));
  Shape shape;
  std::vector<double> values;
  flatten_list(value, 0, shape, values);
  return Constant(Tensor::from_vector(values, shape));
}

}  // namespace

const keras::ClassFamily<Initializer>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<Initializer>("initializer", "keras.initializers", keras::ClassNames::kSnakeCase);
    t->add<ConstantOptions>("Constant", {}, constant_of);
    t->add<FanOptions>("GlorotNormal", {}, GlorotNormal);
    t->add<FanOptions>("GlorotUniform", {}, GlorotUniform);
    t->add<FanOptions>("HeNormal", {}, HeNormal);
    t->add<FanOptions>("HeUniform", {}, HeUniform);
    t->add<IdentityOptions>("Identity", {"IdentityInitializer"}, [](IdentityOptions o) { return Identity(o.gain); });
    t->add<FanOptions>("LecunNormal", {}, LecunNormal);
    t->add<FanOptions>("LecunUniform", {}, LecunUniform);
    t->add<NoOptions>("Ones", {"one"}, [](NoOptions) { return Ones(); });
    t->add<OrthogonalOptions>("Orthogonal", {"OrthogonalInitializer"}, Orthogonal);
    t->add<RandomNormalOptions>("RandomNormal", {"normal"},
                                [](RandomNormalOptions o) { return RandomNormal(std::move(o)); });
    t->add<RandomUniformOptions>("RandomUniform", {"uniform"},
                                 [](RandomUniformOptions o) { return RandomUniform(std::move(o)); });
    t->add<StftOptions>("STFT", {"STFTInitializer"}, STFT);
    t->add<RandomNormalOptions>("TruncatedNormal", {},
                                [](RandomNormalOptions o) { return TruncatedNormal(std::move(o)); });
    t->add<VarianceScalingOptions>("VarianceScaling", {}, VarianceScaling);
    t->add<NoOptions>("Zeros", {"zero"}, [](NoOptions) { return Zeros(); });
    return t;
  }();
  return *table;
}

InitializerPtr Initializer::of_function(std::function<KerasFunction> function) {
  return std::make_shared<keras::FunctionObject<Initializer>>(std::move(function));
}

InitializerPtr get(const InitializerArg& identifier) { return classes().get(identifier); }

Json serialize(const InitializerPtr& initializer) {
  if (const auto* own = dynamic_cast<const TensorFlowInitializer*>(initializer.get())) {
    Json config = keras::object_config(TensorFlowInitializer::kModule, own->class_name(), own->get_config());
    config["registered_name"] = own->class_name();
    return config;
  }
  return classes().serialize(initializer);
}

}  // namespace lockstep::initializers
