// keras.constraints: projections of weights after each update.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/keras/handle.h"
#include "lockstep/keras/numbers.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::constraints {

class ConstraintPtr;

class Constraint {
 public:
  using KerasFamily = Constraint;
  // The projection of the updated weight.
  using KerasFunction = Tensor(const Tensor&);
  static ConstraintPtr of_function(std::function<KerasFunction> function);
  virtual ~Constraint() = default;
  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  virtual Tensor operator()(const Tensor& w) const = 0;
  // Whether the projection of each row of a weight of this rank depends on that row alone, so that parameter servers
  // may keep the weight in shards.
  virtual bool is_per_row(int rank) const {
    static_cast<void>(rank);
    return false;
  }
  // The constructor's arguments.
  virtual Json get_config() const { return Json::object(); }
};

// A handle of a constraint, which functions return and take.
class ConstraintPtr : public keras::Handle<Constraint> {
 public:
  using Handle::Handle;
  Tensor operator()(const Tensor& w) const { return object()(w); }
  Json get_config() const { return object().get_config(); }
};
using ConstraintArg = keras::ObjectArg<Constraint>;

// From "max_norm", "MaxNorm", …, a config or an object; null for none. Throws InvalidArgument for an
// unknown name.
ConstraintPtr get(const ConstraintArg& identifier);
Json serialize(const ConstraintPtr& constraint);

using keras::Axes;

ConstraintPtr MaxNorm(double max_value = 2, Axes axis = 0);  // w · clip(‖w‖, 0, max) / (1e-7 + ‖w‖)
// w · (rate · clip(‖w‖, min, max) + (1 - rate) · ‖w‖) / (1e-7 + ‖w‖)
ConstraintPtr MinMaxNorm(double min_value = 0.0, double max_value = 1.0, double rate = 1.0, Axes axis = 0);
ConstraintPtr NonNeg();                 // max(w, 0)
ConstraintPtr UnitNorm(Axes axis = 0);  // w / (1e-7 + ‖w‖)

}  // namespace lockstep::constraints
