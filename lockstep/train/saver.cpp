#include "lockstep/train/saver.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/checkpoint_state.h"
#include "lockstep/io/file_system.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/live_graph_internal.h"

namespace lockstep::train {
namespace {

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

}  // namespace

Saver::Saver(std::map<std::string, distribute::VariablePtr> variables) : variables_(std::move(variables)) {
  if (variables_.empty()) throw_invalid_argument("Saver: no variables to save");
  if (variables_.contains("")) throw_invalid_argument("Saver: a variable has no name");
}
Saver::Saver(const std::vector<distribute::VariablePtr>& variables) : Saver(by_path(variables)) {}
Saver::Saver(const keras::Model& model) : Saver(variables_of(model)) {}

void Saver::write(const std::string& path) const {
  LiveValues values;
  for (const auto& [name, variable] : variables_) values.contents.emplace_back(name, variable->numpy().to_data());
  write_values(values, path);
}

std::string Saver::save(const std::string& prefix, std::optional<std::int64_t> global_step) const {
  const std::string path = global_step ? fmt::format("{}-{}", prefix, *global_step) : prefix;
  write(path);
  const std::string folder = io::parent_directory(path);
  auto state = formats::read_checkpoint_state(folder).value_or(formats::CheckpointState{});
  auto& paths = state.all_model_checkpoint_paths;
  auto& times = state.all_model_checkpoint_timestamps;
  if (times.size() != paths.size()) times.assign(paths.size(), 0.0);
  if (const auto known = std::find(paths.begin(), paths.end(), path); known != paths.end()) {
    times.erase(times.begin() + (known - paths.begin()));
    paths.erase(known);
  }
  paths.push_back(path);
  times.push_back(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  state.model_checkpoint_path = path;
  formats::write_checkpoint_state(folder, std::move(state));
  return path;
}

void Saver::restore(const std::string& path) const {
  const CheckpointReader reader(path);
  std::vector<Tensor> values;
  for (const auto& [name, variable] : variables_) {
    values.push_back(reader.get_tensor(name));
    const Tensor& value = values.back();
    if (value.dtype() != variable->dtype() || !(value.shape() == variable->shape()))
      throw_invalid_argument(fmt::format("{}: '{}' is {}{}, its variable is {}{}", path, name,
                                         dtype_name(value.dtype()), value.shape().to_string(),
                                         dtype_name(variable->dtype()), variable->shape().to_string()));
  }
  std::size_t next = 0;
  for (const auto& [name, variable] : variables_) variable->assign(values[next++]);
}

}  // namespace lockstep::train
