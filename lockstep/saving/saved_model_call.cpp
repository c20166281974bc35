// Calls of functions of a loaded SavedModel: arguments, defaults and the traced version that fits them.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/graph/graph_def_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/saving/saved_model_state_internal.h"
#include "lockstep/saving/saved_model_structure_internal.h"

namespace lockstep::saved_model {
namespace {

using tensorflow::StructuredValue;

// ---- values of Python ----------------------------------------------------------------------------------

std::optional<double> number_in(const StructuredValue& value) {
  switch (value.kind_case()) {
    case StructuredValue::kInt64Value: return static_cast<double>(value.int64_value());
    case StructuredValue::kFloat64Value: return value.float64_value();
    case StructuredValue::kBoolValue: return value.bool_value() ? 1.0 : 0.0;
    default: return std::nullopt;
  }
}

bool equal(const StructuredValue& a, const StructuredValue& b) {
  if (const auto x = number_in(a), y = number_in(b); x && y) return *x == *y;
  return a.SerializeAsString() == b.SerializeAsString();
}

// Whether a scalar is the value that a function was traced with; of float32 after rounding.
bool equal(const StructuredValue& value, const Tensor& given) {
  if (!given.is_value() || given.num_elements() != 1) return false;
  if (given.dtype() == DType::kString)
    return value.kind_case() == StructuredValue::kStringValue && given.string_values()[0] == value.string_value();
  const auto number = number_in(value);
  if (!number || is_complex(given.dtype())) return false;
  const double found = ops::cast(given, DType::kFloat64).item<double>();
  return found == *number ||
         (given.dtype() == DType::kFloat32 && found == static_cast<double>(static_cast<float>(*number)));
}

// A value of Python as a tensor, if it has one of this dtype.
std::optional<Tensor> tensor_of(const StructuredValue& value, DType dtype) {
  const bool number = is_floating(dtype) || is_complex(dtype) || is_integer(dtype);
  switch (value.kind_case()) {
    case StructuredValue::kInt64Value:
      if (number) return ops::cast(Tensor::scalar(std::int64_t{value.int64_value()}), dtype);
      break;
    case StructuredValue::kFloat64Value:
      if (number && !is_integer(dtype)) return ops::cast(Tensor::scalar(value.float64_value()), dtype);
      break;
    case StructuredValue::kBoolValue:
      if (dtype == DType::kBool) return Tensor::scalar(value.bool_value());
      break;
    case StructuredValue::kStringValue:
      if (dtype == DType::kString) return Tensor::strings({value.string_value()}, Shape{});
      break;
    case StructuredValue::kTensorValue:
    case StructuredValue::kNumpyValue: {
      const bool tensor = value.kind_case() == StructuredValue::kTensorValue;
      const Tensor found =
          graph::tensor_from_proto(tensor ? value.tensor_value() : value.numpy_value(), "the default of an argument");
      if (found.dtype() == dtype) return found;
      if (!tensor && number && (is_integer(found.dtype()) || (is_floating(found.dtype()) && !is_integer(dtype))))
        return ops::cast(found, dtype);
      break;
    }
    case StructuredValue::kListValue:
    case StructuredValue::kTupleValue: {
      Tensors items;
      for (const StructuredValue& item : items_of(value)) {
        const auto tensor = tensor_of(item, dtype);
        if (!tensor || !(tensor->shape() == (items.empty() ? *tensor : items[0]).shape())) return std::nullopt;
        items.push_back(*tensor);
      }
      return items.empty() ? Tensor::zeros(Shape{0}, dtype) : ops::stack(items, 0);
    }
    default: break;
  }
  return std::nullopt;
}

// ---- arguments -----------------------------------------------------------------------------------------

// What one parameter gets: what the caller gave, or its default; neither for a value that is missing.
struct Argument {
  const Structure* given = nullptr;
  const StructuredValue* by_default = nullptr;
};

// Compares arguments with the signature of a trace and collects its tensors in their order.
class Binding {
 public:
  Binding(bool convert, bool described) : convert_(convert), described_(described) {}

  Tensors tensors;

  bool fits(const StructuredValue& spec, const Argument& argument) {
    if (argument.given) return fits_given(spec, *argument.given);
    if (argument.by_default || described_) return argument.by_default && fits_default(spec, *argument.by_default);
    std::vector<TensorSpec> specs;
    collect_specs(spec, &specs);
    return specs.empty();  // the value of the trace, since the file does not say more
  }

  // The argument `training` where the call does not name it.
  bool fits_training(const StructuredValue& spec, std::optional<bool> training, const StructuredValue* by_default,
                     bool strict) {
    if (spec.kind_case() == StructuredValue::kBoolValue)
      return training ? spec.bool_value() == *training : (!strict || !spec.bool_value());
    if (spec.kind_case() != StructuredValue::kTensorSpecValue) return !strict || !training;
    return training ? fits_given(spec, Structure(Tensor::scalar(*training))) : fits(spec, {nullptr, by_default});
  }

 private:
  bool fits_given(const StructuredValue& spec, const Structure& given) {
    const bool none = given.is_leaf() && !given.leaf().defined();
    const auto all = [&](const auto& values) {
      if (given.is_leaf() && values.size() == 1) return fits_given(values[0], given);
      if (!given.is_list() || static_cast<int>(given.parts().size()) != values.size()) return false;
      for (int i = 0; i < values.size(); ++i) {
        if (!fits_given(values[i], given.parts()[static_cast<std::size_t>(i)])) return false;
      }
      return true;
    };
    switch (spec.kind_case()) {
      case StructuredValue::kTensorSpecValue: {
        if (none || !given.is_leaf()) return false;
        const TensorSpec wanted = read_spec(spec.tensor_spec_value());
        tensors.push_back(given.leaf());
        return given.leaf().dtype() == wanted.dtype && wanted.shape.compatible_with(given.leaf().shape());
      }
      case StructuredValue::kListValue: return all(spec.list_value().values());
      case StructuredValue::kTupleValue: return all(spec.tuple_value().values());
      case StructuredValue::kDictValue: {
        const auto fields = sorted_fields(spec);
        if (!given.is_dict() || given.entries().size() != fields.size()) return false;
        return std::all_of(fields.begin(), fields.end(), [&](const auto& field) {
          const Structure* entry = given.find(field.first);
          return entry && fits_given(*field.second, *entry);
        });
      }
      case StructuredValue::kNamedTupleValue: {
        const auto& fields = spec.named_tuple_value().values();
        if (!given.is_dict() || static_cast<int>(given.entries().size()) != fields.size()) return false;
        return std::all_of(fields.begin(), fields.end(), [&](const auto& field) {
          const Structure* entry = given.find(field.key());
          return entry && fits_given(field.value(), *entry);
        });
      }
      case StructuredValue::kTypeSpecValue:
        if (none) return false;
        for (const Tensor& part : given.flatten()) tensors.push_back(part);
        return true;
      case StructuredValue::kNoneValue: return none;
      default: return !none && given.is_leaf() && equal(spec, given.leaf());
    }
  }

  bool fits_default(const StructuredValue& spec, const StructuredValue& value) {
    std::vector<TensorSpec> specs;
    collect_specs(spec, &specs);
    if (specs.empty()) return equal(spec, value);
    if (spec.kind_case() == StructuredValue::kTensorSpecValue) {
      if (!convert_ && value.kind_case() != StructuredValue::kTensorValue) return false;
      const auto tensor = tensor_of(value, specs[0].dtype);
      if (!tensor || !specs[0].shape.compatible_with(tensor->shape())) return false;
      tensors.push_back(*tensor);
      return true;
    }
    const auto fields = sorted_fields(spec);
    if (!fields.empty()) {
      const auto& defaults = value.dict_value().fields();
      return defaults.size() == fields.size() && std::all_of(fields.begin(), fields.end(), [&](const auto& field) {
               const auto found = defaults.find(field.first);
               return found != defaults.end() && fits_default(*field.second, found->second);
             });
    }
    const auto &wanted = items_of(spec), &items = items_of(value);
    if (wanted.empty() || wanted.size() != items.size()) return false;
    for (int i = 0; i < wanted.size(); ++i) {
      if (!fits_default(wanted[i], items[i])) return false;
    }
    return true;
  }

  bool convert_;
  bool described_;
};

struct Request {
  const std::vector<Structure>& arguments;
  const std::map<std::string, Structure>& keywords;
  std::optional<bool> training;
};

// The flat tensor arguments when the call fits this trace.
std::optional<Tensors> bind(const RestoredFunction& function, const BoundFunction& trace, const Request& request,
                            bool strict, bool convert) {
  if (!trace.input_signature || trace.input_signature->tuple_value().values_size() != 2) return std::nullopt;
  const auto& positional = trace.input_signature->tuple_value().values(0).tuple_value();
  const auto keywords = sorted_fields(trace.input_signature->tuple_value().values(1));
  Binding binding(convert, function.described);
  std::size_t next = 0, used_keywords = 0;
  const auto by_name = [&](const std::string& name) -> const Structure* {
    const auto found = name.empty() ? request.keywords.end() : request.keywords.find(name);
    if (found == request.keywords.end()) return nullptr;
    ++used_keywords;
    return &found->second;
  };
  for (int i = 0; i < positional.values_size(); ++i) {
    const bool named = static_cast<std::size_t>(i) < function.parameters.size();
    const RestoredFunction::Parameter parameter =
        named ? function.parameters[static_cast<std::size_t>(i)] : RestoredFunction::Parameter{};
    if (parameter.name == "training" && !request.keywords.contains("training") &&
        (next == request.arguments.size() || !positional.values(i).has_tensor_spec_value())) {
      if (!binding.fits_training(positional.values(i), request.training, parameter.default_value, strict))
        return std::nullopt;
      continue;
    }
    Argument argument{by_name(parameter.name), parameter.default_value};
    if (!argument.given && next < request.arguments.size()) argument.given = &request.arguments[next++];
    if (!binding.fits(positional.values(i), argument)) return std::nullopt;
  }
  // The inputs of a function that takes keywords only, as one dict.
  const Structure* dict =
      positional.values_size() == 0 && request.arguments.size() == 1 && request.arguments[0].is_dict()
          ? &request.arguments[0]
          : nullptr;
  if (dict) ++next;
  for (const auto& [name, spec] : keywords) {
    if (name == "training" && !request.keywords.contains(name)) {
      if (!binding.fits_training(*spec, request.training, nullptr, strict)) return std::nullopt;
      continue;
    }
    Argument argument{by_name(name), nullptr};
    if (!argument.given && dict) argument.given = dict->find(name);
    for (const auto* list : {&function.parameters, &function.keyword_only}) {
      for (const auto& parameter : *list) {
        if (parameter.name == name) argument.by_default = parameter.default_value;
      }
    }
    if (!binding.fits(*spec, argument)) return std::nullopt;
  }
  if (next < request.arguments.size() || used_keywords < request.keywords.size()) return std::nullopt;
  return std::move(binding.tensors);
}

std::string describe(const Request& request) {
  std::string text;
  const auto add = [&](const std::string& name, const Structure& argument) {
    for (const Tensor& tensor : argument.flatten()) {
      if (!tensor.defined()) continue;
      text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", name, dtype_name(tensor.dtype()),
                          tensor.shape().to_string());
    }
  };
  for (const Structure& argument : request.arguments) add("", argument);
  for (const auto& [name, argument] : request.keywords) add(name + "=", argument);
  return text;
}

std::string describe_traces(const RestoredFunction& function) {
  std::string text;
  for (const BoundFunction& trace : function.traces) {
    std::vector<TensorSpec> specs;
    if (trace.input_signature) collect_specs(*trace.input_signature, &specs);
    std::string one;
    for (const TensorSpec& spec : specs) {
      one += fmt::format("{}{}{}", one.empty() ? "" : ", ", dtype_name(spec.dtype), spec.shape.to_string());
    }
    const std::string item = fmt::format("({})", one);
    if (text.find(item) == std::string::npos) text += (text.empty() ? "" : " or ") + item;
  }
  return text;
}

void check_keywords(const std::string& name, const RestoredFunction& function,
                    const std::map<std::string, Structure>& keywords) {
  if (function.any_keywords || !function.described) return;
  std::vector<std::string> names;
  for (const auto* list : {&function.parameters, &function.keyword_only}) {
    for (const auto& parameter : *list) names.push_back(parameter.name);
  }
  for (const auto& [keyword, value] : keywords) {
    if (std::find(names.begin(), names.end(), keyword) == names.end())
      throw_invalid_argument(
          fmt::format("function '{}': unknown argument '{}'{}", name, keyword, did_you_mean(keyword, names)));
  }
}

}  // namespace

Structure LoadedModel::call(const std::string& name, const std::vector<Structure>& arguments,
                            std::optional<bool> training, const std::map<std::string, Structure>& keywords) const {
  const auto& functions = state_->functions_of(node_);
  const auto found = functions.find(name);
  if (found == functions.end()) {
    throw_not_found(
        fmt::format("{}: the model has no function '{}'{}", state_->path, name, did_you_mean(name, function_names())));
  }
  const RestoredFunction& function = found->second;
  check_keywords(name, function, keywords);
  const Request request{arguments, keywords, training ? training : function.default_training};
  for (const bool strict : {true, false}) {
    for (const bool convert : {false, true}) {
      for (const BoundFunction& trace : function.traces) {
        const auto flat = bind(function, trace, request, strict, convert);
        if (!flat) continue;
        std::size_t next = 0;
        return pack_results(*trace.output_signature, state_->run(trace, *flat), &next);
      }
    }
  }
  throw_invalid_argument(fmt::format("{}: function '{}' was not traced for ({}); it takes {}", state_->path, name,
                                     describe(request), describe_traces(function)));
}

}  // namespace lockstep::saved_model
