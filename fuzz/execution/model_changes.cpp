#include "fuzz/execution/model_changes.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "fuzz/execution/graph_changes.h"
#include "lockstep/base/error.h"
#include "lockstep/formats/hdf5_reader.h"
#include "lockstep/formats/hdf5_writer.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"

namespace lockstep::fuzz {
namespace {

using formats::TensorData;

std::string read_file(const std::string& path) {
  return std::string(io::as_text(io::posix_file_system().map(path)->bytes()));
}

void write_file(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured()) {
    for (Json& part : value) collect(part, all);
  }
}

const std::vector<std::string>& words() {
  static const std::vector<std::string> all = {"relu",
                                               "softmax",
                                               "same",
                                               "valid",
                                               "causal",
                                               "linear",
                                               "channels_first",
                                               "channels_last",
                                               "float64",
                                               "float16",
                                               "bfloat16",
                                               "int32",
                                               "string",
                                               "mixed_float16",
                                               "sum",
                                               "mul",
                                               "concat",
                                               "mean_absolute_error",
                                               "binary_crossentropy",
                                               "adam",
                                               "rmsprop",
                                               "accuracy",
                                               "auto",
                                               "l2",
                                               "zeros",
                                               "bool",
                                               ""};
  return all;
}

Json extreme(Choices& choices) {
  switch (choices.below(12)) {
    case 0: return nullptr;
    case 1: return choices.chance(50);
    case 2: return Json::array();
    case 3: return Json::object();
    case 4: return choices.real();
    case 5: return choices.pick(words());
    case 6: return choices.text().substr(0, 0) + "x";
    case 7: return Json::array({choices.integer(), choices.integer()});
    case 8: return Json::array({Json::array(), nullptr, "x"});
    default: return choices.integer();
  }
}

void change_value(Choices& choices, Json& value, const Json& other) {
  if (choices.chance(25)) {
    value = extreme(choices);
  } else if (choices.chance(15)) {
    value = Json(other);
  } else if (value.is_boolean()) {
    value = !value.get<bool>();
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    const std::vector<std::int64_t> near = {0, 1, 2, -1, number + 1, number - 1, number * 2, 7, 3};
    value = choices.chance(20) ? Json(static_cast<double>(number)) : Json(choices.pick(near));
  } else if (value.is_number()) {
    value = choices.chance(50) ? choices.real() : -value.get<double>();
  } else if (value.is_string()) {
    value = choices.chance(80) ? choices.pick(words()) : value.text() + "x";
  } else if (value.is_array()) {
    std::vector<Json> items(value.begin(), value.end());
    switch (choices.below(4)) {
      case 0: std::reverse(items.begin(), items.end()); break;
      case 1:
        if (!items.empty()) items.pop_back();
        break;
      case 2:
        if (!items.empty()) items.push_back(items.front());
        break;
      default: items.push_back(Json(other));
    }
    value = Json(std::move(items));
  } else if (value.is_object() && !value.empty()) {
    std::vector<JsonMember> members = value.items();
    const std::size_t at = choices.below(members.size());
    if (choices.chance(50)) {
      members.erase(members.begin() + static_cast<std::ptrdiff_t>(at));
    } else {
      members[at].value() = extreme(choices);
    }
    value = Json(std::move(members));
  } else {
    value = extreme(choices);
  }
}

// A tensor of zeros or of odd numbers, or the bytes of `old` where they fit.
TensorData changed_tensor(Choices& choices, const TensorData& old, bool may_be_text) {
  Shape shape = old.shape;
  DType dtype = old.dtype;
  switch (choices.below(5)) {
    case 0:
      if (shape.rank() > 0)
        shape[static_cast<int>(choices.below(static_cast<std::size_t>(shape.rank())))] =
            static_cast<std::int64_t>(choices.below(6));
      break;
    case 1: shape.push_back(static_cast<std::int64_t>(choices.below(3))); break;
    case 2: {
      static const std::vector<DType> types = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                                               DType::kInt32,   DType::kInt64,   DType::kUInt8,
                                               DType::kBool,    DType::kInt8,    DType::kUInt32};
      dtype = choices.pick(types);
      break;
    }
    case 3: shape = Shape{}; break;
    default: break;  // other values
  }
  if (dtype == DType::kString) {
    if (!may_be_text) return old;
    TensorData texts{.dtype = dtype, .shape = shape};
    texts.strings.resize(static_cast<std::size_t>(shape.num_elements().value_or(0)));
    for (std::string& text : texts.strings) text = choices.text();
    return texts;
  }
  std::span<std::byte> bytes;
  TensorData fresh = TensorData::allocate(dtype, shape, bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = i < old.bytes.size() && !choices.chance(10) ? old.bytes[i] : static_cast<std::byte>(choices.next());
  }
  if (dtype == DType::kBool) std::fill(bytes.begin(), bytes.end(), std::byte{1});
  return fresh;
}

struct Dataset {
  std::string path;
  TensorData value;
};
struct Attribute {
  std::string path, name;
  bool is_list = false;
  std::vector<std::string> texts;
  Json config;  // of an attribute that is one
};
struct Contents {
  std::vector<std::string> groups;
  std::vector<Dataset> datasets;
  std::vector<Attribute> attributes;
};

void read_contents(const formats::Hdf5File& file, const formats::Hdf5Node& node, const std::string& path,
                   Contents& all) {
  if (node.kind == formats::Hdf5Node::Kind::kDataset) all.datasets.push_back({path, file.read(node)});
  if (node.kind == formats::Hdf5Node::Kind::kGroup && !path.empty()) all.groups.push_back(path);
  for (const auto& attribute : node.attributes) {
    if (attribute.value.dtype != DType::kString) continue;
    Attribute& mine = all.attributes.emplace_back(
        Attribute{path, attribute.name, attribute.value.shape.rank() > 0, attribute.value.strings, {}});
    if (!mine.is_list && mine.texts.at(0).starts_with("{")) mine.config = parse_json(mine.texts[0], mine.name);
  }
  for (const auto& child : node.children)
    read_contents(file, child, path.empty() ? child.name : path + "/" + child.name, all);
}

void change_attribute(Choices& choices, Attribute& attribute, Log& log) {
  log += fmt::format("attribute {} of '{}'; ", attribute.name, attribute.path);
  std::vector<std::string>& texts = attribute.texts;
  if (attribute.config.is_object() && choices.chance(90)) {
    change_config(choices, attribute.config, log);
    texts[0] = dump_json(attribute.config);
  } else if (!texts.empty() && (!attribute.is_list || choices.chance(50))) {
    texts[choices.below(texts.size())] =
        choices.chance(50) ? texts[choices.below(texts.size())] + "x" : choices.pick(words());
  } else if (!texts.empty() && choices.chance(50)) {
    texts.pop_back();
  } else {
    texts.push_back(texts.empty() ? "x" : texts[0]);
  }
}

void change_contents(Choices& choices, Contents& all, Log& log) {
  if (!all.attributes.empty() && choices.chance(all.datasets.empty() ? 100 : 40))
    return change_attribute(choices, all.attributes[choices.below(all.attributes.size())], log);
  if (all.datasets.empty()) return;
  const std::size_t at = choices.below(all.datasets.size());
  Dataset& dataset = all.datasets[at];
  log += fmt::format("dataset {}; ", dataset.path);
  switch (choices.below(4)) {
    case 0: all.datasets.erase(all.datasets.begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: dataset.path += choices.chance(50) ? "x" : "/0"; break;
    default: dataset.value = changed_tensor(choices, dataset.value, false);
  }
}

void change_bytes(Choices& choices, std::string& bytes, Log& log) {
  log += "bytes; ";
  for (std::size_t count = 1 + choices.below(8); count > 0 && !bytes.empty(); --count) {
    const std::size_t at = choices.below(bytes.size());
    bytes[at] =
        choices.chance(50) ? static_cast<char>(choices.next()) : static_cast<char>(bytes[at] ^ 1 << choices.below(8));
  }
}

void change_objects(Choices& choices, tensorflow::MetaGraphDef& meta, Log& log) {
  auto& objects = *meta.mutable_object_graph_def();
  const auto any = [&] { return static_cast<int>(choices.below(static_cast<std::size_t>(objects.nodes_size()))); };
  if (objects.nodes_size() == 0) return;
  auto& node = *objects.mutable_nodes(any());
  const auto odd = [&] { return choices.chance(70) ? any() : static_cast<int>(choices.integer()); };
  switch (choices.below(6)) {
    case 0:
      if (node.children_size() > 0)
        node.mutable_children(static_cast<int>(choices.below(static_cast<std::size_t>(node.children_size()))))
            ->set_node_id(odd());
      break;
    case 1: node = tensorflow::SavedObject(objects.nodes(any())); break;
    case 2:
      if (node.has_variable()) {
        change_shape(choices, *node.mutable_variable()->mutable_shape());
      } else if (node.has_function() && node.function().concrete_functions_size() > 0) {
        node.mutable_function()->set_concrete_functions(0, choices.text());
      }
      break;
    case 3:
      if (node.has_variable()) node.mutable_variable()->set_dtype(static_cast<tensorflow::DataType>(choices.dtype()));
      break;
    case 4:
      for (auto& [name, function] : *objects.mutable_concrete_functions()) {
        if (choices.chance(50)) continue;
        if (function.bound_inputs_size() > 0 && choices.chance(50)) {
          function.set_bound_inputs(0, odd());
        } else {
          function.add_bound_inputs(odd());
        }
        break;
      }
      break;
    default:
      for (auto& [name, signature] : *meta.mutable_signature_def()) {
        auto& ends = choices.chance(50) ? *signature.mutable_inputs() : *signature.mutable_outputs();
        for (auto& [key, info] : ends) {
          if (choices.chance(30)) {
            info.set_name(choices.chance(50) ? info.name() + "x" : choices.text());
          } else if (choices.chance(50)) {
            info.set_dtype(static_cast<tensorflow::DataType>(choices.dtype()));
          } else {
            change_shape(choices, *info.mutable_tensor_shape());
          }
        }
      }
  }
  log += "objects; ";
}

void change_variables(Choices& choices, const std::string& prefix, const std::string& target, Log& log) {
  const formats::BundleReader reader(prefix);
  std::filesystem::create_directories(std::filesystem::path(target).parent_path());
  formats::BundleWriter writer(target);
  const std::size_t changed = choices.below(std::max<std::size_t>(reader.list().size(), 1));
  for (std::size_t i = 0; i < reader.list().size(); ++i) {
    std::string name = reader.list()[i].name;
    TensorData value = reader.read(name);
    if (i == changed) {
      log += fmt::format("variable {}; ", name);
      if (choices.chance(20)) continue;
      if (choices.chance(20)) {
        name += "x";
      } else {
        value = changed_tensor(choices, value, true);
      }
    }
    writer.add(name, value);
  }
  writer.finish();
}

}  // namespace

void change_config(Choices& choices, Json& config, Log& log) {
  for (std::size_t changes = 1 + choices.below(3); changes > 0; --changes) {
    std::vector<Json*> all;
    collect(config, all);
    const std::string before = dump_json(*all[choices.below(all.size())]);
    Json& value = *all[choices.below(all.size())];
    const std::string old = dump_json(value);
    change_value(choices, value, parse_json(before, "value"));
    log += fmt::format("{:.200} -> {:.200}; ", old, dump_json(value));
  }
}

void change_hdf5(Choices& choices, const std::string& source, const std::string& target, Log& log) {
  const auto image = io::posix_file_system().map(source);
  const formats::Hdf5File file(image->bytes(), image, source);
  Contents all;
  read_contents(file, file.root(), "", all);
  for (std::size_t changes = 1 + choices.below(2); changes > 0; --changes) change_contents(choices, all, log);
  formats::Hdf5Writer writer;
  for (const std::string& group : all.groups) writer.add_group(group);
  for (const Dataset& dataset : all.datasets) {
    try {
      writer.add_dataset(dataset.path, dataset.value);
    } catch (const Error&) {  // a name that is taken
    }
  }
  for (const Attribute& attribute : all.attributes) {
    if (attribute.is_list) {
      writer.set_attribute(attribute.path, attribute.name, attribute.texts);
    } else {
      writer.set_attribute(attribute.path, attribute.name, attribute.texts.at(0));
    }
  }
  std::string bytes;
  writer.write([&](std::span<const std::byte> part) { bytes += io::as_text(part); });
  if (choices.chance(15)) change_bytes(choices, bytes, log);
  write_file(target, bytes);
}

void change_saved_model(Choices& choices, const std::string& source, const std::string& target,
                        const std::vector<std::string>& operations, Log& log) {
  tensorflow::SavedModel model;
  model.ParseFromString(read_file(source + "/saved_model.pb"));
  auto& meta = *model.mutable_meta_graphs(0);
  const std::size_t kind = choices.below(10);
  if (kind < 6) {
    change_graph(choices, *meta.mutable_graph_def(), operations);
    log += "graph; ";
  } else if (kind < 8) {
    change_objects(choices, meta, log);
  }
  std::string bytes = model.SerializeAsString();
  if (choices.chance(5)) change_bytes(choices, bytes, log);
  write_file(target + "/saved_model.pb", bytes);
  const std::string prefix = source + "/variables/variables";
  if (!std::filesystem::exists(formats::bundle_index_path(prefix))) return;
  if (kind >= 8) return change_variables(choices, prefix, target + "/variables/variables", log);
  std::filesystem::copy(source + "/variables", target + "/variables");
}

}  // namespace lockstep::fuzz
