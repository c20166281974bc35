#include "lockstep/keras/losses/losses.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::losses {
namespace {

using keras::ConfigReader;
using MaskFunction = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred, const Tensor& values)>;
using RowRule = std::function<bool(int rank)>;

// Whether what goes over these axes of y_pred, or over all, goes over the rows of the batch.
RowRule over_axes(const std::optional<std::vector<std::int64_t>>& axes) {
  return [axes](int rank) {
    return !axes || std::any_of(axes->begin(), axes->end(), [rank](std::int64_t a) { return a == 0 || a == -rank; });
  };
}
RowRule over_axis(std::int64_t axis) { return over_axes(std::vector<std::int64_t>{axis}); }

// A loss is a function of (y_true, y_pred), the rows that it goes over, and what its config says besides name and
// reduction.
class FunctionLoss : public Loss {
 public:
  FunctionLoss(std::string class_name, std::string name, const std::string& reduction, LossFunction function,
               RowRule mixes_rows, Json extra = Json::object(), MaskFunction mask = nullptr)
      : Loss(std::move(name), reduction),
        class_name_(std::move(class_name)),
        function_(std::move(function)),
        mixes_(std::move(mixes_rows)),
        extra_(std::move(extra)),
        mask_(std::move(mask)) {}

  std::string class_name() const override { return class_name_; }
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override { return function_(y_true, y_pred); }
  bool mixes_rows(int rank) const override { return mixes_ && mixes_(rank); }
  bool keeps_rows(int rank) const override { return mixes_ && !mixes_(rank); }
  Json get_config() const override {
    Json config = Loss::get_config();
    for (const auto& [key, value] : extra_.items()) config[key] = value;
    return config;
  }

 protected:
  Tensor valid_mask(const Tensor& y_true, const Tensor& y_pred, const Tensor& values) const override {
    return mask_ ? mask_(y_true, y_pred, values) : Tensor();
  }

 private:
  std::string class_name_;
  LossFunction function_;
  RowRule mixes_;  // null: not known
  Json extra_;
  MaskFunction mask_;
};

std::string name_or(const std::string& given, const char* otherwise) { return given.empty() ? otherwise : given; }

LossPtr plain(const char* class_name, const char* name, const LossOptions& options,
              Tensor (*function)(const Tensor&, const Tensor&)) {
  return std::make_shared<FunctionLoss>(class_name, name_or(options.name, name), options.reduction, function,
                                        over_axis(-1));
}

// Every value but those of one class, in the shape of the values.
MaskFunction mask_of_class(std::int64_t ignored) {
  return [ignored](const Tensor& y_true, const Tensor&, const Tensor& values) {
    const Tensor labels = ops::cast(y_true, DType::kInt64);
    return ops::reshape(ops::not_equal(labels, static_cast<double>(ignored)), ops::shape_of(values));
  };
}

Json axis_json(const std::optional<std::vector<std::int64_t>>& axis) { return axis ? Json(*axis) : Json(nullptr); }

}  // namespace

LossPtr MeanSquaredError(LossOptions o) {
  return plain("MeanSquaredError", "mean_squared_error", o, mean_squared_error);
}
LossPtr MeanAbsoluteError(LossOptions o) {
  return plain("MeanAbsoluteError", "mean_absolute_error", o, mean_absolute_error);
}
LossPtr MeanAbsolutePercentageError(LossOptions o) {
  return plain("MeanAbsolutePercentageError", "mean_absolute_percentage_error", o, mean_absolute_percentage_error);
}
LossPtr MeanSquaredLogarithmicError(LossOptions o) {
  return plain("MeanSquaredLogarithmicError", "mean_squared_logarithmic_error", o, mean_squared_logarithmic_error);
}
LossPtr LogCosh(LossOptions o) { return plain("LogCosh", "log_cosh", o, log_cosh); }
LossPtr Hinge(LossOptions o) { return plain("Hinge", "hinge", o, hinge); }
LossPtr SquaredHinge(LossOptions o) { return plain("SquaredHinge", "squared_hinge", o, squared_hinge); }
LossPtr CategoricalHinge(LossOptions o) { return plain("CategoricalHinge", "categorical_hinge", o, categorical_hinge); }
LossPtr KLDivergence(LossOptions o) { return plain("KLDivergence", "kl_divergence", o, kl_divergence); }
LossPtr Poisson(LossOptions o) { return plain("Poisson", "poisson", o, poisson); }

LossPtr CosineSimilarity(CosineSimilarityOptions o) {
  return std::make_shared<FunctionLoss>(
      "CosineSimilarity", name_or(o.name, "cosine_similarity"), o.reduction,
      [axis = o.axis](const Tensor& y, const Tensor& p) { return cosine_similarity(y, p, axis); }, over_axis(o.axis));
}

LossPtr Huber(HuberOptions o) {
  return std::make_shared<FunctionLoss>(
      "Huber", name_or(o.name, "huber_loss"), o.reduction,
      [delta = o.delta](const Tensor& y, const Tensor& p) { return huber(y, p, delta); }, over_axis(-1));
}

LossPtr BinaryCrossentropy(BinaryCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return binary_crossentropy(y, p, o.from_logits, o.label_smoothing, o.axis);
  };
  return std::make_shared<FunctionLoss>(
      "BinaryCrossentropy", name_or(o.name, "binary_crossentropy"), o.reduction, function, over_axis(o.axis),
      Json{{"from_logits", o.from_logits}, {"label_smoothing", o.label_smoothing}, {"axis", o.axis}});
}

LossPtr BinaryFocalCrossentropy(BinaryFocalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return binary_focal_crossentropy(y, p, o.apply_class_balancing, o.alpha, o.gamma, o.from_logits, o.label_smoothing,
                                     o.axis);
  };
  return std::make_shared<FunctionLoss>("BinaryFocalCrossentropy", name_or(o.name, "binary_focal_crossentropy"),
                                        o.reduction, function, over_axis(o.axis),
                                        Json{{"from_logits", o.from_logits},
                                             {"label_smoothing", o.label_smoothing},
                                             {"axis", o.axis},
                                             {"apply_class_balancing", o.apply_class_balancing},
                                             {"alpha", o.alpha},
                                             {"gamma", o.gamma}});
}

LossPtr CategoricalCrossentropy(CategoricalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return categorical_crossentropy(y, p, o.from_logits, o.label_smoothing, o.axis);
  };
  return std::make_shared<FunctionLoss>(
      "CategoricalCrossentropy", name_or(o.name, "categorical_crossentropy"), o.reduction, function, over_axis(o.axis),
      Json{{"from_logits", o.from_logits}, {"label_smoothing", o.label_smoothing}, {"axis", o.axis}});
}

LossPtr CategoricalFocalCrossentropy(CategoricalFocalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return categorical_focal_crossentropy(y, p, o.alpha, o.gamma, o.from_logits, o.label_smoothing, o.axis);
  };
  return std::make_shared<FunctionLoss>("CategoricalFocalCrossentropy",
                                        name_or(o.name, "categorical_focal_crossentropy"), o.reduction, function,
                                        over_axis(o.axis),
                                        Json{{"from_logits", o.from_logits},
                                             {"label_smoothing", o.label_smoothing},
                                             {"axis", o.axis},
                                             {"alpha", o.alpha},
                                             {"gamma", o.gamma}});
}

LossPtr CategoricalGeneralizedCrossEntropy(CategoricalGeneralizedCrossEntropyOptions o) {
  return std::make_shared<FunctionLoss>(
      "CategoricalGeneralizedCrossEntropy", name_or(o.name, "categorical_generalized_cross_entropy"), o.reduction,
      [q = o.q](const Tensor& y, const Tensor& p) { return categorical_generalized_cross_entropy(y, p, q); },
      over_axis(-1), Json{{"q", o.q}});
}

LossPtr SparseCategoricalCrossentropy(SparseCategoricalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return sparse_categorical_crossentropy(y, p, o.from_logits, o.ignore_class, o.axis);
  };
  // Keras 3.15 does not write the axis.
  const Json ignored = o.ignore_class ? Json(*o.ignore_class) : Json(nullptr);
  return std::make_shared<FunctionLoss>(
      "SparseCategoricalCrossentropy", name_or(o.name, "sparse_categorical_crossentropy"), o.reduction, function,
      over_axis(o.axis), Json{{"from_logits", o.from_logits}, {"ignore_class", ignored}},
      o.ignore_class ? mask_of_class(*o.ignore_class) : MaskFunction());
}

LossPtr Dice(DiceOptions o) {
  return std::make_shared<FunctionLoss>(
      "Dice", name_or(o.name, "dice"), o.reduction,
      [axis = o.axis](const Tensor& y, const Tensor& p) { return dice(y, p, axis); }, over_axes(o.axis),
      Json{{"axis", axis_json(o.axis)}});
}

LossPtr Tversky(TverskyOptions o) {
  return std::make_shared<FunctionLoss>(
      "Tversky", name_or(o.name, "tversky"), o.reduction,
      [o](const Tensor& y, const Tensor& p) { return tversky(y, p, o.alpha, o.beta, o.axis); }, over_axes(o.axis),
      Json{{"alpha", o.alpha}, {"beta", o.beta}, {"axis", axis_json(o.axis)}});
}

LossPtr Circle(CircleOptions o) {
  return std::make_shared<FunctionLoss>(
      "Circle", name_or(o.name, "circle"), o.reduction,
      [o](const Tensor& y, const Tensor& p) { return circle(y, p, o.remove_diagonal, o.gamma, o.margin); },
      over_axes(std::nullopt), Json{{"gamma", o.gamma}, {"margin", o.margin}, {"remove_diagonal", o.remove_diagonal}},
      [](const Tensor&, const Tensor&, const Tensor& values) { return ops::greater(values, 0.0); });
}

LossPtr from_function(LossFunction function, std::string name, std::string_view reduction) {
  return std::make_shared<FunctionLoss>(name, name, std::string(reduction), std::move(function), nullptr);
}

}  // namespace lockstep::losses
