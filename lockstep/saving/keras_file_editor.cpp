#include "lockstep/saving/keras_file_editor.h"

#include <iostream>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/keras_archive.h"
#include "lockstep/saving/weights_plan_internal.h"

namespace lockstep::saving {
namespace {

constexpr std::string_view kSuffix = ".weights.h5";

// "layers/dense" and "0" of "layers/dense/vars/0".
std::pair<std::string, std::string> split_path(std::string_view path) {
  const auto slash = path.rfind('/');
  std::string_view object = slash == std::string_view::npos ? "" : path.substr(0, slash);
  if (object == "vars") {
    object = "";
  } else if (object.ends_with("/vars")) {
    object.remove_suffix(5);
  }
  return {std::string(object), std::string(path.substr(slash + 1))};
}

bool is_within(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

// The objects on the way to `path`: "a", "a/b", "a/b/c".
std::vector<std::string> steps_to(const std::string& path) {
  std::vector<std::string> steps;
  for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
    steps.push_back(path.substr(0, slash));
  if (!path.empty()) steps.push_back(path);
  return steps;
}
template <typename Weights>
std::set<std::string> paths_of(const std::map<std::string, Weights>& objects) {
  std::set<std::string> paths;
  for (const auto& [path, weights] : objects) {
    for (std::string& step : steps_to(path)) paths.insert(std::move(step));
  }
  return paths;
}

struct Tree {
  std::map<std::string, Tree> objects;
  const KerasFileEditor::Weights* weights = nullptr;
};

void print(const Tree& tree, const std::string& prefix, bool& first, std::string& out) {
  const std::size_t count = tree.objects.size() + (tree.weights ? tree.weights->size() : 0);
  std::size_t done = 0;
  const auto line_of = [&](const std::string& text) {
    const bool last = ++done == count;
    out += prefix + (std::exchange(first, false) ? "> " : last ? "└─ " : "├─ ") + text + "\n";
    return prefix + (last ? "    " : "│   ");
  };
  for (const auto& [name, object] : tree.objects) print(object, line_of(name), first, out);
  if (!tree.weights) return;
  for (const auto& [name, value] : *tree.weights)
    line_of(fmt::format("{}: shape={}, dtype={}", name, value.shape().to_string(), dtype_name(value.dtype())));
}

}  // namespace

KerasFileEditor::KerasFileEditor(const std::string& filepath) : filepath_(filepath) {
  const auto take = [&](const formats::KerasWeights& weights) {
    for (const formats::TensorInfo& info : weights.list()) {
      auto [object, name] = split_path(info.name);
      objects_[object][name] = Tensor::from_data(weights.read(info.name));
    }
  };
  if (filepath.ends_with(".keras")) {
    const formats::KerasArchive archive = formats::KerasArchive::open(filepath);
    metadata_ = archive.metadata();
    config_ = archive.config();
    take(archive.weights());
  } else if (filepath.ends_with(kSuffix)) {
    take(formats::KerasWeights::open(filepath));
  } else {
    throw_invalid_argument(
        fmt::format("KerasFileEditor: invalid file name '{}': expected the suffix .keras or .weights.h5", filepath));
  }
}

std::string KerasFileEditor::to_string() const {
  Tree root;
  for (const auto& [path, weights] : objects_) {
    Tree* at = &root;
    for (const std::string& step : steps_to(path)) at = &at->objects[step.substr(step.rfind('/') + 1)];
    at->weights = &weights;
  }
  std::string out = "Weights structure\n";
  bool first = true;
  print(root, "  ", first, out);
  return out;
}
void KerasFileEditor::summary() const { std::cout << *this << std::flush; }
std::ostream& operator<<(std::ostream& out, const KerasFileEditor& editor) { return out << editor.to_string(); }

KerasFileEditor::Comparison KerasFileEditor::compare(const keras::Model& reference_model) const {
  std::map<std::string, std::map<std::string, Shape>> reference;
  for (const formats::WeightEntry& entry : weights_plan(*reference_model.impl()).entries) {
    auto [object, name] = split_path(entry.path);
    reference[object][name] = entry.shape;
  }
  Comparison result;
  const auto error = [&](std::string line) { result.errors.push_back(std::move(line)); };
  // The outermost objects that only one of both has, and the weights of the others.
  const auto missing = [&](const auto& here, const auto& there, const char* in, const char* from) {
    const std::set<std::string> of_there = paths_of(there);
    std::set<std::string> reported;
    for (const auto& [path, weights] : here) {
      for (const std::string& step : steps_to(path)) {
        if (of_there.count(step)) continue;
        if (reported.insert(step).second) error(fmt::format("object '{}' is in {}, and not in {}", step, in, from));
        break;
      }
      const auto other = there.find(path);
      if (!path.empty() && !of_there.count(path)) continue;
      for (const auto& [name, value] : weights) {
        if (other == there.end() || !other->second.count(name))
          error(fmt::format("weight '{}' of object '{}' is in {}, and not in {}", name, path, in, from));
      }
    }
  };
  missing(reference, objects_, "the reference model", "the file");
  missing(objects_, reference, "the file", "the reference model");
  for (const auto& [path, weights] : reference) {
    const auto object = objects_.find(path);
    if (object == objects_.end()) continue;
    for (const auto& [name, shape] : weights) {
      const auto found = object->second.find(name);
      if (found == object->second.end()) continue;
      if (found->second.shape() == shape) {
        ++result.match_count;
      } else {
        error(fmt::format("weight '{}' of object '{}' has shape {} in the file, {} in the reference model", name, path,
                          found->second.shape().to_string(), shape.to_string()));
      }
    }
  }
  result.error_count = static_cast<int>(result.errors.size());
  result.status = result.errors.empty() ? "success" : "error";
  return result;
}

bool KerasFileEditor::has_object(const std::string& path) const {
  for (const auto& [object, weights] : objects_) {
    if (is_within(object, path)) return true;
  }
  return false;
}
std::string KerasFileEditor::path_of(const std::string& object_name) const {
  if (object_name.find('/') != std::string::npos) {
    if (has_object(object_name)) return object_name;
    throw_not_found(fmt::format("'{}' has no object '{}'", filepath_, object_name));
  }
  std::vector<std::string> found;
  for (const std::string& path : paths_of(objects_)) {
    if (path == object_name || path.ends_with("/" + object_name)) found.push_back(path);
  }
  if (found.empty()) throw_not_found(fmt::format("'{}' has no object '{}'", filepath_, object_name));
  if (found.size() > 1) {
    throw_invalid_argument(fmt::format("'{}' has several objects '{}', such as '{}' and '{}': give the whole path",
                                       filepath_, object_name, found[0], found[1]));
  }
  return found[0];
}

void KerasFileEditor::rename_object(const std::string& object_name, const std::string& new_name) {
  const std::string from = path_of(object_name);
  if (new_name.empty() || new_name.find('/') != std::string::npos)
    throw_invalid_argument(fmt::format("invalid new name '{}': expected a name without a slash", new_name));
  const auto slash = from.rfind('/');
  const std::string to = slash == std::string::npos ? new_name : from.substr(0, slash + 1) + new_name;
  if (to == from) return;
  if (has_object(to)) throw_already_exists(fmt::format("'{}' has an object '{}' already", filepath_, to));
  std::map<std::string, Weights> renamed;
  for (auto& [path, weights] : objects_)
    renamed[is_within(path, from) ? to + path.substr(from.size()) : path] = std::move(weights);
  objects_ = std::move(renamed);
}
void KerasFileEditor::delete_object(const std::string& object_name) {
  const std::string at = path_of(object_name);
  std::erase_if(objects_, [&](const auto& object) { return is_within(object.first, at); });
}
void KerasFileEditor::add_object(const std::string& object_path, const Weights& weights) {
  const auto slash = object_path.rfind('/');
  if (slash != std::string::npos && !has_object(object_path.substr(0, slash)))
    throw_not_found(fmt::format("'{}' has no object '{}'", filepath_, object_path.substr(0, slash)));
  if (has_object(object_path))
    throw_already_exists(fmt::format("'{}' has an object '{}' already", filepath_, object_path));
  objects_[object_path] = weights;
}
void KerasFileEditor::delete_weight(const std::string& object_name, const std::string& weight_name) {
  const std::string at = path_of(object_name);
  const auto object = objects_.find(at);
  if (object == objects_.end() || object->second.erase(weight_name) == 0)
    throw_not_found(fmt::format("object '{}' of '{}' has no weight '{}'", at, filepath_, weight_name));
}
void KerasFileEditor::add_weights(const std::string& object_name, const Weights& weights) {
  Weights& object = objects_[path_of(object_name)];
  for (const auto& [name, value] : weights) object.insert_or_assign(name, value);
}

void KerasFileEditor::save(const std::string& filepath) const {
  if (!filepath.ends_with(kSuffix)) {
    throw_invalid_argument(
        fmt::format("KerasFileEditor: invalid file name '{}': expected the suffix .weights.h5", filepath));
  }
  formats::WeightsPlan plan;
  for (const auto& [path, weights] : objects_) {
    for (const auto& [name, value] : weights) plan.add(vars_group(path) + "/" + name, value.to_data());
  }
  formats::write_keras_weights(filepath, plan);
}

}  // namespace lockstep::saving
