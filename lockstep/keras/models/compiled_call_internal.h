// Functional models outside of training as programs: their layers are traced once, as for a SavedModel, and the trace
// runs as those do.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/keras/layers/layer.h"

namespace lockstep::graph {
class Executable;
}

namespace lockstep::keras {

class CompiledCall {
 public:
  CompiledCall();
  ~CompiledCall();

  // The results of `layers` for `inputs`, with their masks and logits. Nothing where the layers have to be called: a
  // tape or a trace records, several replicas run, a layer is not one of Keras's or regularizes its activity, an input
  // has a mask, or programs lack an operation. Thread-safe.
  std::optional<std::vector<Tensor>> run(const Layer& model, const std::vector<Tensor>& inputs,
                                         const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& layers);

 private:
  struct Trace {
    std::shared_ptr<graph::Executable> executable;
    Tensors captures;
    std::vector<int> mask_of, logits_of;  // the number of a result's mask and logits among the results; -1: none
  };
  using TracePtr = std::shared_ptr<const Trace>;  // null: the layers have to be called
  TracePtr trace_of(const Layer& model, const std::vector<Tensor>& inputs,
                    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& layers);

  std::mutex mutex_;
  std::optional<bool> fits_;                // whether all layers are of kinds that can be traced
  std::uint64_t changes_ = 0;               // changed_layers() when the traces were made
  std::map<std::string, TracePtr> traces_;  // by the dtypes and shapes of inputs, whatever the batch size
};

}  // namespace lockstep::keras
