#include "lockstep/formats/keras_weights.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/formats/changed_name_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/paths_internal.h"

namespace lockstep::formats {
namespace {

constexpr std::string_view kOldLayers = "_layer_checkpoint_dependencies";

std::optional<std::uint64_t> as_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "conv2d_2" is ("conv2d", 2), "conv2d" is ("conv2d", 0).
std::pair<std::string, std::uint64_t> class_and_number(std::string_view name) {
  const auto underscore = name.rfind('_');
  if (underscore != std::string_view::npos) {
    if (const auto number = as_number(name.substr(underscore + 1)))
      return {std::string(name.substr(0, underscore)), *number};
  }
  return {std::string(name), 0};
}

// Compares part by part, numbers by value, so that "vars/2" comes before "vars/10".
bool path_before(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const auto part_a = a.substr(0, a.find('/'));
    const auto part_b = b.substr(0, b.find('/'));
    if (part_a != part_b) {
      const auto number_a = as_number(part_a);
      const auto number_b = as_number(part_b);
      return number_a && number_b && *number_a != *number_b ? *number_a < *number_b : part_a < part_b;
    }
    a.remove_prefix(std::min(a.size(), part_a.size() + 1));
    b.remove_prefix(std::min(b.size(), part_b.size() + 1));
  }
  return a.size() < b.size();
}

std::string vars_of(std::string_view inner_path) {
  return inner_path.empty() ? "vars" : fmt::format("{}/vars", inner_path);
}

constexpr std::string_view kVars = "vars";

// The groups of an index of shards, each with the names of its files.
const Json& weight_map(const Json& index, const std::string& path) {
  const auto map = index.find("weight_map");
  if (!index.is_object() || map == index.end() || !map->is_object()) {
    throw_data_loss(fmt::format("{}: no \"weight_map\" in this index of shards", path));
  }
  return *map;
}

std::vector<std::string> shard_paths(const Json& map, const std::string& path) {
  std::set<std::string> names;
  auto add = [&](const Json& value) {
    if (!value.is_string()) throw_data_loss(fmt::format("{}: a shard's name is not a string", path));
    const auto name = value.get<std::string>();
    if (!io::is_entry_name(name) || name.find('\\') != std::string::npos) {
      throw_data_loss(fmt::format("{}: invalid name of a shard: \"{}\" is not in the folder of the index", path, name));
    }
    names.insert(name);
  };
  for (const auto& [group, value] : map.items()) {
    if (value.is_array()) {
      for (const auto& name : value) add(name);
    } else {
      add(value);
    }
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back(io::join_path(io::parent_directory(path), name));
  return paths;
}

// "layers" with one changed character that cannot be part of a Python attribute; "layer1" may be an attribute of a
// model.
bool almost_layers(std::string_view name) {
  const std::size_t at = only_difference(name, "layers");
  if (at == std::string_view::npos) return false;
  const char c = name[at];
  return !(c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'));
}

// "layers/dense/vars" of "layers/dense/vars/0" and of "layers/dense/vars/a/b"; empty for a path without "vars".
std::string_view vars_group(std::string_view path) {
  for (std::size_t end = path.rfind('/'); end != std::string_view::npos && end != 0; end = path.rfind('/', end - 1)) {
    const std::string_view group = path.substr(0, end);
    if (group == kVars || group.ends_with("/vars")) return group;
  }
  return {};
}

}  // namespace

void WeightsPlan::add(std::string path, TensorData tensor) {
  const DType dtype = tensor.dtype;
  Shape shape = tensor.shape;
  add(std::move(path), dtype, std::move(shape), [tensor = std::move(tensor)] { return tensor; });
}

void WeightsPlan::add(std::string path, DType dtype, Shape shape, TensorSource source) {
  entries.push_back({std::move(path), dtype, std::move(shape), std::move(source)});
}

void add_weights(Hdf5Writer& writer, const WeightsPlan& plan) {
  for (const auto& [path, name] : plan.groups) {
    writer.add_group(path);
    if (!name.empty()) writer.set_attribute(path, "name", name);
  }
  for (const WeightEntry& entry : plan.entries) writer.add_dataset(entry.path, entry.dtype, entry.shape, entry.data);
}

void write_keras_weights(const std::string& path, const WeightsPlan& plan, io::FileSystem& files) {
  Hdf5Writer writer;
  add_weights(writer, plan);
  io::AtomicFile file(path, files, writer.size());
  writer.write([&](std::span<const std::byte> bytes) { file.append(bytes); });
  file.commit();
}

std::vector<std::string> weight_files(const std::string& path, io::FileSystem& files) {
  if (!path.ends_with(".json")) return {path};
  return shard_paths(weight_map(parse_json(io::read_text(files, path), path), path), path);
}

KerasWeights KerasWeights::from_image(std::span<const std::byte> image, std::shared_ptr<const void> owner,
                                      std::string what) {
  KerasWeights weights;
  weights.add_file(Hdf5File(image, std::move(owner), std::move(what)));
  weights.finish();
  return weights;
}

KerasWeights KerasWeights::open(const std::string& path, io::FileSystem& files) {
  auto open_one = [&](const std::string& file) {
    auto mapped = files.map(file);
    return Hdf5File(mapped->bytes(), mapped, file);
  };
  KerasWeights weights;
  if (path.ends_with(".json")) {
    const Json index = parse_json(io::read_text(files, path), path);
    const Json& map = weight_map(index, path);
    for (const std::string& file : shard_paths(map, path)) weights.add_file(open_one(file));
    weights.finish();
    weights.check_map(map, path);
    return weights;
  }
  Hdf5File file = open_one(path);
  if (file.root().attribute("layer_names") != nullptr || file.root().child("model_weights") != nullptr) {
    throw_invalid_argument(fmt::format("{}: a legacy HDF5 model, not Keras 3 weights: load it as a whole model", path));
  }
  weights.add_file(std::move(file));
  weights.finish();
  return weights;
}

void KerasWeights::add_file(Hdf5File file) {
  files_.push_back(std::make_unique<Hdf5File>(std::move(file)));
  collect(files_.size() - 1, files_.back()->root(), "");
}

void KerasWeights::collect(std::size_t file, const Hdf5Node& node, const std::string& path) {
  if (!path.empty()) {
    auto [found, added] = places_.emplace(path, Place{file, &node, 0});
    const bool both_groups = node.kind == Hdf5Node::Kind::kGroup && found->second.node->kind == Hdf5Node::Kind::kGroup;
    if (!added && !both_groups) {
      throw_data_loss(fmt::format("{}: \"{}\" is in another shard too", files_[file]->what(), path));
    }
  }
  for (const Hdf5Node& child : node.children) {
    std::string name = child.name;
    // tf-keras on Windows made one group "layers\\lstm\\cell" of a path.
    if (path.empty()) std::replace(name.begin(), name.end(), '\\', '/');
    collect(file, child, path.empty() ? name : path + "/" + name);
  }
}

void KerasWeights::finish() {
  for (const auto& [path, place] : places_) {
    const std::string parent = io::parent_directory(path);
    if (parent == kOldLayers || parent.ends_with(fmt::format("/{}", kOldLayers))) {
      const auto [name, number] = class_and_number(std::string_view(path).substr(parent.size() + 1));
      old_numbers_[fmt::format("{}/{}", parent, name)].push_back(number);
    }
    if (place.node->kind == Hdf5Node::Kind::kDataset) infos_.push_back({path, place.node->dtype, place.node->shape});
  }
  std::sort(infos_.begin(), infos_.end(), [](const auto& a, const auto& b) { return path_before(a.name, b.name); });
  for (std::size_t i = 0; i < infos_.size(); ++i) places_.find(infos_[i].name)->second.info = i;
  for (auto& [path, numbers] : old_numbers_) std::sort(numbers.begin(), numbers.end());
}

// Groups are "/layers/dense/vars"; Keras looks for "layers/dense" too.
void KerasWeights::check_map(const Json& map, const std::string& path) const {
  for (const auto& [group, value] : map.items()) {
    if (!places_.contains(std::string_view(group).substr(group.starts_with('/') ? 1 : 0)))
      throw_data_loss(fmt::format("{}: the group \"{}\" is in none of the shards", path, group));
  }
  for (const TensorInfo& info : infos_) {
    const std::string_view group = vars_group(info.name);
    const std::string_view object = group.substr(0, group.size() - std::min(group.size(), kVars.size() + 1));
    if (!map.contains(fmt::format("/{}", group)) && !map.contains(std::string(object)))
      throw_data_loss(fmt::format("{}: the shards have \"{}\", which is not in the index", path, info.name));
  }
}

void KerasWeights::check_names() const {
  std::set<std::string> objects;
  bool in_groups = false;
  for (const auto& [path, place] : places_) {
    in_groups = in_groups || (place.node->kind == Hdf5Node::Kind::kGroup && (path == kVars || path.ends_with("/vars")));
  }
  for (const auto& [path, place] : places_) {
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    if (in_groups && almost_layers(name)) {
      throw_data_loss(fmt::format("{}: the group \"{}\", expected \"layers\": a name has changed",
                                  files_[place.file]->what(), path));
    }
  }
  for (const TensorInfo& info : infos_) {
    const std::string_view group = vars_group(info.name);
    if (group.empty() && in_groups) {
      throw_data_loss(fmt::format("{}: the dataset \"{}\" is outside of a group \"vars\": a name has changed",
                                  files_[place(info.name).file]->what(), info.name));
    }
    if (!group.empty()) objects.emplace(group.substr(0, group.size() - std::min(group.size(), kVars.size() + 1)));
  }
  for (const std::string& object : objects) variables(object);
}

std::string KerasWeights::stored_path(std::string_view inner_path) const {
  const auto has = [&](const std::string& path) { return places_.contains(path); };
  const std::string asked(inner_path);
  std::string path;
  bool in_old_layers = false;
  while (!inner_path.empty()) {
    const std::string part(inner_path.substr(0, inner_path.find('/')));
    inner_path.remove_prefix(std::min(inner_path.size(), part.size() + 1));
    const std::string above = path.empty() ? "" : path + "/";
    path = above + part;
    if (in_old_layers) {
      const auto [name, index] = class_and_number(part);
      const auto found = old_numbers_.find(above + name);
      in_old_layers = false;
      if (found == old_numbers_.end()) continue;
      if (index >= found->second.size()) return asked;
      const std::uint64_t number = found->second[index];
      path = above + (number == 0 ? name : fmt::format("{}_{}", name, number));
    } else if (part == "layers" && !has(path) && has(above + std::string(kOldLayers))) {
      path = above + std::string(kOldLayers);
      in_old_layers = true;
    } else {
      for (const std::string& name : {"_" + part, "_pipeline_" + part}) {
        if (!has(path) && has(above + name)) path = above + name;
      }
    }
  }
  return path;
}

const KerasWeights::Place& KerasWeights::place(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    throw_not_found(fmt::format("{}: no weight \"{}\"", files_.empty() ? "weights" : files_[0]->what(), name));
  }
  return found->second;
}

TensorData KerasWeights::read(const std::string& name) const {
  const Place& found = place(name);
  return files_[found.file]->read(*found.node);
}

void KerasWeights::read_into(const std::string& name, std::span<std::byte> target) const {
  const Place& found = place(name);
  files_[found.file]->read_into(*found.node, target);
}

const TensorInfo* KerasWeights::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() || found->second.node->kind != Hdf5Node::Kind::kDataset ? nullptr
                                                                                        : &infos_[found->second.info];
}

std::vector<TensorInfo> KerasWeights::variables(std::string_view inner_path) const {
  const std::string prefix = vars_of(inner_path) + "/";
  std::vector<TensorInfo> result;
  std::size_t numbered = 0;
  std::set<std::uint64_t> numbers;
  for (auto at = places_.lower_bound(prefix); at != places_.end() && at->first.starts_with(prefix); ++at) {
    const std::string_view key = std::string_view(at->first).substr(prefix.size());
    if (key.find('/') != std::string_view::npos) continue;
    if (at->second.node->kind != Hdf5Node::Kind::kDataset) {
      throw_data_loss(fmt::format(
          "{}: \"{}\" is not a dataset: {}", files_[at->second.file]->what(), at->first,
          at->second.node->unreadable_reason.empty() ? "it is a group" : at->second.node->unreadable_reason));
    }
    result.push_back(infos_[at->second.info]);
    if (const auto number = as_number(key)) numbers.insert(*number), ++numbered;
  }
  if (!numbers.empty() && (numbers.size() != numbered || *numbers.rbegin() + 1 != numbers.size())) {
    throw_data_loss(fmt::format("{}: the variables of \"{}\" are not numbered 0 to {}",
                                files_.empty() ? "weights" : files_[0]->what(), inner_path, numbers.size() - 1));
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return path_before(a.name, b.name); });
  if (result.empty()) {
    if (const std::string path = stored_path(inner_path); path != inner_path) return variables(path);
  }
  return result;
}

bool KerasWeights::has_object(std::string_view inner_path) const {
  auto found = places_.find(inner_path);
  if (found == places_.end()) found = places_.find(stored_path(inner_path));
  return found != places_.end() && found->second.node->kind == Hdf5Node::Kind::kGroup;
}

std::string KerasWeights::object_name(std::string_view inner_path) const {
  const auto found = places_.find(vars_of(inner_path));
  if (found == places_.end()) return "";
  const Hdf5Attribute* name = found->second.node->attribute("name");
  return name != nullptr && name->value.strings.size() == 1 ? name->value.strings[0] : "";
}

}  // namespace lockstep::formats
