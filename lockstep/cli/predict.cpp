#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/cli/engine_commands_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/input_arrays_internal.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/report_internal.h"
#include "lockstep/cli/time_limit_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/graph/run_budget_internal.h"
#include "lockstep/graph/run_limits.h"
#include "lockstep/ops/functions.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/saved_model.h"

namespace lockstep::cli {
namespace {

using formats::Kind;

NamedTensors input_arrays(const Arguments& arguments, bool floats_to_float32) {
  const auto path = arguments.maybe("--input");
  return path ? read_arrays(*path, floats_to_float32) : NamedTensors{};
}

Tensor prepared(const Tensor& value, std::optional<double> rescale) {
  return rescale ? ops::cast(value, DType::kFloat32) * *rescale : value;
}

NamedTensors predict_keras(const Arguments& arguments, const std::string& path) {
  if (arguments.has("--outputs"))
    throw_usage(fmt::format("predict: --outputs requires a graph; {} is a Keras model", path));
  TimeLimit time(arguments);
  const keras::Model model = load_trainable(path, false, max_memory_of(arguments).value_or(kMaxNewWeights));
  apply_weights(model, arguments);
  const NamedTensors arrays = input_arrays(arguments, true);
  std::vector<std::string> names = input_names(model, arrays);
  if (arrays.empty())
    throw_usage(fmt::format("predict: --input X is missing; {} has the inputs {}", path, fmt::join(names, ", ")));
  if (names.empty()) {
    for (const auto& [name, value] : arrays) names.push_back(name);
  }
  std::vector<Tensor> leaves = arrange(arrays, names, arguments.text("--input"));
  for (Tensor& leaf : leaves) leaf = prepared(leaf, rescale_of(arguments));
  const graph::RunBudget budget(graph::run_limits(), held_bytes(arguments, model, leaves));
  time.allow(1 + most_seconds(model, leaves));
  const keras::Structure result =
      model.predict(input_structure(model, leaves),
                    {.batch_size = arguments.integer("--batch-size"), .verbose = verbosity(arguments)});
  const std::vector<Tensor> values = result.flatten();
  std::vector<std::string> outputs = output_names(model);
  NamedTensors named;
  for (std::size_t i = 0; i < values.size(); ++i) {
    named.emplace_back(outputs.size() == values.size() ? outputs[i] : fmt::format("arr_{}", i), values[i]);
  }
  return named;
}

// A value in the dtype a graph asks for, where nothing but the width of the numbers differs.
Tensor fitted(const Tensor& value, DType wanted) {
  const bool same_family =
      (is_floating(value.dtype()) && is_floating(wanted)) || (is_integer(value.dtype()) && is_integer(wanted));
  return value.dtype() != wanted && same_family ? ops::cast(value, wanted) : value;
}

Tensor rows(const Tensor& value, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> starts(static_cast<std::size_t>(value.rank()), 0);
  std::vector<std::int64_t> sizes = value.shape().dims();
  starts[0] = begin;
  sizes[0] = end - begin;
  return ops::slice(value, starts, sizes);
}

// Rows that all inputs have in common and may be cut at; empty when the inputs must go in at once.
std::optional<std::int64_t> common_rows(const std::map<std::string, Tensor>& inputs,
                                        const saved_model::Signature& signature) {
  std::optional<std::int64_t> count;
  for (const auto& spec : signature.inputs()) {
    const Tensor& value = inputs.at(spec.name);
    if (value.rank() == 0 || (spec.shape.known_rank() && (spec.shape.rank() == 0 || spec.shape[0] != kUnknownDim)))
      return std::nullopt;
    if (count && *count != value.dim(0)) return std::nullopt;
    count = value.dim(0);
  }
  return count;
}

std::map<std::string, Tensor> run_signature(const saved_model::Signature& signature,
                                            const std::map<std::string, Tensor>& inputs, std::int64_t batch) {
  const std::optional<std::int64_t> count = common_rows(inputs, signature);
  // What changes variables or draws random numbers gives other results in parts.
  if (!count || *count <= batch || signature.changes_state()) return signature(inputs);
  std::map<std::string, std::vector<Tensor>> parts;
  for (std::int64_t begin = 0; begin < *count; begin += batch) {
    const std::int64_t end = std::min(begin + batch, *count);
    std::map<std::string, Tensor> part;
    for (const auto& [name, value] : inputs) part[name] = rows(value, begin, end);
    for (const auto& [name, value] : signature(part)) {
      if (value.rank() == 0 || value.dim(0) != end - begin) return signature(inputs);  // no output for each row
      parts[name].push_back(value);
    }
  }
  std::map<std::string, Tensor> joined;
  for (const auto& [name, values] : parts) joined[name] = ops::concat(values, 0);
  return joined;
}

void set_run_limits(const Arguments& arguments) {
  graph::RunLimits limits;
  limits.max_memory = max_memory_of(arguments).value_or(0);
  if (const auto seconds = arguments.maybe("--max-seconds"))
    limits.max_seconds = parse_seconds("--max-seconds", *seconds);
  limits.max_iterations = arguments.integer("--max-iterations");
  limits.max_depth = static_cast<int>(arguments.integer("--max-depth"));
  graph::set_run_limits(limits);
}

// What `load` returns, within the time for loading. Running a graph has its own limits.
template <typename Load>
auto loaded(const Arguments& arguments, const Load& load) {
  const TimeLimit time(arguments);
  return load();
}

NamedTensors predict_saved_model(const Arguments& arguments, const std::string& path) {
  const saved_model::LoadedModel model =
      loaded(arguments, [&] { return saved_model::load(path, {.tags = arguments.list("--tags")}); });
  const saved_model::Signature& signature = model.signatures(arguments.text("--signature"));
  const NamedTensors arrays = input_arrays(arguments, false);
  std::vector<std::string> names;
  std::map<std::string, Tensor> inputs;
  for (const auto& spec : signature.inputs()) {
    const auto value = signature.defaults().find(spec.name);
    const bool given = std::ranges::any_of(arrays, [&](const auto& array) { return array.first == spec.name; });
    if (value == signature.defaults().end() || given) {
      names.push_back(spec.name);
    } else {
      inputs.emplace(*value);
    }
  }
  if (!names.empty()) {
    if (arrays.empty()) {
      throw_usage(fmt::format("predict: --input X is missing; the signature {} of {} takes {}", signature.name(), path,
                              fmt::join(names, ", ")));
    }
    const std::vector<Tensor> values = arrange(arrays, names, arguments.text("--input"));
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto spec = std::ranges::find(signature.inputs(), names[i], &TensorSpec::name);
      inputs[names[i]] = fitted(prepared(values[i], rescale_of(arguments)), spec->dtype);
    }
  }
  const auto outputs = run_signature(signature, inputs, arguments.integer("--batch-size"));
  const std::vector<std::string> wanted = arguments.list("--outputs");
  if (wanted.empty()) return {outputs.begin(), outputs.end()};
  NamedTensors named;
  for (const std::string& name : wanted) {
    const auto found = outputs.find(name);
    if (found == outputs.end()) {
      std::vector<std::string> known;
      for (const auto& [have, value] : outputs) known.push_back(have);
      throw_not_found(fmt::format("--outputs: the signature {} has no output '{}'{}; there are {}", signature.name(),
                                  name, did_you_mean(name, known), fmt::join(known, ", ")));
    }
    named.emplace_back(name, found->second);
  }
  return named;
}

NamedTensors predict_graph(const Arguments& arguments, Kind kind, const std::string& path) {
  const auto graph = loaded(arguments, [&] { return saved_model::FrozenGraph::load(path); });
  const NamedTensors arrays = input_arrays(arguments, false);
  std::map<std::string, Tensor> inputs;
  const bool by_place = !arrays.empty() && positional(arrays) && graph.placeholders().size() == arrays.size();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::string name = by_place ? graph.placeholders()[i].name : arrays[i].first;
    if (name.ends_with(":0")) name.resize(name.size() - 2);
    Tensor value = prepared(arrays[i].second, rescale_of(arguments));
    for (const auto& spec : graph.placeholders()) {
      if (spec.name == name) value = fitted(value, spec.dtype);
    }
    inputs[name] = value;
  }
  std::vector<std::string> names = arguments.list("--outputs");
  if (names.empty() && kind == Kind::kMetaGraph) {
    throw_usage(fmt::format(
        "predict: --outputs is missing; {} is a graph for training, some of whose nodes change variables", path));
  }
  if (names.empty()) names = graph.outputs();
  const std::vector<Tensor> values = graph.run(inputs, names);
  NamedTensors named;
  for (std::size_t i = 0; i < values.size(); ++i) named.emplace_back(names[i], values[i]);
  return named;
}

}  // namespace

int predict(const Arguments& arguments) {
  const formats::Detected found = formats::detect(arguments.text("MODEL"));
  const bool config = found.kind == Kind::kKerasConfig;
  if (arguments.has("--weights") && !config && found.kind != Kind::kKeras && found.kind != Kind::kKerasH5)
    throw_usage("predict: --weights requires a Keras model");
  if (config && !arguments.has("--weights"))
    throw_usage(fmt::format("predict: {} is an architecture without weights; give --weights FILE", found.path));
  const std::string target = arguments.text("--output");
  set_run_limits(arguments);
  // Nothing is written before the last run has ended.
  const graph::RunWatchdog watchdog(2.0, [](const std::string& message) {
    report(message);
    std::_Exit(kFailure);
  });
  switch (found.kind) {
    case Kind::kKeras:
    case Kind::kKerasConfig:
    case Kind::kKerasH5: write_outputs(target, predict_keras(arguments, found.path)); return 0;
    case Kind::kSavedModel: write_outputs(target, predict_saved_model(arguments, found.path)); return 0;
    case Kind::kFrozenGraph:
    case Kind::kMetaGraph: write_outputs(target, predict_graph(arguments, found.kind, found.path)); return 0;
    default:
      throw_invalid_argument(
          fmt::format("{} is a {} file without a model; predict takes .keras, .h5, a SavedModel, a frozen "
                      "graph or a .meta graph",
                      found.path, formats::kind_name(found.kind)));
  }
}

}  // namespace lockstep::cli
