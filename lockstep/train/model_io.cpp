#include "lockstep/train/model_io_internal.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/keras/optimizers/fields_internal.h"
#include "lockstep/keras/optimizers/optimizers.h"
#include "lockstep/keras/trainer/trainer.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/live_graph_internal.h"
#include "lockstep/train/optimizer_slots_internal.h"
#include "lockstep/train/restoration_internal.h"

namespace lockstep::train {
namespace {

// A layer that is not ours to own, as a handle.
Tracked handle(keras::ModelImpl& model) {
  return Tracked(
      std::static_pointer_cast<keras::Layer>(std::static_pointer_cast<keras::ModelImpl>(model.shared_from_this())));
}

// Names of other programs for the same nodes: a functional graph under both of Keras 3's names, Keras 2's
// numbered layers, and public names of weights.
class Aliases {
 public:
  explicit Aliases(LiveGraph& live) : live_(live) {
    for (std::size_t i = 0; i < live_.nodes.size(); ++i)
      numbers_.emplace(live_.nodes[i]->identity(), static_cast<int>(i));
  }

  void add(keras::ModelImpl& model) {
    const int node = numbers_.at({&model, {}});
    graph_names(model, node);
    if (node != 0) {
      for (const auto& [name, child] : edges(node)) edge(0, name, child);
    }
    for (const auto& each : model.flatten_layers()) {
      const auto layer = numbers_.find({each, {}});
      if (layer == numbers_.end()) continue;
      if (auto* nested = dynamic_cast<keras::ModelImpl*>(each); nested && nested != &model)
        graph_names(*nested, layer->second);
      for (const keras::Weight& weight : each->own_weights()) {
        const auto variable = numbers_.find({weight.variable.get(), {}});
        if (variable == numbers_.end()) continue;
        edge(layer->second, weight.variable->name(), variable->second);
        if (each->class_name().starts_with("Depthwise") && weight.variable->name() == "kernel")
          edge(layer->second, "depthwise_kernel", variable->second);
      }
      lists(*each, layer->second);
    }
  }

  void add(const optimizers::OptimizerPtr& optimizer, bool of_keras2) {
    const auto known = numbers_.find({optimizer.get(), {}});
    if (known == numbers_.end()) return;
    const int node = known->second;
    if (of_keras2 || !needs_positions(*optimizer)) leave_out_positions(node);
    if (of_keras2 && !optimizer->has_fixed_learning_rate() && !optimizer->legacy_rules() &&
        !at(node).child("inner_optimizer"))
      scheduled_rate(node, *optimizer);
    if (const auto list = at(node).child("_momentums")) edge(node, "momentums", *list);  // Lion
    const auto inner = optimizers::inner_optimizer(optimizer);
    if (inner == optimizer) return;
    add(inner, of_keras2);
    if (of_keras2 && !inner->legacy_rules()) join(node, *optimizer);
  }

  // Without nodes that nothing leads to: TensorFlow does not expect any.
  void drop_unreachable() {
    std::vector<int> order{0}, place(live_.graph.nodes.size(), -1);
    place[0] = 0;
    const auto reach = [&](int node) {
      if (place[static_cast<std::size_t>(node)] >= 0) return;
      place[static_cast<std::size_t>(node)] = 0;
      order.push_back(node);
    };
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const auto& [name, child] : at(order[i]).children) reach(child);
      for (const auto& slot : at(order[i]).slots) reach(slot.slot);
    }
    std::sort(order.begin(), order.end());
    LiveGraph kept;
    kept.graph.nodes.clear();
    for (const int node : order) {
      place[static_cast<std::size_t>(node)] = static_cast<int>(kept.graph.nodes.size());
      kept.graph.nodes.push_back(std::move(at(node)));
      if (static_cast<std::size_t>(node) < live_.nodes.size())
        kept.nodes.push_back(live_.nodes[static_cast<std::size_t>(node)]);
    }
    for (auto& node : kept.graph.nodes) {
      for (auto& [name, child] : node.children) child = place[static_cast<std::size_t>(child)];
      for (auto& slot : node.slots) {
        slot.variable = place[static_cast<std::size_t>(slot.variable)];
        slot.slot = place[static_cast<std::size_t>(slot.slot)];
      }
    }
    live_.graph = std::move(kept.graph);
    live_.nodes = std::move(kept.nodes);
  }

 private:
  formats::CheckpointNode& at(int node) { return live_.graph.nodes[static_cast<std::size_t>(node)]; }

  static bool needs_positions(const optimizers::Optimizer& optimizer) {
    const auto kinds = slots_of(optimizer);
    return std::any_of(kinds.begin(), kinds.end(), [](const auto& of_kind) { return !of_kind.kind->in_checkpoints; });
  }

  // Keras 2.11 and later number an optimizer's variables otherwise than Keras 3; both know the lists of slots by their
  // names. Earlier optimizers have their own form, which later ones refuse to read.
  void leave_out_positions(int node) {
    const auto list = at(node).child("_variables");
    if (!list) return;
    std::set<int> named;
    for (const auto& [name, child] : at(node).children) {
      if (name == "_variables" || name == "_trainable_variables") continue;
      named.insert(child);
      for (const auto& [number, item] : at(child).children) named.insert(item);
    }
    const auto& numbered = at(*list).children;
    const bool all =
        std::all_of(numbered.begin(), numbered.end(), [&](const auto& item) { return named.contains(item.second); });
    if (all) std::erase_if(at(node).children, [](const auto& edge) { return edge.first == "_variables"; });
  }

  // What scales losses stands in Keras 2 in the place of the optimizer within it. What both have is written twice,
  // since Keras 3 knows an object under one path only.
  void join(int node, const optimizers::Optimizer& optimizer) {
    const auto within = at(node).child("inner_optimizer");
    if (!within) return;
    const auto children = at(*within).children;
    for (const auto& [name, child] : children) {
      if (name == "_variables" || name == "_trainable_variables") continue;
      std::erase_if(at(node).children, [&, &name = name](const auto& edge) { return edge.first == name; });
      if (at(child).attributes.empty()) {
        live_.graph.add_edge(node, name, child);
      } else {
        const int copy = live_.graph.add_child(node, name);
        at(copy).attributes = at(child).attributes;
      }
    }
    if (optimizer.get_config().value("dynamic_growth_steps", Json()) == Json(optimizers::kFixedScale)) return;
    const int scale = live_.graph.add_child(node, "loss_scale");
    live_.graph.add_edge(scale, "current_loss_scale", numbers_.at({optimizer.dynamic_scale().get(), {}}));
    live_.graph.add_edge(scale, "good_steps", numbers_.at({optimizer.step_counter().get(), {}}));
  }

  // Keras 2.11 and later keep the last value of a schedule in a variable.
  void scheduled_rate(int node, const optimizers::Optimizer& optimizer) {
    const int rate = live_.graph.add_child(node, "_current_learning_rate");
    live_.graph.set_variable(rate, "current_learning_rate");
    live_.graph.assign_keys();
    live_.extra.push_back(
        {at(rate).attributes[0].key, number_variable("current_learning_rate", optimizer.learning_rate())});
  }

  // Layers in lists, such as the cells of StackedRNNCells, whose variables the optimizer's list makes part of the
  // graph.
  void lists(const keras::Layer& layer, int node) {
    for (const auto& [name, tree] : layer.children()) {
      if (name.empty() || tree.is_leaf() || !tree.is_list() || at(node).child(name)) continue;
      int list = -1;
      for (std::size_t i = 0; i < tree.parts().size(); ++i) {
        if (!tree.parts()[i].is_leaf() || !tree.parts()[i].leaf()) continue;
        int item = -1;
        for (const keras::Weight& weight : tree.parts()[i].leaf()->own_weights()) {
          const auto variable = numbers_.find({weight.variable.get(), {}});
          if (variable == numbers_.end()) continue;
          if (list < 0) list = live_.graph.add_child(node, name);
          if (item < 0) item = live_.graph.add_child(list, std::to_string(i));
          edge(item, weight.variable->name(), variable->second);
        }
      }
    }
  }

  void graph_names(keras::ModelImpl& model, int node) {
    if (!model.is_functional() && !model.is_sequential()) return;
    const auto functional = live_.graph.nodes[static_cast<std::size_t>(node)].child("_functional");
    const auto direct = live_.graph.nodes[static_cast<std::size_t>(node)].child("_operations");
    if (functional) {
      const auto operations = live_.graph.nodes[static_cast<std::size_t>(*functional)].child("_operations");
      if (operations) edge(node, "_operations", *operations);
    } else if (direct) {
      edge(live_.graph.add_child(node, "_functional"), "_operations", *direct);
    }
    int with_weights = 0, number = 0;
    for (const auto& layer : model.layers()) {
      const auto known = numbers_.find({layer.get(), {}});
      const std::string name = fmt::format("layer-{}", number++);
      if (known == numbers_.end()) continue;
      if (!layer->weights().empty()) edge(node, fmt::format("layer_with_weights-{}", with_weights++), known->second);
      edge(node, name, known->second);
    }
  }
  std::vector<std::pair<std::string, int>> edges(int node) const {
    return live_.graph.nodes[static_cast<std::size_t>(node)].children;
  }
  void edge(int from, const std::string& name, int to) {
    if (!live_.graph.nodes[static_cast<std::size_t>(from)].child(name)) live_.graph.add_edge(from, name, to);
  }

  LiveGraph& live_;
  std::map<Identity, int> numbers_;
};

// How many of a saved node's edges have names that a live object knows.
std::size_t likeness(const formats::CheckpointNode& saved, const TrackedNode& live) {
  std::set<std::string> names;
  for (const auto& [name, child] : live.edges()) names.insert(name);
  for (const auto& [name, child] : live.aliases(saved)) names.insert(name);
  names.erase("optimizer");
  return static_cast<std::size_t>(std::count_if(saved.children.begin(), saved.children.end(),
                                                [&](const auto& edge) { return names.contains(edge.first); }));
}

bool looks_like_optimizer(const formats::CheckpointNode& node) {
  return (node.child("_iterations") && node.child("_variables")) || (node.child("iter") && !node.slots.empty());
}

using Path = std::vector<std::string>;  // names of edges from the root

struct SavedPaths {
  Path model;  // empty for the root itself
  std::optional<Path> optimizer;
};

// The node that is most similar to the model, and an optimizer: the root or its children, or else those of a
// tf.train.Checkpoint that contains others.
SavedPaths find_saved_paths(const formats::CheckpointGraph& graph, const TrackedNode& model) {
  SavedPaths places;
  std::size_t best = likeness(graph.nodes[0], model);
  std::set<int> seen = {0};
  std::vector<std::pair<Path, int>> level = {{{}, 0}};
  while (!level.empty()) {
    std::vector<std::pair<Path, int>> next;
    for (const auto& [path, parent] : level) {
      for (const auto& [name, child] : graph.nodes[static_cast<std::size_t>(parent)].children) {
        const auto& node = graph.nodes[static_cast<std::size_t>(child)];
        if (node.children.empty() || !seen.insert(child).second) continue;
        Path place = path;
        place.push_back(name);
        if (looks_like_optimizer(node)) {
          if (!places.optimizer) places.optimizer = std::move(place);
          continue;
        }
        const std::size_t score = likeness(node, model);
        if (score > best || (score == best && score > 0 && name == "model")) {
          best = score;
          places.model = place;
        }
        next.emplace_back(std::move(place), child);
      }
    }
    if (best > 0) break;
    level = std::move(next);
  }
  return places;
}

struct Placed {
  Path path;
  Tracked object;
};

// Children that lead to the objects, whose paths are longer than `depth`.
Children leading_to(const std::vector<Placed>& objects, std::size_t depth = 0) {
  Children all;
  std::map<std::string, std::vector<Placed>> deeper;
  for (const Placed& each : objects) {
    if (each.path.size() == depth + 1) {
      all.emplace_back(each.path[depth], each.object);
    } else {
      deeper[each.path[depth]].push_back(each);
    }
  }
  for (const auto& [name, items] : deeper)
    all.emplace_back(name, Tracked(container_node({}, leading_to(items, depth + 1))));
  return all;
}

}  // namespace

void write_model_checkpoint(keras::ModelImpl& model, const std::string& prefix) {
  Children objects{{"model", handle(model)}};
  if (const auto& optimizer = model.trainer().optimizer()) objects.emplace_back("optimizer", optimizer);
  const Checkpoint checkpoint(std::move(objects));
  checkpoint.save_counter()->assign(Tensor::scalar<std::int64_t>(1));
  LiveGraph live = build_live_graph(checkpoint.root().ptr());
  Aliases aliases(live);
  aliases.add(model);
  if (const auto& optimizer = model.trainer().optimizer()) aliases.add(optimizer, model.keras_version() < 3);
  aliases.drop_unreachable();
  write_values(values_of(live), prefix);
}

RestoreReport read_model_checkpoint(keras::ModelImpl& model, const std::string& prefix, Strictness strict) {
  const Tracked tracked = handle(model);
  const auto& optimizer = model.trainer().optimizer();
  const std::string path = saved_model_variables(prefix);
  const auto saved = Restoration::read_graph(path);
  std::vector<Placed> objects;
  SavedPaths places;
  if (saved) {
    places = find_saved_paths(*saved, tracked.node());
    if (optimizer && places.optimizer) {
      if (!optimizer->built() && model.built()) optimizer->build(model.trainable_weights());
      objects.push_back({*places.optimizer, optimizer});
    }
  }
  if (!places.model.empty()) objects.push_back({places.model, tracked});
  const Checkpoint checkpoint =
      places.model.empty() ? Checkpoint(tracked, leading_to(objects)) : Checkpoint(leading_to(objects));

  Restoration restoration(checkpoint.root().ptr(), path, {.change_values = true});
  restoration.match();
  const auto weights = model.weights();
  const auto is_missing = [&](const distribute::VariablePtr& variable) { return !restoration.takes(*variable); };
  const auto missing = static_cast<std::size_t>(std::count_if(weights.begin(), weights.end(), is_missing));
  if (!weights.empty() && missing == weights.size()) {
    const auto report = restoration.report();
    const auto similar = std::find_if(report.missing.begin(), report.missing.end(),
                                      [](const auto& each) { return !each.nearest.empty(); });
    throw_not_found(fmt::format("{}: the checkpoint contains none of the weights of model '{}'{}", prefix, model.name(),
                                similar == report.missing.end() ? std::string()
                                                                : fmt::format("; weight '{}' is similar to its '{}'",
                                                                              similar->variable, similar->nearest)));
  }
  RestoreReport report = restoration.report();
  std::erase(report.unused, "save_counter");
  std::erase_if(report.missing, [](const auto& each) { return each.path == "save_counter"; });
  const auto require = [&](bool complete, const std::string& what) {
    if (!complete) throw_invalid_argument(fmt::format("{}: {} ({})", prefix, what, report.to_string("; ")));
  };
  if (strict >= Strictness::kModel) {
    const auto first = std::find_if(weights.begin(), weights.end(), is_missing);
    require(first == weights.end(), first == weights.end()
                                        ? std::string()
                                        : fmt::format("the checkpoint has no value for weight '{}' of model '{}'",
                                                      (*first)->path(), model.name()));
  }
  if (strict >= Strictness::kOptimizer && optimizer) {
    auto state = optimizer->variables();
    std::erase_if(state, [idle = restoration.idle()](const auto& each) { return idle.contains(each.get()); });
    require(std::none_of(state.begin(), state.end(), is_missing),
            fmt::format("the checkpoint lacks a part of the state of optimizer '{}'", optimizer->name()));
  }
  if (strict == Strictness::kAll)
    require(report.unused.empty(), "the checkpoint has values that the model does not use");
  restoration.commit();
  return report;
}

}  // namespace lockstep::train
