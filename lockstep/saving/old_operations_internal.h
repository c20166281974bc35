// Functions of TensorFlow in functional models of Keras 2, as operations of keras.ops.
#pragma once

#include <span>
#include <string_view>

#include "lockstep/base/json.h"

namespace lockstep::saving {

// A call under construction: the constructor's arguments, and those by position.
struct OperationCall {
  Json config;
  Json args = Json::array();
  // Where TensorFlow's dtypes differ from Keras's: the dtype of integer operands and that of the result, which is
  // "operand" for that of the first operand.
  Json dtypes;
};

struct OldFunction {
  std::string_view function;    // of TensorFlow, without "tf."
  std::string_view module;      // of Keras
  std::string_view class_name;  // of Keras
  std::string_view operands;    // TensorFlow's parameters that are given by position, in Keras's order
  std::string_view arguments;   // TensorFlow's parameter = the constructor's argument, …
  std::string_view fixed = "";  // further constructor arguments, as JSON
  void (*change)(OperationCall& call) = nullptr;
  bool read_only = false;  // not a form in which the operation of Keras is written for Keras 2
};
std::span<const OldFunction> functions_of_tensorflow();

// Keras 2 saved `x * 2` as {"class_name": "TFOpLambda", "config": {"function": "math.multiply"}, "inbound_nodes":
// [["x", 0, 0, {"y": 2}]]} and `x[:, 0]` as a SlicingOpLambda (before: old_op_layers_internal.h). Replaces them in the
// config of a functional model by the operations of keras.ops that compute the same. Throws Unimplemented for functions
// and arguments without counterpart.
void change_operations(Json& functional);

}  // namespace lockstep::saving
