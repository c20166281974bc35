#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/autograd_leaf_internal.h"

#include <malloc.h>
#include <omp.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/memory_order_internal.h"
#include "lockstep/ops/allocation_failure_internal.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/large_blocks_internal.h"
#include "lockstep/ops/library_threads_internal.h"

#include "lockstep/ops/parallel_internal.h"
#include "lockstep/ops/pooled_loops_internal.h"
#include "lockstep/ops/runtime.h"
#include "lockstep/ops/slice_gradients_internal.h"
#include "lockstep/ops/slices_internal.h"
#include "lockstep/tensor/aten_internal.h"

namespace lockstep::ops {
namespace {

thread_local int t_scopes = 0;  // of LibraryThreads

}  // namespace

LibraryThreads::LibraryThreads(std::int64_t elements) {
  // LibTorch sets the number itself when a thread first asks for it.
  static thread_local const int of_thread = at::get_num_threads();
  static_cast<void>(of_thread);
  const bool outermost = ++t_scopes == 1, large = elements >= kLargeWork;
  if (!large && !outermost) return;
  const int threads = large ? parallel_threads() : 1, before = omp_get_max_threads();
  if (threads == before) return;
  previous_ = before;
  omp_set_num_threads(threads);
}
LibraryThreads::~LibraryThreads() {
  --t_scopes;
  if (previous_ > 0) omp_set_num_threads(previous_);
}

bool grad_enabled() { return at::GradMode::is_enabled(); }
void set_grad_enabled(bool enabled) { at::GradMode::set_enabled(enabled); }

Tensor make_leaf(const Tensor& value) {
  at::Tensor leaf = aten(value).detach();
  leaf.requires_grad_(true);
  return wrap(std::move(leaf));
}

void require_grad(const Tensor& value) { at::Tensor(aten(value)).requires_grad_(true); }

Tensor detach(const Tensor& value) { return value.dtype() == DType::kString ? value : wrap(dense(value).detach()); }

bool requires_grad(const Tensor& value) {
  return value.is_value() && value.dtype() != DType::kString && aten(value).requires_grad();
}

bool is_leaf(const Tensor& value) { return aten(value).is_leaf(); }

namespace {

// A leaf's gradient of the two parts it came in: one tensor, and slices.
Tensor with_slices(const at::Tensor& leaf, at::Tensor dense, const SliceCollector& collector) {
  const SliceCollector::Slices slices = collector.slices_of(leaf);
  if (!slices.indices.defined()) return dense.defined() ? wrap(std::move(dense)) : Tensor();
  if (dense.defined()) return wrap(dense.index_add(0, slices.indices, slices.values));
  return tensor_of_rows({wrap(slices.indices), wrap(slices.values)}, Shape(leaf.sizes().vec()));
}

// Calls `ready` with the gradient of each leaf, during its lifetime.
class ReadyHooks {
 public:
  ReadyHooks(const std::vector<at::Tensor>& leaves, const SliceCollector& collector, const GradientReady& ready)
      : leaves_(leaves) {
    if (!ready) return;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const at::Tensor* const leaf = &leaves[i];
      hooks_.push_back(leaf->register_hook([i, leaf, &collector, &ready](const at::Tensor& gradient) {
        if (gradient.defined() && !collector.slices_of(*leaf).indices.defined()) ready(i, wrap(gradient));
      }));
    }
  }
  ~ReadyHooks() {
    for (std::size_t i = 0; i < hooks_.size(); ++i) leaves_[i].remove_hook(hooks_[i]);
  }
  ReadyHooks(const ReadyHooks&) = delete;
  ReadyHooks& operator=(const ReadyHooks&) = delete;

 private:
  const std::vector<at::Tensor>& leaves_;
  std::vector<unsigned> hooks_;
};

}  // namespace

Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& output_gradients, bool retain_graph,
             bool create_graph, const GradientReady& ready) {
  std::vector<at::Tensor> out, in, seeds;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor& output = aten(outputs[i]);
    if (!output.requires_grad()) continue;
    out.push_back(output);
    const bool given = i < output_gradients.size() && output_gradients[i].defined();
    seeds.push_back(given ? aten(output_gradients[i]) : at::ones_like(output));
  }
  for (const Tensor& input : inputs) in.push_back(aten(input));
  Tensors gradients(inputs.size());
  if (out.empty() || in.empty()) return gradients;
  std::vector<at::Tensor> found;
  // One large operation must not start teams in the whole backward pass: after each loop their threads spin on the
  // cores that parallel_for uses.
  const PooledLoops loops(true);
  const SliceCollector collector;
  const ReadyHooks hooks(in, collector, ready);
  try {
    found = torch::autograd::grad(out, in, seeds, retain_graph, create_graph, /*allow_unused=*/true);
  } catch (const c10::Error& error) {
    const std::string_view text = error.msg();
    if (is_allocation_failure(text)) throw_resource_exhausted("gradient: out of memory");
    if (text.find("second time") != std::string_view::npos) {
      throw_failed_precondition(
          "gradient: the target depends on operations of a tape whose gradient() has been called, which frees the "
          "recorded operations; make that tape persistent, or compute that part again inside of this one");
    }
    throw_invalid_argument(fmt::format("gradient: {}", text.substr(0, text.find('\n'))));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    // Real and imaginary parts of conjugates may be views whose memory has the other sign.
    if (found[i].defined()) found[i] = found[i].resolve_conj().resolve_neg();
    gradients[i] = with_slices(in[i], std::move(found[i]), collector);
  }
  return gradients;
}

void make_writable(Tensor& value) {
  const bool alone = value.impl().use_count() == 1 && aten(value).use_count() == 1 &&
                     aten(value).storage().use_count() == 1 && aten(value).is_contiguous() &&
                     aten(value).storage().resizable() &&  // else the memory is a file's or a caller's
                     !aten(value).requires_grad();
  if (alone) return about_to_write(aten(value).const_data_ptr());
  value = wrap(aten(value).detach().clone(at::MemoryFormat::Contiguous));
}

void set_intra_op_threads(int threads) { set_parallel_threads(threads); }
int intra_op_threads() { return parallel_threads(); }

void initialize_engine() { set_grad_enabled(false); }

namespace {

// Before the first operation, whatever that is.
const bool kInitialized = (initialize_engine(), true);

}  // namespace
}  // namespace lockstep::ops

namespace lockstep {

void configure_runtime() {
  // glibc refuses a larger threshold than 32 MiB. Arenas of other threads consist of heaps of 64 MiB that are returned
  // to the system whenever one is empty, so all threads share the main one.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  // Without lists of small free blocks: glibc joins all of them whenever a large block is freed, which tensors are.
  mallopt(M_MXFAST, 0);
  ops::keep_large_blocks();
}

}  // namespace lockstep
