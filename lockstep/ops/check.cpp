#include "lockstep/ops/check_internal.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"

namespace lockstep::ops {
namespace {

// In the order of Attr's alternatives.
constexpr std::array<std::string_view, 15> kKinds = {
    "int",       "float",       "bool",       "string",       "type",       "shape",       "tensor",    "func",
    "list(int)", "list(float)", "list(bool)", "list(string)", "list(type)", "list(shape)", "list(func)"};
static_assert(kKinds.size() == std::variant_size_v<Attr>);

[[noreturn]] void invalid_attr(const Signature& signature, const AttrDef& def, std::string_view why) {
  throw_invalid_argument(fmt::format("{}: invalid attribute '{}': {}", signature.name, def.name, why));
}

void check_type(const Signature& signature, const AttrDef& def, DType type) {
  if (def.allowed_types.empty() ||
      std::find(def.allowed_types.begin(), def.allowed_types.end(), type) != def.allowed_types.end()) {
    return;
  }
  std::vector<std::string_view> names;
  for (const DType allowed : def.allowed_types) names.push_back(dtype_name(allowed));
  invalid_attr(signature, def, fmt::format("{} is not one of {}", dtype_name(type), fmt::join(names, ", ")));
}

void check_string(const Signature& signature, const AttrDef& def, const std::string& text) {
  const auto& allowed = def.allowed_strings;
  if (allowed.empty() || std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return;
  invalid_attr(signature, def, fmt::format("'{}' is not one of {}", text, fmt::join(allowed, ", ")));
}

const Attr& attr_or_default(const Signature& signature, const Attrs& attrs, const std::string& name) {
  if (const Attr* given = attrs.find(name)) return *given;
  const AttrDef* def = signature.find_attr(name);
  if (def && def->default_value) return *def->default_value;
  throw_invalid_argument(fmt::format("{}: attribute '{}' is missing", signature.name, name));
}

template <typename T>
const T& typed(const Signature& signature, const Attrs& attrs, const std::string& name) {
  const T* value = std::get_if<T>(&attr_or_default(signature, attrs, name));
  if (!value) throw_invalid_argument(fmt::format("{}: attribute '{}' has the wrong type", signature.name, name));
  return *value;
}

// Throws InvalidArgument unless `value` has the declared kind, reaches the minimum and is one of the allowed values.
void check_attr(const Signature& signature, const AttrDef& def, const Attr& value) {
  if (value.index() != def.kind) {
    invalid_attr(signature, def, fmt::format("expected {}, found {}", kKinds[def.kind], kKinds[value.index()]));
  }
  const auto at_least = [&](std::int64_t number, std::string_view of) {
    if (def.minimum && number < *def.minimum) {
      invalid_attr(signature, def, fmt::format("{}{} is below the minimum {}", of, number, *def.minimum));
    }
  };
  const auto fits = [&](std::int64_t number) {
    if ((number < INT32_MIN || number > INT32_MAX) && def.type.find("int32") != std::string::npos)
      invalid_attr(signature, def, fmt::format("{} is out of range for an int32", number));
  };
  std::visit(
      [&](const auto& found) {
        using T = std::decay_t<decltype(found)>;
        if constexpr (std::is_same_v<T, std::int64_t>) {
          at_least(found, "");
          fits(found);
        } else if constexpr (std::is_same_v<T, DType>) {
          check_type(signature, def, found);
        } else if constexpr (std::is_same_v<T, std::string>) {
          check_string(signature, def, found);
        } else if constexpr (requires {
                               found.size();
                               found.begin();
                             }) {
          at_least(static_cast<std::int64_t>(found.size()), "the length ");
          if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            for (const std::int64_t each : found) fits(each);
          } else if constexpr (std::is_same_v<T, std::vector<DType>>) {
            for (const DType each : found) check_type(signature, def, each);
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            for (const std::string& each : found) check_string(signature, def, each);
          }
        }
      },
      value);
}

// The number of the first tensor of argument number `arg`.
std::size_t first_of(const Signature& signature, std::size_t arg, const Attrs& attrs) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < arg; ++i) first += list_length(signature, signature.inputs[i], attrs);
  return first;
}

[[noreturn]] void invalid_rank(const Signature& signature, const ArgDef& arg, const InputLimit& limit,
                               const Shape& shape) {
  const std::string expected = limit.min_rank == limit.max_rank ? fmt::format("{}", limit.min_rank)
                               : limit.max_rank == InputLimit::kAnyRank
                                   ? fmt::format("at least {}", limit.min_rank)
                                   : fmt::format("{} to {}", limit.min_rank, limit.max_rank);
  throw_invalid_argument(fmt::format("{}: input '{}' has shape {}, expected {} axes", signature.name, arg.name,
                                     shape.to_string(), expected));
}

}  // namespace

std::size_t attr_kind(std::string_view type) {
  if (type == "int32") type = "int";
  if (type == "list(int32)") type = "list(int)";
  const auto found = std::find(kKinds.begin(), kKinds.end(), type);
  if (found == kKinds.end()) throw_internal(fmt::format("signature table: unknown attribute type '{}'", type));
  return static_cast<std::size_t>(found - kKinds.begin());
}

void check_attrs(const Signature& signature, Attrs& attrs) {
  for (const AttrDef& def : signature.attrs) {
    if (const Attr* value = attrs.find(def.name)) {
      check_attr(signature, def, *value);
    } else if (def.default_value) {
      attrs.set(def.name, *def.default_value);
    } else if (def.type != "tensor") {
      throw_invalid_argument(fmt::format("{}: attribute '{}' is missing", signature.name, def.name));
    }
  }
}

std::size_t list_length(const Signature& signature, const ArgDef& arg, const Attrs& attrs) {
  std::int64_t length = 1;
  if (!arg.type_list_attr.empty()) {
    length = static_cast<std::int64_t>(typed<std::vector<DType>>(signature, attrs, arg.type_list_attr).size());
  } else if (!arg.number_attr.empty()) {
    length = typed<std::int64_t>(signature, attrs, arg.number_attr);
  }
  if (length < 0 || length > kMaxListLength) {
    throw_invalid_argument(fmt::format("{}: '{}' stands for {} tensors, at most {} are allowed", signature.name,
                                       arg.name, length, kMaxListLength));
  }
  return static_cast<std::size_t>(length);
}

std::vector<DType> input_types(const Signature& signature, const Attrs& attrs) {
  std::vector<DType> types;
  for (const ArgDef& arg : signature.inputs) {
    const std::size_t length = list_length(signature, arg, attrs);
    if (!arg.type_list_attr.empty()) {
      const auto& list = typed<std::vector<DType>>(signature, attrs, arg.type_list_attr);
      types.insert(types.end(), list.begin(), list.end());
    } else {
      const DType type = arg.type_attr.empty() ? arg.dtype : typed<DType>(signature, attrs, arg.type_attr);
      types.insert(types.end(), length, type);
    }
  }
  return types;
}

void check_shapes(const Signature& signature, std::span<const Tensor> inputs, const Attrs& attrs) {
  const std::span<const InputLimit> limits = input_limits(signature);
  std::size_t next = 0;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const ArgDef& arg = signature.inputs[i];
    const InputLimit& limit = limits[i];
    const std::size_t end = next + list_length(signature, arg, attrs);
    if (end > inputs.size()) throw_invalid_argument(fmt::format("{}: input '{}' is missing", signature.name, arg.name));
    for (; next < end; ++next) {
      const Shape& shape = inputs[next].shape();
      if (!shape.known_rank() || inputs[next].dtype() == DType::kResource) continue;
      if (shape.rank() < limit.min_rank || shape.rank() > limit.max_rank) invalid_rank(signature, arg, limit, shape);
      if (limit.same_shape_as < 0) continue;
      const auto other = static_cast<std::size_t>(limit.same_shape_as);
      const Shape& expected = inputs[first_of(signature, other, attrs)].shape();
      if (shape.compatible_with(expected)) continue;
      throw_invalid_argument(fmt::format("{}: input '{}' has shape {}, expected that of '{}', {}", signature.name,
                                         arg.name, shape.to_string(), signature.inputs[other].name,
                                         expected.to_string()));
    }
  }
}

}  // namespace lockstep::ops
