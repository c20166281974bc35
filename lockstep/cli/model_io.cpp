// Models in and out for the commands that compute.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/cli/engine_commands_internal.h"
#include "lockstep/cli/input_arrays_internal.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/output_path_internal.h"
#include "lockstep/cli/target_kind_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/keras/plot_model.h"
#include "lockstep/random/seeds.h"
#include "lockstep/saving/keras_export.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/train/model_io_internal.h"
#include "lockstep/train/saver.h"

namespace lockstep::cli {
namespace {

using formats::Kind;

constexpr std::array<std::string_view, 4> kMetricsOfOutputs = {"accuracy", "acc", "crossentropy", "ce"};

bool is_config(const std::string& text) { return text.starts_with('{') || text.starts_with('['); }

saving::H5Dialect dialect_of(const Arguments& arguments) {
  const auto name = arguments.maybe("--dialect");
  if (!name) return saving::H5Dialect::kOriginal;
  return *name == "keras2" ? saving::H5Dialect::kKeras2 : saving::H5Dialect::kKeras3;
}

// A name stays a name, JSON becomes a config.
Json name_or_config(const std::string& text, const char* option) {
  return is_config(text) ? parse_json(text, option) : Json(text);
}

}  // namespace

std::optional<std::int64_t> max_memory_of(const Arguments& arguments) {
  const auto bytes = arguments.maybe("--max-memory");
  return bytes ? std::optional(parse_bytes("--max-memory", *bytes)) : std::nullopt;
}

keras::Model load_trainable(const std::string& path, bool compile, std::int64_t max_new_weights) {
  const formats::Detected found = formats::detect(path);
  switch (found.kind) {
    case Kind::kKeras:
    case Kind::kKerasConfig:
    case Kind::kSavedModel:
    case Kind::kKerasH5: return keras::load_model(found.path, {.compile = compile, .max_memory = max_new_weights});
    case Kind::kFrozenGraph:
      throw_unimplemented(fmt::format(
          "{} is a frozen graph: its weights are constants; predict runs it, and convert writes a SavedModel", path));
    case Kind::kMetaGraph:
      throw_unimplemented(fmt::format(
          "{} is a graph of TensorFlow 1 without a Keras model; predict runs it, and convert writes a SavedModel",
          path));
    default:
      throw_invalid_argument(fmt::format("{} is a {} file without a model; give a .keras or .h5 file", path,
                                         formats::kind_name(found.kind)));
  }
}

void apply_weights(const keras::Model& model, const Arguments& arguments) {
  const auto weights = arguments.maybe("--weights");
  if (!weights) return;
  const formats::Detected found = formats::detect(*weights);
  if (found.kind != Kind::kTfCheckpoint && found.kind != Kind::kSavedModel) return model.load_weights(*weights);
  const auto level = std::find(kStrictLevels.begin(), kStrictLevels.end(), arguments.text("--strict"));
  const auto strict = static_cast<train::Strictness>(level - kStrictLevels.begin());
  const train::RestoreReport report = train::read_model_checkpoint(model, found.path, strict);
  if (!report.missing.empty() || !report.unused.empty() || !report.reshaped.empty() || !report.converted.empty()) {
    log_warning("{}: {}", found.path, report.to_string("; "));
  }
}

void apply_compile_overrides(const keras::Model& model, const Arguments& arguments) {
  const auto optimizer = arguments.maybe("--optimizer");
  const auto loss = arguments.maybe("--loss");
  const auto metric_list = arguments.maybe("--metrics");
  if (!optimizer && !loss && !metric_list) return;
  std::vector<std::string> given;
  for (const char* option : {"--optimizer", "--loss", "--metrics"}) {
    if (arguments.has(option)) given.emplace_back(option);
  }
  interpret_option(fmt::format("{}", fmt::join(given, ", ")), [&] {
    keras::CompileOptions options = model.compiled() ? model.trainer().compile_options() : keras::CompileOptions{};
    if (optimizer) {
      options.optimizer = optimizers::OptimizerArg(name_or_config(*optimizer, "--optimizer"));
    } else if (model.compiled()) {
      options.optimizer = model.optimizer();
    }
    // Names are resolved with the first batch otherwise; "accuracy" and the like depend on the outputs.
    if (loss && !is_config(*loss)) losses::get(*loss);
    if (loss) options.loss = keras::LossTree::from_config(name_or_config(*loss, "--loss"), "loss");
    if (metric_list) {
      Json list = Json::array();
      if (is_config(*metric_list)) {
        list = parse_json(*metric_list, "--metrics");
      } else {
        for (const std::string& name : arguments.list("--metrics")) {
          if (std::ranges::find(kMetricsOfOutputs, name) == kMetricsOfOutputs.end()) metrics::get(name);
          list.push_back(name);
        }
      }
      options.metrics = keras::MetricTree::from_config(list, "metrics");
    }
    model.compile(std::move(options));
  });
}

void write_model(const keras::Model& model, const std::string& path, formats::Kind kind, const WriteOptions& options) {
  create_parent_directories(path);
  switch (kind) {
    case Kind::kKeras:
    case Kind::kKerasH5: saving::save_model(model, path, {.h5_dialect = options.dialect}); break;
    case Kind::kWeightsH5: saving::save_weights(*model.impl(), path); break;
    case Kind::kTfCheckpoint:
      if (options.by_name) {
        train::Saver(model).write(path);
      } else {
        train::write_model_checkpoint(model, path);
      }
      break;
    case Kind::kSavedModel: saved_model::save(saved_model::exportable(model), path); break;
    default: throw_invalid_argument(fmt::format("{}: a model cannot be written as {}", path, formats::kind_name(kind)));
  }
}

namespace {

int convert_graph(const Arguments& arguments, const formats::Detected& found) {
  for (const char* option : {"--weights", "--quantize"}) {
    if (arguments.has(option)) throw_usage(fmt::format("convert: {} requires a Keras model", option));
  }
  const std::vector<std::string> outputs = arguments.list("--outputs");
  if (found.kind == Kind::kMetaGraph && outputs.empty()) {
    throw_usage(fmt::format(
        "convert: --outputs is missing; {} is a graph for training, some of whose nodes change variables", found.path));
  }
  const std::string out = arguments.text("OUT");
  create_parent_directories(out);
  saved_model::save_graph(found.path, out, outputs, {.min_tensorflow = arguments.maybe("--min-tf").value_or("")});
  fmt::print("{} -> {} (saved_model): signature serving_default\n", arguments.text("IN"), out);
  return 0;
}

}  // namespace

int convert_model(const Arguments& arguments) {
  random::set_random_seed(0);  // the seeds of layers without one: equal files for equal models
  const std::string in = arguments.text("IN");
  const std::string out = arguments.text("OUT");
  const Kind kind = target_kind(out, arguments.maybe("--to"));
  const auto quantize = arguments.maybe("--quantize");
  const formats::Detected found = formats::detect(in);
  const bool is_graph = found.kind == Kind::kFrozenGraph || found.kind == Kind::kMetaGraph;
  if (is_graph && kind == Kind::kSavedModel) return convert_graph(arguments, found);
  if (arguments.has("--outputs")) throw_usage("convert: --outputs requires a graph (.pb or .meta) and a SavedModel");
  const keras::Model model = load_trainable(in, !quantize);
  apply_weights(model, arguments);
  if (quantize) model.quantize(*quantize);
  if (const auto version = arguments.maybe("--min-tf")) {
    create_parent_directories(out);
    saved_model::save(saved_model::exportable(model), out, {.min_tensorflow = *version});
  } else {
    write_model(model, out, kind, {dialect_of(arguments), arguments.has("--by-name")});
  }
  fmt::print("{} -> {} ({}): {} weights\n", in, out, formats::kind_name(kind), model.weights().size());
  if (model.compiled() && kind == Kind::kSavedModel) {
    fmt::print(
        "not converted, because a SavedModel cannot contain them: the optimizer's state and the compile arguments\n");
  } else if (kind == Kind::kTfCheckpoint || kind == Kind::kWeightsH5) {
    fmt::print("not converted, because {} cannot contain it: the model's config\n", formats::kind_name(kind));
  }
  return 0;
}

int rewrite_model(const Arguments& arguments) {
  const std::string out = arguments.text("OUT");
  write_model(load_trainable(arguments.text("IN"), true), out, target_kind(out, arguments.text("--to")));
  return 0;
}

int summary(const Arguments& arguments) {
  const keras::Model model = load_trainable(arguments.text("MODEL"), true);
  model.summary(
      {.expand_nested = arguments.has("--expand-nested"), .show_trainable = arguments.has("--show-trainable")});
  return 0;
}

int plot(const Arguments& arguments) {
  const std::string out = arguments.text("OUT");
  const keras::Model model = load_trainable(arguments.text("MODEL"), false);
  create_parent_directories(out);
  utils::plot_model(model, out,
                    {.show_shapes = arguments.has("--show-shapes"),
                     .show_dtype = arguments.has("--show-dtype"),
                     .show_layer_names = arguments.has("--show-layer-names"),
                     .rankdir = arguments.text("--rankdir"),
                     .expand_nested = arguments.has("--expand-nested"),
                     .show_layer_activations = arguments.has("--show-layer-activations"),
                     .show_trainable = arguments.has("--show-trainable")});
  return 0;
}

}  // namespace lockstep::cli
