#include "lockstep/keras/constraints/constraints.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/backend.h"
#include "lockstep/keras/class_tables_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::constraints {
namespace {

using keras::backend::epsilon;

// No axes: the whole weight.
Tensor norms(const Tensor& w, const Axes& axis) {
  const Tensor squares = ops::square(w);
  return ops::sqrt(axis.empty() ? ops::reduce_sum(squares, std::nullopt, true)
                                : ops::reduce_sum(squares, ops::Ints(axis), true));
}

bool leaves_rows_apart(const Axes& axes, int rank) {
  return !axes.empty() &&
         std::none_of(axes.begin(), axes.end(), [&](std::int64_t axis) { return axis == 0 || axis == -rank; });
}

struct MaxNormOptions {
  double max_value = 2;
  Axes axis = 0;
};
template <typename V>
void fields(V& v, MaxNormOptions& o) {
  v.renamed("m", "max_value", o.max_value);
  v("max_value", keras::WholeIfPossible{o.max_value});
  v("axis", keras::NullAs{o.axis});
  v.dropped("name");
}

struct MinMaxNormOptions {
  double min_value = 0.0;
  double max_value = 1.0;
  double rate = 1.0;
  Axes axis = 0;
};
template <typename V>
void fields(V& v, MinMaxNormOptions& o) {
  v("min_value", o.min_value);
  v("max_value", o.max_value);
  v("rate", o.rate);
  v("axis", keras::NullAs{o.axis});
  v.dropped("name");
}

struct UnitNormOptions {
  Axes axis = 0;
};
template <typename V>
void fields(V& v, UnitNormOptions& o) {
  v("axis", keras::NullAs{o.axis});
  v.dropped("name");
}

struct NonNegOptions {};
template <typename V>
void fields(V& v, NonNegOptions&) {
  v.dropped("name");
}

class MaxNormConstraint : public Constraint {
 public:
  explicit MaxNormConstraint(MaxNormOptions options) : options_(std::move(options)) {}
  std::string class_name() const override { return "MaxNorm"; }
  Tensor operator()(const Tensor& w) const override {
    const Tensor norm = norms(w, options_.axis);
    return w * (ops::clip_by_value(norm, 0.0, options_.max_value) / (norm + epsilon()));
  }
  bool is_per_row(int rank) const override { return leaves_rows_apart(options_.axis, rank); }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  MaxNormOptions options_;
};

class MinMaxNormConstraint : public Constraint {
 public:
  explicit MinMaxNormConstraint(MinMaxNormOptions options) : options_(std::move(options)) {}
  std::string class_name() const override { return "MinMaxNorm"; }
  Tensor operator()(const Tensor& w) const override {
    const Tensor norm = norms(w, options_.axis);
    const double rate = options_.rate;
    const Tensor desired =
        ops::clip_by_value(norm, options_.min_value, options_.max_value) * rate + norm * (1.0 - rate);
    return w * (desired / (norm + epsilon()));
  }
  bool is_per_row(int rank) const override { return leaves_rows_apart(options_.axis, rank); }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  MinMaxNormOptions options_;
};

class NonNegConstraint : public Constraint {
 public:
  std::string class_name() const override { return "NonNeg"; }
  bool is_per_row(int) const override { return true; }
  Tensor operator()(const Tensor& w) const override { return ops::maximum(w, 0.0); }
  Json get_config() const override { return Json::object(); }
};

class UnitNormConstraint : public Constraint {
 public:
  explicit UnitNormConstraint(UnitNormOptions options) : options_(std::move(options)) {}
  std::string class_name() const override { return "UnitNorm"; }
  Tensor operator()(const Tensor& w) const override { return w / (norms(w, options_.axis) + epsilon()); }
  bool is_per_row(int rank) const override { return leaves_rows_apart(options_.axis, rank); }
  Json get_config() const override { return keras::with_fields({}, options_); }

 private:
  UnitNormOptions options_;
};

struct RadialOptions {};
template <typename V>
void fields(V& v, RadialOptions&) {
  v.dropped("name");
}

// RadialConstraint of Keras 2: elements of a square kernel (n, n, channels, filters) at the same distance from the
// center are equal. As in Keras 2, the innermost ring gets the value of the diagonal element before the center, and in
// a kernel of odd size each further ring gets the value of the ring inside it.
class RadialConstraint : public Constraint {
 public:
  std::string class_name() const override { return "RadialConstraint"; }
  Tensor operator()(const Tensor& w) const override {
    const std::int64_t n = w.rank() == 4 ? w.dim(0) : 0;
    if (n < 2 || w.dim(1) != n) {
      throw_invalid_argument(fmt::format(
          "RadialConstraint: found a weight of shape {}, expected (n, n, channels, filters) with n at least 2",
          w.shape().to_string()));
    }
    const std::int64_t middle = n / 2, odd = n % 2;
    const auto ring = [&](std::int64_t i) { return i < middle ? middle - (odd ? 0 : 1) - i : i - middle; };
    std::vector<std::int64_t> places;
    for (std::int64_t y = 0; y < n; ++y) {
      for (std::int64_t x = 0; x < n; ++x) {
        const std::int64_t distance = std::max(ring(y), ring(x));
        const std::int64_t on_diagonal = distance == 0 ? middle - 1 : middle + distance - odd;
        places.push_back(on_diagonal * (n + 1));
      }
    }
    const Tensor rows = ops::reshape(w, {n * n, -1});
    return ops::reshape(ops::gather(rows, Tensor::from_vector(places), 0), w.shape());
  }
  Json get_config() const override { return Json::object(); }
};

}  // namespace

ConstraintPtr MaxNorm(double max_value, Axes axis) {
  return std::make_shared<MaxNormConstraint>(MaxNormOptions{max_value, std::move(axis)});
}
ConstraintPtr MinMaxNorm(double min_value, double max_value, double rate, Axes axis) {
  return std::make_shared<MinMaxNormConstraint>(MinMaxNormOptions{min_value, max_value, rate, std::move(axis)});
}
ConstraintPtr NonNeg() { return std::make_shared<NonNegConstraint>(); }
ConstraintPtr UnitNorm(Axes axis) { return std::make_shared<UnitNormConstraint>(UnitNormOptions{std::move(axis)}); }

const keras::ClassFamily<Constraint>& classes() {
  static const auto* table = [] {
    auto* t = new keras::ClassFamily<Constraint>("constraint", "keras.constraints", keras::ClassNames::kSnakeCase);
    t->add<MaxNormOptions>("MaxNorm", {"maxnorm"}, [](MaxNormOptions o) { return MaxNorm(o.max_value, o.axis); });
    t->add<MinMaxNormOptions>("MinMaxNorm", {},
                              [](MinMaxNormOptions o) { return MinMaxNorm(o.min_value, o.max_value, o.rate, o.axis); });
    t->add<NonNegOptions>("NonNeg", {"nonneg"}, [](NonNegOptions) { return NonNeg(); });
    t->add<RadialOptions>("RadialConstraint", {}, [](RadialOptions) { return std::make_shared<RadialConstraint>(); });
    t->add<UnitNormOptions>("UnitNorm", {"unitnorm"}, [](UnitNormOptions o) { return UnitNorm(o.axis); });
    return t;
  }();
  return *table;
}

ConstraintPtr Constraint::of_function(std::function<KerasFunction> function) {
  return std::make_shared<keras::FunctionObject<Constraint>>(std::move(function));
}

ConstraintPtr get(const ConstraintArg& identifier) { return classes().get(identifier); }

Json serialize(const ConstraintPtr& constraint) { return classes().serialize(constraint); }

}  // namespace lockstep::constraints
