// User-defined classes of every kind, registered under the names by which Keras finds their Python twins
// (@keras.saving.register_keras_serializable("Examples")): trained, saved, and loaded again.
//
//   build/bin/custom_classes [MODEL.keras]
//
// Without an argument it writes custom_classes.keras and custom_classes.h5 to the current folder and compares what is
// loaded from them. With one it loads that file, prints the predictions for fixed inputs, and trains one epoch more.
#include <cmath>
#include <cstdio>

#include <lockstep/lockstep.h>

namespace ls = lockstep;
namespace keras = lockstep::keras;

namespace {

class Filled : public ls::initializers::Initializer {
 public:
  explicit Filled(double value) : value_(value) {}
  explicit Filled(const ls::Json& config) : Filled(config.at("value").get<double>()) {}
  ls::Tensor operator()(const ls::Shape& shape, ls::DType dtype) const override {
    return ls::Tensor::full(shape, value_, dtype);
  }
  ls::Json get_config() const override { return {{"value", value_}}; }

 private:
  double value_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Filled, "Examples")

class Fourth : public ls::regularizers::Regularizer {
 public:
  explicit Fourth(double factor) : factor_(factor) {}
  explicit Fourth(const ls::Json& config) : Fourth(config.at("factor").get<double>()) {}
  ls::Tensor operator()(const ls::Tensor& x) const override {
    return ls::ops::reduce_sum(ls::ops::square(ls::ops::square(x))) * factor_;
  }
  ls::Json get_config() const override { return {{"factor", factor_}}; }

 private:
  double factor_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Fourth, "Examples")

class AtMostOne : public ls::constraints::Constraint {
 public:
  ls::Tensor operator()(const ls::Tensor& w) const override { return ls::ops::minimum(w, 1.0); }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(AtMostOne, "Examples")

class HalfLife : public ls::schedules::LearningRateSchedule {
 public:
  HalfLife(double initial, double steps) : initial_(initial), steps_(steps) {}
  explicit HalfLife(const ls::Json& config)
      : HalfLife(config.at("initial").get<double>(), config.at("steps").get<double>()) {}
  float operator()(std::int64_t step) const override {
    return static_cast<float>(initial_ * std::pow(0.5, static_cast<double>(step) / steps_));
  }
  ls::Json get_config() const override { return {{"initial", initial_}, {"steps", steps_}}; }

 private:
  double initial_, steps_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(HalfLife, "Examples")

class SignDescent : public ls::optimizers::Optimizer {
 public:
  explicit SignDescent(ls::optimizers::CommonOptions options = {}) : Optimizer("SignDescent", std::move(options)) {}

 private:
  void create_slots() override {}
  void update(Step& step) override {
    decay_weights(step);
    for (std::size_t i = 0; i < step.indices.size(); ++i) {
      trainable_[step.indices[i]]->assign_sub(ls::ops::sign(step.gradients[i]) * double{step.learning_rate});
    }
  }
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(SignDescent, "Examples")

class PowerLoss : public ls::losses::Loss {
 public:
  explicit PowerLoss(double power) : power_(power) {}
  explicit PowerLoss(const ls::Json& config) : PowerLoss(config.at("power").get<double>()) {}
  ls::Tensor call(const ls::Tensor& y_true, const ls::Tensor& y_pred) const override {
    return ls::ops::reduce_mean(ls::ops::pow(ls::ops::abs(y_true - y_pred), power_), ls::ops::Ints{-1});
  }
  ls::Json get_config() const override {
    ls::Json config = Loss::get_config();
    config["power"] = power_;
    return config;
  }

 private:
  double power_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(PowerLoss, "Examples")

class TotalError : public ls::metrics::Metric {
 public:
  explicit TotalError(std::string name = "total_error") : Metric(std::move(name)) {
    total_ = add_variable({}, "total");
  }
  void update_state(const ls::Tensor& y_true, const ls::Tensor& y_pred, const ls::Tensor&, const ls::Tensor&) override {
    total_->assign_add(ls::ops::reduce_sum(ls::ops::abs(y_true - y_pred)));
  }
  ls::Tensor result() const override { return total_->read(); }

 private:
  ls::metrics::VariablePtr total_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(TotalError, "Examples")

class Scale : public keras::Layer {
 public:
  explicit Scale(double offset) : Layer("Scale"), offset_(offset) {}
  explicit Scale(const ls::Json& config) : Scale(config.at("offset").get<double>()) {}
  ls::Json get_config() const override { return {{"offset", offset_}}; }
  void build(const keras::Nested<ls::Shape>& shapes) override {
    scale_ = add_weight({.shape = {shapes.leaf()[-1]},
                         .initializer = std::make_shared<Filled>(0.5),
                         .regularizer = std::make_shared<Fourth>(0.01),
                         .constraint = std::make_shared<AtMostOne>(),
                         .name = "scale"});
  }
  keras::Structure call(const keras::Structure& inputs) override {
    size_.update_state(ls::ops::abs(inputs.leaf()));
    return inputs.leaf() * value(scale_) + offset_;
  }

 private:
  double offset_;
  ls::metrics::MetricPtr size_ = track("size", ls::metrics::Mean({.name = "size"}));  // reported by fit and evaluate
  keras::VariablePtr scale_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Scale, "Examples")

class Regressor : public keras::Model {
 public:
  explicit Regressor(std::int64_t units)
      : Model("Regressor"),
        units_(units),
        scale_(track("scale", keras::make_layer<Scale>(0.25))),
        hidden_(track("hidden", ls::layers::Dense(units, {.activation = "tanh",
                                                          .kernel_initializer = std::make_shared<Filled>(0.1),
                                                          .kernel_regularizer = std::make_shared<Fourth>(0.02),
                                                          .kernel_constraint = std::make_shared<AtMostOne>()}))),
        out_(track("out", ls::layers::Dense(1))) {}
  explicit Regressor(const ls::Json& config) : Regressor(config.at("units").get<std::int64_t>()) {}
  ls::Json get_config() const override { return {{"units", units_}}; }
  keras::Structure call(const keras::Structure& x) override { return out_(hidden_(scale_(x))); }

 private:
  std::int64_t units_;
  keras::LayerHandle scale_, hidden_, out_;
};
LOCKSTEP_REGISTER_KERAS_SERIALIZABLE(Regressor, "Examples")

// 16 rows of 3 features, and targets: x[i, j] = sin(3 i + j), y[i] = x[i, 0] - x[i, 2].
std::pair<ls::Tensor, ls::Tensor> data() {
  std::vector<float> x, y;
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 3; ++j) x.push_back(std::sin(static_cast<float>(3 * i + j)));
    y.push_back(x[x.size() - 3] - x.back());
  }
  return {ls::Tensor::from_vector(x, {16, 3}), ls::Tensor::from_vector(y, {16, 1})};
}

void compile(const keras::Model& model) {
  model.compile({.optimizer = std::make_shared<SignDescent>(ls::optimizers::CommonOptions{
                     .learning_rate = ls::schedules::SchedulePtr(std::make_shared<HalfLife>(0.01, 20))}),
                 .loss = std::make_shared<PowerLoss>(1.5),
                 .metrics = {std::make_shared<TotalError>()}});
}

std::vector<float> predictions(const keras::Model& model) {
  return model.predict(data().first, {.verbose = 0}).leaf().to_vector<float>();
}

void print(const char* what, const std::vector<float>& values) {
  std::printf("%s:", what);
  for (float value : values) std::printf(" %.7g", static_cast<double>(value));
  std::printf("\n");
}

int report(const std::string& path) {
  const auto [x, y] = data();
  const keras::Model model = keras::load_model(path);
  print("predictions", predictions(model));
  for (const auto& [name, value] : model.evaluate(x, y, {.batch_size = 16, .verbose = 0})) {
    std::printf("%s: %.7g\n", name.c_str(), static_cast<double>(value));
  }
  const keras::FitOptions options{
      .batch_size = 4, .epochs = 1, .verbose = 0, .validation_data = {x[{0, 5}], y[{0, 5}]}, .shuffle = false};
  const keras::History history = model.fit(x, y, options);
  for (const char* name : {"size", "val_size"})
    std::printf("%s of the epoch: %.7g\n", name, static_cast<double>(history[name][0]));
  print("trained", predictions(model));
  return 0;
}

int save_and_load() {
  ls::random::set_random_seed(7);
  const auto [x, y] = data();
  const Regressor subclassed(4);
  compile(subclassed);
  subclassed.fit(x, y, {.batch_size = 4, .epochs = 2, .verbose = 0});
  subclassed.save("custom_classes.keras");

  const auto inputs = ls::layers::Input({3});
  const auto scale = keras::make_layer<Scale>(0.25);
  scale->set_trainable(false);
  const keras::Model functional(inputs, ls::layers::Dense(1)(scale(inputs)));
  compile(functional);
  functional.fit(x, y, {.batch_size = 4, .epochs = 2, .verbose = 0});
  functional.save("custom_classes.h5");

  bool same = true;
  for (const auto& [path, model] : {std::pair<const char*, const keras::Model*>{"custom_classes.keras", &subclassed},
                                    {"custom_classes.h5", &functional}}) {
    const keras::Model loaded = keras::load_model(path);
    const bool equal = predictions(loaded) == predictions(*model) &&
                       loaded.trainable_weights().size() == model->trainable_weights().size();
    std::printf("%s, loaded again, computes the same: %s\n", path, equal ? "yes" : "NO");
    same = same && equal;
  }
  return same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return argc > 1 ? report(argv[1]) : save_and_load();
} catch (const ls::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
