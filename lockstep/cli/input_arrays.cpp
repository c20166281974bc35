#include "lockstep/cli/input_arrays_internal.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/output_path_internal.h"
#include "lockstep/data/fashion_mnist.h"
#include "lockstep/distribute/cluster_resolver.h"
#include "lockstep/formats/detect.h"
#include "lockstep/formats/idx.h"
#include "lockstep/formats/npy.h"
#include "lockstep/keras/callbacks/progress_bar_internal.h"
#include "lockstep/keras/layers/keras_tensor.h"
#include "lockstep/keras/naming_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::cli {
namespace {

Tensor as_float32(const Tensor& value) {
  return is_floating(value.dtype()) && value.dtype() != DType::kFloat32 ? ops::cast(value, DType::kFloat32) : value;
}

Tensor rescaled(const Tensor& value, std::optional<double> factor) {
  return factor ? ops::cast(value, DType::kFloat32) * *factor : value;
}

std::vector<std::string> names_of(const NamedTensors& arrays) {
  std::vector<std::string> names;
  for (const auto& [name, value] : arrays) names.push_back(name);
  return names;
}

const Tensor* find(const NamedTensors& arrays, const std::string& name) {
  for (const auto& [have, value] : arrays) {
    if (have == name) return &value;
  }
  return nullptr;
}

// "x", or "x_<name>" for each name. Without `all` some names may have no array, and their tensors are undefined.
std::vector<Tensor> part(const NamedTensors& arrays, const std::string& letter, const std::vector<std::string>& names,
                         const std::string& path, bool all) {
  if (const Tensor* whole = find(arrays, letter)) {
    if (names.size() > 1) {
      throw_invalid_argument(fmt::format("{}: one array '{}', but the model has {}: give {}_{}", path, letter,
                                         names.size(), letter, fmt::join(names, fmt::format(", {}_", letter))));
    }
    return {*whole};
  }
  std::vector<Tensor> out;
  std::set<std::string> used;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string name = fmt::format("{}_{}", letter, names[i]);
    const Tensor* found = find(arrays, name);
    if (!found) found = find(arrays, name = fmt::format("{}_{}", letter, i));
    if (!found && all) {
      throw_invalid_argument(fmt::format("{}: no array '{}_{}'{}; there are {}", path, letter, names[i],
                                         names.size() == 1 ? fmt::format(" and no '{}'", letter) : "",
                                         fmt::join(names_of(arrays), ", ")));
    }
    if (found) used.insert(name);
    out.push_back(found ? *found : Tensor());
  }
  for (const auto& [name, value] : arrays) {
    if (!all && name.starts_with(letter + "_") && !used.contains(name)) {
      throw_invalid_argument(fmt::format("{}: no output for the array '{}'{}; the outputs are {}", path, name,
                                         did_you_mean(name.substr(letter.size() + 1), names), fmt::join(names, ", ")));
    }
  }
  return out;
}

const std::vector<std::string> kBuiltIns = {"fashion-mnist", "fashion-mnist:test"};

Examples built_in(const std::string& name, bool evaluate, std::optional<double> rescale) {
  const datasets::TrainTest all = datasets::fashion_mnist();
  const bool test = evaluate || name.ends_with(":test");
  const datasets::ImageLabels images = datasets::as_float(test ? all.test : all.train);
  return {rescaled(images.images, rescale), images.labels, {}};
}

}  // namespace

NamedTensors read_arrays(const std::string& path, bool floats_to_float32) {
  const auto convert = [&](const formats::TensorData& data) {
    const Tensor value = Tensor::from_data(data);
    return floats_to_float32 ? as_float32(value) : value;
  };
  const formats::Detected found = formats::detect(path);
  if (found.kind == formats::Kind::kNpy) return {{"arr_0", convert(formats::read_npy(path))}};
  if (found.kind == formats::Kind::kIdx) return {{"arr_0", convert(formats::read_idx(path))}};
  if (found.kind != formats::Kind::kNpz) {
    throw_invalid_argument(
        fmt::format("{} is a {} file, expected .npy, .npz or IDX", path, formats::kind_name(found.kind)));
  }
  const formats::NpzReader reader(path);
  NamedTensors arrays;
  for (const auto& info : reader.list()) arrays.emplace_back(info.name, convert(reader.read(info.name)));
  return arrays;
}

bool positional(const NamedTensors& arrays) {
  return std::ranges::all_of(arrays, [](const auto& item) {
    return item.first.starts_with("arr_") && item.first.find_first_not_of("0123456789", 4) == std::string::npos;
  });
}

std::vector<Tensor> arrange(const NamedTensors& arrays, const std::vector<std::string>& names,
                            const std::string& path) {
  if (names.size() == 1 && arrays.size() == 1) return {arrays.front().second};
  const bool by_place = positional(arrays);
  if (by_place && arrays.size() != names.size()) {
    throw_invalid_argument(fmt::format("{}: {} arrays, but the model has {} inputs: {}", path, arrays.size(),
                                       names.size(), fmt::join(names, ", ")));
  }
  std::vector<Tensor> out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = by_place ? fmt::format("arr_{}", i) : names[i];
    const Tensor* found = find(arrays, name);
    if (!found) {
      throw_invalid_argument(fmt::format("{}: no array for the input '{}'{}; there are {}", path, name,
                                         did_you_mean(name, names_of(arrays)), fmt::join(names_of(arrays), ", ")));
    }
    out.push_back(*found);
  }
  return out;
}

void write_outputs(const std::string& path, const NamedTensors& outputs) {
  const auto data = [](const Tensor& value) {
    return (value.dtype() == DType::kBFloat16 ? ops::cast(value, DType::kFloat32) : value).to_data();
  };
  if (path.ends_with(".npy")) {
    if (outputs.size() != 1) {
      throw_invalid_argument(fmt::format("{}: a .npy takes one output, the model has {} ({}); write a .npz", path,
                                         outputs.size(), fmt::join(names_of(outputs), ", ")));
    }
    create_parent_directories(path);
    return formats::write_npy(path, data(outputs.front().second));
  }
  create_parent_directories(path);
  formats::NpzWriter writer(path);
  for (const auto& [name, value] : outputs) writer.add(name, data(value));
  writer.finish();
}

std::vector<std::string> input_names(const keras::Model& model, const NamedTensors& arrays, std::string_view prefix) {
  std::vector<std::string> layers;
  if (model.impl()->is_subclassed()) return layers;
  const keras::Structure inputs = model.input();
  for (const Tensor& input : inputs.flatten()) layers.push_back(keras::as_keras_tensor(input)->operation()->name());
  if (!inputs.is_dict() || inputs.entries().size() != layers.size()) return layers;
  std::vector<std::string> keys;
  for (const auto& [name, value] : inputs.entries()) keys.push_back(name);
  std::ranges::sort(keys);
  const auto has = [&](const std::string& name) { return find(arrays, fmt::format("{}{}", prefix, name)) != nullptr; };
  return std::ranges::all_of(layers, has) && !std::ranges::all_of(keys, has) ? layers : keys;
}

std::vector<std::string> output_names(const keras::Model& model) {
  std::vector<std::string> names;
  if (model.impl()->is_subclassed()) return names;
  const keras::Structure outputs = model.output();
  if (outputs.is_dict()) {
    for (const auto& [name, value] : outputs.entries()) names.push_back(name);
    std::ranges::sort(names);
    if (names.size() == outputs.num_leaves()) return names;
    names.clear();
  }
  for (const Tensor& output : outputs.flatten()) names.push_back(keras::as_keras_tensor(output)->operation()->name());
  if (model.impl()->keras_version() < 3) return keras::numbered_names(std::move(names));
  // Several outputs of one layer have one name in Keras 3: they are distinguished by position.
  if (std::set<std::string>(names.begin(), names.end()).size() != names.size()) names.clear();
  return names;
}

keras::Structure input_structure(const keras::Model& model, std::vector<Tensor> leaves) {
  if (model.impl()->is_subclassed()) return leaves.size() == 1 ? keras::Structure(leaves[0]) : keras::Structure(leaves);
  return model.input().pack(leaves);
}

bool has_weights(const Arguments& arguments) {
  return arguments.has("--weights") || formats::detect(arguments.text("MODEL")).kind != formats::Kind::kKerasConfig;
}

std::int64_t held_bytes(const Arguments& arguments, const keras::Model& model, const std::vector<Tensor>& inputs) {
  // Layers make more of an input than graphs do: the image of one channel becomes images of hundreds.
  constexpr std::int64_t kInputFactor = 8;
  std::int64_t bytes = has_weights(arguments) ? static_cast<std::int64_t>(sizeof(float)) * model.count_params() : 0;
  for (const Tensor& input : inputs) {
    bytes += kInputFactor * input.num_elements() *
             static_cast<std::int64_t>(std::max(dtype_size(input.dtype()), std::size_t{1}));
  }
  return bytes;
}

Examples read_examples(const std::string& name, const keras::Model& model, bool evaluate,
                       std::optional<double> rescale) {
  if (std::ranges::find(kBuiltIns, name) != kBuiltIns.end()) return built_in(name, evaluate, rescale);
  if (!std::filesystem::exists(name)) {
    throw_not_found(fmt::format("--data {}: no such file{}", name, did_you_mean(name, kBuiltIns)));
  }
  const NamedTensors arrays = read_arrays(name);
  std::vector<std::string> inputs = input_names(model, arrays, "x_");
  std::vector<std::string> outputs = output_names(model);
  if (inputs.empty()) inputs = {"0"};
  if (outputs.empty()) {
    const std::size_t count = model.impl()->is_subclassed() ? 1 : model.output().num_leaves();
    for (std::size_t i = 0; i < count; ++i) outputs.push_back(std::to_string(i));
  }
  Examples examples;
  std::vector<Tensor> x = part(arrays, "x", inputs, name, true);
  for (Tensor& value : x) value = rescaled(value, rescale);
  examples.x = input_structure(model, x);
  const std::vector<Tensor> y = part(arrays, "y", outputs, name, true);
  if (model.impl()->is_subclassed()) {
    examples.y = keras::Structure(y[0]);
  } else {
    examples.y = model.output().pack(y);
  }
  if (const Tensor* weight = find(arrays, "sample_weight")) {
    examples.sample_weight = *weight;
  } else if (std::ranges::any_of(arrays, [](const auto& array) { return array.first.starts_with("sample_weight_"); })) {
    const std::vector<Tensor> weights = part(arrays, "sample_weight", outputs, name, false);
    examples.sample_weight =
        model.impl()->is_subclassed() ? keras::Structure(weights[0]) : model.output().pack(weights);
  }
  return examples;
}

std::optional<double> rescale_of(const Arguments& arguments) {
  const std::optional<std::string> text = arguments.maybe("--rescale");
  return text ? std::optional(parse_factor("--rescale", *text)) : std::nullopt;
}

bool prints_output(const Arguments& arguments) {
  const std::string strategy = arguments.text("--strategy");
  const bool alone = !strategy.starts_with("multi_worker") && strategy != "parameter_server";
  return alone || distribute::resolve_cluster().is_chief();
}

int verbosity(const Arguments& arguments) { return prints_output(arguments) && keras::stdout_is_terminal() ? 1 : 0; }

}  // namespace lockstep::cli
