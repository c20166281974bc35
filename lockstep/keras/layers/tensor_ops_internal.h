// Operations between symbolic tensors in functional models: `x + y`, `x[:, 0]`, keras.ops functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/ops/call.h"

namespace lockstep::keras {

// One class of keras.ops as files name it.
struct TensorOpClass {
  std::string name;    // "Add"
  std::string module;  // "keras.src.ops.numpy"
  // Computes from a call's arguments and the constructor's.
  std::function<Structure(const CallArguments& arguments, const Json& config)> run;
};
// Null for a class that is not there.
const TensorOpClass* find_tensor_op(std::string_view class_name);
// Of all classes, sorted.
std::vector<std::string> tensor_op_names();

// A node of such a class.
class TensorOp : public Operation {
 public:
  // `config` holds the constructor's arguments; its "name" is optional.
  TensorOp(const TensorOpClass& row, Json config);
  std::string class_name() const override { return row_.name; }
  Json module() const override { return row_.module; }
  Json registered_name() const override { return row_.name; }
  Json get_config() const override;
  Structure run(const CallArguments& arguments, std::optional<bool> training) override;
  // Runs, or adds a node when an argument is a KerasTensor.
  Structure operator()(CallArguments arguments);

 private:
  const TensorOpClass& row_;
  Json config_;
};

// Any other operation of the op table between symbolic tensors. Works, but keras has no class for it, so
// get_config() throws Unimplemented.
class TableOp : public Operation {
 public:
  TableOp(const ops::Op& op, ops::Attrs attrs);
  std::string class_name() const override;
  Json module() const override { return nullptr; }
  Json get_config() const override;
  Structure run(const CallArguments& arguments, std::optional<bool> training) override;

 private:
  const ops::Op& op_;
  ops::Attrs attrs_;
};

// Keras's result_type: no dtype loses values where an integer, or float32, can hold both.
DType common_dtype(DType a, DType b);
// The tensors in the dtype to which keras.ops brings operands of different dtypes; with their masks.
Tensors in_common_dtype(Tensors tensors);

// An operation from a config's object. Throws NotFound for an unknown class.
OperationPtr deserialize_tensor_op(const Json& object);
// Whether `module` is one of keras.ops' modules.
bool is_ops_module(std::string_view module);

}  // namespace lockstep::keras
