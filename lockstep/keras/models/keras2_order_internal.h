// Models of Keras 2: the order of their layers, whose graphs have no operations that compute masks, and their version.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {

class ModelImpl;

// While an object of it exists, this thread makes functional models with their layers in the order of Keras 2, and gets
// the layers of other functional models in that order.
class Keras2Order {
 public:
  explicit Keras2Order(bool active = true);
  ~Keras2Order();
  Keras2Order(const Keras2Order&) = delete;
  Keras2Order& operator=(const Keras2Order&) = delete;
  static bool active();

 private:
  bool previous_;
};

using OperationDepths = std::unordered_map<const Operation*, int>;

// Depths without the operations that only compute masks; `finished` is as GraphWalk gives it.
OperationDepths depths_in_keras2(const std::vector<std::shared_ptr<Node>>& finished, const Structure& outputs);

// The layers of a functional model that was made in the order of Keras 3.
std::vector<LayerPtr> in_order_of_keras2(std::vector<LayerPtr> layers, const Structure& inputs,
                                         const Structure& outputs);

// Makes a model, and the models within, compute and be written as that major version of Keras does.
void set_keras_version(ModelImpl& model, int major);

}  // namespace lockstep::keras
