#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/engine_commands_internal.h"
#include "lockstep/cli/exit_codes_internal.h"
#include "lockstep/cli/input_arrays_internal.h"
#include "lockstep/cli/option_values_internal.h"
#include "lockstep/cli/output_path_internal.h"
#include "lockstep/cli/target_kind_internal.h"
#include "lockstep/cli/time_limit_internal.h"
#include "lockstep/cli/usage_error_internal.h"
#include "lockstep/cli/worker_job_internal.h"
#include "lockstep/collectives/shared_mapping_internal.h"
#include "lockstep/distribute/multi_worker_mirrored_strategy.h"
#include "lockstep/graph/default_memory_internal.h"
#include "lockstep/graph/run_budget_internal.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/keras/optimizers/slot_ranges_internal.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/random/seeds.h"
#include "lockstep/train/training_checkpoints.h"

namespace lockstep::cli {
namespace {

std::shared_ptr<train::TrainingCheckpoints> checkpoints(const keras::Model& model, const std::string& directory,
                                                        const distribute::Strategy& strategy,
                                                        const Arguments& arguments) {
  train::TrainingCheckpointsOptions options{.workers = strategy.workers()};
  if (const auto every = arguments.maybe_integer("--checkpoint-every"))
    options.every_batches = static_cast<int>(*every);
  if (prints_output(arguments))
    options.on_resume = [](const std::string& path, const keras::TrainingState& state) {
      if (state.batches() > 0) {
        fmt::print("resumed after batch {} of epoch {} from {}\n", state.batches(), state.epoch() + 1, path);
      } else {
        fmt::print("resumed after epoch {} from {}\n", state.epoch(), path);
      }
    };
  return std::make_shared<train::TrainingCheckpoints>(model, directory, std::move(options));
}

void write_history(const keras::History& history, const std::string& path) {
  Json out = Json::object();
  for (const auto& [name, values] : history.history) out[name] = values;
  io::write_atomically(path, dump_json(out) + "\n");
}

// The save plan of the next checkpoint in --checkpoint-dir.
void print_plan(const keras::Model& model, const std::string& directory, const distribute::Strategy& strategy,
                const Arguments& arguments) {
  model.trainer().build_optimizer();
  const train::Checkpoint checkpoint(model, model.optimizer());
  checkpoint.save_counter();
  std::int64_t number = 1;
  if (const auto latest = train::latest_checkpoint(directory))
    number = std::atoll(latest->c_str() + latest->rfind('-') + 1) + 1;
  const std::string prefix = io::join_path(directory, fmt::format("ckpt-{}", number));
  const auto asked = arguments.maybe_integer("--workers");
  const std::string plan = !asked && strategy.communicator()
                               ? checkpoint.plan_text(prefix, *strategy.communicator())
                               : checkpoint.plan_text(prefix, static_cast<int>(asked.value_or(1)));
  if (prints_output(arguments)) fmt::print("{}", plan);
}

// The outputs and their formats, checked before the work begins.
struct Targets {
  std::optional<std::string> save;
  formats::Kind save_kind = formats::Kind::kKeras;
  std::optional<std::string> saved_model;
  std::optional<std::string> history;
};

Targets targets_of(const Arguments& arguments) {
  Targets targets{arguments.maybe("--save"), formats::Kind::kKeras, arguments.maybe("--export"),
                  arguments.maybe("--history")};
  if (targets.save) {
    targets.save_kind = target_kind(*targets.save, std::nullopt);
    if (targets.save_kind == formats::Kind::kSafetensors) {
      throw_usage(fmt::format(
          "--save: {} is not a model's path; expected .keras, .h5, .weights.h5, .ckpt or a SavedModel folder",
          *targets.save));
    }
  }
  return targets;
}

// Before the work begins, so that a path that cannot be written costs no training. Of several workers the chief writes.
void create_target_directories(const Targets& targets, const Arguments& arguments) {
  if (!prints_output(arguments)) return;
  for (const auto& path : {targets.save, targets.saved_model, targets.history}) {
    if (path) create_parent_directories(*path);
  }
}

// Of several workers the chief writes, and all get its error.
void write_targets(const distribute::Strategy& strategy, const Targets& targets, const keras::Model& model,
                   const keras::History& history) {
  const auto write = [&](const std::optional<std::string>& path, const std::function<void(const std::string&)>& how) {
    if (!path) return;
    const auto workers = strategy.workers();
    if (!workers && !strategy.is_chief()) return;
    if (!workers) return how(*path);
    const distribute::ScopedOwnInitialValues alone;
    optimizers::run_on_chief(workers.get(), fmt::format("saving {}", *path), model.optimizer()->variables(),
                             [&] { how(*path); });
  };
  write(targets.save, [&](const std::string& path) { write_model(model, path, targets.save_kind); });
  write(targets.saved_model, [&](const std::string& path) { write_model(model, path, formats::Kind::kSavedModel); });
  write(targets.history, [&](const std::string& path) { write_history(history, path); });
}

// The paths that were written.
void report_outputs(const Targets& targets, const std::optional<std::string>& checkpoints) {
  if (targets.save) fmt::print("saved {} ({})\n", *targets.save, formats::kind_name(targets.save_kind));
  if (targets.saved_model)
    fmt::print("saved {} ({})\n", *targets.saved_model, formats::kind_name(formats::Kind::kSavedModel));
  if (targets.history) fmt::print("saved {} (history)\n", *targets.history);
  if (!checkpoints) return;
  if (const auto latest = train::latest_checkpoint(*checkpoints))
    fmt::print("checkpoints in {}, the newest is {}\n", *checkpoints, *latest);
}

// Options that require others.
void require_directory(const Arguments& arguments) {
  if (arguments.has("--checkpoint-dir")) {
    if (arguments.has("--workers") && !arguments.has("--dry-run")) {
      throw_usage("--workers requires --dry-run; to start workers use lockstep launch");
    }
    return;
  }
  for (const char* name : {"--checkpoint-every", "--dry-run", "--workers", "--restarts"}) {
    if (arguments.has(name)) throw_usage(fmt::format("{} requires --checkpoint-dir", name));
  }
}

// An evaluator must not train, nor write where the chief writes.
void require_training_task(const distribute::Strategy& strategy) {
  const auto* const workers = dynamic_cast<const distribute::MultiWorkerMirroredStrategy*>(&strategy);
  if (!workers || workers->cluster_resolver().task_type() != "evaluator") return;
  throw_invalid_argument(
      "TF_CONFIG: this task is an evaluator, which does not train; start lockstep evaluate MODEL --data D "
      "--checkpoint-dir DIR for it, which evaluates the checkpoints of fit as they appear");
}

volatile std::sig_atomic_t stop_signal = SIGTERM;  // which of the two it was; SIGTERM when another worker was asked

const keras::PreemptionToken& preemption() {
  static const auto* const token = new keras::PreemptionToken();  // signals may still come while the process ends
  return *token;
}

// Returns a token that the first SIGTERM or SIGINT requests, so that fit stops at a step that all workers agree on; a
// second signal ends the process at once. A signal that is ignored (nohup, a shell's background job) stays so.
keras::PreemptionToken preemption_by_signals() {
  const keras::PreemptionToken token = preemption();  // exists before the first signal
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    stop_signal = signal;
    for (const int each : {SIGTERM, SIGINT}) std::signal(each, SIG_DFL);
    preemption().request();
  };
  action.sa_flags = SA_RESTART;
  for (const int each : {SIGTERM, SIGINT}) {
    struct sigaction before {};
    if (sigaction(each, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(each, &action, nullptr);
  }
  return token;
}

int report_preempted(const Arguments& arguments, const std::string& directory) {
  if (prints_output(arguments)) {
    fmt::print(stderr, "lockstep: stopped by SIG{}; the state is saved in {}, run the same command again to resume\n",
               sigabbrev_np(stop_signal), directory);
  }
  return kPreempted;
}

}  // namespace

namespace {

// Limits the memory of the tensors that this thread makes while it lives, for runs of the model on the examples.
graph::RunBudget memory_budget(const Arguments& arguments, const keras::Model& model, const Examples& data) {
  graph::RunLimits limits = graph::RunLimits::none();
  // Where the machine has less, an error instead of a process that the system ends.
  std::int64_t allowed =
      std::min(graph::default_memory(held_bytes(arguments, model, data.x.flatten())), collectives::available_memory());
  if (!has_weights(arguments)) allowed -= static_cast<std::int64_t>(sizeof(float)) * model.count_params();
  limits.max_memory = max_memory_of(arguments).value_or(std::max(allowed, std::int64_t{1}));
  return graph::RunBudget(limits, 0);
}

keras::Model trained_model(const Arguments& arguments) {
  return load_trainable(arguments.text("MODEL"), true, max_memory_of(arguments).value_or(kMaxNewWeights));
}

}  // namespace

int fit(const Arguments& arguments) {
  const Targets targets = targets_of(arguments);
  require_directory(arguments);
  const int epochs = static_cast<int>(arguments.integer("--epochs"));
  if (const auto seed = arguments.maybe_integer("--seed")) random::set_random_seed(*seed);
  if (is_parameter_server(arguments)) {
    if (arguments.has("--checkpoint-dir")) preemption_by_signals();  // the chief ends the job when it has saved
    run_parameter_server(arguments);
    return 0;
  }
  const auto strategy = strategy_of(arguments);
  require_training_task(*strategy);
  auto scope = strategy->scope();
  TimeLimit time(arguments);
  const keras::Model model = trained_model(arguments);
  apply_weights(model, arguments);
  apply_compile_overrides(model, arguments);
  if (!model.compiled()) {
    throw_failed_precondition(fmt::format(
        "{} is not compiled: give --optimizer and --loss, or compile it before saving", arguments.text("MODEL")));
  }
  const auto directory = arguments.maybe("--checkpoint-dir");
  if (arguments.has("--dry-run")) {
    print_plan(model, *directory, *strategy, arguments);
    return 0;
  }
  const auto rescale = rescale_of(arguments);
  const Examples data = read_examples(arguments.text("--data"), model, false, rescale);
  require_same_job(*strategy, arguments, model, data);
  keras::FitOptions options;
  options.batch_size = arguments.integer("--batch-size");
  options.epochs = epochs;
  options.verbose = verbosity(arguments);
  options.shuffle = !arguments.has("--no-shuffle");
  if (const auto weights = arguments.maybe("--class-weight"))
    options.class_weight = parse_class_weights("--class-weight", *weights);
  options.sample_weight = data.sample_weight;
  if (const auto split = arguments.maybe("--validation-split"))
    options.validation_split = parse_fraction("--validation-split", *split);
  options.steps_per_epoch = arguments.maybe_integer("--steps-per-epoch");
  options.validation_steps = arguments.maybe_integer("--validation-steps");
  options.validation_batch_size = arguments.maybe_integer("--validation-batch-size");
  options.validation_freq = static_cast<int>(arguments.integer("--validation-freq"));
  if (const auto validation = arguments.maybe("--validation-data")) {
    const Examples held = read_examples(*validation, model, true, rescale);
    options.validation_data = keras::ValidationArrays{held.x, held.y, held.sample_weight};
  }
  create_target_directories(targets, arguments);
  if (directory) {
    options.callbacks.push_back(checkpoints(model, *directory, *strategy, arguments));
    options.preemption = preemption_by_signals();
  }
  const graph::RunBudget budget = memory_budget(arguments, model, data);
  keras::History history;
  if (epochs > 0) {
    // Real training stays far below this. An epoch may repeat the rows, and validates other ones.
    std::vector<Tensor> inputs = data.x.flatten();
    if (const auto* held = options.validation_data.arrays())
      std::ranges::copy(held->x.flatten(), std::back_inserter(inputs));
    const double rows = static_cast<double>(std::max<std::int64_t>(1, inputs[0].dim(0)));
    const auto batch = static_cast<double>(std::max<std::int64_t>(1, options.batch_size.value_or(32)));
    const double steps = std::max(rows / batch, static_cast<double>(options.steps_per_epoch.value_or(0)));
    const double epoch = 1 + 0.01 * steps + 12 * std::max(1.0, steps * batch / rows) * most_seconds(model, inputs);
    time.allow(epochs * epoch);
    history = model.fit(data.x, data.y, options);
  }
  if (directory && model.trainer().preempted()) return report_preempted(arguments, *directory);
  write_targets(*strategy, targets, model, history);
  if (prints_output(arguments)) report_outputs(targets, directory);
  return 0;
}

namespace {

Json json_of(const keras::Results& results) {
  Json out = Json::object();
  for (const auto& [name, value] : results) out[name] = value;
  return out;
}

template <typename Value>
std::string text_of(const Value& value) {
  return value.is_vector() ? dump_json(value) : python_float(value);
}

void print_evaluated(const std::string& path, const keras::Results& results, bool json) {
  if (json) {
    Json out = json_of(results);
    out["checkpoint"] = path;
    fmt::print("{}\n", dump_json(out));
  } else {
    std::string line = path;
    for (const auto& [name, value] : results) line += fmt::format(" - {}: {}", name, text_of(value));
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

// tf-keras's SidecarEvaluator: evaluates the newest checkpoint whenever it changes. A checkpoint that is removed while
// it is read was too old.
void evaluate_checkpoints(const keras::Model& model, const std::string& directory, const Arguments& arguments,
                          const std::function<keras::Results()>& evaluated) {
  constexpr std::chrono::milliseconds kPoll{200};
  constexpr int kMostFailures = 25;
  const auto most = arguments.maybe_integer("--evaluations");
  const train::Checkpoint checkpoint({{"model", model}});
  std::string last;
  int failures = 0;
  for (std::int64_t done = 0; !most || done < *most;) {
    const auto latest = train::latest_checkpoint(directory);
    if (!latest || *latest == last) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    try {
      checkpoint.restore(*latest).expect_partial();
    } catch (const Error& error) {
      if ((error.code() != Code::kNotFound && error.code() != Code::kDataLoss) || ++failures == kMostFailures) throw;
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    failures = 0;
    last = *latest;
    print_evaluated(last, evaluated(), arguments.has("--json"));
    ++done;
  }
}

}  // namespace

int evaluate(const Arguments& arguments) {
  if (arguments.has("--evaluations") && !arguments.has("--checkpoint-dir"))
    throw_usage("--evaluations requires --checkpoint-dir");
  if (arguments.text("--strategy") == "parameter_server")
    throw_usage("evaluate: --strategy parameter_server is for fit; leave it out");
  const auto strategy = strategy_of(arguments);
  auto scope = strategy->scope();
  TimeLimit time(arguments);
  const keras::Model model = trained_model(arguments);
  apply_weights(model, arguments);
  apply_compile_overrides(model, arguments);
  if (!model.compiled()) {
    throw_failed_precondition(fmt::format("{} is not compiled: give --loss (and --metrics)", arguments.text("MODEL")));
  }
  const Examples data = read_examples(arguments.text("--data"), model, true, rescale_of(arguments));
  require_same_job(*strategy, arguments, model, data);
  const auto evaluated = [&] {
    const graph::RunBudget budget = memory_budget(arguments, model, data);
    return model.evaluate(data.x, data.y,
                          {.batch_size = arguments.integer("--batch-size"),
                           .verbose = arguments.has("--json") ? 0 : verbosity(arguments),
                           .sample_weight = data.sample_weight});
  };
  const double seconds = 1 + most_seconds(model, data.x.flatten());
  if (const auto directory = arguments.maybe("--checkpoint-dir")) {
    evaluate_checkpoints(model, *directory, arguments, [&] {
      time.restart();
      time.allow(seconds);
      return evaluated();
    });
    return 0;
  }
  time.allow(seconds);
  const keras::Results results = evaluated();
  if (!prints_output(arguments)) return 0;
  if (arguments.has("--json")) {
    fmt::print("{}\n", dump_json(json_of(results)));
  } else {
    for (const auto& [name, value] : results) fmt::print("{}: {}\n", name, text_of(value));
  }
  return 0;
}

}  // namespace lockstep::cli
