#include "lockstep/ops/composite_internal.h"

#include <algorithm>

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local bool t_plain = false;

struct Holder : torch::CustomClassHolder {
  std::shared_ptr<const Composite> composite;
  std::vector<bool> present;  // which inputs are defined; autograd takes only these
  std::size_t outputs = 0;

  Values all_inputs(at::TensorList defined) const {
    Values all(present.size());
    for (std::size_t i = 0, next = 0; i < all.size(); ++i) {
      if (present[i]) all[i] = defined[next++];
    }
    return all;
  }
};

// Gradients that have gradients: the composite once more, by plain operations.
variable_list recorded_backward(const Composite& composite, const Composite::Recorded& recorded,
                                const variable_list& dys) {
  // Aliases, so that the gradients stop at this node's inputs even where one was computed from another.
  Values inputs, wanted;
  for (std::size_t i = 0; i < recorded.inputs.size(); ++i) {
    const at::Tensor& input = recorded.inputs[i];
    inputs.push_back(input.defined() && recorded.wanted[i] ? input.view_as(input) : input);
    if (recorded.wanted[i]) wanted.push_back(inputs.back());
  }
  const Values outputs = composite.plain(inputs);
  variable_list targets, seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!dys[i].defined() || !outputs[i].defined() || !outputs[i].requires_grad()) continue;
    targets.push_back(outputs[i]);
    seeds.push_back(dys[i]);
  }
  variable_list gradients(inputs.size());
  if (targets.empty()) return gradients;
  const variable_list found = torch::autograd::grad(targets, wanted, seeds, true, true, true);
  for (std::size_t i = 0, next = 0; i < inputs.size(); ++i) {
    if (recorded.wanted[i]) gradients[i] = found[next++];
  }
  return gradients;
}

struct CompositeNode : torch::autograd::Function<CompositeNode> {
  static variable_list forward(AutogradContext* context, at::TensorList inputs,
                               const c10::intrusive_ptr<Holder>& holder) {
    Composite::Made made = holder->composite->forward(holder->all_inputs(inputs), true);
    holder->outputs = made.outputs.size();
    variable_list saved = inputs.vec();
    saved.insert(saved.end(), made.outputs.begin(), made.outputs.end());
    saved.insert(saved.end(), made.kept.begin(), made.kept.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["holder"] = at::IValue::make_capsule(holder);
    context->set_materialize_grads(false);
    return std::move(made.outputs);
  }

  static variable_list backward(AutogradContext* context, const variable_list& dys) {
    const auto holder = c10::static_intrusive_pointer_cast<Holder>(context->saved_data["holder"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const std::vector<bool>& present = holder->present;
    const auto inputs = static_cast<std::size_t>(std::count(present.begin(), present.end(), true));
    const auto second = saved.begin() + static_cast<std::ptrdiff_t>(inputs),
               third = second + static_cast<std::ptrdiff_t>(holder->outputs);
    Composite::Recorded recorded{
        holder->all_inputs(at::TensorList(saved).slice(0, inputs)), {second, third}, {third, saved.end()}, {}};
    for (std::size_t i = 0, next = 0; i < present.size(); ++i)
      recorded.wanted.push_back(present[i] && context->needs_input_grad(next++));
    Values gradients(present.size());
    if (std::any_of(dys.begin(), dys.end(), [](const at::Tensor& dy) { return dy.defined(); })) {
      gradients = at::GradMode::is_enabled() ? recorded_backward(*holder->composite, recorded, dys)
                                             : holder->composite->backward(recorded, dys);
    }
    variable_list given;
    for (std::size_t i = 0; i < present.size(); ++i) {
      if (present[i]) given.push_back(recorded.wanted[i] ? gradients[i] : at::Tensor());
    }
    given.emplace_back();
    return given;
  }
};

}  // namespace

Values run(std::shared_ptr<const Composite> composite, const Values& inputs) {
  if (t_plain) return composite->plain(inputs);
  const bool recorded =
      at::GradMode::is_enabled() &&
      std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& x) { return x.defined() && x.requires_grad(); });
  if (!recorded) return composite->forward(inputs, false).outputs;
  const auto holder = c10::make_intrusive<Holder>();
  holder->composite = std::move(composite);
  Values defined;
  for (const at::Tensor& x : inputs) {
    holder->present.push_back(x.defined());
    if (x.defined()) defined.push_back(x);
  }
  return CompositeNode::apply(at::TensorList(defined), holder);
}

ScopedPlain::ScopedPlain() : previous_(t_plain) { t_plain = true; }
ScopedPlain::~ScopedPlain() { t_plain = previous_; }

}  // namespace lockstep::ops
