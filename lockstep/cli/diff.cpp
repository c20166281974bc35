#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/artifact_internal.h"
#include "lockstep/cli/commands_internal.h"
#include "lockstep/cli/engine_loader_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/tensor_compare_internal.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/io/scratch_folder_internal.h"

namespace lockstep::cli {
namespace {

struct Tally {
  int structure = 0;
  int tensors = 0;
  int optimizer = 0;
  int config = 0;
  int total() const { return structure + tensors + optimizer + config; }
};

std::string shown(const Json& value) {
  std::string text = dump_json(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

// Prints each leaf that differs, with its path.
void compare_json(const Json& a, const Json& b, const std::string& where, int& count) {
  if (a == b) return;
  if (a.is_object() && b.is_object()) {
    std::set<std::string> keys;
    for (const auto& item : a.items()) keys.insert(item.key());
    for (const auto& item : b.items()) keys.insert(item.key());
    keys.erase("shared_object_id");  // an address in the writer's memory
    for (const std::string& key : keys) {
      if (a.contains(key) && b.contains(key)) {
        compare_json(a[key], b[key], where + "." + key, count);
      } else {
        ++count;
        fmt::print("{}.{}: {} -> {}\n", where, key, a.contains(key) ? shown(a[key]) : "(none)",
                   b.contains(key) ? shown(b[key]) : "(none)");
      }
    }
    return;
  }
  if (a.is_array() && b.is_array() && a.size() == b.size()) {
    for (std::size_t i = 0; i < a.size(); ++i) compare_json(a[i], b[i], fmt::format("{}[{}]", where, i), count);
    return;
  }
  ++count;
  fmt::print("{}: {} -> {}\n", where, shown(a), shown(b));
}

// The difference between two tensors of one name; empty if they are equal.
std::string compare_tensor(const formats::TensorData& a, const formats::TensorData& b) {
  if (a.dtype == DType::kString || a.dtype == DType::kVariant) {
    std::size_t different = 0;
    for (std::size_t i = 0; i < a.strings.size(); ++i) different += a.strings[i] != b.strings[i];
    return different == 0 ? "" : fmt::format("{} of {} {}s differ", different, a.strings.size(), dtype_name(a.dtype));
  }
  if (std::ranges::equal(a.bytes, b.bytes)) return "";
  const Deviation found = deviation(a, b);
  if (found.count == 0) return "";
  return fmt::format("{} of {} elements differ, max deviation {:.6g}, mean deviation {:.6g}", found.count, found.total,
                     found.max, found.mean);
}

// Tensors that describe the program that wrote a SavedModel or a checkpoint rather than the model: the object graph,
// and the second names that Keras's export gives all variables.
bool is_bookkeeping(const std::string& name) {
  return name == formats::kObjectGraphKey || name.starts_with("_all_variables/");
}

std::vector<formats::TensorInfo> tensors_of(const Artifact& artifact, bool kinds_differ) {
  std::vector<formats::TensorInfo> list = artifact.tensors->list();
  if (kinds_differ) std::erase_if(list, [](const auto& info) { return is_bookkeeping(info.name); });
  return list;
}

void compare_tensors(const Artifact& a, const Artifact& b, bool kinds_differ, Tally& tally) {
  std::map<std::string, formats::TensorInfo> theirs;
  for (const auto& info : tensors_of(b, kinds_differ)) theirs.emplace(info.name, info);
  for (const auto& info : tensors_of(a, kinds_differ)) {
    const bool optimizer = is_optimizer_tensor(info.name);
    const char* label = optimizer ? "optimizer" : "tensor";
    const auto found = theirs.find(info.name);
    if (found == theirs.end()) {
      ++(optimizer ? tally.optimizer : tally.structure);
      fmt::print("{} {}: only in {}\n", label, info.name, a.path);
      continue;
    }
    const formats::TensorInfo other = found->second;
    theirs.erase(found);
    std::string difference;
    if (info.dtype != other.dtype || info.shape != other.shape) {
      difference = fmt::format("{} {} -> {} {}", dtype_name(info.dtype), info.shape.to_string(),
                               dtype_name(other.dtype), other.shape.to_string());
      ++(optimizer ? tally.optimizer : tally.structure);
    } else if (!a.graph) {
      difference = compare_tensor(a.tensors->read(info.name), b.tensors->read(info.name));
      if (!difference.empty()) ++(optimizer ? tally.optimizer : tally.tensors);
    }
    if (!difference.empty()) fmt::print("{} {}: {}\n", label, info.name, difference);
  }
  for (const auto& [name, info] : theirs) {
    const bool optimizer = is_optimizer_tensor(name);
    ++(optimizer ? tally.optimizer : tally.structure);
    fmt::print("{} {}: only in {}\n", optimizer ? "optimizer" : "tensor", name, b.path);
  }
}

Json signatures_json(const Artifact& artifact) {
  Json out = Json::object();
  if (!artifact.saved_model) return out;
  for (const auto& signature : artifact.saved_model->signatures) {
    Json& entry = out[signature.name];
    for (const auto& t : signature.inputs)
      entry["inputs"][t.key] = fmt::format("{} {}", dtype_name(t.dtype), t.shape.to_string());
    for (const auto& t : signature.outputs)
      entry["outputs"][t.key] = fmt::format("{} {}", dtype_name(t.dtype), t.shape.to_string());
  }
  return out;
}

// The format in which a Keras model must be written so that its tensors have the names that they have in `other`;
// nullopt if they have these names already, or cannot have them.
std::optional<formats::Kind> comparable_kind(const Artifact& model, const Artifact& other) {
  using formats::Kind;
  if (model.kind == other.kind || model.config.is_null()) return std::nullopt;
  if (other.kind == Kind::kSavedModel || other.kind == Kind::kTfCheckpoint) return other.kind;
  if (model.kind == Kind::kKerasH5) return Kind::kKeras;  // a legacy .h5 has other names and another order
  return std::nullopt;
}

// Artifacts of two kinds are compared after the model of one is written in the format of the other.
void rewrite_for_comparison(Artifact& model, const Artifact& other, io::ScratchFolder& scratch) {
  const auto kind = comparable_kind(model, other);
  if (!kind) return;
  const std::string name = model.path;
  const std::string written = scratch.file(*kind == formats::Kind::kKeras ? "model.keras" : "model");
  Arguments arguments;
  arguments.set("IN", name);
  arguments.set("OUT", written);
  arguments.set("--to", std::string(formats::kind_name(*kind)));
  run_in_engine("rewrite", arguments);
  model = open_artifact(written);
  model.path = name;
}

bool has_config(const Artifact& artifact) {
  return artifact.kind == formats::Kind::kKeras || artifact.kind == formats::Kind::kKerasH5;
}

}  // namespace

int diff(const Arguments& arguments) {
  Artifact a = open_artifact(arguments.text("A"));
  Artifact b = open_artifact(arguments.text("B"));
  io::ScratchFolder scratch;
  Tally tally;
  const bool kinds_differ = a.kind != b.kind;
  if (kinds_differ) fmt::print("kind: {} -> {}\n", formats::kind_name(a.kind), formats::kind_name(b.kind));
  rewrite_for_comparison(a, b, scratch);
  rewrite_for_comparison(b, a, scratch);
  compare_tensors(a, b, kinds_differ, tally);
  if (has_config(a) && has_config(b)) {
    compare_json(a.config, b.config, "config", tally.config);
    compare_json(a.training, b.training, "compile_config", tally.config);
  }
  if (a.kind == b.kind) compare_json(signatures_json(a), signatures_json(b), "signatures", tally.structure);
  if (tally.total() == 0) {
    fmt::print("no difference\n");
    return 0;
  }
  std::fflush(stdout);
  fmt::print(stderr, "lockstep: {} and {} differ: structure {}, tensors {}, optimizer {}, config {}\n", a.path, b.path,
             tally.structure, tally.tensors, tally.optimizer, tally.config);
  return kFailure;
}

}  // namespace lockstep::cli
