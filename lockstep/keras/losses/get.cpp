// Names and configs of losses.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/losses/losses.h"
#include "lockstep/keras/naming_internal.h"

namespace lockstep::losses {
namespace {

using keras::ConfigReader;

// A null reduction is Keras's "none"; a missing one the default.
template <typename Options>
Options read_common(const ConfigReader& c) {
  Options o;
  if (c.contains("reduction")) o.reduction = c.has("reduction") ? c.string("reduction", "") : "none";
  o.name = c.string("name", "");
  if constexpr (requires { o.from_logits; }) o.from_logits = c.boolean("from_logits", false);
  if constexpr (requires { o.label_smoothing; }) o.label_smoothing = c.number("label_smoothing", 0.0);
  if constexpr (requires {
                  o.axis = 1;
                  o.axis + 1;
                })
    o.axis = static_cast<int>(c.integer("axis", -1));
  if constexpr (requires { o.alpha; }) o.alpha = c.number("alpha", o.alpha);
  if constexpr (requires { o.beta; }) o.beta = c.number("beta", o.beta);
  if constexpr (requires { o.gamma; }) o.gamma = c.number("gamma", o.gamma);
  if constexpr (requires { o.margin; }) o.margin = c.number("margin", o.margin);
  if constexpr (requires { o.delta; }) o.delta = c.number("delta", o.delta);
  if constexpr (requires { o.q; }) o.q = c.number("q", o.q);
  if constexpr (requires { o.remove_diagonal; }) o.remove_diagonal = c.boolean("remove_diagonal", true);
  if constexpr (requires { o.apply_class_balancing; }) {
    o.apply_class_balancing = c.boolean("apply_class_balancing", false);
  }
  if constexpr (requires { o.ignore_class; }) o.ignore_class = c.integer("ignore_class");
  if constexpr (requires { o.axis->size(); }) {
    const Json& axis = c.raw("axis");
    if (axis.is_number_integer()) o.axis = {axis.get<std::int64_t>()};
    if (axis.is_array()) o.axis = axis.get<std::vector<std::int64_t>>();
  }
  return o;
}

struct Row {
  const char* class_name;
  const char* function;              // its name as a function
  std::vector<const char*> aliases;  // other strings that get() takes
  LossPtr (*make)(const ConfigReader&);
};

#define LOCKSTEP_LOSS(Class, Options, function, ...)                                                       \
  Row {                                                                                                    \
#Class, function, {__VA_ARGS__ }, [](const ConfigReader& c) { return Class(read_common<Options>(c)); } \
  }

const std::vector<Row>& rows() {
  static const auto* rows = new std::vector<Row>{
      LOCKSTEP_LOSS(BinaryCrossentropy, BinaryCrossentropyOptions, "binary_crossentropy", "bce", "BCE"),
      LOCKSTEP_LOSS(BinaryFocalCrossentropy, BinaryFocalCrossentropyOptions, "binary_focal_crossentropy"),
      LOCKSTEP_LOSS(CategoricalCrossentropy, CategoricalCrossentropyOptions, "categorical_crossentropy"),
      LOCKSTEP_LOSS(CategoricalFocalCrossentropy, CategoricalFocalCrossentropyOptions,
                    "categorical_focal_crossentropy"),
      LOCKSTEP_LOSS(CategoricalGeneralizedCrossEntropy, CategoricalGeneralizedCrossEntropyOptions,
                    "categorical_generalized_cross_entropy"),
      LOCKSTEP_LOSS(CategoricalHinge, LossOptions, "categorical_hinge"),
      LOCKSTEP_LOSS(Circle, CircleOptions, "circle"),
      LOCKSTEP_LOSS(CosineSimilarity, CosineSimilarityOptions, "cosine_similarity"),
      LOCKSTEP_LOSS(Dice, DiceOptions, "dice"),
      LOCKSTEP_LOSS(Hinge, LossOptions, "hinge"),
      LOCKSTEP_LOSS(Huber, HuberOptions, "huber", "huber_loss"),
      LOCKSTEP_LOSS(KLDivergence, LossOptions, "kl_divergence", "kld", "KLD", "kullback_leibler_divergence"),
      LOCKSTEP_LOSS(LogCosh, LossOptions, "log_cosh", "logcosh"),
      LOCKSTEP_LOSS(MeanAbsoluteError, LossOptions, "mean_absolute_error", "mae", "MAE"),
      LOCKSTEP_LOSS(MeanAbsolutePercentageError, LossOptions, "mean_absolute_percentage_error", "mape", "MAPE"),
      LOCKSTEP_LOSS(MeanSquaredError, LossOptions, "mean_squared_error", "mse", "MSE"),
      LOCKSTEP_LOSS(MeanSquaredLogarithmicError, LossOptions, "mean_squared_logarithmic_error", "msle", "MSLE"),
      LOCKSTEP_LOSS(Poisson, LossOptions, "poisson"),
      LOCKSTEP_LOSS(SparseCategoricalCrossentropy, SparseCategoricalCrossentropyOptions,
                    "sparse_categorical_crossentropy"),
      LOCKSTEP_LOSS(SquaredHinge, LossOptions, "squared_hinge"),
      LOCKSTEP_LOSS(Tversky, TverskyOptions, "tversky"),
  };
  return *rows;
}
#undef LOCKSTEP_LOSS

bool answers_to(const Row& row, const std::string& name) {
  return name == row.class_name || name == row.function ||
         std::any_of(row.aliases.begin(), row.aliases.end(), [&](const char* alias) { return name == alias; });
}

LossPtr make(const std::string& name, const Json& config) {
  std::vector<std::string> known;
  for (const Row& row : rows()) {
    if (answers_to(row, name)) return row.make(ConfigReader(row.class_name, config));
    known.insert(known.end(), {row.function, row.class_name});
    known.insert(known.end(), row.aliases.begin(), row.aliases.end());
  }
  keras::throw_unknown_object("loss", name, known);
}

bool is_built_in(const std::string& name) {
  return std::any_of(rows().begin(), rows().end(), [&](const Row& row) { return answers_to(row, name); });
}

}  // namespace

LossFunction find_function(std::string_view name) {
  const std::string text(name);
  for (const Row& row : rows()) {
    if (!answers_to(row, text)) continue;
    const LossPtr loss = row.make(ConfigReader(row.class_name, Json::object()));
    return [loss](const Tensor& y_true, const Tensor& y_pred) { return loss->call(y_true, y_pred); };
  }
  return nullptr;
}

LossPtr deserialize(const Json& config) {
  if (config.is_string()) return make(config.get<std::string>(), Json::object());
  const auto object = keras::parse_object_config(config);
  if (!object) throw_invalid_argument(fmt::format("{} is not the config of a loss", dump_json(config)));
  if (auto made = keras::make_registered<Loss>(*object, is_built_in(object->class_name))) {
    made->set_base_config(object->config);
    return made;
  }
  if (object->class_name == "function" && object->config.is_string()) {
    return make(object->config.get<std::string>(), Json::object());
  }
  return make(object->class_name, object->config);
}

LossPtr get(const LossArg& identifier) {
  if (auto object = identifier.object()) return object;
  if (const std::string* name = identifier.name()) return make(*name, Json::object());
  if (const Json* config = identifier.config()) return deserialize(*config);
  return nullptr;
}

Json serialize(const LossPtr& loss) {
  if (!loss) return nullptr;
  return keras::serialize_object("keras.losses", loss->class_name(), loss->get_config(),
                                 is_built_in(loss->class_name()), typeid(*loss), loss->Loss::get_config());
}

}  // namespace lockstep::losses
