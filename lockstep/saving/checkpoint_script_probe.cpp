// For the judged tests only: runs the actions of tests/judged/checkpoint_scripts.py, which runs them with TensorFlow
// too.
//   checkpoint_script_probe SCRIPT.json      a list of scripts, each a list of actions; prints the list of their
//   results
// An action is an object: "do" is what is done, "as" the name of what it makes, the other members its arguments.
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/data/dataset.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/lookup_tables.h"
#include "lockstep/random/generator.h"
#include "lockstep/saving/keras_saving.h"
#include "lockstep/train/checkpoint_manager.h"
#include "lockstep/train/saver.h"

namespace {

using namespace lockstep;

// tf.Module with attributes of all kinds.
struct Holder final : train::Trackable {
  train::Children children;
  train::Children checkpoint_children() const override { return children; }
  using Trackable::restore_new_children;
};

struct Objects {
  std::map<std::string, Variable> variables;
  std::map<std::string, std::shared_ptr<Holder>> modules;
  std::map<std::string, keras::Model> models;
  std::map<std::string, optimizers::OptimizerPtr> optimizers;
  std::map<std::string, train::Checkpoint> checkpoints;
  std::map<std::string, lookup::MutableHashTable> tables;
  std::map<std::string, data::DatasetInputIterator> iterators;
  std::map<std::string, train::Saver> savers;
  std::map<std::string, train::LoadStatus> statuses;
  std::map<std::string, std::unique_ptr<train::CheckpointManager>> managers;
};

Tensor tensor_of(const Json& action) {
  const DType dtype = parse_dtype(action.at("dtype").text()).value();
  const Shape shape(action.at("shape").get<std::vector<std::int64_t>>());
  if (dtype == DType::kString) return Tensor::strings(action.at("value").get<std::vector<std::string>>(), shape);
  return ops::cast(Tensor::from_vector(action.at("value").get<std::vector<double>>(), shape), dtype);
}

Json value_of(const Variable& variable) {
  const Tensor value = variable.numpy();
  if (value.dtype() == DType::kString) return Json(value.to_vector<std::string>());
  return Json(ops::cast(value, DType::kFloat64).to_vector<double>());
}

// Names in strings, lists in arrays, dicts in objects.
train::Tracked tracked(const Objects& objects, const Json& tree) {
  if (tree.is_array()) {
    std::vector<train::Tracked> items;
    for (const Json& item : tree) items.push_back(tracked(objects, item));
    return items;
  }
  if (tree.is_object()) {
    std::map<std::string, train::Tracked> items;
    for (const auto& [name, item] : tree.items()) items.emplace(name, tracked(objects, item));
    return items;
  }
  const std::string& name = tree.text();
  if (const auto it = objects.variables.find(name); it != objects.variables.end()) return train::Tracked(it->second);
  if (const auto it = objects.modules.find(name); it != objects.modules.end()) return train::Tracked(it->second);
  if (const auto it = objects.tables.find(name); it != objects.tables.end()) return train::Tracked(it->second);
  if (const auto it = objects.iterators.find(name); it != objects.iterators.end()) return train::Tracked(it->second);
  if (const auto it = objects.models.find(name); it != objects.models.end()) return train::Tracked(it->second);
  if (const auto it = objects.checkpoints.find(name); it != objects.checkpoints.end()) return it->second;
  return train::Tracked(objects.optimizers.at(name));
}

train::Children children_of(const Objects& objects, const Json& members) {
  train::Children children;
  for (const auto& [name, tree] : members.items()) children.emplace_back(name, tracked(objects, tree));
  return children;
}

Json maybe(const std::optional<std::string>& text) { return text ? Json(*text) : Json(); }

void check(const train::LoadStatus& status, const std::string& how) {
  if (how == "assert_consumed") status.assert_consumed();
  if (how == "assert_existing_objects_matched") status.assert_existing_objects_matched();
  if (how == "assert_nontrivial_match") status.assert_nontrivial_match();
}

train::CheckpointOptions options_of(const Json& save) {
  train::CheckpointOptions options;
  const auto size = save.value("size", std::int64_t{0});
  if (size > 0) options.experimental_sharding_callback = train::experimental::MaxShardSizePolicy(size);
  return options;
}

Json make_manager(Objects& objects, const Json& action) {
  train::CheckpointManagerOptions options;
  if (action.contains("max_to_keep")) options.max_to_keep = action.at("max_to_keep").get<std::int64_t>();
  if (action.contains("hours")) options.keep_checkpoint_every_n_hours = action.at("hours").get<double>();
  if (action.contains("interval")) options.checkpoint_interval = action.at("interval").get<std::int64_t>();
  if (action.contains("step")) options.step_counter = objects.variables.at(action.at("step").text());
  options.checkpoint_name = action.value("checkpoint_name", "ckpt");
  if (action.contains("init")) {
    const Variable variable = objects.variables.at(action.at("init").text());
    options.init_fn = [variable] { variable.assign_add(Tensor::full(variable.shape(), 1, variable.dtype())); };
  }
  objects.managers[action.at("as").text()] = std::make_unique<train::CheckpointManager>(
      objects.checkpoints.at(action.at("checkpoint").text()), action.at("directory").text(), options);
  return nullptr;
}

using Action = std::function<Json(Objects&, const Json&)>;

const std::map<std::string, Action>& actions() {
  static const std::map<std::string, Action> table = {
      {"variable",
       [](Objects& objects, const Json& a) -> Json {
         objects.variables[a.at("as").text()] = Variable(tensor_of(a), {.name = a.at("name").text()});
         return nullptr;
       }},
      {"module",
       [](Objects& objects, const Json& a) -> Json {
         auto holder = std::make_shared<Holder>();
         holder->children = children_of(objects, a.at("members"));
         objects.modules[a.at("as").text()] = holder;
         return nullptr;
       }},
      {"attach",
       [](Objects& objects, const Json& a) -> Json {
         const auto holder = objects.modules.at(a.at("to").text());
         for (auto& child : children_of(objects, a.at("members"))) holder->children.push_back(std::move(child));
         holder->restore_new_children();
         return nullptr;
       }},
      {"model",
       [](Objects& objects, const Json& a) -> Json {
         const keras::Model model = saving::load_model(a.at("path").text());
         objects.models.insert_or_assign(a.at("as").text(), model);
         if (model.optimizer()) objects.optimizers[a.at("as").text() + ".optimizer"] = model.optimizer();
         return nullptr;
       }},
      {"save_model",
       [](Objects& objects, const Json& a) -> Json {
         saving::save_model(objects.models.at(a.at("model").text()), a.at("path").text());
         return nullptr;
       }},
      {"checkpoint",
       [](Objects& objects, const Json& a) -> Json {
         train::Children children = children_of(objects, a.at("members"));
         if (a.contains("root")) {
           objects.checkpoints.insert_or_assign(a.at("as").text(),
                                                train::Checkpoint(tracked(objects, a.at("root")), std::move(children)));
         } else {
           objects.checkpoints.insert_or_assign(a.at("as").text(), train::Checkpoint(std::move(children)));
         }
         return nullptr;
       }},
      {"save",
       [](Objects& objects, const Json& a) -> Json {
         train::CheckpointOptions options = options_of(a);
         options.enable_async = a.value("async", false);
         const auto& checkpoint = objects.checkpoints.at(a.at("checkpoint").text());
         const std::string path = checkpoint.save(a.at("path").text(), options);
         checkpoint.wait();
         return path;
       }},
      {"write",
       [](Objects& objects, const Json& a) -> Json {
         return objects.checkpoints.at(a.at("checkpoint").text()).write(a.at("path").text(), options_of(a));
       }},
      {"table",
       [](Objects& objects, const Json& a) -> Json {
         lookup::MutableHashTable table(DType::kString, parse_dtype(a.at("dtype").text()).value(), -1);
         objects.tables.insert_or_assign(a.at("as").text(), table);
         return nullptr;
       }},
      {"insert",
       [](Objects& objects, const Json& a) -> Json {
         const auto keys = a.at("keys").get<std::vector<std::string>>();
         const Shape shape{static_cast<std::int64_t>(keys.size())};
         objects.tables.at(a.at("to").text())
             .insert(Tensor::strings(keys, shape),
                     Tensor::from_vector(a.at("values").get<std::vector<std::int64_t>>(), shape));
         return nullptr;
       }},
      {"entries",
       [](Objects& objects, const Json& a) -> Json {
         const auto [keys, rows] = objects.tables.at(a.at("of").text()).export_all();
         const auto names = keys.to_vector<std::string>();
         const auto values = ops::cast(rows, DType::kInt64).to_vector<std::int64_t>();
         std::map<std::string, std::int64_t> sorted;
         for (std::size_t i = 0; i < names.size(); ++i) sorted.emplace(names[i], values[i]);
         Json all = Json::array();
         for (const auto& [key, value] : sorted) all.push_back(Json::array({key, value}));
         return all;
       }},
      {"iterator",  // shuffled, and with a random operation that has a state
       [](Objects& objects, const Json& a) -> Json {
         const auto noisy = [](const Tensor& x) {
           return ops::cast(x, DType::kFloat32) + ops::random::uniform({}, {.seed = 5});
         };
         const auto dataset = data::Dataset::range(a.at("size").get<std::int64_t>()).shuffle(8, 3).map(noisy);
         objects.iterators.insert_or_assign(a.at("as").text(), dataset.begin());
         return nullptr;
       }},
      {"next",
       [](Objects& objects, const Json& a) -> Json {
         return next(objects.iterators.at(a.at("of").text())).leaf().item<float>();
       }},
      {"saver",
       [](Objects& objects, const Json& a) -> Json {
         std::map<std::string, distribute::VariablePtr> variables;
         for (const auto& [name, each] : a.at("members").items())
           variables.emplace(name, objects.variables.at(each.text()));
         objects.savers.insert_or_assign(a.at("as").text(), train::Saver(variables));
         return nullptr;
       }},
      {"saver_save",
       [](Objects& objects, const Json& a) -> Json {
         return objects.savers.at(a.at("saver").text()).save(a.at("path").text());
       }},
      {"saver_restore",
       [](Objects& objects, const Json& a) -> Json {
         objects.savers.at(a.at("saver").text()).restore(a.at("path").text());
         return nullptr;
       }},
      {"restore",
       [](Objects& objects, const Json& a) -> Json {
         const auto& checkpoint = objects.checkpoints.at(a.at("checkpoint").text());
         train::CheckpointOptions options;
         options.experimental_skip_slot_variables = a.value("skip_slots", false);
         std::optional<std::string> path;
         if (!a.at("path").is_null()) path = a.at("path").text();
         const auto status =
             a.value("read", false) ? checkpoint.read(*path, options) : checkpoint.restore(path, options);
         objects.statuses.insert_or_assign(a.at("as").text(), status);
         return nullptr;
       }},
      {"assert",
       [](Objects& objects, const Json& a) -> Json {
         check(objects.statuses.at(a.at("status").text()), a.at("how").text());
         return nullptr;
       }},
      {"assign",
       [](Objects& objects, const Json& a) -> Json {
         objects.variables.at(a.at("to").text()).assign(tensor_of(a));
         return nullptr;
       }},
      {"value",
       [](Objects& objects, const Json& a) -> Json { return value_of(objects.variables.at(a.at("of").text())); }},
      {"counter",
       [](Objects& objects, const Json& a) -> Json {
         return value_of(objects.checkpoints.at(a.at("of").text()).save_counter());
       }},
      {"list",
       [](Objects&, const Json& a) -> Json {
         Json all = Json::array();
         for (const auto& [name, shape] : train::list_variables(a.at("path").text()))
           all.push_back(Json::array({name, shape.to_string()}));
         return all;
       }},
      {"latest", [](Objects&, const Json& a) -> Json { return maybe(train::latest_checkpoint(a.at("path").text())); }},
      {"manager", make_manager},
      {"manager_save",
       [](Objects& objects, const Json& a) -> Json {
         std::optional<std::int64_t> number;
         if (a.contains("number")) number = a.at("number").get<std::int64_t>();
         return maybe(objects.managers.at(a.at("manager").text())->save(number, a.value("check_interval", true)));
       }},
      {"manager_restore",
       [](Objects& objects, const Json& a) -> Json {
         return maybe(objects.managers.at(a.at("manager").text())->restore_or_initialize());
       }},
      {"manager_list",
       [](Objects& objects, const Json& a) -> Json {
         const auto& manager = *objects.managers.at(a.at("manager").text());
         return Json::array({Json(manager.checkpoints()), maybe(manager.latest_checkpoint())});
       }},
  };
  return table;
}

Json run(const Json& script) {
  Objects objects;
  Json results = Json::array();
  for (const Json& action : script) {
    try {
      results.push_back(actions().at(action.at("do").text())(objects, action));
    } catch (const Error& error) {
      results.push_back(Json::object({{"error", std::string(code_name(error.code()))}, {"text", error.message()}}));
    } catch (const std::out_of_range& error) {  // of an object that an earlier action failed to make
      results.push_back(Json::object({{"error", "KeyError"}, {"text", error.what()}}));
    }
  }
  return results;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    std::ifstream file(argv[1]);
    std::stringstream text;
    text << file.rdbuf();
    Json all = Json::array();
    for (const Json& script : parse_json(text.str(), argv[1])) all.push_back(run(script));
    fmt::print("{}\n", all.dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
  }
  return 1;
}
