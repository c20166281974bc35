#include "lockstep/keras/regularizers/regularizers.h"

#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::regularizers {
namespace {

struct L1Options {
  double l1 = 0.01;
};
template <typename V>
void fields(V& v, L1Options& o) {
  v("l1", keras::null_read_as(o.l1, 0.01));
}

struct L2Options {
  double l2 = 0.01;
};
template <typename V>
void fields(V& v, L2Options& o) {
  v("l2", keras::null_read_as(o.l2, 0.01));
}

struct L1L2Options {
  double l1 = 0.0;
  double l2 = 0.0;
};
template <typename V>
void fields(V& v, L1L2Options& o) {
  v("l1", keras::null_read_as(o.l1, 0));
  v("l2", keras::null_read_as(o.l2, 0));
  v.dropped("name");
}

struct OrthogonalOptions {
  double factor = 0.01;
  std::string mode = "rows";
};
template <typename V>
void fields(V& v, OrthogonalOptions& o) {
  v("factor", o.factor);
  v("mode", o.mode);
}

// Keras keeps some factors as float32 tensors and writes them as such.
double through_float(double value) { return static_cast<double>(static_cast<float>(value)); }

// Keras converts the factors to the dtype of x, so fractions of them do not count if that is an integer.
double factor_for(const Tensor& x, double value) { return is_floating(x.dtype()) ? value : std::trunc(value); }

Tensor to_floating(const Tensor& x) { return is_floating(x.dtype()) ? x : ops::cast(x, DType::kFloat32); }

void check_factor(const char* who, double factor) {
  if (!std::isfinite(factor) || factor < 0) {
    throw_invalid_argument(fmt::format("{}: the factor is {}, expected a finite number of 0 or more", who, factor));
  }
}

class L1Regularizer : public Regularizer {
 public:
  explicit L1Regularizer(double l1) : options_{l1} { check_factor("L1", l1); }
  std::string class_name() const override { return "L1"; }
  Tensor operator()(const Tensor& x) const override {
    return ops::reduce_sum(ops::abs(to_floating(x))) * factor_for(x, options_.l1);
  }
  Json get_config() const override { return keras::with_fields({}, L1Options{through_float(options_.l1)}); }

 private:
  L1Options options_;
};

class L2Regularizer : public Regularizer {
 public:
  explicit L2Regularizer(double l2) : options_{l2} { check_factor("L2", l2); }
  std::string class_name() const override { return "L2"; }
  Tensor operator()(const Tensor& x) const override {
    return ops::reduce_sum(ops::square(to_floating(x))) * factor_for(x, options_.l2);
  }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  L2Options options_;
};

class L1L2Regularizer : public Regularizer {
 public:
  L1L2Regularizer(double l1, double l2) : options_{l1, l2} {
    check_factor("L1L2", l1);
    check_factor("L1L2", l2);
  }
  std::string class_name() const override { return "L1L2"; }
  Tensor operator()(const Tensor& x) const override {
    const Tensor values = to_floating(x);
    const double l1 = factor_for(x, options_.l1), l2 = factor_for(x, options_.l2);
    Tensor penalty;
    if (l1 != 0) penalty = ops::reduce_sum(ops::abs(values)) * l1;
    if (l2 != 0) {
      const Tensor squares = ops::reduce_sum(ops::square(values)) * l2;
      penalty = penalty.defined() ? penalty + squares : squares;
    }
    return penalty.defined() ? penalty : ops::constant(0.0, values.dtype());
  }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  L1L2Options options_;
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
    const Tensor unit = ops::unit_vectors(x, ops::Ints{rows ? 1 : 0});
    const Tensor cosines = rows ? ops::matmul(unit, unit, false, true) : ops::matmul(unit, unit, true, false);
    const auto size = static_cast<double>(x.dim(rows ? 0 : 1));
    const Tensor strict_upper = cosines - ops::matrix_band_part(cosines, -1, 0);
    const Tensor strict_lower = cosines - ops::matrix_band_part(cosines, 0, -1);
    const Tensor off_diagonal = ops::reduce_sum(ops::abs(strict_upper + strict_lower));
    return off_diagonal * (factor_ * 0.5 / (size * (size - 1.0) / 2.0));
  }
  Json get_config() const override { return keras::with_fields({}, OrthogonalOptions{through_float(factor_), mode_}); }

 private:
  double factor_;
  std::string mode_;
};

}  // namespace

RegularizerPtr L1(double l1) { return std::make_shared<L1Regularizer>(l1); }
RegularizerPtr L2(double l2) { return std::make_shared<L2Regularizer>(l2); }
RegularizerPtr L1L2(double l1, double l2) { return std::make_shared<L1L2Regularizer>(l1, l2); }
RegularizerPtr OrthogonalRegularizer(double factor, std::string mode) {
  return std::make_shared<Orthogonality>(factor, std::move(mode));
}

const keras::ClassFamily<Regularizer>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<Regularizer>("regularizer", "keras.regularizers", keras::ClassNames::kSnakeCase);
    t->add<L1Options>("L1", {}, [](const L1Options& o) { return L1(o.l1); });
    t->add<L2Options>("L2", {}, [](const L2Options& o) { return L2(o.l2); });
    t->add<L1L2Options>("L1L2", {"l1l2", "l1_l2", "WeightRegularizer"},
                        [](const L1L2Options& o) { return L1L2(o.l1, o.l2); });
    t->add<OrthogonalOptions>("OrthogonalRegularizer", {},
                              [](const OrthogonalOptions& o) { return OrthogonalRegularizer(o.factor, o.mode); });
    return t;
  }();
  return *table;
}

RegularizerPtr Regularizer::of_function(std::function<KerasFunction> function) {
  return std::make_shared<keras::FunctionObject<Regularizer>>(std::move(function));
}

RegularizerPtr get(const RegularizerArg& identifier) { return classes().get(identifier); }

Json serialize(const RegularizerPtr& regularizer) { return classes().serialize(regularizer); }

}  // namespace lockstep::regularizers
