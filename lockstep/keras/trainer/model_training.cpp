// The training methods of keras::Model, which hand over to the model's trainer.
#include "lockstep/keras/models/model.h"

namespace lockstep::keras {

Trainer& Model::trainer() const { return Trainer::of(*impl()); }

void Model::compile(CompileOptions options) const { trainer().compile(std::move(options)); }
bool Model::compiled() const { return trainer().compiled(); }

std::shared_ptr<History> Model::fit(const Structure& x, const Structure& y, FitOptions options) const {
  return trainer().fit(x, y, std::move(options));
}
std::shared_ptr<History> Model::fit(const data::Dataset& dataset, FitOptions options) const {
  return trainer().fit(dataset, std::move(options));
}
Results Model::evaluate(const Structure& x, const Structure& y, EvaluateOptions options) const {
  return trainer().evaluate(x, y, std::move(options));
}
Results Model::evaluate(const data::Dataset& dataset, EvaluateOptions options) const {
  return trainer().evaluate(dataset, std::move(options));
}
Structure Model::predict(const Structure& x, PredictOptions options) const {
  return trainer().predict(x, std::move(options));
}
Structure Model::predict(const data::Dataset& dataset, PredictOptions options) const {
  return trainer().predict(dataset, std::move(options));
}
Results Model::train_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight) const {
  return trainer().train_on_batch(x, y, sample_weight);
}
Results Model::test_on_batch(const Structure& x, const Structure& y, const Structure& sample_weight) const {
  return trainer().test_on_batch(x, y, sample_weight);
}
Structure Model::predict_on_batch(const Structure& x) const { return trainer().predict_on_batch(x); }
const optimizers::OptimizerPtr& Model::optimizer() const { return trainer().optimizer(); }

Results Model::train_step(const Batch& batch) { return trainer().train_step(batch); }
Results Model::test_step(const Batch& batch) { return trainer().test_step(batch); }
Structure Model::predict_step(const Batch& batch) { return trainer().predict_step(batch); }

}  // namespace lockstep::keras
