#include "lockstep/keras/trainer/training_state.h"

#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::keras {

NamedTensors store_training_state(std::vector<std::string> values, const TrainingState& state) {
  NamedTensors all;
  formats::TensorData text;
  text.dtype = DType::kString;
  text.shape = Shape{static_cast<std::int64_t>(values.size())};
  text.strings = std::move(values);
  all.emplace_back(kTrainingStateKey, std::move(text));
  for (const auto& [name, tensor] : state.tensors)
    all.emplace_back(fmt::format("{}/{}", kTrainingStateKey, name), tensor.to_data());
  return all;
}

std::optional<TrainingState> load_training_state(const formats::TensorReader& reader, int worker, int workers) {
  const std::string key(kTrainingStateKey);
  const auto& infos = reader.list();
  const auto found = std::find_if(infos.begin(), infos.end(), [&](const auto& info) { return info.name == key; });
  if (found == infos.end()) return std::nullopt;
  const auto stored = reader.read(key);
  if (stored.strings.empty()) throw_data_loss(fmt::format("invalid {}: expected a list of strings", key));
  const bool same = stored.strings.size() == static_cast<std::size_t>(workers);
  TrainingState state;
  state.values = parse_json(stored.strings[same ? static_cast<std::size_t>(worker) : 0], key);
  if (!state.values.is_object()) throw_data_loss(fmt::format("invalid {}: expected a JSON object", key));
  const std::string below = key + "/";
  for (const auto& info : infos) {
    if (!info.name.starts_with(below)) continue;
    state.tensors.emplace_back(info.name.substr(below.size()), Tensor::from_data(reader.read(info.name)));
  }
  return state;
}

}  // namespace lockstep::keras
