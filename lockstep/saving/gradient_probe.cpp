// For the judged tests only: outputs and gradients of the signature serving_default of SavedModels, and of frozen
// graphs.
//   gradient_probe
// A line of standard input is a SavedModel, an .npz of inputs and the .npz to write, separated by tabs; with a frozen
// graph also its outputs, separated by commas, which are written as #0, #1, …; with a SavedModel perhaps call:NAME, a
// function that is called instead of the signature: arg_0, arg_1, … are its arguments by position, others those by
// keyword, and the leaves of its result are written as #0, #1, …; or "layer": it is called on the input "x" in training
// as a KerasLayer, whose trained variables have the gradients then; or "train:STEPS:TRAINING", TRAINING being 0, 1 or
// empty: it is trained as a KerasLayer on "x", and its losses loss/STEP, its outputs afterwards and its variables
// weight/NUMBER are written. Otherwise written are the outputs, and as gradient/NAME the
// derivatives of the sum of log(1 + y^2) of all float outputs with respect to each float input and each variable that
// is an attribute of the root, or any variable of a model of TensorFlow 1; those without a connection are left out. For
// each line one is printed: ok, or what is wrong.
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/distribute/gradient_tape.h"
#include "lockstep/formats/npy.h"
#include "lockstep/ops/functions.h"
#include "lockstep/saving/keras_export.h"
#include "lockstep/saving/saved_model.h"

namespace {

using namespace lockstep;
using keras::Structure;

bool is_float(const Tensor& x) { return x.dtype() == DType::kFloat32 || x.dtype() == DType::kFloat64; }

using Named = std::map<std::string, Tensor>;

Named run_frozen(const std::string& path, const Named& inputs, const std::string& outputs) {
  std::vector<std::string> names;
  std::istringstream list(outputs);
  for (std::string name; std::getline(list, name, ',');) names.push_back(name);
  const Tensors values = saved_model::FrozenGraph::load(path).run(inputs, names);
  Named found;
  for (std::size_t i = 0; i < values.size(); ++i) found.emplace("#" + std::to_string(i), values[i]);
  return found;
}

Named call_function(const saved_model::LoadedModel& model, const std::string& function, const Named& inputs) {
  std::vector<Structure> arguments;
  std::map<std::string, Structure> keywords;
  for (const auto& [name, value] : inputs) {
    if (name.starts_with("arg_")) {
      arguments.emplace_back(value);
    } else {
      keywords.emplace(name, value);
    }
  }
  Named found;
  for (const Tensor& leaf : model.call(function, arguments, std::nullopt, keywords).flatten())
    found.emplace("#" + std::to_string(found.size()), leaf);
  return found;
}

Named call_layer(const keras::LayerHandle& layer, const Named& inputs, std::optional<bool> training = true) {
  Named found;
  for (const Tensor& leaf : layer(inputs.at("x"), {.training = training}).flatten())
    found.emplace("#" + std::to_string(found.size()), leaf);
  return found;
}

// The sum of log(1 + y^2) of all float outputs.
Tensor total_of(const Named& outputs) {
  Tensor total = Tensor::full(Shape{}, 0);
  for (const auto& [name, value] : outputs) {
    if (!is_float(value)) continue;
    const Tensor wide = ops::cast(value, DType::kFloat64);
    total = total + ops::cast(ops::reduce_sum(ops::log1p(wide * wide)), DType::kFloat32);
  }
  return total;
}

// Steps of gradient descent with a rate of 0.01.
void train(const std::string& path, const std::string& from, const std::string& to, const std::string& how) {
  const keras::LayerHandle layer = saved_model::KerasLayer(path, {.trainable = true});
  const Named inputs{{"x", Tensor::from_data(formats::NpzReader(from).read("x"))}};
  const std::string flag = how.substr(how.find(':') + 1);
  const auto training = flag.empty() ? std::nullopt : std::optional(flag == "1");
  formats::NpzWriter writer(to);
  for (int step = 0; step < std::stoi(how); ++step) {
    GradientTape tape;
    Tensor total = total_of(call_layer(layer, inputs, training));
    for (const Tensor& loss : layer.losses()) total = total + loss;
    writer.add("loss/" + std::to_string(step), total.to_data());
    const auto weights = layer.trainable_weights();
    const auto slopes = tape.gradient(total, weights);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (slopes[i].defined()) weights[i].assign_sub(slopes[i] * 0.01);
    }
  }
  for (const auto& [name, value] : call_layer(layer, inputs, training)) writer.add(name, value.to_data());
  const auto weights = layer.weights();
  for (std::size_t i = 0; i < weights.size(); ++i)
    writer.add("weight/" + std::to_string(i), weights[i]->numpy().to_data());
  writer.finish();
}

void run(const std::string& path, const std::string& from, const std::string& to, const std::string& frozen_outputs) {
  if (frozen_outputs.starts_with("train:")) return train(path, from, to, frozen_outputs.substr(6));
  const formats::NpzReader reader(from);
  GradientTape tape({.persistent = true});
  Named inputs;
  for (const auto& info : reader.list()) {
    const Tensor value = Tensor::from_data(reader.read(info.name));
    if (is_float(value)) tape.watch(value);
    inputs.emplace(info.name, value);
  }
  std::optional<saved_model::LoadedModel> model;
  std::optional<keras::LayerHandle> layer;
  const bool calls = frozen_outputs.starts_with("call:");
  if (frozen_outputs == "layer") layer = saved_model::KerasLayer(path, {.trainable = true});
  if (calls || frozen_outputs.empty()) model = saved_model::load(path);
  const Named outputs = layer   ? call_layer(*layer, inputs)
                        : calls ? call_function(*model, frozen_outputs.substr(5), inputs)
                        : model ? model->signatures("serving_default")(inputs)
                                : run_frozen(path, inputs, frozen_outputs);
  const Tensor total = total_of(outputs);
  formats::NpzWriter writer(to);
  const auto write = [&](const std::string& name, const Tensor& value) {
    if (value.defined())
      writer.add(name, (value.dtype() == DType::kBFloat16 ? ops::cast(value, DType::kFloat32) : value).to_data());
  };
  for (const auto& [name, value] : outputs) write(name, value);
  for (const auto& [name, value] : inputs) {
    if (is_float(value)) write("gradient/" + name, tape.gradient(total, value));
  }
  for (const std::string& name : model ? model->child_names() : std::vector<std::string>()) {
    const auto variable = model->child(name).variable();
    if (variable && variable->trainable()) write("gradient/" + name, tape.gradient(total, variable));
  }
  if (model && model->child_names().empty()) {  // of TensorFlow 1
    for (const auto& variable : model->trainable_variables())
      write("gradient/" + variable->path(), tape.gradient(total, variable));
  }
  for (const auto& variable : layer ? layer->trainable_weights() : std::vector<distribute::Variable>())
    write("gradient/" + variable->path(), tape.gradient(total, variable));
  writer.finish();
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream parts(line);
    std::string path, from, to, frozen_outputs;
    for (std::string* part : {&path, &from, &to, &frozen_outputs}) std::getline(parts, *part, '\t');
    try {
      run(path, from, to, frozen_outputs);
      std::cout << "ok" << std::endl;
    } catch (const std::exception& error) {
      std::cout << error.what() << std::endl;
    }
  }
}
