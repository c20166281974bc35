#include "lockstep/keras/optimizers/per_variable_internal.h"

namespace lockstep::optimizers {
namespace {

// Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018.
class AdafactorOptimizer : public PerVariableOptimizer {
 public:
  explicit AdafactorOptimizer(AdafactorOptions options)
      : PerVariableOptimizer("Adafactor", common_options(options)), options_(std::move(options)) {}
  std::string class_name() const override { return "Adafactor"; }
  Json get_config() const override { return keras::with_own_fields(base_config(), options_); }

 private:
  void create_slots() override {
    for (std::size_t i = 0; i < trainable_.size(); ++i) {
      const Shape& shape = trainable_[i]->shape();
      const std::string path = trainable_[i]->path();
      if (shape.rank() < 2) {
        // Keras keeps two integers where the factors would be.
        rows_.push_back(add_variable(Shape{}, DType::kInt32, name() + "/" + path + "_r"));
        columns_.push_back(add_variable(Shape{}, DType::kInt32, name() + "/" + path + "_c"));
      } else {
        std::vector<std::int64_t> row = shape.dims(), column = shape.dims();
        row.pop_back();
        column.erase(column.end() - 2);
        rows_.push_back(add_variable(Shape(row), trainable_[i]->dtype(), name() + "/" + path + "_r"));
        columns_.push_back(add_variable(Shape(column), trainable_[i]->dtype(), name() + "/" + path + "_c"));
      }
      velocities_.push_back(add_slot(i, "velocity"));
    }
  }

  static Tensor rms(const Tensor& x) { return ops::sqrt(ops::reduce_mean(ops::gradient_square(x))); }

  void update_one(std::size_t index, Tensor& w, const Tensor& g, const Step& step) override {
    const float t = static_cast<float>(step.t);
    float rate = step.learning_rate;
    const bool scheduled = common().learning_rate.schedule() != nullptr;
    if (options_.relative_step && !scheduled) rate = std::min(rate, 1.0f / std::sqrt(t));
    const double rho = std::min(rate, 1.0f / std::sqrt(t));
    const double beta_2 = 1.0f - std::pow(t, static_cast<float>(options_.beta_2_decay));
    if (w.rank() >= 2 && !ops::slices_of(g) && ops::fusable(w, g)) {
      ops::make_writable(w);
      return ops::update_by_norms(
          {w, g, {writable(rows_[index]), writable(columns_[index]), writable(velocities_[index])}},
          ops::AdafactorRule{static_cast<float>(rho), static_cast<float>(beta_2),
                             static_cast<float>(options_.epsilon_1), static_cast<float>(options_.epsilon_2),
                             static_cast<float>(options_.clip_threshold)});
    }
    const Tensor alpha = ops::maximum(rms(w), options_.epsilon_2) * rho;
    const Tensor squares = ops::gradient_square(g) + options_.epsilon_1;
    Tensor& v = velocities_[index]->shared_value();
    if (w.rank() >= 2) {
      Tensor& r = rows_[index]->shared_value();
      Tensor& c = columns_[index]->shared_value();
      r = r * beta_2 + ops::reduce_mean(squares, ops::Ints{-1}) * (1.0 - beta_2);
      c = c * beta_2 + ops::reduce_mean(squares, ops::Ints{-2}) * (1.0 - beta_2);
      const Tensor scaled = r / ops::reduce_mean(r, ops::Ints{-1}, true);
      v = ops::expand_dims(scaled, -1) * ops::expand_dims(c, -2);
    } else {
      v = v * beta_2 + squares * (1.0 - beta_2);
    }
    const Tensor u = ops::gradient_times(g, 1.0 / ops::sqrt(v));
    const Tensor clipped = u / ops::maximum(rms(u) / options_.clip_threshold, 1.0);
    w = w - alpha * clipped;
  }

  AdafactorOptions options_;
  Variables rows_, columns_, velocities_;
};

}  // namespace

OptimizerPtr Adafactor(AdafactorOptions options) { return std::make_shared<AdafactorOptimizer>(std::move(options)); }

}  // namespace lockstep::optimizers
