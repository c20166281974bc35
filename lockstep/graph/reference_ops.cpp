// Operations of TensorFlow 1 on references and on handles that are strings: each runs the row of the op table that does
// the same to a resource.
#include <string>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/plan_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

Tensors through_resource(const Step& step, const Tensors& inputs, RunContext&) {
  const ops::Signature& reference = *step.op->signature;
  const ops::Op& op = ops::Table::instance().at(fmt::format("Resource{}", reference.name));
  Tensors values = inputs;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (reference.inputs[i].is_ref) {
      referenced_variable(values[i]);
    } else {
      values[i] = dereferenced(values[i]);
    }
  }
  ops::Attrs attrs;
  for (const ops::AttrDef& attr : op.signature->attrs) {
    const ops::Attr* given = step.attrs.find(attr.name == "dtype" ? "T" : attr.name);
    if (given) attrs.set(attr.name, *given);
  }
  Tensors outputs = ops::call(op.signature->name, values, std::move(attrs));
  return outputs.empty() ? Tensors{inputs[0]} : outputs;
}

// The version with a resource of an operation on arrays or stacks.
Tensors through_handle(const Step& step, const Tensors& inputs, RunContext&) {
  std::string name = step.op->signature->name;
  const bool stack = name.starts_with("Stack");
  if (name.ends_with("V2")) name.resize(name.size() - 2);
  const ops::Op& op = ops::Table::instance().at(name + (stack ? "V2" : "V3"));
  ops::Attrs attrs;
  for (const ops::AttrDef& attr : op.signature->attrs) {
    if (const ops::Attr* given = step.attrs.find(attr.name)) attrs.set(attr.name, *given);
  }
  Tensors values = inputs;
  if (name == "Stack") values = {Tensor::scalar(std::int32_t{-1})};
  if (name == "TensorArrayGrad" && values.size() == 1) values.push_back(Tensor::scalar(0.0F));
  Tensors outputs = ops::call(op.signature->name, values, std::move(attrs));
  outputs.resize(static_cast<std::size_t>(step.num_outputs));  // these versions return no flow with the handle
  return outputs;
}

std::unordered_map<std::string, ExecutorOp> references() {
  std::unordered_map<std::string, ExecutorOp> table;
  for (const char* what : {"", "Grad", "Write", "Read", "Gather", "Scatter", "Concat", "Split", "Size", "Close"}) {
    table.emplace(fmt::format("TensorArray{}", what), through_handle);
    table.emplace(fmt::format("TensorArray{}V2", what), through_handle);
  }
  for (const char* what : {"", "Push", "Pop", "Close"}) table.emplace(fmt::format("Stack{}", what), through_handle);
  for (const char* how : {"Update", "Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    table.emplace(fmt::format("Scatter{}", how), through_resource);
  }
  for (const char* how : {"Update", "Add", "Sub", "Max", "Min"}) {
    table.emplace(fmt::format("ScatterNd{}", how), through_resource);
  }
  for (const char* rule : {"Adadelta", "Adagrad", "AdagradDA", "AdagradV2", "Adam", "AdaMax", "AddSign",
                           "CenteredRMSProp", "Ftrl", "FtrlV2", "GradientDescent", "Momentum", "PowerSign",
                           "ProximalAdagrad", "ProximalGradientDescent", "RMSProp"}) {
    table.emplace(fmt::format("Apply{}", rule), through_resource);
  }
  for (const char* rule : {"Adadelta", "Adagrad", "AdagradDA", "AdagradV2", "CenteredRMSProp", "Ftrl", "FtrlV2",
                           "Momentum", "ProximalAdagrad", "ProximalGradientDescent", "RMSProp"}) {
    table.emplace(fmt::format("SparseApply{}", rule), through_resource);
  }
  table.emplace("StridedSliceAssign", through_resource);
  table.emplace("CountUpTo", through_resource);
  return table;
}

}  // namespace

VariableResource& referenced_variable(const Tensor& reference) {
  auto* found = reference.dtype() == DType::kResource && !reference.is_symbolic()
                    ? dynamic_cast<VariableResource*>(reference.resource_value().get())
                    : nullptr;
  if (!found) throw_invalid_argument("the target of an assignment is not a variable");
  return *found;
}

Tensor dereferenced(const Tensor& tensor) {
  if (tensor.dtype() != DType::kResource || tensor.is_symbolic()) return tensor;
  auto* found = dynamic_cast<VariableResource*>(tensor.resource_value().get());
  return found ? found->read() : tensor;
}

ExecutorOp find_reference_operation(std::string_view op) {
  static const std::unordered_map<std::string, ExecutorOp> table = references();
  const auto found = table.find(std::string(op));
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::graph
