#include "lockstep/keras/losses/losses.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/keras/losses/ctc.h"
#include "lockstep/keras/losses/function_loss_internal.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::keras {

template <>
struct FieldType<losses::ClassFactors> {
  static constexpr bool kTakesNull = false;
  static std::string name() { return "number or list of numbers"; }
  static bool read(const Json& found, losses::ClassFactors& v) {
    return FieldType<std::vector<double>>::read(found, v.values) && !v.values.empty();
  }
  static Json write(const losses::ClassFactors& v) { return v.values.size() == 1 ? Json(v.values[0]) : Json(v.values); }
};

}  // namespace lockstep::keras

namespace lockstep::losses {
namespace {

using keras::Field;

// Keras does not write it, so that it loads another loss: ours is written unless it is the default.
template <typename T>
Field forgotten(const T& value, const T& otherwise) {
  return value == otherwise ? Field::kUnwritten : Field::kOptional;
}

// The arguments of each loss except reduction and name, in the order of Keras's config.
void own_fields(auto&, LossOptions&) {}
void own_fields(auto& v, BinaryCrossentropyOptions& o) {
  v("from_logits", o.from_logits);
  v("label_smoothing", keras::null_read_as(o.label_smoothing, 0));
  v("axis", o.axis);
}
void own_fields(auto& v, BinaryFocalCrossentropyOptions& o) {
  v("from_logits", o.from_logits);
  v("label_smoothing", keras::null_read_as(o.label_smoothing, 0));
  v("axis", o.axis);
  v("apply_class_balancing", o.apply_class_balancing);
  v("alpha", keras::null_unless(o.apply_class_balancing, o.alpha));
  v("gamma", o.gamma);
}
void own_fields(auto& v, CategoricalFocalCrossentropyOptions& o) {
  v("from_logits", o.from_logits);
  v("label_smoothing", keras::null_read_as(o.label_smoothing, 0));
  v("axis", o.axis);
  v("alpha", o.alpha);
  v("gamma", o.gamma);
}
void own_fields(auto& v, CategoricalGeneralizedCrossEntropyOptions& o) { v("q", o.q); }
void own_fields(auto& v, SparseCategoricalCrossentropyOptions& o) {
  v("from_logits", o.from_logits);
  v("ignore_class", o.ignore_class);
  v("axis", o.axis, forgotten(o.axis, SparseCategoricalCrossentropyOptions().axis));
}
void own_fields(auto& v, CircleOptions& o) {
  v("gamma", o.gamma);
  v("margin", o.margin);
  v("remove_diagonal", o.remove_diagonal);
}
void own_fields(auto& v, CosineSimilarityOptions& o) {
  v("axis", o.axis, forgotten<std::optional<keras::Ints>>(o.axis, CosineSimilarityOptions().axis));
}
void own_fields(auto& v, DiceOptions& o) { v("axis", o.axis); }
void own_fields(auto& v, HuberOptions& o) { v("delta", o.delta, forgotten(o.delta, HuberOptions().delta)); }
void own_fields(auto& v, TverskyOptions& o) {
  v("alpha", o.alpha);
  v("beta", o.beta);
  v("axis", o.axis);
}

// The fields of a loss other than name and reduction.
template <typename Options>
Json own_config(Options options) {
  Json config = Json::object();
  keras::FieldWriter writer(config);
  own_fields(writer, options);
  return config;
}

using MaskFunction = std::function<Tensor(const Tensor& y_true, const Tensor& y_pred, const Tensor& values)>;
using RowRule = std::function<bool(int rank)>;

// Whether what goes over these axes of y_pred, or over all, goes over the rows of the batch.
RowRule over_axes(const ops::Axes& axes) {
  return [axes](int rank) {
    return !axes || std::any_of(axes->begin(), axes->end(), [rank](std::int64_t a) { return a == 0 || a == -rank; });
  };
}

// A loss is a function of (y_true, y_pred), the rows that it goes over, and the fields of its config other than name
// and reduction.
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
  // As Keras's LossFunctionWrapper: targets (batch,) and predictions (batch, 1) get the same rank.
  Tensor call(const Tensor& y_true, const Tensor& y_pred) const override {
    const auto [y, p] = squeeze_or_expand_to_same_rank(y_true, y_pred);
    return function_(y, p);
  }
  bool mixes_rows(int rank) const override { return mixes_ && mixes_(rank); }
  bool keeps_rows(int rank) const override { return mixes_ && !mixes_(rank); }
  Json get_config() const override {
    Json config = Loss::get_config();
    for (const auto& [key, value] : extra_.items()) config[key] = value;
    return config;
  }
  bool given_as_function() const { return given_as_function_; }
  void set_given_as_function() { given_as_function_ = true; }

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
  bool given_as_function_ = false;
};

std::string name_or(const std::string& given, const char* otherwise) { return given.empty() ? otherwise : given; }

LossPtr plain(const char* class_name, const char* name, const LossOptions& options,
              Tensor (*function)(const Tensor&, const Tensor&)) {
  return std::make_shared<FunctionLoss>(class_name, name_or(options.name, name), options.reduction, function,
                                        over_axes(-1));
}

// Every value but those of one class, in the shape of the values.
MaskFunction mask_of_class(std::int64_t ignored) {
  return [ignored](const Tensor& y_true, const Tensor&, const Tensor& values) {
    const Tensor labels = ops::cast(y_true, DType::kInt64);
    return ops::reshape(ops::not_equal(labels, static_cast<double>(ignored)), ops::shape_of(values));
  };
}

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
      [axis = o.axis](const Tensor& y, const Tensor& p) { return cosine_similarity(y, p, axis); }, over_axes(o.axis),
      own_config(o));
}

LossPtr Huber(HuberOptions o) {
  return std::make_shared<FunctionLoss>(
      "Huber", name_or(o.name, "huber_loss"), o.reduction,
      [delta = o.delta](const Tensor& y, const Tensor& p) { return huber(y, p, delta); }, over_axes(-1), own_config(o));
}

LossPtr BinaryCrossentropy(BinaryCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return binary_crossentropy(y, p, o.from_logits, o.label_smoothing, o.axis);
  };
  return std::make_shared<FunctionLoss>("BinaryCrossentropy", name_or(o.name, "binary_crossentropy"), o.reduction,
                                        function, over_axes(o.axis), own_config(o));
}

LossPtr BinaryFocalCrossentropy(BinaryFocalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return binary_focal_crossentropy(y, p, o.apply_class_balancing, o.alpha, o.gamma, o.from_logits, o.label_smoothing,
                                     o.axis);
  };
  return std::make_shared<FunctionLoss>("BinaryFocalCrossentropy", name_or(o.name, "binary_focal_crossentropy"),
                                        o.reduction, function, over_axes(o.axis), own_config(o));
}

LossPtr CategoricalCrossentropy(CategoricalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return categorical_crossentropy(y, p, o.from_logits, o.label_smoothing, o.axis);
  };
  return std::make_shared<FunctionLoss>("CategoricalCrossentropy", name_or(o.name, "categorical_crossentropy"),
                                        o.reduction, function, over_axes(o.axis), own_config(o));
}

LossPtr CategoricalFocalCrossentropy(CategoricalFocalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return categorical_focal_crossentropy(y, p, o.alpha, o.gamma, o.from_logits, o.label_smoothing, o.axis);
  };
  return std::make_shared<FunctionLoss>("CategoricalFocalCrossentropy",
                                        name_or(o.name, "categorical_focal_crossentropy"), o.reduction, function,
                                        over_axes(o.axis), own_config(o));
}

LossPtr CategoricalGeneralizedCrossEntropy(CategoricalGeneralizedCrossEntropyOptions o) {
  return std::make_shared<FunctionLoss>(
      "CategoricalGeneralizedCrossEntropy", name_or(o.name, "categorical_generalized_cross_entropy"), o.reduction,
      [q = o.q](const Tensor& y, const Tensor& p) { return categorical_generalized_cross_entropy(y, p, q); },
      over_axes(-1), own_config(o));
}

LossPtr SparseCategoricalCrossentropy(SparseCategoricalCrossentropyOptions o) {
  const auto function = [o](const Tensor& y, const Tensor& p) {
    return sparse_categorical_crossentropy(y, p, o.from_logits, o.ignore_class, o.axis);
  };
  // Keras 3.15 does not write the axis.
  return std::make_shared<FunctionLoss>(
      "SparseCategoricalCrossentropy", name_or(o.name, "sparse_categorical_crossentropy"), o.reduction, function,
      over_axes(o.axis), own_config(o), o.ignore_class ? mask_of_class(*o.ignore_class) : MaskFunction());
}

LossPtr Dice(DiceOptions o) {
  return std::make_shared<FunctionLoss>(
      "Dice", name_or(o.name, "dice"), o.reduction,
      [axis = o.axis](const Tensor& y, const Tensor& p) { return dice(y, p, axis); }, over_axes(o.axis), own_config(o));
}

LossPtr Tversky(TverskyOptions o) {
  return std::make_shared<FunctionLoss>(
      "Tversky", name_or(o.name, "tversky"), o.reduction,
      [o](const Tensor& y, const Tensor& p) { return tversky(y, p, o.alpha, o.beta, o.axis); }, over_axes(o.axis),
      own_config(o));
}

LossPtr Circle(CircleOptions o) {
  return std::make_shared<FunctionLoss>(
      "Circle", name_or(o.name, "circle"), o.reduction,
      [o](const Tensor& y, const Tensor& p) { return circle(y, p, o.remove_diagonal, o.gamma, o.margin); },
      over_axes(std::nullopt), own_config(o),
      [](const Tensor&, const Tensor&, const Tensor& values) { return ops::greater(values, 0.0); });
}

namespace {

// A registered function, which files name.
class RegisteredFunctionLoss : public FunctionLoss {
 public:
  RegisteredFunctionLoss(const std::string& registered_name, LossFunction function)
      : FunctionLoss("function", registered_name.substr(registered_name.find('>') + 1), "sum_over_batch_size",
                     std::move(function), nullptr),
        registered_name_(registered_name) {}
  Json get_config() const override { return registered_name_; }

 private:
  std::string registered_name_;
};

}  // namespace

LossPtr from_function(LossFunction function, std::string name, std::string_view reduction) {
  return std::make_shared<FunctionLoss>(name, name, std::string(reduction), std::move(function), nullptr);
}

namespace {

LossPtr made_of_function(LossFunction function) {
  using Pointer = Loss::KerasFunction*;
  static constexpr std::pair<Pointer, const char*> kNamed[] = {
      {mean_squared_error, "mean_squared_error"},
      {mean_absolute_error, "mean_absolute_error"},
      {mean_absolute_percentage_error, "mean_absolute_percentage_error"},
      {mean_squared_logarithmic_error, "mean_squared_logarithmic_error"},
      {log_cosh, "log_cosh"},
      {hinge, "hinge"},
      {squared_hinge, "squared_hinge"},
      {categorical_hinge, "categorical_hinge"},
      {kl_divergence, "kl_divergence"},
      {poisson, "poisson"},
      {cosine_similarity, "cosine_similarity"},
      {huber, "huber"},
      {binary_crossentropy, "binary_crossentropy"},
      {binary_focal_crossentropy, "binary_focal_crossentropy"},
      {categorical_crossentropy, "categorical_crossentropy"},
      {categorical_focal_crossentropy, "categorical_focal_crossentropy"},
      {sparse_categorical_crossentropy, "sparse_categorical_crossentropy"},
      {dice, "dice"},
      {tversky, "tversky"},
      {circle, "circle"}};
  if (const Pointer* const pointer = function.target<Pointer>()) {
    for (const auto& [known, name] : kNamed) {
      // The class has another name than the function.
      if (*pointer == known) return *pointer == Pointer{huber} ? Huber({.name = name}) : get(name);
    }
  }
  if (const std::string name = keras::function_name(function); !name.empty())
    return std::make_shared<RegisteredFunctionLoss>(name, std::move(function));
  return from_function(std::move(function), "<lambda>");
}

LossPtr marked_as_function(LossPtr loss) {
  if (const auto made = std::dynamic_pointer_cast<FunctionLoss>(std::shared_ptr<Loss>(loss)))
    made->set_given_as_function();
  return loss;
}

}  // namespace

LossPtr Loss::of_function(LossFunction function) { return marked_as_function(made_of_function(std::move(function))); }

bool is_function(const Loss& loss) {
  const auto* made = dynamic_cast<const FunctionLoss*>(&loss);
  return made && made->given_as_function();
}

// All arguments. A null reduction is Keras's "none".
template <typename V, typename Options>
requires requires(Options o) { o.reduction; }
void fields(V& v, Options& o) {
  own_fields(v, o);
  v("reduction", keras::NullAs{o.reduction, "none"});
  v("name", keras::NullAs{o.name, ""});
  v.dropped("dtype");
  v.dropped("fn");  // what the Keras 2 of saving format 3 writes
}

const keras::ClassFamily<Loss>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<Loss>("loss", "keras.losses", keras::ClassNames::kSnakeCase);
    t->add<BinaryCrossentropyOptions>("BinaryCrossentropy", {"bce", "BCE"}, BinaryCrossentropy);
    t->add<BinaryFocalCrossentropyOptions>("BinaryFocalCrossentropy", {}, BinaryFocalCrossentropy);
    t->add<LossOptions>("CTC", {}, CTC);
    t->add<CategoricalCrossentropyOptions>("CategoricalCrossentropy", {}, CategoricalCrossentropy);
    t->add<CategoricalFocalCrossentropyOptions>("CategoricalFocalCrossentropy", {}, CategoricalFocalCrossentropy);
    t->add<CategoricalGeneralizedCrossEntropyOptions>("CategoricalGeneralizedCrossEntropy", {},
                                                      CategoricalGeneralizedCrossEntropy);
    t->add<LossOptions>("CategoricalHinge", {}, CategoricalHinge);
    t->add<CircleOptions>("Circle", {}, Circle);
    t->add<CosineSimilarityOptions>("CosineSimilarity", {}, CosineSimilarity);
    t->add<DiceOptions>("Dice", {}, Dice);
    t->add<LossOptions>("Hinge", {}, Hinge);
    t->add<HuberOptions>("Huber", {"huber_loss"}, Huber);
    t->add<LossOptions>("KLDivergence", {"kl_divergence", "kld", "KLD", "kullback_leibler_divergence"}, KLDivergence);
    t->add<LossOptions>("LogCosh", {"logcosh"}, LogCosh);
    t->add<LossOptions>("MeanAbsoluteError", {"mae", "MAE"}, MeanAbsoluteError);
    t->add<LossOptions>("MeanAbsolutePercentageError", {"mape", "MAPE"}, MeanAbsolutePercentageError);
    t->add<LossOptions>("MeanSquaredError", {"mse", "MSE"}, MeanSquaredError);
    t->add<LossOptions>("MeanSquaredLogarithmicError", {"msle", "MSLE"}, MeanSquaredLogarithmicError);
    t->add<LossOptions>("Poisson", {}, Poisson);
    t->add<SparseCategoricalCrossentropyOptions>("SparseCategoricalCrossentropy", {}, SparseCategoricalCrossentropy);
    t->add<LossOptions>("SquaredHinge", {}, SquaredHinge);
    t->add<TverskyOptions>("Tversky", {}, Tversky);
    return t;
  }();
  return *table;
}

LossFunction find_function(std::string_view name) {
  if (!classes().contains(name)) return nullptr;
  const LossPtr loss = classes().make(std::string(name));
  return [loss](const Tensor& y_true, const Tensor& y_pred) { return loss->call(y_true, y_pred); };
}

LossPtr deserialize(const Json& config) {
  LossPtr made = classes().deserialize(config, [](Loss& own, const Json& base) { own.set_base_config(base); });
  const bool function = config.is_object() && config.value("class_name", Json()) == Json("function");
  return function ? marked_as_function(std::move(made)) : made;
}

LossPtr get(const LossArg& identifier) {
  if (const Json* config = identifier.config()) return deserialize(*config);
  return classes().get(identifier);
}

Json serialize(const LossPtr& loss) {
  // Keras's own functions; registered ones name themselves.
  if (loss && is_function(*loss) && loss->class_name() != "function" && find_function(loss->name()))
    return keras::serialize_object("builtins", "function", loss->name(), true, typeid(*loss), Json());
  return classes().serialize(loss, loss ? loss->Loss::get_config() : Json());
}

}  // namespace lockstep::losses
