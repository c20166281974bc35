// Knowledge distillation: a small model learns from the labels and from the predictions of a larger one.
#include "guide.h"

namespace {

namespace keras = lockstep::keras;
namespace layers = lockstep::keras::layers;
namespace kops = lockstep::keras::ops;

class Distiller : public keras::Model {
 public:
  Distiller(const keras::Model& student, const keras::Model& teacher)
      : teacher(track("teacher", teacher)), student(track("student", student)) {}
  keras::Model teacher, student;

  void compile(const keras::optimizers::OptimizerPtr& optimizer, const std::vector<keras::metrics::MetricPtr>& metrics,
               const keras::losses::LossPtr& student_loss_fn, const keras::losses::LossPtr& distillation_loss_fn,
               double alpha = 0.1, double temperature = 3) {
    Model::compile({.optimizer = optimizer, .metrics = metrics});
    student_loss_fn_ = student_loss_fn;
    distillation_loss_fn_ = distillation_loss_fn;
    alpha_ = alpha;
    temperature_ = temperature;
  }

  ls::Tensor compute_loss(const keras::Structure& x, const keras::Structure& y, const keras::Structure& y_pred,
                          const keras::Structure&) const override {
    const auto teacher_pred = teacher(x, {.training = false});
    const auto student_loss = student_loss_fn_(y, y_pred);
    const auto distillation_loss = distillation_loss_fn_(kops::softmax(teacher_pred / temperature_, {.axis = 1}),
                                                         kops::softmax(y_pred / temperature_, {.axis = 1})) *
                                   std::pow(temperature_, 2);
    const auto loss = alpha_ * student_loss + (1 - alpha_) * distillation_loss;
    return loss;
  }

  keras::Structure call(const keras::Structure& x) override { return student(x); }

 private:
  keras::losses::LossPtr student_loss_fn_, distillation_loss_fn_;
  double alpha_ = 0.1, temperature_ = 3;
};

}  // namespace

void distillation(const std::string& folder) {
  keras::utils::set_random_seed(33);
  keras::Sequential teacher(
      {
          keras::Input({8, 8, 1}),
          layers::Conv2D(8, {3, 3}, {.strides = {2, 2}, .padding = "same"}),
          layers::LeakyReLU({.negative_slope = 0.2}),
          layers::MaxPooling2D({.pool_size = {2, 2}, .strides = {1, 1}, .padding = "same"}),
          layers::Conv2D(12, {3, 3}, {.strides = {2, 2}, .padding = "same"}),
          layers::Flatten(),
          layers::Dense(5),
      },
      {.name = "teacher"});
  keras::Sequential student(
      {
          keras::Input({8, 8, 1}),
          layers::Conv2D(4, {3, 3}, {.strides = {2, 2}, .padding = "same"}),
          layers::LeakyReLU({.negative_slope = 0.2}),
          layers::Flatten(),
          layers::Dense(5),
      },
      {.name = "student"});
  auto student_scratch = keras::models::clone_model(student);
  student_scratch.set_weights(student.get_weights());

  const auto x_train = waves({32, 8, 8, 1}, 0.3), y_train = labels(32, 5, 3);
  teacher.compile({.optimizer = keras::optimizers::Adam(),
                   .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {keras::metrics::SparseCategoricalAccuracy()}});
  auto history = teacher.fit(x_train, y_train, {.batch_size = 8, .epochs = 3, .verbose = 0});
  for (const auto& value : history.history["loss"]) report("teacher_loss", value);

  Distiller distiller(student, teacher);
  distiller.compile(keras::optimizers::Adam(), {keras::metrics::SparseCategoricalAccuracy()},
                    keras::losses::SparseCategoricalCrossentropy({.from_logits = true}), keras::losses::KLDivergence(),
                    0.1, 10);
  history = distiller.fit(x_train, y_train, {.batch_size = 8, .epochs = 2, .verbose = 0});
  for (const auto& name : ls::sorted(history.history))
    for (const auto& value : history.history[name]) report(name, value);
  for (const auto& [name, value] : distiller.evaluate(x_train, y_train, {.verbose = 0})) report("distilled", value);

  // The same student without a teacher.
  student_scratch.compile({.optimizer = keras::optimizers::Adam(),
                           .loss = keras::losses::SparseCategoricalCrossentropy({.from_logits = true}),
                           .metrics = {keras::metrics::SparseCategoricalAccuracy()}});
  history = student_scratch.fit(x_train, y_train, {.batch_size = 8, .epochs = 2, .verbose = 0});
  for (const auto& value : history.history["loss"]) report("scratch_loss", value);
  report("student_params", static_cast<double>(student.count_params()));
  report("teacher_params", static_cast<double>(teacher.count_params()));
  student.save(folder + "/model.keras");
}
