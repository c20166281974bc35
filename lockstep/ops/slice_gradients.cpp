#include "lockstep/ops/slice_gradients_internal.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace lockstep::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local SliceCollector* t_collector = nullptr;

struct GatherRowsNode : torch::autograd::Function<GatherRowsNode> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& params, const at::Tensor& indices) {
    context->saved_data["leaf"] = reinterpret_cast<std::int64_t>(params.unsafeGetTensorImpl());
    context->saved_data["sizes"] = params.sizes().vec();
    context->save_for_backward({indices});
    return params.index_select(0, indices);
  }
  static variable_list backward(AutogradContext* context, variable_list dy) {
    const at::Tensor indices = context->get_saved_variables()[0];
    // Gradients that are to be differentiated again stay one tensor.
    if (t_collector && !at::GradMode::is_enabled()) {
      t_collector->add(
          {reinterpret_cast<const void*>(context->saved_data["leaf"].toInt()), indices, dy[0].contiguous()});
      return {at::Tensor(), at::Tensor()};
    }
    const at::Tensor zeros = at::zeros(context->saved_data["sizes"].toIntVector(), dy[0].options());
    return {zeros.index_add(0, indices, dy[0]), at::Tensor()};
  }
};

}  // namespace

at::Tensor gather_rows(const at::Tensor& params, const at::Tensor& indices) {
  return GatherRowsNode::apply(params, indices);
}

SliceCollector::SliceCollector() : outer_(t_collector) { t_collector = this; }
SliceCollector::~SliceCollector() { t_collector = outer_; }

SliceCollector::Slices SliceCollector::slices_of(const at::Tensor& leaf) const {
  std::vector<at::Tensor> indices, values;
  for (const Slices& slices : found_) {
    if (slices.leaf != leaf.unsafeGetTensorImpl()) continue;
    indices.push_back(slices.indices);
    values.push_back(slices.values);
  }
  if (indices.empty()) return {leaf.unsafeGetTensorImpl(), {}, {}};
  if (indices.size() == 1) return {leaf.unsafeGetTensorImpl(), indices[0], values[0]};
  return {leaf.unsafeGetTensorImpl(), at::cat(indices), at::cat(values)};
}

}  // namespace lockstep::ops
