#include "lockstep/ops/call.h"

#include <algorithm>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>

#include <ATen/ops/all.h>
#include <ATen/ops/isfinite.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/allocation_failure_internal.h"
#include "lockstep/ops/array_dtype.h"
#include "lockstep/ops/check_internal.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/numerics_internal.h"
#include "lockstep/ops/pooled_loops_internal.h"
#include "lockstep/ops/table_internal.h"
#include "lockstep/tensor/array_internal.h"
#include "lockstep/tensor/quantized_internal.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {
namespace {

thread_local Recorder* t_recorder = nullptr;

std::string describe_inputs(std::span<const Tensor> inputs) {
  std::string text;
  for (const Tensor& input : inputs) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}{}", dtype_name(input.dtype()), input.shape().to_string());
  }
  return text;
}

[[noreturn]] void fail(const Signature& signature, std::span<const Tensor> inputs, std::string_view why) {
  throw_invalid_argument(fmt::format("{}: {} (inputs: {})", signature.name, why, describe_inputs(inputs)));
}

// LibTorch's messages carry a backtrace after the first line.
std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// LibTorch's messages that users meet, in the words of the others.
std::string translated(std::string_view text, std::span<const Tensor> inputs) {
  if (text.starts_with("The size of tensor a") && inputs.size() >= 2) {
    return fmt::format("shapes {} and {} cannot be broadcast to one shape", inputs[0].shape().to_string(),
                       inputs[1].shape().to_string());
  }
  if (text.starts_with("stack expects each tensor to be equal size")) return "the tensors differ in their shapes";
  return first_line(text);
}

void infer_type(const Signature& signature, std::span<const Tensor> inputs, Attrs& attrs, const std::string& name,
                DType dtype) {
  if (const Attr* known = attrs.find(name)) {
    if (const DType* expected = std::get_if<DType>(known); expected && *expected != dtype) {
      fail(signature, inputs,
           fmt::format("'{}' is {} by one argument and {} by another; cast one of them", name, dtype_name(*expected),
                       dtype_name(dtype)));
    }
    return;
  }
  attrs.set(name, dtype);
}

// How many tensors an input takes. With one list of unknown length it is what the others leave.
std::size_t input_width(const Signature& signature, const ArgDef& arg, const Attrs& attrs, std::size_t given) {
  const auto fixed = [&](const ArgDef& def) -> std::optional<std::size_t> {
    if (!def.number_attr.empty()) {
      if (!attrs.find(def.number_attr)) return std::nullopt;
    } else if (!def.type_list_attr.empty()) {
      if (!attrs.find(def.type_list_attr)) return std::nullopt;
    }
    return list_length(signature, def, attrs);
  };
  if (auto width = fixed(arg)) return *width;
  std::size_t others = 0;
  for (const ArgDef& other : signature.inputs) {
    if (&other == &arg) continue;
    if (auto width = fixed(other)) {
      others += *width;
    } else if (other.number_attr != arg.number_attr || arg.number_attr.empty()) {
      throw_invalid_argument(
          fmt::format("{}: the lengths of its list inputs must be given as attributes", signature.name));
    }
  }
  std::size_t sharing = 0;  // lists of the same number attribute share what is left
  for (const ArgDef& other : signature.inputs)
    sharing += !arg.number_attr.empty() && other.number_attr == arg.number_attr;
  return given < others ? 0 : (given - others) / std::max<std::size_t>(sharing, 1);
}

// Runs a kernel or a shape rule; every exception that leaves it is an Error that names the operation.
template <typename F>
auto as_errors(const Signature& signature, std::span<const Tensor> inputs, const F& run) {
  try {
    return run();
  } catch (const Error& error) {
    if (error.message().starts_with(signature.name)) throw;
    if (error.code() == Code::kInvalidArgument) fail(signature, inputs, error.message());
    throw_error(error.code(), fmt::format("{}: {}", signature.name, error.message()));
  } catch (const c10::OutOfMemoryError& error) {
    throw_resource_exhausted(fmt::format("{}: out of memory: {}", signature.name, first_line(error.msg())));
  } catch (const c10::Error& error) {
    if (is_allocation_failure(error.msg())) {
      throw_resource_exhausted(fmt::format("{}: out of memory (inputs: {})", signature.name, describe_inputs(inputs)));
    }
    fail(signature, inputs, translated(error.msg(), inputs));
  } catch (const std::bad_alloc&) {
    throw_resource_exhausted(fmt::format("{}: out of memory (inputs: {})", signature.name, describe_inputs(inputs)));
  } catch (const std::length_error&) {
    throw_resource_exhausted(
        fmt::format("{}: the result is too large (inputs: {})", signature.name, describe_inputs(inputs)));
  } catch (const std::runtime_error& error) {
    // LibTorch's for a number that the dtype cannot hold.
    if (std::string_view(error.what()).find("cannot be converted to type") != std::string_view::npos) {
      fail(signature, inputs, first_line(error.what()));
    }
    throw_internal(
        fmt::format("{}: {} (inputs: {})", signature.name, first_line(error.what()), describe_inputs(inputs)));
  } catch (const std::exception& error) {
    throw_internal(
        fmt::format("{}: {} (inputs: {})", signature.name, first_line(error.what()), describe_inputs(inputs)));
  }
}

std::int64_t largest_size(std::span<const Tensor> inputs) {
  std::int64_t largest = 0;
  for (const Tensor& input : inputs) {
    if (input.defined() && input.is_value()) largest = std::max(largest, input.num_elements());
  }
  return largest;
}

// LibTorch's allocator counts numbers only.
void check_strings(const Tensors& outputs) {
  for (const Tensor& output : outputs) {
    if (!output.defined() || output.dtype() != DType::kString || !output.is_value()) continue;
    std::size_t bytes = 0;
    for (const std::string& text : output.string_values()) bytes += sizeof(text) + text.size();
    MemoryLimit::check(static_cast<std::int64_t>(bytes), 1);
  }
}

}  // namespace

const Attr* Attrs::find(std::string_view name) const {
  const auto it = items_.find(name);
  return it == items_.end() ? nullptr : &it->second;
}

void Call::throw_no_input(int i) const {
  throw_internal(fmt::format("{}: input {} is read, but the call has {}", name(), i, num_inputs()));
}

template <typename T>
const T& Call::attr(std::string_view name) const {
  const Attr* value = attrs_.find(name);
  if (!value) {
    const AttrDef* def = signature_.find_attr(name);
    if (!def) throw_internal(fmt::format("{} has no attribute '{}'", signature_.name, name));
    if (!def->default_value)
      throw_invalid_argument(fmt::format("{}: attribute '{}' is missing", signature_.name, name));
    value = &*def->default_value;
  }
  const T* typed = std::get_if<T>(value);
  if (!typed) throw_invalid_argument(fmt::format("{}: attribute '{}' has the wrong type", signature_.name, name));
  return *typed;
}

#define LOCKSTEP_INSTANTIATE(T) template const T& Call::attr<T>(std::string_view) const;
LOCKSTEP_INSTANTIATE(std::int64_t)
LOCKSTEP_INSTANTIATE(float)
LOCKSTEP_INSTANTIATE(bool)
LOCKSTEP_INSTANTIATE(std::string)
LOCKSTEP_INSTANTIATE(DType)
LOCKSTEP_INSTANTIATE(Shape)
LOCKSTEP_INSTANTIATE(Tensor)
LOCKSTEP_INSTANTIATE(FunctionName)
LOCKSTEP_INSTANTIATE(std::vector<std::int64_t>)
LOCKSTEP_INSTANTIATE(std::vector<float>)
LOCKSTEP_INSTANTIATE(std::vector<bool>)
LOCKSTEP_INSTANTIATE(std::vector<std::string>)
LOCKSTEP_INSTANTIATE(std::vector<DType>)
LOCKSTEP_INSTANTIATE(std::vector<Shape>)
LOCKSTEP_INSTANTIATE(std::vector<FunctionName>)
#undef LOCKSTEP_INSTANTIATE

Attrs complete_attrs(const Signature& signature, std::span<const Tensor> inputs, Attrs attrs) {
  std::size_t next = 0;
  for (const ArgDef& arg : signature.inputs) {
    const std::size_t width = input_width(signature, arg, attrs, inputs.size());
    if (next + width > inputs.size()) {
      fail(signature, inputs, fmt::format("takes {} inputs, {} given", signature.inputs.size(), inputs.size()));
    }
    if (!arg.number_attr.empty() && !attrs.find(arg.number_attr)) {
      attrs.set(arg.number_attr, static_cast<std::int64_t>(width));
    }
    if (!arg.type_list_attr.empty() && !attrs.find(arg.type_list_attr)) {
      std::vector<DType> types;
      for (std::size_t i = 0; i < width; ++i) types.push_back(inputs[next + i].dtype());
      attrs.set(arg.type_list_attr, std::move(types));
    }
    const auto* listed =
        arg.type_list_attr.empty() ? nullptr : std::get_if<std::vector<DType>>(attrs.find(arg.type_list_attr));
    for (std::size_t i = 0; i < width; ++i) {
      const Tensor& input = inputs[next + i];
      if (!input.defined()) fail(signature, inputs, fmt::format("input '{}' is missing", arg.name));
      if (listed && listed->at(i) != input.dtype()) {
        fail(signature, inputs,
             fmt::format("'{}' has {} at place {}, found {}", arg.type_list_attr, dtype_name(listed->at(i)), i,
                         dtype_name(input.dtype())));
      }
      if (!arg.type_attr.empty()) infer_type(signature, inputs, attrs, arg.type_attr, input.dtype());
      if (arg.dtype != DType::kInvalid && input.dtype() != arg.dtype) {
        fail(signature, inputs,
             fmt::format("input '{}' is {}, expected {}", arg.name, dtype_name(input.dtype()), dtype_name(arg.dtype)));
      }
    }
    next += width;
  }
  if (next != inputs.size()) fail(signature, inputs, fmt::format("takes {} inputs, {} given", next, inputs.size()));
  check_attrs(signature, attrs);
  return attrs;
}

std::vector<OutputType> infer_outputs(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  const Call call(*op.signature, inputs, attrs);
  std::vector<OutputType> outputs;
  for (const ArgDef& arg : op.signature->outputs) {
    if (!arg.type_list_attr.empty()) {
      for (DType dtype : call.attr<std::vector<DType>>(arg.type_list_attr)) {
        outputs.push_back({dtype, Shape::unknown_rank()});
      }
      continue;
    }
    const DType dtype = arg.type_attr.empty() ? arg.dtype : call.attr<DType>(arg.type_attr);
    outputs.insert(outputs.end(), list_length(*op.signature, arg, attrs), {dtype, Shape::unknown_rank()});
  }
  if (op.shape) {
    std::vector<Shape> shapes = as_errors(*op.signature, inputs, [&] {
      check_shapes(*op.signature, inputs, attrs);
      return op.shape(call);
    });
    for (std::size_t i = 0; i < shapes.size() && i < outputs.size(); ++i) outputs[i].shape = std::move(shapes[i]);
  }
  return outputs;
}

namespace {

// The inputs with arrays (tensor/array_internal.h) in the type of the others that an operation takes in one type: of
// the first tensor, or where all are arrays NumPy's common one. Nothing where no array differs.
std::optional<Tensors> with_converted_arrays(const Signature& signature, std::span<const Tensor> inputs,
                                             const Attrs& attrs) {
  if (std::ranges::none_of(inputs, is_array)) return std::nullopt;
  for (const Tensor& input : inputs) share_memory(input);  // results may be views of it
  std::map<std::string_view, std::vector<std::size_t>> groups;
  std::size_t next = 0;
  for (const ArgDef& arg : signature.inputs) {
    const std::size_t width = input_width(signature, arg, attrs, inputs.size());
    for (std::size_t i = 0; i < width && next < inputs.size(); ++i, ++next) {
      if (!arg.type_attr.empty() && inputs[next].defined()) groups[arg.type_attr].push_back(next);
    }
  }
  std::optional<Tensors> converted;
  for (const auto& [attr, members] : groups) {
    DType of_tensors = DType::kInvalid, of_arrays = DType::kInvalid;
    for (const std::size_t i : members) {
      DType& dtype = is_array(inputs[i]) ? of_arrays : of_tensors;
      if (dtype == DType::kInvalid) {
        dtype = inputs[i].dtype();
      } else if (is_array(inputs[i])) {
        dtype = array_dtype(dtype, inputs[i].dtype());
      }
    }
    const DType target = of_tensors == DType::kInvalid ? of_arrays : of_tensors;
    for (const std::size_t i : members) {
      const DType dtype = inputs[i].dtype();
      if (!is_array(inputs[i]) || dtype == target || dtype == DType::kString || target == DType::kString) continue;
      if (!converted) converted.emplace(inputs.begin(), inputs.end());
      (*converted)[i] = call1("Cast", {inputs[i]}, {{"DstT", target}});
    }
  }
  return converted;
}

// Kernels that move values about see a quantized tensor as one of integers: their outputs get its type again.
void name_quantized(const Signature& signature, const Attrs& attrs, Tensors& outputs) {
  for (std::size_t i = 0; i < std::min(outputs.size(), signature.outputs.size()); ++i) {
    const ArgDef& arg = signature.outputs[i];
    if (!arg.number_attr.empty() || !arg.type_list_attr.empty()) return;
    const Attr* attr = arg.type_attr.empty() ? nullptr : attrs.find(arg.type_attr);
    const auto* dtype = attr ? std::get_if<DType>(attr) : nullptr;
    if (!dtype || !is_quantized(*dtype) || !outputs[i].defined() || outputs[i].dtype() == *dtype) continue;
    const at::Tensor& value = aten(outputs[i]);
    if (value.scalar_type() == to_scalar_type(*dtype)) outputs[i] = wrap_as(value, *dtype);
  }
}

// What debugging::enable_check_numerics() asks for. Operations that move values about, or that are called for values
// that may be infinite, are not checked, as in TensorFlow.
void check_finite(const Signature& signature, std::span<const Tensor> inputs, const Tensors& outputs) {
  static const std::set<std::string_view> kSafe = {
      "Cast",     "ConcatV2", "Const",        "ExpandDims", "Fill", "Gather",    "GatherV2", "Identity",
      "IsFinite", "IsInf",    "Maximum",      "Minimum",    "Pack", "Pad",       "PadV2",    "ReadVariableOp",
      "Reshape",  "Slice",    "StridedSlice", "Squeeze",    "Tile", "Transpose", "Unpack",   "Where"};
  if (kSafe.contains(signature.name)) return;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (!output.defined() || !output.is_value() || !is_floating(output.dtype())) continue;
    if (at::isfinite(aten(output)).all().item<bool>()) continue;
    fail(signature, inputs, fmt::format("output {} has NaN or infinite elements (enable_check_numerics)", i));
  }
}

}  // namespace

Tensors run_kernel(const Op& op, std::span<const Tensor> inputs, const Attrs& attrs) {
  const PooledLoops loops(largest_size(inputs) >= kPooledElements);
  return as_errors(*op.signature, inputs, [&] {
    check_shapes(*op.signature, inputs, attrs);
    Tensors outputs = op.kernel(Call(*op.signature, inputs, attrs));
    if (!inputs.empty() && inputs[0].defined() && is_quantized(inputs[0].dtype()))
      name_quantized(*op.signature, attrs, outputs);
    if (MemoryLimit::active()) check_strings(outputs);
    if (check_numerics_enabled.load(std::memory_order_relaxed)) check_finite(*op.signature, inputs, outputs);
    return outputs;
  });
}

Tensors call(std::string_view name, std::span<const Tensor> inputs, Attrs attrs) {
  const Op& op = Table::instance().at(name);
  const std::optional<Tensors> converted = with_converted_arrays(*op.signature, inputs, attrs);
  if (converted) inputs = *converted;
  attrs = complete_attrs(*op.signature, inputs, std::move(attrs));
  for (const Tensor& input : inputs) {
    if (input.is_symbolic()) return input.symbol_value()->recorder().record(op, inputs, attrs);
  }
  const bool reads_state = op.signature->stateful || (!inputs.empty() && inputs[0].dtype() == DType::kResource);
  // The graph builds a list of constants too: a graph cannot contain a list as a constant.
  const bool makes_list = !op.signature->outputs.empty() && op.signature->outputs[0].dtype == DType::kVariant;
  if (t_recorder && (reads_state || makes_list)) return t_recorder->record(op, inputs, attrs);
  return run_kernel(op, inputs, attrs);
}

Tensors call(std::string_view name, std::initializer_list<Tensor> inputs, Attrs attrs) {
  return call(name, std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(attrs));
}

Tensor call1(std::string_view name, std::span<const Tensor> inputs, Attrs attrs) {
  Tensors outputs = call(name, inputs, std::move(attrs));
  if (outputs.size() != 1) throw_internal(fmt::format("{} gave {} outputs, one expected", name, outputs.size()));
  return std::move(outputs[0]);
}

Tensor call1(std::string_view name, std::initializer_list<Tensor> inputs, Attrs attrs) {
  return call1(name, std::span<const Tensor>(inputs.begin(), inputs.size()), std::move(attrs));
}

ScopedRecorder::ScopedRecorder(Recorder* recorder) : previous_(t_recorder) { t_recorder = recorder; }
ScopedRecorder::~ScopedRecorder() { t_recorder = previous_; }
Recorder* ScopedRecorder::active() { return t_recorder; }

}  // namespace lockstep::ops
