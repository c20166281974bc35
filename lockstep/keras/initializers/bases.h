// Keras's initializers as classes, to derive from.
//
//   class Scaled : public initializers::GlorotUniform {
//    public:
//     Tensor operator()(const Shape& shape, DType dtype) const override {
//       return GlorotUniform::operator()(shape, dtype) * 0.1;
//     }
//   };
//
// An object of a registered class without a get_config() of its own is read again where the class inherits the
// constructors: using GlorotUniform::GlorotUniform.
#pragma once

#include <concepts>
#include <utility>

#include "lockstep/keras/initializers/initializers.h"

namespace lockstep::initializers {

// Forwards each call to the built-in initializer that it contains.
class BuiltInInitializer : public Initializer {
 public:
  Tensor operator()(const Shape& shape, DType dtype = DType::kFloat32) const override {
    return built_in_(shape, dtype);
  }
  Json get_config() const override { return built_in_.get_config(); }

 protected:
  explicit BuiltInInitializer(InitializerPtr built_in) : built_in_(std::move(built_in)) {}
  BuiltInInitializer(const char* class_name, const Json& config);
  // Keras's own object: initializers::RandomNormal::from_config({{"stddev", 0.1}}).
  static InitializerPtr of_class(const char* class_name, const Json& config);

 private:
  const InitializerPtr built_in_;
};

#define LOCKSTEP_BASE(Name, parameters, arguments)                                            \
  class Name : public BuiltInInitializer {                                                    \
   public:                                                                                    \
    explicit Name parameters : BuiltInInitializer(initializers::Name arguments) {}            \
    template <std::same_as<keras::detail::ConfigOnly> Config>                                 \
    explicit Name(const Config& config) : BuiltInInitializer(#Name, config.config) {}         \
    static InitializerPtr from_config(const Json& config) { return of_class(#Name, config); } \
  };
LOCKSTEP_BASE(VarianceScaling, (VarianceScalingOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlorotUniform, (FanOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(GlorotNormal, (FanOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(HeUniform, (FanOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(HeNormal, (FanOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(LecunUniform, (FanOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(LecunNormal, (FanOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomNormal, (RandomNormalOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(TruncatedNormal, (RandomNormalOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(RandomUniform, (RandomUniformOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Orthogonal, (OrthogonalOptions options = {}), (std::move(options)))
LOCKSTEP_BASE(Identity, (double gain = 1.0), (gain))
LOCKSTEP_BASE(Zeros, (), ())
LOCKSTEP_BASE(Ones, (), ())
LOCKSTEP_BASE(Constant, (double value = 0.0), (value))
LOCKSTEP_BASE(STFT, (StftOptions options = {}), (std::move(options)))
#undef LOCKSTEP_BASE

}  // namespace lockstep::initializers
