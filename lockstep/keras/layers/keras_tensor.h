// Symbolic tensors of the functional API and the calls that made them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/keras/nested.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::keras {

class Layer;
class Operation;
using OperationPtr = std::shared_ptr<Operation>;

// An argument of a call: a tensor, or plain data (null, number, text, …).
struct ArgValue {
  ArgValue() = default;
  ArgValue(Tensor t) : tensor(std::move(t)) {}
  ArgValue(Json v) : value(std::move(v)) {}

  bool is_tensor() const { return tensor.defined(); }
  Tensor tensor;
  Json value;
};
using Argument = Nested<ArgValue>;

// A keyword argument: tensors, or plain data.
class KeywordArgument : public std::pair<std::string, Argument> {
 public:
  template <typename V>
  KeywordArgument(std::string name, const V& value) : pair(std::move(name), argument(value)) {}

 private:
  template <typename V>
  static Argument argument(const V& value) {
    if constexpr (std::is_convertible_v<const V&, Argument>) {
      return value;
    } else if constexpr (std::is_convertible_v<const V&, ArgValue>) {
      return Argument(ArgValue(value));
    } else if constexpr (std::is_convertible_v<const V&, Nested<Tensor>>) {
      return Nested<Tensor>(value).map([](const Tensor& tensor) { return ArgValue(tensor); });
    } else {
      return Argument(ArgValue(Json(value)));
    }
  }
};

// The positional and keyword arguments of one call.
struct CallArguments {
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;

  const Argument* find(std::string_view keyword) const;
  void set(const std::string& keyword, Argument value);
  void erase(std::string_view keyword);
  // All tensors: positional ones first.
  Tensors tensors() const;
  // The same call with every tensor replaced.
  CallArguments map_tensors(const std::function<Tensor(const Tensor&)>& fn) const;
};
Argument to_argument(const Structure& structure);
// Throws InvalidArgument when a leaf is not a tensor; null leaves become undefined tensors.
Structure to_structure(const Argument& argument);
bool has_tensor(const Argument& argument);

struct TensorInfo {
  DType dtype = DType::kFloat32;
  Shape shape;
};

// One call of an operation in a functional graph. The operation owns its nodes, a tensor its operation,
// so a node knows its inputs but not its output tensors.
struct Node {
  Operation* operation = nullptr;
  CallArguments arguments;
  Nested<TensorInfo> outputs;
  Tensors masks;  // of the flattened outputs; undefined for outputs without a mask
  int index = 0;  // among the operation's nodes
};

// The producer of tensors in a functional graph: a layer, or an operation on tensors such as `x + y`.
class Operation : public std::enable_shared_from_this<Operation> {
 public:
  virtual ~Operation();
  // By default made from the class's name: "dense", "dense_1", …
  const std::string& name() const {
    if (name_.empty()) take_auto_name();
    return name_;
  }
  // Throws InvalidArgument for an empty name or one with a '/'.
  void set_name(std::string name);
  virtual std::string class_name() const = 0;
  // Keras's module of the class, e.g. "keras.layers"; null in JSON for user classes.
  virtual Json module() const = 0;
  // Keras's registered_name: null for built-in classes.
  virtual Json registered_name() const { return nullptr; }
  virtual Json get_config() const = 0;
  // Runs the operation with the arguments of the functional graph's node; `training` of the enclosing call.
  virtual Structure run(const CallArguments& arguments, std::optional<bool> training) = 0;

  const std::vector<std::shared_ptr<Node>>& inbound_nodes() const { return inbound_nodes_; }
  // Appends a call and returns its outputs.
  Structure add_node(CallArguments arguments, Nested<TensorInfo> outputs, Tensors masks = {});
  // The outputs of a call made before. Throws OutOfRange when there was none.
  Structure outputs_of(int node_index);

 private:
  void take_auto_name() const;

  mutable std::string name_;
  std::vector<std::shared_ptr<Node>> inbound_nodes_;
};

// A symbolic tensor: output `tensor_index` of call `node_index` of `operation`.
class KerasTensor : public Symbol {
 public:
  KerasTensor(DType dtype, Shape shape, OperationPtr operation, int node_index, int tensor_index)
      : Symbol(dtype, std::move(shape)),
        operation_(std::move(operation)),
        node_index_(node_index),
        tensor_index_(tensor_index) {}

  ops::Recorder& recorder() const override;
  // That of an Input; others have the automatic name "keras_tensor".
  std::string name() const override;

  const OperationPtr& operation() const { return operation_; }
  int node_index() const { return node_index_; }
  int tensor_index() const { return tensor_index_; }
  const Node& node() const;

 private:
  OperationPtr operation_;
  int node_index_;
  int tensor_index_;
};

// Null when `tensor` is not one.
const KerasTensor* as_keras_tensor(const Tensor& tensor);
bool any_keras_tensor(const CallArguments& arguments);

}  // namespace lockstep::keras

extern template class lockstep::Nested<lockstep::keras::ArgValue>;
extern template class lockstep::Nested<lockstep::keras::TensorInfo>;
