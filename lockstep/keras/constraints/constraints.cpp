#include "lockstep/keras/constraints/constraints.h"

#include <fmt/format.h>
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::constraints {
namespace {

using keras::ConfigReader;

constexpr double kEpsilon = 1e-7;

Tensor norms(const Tensor& w, const Axes& axis) {
  return ops::sqrt(ops::reduce_sum(ops::square(w), ops::Ints(axis), true));
}

Json axis_config(const Axes& axis) { return axis.size() == 1 ? Json(axis[0]) : Json(axis); }

Axes read_axis(const ConfigReader& config) {
  const Json& axis = config.raw("axis");
  if (axis.is_null()) return {0};
  if (axis.is_number_integer()) return {axis.get<std::int64_t>()};
  Axes axes;
  for (const Json& item : axis) {
    if (!item.is_number_integer()) {
      throw_invalid_argument(fmt::format("{}: 'axis' is {}, expected integers", config.class_name(), dump_json(axis)));
    }
    axes.push_back(item.get<std::int64_t>());
  }
  return axes;
}

class MaxNormConstraint : public Constraint {
 public:
  MaxNormConstraint(double max_value, Axes axis) : max_value_(max_value), axis_(std::move(axis)) {}
  std::string class_name() const override { return "MaxNorm"; }
  Tensor operator()(const Tensor& w) const override {
    const Tensor norm = norms(w, axis_);
    return w * (ops::clip_by_value(norm, 0.0, max_value_) / (norm + kEpsilon));
  }
  Json get_config() const override {
    const bool whole = max_value_ == std::floor(max_value_) && std::abs(max_value_) < 1e15;
    return {{"max_value", whole ? Json(static_cast<std::int64_t>(max_value_)) : Json(max_value_)},
            {"axis", axis_config(axis_)}};
  }

 private:
  double max_value_;
  Axes axis_;
};

class MinMaxNormConstraint : public Constraint {
 public:
  MinMaxNormConstraint(double min_value, double max_value, double rate, Axes axis)
      : min_value_(min_value), max_value_(max_value), rate_(rate), axis_(std::move(axis)) {}
  std::string class_name() const override { return "MinMaxNorm"; }
  Tensor operator()(const Tensor& w) const override {
    const Tensor norm = norms(w, axis_);
    const Tensor desired = ops::clip_by_value(norm, min_value_, max_value_) * rate_ + norm * (1.0 - rate_);
    return w * (desired / (norm + kEpsilon));
  }
  Json get_config() const override {
    return {{"min_value", min_value_}, {"max_value", max_value_}, {"rate", rate_}, {"axis", axis_config(axis_)}};
  }

 private:
  double min_value_, max_value_, rate_;
  Axes axis_;
};

class NonNegConstraint : public Constraint {
 public:
  std::string class_name() const override { return "NonNeg"; }
  Tensor operator()(const Tensor& w) const override { return ops::maximum(w, 0.0); }
  Json get_config() const override { return Json::object(); }
};

class UnitNormConstraint : public Constraint {
 public:
  explicit UnitNormConstraint(Axes axis) : axis_(std::move(axis)) {}
  std::string class_name() const override { return "UnitNorm"; }
  Tensor operator()(const Tensor& w) const override { return w / (norms(w, axis_) + kEpsilon); }
  Json get_config() const override { return {{"axis", axis_config(axis_)}}; }

 private:
  Axes axis_;
};

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = {"max_norm", "min_max_norm", "non_neg", "unit_norm",
                                                 "MaxNorm",  "MinMaxNorm",   "NonNeg",  "UnitNorm"};
  return names;
}

bool is_built_in(const std::string& name) {
  return std::find(known_names().begin(), known_names().end(), name) != known_names().end();
}

ConstraintPtr make(const std::string& name, const Json& json) {
  const ConfigReader config(name, json);
  if (name == "MaxNorm" || name == "max_norm" || name == "maxnorm") {
    return MaxNorm(config.number(config.has("m") ? "m" : "max_value", 2), read_axis(config));
  }
  if (name == "MinMaxNorm" || name == "min_max_norm") {
    return MinMaxNorm(config.number("min_value", 0.0), config.number("max_value", 1.0), config.number("rate", 1.0),
                      read_axis(config));
  }
  if (name == "NonNeg" || name == "non_neg" || name == "nonneg") return NonNeg();
  if (name == "UnitNorm" || name == "unit_norm" || name == "unitnorm") return UnitNorm(read_axis(config));
  keras::throw_unknown_object("constraint", name, known_names());
}

}  // namespace

ConstraintPtr MaxNorm(double max_value, Axes axis) {
  return std::make_shared<MaxNormConstraint>(max_value, std::move(axis));
}
ConstraintPtr MinMaxNorm(double min_value, double max_value, double rate, Axes axis) {
  return std::make_shared<MinMaxNormConstraint>(min_value, max_value, rate, std::move(axis));
}
ConstraintPtr NonNeg() { return std::make_shared<NonNegConstraint>(); }
ConstraintPtr UnitNorm(Axes axis) { return std::make_shared<UnitNormConstraint>(std::move(axis)); }

ConstraintPtr get(const ConstraintArg& identifier) {
  if (auto object = identifier.object()) return object;
  if (const std::string* name = identifier.name()) return make(*name, Json::object());
  if (const Json* config = identifier.config()) {
    const auto object = keras::parse_object_config(*config);
    if (!object) throw_invalid_argument(fmt::format("{} is not the config of a constraint", dump_json(*config)));
    if (auto made = keras::make_registered<Constraint>(*object, is_built_in(object->class_name))) return made;
    return make(object->class_name, object->config);
  }
  return nullptr;
}

Json serialize(const ConstraintPtr& constraint) {
  if (!constraint) return nullptr;
  return keras::serialize_object("keras.constraints", constraint->class_name(), constraint->get_config(),
                                 is_built_in(constraint->class_name()), typeid(*constraint));
}

}  // namespace lockstep::constraints
