#include "lockstep/keras/regularizers/regularizers.h"

#include <fmt/format.h>
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::regularizers {
namespace {

using keras::ConfigReader;

// Keras keeps some factors as float32 tensors and writes them as such.
double through_float(double value) { return static_cast<double>(static_cast<float>(value)); }

void check_factor(const char* who, double factor) {
  if (!std::isfinite(factor) || factor < 0) {
    throw_invalid_argument(fmt::format("{}: the factor is {}, expected a finite number of 0 or more", who, factor));
  }
}

class L1Regularizer : public Regularizer {
 public:
  explicit L1Regularizer(double l1) : l1_(l1) { check_factor("L1", l1); }
  std::string class_name() const override { return "L1"; }
  Tensor operator()(const Tensor& x) const override { return ops::reduce_sum(ops::abs(x)) * l1_; }
  Json get_config() const override { return {{"l1", through_float(l1_)}}; }

 private:
  double l1_;
};

class L2Regularizer : public Regularizer {
 public:
  explicit L2Regularizer(double l2) : l2_(l2) { check_factor("L2", l2); }
  std::string class_name() const override { return "L2"; }
  Tensor operator()(const Tensor& x) const override { return ops::reduce_sum(ops::square(x)) * l2_; }
  Json get_config() const override { return {{"l2", l2_}}; }

 private:
  double l2_;
};

class L1L2Regularizer : public Regularizer {
 public:
  L1L2Regularizer(double l1, double l2) : l1_(l1), l2_(l2) {
    check_factor("L1L2", l1);
    check_factor("L1L2", l2);
  }
  std::string class_name() const override { return "L1L2"; }
  Tensor operator()(const Tensor& x) const override {
    Tensor penalty;
    if (l1_ != 0) penalty = ops::reduce_sum(ops::abs(x)) * l1_;
    if (l2_ != 0) {
      const Tensor squares = ops::reduce_sum(ops::square(x)) * l2_;
      penalty = penalty.defined() ? penalty + squares : squares;
    }
    return penalty.defined() ? penalty : ops::constant(0.0, x.dtype());
  }
  Json get_config() const override { return {{"l1", l1_}, {"l2", l2_}}; }

 private:
  double l1_, l2_;
};

class Orthogonality : public Regularizer {
 public:
  Orthogonality(double factor, std::string mode) : factor_(factor), mode_(std::move(mode)) {
    if (mode_ != "rows" && mode_ != "columns") {
      throw_invalid_argument(fmt::format("OrthogonalRegularizer: mode '{}', expected rows or columns", mode_));
    }
  }
  std::string class_name() const override { return "OrthogonalRegularizer"; }
  Tensor operator()(const Tensor& x) const override {
    if (x.rank() != 2) {
      throw_invalid_argument(fmt::format("OrthogonalRegularizer: an input of shape {} was given, expected two axes",
                                         x.shape().to_string()));
    }
    const bool rows = mode_ == "rows";
    const Tensor unit = ops::l2_normalize(x, ops::Ints{rows ? 1 : 0});
    const Tensor cosines = rows ? ops::matmul(unit, unit, false, true) : ops::matmul(unit, unit, true, false);
    const auto size = static_cast<double>(x.dim(rows ? 0 : 1));
    const Tensor strict_upper = cosines - ops::matrix_band_part(cosines, -1, 0);
    const Tensor strict_lower = cosines - ops::matrix_band_part(cosines, 0, -1);
    const Tensor off_diagonal = ops::reduce_sum(ops::abs(strict_upper + strict_lower));
    return off_diagonal * (factor_ * 0.5 / (size * (size - 1.0) / 2.0));
  }
  Json get_config() const override { return {{"factor", through_float(factor_)}, {"mode", mode_}}; }

 private:
  double factor_;
  std::string mode_;
};

const std::vector<std::string>& known_names() {
  static const std::vector<std::string> names = {"l1", "l2", "l1l2", "orthogonal_regularizer",
                                                 "L1", "L2", "L1L2", "OrthogonalRegularizer"};
  return names;
}

bool is_built_in(const std::string& name) {
  return std::find(known_names().begin(), known_names().end(), name) != known_names().end();
}

RegularizerPtr make(const std::string& name, const Json& json) {
  const ConfigReader config(name, json);
  if (name == "L1" || name == "l1") {
    config.refuse_unknown({"l1"});
    return L1(config.number("l1", 0.01));
  }
  if (name == "L2" || name == "l2") {
    config.refuse_unknown({"l2"});
    return L2(config.number("l2", 0.01));
  }
  if (name == "L1L2" || name == "l1l2" || name == "l1_l2" || name == "WeightRegularizer") {
    return L1L2(config.number("l1", 0.0), config.number("l2", 0.0));
  }
  if (name == "OrthogonalRegularizer" || name == "orthogonal_regularizer") {
    config.refuse_unknown({"factor", "mode"});
    return OrthogonalRegularizer(config.number("factor", 0.01), config.string("mode", "rows"));
  }
  keras::throw_unknown_object("regularizer", name, known_names());
}

}  // namespace

RegularizerPtr L1(double l1) { return std::make_shared<L1Regularizer>(l1); }
RegularizerPtr L2(double l2) { return std::make_shared<L2Regularizer>(l2); }
RegularizerPtr L1L2(double l1, double l2) { return std::make_shared<L1L2Regularizer>(l1, l2); }
RegularizerPtr OrthogonalRegularizer(double factor, std::string mode) {
  return std::make_shared<Orthogonality>(factor, std::move(mode));
}

RegularizerPtr get(const RegularizerArg& identifier) {
  if (auto object = identifier.object()) return object;
  if (const std::string* name = identifier.name()) return make(*name, Json::object());
  if (const Json* config = identifier.config()) {
    const auto object = keras::parse_object_config(*config);
    if (!object) throw_invalid_argument(fmt::format("{} is not the config of a regularizer", dump_json(*config)));
    if (auto made = keras::make_registered<Regularizer>(*object, is_built_in(object->class_name))) return made;
    return make(object->class_name, object->config);
  }
  return nullptr;
}

Json serialize(const RegularizerPtr& regularizer) {
  if (!regularizer) return nullptr;
  return keras::serialize_object("keras.regularizers", regularizer->class_name(), regularizer->get_config(),
                                 is_built_in(regularizer->class_name()), typeid(*regularizer));
}

}  // namespace lockstep::regularizers
