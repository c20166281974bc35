// Keras's constraints as classes, to derive from.
//
//   class Centered : public constraints::MaxNorm {
//    public:
//     using MaxNorm::MaxNorm;
//     Tensor operator()(const Tensor& w) const override { return MaxNorm::operator()(w - ops::reduce_mean(w)); }
//   };
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors: using MaxNorm::MaxNorm.
#pragma once

#include <concepts>
#include <utility>

#include "lockstep/keras/constraints/constraints.h"

namespace lockstep::constraints {

// Forwards each call to the built-in constraint that it contains.
class BuiltInConstraint : public Constraint {
 public:
  Tensor operator()(const Tensor& w) const override { return built_in_(w); }
  Json get_config() const override { return built_in_.get_config(); }

 protected:
  explicit BuiltInConstraint(ConstraintPtr built_in) : built_in_(std::move(built_in)) {}
  BuiltInConstraint(const char* class_name, const Json& config);
  // Keras's own object: constraints::MaxNorm::from_config({{"max_value", 1.0}}).
  static ConstraintPtr of_class(const char* class_name, const Json& config);

 private:
  const ConstraintPtr built_in_;
};

#define LOCKSTEP_BASE(Name, parameters, arguments)                                           \
  class Name : public BuiltInConstraint {                                                    \
   public:                                                                                   \
    explicit Name parameters : BuiltInConstraint(constraints::Name arguments) {}             \
    template <std::same_as<keras::detail::ConfigOnly> Config>                                \
    explicit Name(const Config& config) : BuiltInConstraint(#Name, config.config) {}         \
    static ConstraintPtr from_config(const Json& config) { return of_class(#Name, config); } \
  };
LOCKSTEP_BASE(MaxNorm, (double max_value = 2, Axes axis = 0), (max_value, std::move(axis)))
LOCKSTEP_BASE(MinMaxNorm, (double min_value = 0.0, double max_value = 1.0, double rate = 1.0, Axes axis = 0),
              (min_value, max_value, rate, std::move(axis)))
LOCKSTEP_BASE(NonNeg, (), ())
LOCKSTEP_BASE(UnitNorm, (Axes axis = 0), (std::move(axis)))
#undef LOCKSTEP_BASE

}  // namespace lockstep::constraints
