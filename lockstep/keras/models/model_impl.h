// The shared implementations behind keras::Model handles.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/base/mutex.h"
#include "lockstep/keras/layers/layer.h"

namespace lockstep::distribute {
class Strategy;
}

namespace lockstep::keras {

class CompiledCall;
class GraphWalk;
class Model;
class ModelImpl;
class Trainer;
using ModelPtr = std::shared_ptr<ModelImpl>;

// A layer that contains layers and can be trained and saved.
class ModelImpl : public Layer {
 public:
  ModelImpl(std::string class_name, Layer::Options options);
  ~ModelImpl() override;

  // Keras's model.layers, in its order. InputLayers are among a functional model's, not a Sequential's.
  virtual std::vector<LayerPtr> layers() const = 0;
  std::vector<LayerPtr> sublayers() const override { return layers(); }
  // Layers and operations as Keras lists them in a summary and in a functional config.
  virtual std::vector<OperationPtr> operations() const;
  bool supports_masking() const override { return true; }
  bool uses_mask() const override { return true; }
  TrainingArgument training_argument() const override { return TrainingArgument::kOptional; }
  std::vector<std::string> call_parameters() const override { return {"inputs", "training", "mask"}; }
  bool takes_any_keyword() const override { return true; }

  // Of functional models and built Sequentials: their symbolic inputs and outputs. Throws
  // FailedPrecondition for others.
  virtual const Structure& inputs() const;
  virtual const Structure& outputs() const;
  virtual bool is_functional() const { return false; }  // a graph of its own, as functional models have
  virtual bool is_sequential() const { return false; }
  virtual bool is_subclassed() const { return false; }

  // The state of compile() and fit(), created at first use.
  Trainer& trainer() const;
  // The variables of a compiled model's built optimizer; empty without one.
  std::vector<VariablePtr> optimizer_variables() const;

  // The object of a class derived from Model whose call(), train_step(), metrics() and the like belong to this model.
  // Of several copies it is the one that was used last. Null where the model is held by plain Models only.
  Model* object() const;

  // The major version of Keras whose file the model was read from; 3 for a model that was not read.
  int keras_version() const { return keras_version_; }
  void set_keras_version(int major) { keras_version_ = major; }

  // In whose scope the model was made (Keras's distribute_strategy); null for none, and when it lives no more.
  distribute::Strategy* strategy() const { return made_under_.lock().get(); }

 private:
  friend class Model;
  void add_object(Model* object);
  void use_object(Model* object);
  void remove_object(Model* object);

  mutable std::shared_ptr<Trainer> trainer_;  // complete in the trainer's sources only
  std::weak_ptr<distribute::Strategy> made_under_;
  int keras_version_ = 3;
  mutable Mutex objects_mutex_;
  std::vector<Model*> objects_;             // that share this model, the one used last at the end
  std::atomic<Model*> last_used_{nullptr};  // objects_.back()
};

// A graph of calls between symbolic inputs and outputs.
class FunctionalImpl : public ModelImpl {
 public:
  // Throws InvalidArgument when an output cannot be traced to the inputs, for duplicate names, and for
  // inputs that are not KerasTensors.
  FunctionalImpl(Structure inputs, Structure outputs, Layer::Options options = {});
  ~FunctionalImpl() override;

  Json module() const override { return "keras.src.models.functional"; }
  Json registered_name() const override { return "Functional"; }
  Json get_config() const override;
  Json get_build_config() const override;
  void build(const Nested<Shape>&) override {}
  Structure call(const Structure& inputs, const CallContext& context) override;
  // Of inputs of any extents, as Keras's Sequential calls its graph: ranks alone are checked.
  Structure call_with_any_extents(const Structure& inputs, const CallContext& context);
  // The leaves, of a dict by the names of the model's inputs.
  std::vector<Tensor> ordered_inputs(const Structure& inputs) const;
  // Of such leaves. Throws InvalidArgument for other extents. As in Keras, a last axis of 1 matches any and none.
  void check_extents(const std::vector<Tensor>& given) const;
  Structure compute_mask(const Structure& inputs, const Structure& mask, const Structure& outputs) override;

  std::vector<LayerPtr> layers() const override;
  std::vector<OperationPtr> operations() const override { return operations_; }
  const Structure& inputs() const override { return inputs_; }
  const Structure& outputs() const override { return outputs_; }
  bool is_functional() const override { return true; }
  bool casts_inputs() const override { return false; }

  // The calls of this model in the order of execution, and one depth after the other as Keras counts.
  const std::vector<std::shared_ptr<Node>>& nodes() const { return nodes_; }
  const std::vector<std::vector<std::shared_ptr<Node>>>& nodes_by_depth() const { return nodes_by_depth_; }
  bool owns(const Node* node) const;
  // Number of this model's call of the operation, as configs count them; -1 when it is not in the model.
  int node_number(const Node* node) const;

 private:
  void build_graph();
  void order_operations(GraphWalk& walk, const std::unordered_map<const Operation*, int>& depths);
  void count_uses();
  Structure adjust_inputs(std::vector<Tensor> given) const;
  Structure call_adjusted(const Structure& adjusted, const CallContext& context);
  Tensor adjust_input(const Tensor& given, const KerasTensor& expected) const;
  Json serialize_argument(const Argument& argument) const;
  // The layers in order; `inputs` are adjusted.
  Structure call_layers(const Structure& inputs, const CallContext& context);

  const std::unique_ptr<CompiledCall> compiled_;
  Structure inputs_, outputs_;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::vector<std::vector<std::shared_ptr<Node>>> nodes_by_depth_;
  std::vector<OperationPtr> operations_;
  std::unordered_map<const Node*, int> node_ids_;  // position in nodes_
  std::vector<int> uses_;                          // of each node's results
};

// A stack of layers. With an Input it is built at once, else by its first call.
class SequentialImpl : public ModelImpl {
 public:
  explicit SequentialImpl(std::vector<LayerPtr> layers, Layer::Options options = {});

  Json module() const override { return "keras"; }
  Json registered_name() const override { return nullptr; }
  Json get_config() const override;
  Json get_build_config() const override;
  void build_from_config(const Json& config) override;
  void build(const Nested<Shape>& shapes) override;
  Structure call(const Structure& inputs, const CallContext& context) override;
  Structure compute_mask(const Structure& inputs, const Structure& mask, const Structure& outputs) override;

  std::vector<LayerPtr> layers() const override;  // without the InputLayer
  std::vector<OperationPtr> operations() const override;
  const Structure& inputs() const override;
  const Structure& outputs() const override;
  bool is_sequential() const override { return true; }

  void add(LayerPtr layer);
  void pop();
  // The graph once built; null before.
  const std::shared_ptr<FunctionalImpl>& functional() const { return functional_; }

 private:
  void append(LayerPtr layer);
  void check_addable(const Layer& layer) const;
  void rebuild();
  bool input_fixed_ = false;               // the batch size of a recorded build shape is kept
  std::vector<LayerPtr> layers_;           // the InputLayer first when there is one
  std::unordered_set<std::string> names_;  // of layers_, but for an InputLayer that build() adds
  std::shared_ptr<FunctionalImpl> functional_;
};

// A user-defined class that derives from Model: forwards to its virtual functions.
class SubclassedImpl : public ModelImpl {
 public:
  SubclassedImpl(std::string class_name, Layer::Options options);

  std::string class_name() const override;
  std::type_index registered_type() const override;
  void build_from_config(const Json& config) override;
  Json get_config() const override;
  void build(const Nested<Shape>& shapes) override;
  Structure call(const Structure& inputs, const CallContext& context) override;
  std::vector<LayerPtr> layers() const override;
  bool is_subclassed() const override { return true; }
  bool supports_masking() const override { return false; }
  std::vector<std::string> argument_names() const override;
  std::vector<std::string> call_parameters() const override;
  // The dtypes and shapes of the first call's inputs; empty before (tf.keras's save_spec()).
  const std::optional<Nested<TensorInfo>>& save_spec() const { return save_spec_; }

 private:
  friend class Model;
  Model& checked_object() const;

  bool building_ = false;               // while Model::build() is called by the layer
  bool named_;                          // whether the constructor was given the name of the class
  std::shared_ptr<Model> kept_object_;  // of a model read from a file
  std::optional<Nested<TensorInfo>> save_spec_;
};

}  // namespace lockstep::keras
