#include "lockstep/train/saver.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/formats/checkpoint_graph_internal.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/formats/tensor_bundle.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/ops/functions.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/checkpoint_files_internal.h"
#include "lockstep/train/live_graph_internal.h"

namespace lockstep::train {
namespace {

template <typename Time>
double seconds_of(const Time& time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}
double now() { return seconds_of(std::chrono::system_clock::now()); }

std::map<std::string, distribute::VariablePtr> by_path(const std::vector<distribute::VariablePtr>& variables) {
  std::map<std::string, distribute::VariablePtr> named;
  for (const auto& variable : variables) {
    const auto [at, fresh] = named.emplace(variable->path(), variable);
    if (!fresh && at->second != variable)
      throw_invalid_argument(fmt::format(
          "Saver: two variables have the name '{}'; give the variables as a map with names of your own", at->first));
  }
  return named;
}

std::vector<distribute::VariablePtr> variables_of(const keras::Model& model) {
  std::vector<distribute::VariablePtr> all = model.weights();
  if (const auto& optimizer = model.impl()->trainer().optimizer()) {
    const auto state = optimizer->variables();
    all.insert(all.end(), state.begin(), state.end());
  }
  return all;
}

// The keys of a file with an object graph, by the names of its variables. The last one with a name counts, as in
// TensorFlow.
std::map<std::string, std::string> keys_by_name(const CheckpointReader& reader, const std::string& path) {
  const Tensor graph = reader.get_tensor(std::string(formats::kObjectGraphKey));
  std::map<std::string, std::string> keys;
  for (const auto& node : formats::CheckpointGraph::parse(graph.item<std::string>(), path).nodes) {
    for (const auto& attribute : node.attributes) keys.insert_or_assign(attribute.full_name, attribute.key);
  }
  return keys;
}

const std::string& key_of(const std::map<std::string, std::string>& keys, const std::string& name,
                          const std::string& path) {
  const auto found = keys.find(name);
  if (found != keys.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [each, key] : keys) {
    if (!each.empty()) known.push_back(each);
  }
  throw_not_found(fmt::format("{}: no variable of the checkpoint's objects had the name '{}'{}", path, name,
                              did_you_mean(name, known)));
}

}  // namespace

Saver::Saver(std::map<std::string, distribute::VariablePtr> variables, SaverOptions options)
    : variables_(std::move(variables)),
      options_(options),
      next_preserved_time_(now() + options.keep_checkpoint_every_n_hours * 3600) {
  if (variables_.empty()) throw_invalid_argument("Saver: no variables to save");
  if (variables_.contains("")) throw_invalid_argument("Saver: a variable has no name");
  if (options_.max_to_keep < 0) {
    throw_invalid_argument(fmt::format("Saver: invalid max_to_keep: found {}, expected a positive number, or 0 for all",
                                       options_.max_to_keep));
  }
}
Saver::Saver(const std::vector<distribute::VariablePtr>& variables, SaverOptions options)
    : Saver(by_path(variables), options) {}
Saver::Saver(const keras::Model& model, SaverOptions options) : Saver(variables_of(model), options) {}

void Saver::write(const std::string& path) const {
  LiveValues values;
  for (const auto& [name, variable] : variables_) values.contents.emplace_back(name, variable->numpy().to_data());
  write_values(values, path);
}

std::string Saver::save(const std::string& prefix, std::optional<std::int64_t> global_step,
                        const std::string& latest_filename) {
  const std::string path = !global_step               ? prefix
                           : options_.pad_step_number ? fmt::format("{}-{:08}", prefix, *global_step)
                                                      : fmt::format("{}-{}", prefix, *global_step);
  if (latest_filename.empty() || latest_filename.find('/') != std::string::npos ||
      latest_filename == io::base_name(path))
    throw_invalid_argument(fmt::format(
        "Saver: invalid latest_filename: found '{}', expected the name of a file other than the checkpoint's",
        latest_filename));
  write(path);
  record(path);
  formats::CheckpointState state{path, last_checkpoints(), {}, 0};
  if (last_.empty()) state.all_model_checkpoint_paths = {path};
  formats::write_checkpoint_state(io::parent_directory(path), std::move(state), latest_filename);
  if (surplus_.empty()) return path;
  const Kept oldest = surplus_.front();
  surplus_.erase(surplus_.begin());
  if (oldest.time > next_preserved_time_) {
    next_preserved_time_ += options_.keep_checkpoint_every_n_hours * 3600;
  } else {
    delete_checkpoint(oldest.path);
  }
  return path;
}

// One of the same path is newer now. Each save makes one surplus at most, as in TensorFlow.
void Saver::record(const std::string& path) {
  if (options_.max_to_keep == 0) return;
  std::erase_if(last_, [&](const Kept& each) { return each.path == path; });
  last_.push_back({path, now()});
  if (last_.size() <= static_cast<std::size_t>(options_.max_to_keep)) return;
  surplus_.push_back(last_.front());
  last_.erase(last_.begin());
}

std::vector<std::string> Saver::last_checkpoints() const {
  std::vector<std::string> paths;
  for (const Kept& each : last_) paths.push_back(each.path);
  return paths;
}

void Saver::recover_last_checkpoints(const std::vector<std::string>& paths) {
  last_.clear();
  for (const std::string& path : paths) {
    std::error_code absent;
    const auto changed = std::filesystem::last_write_time(formats::bundle_index_path(path), absent);
    if (!absent) last_.push_back({path, seconds_of(std::chrono::file_clock::to_sys(changed))});
  }
}

void Saver::restore(const std::string& path) const {
  const CheckpointReader reader(path);
  const bool by_object =
      reader.has_tensor(std::string(formats::kObjectGraphKey)) &&
      !std::ranges::all_of(variables_, [&](const auto& each) { return reader.has_tensor(each.first); });
  const auto keys = by_object ? keys_by_name(reader, path) : std::map<std::string, std::string>();
  std::vector<Tensor> values;
  for (const auto& [name, variable] : variables_)
    values.push_back(reader.get_tensor(by_object ? key_of(keys, name, path) : name));
  auto at = values.begin();
  for (const auto& [name, variable] : variables_) {
    Tensor& value = *at++;
    if (options_.reshape && value.shape().num_elements() == variable->shape().num_elements())
      value = ops::reshape(value, variable->shape());
    if (value.dtype() != variable->dtype() || !(value.shape() == variable->shape()))
      throw_invalid_argument(fmt::format("{}: '{}' is {}{}, its variable is {}{}", path, name,
                                         dtype_name(value.dtype()), value.shape().to_string(),
                                         dtype_name(variable->dtype()), variable->shape().to_string()));
  }
  std::size_t next = 0;
  for (const auto& [name, variable] : variables_) variable->assign(values[next++]);
}

}  // namespace lockstep::train
