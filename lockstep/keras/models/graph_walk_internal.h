// The order in which Keras lists the calls and operations of a functional model.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/keras/layers/keras_tensor.h"

namespace lockstep::keras {

// Walks backwards from outputs, depth first; operations are numbered when first met, calls are finished
// after their inputs. Without recursion, so that no depth of a graph exhausts the stack.
class GraphWalk {
 public:
  // Tensors at which the walk stops, by call and output number.
  using Stops = std::map<std::pair<const Node*, int>, Tensor>;

  std::vector<std::shared_ptr<Node>> finished(const Stops& stops, const Structure& outputs);

  std::unordered_map<const Operation*, int>& index_of() { return index_of_; }
  void keep(const OperationPtr& operation) { keep_.push_back(operation); }
  // Each operation met, once.
  std::vector<OperationPtr> operations() const {
    std::unordered_map<const Operation*, bool> seen;
    std::vector<OperationPtr> out;
    for (const OperationPtr& operation : keep_) {
      if (seen.try_emplace(operation.get(), true).second) out.push_back(operation);
    }
    return out;
  }

 private:
  std::unordered_map<const Operation*, int> index_of_;
  std::vector<OperationPtr> keep_;
};

}  // namespace lockstep::keras
