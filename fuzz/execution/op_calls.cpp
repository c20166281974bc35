#include "fuzz/execution/op_calls.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "fuzz/execution/choices.h"
#include "lockstep/base/error.h"
#include "lockstep/graph/scratch_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/memory_limit_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::fuzz {
namespace {

constexpr std::int64_t kMemory = std::int64_t{64} << 20;  // of one call's results

DType attr_dtype(Choices& choices, const ops::AttrDef& def) {
  if (def.allowed_types.empty() || choices.chance(3)) return choices.dtype();
  for (int attempt = 0; attempt < 4; ++attempt) {
    const DType wish = choices.dtype();
    if (std::find(def.allowed_types.begin(), def.allowed_types.end(), wish) != def.allowed_types.end()) return wish;
  }
  return choices.pick(def.allowed_types);
}

std::string attr_text(Choices& choices, const ops::AttrDef& def) {
  static const std::map<std::string, std::vector<std::string>, std::less<>> known = {
      {"equation",
       {"ij,jk->ik", "...ij,...jk->...ik", "ii->i", "ij->", "i,j->ij", "abc,acd->abd", "i->ii", "->", "ij,jk", ",->"}},
      {"padding", {"SAME", "VALID", "EXPLICIT", "REFLECT", "SYMMETRIC", "CONSTANT"}},
      {"data_format", {"NHWC", "NCHW", "NDHWC", "NCDHW"}},
      {"mode", {"REFLECT", "SYMMETRIC", "MIN_COMBINED"}},
      {"unit", {"BYTE", "UTF8_CHAR"}},
      {"input_encoding", {"UTF-8", "UTF-16-BE", "UTF-32-BE"}},
      {"row_partition_types", {"ROW_SPLITS", "FIRST_DIM_SIZE", "VALUE_ROWIDS"}}};
  if (!def.allowed_strings.empty() && choices.chance(97)) return choices.pick(def.allowed_strings);
  const auto found = known.find(def.name);
  return found != known.end() && choices.chance(90) ? choices.pick(found->second) : choices.text();
}

std::size_t list_size(Choices& choices, const ops::AttrDef& def) {
  const std::int64_t least = def.minimum.value_or(0);
  if (choices.chance(60) && least > 0 && least < 10) return static_cast<std::size_t>(least);
  if (choices.chance(40)) return 4;
  return choices.below(7);
}

ops::Attr attr_value(Choices& choices, const ops::AttrDef& def) {
  if (def.type == "int") {
    if (def.minimum && choices.chance(80)) return *def.minimum + static_cast<std::int64_t>(choices.below(3));
    return choices.integer();
  }
  if (def.type == "float") return static_cast<float>(choices.real());
  if (def.type == "bool") return choices.chance(50);
  if (def.type == "string") return attr_text(choices, def);
  if (def.type == "type") return attr_dtype(choices, def);
  if (def.type == "shape") return choices.partial_shape();
  if (def.type == "tensor") return choices.value(choices.dtype(), choices.shape(), DType::kFloat32);
  if (def.type == "func") return ops::FunctionName{"f", nullptr};
  const std::size_t size = list_size(choices, def);
  const auto list = [&](auto each) {
    std::vector<decltype(each())> values;
    for (std::size_t i = 0; i < size; ++i) values.push_back(each());
    return values;
  };
  // Windows and strides are mostly 1 or 2.
  if (def.type == "list(int)") {
    const bool plain = choices.chance(70);
    return list([&] { return plain ? 1 + static_cast<std::int64_t>(choices.chance(25)) : choices.integer(); });
  }
  if (def.type == "list(float)") return list([&] { return static_cast<float>(choices.real()); });
  if (def.type == "list(bool)") return list([&] { return choices.chance(50); });
  if (def.type == "list(string)") return list([&] { return attr_text(choices, def); });
  if (def.type == "list(type)") return list([&] { return attr_dtype(choices, def); });
  if (def.type == "list(shape)") return list([&] { return choices.partial_shape(); });
  return std::vector<ops::FunctionName>(size, ops::FunctionName{"f", nullptr});
}

// The inputs of one call resemble each other: most have the shape of the first, or are vectors with an entry for each
// of its axes.
class InputMaker {
 public:
  InputMaker(Choices& choices, DType held) : choices_(choices), held_(held), first_(choices.shape()) {
    if (choices.chance(30)) {
      while (first_.rank() < 4) first_.push_back(1 + static_cast<std::int64_t>(choices.below(4)));
    }
  }

  Tensor make(DType dtype, bool leading) {
    if (choices_.chance(2)) dtype = choices_.dtype();
    return choices_.value(dtype, leading ? first_ : shape_of_later(dtype), held_);
  }

 private:
  Shape shape_of_later(DType dtype) {
    const bool index = dtype == DType::kInt32 || dtype == DType::kInt64;
    const std::size_t kind = choices_.below(100);
    if (index && kind < 35) return Shape{};
    if (index && kind < 60) return Shape{choices_.chance(70) ? first_.rank() : static_cast<int>(choices_.below(6))};
    if (index && kind < 70) return Shape{choices_.chance(70) ? first_.rank() : static_cast<int>(choices_.below(6)), 2};
    if (kind < 75) return first_;
    if (kind < 80) return Shape{};
    if (kind < 90 && first_.rank() > 0) {
      return Shape{std::min<std::int64_t>(first_[choices_.chance(60) ? -1 : 0], 4096)};
    }
    return choices_.shape();
  }

  Choices& choices_;
  const DType held_;
  Shape first_;
};

std::string text_of(const ops::Attr& attr) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        const auto shape = [](const Shape& each) { return each.to_string(); };
        if constexpr (std::is_same_v<T, DType>) {
          return std::string(dtype_name(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return fmt::format("{:?}", value);
        } else if constexpr (std::is_same_v<T, Shape>) {
          return shape(value);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          return value.defined() ? fmt::format("{}{}", dtype_name(value.dtype()), value.shape().to_string()) : "none";
        } else if constexpr (std::is_same_v<T, ops::FunctionName>) {
          return value.name;
        } else if constexpr (std::is_same_v<T, std::vector<DType>>) {
          std::vector<std::string_view> names;
          for (const DType each : value) names.push_back(dtype_name(each));
          return fmt::format("[{}]", fmt::join(names, ", "));
        } else if constexpr (std::is_same_v<T, std::vector<Shape>>) {
          std::vector<std::string> texts;
          for (const Shape& each : value) texts.push_back(shape(each));
          return fmt::format("[{}]", fmt::join(texts, ", "));
        } else if constexpr (std::is_same_v<T, std::vector<ops::FunctionName>>) {
          return fmt::format("{} functions", value.size());
        } else {
          return fmt::format("{}", value);
        }
      },
      attr);
}

std::string text_of(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  std::string text = fmt::format("{}{}", dtype_name(tensor.dtype()), tensor.shape().to_string());
  if (tensor.dtype() == DType::kString) {
    const auto& all = tensor.string_values();
    for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 8); ++i) text += fmt::format(" {:?}", all[i]);
  } else if (tensor.dtype() == DType::kResource) {
    const auto variable = std::dynamic_pointer_cast<VariableResource>(tensor.resource_value());
    if (variable) text += fmt::format(" of {}", variable->is_initialized() ? text_of(variable->read()) : "nothing");
  } else if (tensor.dtype() == DType::kVariant) {
    text += fmt::format(" of {} {}", tensor.list_elements().size(), dtype_name(tensor.list_element_dtype()));
  } else if (tensor.num_elements() <= 16) {
    const Tensor host = ops::call1("Cast", {tensor}, {{"DstT", DType::kFloat64}});
    text += fmt::format(" {}", host.to_vector<double>());
  }
  return text;
}

bool is_accepted(Code code) {
  return code == Code::kInvalidArgument || code == Code::kUnimplemented || code == Code::kResourceExhausted ||
         code == Code::kOutOfRange || code == Code::kFailedPrecondition;
}

// Runs one of the ways; a text that is not empty is a finding.
template <typename F>
std::string checked(std::string_view way, const std::string& op, const F& run) {
  try {
    run();
    return "";
  } catch (const Error& error) {
    if (!is_accepted(error.code())) return fmt::format("{}: {}: {}", way, code_name(error.code()), error.message());
    if (error.message().find(op) == std::string::npos) {
      return fmt::format("{}: the message does not name the operation: {}", way, error.message());
    }
    return "";
  } catch (const std::exception& error) {
    return fmt::format("{}: an exception that is not an Error: {}", way, error.what());
  }
}

// Reads every byte of a result, so that memory that is not its own is noticed.
void read_all(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_value()) return;
  std::size_t sum = 0;
  if (tensor.dtype() == DType::kString) {
    for (const std::string& each : tensor.string_values()) sum += each.size();
  } else {
    for (const std::byte each : tensor.to_data().bytes) sum += static_cast<std::size_t>(each);
  }
  [[maybe_unused]] static volatile std::size_t sink = 0;
  sink = sum;
}

std::string compared(std::string_view way, const std::vector<ops::OutputType>& types, const Tensors& outputs) {
  if (types.size() != outputs.size()) return fmt::format("{}: {} outputs, {} given", way, types.size(), outputs.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!outputs[i].defined()) return fmt::format("{}: output {} is missing", way, i);
    if (types[i].dtype != outputs[i].dtype()) {
      return fmt::format("{}: output {} is {}, found {}", way, i, dtype_name(types[i].dtype),
                         dtype_name(outputs[i].dtype()));
    }
    if (outputs[i].is_value() && !types[i].shape.compatible_with(outputs[i].shape())) {
      return fmt::format("{}: output {} has shape {}, found {}", way, i, types[i].shape.to_string(),
                         outputs[i].shape().to_string());
    }
  }
  return "";
}

std::vector<ops::OutputType> types_of(const Tensors& tensors) {
  std::vector<ops::OutputType> types;
  for (const Tensor& each : tensors) types.push_back({each.dtype(), each.shape()});
  return types;
}

std::string check_gradient(const OpCall& call) {
  const std::string& name = call.op->signature->name;
  Tensors inputs = call.inputs, leaves;
  for (Tensor& input : inputs) {
    if (input.is_value() && (is_floating(input.dtype()) || is_complex(input.dtype()))) {
      leaves.push_back(input = ops::make_leaf(input));
    }
  }
  if (leaves.empty()) return "";
  ops::set_grad_enabled(true);
  std::string found = checked("gradient", name, [&] {
    Tensors outputs;
    for (const Tensor& output : ops::call(name, inputs, call.attrs)) {
      if (output.is_value() && output.dtype() != DType::kString && ops::requires_grad(output))
        outputs.push_back(output);
    }
    if (outputs.empty()) return;
    ops::set_grad_enabled(false);
    try {
      for (const Tensor& gradient : ops::grad(outputs, leaves, Tensors(outputs.size()), false, false))
        read_all(gradient);
    } catch (const Error& error) {
      if (!is_accepted(error.code())) throw;  // the message need not name the operation
    }
  });
  ops::set_grad_enabled(false);
  return found;
}

}  // namespace

OpCall make_op_call(std::uint64_t seed, const std::vector<std::string>& names) {
  Choices choices(seed * 0x2545f4914f6cdd1du);
  OpCall call;
  call.op = &ops::Table::instance().at(names[seed % names.size()]);
  const ops::Signature& signature = *call.op->signature;
  ops::Attrs all;
  DType held = DType::kFloat32;
  for (const ops::AttrDef& def : signature.attrs) {
    const bool counts = std::any_of(signature.inputs.begin(), signature.inputs.end(), [&](const ops::ArgDef& arg) {
      return arg.number_attr == def.name || arg.type_list_attr == def.name;
    });
    ops::Attr value = attr_value(choices, def);
    if (counts && def.type == "int") value = static_cast<std::int64_t>(choices.below(4));
    if (def.name == "dtype" || def.name == "element_dtype" || def.name == "T") {
      if (const DType* type = std::get_if<DType>(&value)) held = *type;
    }
    all.set(def.name, value);
    // A type or number that follows from the inputs may be left out, and so may attributes with a default.
    const bool inferred = counts || def.type == "type";
    if (choices.chance(inferred || def.default_value ? 40 : 99)) call.attrs.set(def.name, std::move(value));
  }
  InputMaker maker(choices, held);
  for (const ops::ArgDef& arg : signature.inputs) {
    std::vector<DType> types;
    if (!arg.type_list_attr.empty()) {
      types = std::get<std::vector<DType>>(*all.find(arg.type_list_attr));
    } else {
      const DType type = arg.type_attr.empty() ? arg.dtype : std::get<DType>(*all.find(arg.type_attr));
      const std::int64_t count = arg.number_attr.empty() ? 1 : std::get<std::int64_t>(*all.find(arg.number_attr));
      types.assign(static_cast<std::size_t>(count), type);
    }
    for (const DType type : types) {
      try {
        call.inputs.push_back(maker.make(type, call.inputs.empty()));
      } catch (const Error&) {  // a type that tensors cannot have
        call.inputs.push_back(Tensor::scalar(1.0f));
      }
    }
  }
  if (choices.chance(1) && !call.inputs.empty()) call.inputs.pop_back();
  return call;
}

std::string describe(const OpCall& call) {
  std::string text = call.op->signature->name + "(";
  for (const Tensor& input : call.inputs) text += text_of(input) + "; ";
  for (const auto& [name, value] : call.attrs.items()) text += fmt::format("{}={}, ", name, text_of(value));
  if (text.ends_with(", ")) text.resize(text.size() - 2);
  return text + ")";
}

Outcome run_op_call(const OpCall& call) {
  const ops::MemoryLimit memory(kMemory);
  const std::string& name = call.op->signature->name;
  Tensors outputs;
  bool done = false;
  Outcome outcome;
  const auto also = [&](std::string what) {
    if (outcome.what.empty()) outcome.what = std::move(what);
  };
  also(checked("call", name, [&] {
    outputs = ops::call(name, call.inputs, call.attrs);
    for (const Tensor& output : outputs) read_all(output);
    done = true;
  }));
  outcome.result = done;
  also(checked("shape rule", name, [&] {
    const ops::Attrs attrs = ops::complete_attrs(*call.op->signature, call.inputs, call.attrs);
    const auto types = ops::infer_outputs(*call.op, call.inputs, attrs);
    if (done) also(compared("shape rule", types, outputs));
  }));
  also(checked("tracing", name, [&] {
    graph::ScratchScope scratch;
    Tensors symbols = call.inputs;
    bool symbolic = false;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      if (!symbols[i].is_value()) continue;
      Shape shape = symbols[i].shape();
      if (i % 2 == 1) shape = Shape::unknown_rank();
      if (i % 2 == 0 && shape.rank() > 0) shape[0] = kUnknownDim;
      symbols[i] = scratch.input(symbols[i].dtype(), shape);
      symbolic = true;
    }
    if (!symbolic) return;
    const Tensors inferred = ops::call(name, symbols, call.attrs);
    if (done) also(compared("tracing", types_of(inferred), outputs));
  }));
  if (done && outcome.what.empty()) also(check_gradient(call));
  return outcome;
}

Target op_calls_target(std::vector<std::string> names) {
  return {[names](std::uint64_t seed) { return run_op_call(make_op_call(seed, names)); },
          [names](std::uint64_t seed) { return describe(make_op_call(seed, names)); }};
}

}  // namespace lockstep::fuzz
