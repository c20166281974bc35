// keras.regularizers: penalties on weights and activities.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/keras/handle.h"
#include "lockstep/keras/serialization.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::regularizers {

class RegularizerPtr;

class Regularizer {
 public:
  using KerasFamily = Regularizer;
  // The penalty of a tensor.
  using KerasFunction = Tensor(const Tensor&);
  static RegularizerPtr of_function(std::function<KerasFunction> function);
  virtual ~Regularizer() = default;
  // By default the name of the C++ class.
  virtual std::string class_name() const { return keras::unqualified_name(typeid(*this)); }
  // The penalty of x, a differentiable scalar of x's dtype.
  virtual Tensor operator()(const Tensor& x) const = 0;
  // The constructor's arguments.
  virtual Json get_config() const { return Json::object(); }
};

// A handle of a regularizer, which functions return and take.
class RegularizerPtr : public keras::Handle<Regularizer> {
 public:
  using Handle::Handle;
  Tensor operator()(const Tensor& x) const { return object()(x); }
  Json get_config() const { return object().get_config(); }
};
using RegularizerArg = keras::ObjectArg<Regularizer>;

// From "l1", "l2", "l1l2", "orthogonal_regularizer", class names, configs (Keras 2's L1L2 too) or an
// object; null for none. Throws InvalidArgument for an unknown name.
RegularizerPtr get(const RegularizerArg& identifier);
Json serialize(const RegularizerPtr& regularizer);

RegularizerPtr L1(double l1 = 0.01);  // l1 · Σ|x|
RegularizerPtr L2(double l2 = 0.01);  // l2 · Σx²
RegularizerPtr L1L2(double l1 = 0.0, double l2 = 0.0);
inline RegularizerPtr l1(double l1 = 0.01) { return L1(l1); }
inline RegularizerPtr l2(double l2 = 0.01) { return L2(l2); }
inline RegularizerPtr l1_l2(double l1 = 0.0, double l2 = 0.0) { return L1L2(l1, l2); }
// factor · ½ · Σ|off-diagonal cosines| / (n (n - 1) / 2) of the rows or columns of a matrix.
RegularizerPtr OrthogonalRegularizer(double factor = 0.01, std::string mode = "rows");

}  // namespace lockstep::regularizers
