// LibTorch divides its loops among OpenMP's threads, which all wait for each other at the end of each loop. Here its
// dispatcher is asked before a CPU kernel runs: the operands of elementwise operations, copies and reductions along
// axes are cut into pieces, and the kernel runs once for each piece.
#include "lockstep/ops/pooled_loops_internal.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "lockstep/ops/parallel_internal.h"

namespace lockstep::ops {
namespace {

// A key below autograd and above the kernels of devices, for which LibTorch has no kernels.
constexpr c10::DispatchKey kKey = c10::DispatchKey::Fake;
constexpr std::int64_t kPieceElements = 1 << 16;  // some ten microseconds, three times the cost of a piece
constexpr std::int64_t kAlignment = 64;           // elements: vectors and unrolled loops divide it
constexpr std::int64_t kFewEntries = 4;

using Stack = torch::jit::Stack;
using Sizes = std::vector<std::int64_t>;

struct Cut {
  std::int64_t axis, entries, step;
  std::int64_t pieces() const { return (entries + step - 1) / step; }
};

// Of the axes that are long enough for a few threads, the one with the longest steps in memory; else the longest axis.
// across(axis): whether sums are taken across pieces of it, whose last vectors would be summed in another order.
std::optional<Cut> cut_of(const at::Tensor& x, const std::function<bool(std::int64_t)>& usable,
                          const std::function<bool(std::int64_t)>& across) {
  std::int64_t axis = -1;
  const auto better = [&](std::int64_t i) {
    if (axis < 0) return true;
    const bool few = x.size(i) < kFewEntries, best_has_few = x.size(axis) < kFewEntries;
    if (few || best_has_few) return x.size(i) > x.size(axis);
    return x.stride(i) > x.stride(axis);
  };
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (usable(i) && x.size(i) > 1 && better(i)) axis = i;
  }
  if (axis < 0) return std::nullopt;
  const std::int64_t entries = x.size(axis);
  std::int64_t step = std::max<std::int64_t>(1, kPieceElements / (x.numel() / entries));
  if (x.stride(axis) == 1 || across(axis)) {
    const std::int64_t multiple = kAlignment / std::gcd(kAlignment, x.stride(axis));
    step = (step + multiple - 1) / multiple * multiple;
  }
  if (step >= entries) return std::nullopt;
  return Cut{axis, entries, step};
}

// Entries begin … begin + step of the axis, counted in a result of `rank` axes to which x is broadcast.
at::Tensor piece_of(const at::Tensor& x, const Cut& cut, std::int64_t rank, std::int64_t begin) {
  const std::int64_t axis = cut.axis - (rank - x.dim());
  if (axis < 0 || x.size(axis) == 1) return x;
  return x.narrow(axis, begin, std::min(cut.step, cut.entries - begin));
}

void for_pieces(const Cut& cut, const std::function<void(std::int64_t)>& work) {
  parallel_for(0, cut.pieces(), 1, [&](std::int64_t first, std::int64_t last) {
    const at::AutoDispatchBelowADInplaceOrView without_autograd;
    const c10::impl::ExcludeDispatchKeyGuard directly(kKey);
    // LibTorch sets the number when a thread first asks for it.
    static thread_local const int of_thread = at::get_num_threads();
    static_cast<void>(of_thread);
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    struct Restore {
      int threads;
      ~Restore() { omp_set_num_threads(threads); }
    } restore{before};
    for (std::int64_t piece = first; piece < last; ++piece) work(piece * cut.step);
  });
}

void run_whole(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

bool is_plain(const at::Tensor& x) { return x.is_cpu() && x.layout() == at::kStrided && !x.is_quantized(); }

// The operands of one elementwise call.
struct Operands {
  Sizes shape;  // of the result
  std::int64_t elements = 1;
  bool flat = true;  // each has one element, or all of them in the same order in memory

  // Nothing for what is not worth dividing.
  static std::optional<Operands> of(at::ArrayRef<c10::IValue> arguments) {
    if (parallel_threads() == 1) return std::nullopt;
    Operands o;
    for (const c10::IValue& argument : arguments) {
      if (argument.isTensorList() || argument.isOptionalTensorList()) return std::nullopt;
      if (!argument.isTensor()) continue;
      const at::Tensor& x = argument.toTensor();
      if (!x.defined() || !is_plain(x)) return std::nullopt;
      const auto rank = static_cast<std::size_t>(x.dim());
      if (o.shape.size() < rank) o.shape.insert(o.shape.begin(), rank - o.shape.size(), 1);
      for (std::size_t i = 0; i < rank; ++i) {
        std::int64_t& size = o.shape[o.shape.size() - rank + i];
        if (size == 1) size = x.size(static_cast<std::int64_t>(i));
      }
    }
    for (const std::int64_t size : o.shape) o.elements *= size;
    if (o.elements < kPooledElements) return std::nullopt;
    const at::Tensor* first = nullptr;
    for (const c10::IValue& argument : arguments) {
      if (!argument.isTensor() || argument.toTensor().numel() == 1) continue;
      const at::Tensor& x = argument.toTensor();
      if (!first) first = &x;
      o.flat = o.flat && x.sizes() == at::IntArrayRef(o.shape) && x.is_non_overlapping_and_dense() &&
               x.strides() == first->strides();
    }
    return o;
  }
  std::optional<Cut> cut(const at::Tensor& result) const {
    if (flat) return Cut{0, elements, kPieceElements};
    return cut_of(
        result, [](std::int64_t) { return true; }, [](std::int64_t) { return false; });
  }
  std::int64_t rank() const { return flat ? 1 : static_cast<std::int64_t>(shape.size()); }
  // As the pieces are cut from it. A tensor without axes stays so: dtypes are promoted by whether there are axes.
  at::Tensor view(const at::Tensor& x) const { return flat && x.dim() > 0 ? x.as_strided({x.numel()}, {1}) : x; }
};

Stack piece_arguments(at::ArrayRef<c10::IValue> arguments, const Operands& operands, const Cut& cut,
                      std::int64_t begin) {
  Stack stack;
  stack.reserve(arguments.size() + 1);
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) {
      stack.emplace_back(piece_of(argument.toTensor(), cut, operands.rank(), begin));
    } else {
      stack.push_back(argument);
    }
  }
  return stack;
}

// The tensors as Operands::view makes them.
Stack viewed(at::ArrayRef<c10::IValue> arguments, const Operands& operands) {
  Stack stack;
  for (const c10::IValue& argument : arguments)
    stack.push_back(argument.isTensor() ? c10::IValue(operands.view(argument.toTensor())) : argument);
  return stack;
}

// The dtype of op's result, from a call with one element of each operand.
at::ScalarType result_type(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  Stack stack;
  for (const c10::IValue& argument : arguments) {
    if (!argument.isTensor()) {
      stack.push_back(argument);
      continue;
    }
    const at::Tensor& x = argument.toTensor();
    stack.emplace_back(x.dim() == 0 ? x : x.as_strided(Sizes(static_cast<std::size_t>(x.dim()), 1), x.strides()));
  }
  op.callBoxed(stack);
  return stack.back().toTensor().scalar_type();
}

// An uninitialized result, in the order in memory of the first operand of its shape.
at::Tensor make_result(at::ArrayRef<c10::IValue> arguments, const Operands& operands, at::ScalarType dtype) {
  for (const c10::IValue& argument : arguments) {
    if (!argument.isTensor()) continue;
    const at::Tensor& x = argument.toTensor();
    if (x.sizes() == at::IntArrayRef(operands.shape) && x.is_non_overlapping_and_dense())
      return at::empty_strided(operands.shape, x.strides(), x.options().dtype(dtype));
  }
  return at::empty(operands.shape, dtype);
}

using Variants = std::unordered_map<c10::OperatorHandle, c10::OperatorHandle>;
// Operations with the variants of them that write to a given tensor.
Variants& variants() {
  static auto* const variants = new Variants;
  return *variants;
}

void elementwise(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const at::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, count);
  const auto operands = Operands::of(arguments);
  if (!operands) return run_whole(op, keys, stack);
  at::Tensor result;
  {
    const c10::impl::ExcludeDispatchKeyGuard directly(kKey);
    result = make_result(arguments, *operands, result_type(op, arguments));
    const auto cut = operands->cut(result);
    if (!cut) return run_whole(op, keys, stack);
    const at::Tensor target = operands->view(result);
    const Stack parts = viewed(arguments, *operands);
    const c10::OperatorHandle& variant = variants().at(op);
    for_pieces(*cut, [&](std::int64_t begin) {
      Stack piece = piece_arguments(parts, *operands, *cut, begin);
      piece.emplace_back(piece_of(target, *cut, operands->rank(), begin));
      variant.callBoxed(piece);
    });
  }
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(result));
}

// Elementwise operations that write to their first operand, and copies.
void elementwise_in_place(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const at::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, count);
  const auto operands = Operands::of(arguments);
  at::Tensor self = arguments[0].toTensor();
  if (!operands || self.sizes() != at::IntArrayRef(operands->shape)) return run_whole(op, keys, stack);
  const auto cut = operands->cut(self);
  if (!cut) return run_whole(op, keys, stack);
  {
    const c10::impl::ExcludeDispatchKeyGuard directly(kKey);
    const Stack parts = viewed(arguments, *operands);
    for_pieces(*cut, [&](std::int64_t begin) {
      Stack piece = piece_arguments(parts, *operands, *cut, begin);
      op.callBoxed(piece);
    });
  }
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(self));
}

// (self, axes, keepdim) and for some (…, dtype): pieces along an axis that stays. Contiguous operands only: with others
// the order of a sum may depend on their extents.
void reduction(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const at::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, count);
  const at::Tensor x = arguments[0].toTensor();
  if (parallel_threads() == 1 || x.numel() < kPooledElements || !is_plain(x) || !x.is_contiguous() ||
      !x.is_floating_point() || !arguments[1].isIntList() || (count > 3 && !arguments[3].isNone()))
    return run_whole(op, keys, stack);
  std::vector<bool> reduced(static_cast<std::size_t>(x.dim()), arguments[1].toIntList().empty());
  for (const std::int64_t axis : arguments[1].toIntVector()) {
    if (axis < -x.dim() || axis >= x.dim()) return run_whole(op, keys, stack);
    reduced[static_cast<std::size_t>(axis < 0 ? axis + x.dim() : axis)] = true;
  }
  const bool keep = arguments[2].toBool();
  const auto stays = [&](std::int64_t axis) { return !reduced[static_cast<std::size_t>(axis)]; };
  const auto cut = cut_of(x, stays, [&](std::int64_t axis) {
    return std::find(reduced.begin(), reduced.begin() + axis, true) != reduced.begin() + axis;
  });
  if (!cut) return run_whole(op, keys, stack);
  Sizes shape;
  Cut of_result = *cut;
  of_result.axis = 0;
  for (std::int64_t axis = 0; axis < x.dim(); ++axis) {
    if (axis == cut->axis) of_result.axis = static_cast<std::int64_t>(shape.size());
    if (keep || stays(axis)) shape.push_back(stays(axis) ? x.size(axis) : 1);
  }
  at::Tensor result;
  {
    const c10::impl::ExcludeDispatchKeyGuard directly(kKey);
    result = at::empty(shape, x.options());
    const c10::OperatorHandle& variant = variants().at(op);
    for_pieces(*cut, [&](std::int64_t begin) {
      Stack piece(arguments.begin(), arguments.end());
      piece[0] = piece_of(x, *cut, x.dim(), begin);
      piece.emplace_back(piece_of(result, of_result, result.dim(), begin));
      variant.callBoxed(piece);
    });
  }
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(result));
}

// Large contiguous tensors of one dtype: a row of the result has one part of each.
at::Tensor concatenate(c10::DispatchKeySet keys, const at::ITensorListRef& tensors, std::int64_t axis) {
  const auto whole = [&] {
    return at::_ops::cat::redispatch(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), tensors, axis);
  };
  const auto given = tensors.materialize();
  const at::Tensor& first = given[0].get();
  const std::int64_t rank = first.dim(), along = axis < 0 ? axis + rank : axis;
  if (parallel_threads() == 1 || along < 0 || along >= rank) return whole();
  Sizes shape = first.sizes().vec();
  shape[static_cast<std::size_t>(along)] = 0;
  std::int64_t elements = 0;
  for (const at::Tensor& x : given) {
    if (!is_plain(x) || x.scalar_type() != first.scalar_type() || x.dim() != rank || !x.is_contiguous()) return whole();
    for (std::int64_t i = 0; i < rank; ++i) {
      if (i != along && x.size(i) != first.size(i)) return whole();
    }
    elements += x.numel();
    shape[static_cast<std::size_t>(along)] += x.size(along);
  }
  if (elements < kPooledElements) return whole();
  std::int64_t rows = 1;
  for (std::int64_t i = 0; i < along; ++i) rows *= shape[static_cast<std::size_t>(i)];
  at::Tensor result = at::empty(shape, first.options());
  struct Part {
    const char* from;
    char* to;
    std::size_t bytes;  // of a row
  };
  std::vector<Part> parts;
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  const std::size_t row_bytes = result.nbytes() / static_cast<std::size_t>(rows);
  for (const at::Tensor& x : given) {
    const std::size_t bytes = x.nbytes() / static_cast<std::size_t>(rows);
    parts.push_back({static_cast<const char*>(x.const_data_ptr()), to, bytes});
    to += bytes;
  }
  // Work is counted in bytes of the result, so that a single row is divided too.
  const auto piece = kPieceElements * static_cast<std::int64_t>(first.element_size());
  parallel_for(0, static_cast<std::int64_t>(result.nbytes()), piece, [&](std::int64_t from, std::int64_t end) {
    const auto last = static_cast<std::size_t>(end);
    for (auto at = static_cast<std::size_t>(from); at < last;) {
      const std::size_t row = at / row_bytes;
      std::size_t within = at % row_bytes;
      for (const Part& part : parts) {
        if (within >= part.bytes) {
          within -= part.bytes;
          continue;
        }
        const std::size_t count = std::min(part.bytes - within, last - at);
        std::memcpy(part.to + row * row_bytes + within, part.from + row * part.bytes + within, count);
        at += count;
        within = 0;
        if (at == last) break;
      }
    }
  });
  return result;
}

bool writes(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// The variant of a functional operation that writes to a last argument.
std::optional<c10::OperatorHandle> out_variant(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  for (const std::string& overload : {std::string("out"), name.overload_name + "_out"}) {
    const auto found = c10::Dispatcher::singleton().findSchema({name.name, overload});
    if (!found || !found->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    const auto &mine = op.schema().arguments(), &its = found->schema().arguments();
    if (its.size() != mine.size() + 1 || !writes(its.back())) continue;
    if (std::equal(mine.begin(), mine.end(), its.begin(),
                   [](const c10::Argument& a, const c10::Argument& b) { return *a.type() == *b.type(); }))
      return found;
  }
  return std::nullopt;
}

// Registers the kernels of this source, which live as long as the process. False where the host program uses the key.
bool register_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  if (dispatcher.hasBackendFallbackForDispatchKey(kKey)) return false;
  auto* const fallback = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
  fallback->fallback(torch::CppFunction::makeFallthrough());
  auto* const library = new torch::Library(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  const auto full_name = [](const c10::OperatorName& name) {
    return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  };
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op || !op->hasTag(at::Tag::pointwise) || op->hasTag(at::Tag::nondeterministic_seeded) ||
        !op->hasKernelForDispatchKey(c10::DispatchKey::CPU))
      continue;
    const c10::FunctionSchema& schema = op->schema();
    if (schema.arguments().empty() || schema.returns().size() != 1 ||
        *schema.returns()[0].type() != *c10::TensorType::get())
      continue;
    if (writes(schema.arguments()[0])) {
      library->impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&elementwise_in_place>());
    } else if (!schema.returns()[0].alias_info()) {
      const auto variant = out_variant(*op);
      if (!variant) continue;
      variants().emplace(*op, *variant);
      library->impl(full_name(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&elementwise>());
    }
  }
  library->impl("copy_", torch::CppFunction::makeFromBoxedFunction<&elementwise_in_place>());
  library->impl("cat", torch::CppFunction::makeFromUnboxedFunction(TORCH_FN(concatenate)));
  for (const auto& [name, overload, out] :
       {std::tuple{"aten::sum", "dim_IntList", "IntList_out"}, std::tuple{"aten::mean", "dim", "out"},
        std::tuple{"aten::amax", "", "out"}, std::tuple{"aten::amin", "", "out"}}) {
    const c10::OperatorHandle op = dispatcher.findSchemaOrThrow(name, overload);
    variants().emplace(op, dispatcher.findSchemaOrThrow(name, out));
    library->impl(full_name(op.operator_name()).c_str(), torch::CppFunction::makeFromBoxedFunction<&reduction>());
  }
  return true;
}

}  // namespace

PooledLoops::PooledLoops(bool wanted) {
  if (!wanted || parallel_threads() == 1) return;
  static const bool registered = register_kernels();
  if (!registered || c10::impl::tls_is_dispatch_key_included(kKey)) return;
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  entered_ = true;
}
PooledLoops::~PooledLoops() {
  if (entered_) c10::impl::tls_set_dispatch_key_included(kKey, false);
}

}  // namespace lockstep::ops
