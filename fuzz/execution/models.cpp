#include "fuzz/execution/models.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "fuzz/execution/model_changes.h"
#include "lockstep/base/log.h"
#include "lockstep/graph/run_budget_internal.h"
#include "lockstep/io/zip.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/table_internal.h"
#include "lockstep/saving/keras_export.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/saved_model.h"

namespace lockstep::fuzz {
namespace {

constexpr graph::RunLimits kLimits{.max_memory = 64 << 20, .max_seconds = 0.5, .max_iterations = 1000};

Tensor input_of(DType dtype, Shape shape) {
  std::int64_t count = 1;
  if (!shape.known_rank()) shape = Shape{2, 3};
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == kUnknownDim) shape[axis] = axis == 0 ? 2 : 3;
    if (shape[axis] < 0 || shape[axis] > 4096 || (count *= shape[axis]) > 65536)
      throw_resource_exhausted("an input of this shape is too large for a fuzz case");
  }
  if (dtype == DType::kString) {
    return Tensor::strings(std::vector<std::string>(static_cast<std::size_t>(count), "a b"), shape);
  }
  if (is_integer(dtype) || dtype == DType::kBool) {
    return ops::cast(Tensor::full(shape, 1.0), dtype);
  }
  return Tensor::full(shape, 0.5, dtype);
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// Of a model without inputs any shape will do.
void run_model(const std::string& path, bool saves, const std::string& copy) {
  const graph::RunBudget budget(kLimits, 0);
  const keras::Model model = keras::load_model(path);
  std::vector<Tensor> leaves;
  keras::Structure x = Tensor::full(Shape{2, 4}, 0.5);
  if (const keras::Structure inputs = model.input(); inputs.is_list() || inputs.is_dict() || inputs.leaf().defined()) {
    x = inputs.map([](const Tensor& input) { return input_of(input.dtype(), input.shape()); });
  }
  const keras::Structure y = model.predict(x, {.batch_size = 2, .verbose = 0});
  model.summary_text({.expand_nested = true});
  if (model.compiled()) model.train_on_batch(x, y);
  if (saves) keras::load_model((model.save(copy), copy));
}

void run_saved_model(const std::string& path) {
  const saved_model::LoadedModel model = saved_model::load(path);
  for (const std::string& name : model.signature_names()) {
    const saved_model::Signature signature = model.signatures(name);
    std::map<std::string, Tensor> inputs;
    for (const TensorSpec& spec : signature.inputs()) inputs[spec.name] = input_of(spec.dtype, spec.shape);
    signature(inputs);
  }
}

struct Changed {
  std::string path, log;
  bool saved_model = false, saves = false;
};

// The changed file of case `seed`, below `work`.
Changed change(std::uint64_t seed, const std::vector<std::string>& configs, const std::string& folder,
               const std::string& work, const std::vector<std::string>& operations) {
  Choices choices(seed * 0xd6e8feb86659fd93u);
  const std::size_t number = choices.below(configs.size());
  const std::string source = fmt::format("{}/{}", folder, number);
  std::filesystem::remove_all(work);
  std::filesystem::create_directories(work);
  Changed changed;
  changed.saves = choices.chance(5);
  const std::size_t kind = choices.below(10);
  if (kind < 4) {
    changed.path = work + "/model.json";
    Json config = parse_json(configs[number], "model");
    change_config(choices, config, changed.log);
    write_text(changed.path, dump_json(config));
  } else if (kind < 7) {
    changed.path = work + "/keras";
    std::filesystem::copy(source + "/keras", changed.path, std::filesystem::copy_options::recursive);
    if (choices.chance(80)) {
      change_hdf5(choices, source + "/keras/model.weights.h5", changed.path + "/model.weights.h5", changed.log);
    } else {
      Json config = parse_json(configs[number], "model");
      change_config(choices, config, changed.log);
      write_text(changed.path + "/config.json", dump_json(config));
    }
  } else if (kind < 8) {
    changed.path = work + "/model.h5";
    change_hdf5(choices, source + "/model.h5", changed.path, changed.log);
  } else {
    changed.path = work + "/saved";
    changed.saved_model = true;
    change_saved_model(choices, source + "/saved", changed.path, operations, changed.log);
  }
  changed.log =
      fmt::format("model {} as {}: {}", number, std::filesystem::path(changed.path).filename().string(), changed.log);
  return changed;
}

}  // namespace

Outcome run_model_file(const std::string& path) {
  return outcome_of([&] { run_model(path, false, ""); });
}

Target model_files_target(std::vector<std::string> configs, std::string folder) {
  const auto write = [=](std::uint64_t seed) {
    const std::string path = fmt::format("{}/{}", folder, seed - 1);
    std::filesystem::create_directories(path);
    const std::string config = path + "/model.json";
    write_text(config, configs[seed - 1]);
    return outcome_of([&] {
      const keras::Model model = keras::load_model(config);
      saving::save_model(model, path + "/model.h5");
      const std::string archive = path + "/model.keras";
      saving::save_model(model, archive);
      const io::ZipReader zip(archive);
      std::filesystem::create_directories(path + "/keras");
      for (const io::ZipMember& member : zip.members())
        write_text(path + "/keras/" + member.name, std::string(io::as_text(zip.read(member).bytes)));
      saved_model::save(model, path + "/saved");
    });
  };
  return {write, [configs](std::uint64_t seed) { return configs[seed - 1].substr(0, 500); }};
}

Target models_target(std::vector<std::string> configs, std::string folder) {
  const auto operations = ops::Table::instance().names_with_kernel();
  const auto changed = [=](std::uint64_t seed) {
    return change(seed, configs, folder, fmt::format("{}/case", folder), operations);
  };
  set_log_level(LogLevel::kError);
  graph::set_run_limits(kLimits);
  return {[=](std::uint64_t seed) {
            const Changed file = changed(seed);
            return outcome_of([&] {
              if (file.saved_model) {
                run_saved_model(file.path);
              } else {
                run_model(file.path, file.saves, folder + "/case/copy.keras");
              }
            });
          },
          [=](std::uint64_t seed) { return changed(seed).log; }};
}

}  // namespace lockstep::fuzz
