// Forecasting of a time series: windows of a dataset, a baseline, a linear, a dense, a convolutional and a recurrent
// model.
#include "guide.h"

namespace {

namespace keras = ls::keras;
namespace layers = ls::layers;
namespace ops = ls::ops;

constexpr int kWidth = 6;

// Windows of kWidth steps, and the steps that follow each of theirs, of the first column.
ls::data::Dataset make_dataset(const ls::Tensor& data, bool shuffle) {
  const auto split_window = [data](const ls::Tensor& start) {
    const auto window = ops::slice(data, ops::stack({start, ls::Tensor::scalar(0)}), {kWidth + 1, -1});
    const auto inputs = window[{0, kWidth}];
    const auto targets = ops::slice_axis(window[{1, kWidth + 1}], 1, 0, 1);
    return ls::data::Element{inputs, targets};
  };

  auto dataset = ls::data::Dataset::range(data.dim(0) - kWidth).map([=](const ls::Tensor& start) {
    return split_window(ops::cast(start, ls::DType::kInt32));
  });
  if (shuffle) dataset = dataset.shuffle(100);
  return dataset.batch(8);
}

class Baseline : public keras::Model {
 public:
  keras::Structure call(const keras::Structure& inputs) override { return ops::slice_axis(inputs, 2, 0, 1); }
};

// Predicts the change since the last step.
class ResidualWrapper : public keras::Model {
 public:
  explicit ResidualWrapper(const keras::Model& model) : model_(model) { track("model", model.impl()); }
  keras::Structure call(const keras::Structure& inputs) override {
    const ls::Tensor delta = model_(inputs);
    return ops::slice_axis(inputs, 2, 0, 1) + delta;
  }

 private:
  keras::Model model_;
};

}  // namespace

void time_series(const std::string& folder) {
  ls::random::set_random_seed(32);
  const auto series = ops::stack({waves({120}, 0.3), waves({120}, 0.11), waves({120}, 0.47) * 2.0 + 1.0}, 1);
  auto train_df = series[{0, 84}], val_df = series[{84, 120}];
  const auto [train_mean, train_variance] = ops::moments(train_df, 0);
  train_df = (train_df - train_mean) / ops::sqrt(train_variance);
  val_df = (val_df - train_mean) / ops::sqrt(train_variance);

  const auto train = make_dataset(train_df, true), val = make_dataset(val_df, false);
  for (const auto& [inputs, targets] : val.take(1)) {
    report("inputs", ops::reduce_sum(inputs));
    report("targets", ops::reduce_sum(targets));
  }

  const auto compile_and_fit = [&](const std::string& name, const keras::Model& model, int patience = 1) {
    const auto early_stopping =
        ls::callbacks::EarlyStopping({.monitor = "val_loss", .patience = patience, .mode = "min"});
    model.compile({.optimizer = ls::optimizers::Adam(0.01),
                   .loss = ls::losses::MeanSquaredError(),
                   .metrics = {ls::metrics::MeanAbsoluteError()}});
    const auto history =
        model.fit(train, {.epochs = 3, .verbose = 0, .callbacks = {early_stopping}, .validation_data = val});
    for (const auto& value : history["loss"]) report(name + "_loss", value);
    report(name + "_mae", model.evaluate(val, {.verbose = 0})["mean_absolute_error"]);
  };

  Baseline baseline;
  baseline.compile({.loss = ls::losses::MeanSquaredError(), .metrics = {ls::metrics::MeanAbsoluteError()}});
  report("baseline", baseline.evaluate(val, {.verbose = 0})["mean_absolute_error"]);

  keras::Sequential linear({layers::Dense(1)});
  compile_and_fit("linear", linear);
  keras::Sequential dense({
      layers::Dense(8, {.activation = "relu"}),
      layers::Dense(8, {.activation = "relu"}),
      layers::Dense(1),
  });
  compile_and_fit("dense", dense);
  keras::Sequential conv({
      layers::Conv1D(8, 3, {.activation = "relu", .padding = "causal"}),
      layers::Dense(8, {.activation = "relu"}),
      layers::Dense(1),
  });
  compile_and_fit("conv", conv);
  ResidualWrapper residual_lstm(keras::Sequential({
      layers::LSTM(8, {.return_sequences = true}),
      layers::Dense(1, {.kernel_initializer = ls::initializers::Zeros()}),
  }));
  compile_and_fit("residual_lstm", residual_lstm);
  keras::Sequential lstm_model({
      layers::LSTM(8, {.return_sequences = true}),
      layers::Dense(1),
  });
  compile_and_fit("lstm", lstm_model);
  lstm_model.save(folder + "/model.keras");
}
