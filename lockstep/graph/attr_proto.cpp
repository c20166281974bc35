#include "lockstep/graph/attr_proto_internal.h"

#include "lockstep/base/error.h"

namespace lockstep::graph {
namespace {

using tensorflow::AttrValue;

template <typename To, typename From>
std::vector<To> copy(const From& from) {
  return std::vector<To>(from.begin(), from.end());
}

ops::FunctionName function_from_proto(const tensorflow::NameAttrList& proto, std::string_view what,
                                      const Owner& owner) {
  ops::FunctionName function{proto.name(), nullptr};
  if (!proto.attr().empty()) {
    function.attrs = std::make_shared<ops::Attrs>(attrs_from_proto(proto.attr(), nullptr, what, owner));
  }
  return function;
}

std::optional<ops::Attr> empty_list(std::string_view type) {
  if (type == "list(float)") return std::vector<float>{};
  if (type == "list(bool)") return std::vector<bool>{};
  if (type == "list(string)") return std::vector<std::string>{};
  if (type == "list(type)") return std::vector<DType>{};
  if (type == "list(shape)") return std::vector<Shape>{};
  if (type == "list(func)") return std::vector<ops::FunctionName>{};
  return std::vector<std::int64_t>{};
}

std::optional<ops::Attr> list_from_proto(const AttrValue::ListValue& list, std::string_view type, std::string_view what,
                                         const Owner& owner) {
  if (list.i_size() > 0) return copy<std::int64_t>(list.i());
  if (list.f_size() > 0) return copy<float>(list.f());
  if (list.b_size() > 0) return copy<bool>(list.b());
  if (list.s_size() > 0) return copy<std::string>(list.s());
  if (list.type_size() > 0) {
    std::vector<DType> types;
    for (int number : list.type()) types.push_back(dtype_from_proto(number));
    return types;
  }
  if (list.shape_size() > 0) {
    std::vector<Shape> shapes;
    for (const auto& shape : list.shape()) shapes.push_back(shape_from_proto(shape));
    return shapes;
  }
  if (list.func_size() > 0) {
    std::vector<ops::FunctionName> functions;
    for (const auto& function : list.func()) functions.push_back(function_from_proto(function, what, owner));
    return functions;
  }
  if (list.tensor_size() > 0) return std::nullopt;
  return empty_list(type);
}

struct ToProto {
  AttrValue* proto;

  void operator()(std::int64_t value) const { proto->set_i(value); }
  void operator()(float value) const { proto->set_f(value); }
  void operator()(bool value) const { proto->set_b(value); }
  void operator()(const std::string& value) const { proto->set_s(value); }
  void operator()(DType value) const { proto->set_type(static_cast<tensorflow::DataType>(value)); }
  void operator()(const Shape& value) const { shape_to_proto(value, proto->mutable_shape()); }
  void operator()(const Tensor& value) const { tensor_to_proto(value, proto->mutable_tensor()); }
  void operator()(const ops::FunctionName& value) const { write(value, proto->mutable_func()); }
  void operator()(const std::vector<std::int64_t>& values) const {
    for (std::int64_t value : values) list()->add_i(value);
  }
  void operator()(const std::vector<float>& values) const {
    for (float value : values) list()->add_f(value);
  }
  void operator()(const std::vector<bool>& values) const {
    for (bool value : values) list()->add_b(value);
  }
  void operator()(const std::vector<std::string>& values) const {
    for (const std::string& value : values) list()->add_s(value);
  }
  void operator()(const std::vector<DType>& values) const {
    for (DType value : values) list()->add_type(static_cast<tensorflow::DataType>(value));
  }
  void operator()(const std::vector<Shape>& values) const {
    for (const Shape& value : values) shape_to_proto(value, list()->add_shape());
  }
  void operator()(const std::vector<ops::FunctionName>& values) const {
    for (const ops::FunctionName& value : values) write(value, list()->add_func());
  }

  AttrValue::ListValue* list() const { return proto->mutable_list(); }
  static void write(const ops::FunctionName& value, tensorflow::NameAttrList* target) {
    target->set_name(value.name);
    if (value.attrs) attrs_to_proto(*value.attrs, nullptr, target->mutable_attr());
  }
};

bool equal_attrs(const ops::Attr& a, const ops::Attr& b) {
  if (a.index() != b.index()) return false;
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, ops::FunctionName>) {
          return false;
        } else if constexpr (std::is_same_v<T, std::vector<ops::FunctionName>>) {
          return value.empty() && std::get<T>(b).empty();
        } else {
          return value == std::get<T>(b);
        }
      },
      a);
}

}  // namespace

std::optional<ops::Attr> attr_from_proto(const AttrValue& proto, std::string_view type, std::string_view what,
                                         const Owner& owner) {
  switch (proto.value_case()) {
    case AttrValue::kS: return proto.s();
    case AttrValue::kI: return std::int64_t{proto.i()};
    case AttrValue::kF: return proto.f();
    case AttrValue::kB: return proto.b();
    case AttrValue::kType: return dtype_from_proto(proto.type());
    case AttrValue::kShape: return shape_from_proto(proto.shape());
    case AttrValue::kTensor: return tensor_from_proto(proto.tensor(), what, owner);
    case AttrValue::kFunc: return function_from_proto(proto.func(), what, owner);
    case AttrValue::kList: return list_from_proto(proto.list(), type, what, owner);
    case AttrValue::kPlaceholder:
    case AttrValue::VALUE_NOT_SET: break;
  }
  return std::nullopt;
}

void attr_to_proto(const ops::Attr& attr, AttrValue* proto) {
  proto->Clear();
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::vector<std::int64_t>> || std::is_same_v<T, std::vector<float>> ||
                      std::is_same_v<T, std::vector<bool>> || std::is_same_v<T, std::vector<std::string>> ||
                      std::is_same_v<T, std::vector<DType>> || std::is_same_v<T, std::vector<Shape>> ||
                      std::is_same_v<T, std::vector<ops::FunctionName>>) {
          proto->mutable_list();  // an empty list is present too
        }
        ToProto{proto}(value);
      },
      attr);
}

ops::Attrs attrs_from_proto(const google::protobuf::Map<std::string, AttrValue>& protos,
                            const ops::Signature* signature, std::string_view what, const Owner& owner) {
  ops::Attrs attrs;
  for (const auto& [name, value] : protos) {
    if (name.starts_with("_")) continue;
    const ops::AttrDef* def = signature ? signature->find_attr(name) : nullptr;
    try {
      if (auto attr = attr_from_proto(value, def ? def->type : "", what, owner)) attrs.set(name, *std::move(attr));
    } catch (const Error& error) {
      // A constant of an exotic type matters only when it is needed: its node has no value then.
      if (error.code() != Code::kUnimplemented) throw;
    }
  }
  return attrs;
}

void attrs_to_proto(const ops::Attrs& attrs, const ops::Signature* signature,
                    google::protobuf::Map<std::string, AttrValue>* protos) {
  for (const auto& [name, attr] : attrs.items()) {
    const ops::AttrDef* def = signature ? signature->find_attr(name) : nullptr;
    if (def && def->default_value && equal_attrs(attr, *def->default_value)) continue;
    attr_to_proto(attr, &(*protos)[name]);
  }
}

}  // namespace lockstep::graph
