#include "lockstep/saving/saved_model_structure_internal.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/graph_def_internal.h"

namespace lockstep::saved_model {
namespace {

using tensorflow::StructuredValue;

void set_none(StructuredValue* value) { value->mutable_none_value(); }

void add_entry(tensorflow::NamedTupleValue* tuple, const char* key, const std::function<void(StructuredValue*)>& fill) {
  auto* pair = tuple->add_values();
  pair->set_key(key);
  fill(pair->mutable_value());
}

}  // namespace

void write_spec(const TensorSpec& spec, StructuredValue* value) {
  auto* proto = value->mutable_tensor_spec_value();
  proto->set_name(spec.name);
  graph::shape_to_proto(spec.shape, proto->mutable_shape());
  proto->set_dtype(static_cast<tensorflow::DataType>(spec.dtype));
}

void write_specs(const Specs& specs, StructuredValue* value) {
  if (specs.is_leaf()) {
    write_spec(specs.leaf(), value);
  } else if (specs.is_list()) {
    auto* list = value->mutable_list_value();
    for (const Specs& item : specs.parts()) write_specs(item, list->add_values());
  } else {
    auto& fields = *value->mutable_dict_value()->mutable_fields();
    for (const auto& [key, item] : specs.entries()) write_specs(item, &fields[key]);
  }
}

void write_input_signature(const std::vector<ExportFunction::Argument>& arguments, std::optional<bool> training,
                           StructuredValue* value) {
  auto* both = value->mutable_tuple_value();
  auto* positional = both->add_values()->mutable_tuple_value();
  for (const auto& argument : arguments) write_specs(argument.specs, positional->add_values());
  if (training) positional->add_values()->set_bool_value(*training);
  both->add_values()->mutable_dict_value();
}

void write_function_spec(const std::vector<std::string>& parameters, bool takes_training,
                         tensorflow::FunctionSpec* spec) {
  auto* tuple = spec->mutable_fullargspec()->mutable_named_tuple_value();
  tuple->set_name("FullArgSpec");
  add_entry(tuple, "args", [&](StructuredValue* value) {
    auto* list = value->mutable_list_value();
    for (const std::string& parameter : parameters) list->add_values()->set_string_value(parameter);
    if (takes_training) list->add_values()->set_string_value("training");
  });
  add_entry(tuple, "varargs", set_none);
  add_entry(tuple, "varkw", set_none);
  add_entry(tuple, "defaults", [&](StructuredValue* value) {
    if (takes_training) {
      value->mutable_tuple_value()->add_values()->set_bool_value(false);
    } else {
      set_none(value);
    }
  });
  add_entry(tuple, "kwonlyargs", [](StructuredValue* value) { value->mutable_list_value(); });
  add_entry(tuple, "kwonlydefaults", set_none);
  add_entry(tuple, "annotations", [](StructuredValue* value) { value->mutable_dict_value(); });
  set_none(spec->mutable_input_signature());
}

const google::protobuf::RepeatedPtrField<StructuredValue>& items_of(const StructuredValue& value) {
  return value.kind_case() == StructuredValue::kTupleValue ? value.tuple_value().values() : value.list_value().values();
}

std::map<std::string, const StructuredValue*> sorted_fields(const StructuredValue& value) {
  std::map<std::string, const StructuredValue*> sorted;
  for (const auto& [key, field] : value.dict_value().fields()) sorted.emplace(key, &field);
  return sorted;
}

TensorSpec read_spec(const tensorflow::TensorSpecProto& proto) {
  return {graph::shape_from_proto(proto.shape()), graph::dtype_from_proto(proto.dtype()), proto.name()};
}

namespace {

// Visits children in Python's order of flattening.
void for_each_child(const StructuredValue& value, const std::function<void(const StructuredValue&)>& fn) {
  switch (value.kind_case()) {
    case StructuredValue::kListValue:
    case StructuredValue::kTupleValue:
      for (const auto& item : items_of(value)) fn(item);
      break;
    case StructuredValue::kNamedTupleValue:
      for (const auto& item : value.named_tuple_value().values()) fn(item.value());
      break;
    case StructuredValue::kDictValue:
      for (const auto& [key, item] : sorted_fields(value)) fn(*item);
      break;
    default: break;
  }
}

// SparseTensor (3 tensors), RaggedTensor (values and row splits), …: taken as so many tensors of unknown shape.
int components_of(const tensorflow::TypeSpecProto& type) {
  if (type.num_flat_components() > 0) return std::min(type.num_flat_components(), 1 << 16);
  return type.type_spec_class() == tensorflow::TypeSpecProto::SPARSE_TENSOR_SPEC ? 3 : 1;
}

}  // namespace

std::vector<std::string> component_names(const std::string& key, bool sparse, int count) {
  if (sparse) return {key + "_indices", key + "_values", key + "_dense_shape"};
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back(i == 0 ? key : fmt::format("{}_{}", key, i));
  return names;
}

std::vector<std::string> entry_names(const std::string& key, const StructuredValue& value) {
  if (value.kind_case() != StructuredValue::kTypeSpecValue) return {key};
  const auto& type = value.type_spec_value();
  return component_names(key, type.type_spec_class() == tensorflow::TypeSpecProto::SPARSE_TENSOR_SPEC,
                         components_of(type));
}

void collect_specs(const StructuredValue& value, std::vector<TensorSpec>* specs) {
  if (value.kind_case() == StructuredValue::kTensorSpecValue) {
    specs->push_back(read_spec(value.tensor_spec_value()));
  } else if (value.kind_case() == StructuredValue::kBoundedTensorSpecValue) {
    const auto& bounded = value.bounded_tensor_spec_value();
    specs->push_back(
        {graph::shape_from_proto(bounded.shape()), graph::dtype_from_proto(bounded.dtype()), bounded.name()});
  } else if (value.kind_case() == StructuredValue::kTypeSpecValue) {
    const int count = components_of(value.type_spec_value());
    for (int i = 0; i < count; ++i) specs->emplace_back();
  } else {
    for_each_child(value, [&](const StructuredValue& child) { collect_specs(child, specs); });
  }
}

Structure pack_results(const StructuredValue& value, const Tensors& flat, std::size_t* next) {
  const auto take = [&] {
    if (*next >= flat.size())
      throw_invalid_argument("a function returns fewer tensors than its output signature declares");
    return flat[(*next)++];
  };
  switch (value.kind_case()) {
    case StructuredValue::kTensorSpecValue:
    case StructuredValue::kBoundedTensorSpecValue: return Structure(take());
    case StructuredValue::kTypeSpecValue: {
      const int count = components_of(value.type_spec_value());
      if (count == 1) return Structure(take());
      Structure::List parts;
      for (int i = 0; i < count; ++i) parts.push_back(Structure(take()));
      return Structure::list(std::move(parts));
    }
    case StructuredValue::kDictValue: {
      Structure::Dict entries;
      for (const auto& [name, field] : sorted_fields(value))
        entries.emplace_back(name, pack_results(*field, flat, next));
      return Structure::dict(std::move(entries));
    }
    case StructuredValue::kNamedTupleValue: {
      Structure::Dict entries;
      for (const auto& item : value.named_tuple_value().values()) {
        entries.emplace_back(item.key(), pack_results(item.value(), flat, next));
      }
      return Structure::dict(std::move(entries));
    }
    case StructuredValue::kListValue:
    case StructuredValue::kTupleValue: {
      Structure::List items;
      for_each_child(value, [&](const StructuredValue& child) { items.push_back(pack_results(child, flat, next)); });
      return Structure::list(std::move(items));
    }
    default: return Structure(Tensor());  // None and Python values
  }
}

}  // namespace lockstep::saved_model
