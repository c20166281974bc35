// Operations whose attribute _gradient_op_type names another gradient than their own: tf.custom_gradient, which is an
// IdentityN of results, arguments and variables, and gradient_override_map of TensorFlow 1.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/plan_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/given_gradients_internal.h"
#include "lockstep/tensor/indexed_slices_internal.h"

namespace lockstep::graph {
namespace {

// What TensorFlow gives a gradient function for an output that nothing depends on.
Tensor zeros_like(const Tensor& output) {
  if (output.dtype() == DType::kString || output.dtype() == DType::kResource || output.dtype() == DType::kVariant)
    return Tensor::scalar(0.0F);
  return Tensor::zeros(output.shape(), output.dtype());
}

[[noreturn]] void throw_unregistered(const std::string& gradient, const std::string& node) {
  throw_failed_precondition(fmt::format(
      "gradient: the gradient '{}' of the operation is not in the file; where it is a custom gradient, save the model "
      "with tf.saved_model.SaveOptions(experimental_custom_gradients=True) [node '{}']",
      gradient, node));
}

// The value of a variable as the tape knows it; other inputs as they are.
Tensor source_of(const Tensor& input) {
  if (input.dtype() != DType::kResource) return input;
  auto* variable = dynamic_cast<VariableResource*>(input.resource_value().get());
  return variable && variable->is_initialized() ? variable->read() : input;
}

ops::GradientsOf call_of(const std::shared_ptr<const RegisteredGradient>& gradient, const Tensors& outputs,
                         const Tensors& inputs, RunContext& context) {
  Tensors zeros;
  std::vector<Shape> shapes;
  for (const Tensor& output : outputs) zeros.push_back(zeros_like(output));
  for (const Tensor& input : inputs) shapes.push_back(input.shape());
  return [gradient, zeros, shapes, library = context.library.shared_from_this(),
          resources = context.resources.shared_from_this()](const Tensors& dys, const Tensors& captured) {
    Tensors feeds = zeros;
    for (std::size_t i = 0; i < dys.size(); ++i) {
      if (dys[i].defined()) feeds[i] = dys[i];
    }
    auto next = captured.begin();
    for (const RegisteredGradient::Capture& capture : gradient->captures)
      feeds.push_back(capture.value.defined() ? capture.value : *next++);
    const auto function = library->find(gradient->function);
    const Tensors results = Executable::prepare(function, library, resources)->run(feeds);
    Tensors slopes;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const RegisteredGradient::Part& part = gradient->parts.at(i);
      if (part.values < 0) {
        slopes.emplace_back();
      } else if (const Tensor& values = results.at(static_cast<std::size_t>(part.values)); part.indices < 0) {
        slopes.push_back(values);
      } else {
        slopes.push_back(tensor_of_rows({results.at(static_cast<std::size_t>(part.indices)), values}, shapes[i]));
      }
    }
    return slopes;
  };
}

}  // namespace

Tensors run_with_named_gradient(const Step& step, const Tensors& inputs, RunContext& context, RunStep run) {
  const auto own_inputs = static_cast<std::ptrdiff_t>(step.node->inputs.size());
  const Tensors own(inputs.begin(), inputs.begin() + own_inputs);
  if (context.recording || !ops::grad_enabled()) return run(step, own, context);
  Tensors sources;
  for (const Tensor& input : own) sources.push_back(source_of(input));
  if (std::none_of(sources.begin(), sources.end(), ops::requires_grad)) return run(step, own, context);
  Tensors outputs;
  {
    const ops::GradientsOff off;
    outputs = run(step, own, context);
  }
  const Tensors captured(inputs.begin() + own_inputs, inputs.end());
  const auto with = [&](ops::GradientsOf gradients) {
    return ops::with_gradients(sources, outputs, captured, std::move(gradients));
  };
  const auto& gradient = step.registered_gradient;
  if (!gradient && step.node->gradient == "Identity" && own.size() == 1 && outputs.size() == 1)
    return with([](const Tensors& dys, const Tensors&) { return dys; });
  if (!gradient) {
    return with([name = step.node->gradient, node = step.node->name](const Tensors&, const Tensors&) -> Tensors {
      throw_unregistered(name, node);
    });
  }
  const auto missing = std::count_if(gradient->captures.begin(), gradient->captures.end(),
                                     [](const auto& capture) { return !capture.value.defined(); });
  if (missing != static_cast<std::ptrdiff_t>(captured.size())) {
    return with([name = gradient->function, node = step.node->name](const Tensors&, const Tensors&) -> Tensors {
      throw_unimplemented(fmt::format(
          "gradient: the gradient function '{}' captures tensors of another function [node '{}']", name, node));
    });
  }
  if (gradient->parts.size() != own.size()) {
    throw_data_loss(fmt::format("the gradient function '{}' returns {} gradients for {} inputs", gradient->function,
                                gradient->parts.size(), own.size()));
  }
  // Inputs for which the function has no gradient, such as the results among those of tf.custom_gradient, take no part.
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (gradient->parts[i].values < 0) sources[i] = Tensor();
  }
  return with(call_of(gradient, outputs, own, context));
}

}  // namespace lockstep::graph
