#include "lockstep/formats/keras_legacy_h5.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/changed_name_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/paths_internal.h"

namespace lockstep::formats {
namespace {

constexpr std::string_view kOptimizer = "optimizer_weights/";
constexpr std::string_view kTopLevel = "top_level_model_weights";
constexpr std::size_t kAttributeLimit = 64512;  // bytes of one attribute of names, as Keras splits them

// A name of the file as a path below its group; empty when it would leave the group.
std::string below(std::string_view name) {
  if (name.ends_with('/')) name.remove_suffix(1);
  return std::string(io::is_path_below(name) ? name : "");
}

std::string text_attribute(const Hdf5Node& node, std::string_view name) {
  const Hdf5Attribute* attribute = node.attribute(name);
  return attribute != nullptr && attribute->value.strings.size() == 1 ? attribute->value.strings[0] : "";
}

const Hdf5Node* descend(const Hdf5Node& group, std::string_view path) {
  const Hdf5Node* node = &group;
  while (node != nullptr && !path.empty()) {
    const auto part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    node = node->child(part);
  }
  return node;
}

// One attribute, or numbered ones of equal length when the names exceed the limit.
void set_names(Hdf5Writer& writer, const std::string& path, const std::string& attribute,
               const std::vector<std::string>& names) {
  std::size_t longest = 0;
  for (const auto& name : names) longest = std::max(longest, name.size());
  if (longest > kAttributeLimit) {
    throw_invalid_argument(
        fmt::format("a name has {} bytes; an HDF5 attribute has at most {}", longest, kAttributeLimit));
  }
  const std::size_t each = std::max<std::size_t>(longest, 16);
  const std::size_t pieces = std::max<std::size_t>(1, (names.size() * each + kAttributeLimit - 1) / kAttributeLimit);
  if (pieces == 1) {
    writer.set_attribute(path, attribute, names);
    return;
  }
  std::size_t at = 0;
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    const std::size_t count = names.size() / pieces + (piece < names.size() % pieces ? 1 : 0);
    const auto first = names.begin() + static_cast<std::ptrdiff_t>(at);
    writer.set_attribute(path, fmt::format("{}{}", attribute, piece),
                         std::vector<std::string>(first, first + static_cast<std::ptrdiff_t>(count)));
    at += count;
  }
}

void add_weight_group(Hdf5Writer& writer, const std::string& path, const std::vector<WeightEntry>& weights) {
  writer.add_group(path);
  std::vector<std::string> names;
  for (const WeightEntry& weight : weights) {
    const std::string safe = below(weight.path);
    if (safe.empty())
      throw_invalid_argument(fmt::format("\"{}\" cannot be the name of a weight in an HDF5 file", weight.path));
    writer.add_dataset(path + "/" + safe, weight.dtype, weight.shape, weight.data);
    names.push_back(weight.path);
  }
  set_names(writer, path, "weight_names", names);
}

// The names of the format; `name` is one of them with one other character.
std::string_view name_it_was(std::string_view name) {
  constexpr std::string_view kNames[] = {"model_config",  "training_config",   "keras_version",
                                         "backend",       "layer_names",       "weight_names",
                                         "model_weights", "optimizer_weights", kTopLevel};
  for (const std::string_view known : kNames) {
    if (only_difference(name, known) != std::string_view::npos) return known;
  }
  return "";
}

// Checks the group at `path`, and all below if it is a group of weights: its datasets are in `named`.
void check_group(const Hdf5Node& group, const std::string& path, bool weights, const std::set<std::string>& named,
                 const std::string& what) {
  auto check_name = [&](const std::string& name, const char* kind) {
    if (const auto known = name_it_was(name); !known.empty()) {
      throw_data_loss(fmt::format("{}: the {} \"{}\" of \"{}\", expected \"{}\": a name has changed", what, kind, name,
                                  path, known));
    }
  };
  for (const Hdf5Attribute& attribute : group.attributes) check_name(attribute.name, "attribute");
  for (const Hdf5Node& child : group.children) {
    check_name(child.name, "member");
    const std::string full = path.empty() ? child.name : path + "/" + child.name;
    if (child.kind == Hdf5Node::Kind::kGroup) {
      check_group(child, full, weights || child.attribute("weight_names") != nullptr, named, what);
    } else if (weights && !named.contains(full)) {
      throw_data_loss(fmt::format("{}: the weight \"{}\" is missing in the lists of names: it or its group was renamed",
                                  what, full));
    }
  }
}

}  // namespace

bool LegacyH5::recognise(const Hdf5File& file) {
  const Hdf5Node& root = file.root();
  return root.attribute("model_config") != nullptr || root.attribute("layer_names") != nullptr ||
         root.attribute("layer_names0") != nullptr || root.child("model_weights") != nullptr;
}

LegacyH5 LegacyH5::open(const std::string& path, io::FileSystem& files) {
  auto mapped = files.map(path);
  return from_image(mapped->bytes(), mapped, path);
}

LegacyH5 LegacyH5::from_image(std::span<const std::byte> image, std::shared_ptr<const void> owner, std::string what) {
  return LegacyH5(Hdf5File(image, std::move(owner), std::move(what)));
}

LegacyH5::LegacyH5(Hdf5File file) : file_(std::make_shared<Hdf5File>(std::move(file))) {
  if (!recognise(*file_)) {
    throw_invalid_argument(
        fmt::format("{}: no model config and no layer names in this HDF5 file, so it is not a legacy Keras "
                    "model; a file of Keras 3 weights is loaded with load_weights",
                    file_->what()));
  }
  const Hdf5Node& root = file_->root();
  model_config_ = json_attribute("model_config");
  training_config_ = json_attribute("training_config");
  const bool at_root = root.attribute("layer_names") != nullptr || root.attribute("layer_names0") != nullptr;
  const Hdf5Node* weights = at_root ? &root : root.child("model_weights");
  const std::string prefix = at_root ? "" : "model_weights/";
  for (const Hdf5Node* node : {&root, weights}) {
    if (node == nullptr) continue;
    if (keras_version_ == "1" && !text_attribute(*node, "keras_version").empty())
      keras_version_ = text_attribute(*node, "keras_version");
    if (backend_.empty()) backend_ = text_attribute(*node, "backend");
  }
  if (weights != nullptr) {
    for (const std::string& name : names_of(*weights, "layer_names", prefix)) {
      const std::string safe = below(name);
      const Hdf5Node* group = safe.empty() ? nullptr : descend(*weights, safe);
      if (group == nullptr || group->kind != Hdf5Node::Kind::kGroup) {
        throw_data_loss(fmt::format(
            "{}: layer \"{}\" is named but has no group below \"{}\": saving was interrupted; save the model again",
            file_->what(), name, prefix));
      }
      layers_.push_back({name, weights_of(*group, prefix + safe)});
    }
    if (const Hdf5Node* top = weights->child(kTopLevel); top != nullptr)
      top_level_ = weights_of(*top, prefix + std::string(kTopLevel));
  }
  if (const Hdf5Node* optimizer = root.child("optimizer_weights"); optimizer != nullptr) {
    optimizer_ = weights_of(*optimizer, "optimizer_weights");
  }
}

Json LegacyH5::json_attribute(const std::string& name) const {
  const Hdf5Attribute* attribute = file_->root().attribute(name);
  if (attribute == nullptr) return nullptr;
  if (attribute->value.strings.size() != 1) {
    throw_data_loss(fmt::format("{}: attribute {} is not a single string", file_->what(), name));
  }
  Json json = parse_json(attribute->value.strings[0], fmt::format("{} of {}", name, file_->what()));
  if (!json.is_null() && !json.is_object()) {
    throw_data_loss(
        fmt::format("{}: attribute {} holds {}, expected a JSON object", file_->what(), name, json.type_name()));
  }
  return json;
}

std::vector<std::string> LegacyH5::names_of(const Hdf5Node& group, const std::string& attribute,
                                            const std::string& path) const {
  auto texts = [&](const Hdf5Attribute& found) {
    if (found.value.dtype != DType::kString && found.value.shape != Shape{0}) {
      throw_data_loss(fmt::format("{}: attribute {} of \"{}\" holds no names", file_->what(), found.name, path));
    }
    return found.value.strings;
  };
  if (const Hdf5Attribute* plain = group.attribute(attribute); plain != nullptr) return texts(*plain);
  std::vector<std::string> names;
  for (int piece = 0;; ++piece) {
    const Hdf5Attribute* next = group.attribute(fmt::format("{}{}", attribute, piece));
    if (next == nullptr) break;
    const auto more = texts(*next);
    names.insert(names.end(), more.begin(), more.end());
  }
  return names;
}

std::vector<TensorInfo> LegacyH5::weights_of(const Hdf5Node& group, const std::string& path) {
  std::vector<TensorInfo> weights;
  for (const std::string& name : names_of(group, "weight_names", path)) {
    // Variables without a name scope are called "/iterations" by Theano and CNTK: h5py puts them below the root.
    const bool absolute = name.starts_with('/');
    const std::string safe = below(std::string_view(name).substr(absolute ? 1 : 0));
    if (safe.empty()) throw_data_loss(fmt::format("{}: weight name \"{}\" leaves \"{}\"", file_->what(), name, path));
    const Hdf5Node* node = descend(absolute ? file_->root() : group, safe);
    if (node == nullptr)
      throw_not_found(fmt::format("{}: weight \"{}\" is named but not in \"{}\"", file_->what(), name, path));
    if (node->kind != Hdf5Node::Kind::kDataset || !node->unreadable_reason.empty()) {
      throw_data_loss(fmt::format("{}: weight \"{}\" of \"{}\" cannot be read: {}", file_->what(), name, path,
                                  node->unreadable_reason.empty() ? "it is a group" : node->unreadable_reason));
    }
    weights.push_back({absolute ? safe : path + "/" + safe, node->dtype, node->shape});
  }
  infos_.insert(infos_.end(), weights.begin(), weights.end());
  return weights;
}

std::string_view LegacyH5::optimizer_weight_name(const TensorInfo& info) {
  const std::string_view name = info.name;
  return name.starts_with(kOptimizer) ? name.substr(kOptimizer.size()) : name;
}

const Hdf5Node& LegacyH5::dataset(const std::string& path) const {
  const Hdf5Node* node = file_->find(path);
  if (node == nullptr) throw_not_found(fmt::format("{}: no weight \"{}\"", file_->what(), path));
  return *node;
}

void LegacyH5::check_names() const {
  std::set<std::string> named;
  for (const TensorInfo& info : infos_) named.insert(info.name);
  const Hdf5Node& root = file_->root();
  const bool whole = root.child("model_weights") != nullptr;
  if (!whole && !model_config_.is_null())
    throw_data_loss(fmt::format("{}: a model's config, but no group \"model_weights\"", file_->what()));
  for (const Hdf5Node& child : root.children) {
    const bool weights = !whole || child.name == "model_weights";
    check_group(child, child.name, weights || child.attribute("weight_names") != nullptr, named, file_->what());
  }
  check_group({.attributes = root.attributes}, "", false, named, file_->what());
}

TensorData LegacyH5::read(const std::string& name) const { return file_->read(dataset(name)); }
void LegacyH5::read_into(const std::string& name, std::span<std::byte> target) const {
  file_->read_into(dataset(name), target);
}

void write_legacy_h5(const std::string& path, const LegacyH5Plan& plan, io::FileSystem& files) {
  Hdf5Writer writer;
  const bool whole = !plan.model_config.is_null();
  const std::string group = whole ? "model_weights" : "";
  const std::string prefix = whole ? "model_weights/" : "";
  writer.add_group(group);
  if (whole) {
    writer.set_attribute("", "keras_version", plan.keras_version);
    writer.set_attribute("", "backend", plan.backend);
    writer.set_attribute("", "model_config", dump_json(plan.model_config), Hdf5Charset::kAscii);
    if (!plan.training_config.is_null()) {
      writer.set_attribute("", "training_config", dump_json(plan.training_config), Hdf5Charset::kAscii);
    }
  }
  std::vector<std::string> names;
  for (const LegacyLayerPlan& layer : plan.layers) {
    if (below(layer.name) != layer.name)
      throw_invalid_argument(fmt::format("\"{}\" cannot be a layer's name in an HDF5 file", layer.name));
    names.push_back(layer.name);
    add_weight_group(writer, prefix + layer.name, layer.weights);
  }
  set_names(writer, group, "layer_names", names);
  writer.set_attribute(group, "backend", plan.backend, Hdf5Charset::kAscii);
  writer.set_attribute(group, "keras_version", plan.keras_version, Hdf5Charset::kAscii);
  add_weight_group(writer, prefix + std::string(kTopLevel), plan.top_level_weights);
  if (!plan.optimizer_weights.empty()) add_weight_group(writer, "optimizer_weights", plan.optimizer_weights);
  io::AtomicFile file(path, files, writer.size());
  writer.write([&](std::span<const std::byte> bytes) { file.append(bytes); });
  file.commit();
}

}  // namespace lockstep::formats
