#include "lockstep/graph/raise_loops_internal.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "lockstep/ops/attributes_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

// One variable of a loop.
struct Variable {
  int enter = -1, merge = -1, choice = -1, next = -1, exit = -1;  // nodes; `choice` is the Switch; -1: no Exit
};

struct Frame {
  std::vector<Variable> variables;
  std::vector<int> constants;  // Enter nodes of values that no iteration changes
  int test = -1;               // the LoopCond
  std::set<int> of_test, of_body;
  int raised = -1;  // the While node in the new graph
};

DType type_of(const Node& node) {
  const auto* type = ops::find_attribute<DType>(node.attrs, "T");
  return type ? *type : DType::kInvalid;
}

// Thrown within this file for a frame of another form.
struct OtherForm {};

class Raiser {
 public:
  Raiser(const Graph& graph, const std::vector<Output>& feeds) : graph_(graph), fed_(graph.nodes().size(), 0) {
    for (const Output& feed : feeds) fed_[static_cast<std::size_t>(feed.node)] = 1;
    users_.resize(graph.nodes().size());
    for (int id = 0; id < graph.size(); ++id) {
      for (const Output& input : graph.node(id).inputs) users_[static_cast<std::size_t>(input.node)].push_back(id);
    }
  }

  RaisedGraph run(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                  const std::vector<int>& targets) {
    std::vector<int> stack = targets;
    for (const Output& fetch : fetches) stack.push_back(fetch.node);
    needed_.assign(graph_.nodes().size(), 0);
    for (const Output& feed : feeds) needed_[static_cast<std::size_t>(feed.node)] = 1;
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      if (graph_.node(id).op == "Exit") {
        Frame& frame = frame_of_exit(id);
        for (const int enter : enters(frame)) follow(enter, stack);
        continue;
      }
      if (is_structure(graph_.node(id).op)) throw OtherForm();
      if (needed_[static_cast<std::size_t>(id)] && !fed_[static_cast<std::size_t>(id)]) continue;
      needed_[static_cast<std::size_t>(id)] = 1;
      if (!fed_[static_cast<std::size_t>(id)]) follow(id, stack);
    }
    return build(feeds, fetches, targets);
  }

 private:
  static bool is_structure(const std::string& op) {
    return op == "Enter" || op == "Exit" || op == "NextIteration" || op == "LoopCond" || op.starts_with("Ref");
  }

  void follow(int id, std::vector<int>& stack) {
    if (!followed_.insert(id).second) return;
    for (const Output& input : graph_.node(id).inputs) stack.push_back(input.node);
    stack.insert(stack.end(), graph_.node(id).control_inputs.begin(), graph_.node(id).control_inputs.end());
  }

  static std::vector<int> enters(const Frame& frame) {
    std::vector<int> all;
    for (const Variable& variable : frame.variables) all.push_back(variable.enter);
    all.insert(all.end(), frame.constants.begin(), frame.constants.end());
    return all;
  }

  static void require(bool condition) {
    if (!condition) throw OtherForm();
  }
  static int place_of(const std::map<int, int>& places, int id) {
    const auto found = places.find(id);
    require(found != places.end());
    return found->second;
  }
  const Output& input(int id, std::size_t i) const {
    const std::vector<Output>& inputs = graph_.node(id).inputs;
    require(i < inputs.size());
    return inputs[i];
  }
  const Node& input_of(int id, std::size_t i) const { return graph_.node(input(id, i).node); }

  Frame& frame_of_exit(int id) {
    require(graph_.node(id).inputs.size() == 1 && input_of(id, 0).op == "Switch");
    const int choice = input(id, 0).node;
    require(graph_.node(choice).inputs.size() == 2 && input_of(choice, 0).op == "Merge");
    const Node& merge = input_of(choice, 0);
    require(merge.inputs.size() == 2);
    const int enter = graph_.node(merge.inputs[0].node).op == "Enter" ? merge.inputs[0].node : merge.inputs[1].node;
    require(graph_.node(enter).op == "Enter");
    const auto* name = ops::find_attribute<std::string>(graph_.node(enter).attrs, "frame_name");
    require(name != nullptr);
    const auto [found, fresh] = frames_.try_emplace(*name);
    if (fresh) fill(found->second, *name);
    return found->second;
  }

  void fill(Frame& frame, const std::string& name) {
    for (int id = 0; id < graph_.size(); ++id) {
      const auto* frame_name = ops::find_attribute<std::string>(graph_.node(id).attrs, "frame_name");
      if (!frame_name || *frame_name != name) continue;
      const std::string& op = graph_.node(id).op;
      const auto* constant = ops::find_attribute<bool>(graph_.node(id).attrs, "is_constant");
      const bool is_constant = constant && *constant;
      require((op == "Enter" || (op == "RefEnter" && is_constant)) && graph_.node(id).inputs.size() == 1);
      if (is_constant)
        frame.constants.push_back(id);
      else
        frame.variables.push_back(variable_of(id, frame));
    }
    require(frame.test >= 0);
    collect(frame, {input(frame.test, 0)}, true, frame.of_test);
    std::vector<Output> results;
    for (const Variable& variable : frame.variables) results.push_back(input(variable.next, 0));
    for (const Variable& variable : frame.variables) {
      for (const int control : graph_.node(variable.next).control_inputs) results.push_back({control, -1});
    }
    collect(frame, results, false, frame.of_body);
    for (const int id : frame.of_test) {
      const ops::Op* op = ops::Table::instance().find(graph_.node(id).op);
      require(!frame.of_body.contains(id) || (op && !op->signature->stateful));
    }
  }

  Variable variable_of(int enter, Frame& frame) {
    Variable found;
    found.enter = enter;
    const auto& users = users_[static_cast<std::size_t>(enter)];
    require(users.size() == 1);
    found.merge = users[0];
    const Node& merge = graph_.node(found.merge);
    require(merge.op == "Merge" && merge.inputs.size() == 2);
    found.next = merge.inputs[merge.inputs[0].node == enter ? 1 : 0].node;
    require(graph_.node(found.next).op == "NextIteration" && graph_.node(found.next).inputs.size() == 1);
    for (const int user : users_[static_cast<std::size_t>(found.merge)]) {
      if (graph_.node(user).op != "Switch" || input_of(user, 1).op != "LoopCond") continue;
      require(found.choice < 0 && input(user, 0) == Output{found.merge, 0});
      found.choice = user;
    }
    require(found.choice >= 0);
    const int test = input(found.choice, 1).node;
    require(frame.test < 0 || frame.test == test);
    frame.test = test;
    for (const int user : users_[static_cast<std::size_t>(found.choice)]) {
      if (graph_.node(user).op != "Exit") continue;
      require(found.exit < 0 && input(user, 0).output == 0);
      found.exit = user;
    }
    return found;
  }

  // The place of a source of values among the arguments of the test or the body: variables, then constants. -1 for a
  // node that computes. Throws for a node of the frame whose value is not there.
  int argument_of(const Frame& frame, const Output& source, bool test) const {
    for (std::size_t i = 0; i < frame.variables.size(); ++i) {
      const Variable& variable = frame.variables[i];
      if (source.node == (test ? variable.merge : variable.choice)) {
        require(source.output == (test ? 0 : 1));
        return static_cast<int>(i);
      }
      require(source.node != variable.merge && source.node != variable.choice && source.node != variable.next &&
              source.node != variable.enter && source.node != variable.exit);
    }
    require(source.node != frame.test);
    const auto constant = std::find(frame.constants.begin(), frame.constants.end(), source.node);
    if (constant == frame.constants.end()) return -1;
    return static_cast<int>(frame.variables.size() + static_cast<std::size_t>(constant - frame.constants.begin()));
  }

  bool is_part(const Frame& frame, int id) const {
    if (id == frame.test || std::find(frame.constants.begin(), frame.constants.end(), id) != frame.constants.end()) {
      return true;
    }
    return std::ranges::any_of(frame.variables, [id](const Variable& variable) {
      return id == variable.enter || id == variable.merge || id == variable.choice || id == variable.next ||
             id == variable.exit;
    });
  }

  // The nodes that compute `results` from the arguments. An output of -1 stands for a control input.
  void collect(const Frame& frame, const std::vector<Output>& results, bool test, std::set<int>& nodes) {
    std::vector<Output> stack = results;
    while (!stack.empty()) {
      const Output source = stack.back();
      stack.pop_back();
      // That a part of the frame has run follows from the order of iterations.
      if (source.output < 0 ? is_part(frame, source.node) : argument_of(frame, source, test) >= 0) continue;
      require(!fed_[static_cast<std::size_t>(source.node)] && !graph_.node(source.node).op.starts_with("Placeholder"));
      if (!nodes.insert(source.node).second) continue;
      const Node& node = graph_.node(source.node);
      stack.insert(stack.end(), node.inputs.begin(), node.inputs.end());
      for (const int control : node.control_inputs) stack.push_back({control, -1});
    }
  }

  // The test or the body of a frame as a function.
  void add_function(const Frame& frame, bool test, const std::string& name, RaisedGraph& out) const {
    auto function = std::make_shared<Function>();
    function->name = name;
    std::vector<Output> arguments;
    for (const int enter : enters(frame)) {
      const int index = static_cast<int>(arguments.size());
      Argument argument;
      argument.name = fmt::format("arg_{}", index);
      argument.dtype = type_of(graph_.node(enter));
      Node node;
      node.name = argument.name;
      node.op = "_Arg";
      node.attrs = {{"T", argument.dtype}, {"index", std::int64_t{index}}};
      function->arguments.push_back(std::move(argument));
      arguments.push_back({function->body.add(std::move(node)), 0});
    }
    const std::set<int>& nodes = test ? frame.of_test : frame.of_body;
    std::map<int, int> places;
    int next = function->body.size();
    for (const int id : nodes) places.emplace(id, next++);
    const auto moved = [&](const Output& source) {
      const int argument = argument_of(frame, source, test);
      return argument >= 0 ? arguments[static_cast<std::size_t>(argument)]
                           : Output{place_of(places, source.node), source.output};
    };
    for (const int id : nodes) {
      Node node = graph_.node(id);
      for (Output& input : node.inputs) input = moved(input);
      std::vector<int> controls;
      for (const int control : node.control_inputs) {
        if (places.contains(control)) controls.push_back(place_of(places, control));
      }
      node.control_inputs = std::move(controls);
      node.name = function->body.unique_name(node.name);
      function->body.add(std::move(node));
    }
    std::vector<Output> results;
    if (test) {
      results.push_back(moved(input(frame.test, 0)));
      function->results.push_back({"test", DType::kBool, {}});
    } else {
      for (const Variable& variable : frame.variables) {
        results.push_back(moved(input(variable.next, 0)));
        for (const int control : graph_.node(variable.next).control_inputs) {
          if (places.contains(control)) function->effects.push_back(place_of(places, control));
        }
      }
      results.insert(results.end(), arguments.begin() + static_cast<std::ptrdiff_t>(frame.variables.size()),
                     arguments.end());
      for (std::size_t i = 0; i < results.size(); ++i) {
        function->results.push_back({fmt::format("result_{}", i), function->arguments[i].dtype, {}});
      }
    }
    if (auto inner = raise_loops(function->body, arguments, results, function->effects)) {
      function->body = std::move(inner->graph);
      function->effects = std::move(inner->targets);
      results = std::move(inner->fetches);
      out.functions.insert(out.functions.end(), inner->functions.begin(), inner->functions.end());
    }
    for (std::size_t i = 0; i < results.size(); ++i) function->results[i].value = results[i];
    out.functions.push_back(std::move(function));
  }

  // The needed nodes in their order, then the loops.
  RaisedGraph build(const std::vector<Output>& feeds, const std::vector<Output>& fetches,
                    const std::vector<int>& targets) {
    RaisedGraph out;
    std::map<int, int> places;
    for (int id = 0; id < graph_.size(); ++id) {
      if (needed_[static_cast<std::size_t>(id)]) places.emplace(id, static_cast<int>(places.size()));
    }
    int next = static_cast<int>(places.size());
    std::map<int, Output> exits;
    for (auto& [name, frame] : frames_) {
      frame.raised = next++;
      for (std::size_t i = 0; i < frame.variables.size(); ++i) {
        if (frame.variables[i].exit >= 0) exits[frame.variables[i].exit] = {frame.raised, static_cast<int>(i)};
      }
    }
    const auto moved = [&](const Output& source) {
      if (const auto exit = exits.find(source.node); exit != exits.end()) return exit->second;
      return Output{place_of(places, source.node), source.output};
    };
    const auto connect = [&](Node& node) {
      for (Output& input : node.inputs) input = moved(input);
      for (int& control : node.control_inputs) control = moved({control, 0}).node;
    };
    for (const auto& [id, place] : places) {
      Node node = graph_.node(id);
      if (fed_[static_cast<std::size_t>(id)]) node.inputs.clear(), node.control_inputs.clear();
      connect(node);
      out.graph.add(std::move(node));
    }
    for (const auto& [frame_name, frame] : frames_) {
      Node node;
      node.name = out.graph.unique_name(frame_name);
      node.op = "While";
      std::vector<DType> types;
      for (const int enter : enters(frame)) {
        const Node& source = graph_.node(enter);
        node.inputs.push_back(source.inputs[0]);
        node.control_inputs.insert(node.control_inputs.end(), source.control_inputs.begin(),
                                   source.control_inputs.end());
        types.push_back(type_of(source));
      }
      connect(node);
      const std::string test = node.name + "/test", body = node.name + "/body";
      node.attrs = {{"T", std::move(types)},
                    {"cond", ops::FunctionName{test, nullptr}},
                    {"body", ops::FunctionName{body, nullptr}}};
      add_function(frame, true, test, out);
      add_function(frame, false, body, out);
      out.graph.add(std::move(node));
    }
    for (const Output& feed : feeds) out.feeds.push_back({place_of(places, feed.node), feed.output});
    for (const Output& fetch : fetches) out.fetches.push_back(moved(fetch));
    for (const int target : targets) out.targets.push_back(moved({target, 0}).node);
    return out;
  }

  const Graph& graph_;
  std::vector<char> fed_, needed_;
  std::vector<std::vector<int>> users_;
  std::set<int> followed_;
  std::map<std::string, Frame> frames_;
};

}  // namespace

std::optional<RaisedGraph> raise_loops(const Graph& graph, const std::vector<Output>& feeds,
                                       const std::vector<Output>& fetches, const std::vector<int>& targets) {
  const auto enters = [](const Node& node) { return node.op == "Enter"; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), enters)) return std::nullopt;
  try {
    return Raiser(graph, feeds).run(feeds, fetches, targets);
  } catch (const OtherForm&) {
    return std::nullopt;
  }
}

}  // namespace lockstep::graph
