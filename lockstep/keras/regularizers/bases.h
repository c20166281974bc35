// Keras's regularizers as classes, to derive from.
//
//   class Halved : public regularizers::L2 {
//    public:
//     using L2::L2;
//     Tensor operator()(const Tensor& x) const override { return L2::operator()(x) / 2; }
//   };
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors: using L2::L2.
#pragma once

#include <concepts>
#include <utility>

#include "lockstep/keras/regularizers/regularizers.h"

namespace lockstep::regularizers {

// Forwards each call to the built-in regularizer that it contains.
class BuiltInRegularizer : public Regularizer {
 public:
  Tensor operator()(const Tensor& x) const override { return built_in_(x); }
  Json get_config() const override { return built_in_.get_config(); }

 protected:
  explicit BuiltInRegularizer(RegularizerPtr built_in) : built_in_(std::move(built_in)) {}
  BuiltInRegularizer(const char* class_name, const Json& config);
  // Keras's own object: regularizers::L2::from_config({{"l2", 0.1}}).
  static RegularizerPtr of_class(const char* class_name, const Json& config);

 private:
  const RegularizerPtr built_in_;
};

#define LOCKSTEP_BASE(Name, parameters, arguments)                                            \
  class Name : public BuiltInRegularizer {                                                    \
   public:                                                                                    \
    explicit Name parameters : BuiltInRegularizer(regularizers::Name arguments) {}            \
    template <std::same_as<keras::detail::ConfigOnly> Config>                                 \
    explicit Name(const Config& config) : BuiltInRegularizer(#Name, config.config) {}         \
    static RegularizerPtr from_config(const Json& config) { return of_class(#Name, config); } \
  };
LOCKSTEP_BASE(L1, (double l1 = 0.01), (l1))
LOCKSTEP_BASE(L2, (double l2 = 0.01), (l2))
LOCKSTEP_BASE(L1L2, (double l1 = 0.0, double l2 = 0.0), (l1, l2))
LOCKSTEP_BASE(OrthogonalRegularizer, (double factor = 0.01, std::string mode = "rows"), (factor, std::move(mode)))
#undef LOCKSTEP_BASE

}  // namespace lockstep::regularizers
