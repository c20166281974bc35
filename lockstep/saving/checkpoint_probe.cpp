// For the judged tests only: models and their optimizers between .keras files and TensorFlow checkpoints.
//   checkpoint_probe save MODEL.keras PREFIX STRATEGY          Checkpoint(model, optimizer).save; prints the path
//   checkpoint_probe root MODEL.keras PREFIX STRATEGY          the same with the model as root
//   checkpoint_probe write MODEL.keras PREFIX STRATEGY         write_model_checkpoint
//   checkpoint_probe restore MODEL.keras PREFIX OUT.keras STRATEGY CHECK   CHECK: consumed, matched, partial
//   checkpoint_probe restore_root, restore_unbuilt             the same with the model as root; with a new optimizer
//   checkpoint_probe read MODEL.keras PREFIX OUT.keras STRATEGY CHECK      read_model_checkpoint
//   checkpoint_probe states MODEL.keras PREFIX OUT             read_model_checkpoint and write_model_checkpoint
//   checkpoint_probe manage DIRECTORY STEPS MAX_TO_KEEP        a manager saves a counter; prints its checkpoints
//   checkpoint_probe resume DIRECTORY                          a manager restores the counter; prints it
//   checkpoint_probe loaded SAVED_MODEL OBJECT FUNCTION PREFIX     prints the children of an object of a SavedModel,
//   its variables and what its function makes of ones (2, 3); adds 1 to its variables and saves Checkpoint({{"model",
//   loaded}})
//   checkpoint_probe together MODEL.keras PREFIX RANKS [async]  ranks as threads save one checkpoint; prints the path
//   checkpoint_probe restore_together MODEL.keras PREFIX OUT.keras RANKS   they restore it; the last one's model is
//   written
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/thread_group_internal.h"
#include "lockstep/distribute/strategy_spec_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/saving/saved_model.h"
#include "lockstep/train/checkpoint_manager.h"
#include "lockstep/train/model_io_internal.h"

namespace {

using namespace lockstep;
using Arguments = std::vector<std::string>;

train::Checkpoint checkpoint_of(const keras::Model& model) {
  if (!model.optimizer()) return train::Checkpoint({{"model", model}});
  return train::Checkpoint(model, model.optimizer());
}

void save(const std::string& command, const Arguments& args) {
  const auto strategy = distribute::parse_strategy(args.at(2));
  const auto scope = strategy->scope();
  const keras::Model model = saving::load_model(args.at(0));
  if (command == "write") {
    train::write_model_checkpoint(model, args.at(1));
    fmt::print("{}\n", args.at(1));
    return;
  }
  const auto checkpoint = command == "root" ? train::Checkpoint(model) : checkpoint_of(model);
  fmt::print("{}\n", checkpoint.save(args.at(1)));
}

void check(const train::LoadStatus& status, const std::string& how) {
  if (how == "consumed") status.assert_consumed();
  if (how == "matched") status.assert_existing_objects_matched().expect_partial();
  if (how == "partial") status.assert_nontrivial_match().expect_partial();
}

void restore(const std::string& command, const Arguments& args) {
  const auto strategy = distribute::parse_strategy(args.at(3));
  const auto scope = strategy->scope();
  const keras::Model model = saving::load_model(args.at(0));
  if (command == "read") {
    const auto strict = args.at(4) == "partial" ? train::Strictness::kNone : train::Strictness::kAll;
    fmt::print("{}\n", train::read_model_checkpoint(model, args.at(1), strict).to_string("; "));
  } else if (command == "restore_root") {
    check(train::Checkpoint(model).restore(args.at(1)), args.at(4));
  } else if (command == "restore_unbuilt") {
    const auto optimizer = optimizers::deserialize(optimizers::serialize(model.optimizer()));
    model.trainer().set_optimizer(optimizer);
    check(train::Checkpoint(model, optimizer).restore(args.at(1)), args.at(4));
  } else {
    check(checkpoint_of(model).restore(args.at(1)), args.at(4));
  }
  saving::save_model(model, args.at(2));
}

void states(const std::string&, const Arguments& args) {
  const keras::Model model = saving::load_model(args.at(0));
  const auto report = train::read_model_checkpoint(model, args.at(1), train::Strictness::kAll);
  fmt::print("{}\n", report.to_string("; "));
  train::write_model_checkpoint(model, args.at(2));
}

std::vector<keras::Model> models_of(const std::string& path, int ranks) {
  std::vector<keras::Model> models;
  for (int rank = 0; rank < ranks; ++rank) models.push_back(saving::load_model(path));
  return models;
}

void together(const std::string&, const Arguments& args) {
  const int ranks = std::atoi(args.at(2).c_str());
  const auto models = models_of(args.at(0), ranks);
  std::string path;
  collectives::run_ranks(ranks, [&](collectives::Communicator& group) {
    train::CheckpointOptions options{.metadata = {{"rank", group.rank()}}};
    options.workers = collectives::CommunicatorPtr(collectives::CommunicatorPtr(), &group);
    options.enable_async = args.size() > 3;
    const auto checkpoint = checkpoint_of(models[static_cast<std::size_t>(group.rank())]);
    const std::string mine = checkpoint.save(args.at(1), options);
    checkpoint.wait();
    if (group.rank() == 0) path = mine;
  });
  fmt::print("{}\n", path);
}

void restore_together(const std::string&, const Arguments& args) {
  const int ranks = std::atoi(args.at(3).c_str());
  const auto models = models_of(args.at(0), ranks);
  collectives::run_ranks(ranks, [&](collectives::Communicator& group) {
    train::CheckpointOptions options;
    options.workers = collectives::CommunicatorPtr(collectives::CommunicatorPtr(), &group);
    checkpoint_of(models[static_cast<std::size_t>(group.rank())]).restore(args.at(1), options).assert_consumed();
  });
  saving::save_model(models.back(), args.at(2));
}

distribute::VariablePtr counter() {
  return distribute::Variable::create(Tensor::scalar<std::int64_t>(0), {.name = "step"});
}

void manage(const std::string&, const Arguments& args) {
  const auto step = counter();
  train::CheckpointManager manager(train::Checkpoint({{"step", step}}), args.at(0),
                                   {.max_to_keep = std::atoll(args.at(2).c_str())});
  manager.restore_or_initialize();
  for (int i = 0; i < std::atoi(args.at(1).c_str()); ++i) {
    step->assign_add(Tensor::scalar<std::int64_t>(1));
    manager.save();
  }
  for (const auto& path : manager.checkpoints()) fmt::print("{}\n", path);
}

void loaded(const std::string&, const Arguments& args) {
  const saved_model::LoadedModel model = saved_model::load(args.at(0));
  const saved_model::LoadedModel object = model.child(args.at(1));
  fmt::print("{}\n", fmt::join(object.child_names(), " "));
  const Tensor ones = Tensor::full(Shape{2, 3}, 1);
  fmt::print("{}\n", fmt::join(object.call(args.at(2), {ones}).leaf().to_vector<float>(), " "));
  for (const auto& variable : object.variables()) {
    fmt::print("{} {} {}\n", variable->path(), variable->trainable(),
               fmt::join(variable->numpy().to_vector<float>(), " "));
    variable->assign_add(Tensor::full(variable->shape(), 1));
  }
  const train::Checkpoint checkpoint({{"model", model}});
  fmt::print("{}\n", checkpoint.save(args.at(3)));
  for (const auto& variable : object.variables()) variable->assign(Tensor::zeros(variable->shape()));
  checkpoint.restore(args.at(3) + "-1").assert_consumed();
  for (const auto& variable : object.variables())
    fmt::print("{}\n", fmt::join(variable->numpy().to_vector<float>(), " "));
  fmt::print("{}\n", model.has_child(args.at(1) + "/absent"));
}

void resume(const std::string&, const Arguments& args) {
  const auto step = counter();
  train::CheckpointManager manager(train::Checkpoint({{"step", step}}), args.at(0), {});
  fmt::print("{}\n", manager.restore_or_initialize().value_or("none"));
  fmt::print("{}\n", step->numpy().item<std::int64_t>());
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)(const std::string&, const Arguments&)> commands{
      {"save", save},
      {"root", save},
      {"write", save},
      {"restore", restore},
      {"restore_root", restore},
      {"restore_unbuilt", restore},
      {"read", restore},
      {"states", states},
      {"manage", manage},
      {"resume", resume},
      {"loaded", loaded},
      {"together", together},
      {"restore_together", restore_together}};
  const auto command = argc > 1 ? commands.find(argv[1]) : commands.end();
  if (command == commands.end()) return 2;
  try {
    command->second(command->first, Arguments(argv + 2, argv + argc));
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", code_name(error.code()), error.message());
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}
