// Running graphs with Switch, Merge, Enter, Exit and NextIteration: tokens that wait for each other.
//
// A token is a value (or a control signal) at one input of a node, in one iteration of one frame. A node
// runs once all its inputs have tokens, a Merge with the first. A branch that is not taken gets no tokens,
// so nothing in it runs: this equals TensorFlow's "dead" tensors for every graph whose fetches are alive. A
// ControlTrigger runs although its inputs are in such a branch: when nothing else can.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/graph/plan_internal.h"

namespace lockstep::graph {

class Dataflow {
 public:
  Dataflow(const Plan& plan, RunContext& context) : plan_(plan), context_(context) {
    users_.resize(plan.steps_.size());
    for (int id = 0; id < plan.graph_.size(); ++id) {
      const Step& step = plan.steps_[static_cast<std::size_t>(id)];
      if (!step.node) continue;
      for (std::size_t i = 0; i < step.node->inputs.size(); ++i) {
        users_[static_cast<std::size_t>(step.node->inputs[i].node)].push_back(
            {id, static_cast<int>(i), step.node->inputs[i].output});
      }
      for (int control : step.node->control_inputs) users_[static_cast<std::size_t>(control)].push_back({id, -1, -1});
      if (step.node->op == "Enter" || step.node->op == "RefEnter") ++enters_[step.attr<std::string>("frame_name")];
    }
    find_triggers();
  }

  Tensors run(const Tensors& feeds) {
    root_.iterations[0];
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      fed_outputs_[plan_.feeds_[i].node].emplace_back(plan_.feeds_[i].output, feeds[i]);
    }
    for (int id = 0; id < plan_.graph_.size(); ++id) {
      if (!plan_.needed_[static_cast<std::size_t>(id)]) continue;
      if (plan_.fed_[static_cast<std::size_t>(id)]) {
        emit_feed(id);
      } else if (const Node& node = plan_.graph_.node(id); node.inputs.empty() && node.control_inputs.empty()) {
        ready_.push_back({id, &root_, 0, {}, 0});
      }
    }
    while (!ready_.empty() || release_merge() || release_trigger()) {
      Ready item = std::move(ready_.front());
      ready_.pop_front();
      fire_named(item);
    }
    Tensors results;
    for (const Output& fetch : plan_.fetches_) {
      const auto value = results_.find({fetch.node, fetch.output});
      if (value == results_.end()) {
        throw_invalid_argument(fmt::format("{}: '{}:{}' has no value: it is in a branch that was not taken",
                                           plan_.what_, plan_.graph_.node(fetch.node).name, fetch.output));
      }
      results.push_back(value->second);
    }
    return results;
  }

 private:
  struct User {
    int node;
    int input;   // -1: control
    int output;  // of the source; -1: control
  };
  struct Waiting {
    Tensors inputs;
    int missing = 0;        // inputs and controls still to come
    int first = -1;         // for Merge: the input that came
    bool held = false;      // a Merge with an input that waits for controls
    bool released = false;  // it ran without them
  };
  struct Iteration {
    std::unordered_map<int, Waiting> waiting;
    int pending = 0;  // ready items and live child frames
  };
  struct Frame {
    Frame* parent = nullptr;
    int parent_iteration = 0;
    std::map<int, Iteration> iterations;
    int latest = 0;
    int enters_to_come = 0;
    std::vector<std::pair<int, Tensor>> invariants;  // Enter node, value
    std::vector<int> triggers;
  };
  struct Ready {
    int node;
    Frame* frame;
    int iteration;
    Tensors inputs;
    int merged;
  };

  struct Held {
    int node;
    Frame* frame;
    int iteration;
  };

  void emit_feed(int id) {
    for (const User& user : users_[static_cast<std::size_t>(id)]) {
      if (user.input < 0) deliver(user, Tensor(), root_, 0);
    }
    for (const auto& [output, value] : fed_outputs_[id]) {
      results_[{id, output}] = value;
      for (const User& user : users_[static_cast<std::size_t>(id)]) {
        if (user.output == output) deliver(user, value, root_, 0);
      }
    }
  }

  void deliver(const User& user, const Tensor& value, Frame& frame, int iteration) {
    const Step& step = plan_.steps_[static_cast<std::size_t>(user.node)];
    const bool merge = step.node->op == "Merge" || step.node->op == "RefMerge";
    auto& waiting_nodes = frame.iterations[iteration].waiting;
    auto [entry, fresh] = waiting_nodes.try_emplace(user.node);
    Waiting& waiting = entry->second;
    if (fresh) {
      waiting.inputs.resize(step.node->inputs.size());
      waiting.missing = static_cast<int>((merge ? 1 : step.node->inputs.size()) + step.node->control_inputs.size());
    }
    if (merge && user.input >= 0) {
      if (waiting.first >= 0) return;
      waiting.first = user.input;
    }
    if (waiting.released) return;
    if (waiting.missing <= 0 && !fresh) throw_twice(user.node);
    if (user.input >= 0) {
      Tensor& place = waiting.inputs[static_cast<std::size_t>(user.input)];
      if (place.defined()) throw_twice(user.node);
      place = value;
    }
    if (--waiting.missing > 0) {
      if (waiting.first < 0 || waiting.held) return;
      waiting.held = true;
      held_.push_back({user.node, &frame, iteration});
      ++frame.iterations[iteration].pending;
      return;
    }
    if (!waiting.held) ++frame.iterations[iteration].pending;
    ready_.push_back({user.node, &frame, iteration, std::move(waiting.inputs), waiting.first});
    waiting.inputs.clear();  // the entry stays, so that later tokens for a Merge are noticed
    waiting.missing = -1;
  }

  // A Merge may have controls in both branches: where nothing else can run, the missing ones are in a branch that is
  // not taken. The last Merge comes first, since those of inner branches get their inputs later.
  bool release_merge() {
    while (!held_.empty()) {
      const Held last = held_.back();
      held_.pop_back();
      const auto iteration = last.frame->iterations.find(last.iteration);
      if (iteration == last.frame->iterations.end()) continue;  // all of it has run
      Waiting& waiting = iteration->second.waiting.at(last.node);
      if (waiting.missing <= 0) continue;
      ready_.push_back({last.node, last.frame, last.iteration, std::move(waiting.inputs), waiting.first});
      waiting.inputs.clear();
      waiting.missing = -1, waiting.released = true;
      return true;
    }
    return false;
  }

  // The ControlTriggers by the name of their frame, which is that of the nodes that lead to them. Those outside of
  // loops are in a branch that is not taken where they get no tokens.
  void find_triggers() {
    const auto is_trigger = [](const Step& step) { return step.node && step.node->op == "ControlTrigger"; };
    if (std::none_of(plan_.steps_.begin(), plan_.steps_.end(), is_trigger)) return;
    std::map<std::string, std::string> outer{{"", ""}};
    std::vector<std::optional<std::string>> frames(plan_.steps_.size());
    std::deque<int> next;
    for (int id = 0; id < plan_.graph_.size(); ++id) {
      const Node& node = plan_.graph_.node(id);
      if (!plan_.needed_[static_cast<std::size_t>(id)]) continue;
      if (!plan_.fed_[static_cast<std::size_t>(id)] && !(node.inputs.empty() && node.control_inputs.empty())) continue;
      frames[static_cast<std::size_t>(id)] = "";
      next.push_back(id);
    }
    for (; !next.empty(); next.pop_front()) {
      const std::string frame = *frames[static_cast<std::size_t>(next.front())];
      for (const User& user : users_[static_cast<std::size_t>(next.front())]) {
        const Step& step = plan_.steps_[static_cast<std::size_t>(user.node)];
        std::optional<std::string>& found = frames[static_cast<std::size_t>(user.node)];
        if (found) continue;
        found = frame;
        if (step.node->op == "Enter" || step.node->op == "RefEnter") {
          found = step.attr<std::string>("frame_name");
          outer.emplace(*found, frame);
        } else if (step.node->op == "Exit" || step.node->op == "RefExit") {
          found = outer[frame];
        } else if (is_trigger(step) && !frame.empty()) {
          triggers_[frame].push_back(user.node);
        }
        next.push_back(user.node);
      }
    }
  }

  static bool is_open(const Iteration& iteration, int trigger) {
    const auto waiting = iteration.waiting.find(trigger);
    return waiting == iteration.waiting.end() || waiting->second.missing > 0;
  }

  // One in the oldest iteration that has one.
  bool release_trigger() {
    if (triggers_.empty()) return false;
    for (auto& [place, frames] : children_) {
      for (auto& [name, frame] : frames) {
        for (auto& [number, iteration] : frame->iterations) {
          for (const int id : frame->triggers) {
            if (!is_open(iteration, id)) continue;
            Waiting& waiting = iteration.waiting[id];
            waiting.missing = -1, waiting.released = true;
            ++iteration.pending;
            ready_.push_back({id, frame.get(), number, {}, 0});
            return true;
          }
        }
      }
    }
    return false;
  }

  // Only an invalid graph does this, such as one with an Exit that takes a value in each iteration.
  [[noreturn]] void throw_twice(int node) const {
    throw_invalid_argument(fmt::format("node '{}' gets an input twice in one iteration", plan_.graph_.node(node).name));
  }

  void emit(int id, const Tensors& outputs, Frame& frame, int iteration) {
    if (&frame == &root_) {
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].defined()) results_[{id, static_cast<int>(i)}] = outputs[i];
      }
    }
    for (const User& user : users_[static_cast<std::size_t>(id)]) {
      if (user.input < 0) {
        deliver(user, Tensor(), frame, iteration);
      } else if (const Tensor& value = outputs[static_cast<std::size_t>(user.output)]; value.defined()) {
        deliver(user, value, frame, iteration);
      }
    }
  }

  // Every exception that leaves it is an Error that names the node.
  void fire_named(Ready& item) {
    try {
      fire(item);
    } catch (const Error& error) {
      if (error.message().find("[node ") != std::string::npos) throw;
      throw_error(error.code(),
                  fmt::format("{} [node '{}' of {}]", error.message(), plan_.graph_.node(item.node).name, plan_.what_));
    }
  }

  void fire(Ready& item) {
    const Step& step = plan_.steps_[static_cast<std::size_t>(item.node)];
    const std::string& op = step.node->op;
    Frame& frame = *item.frame;
    if (op == "Const") {
      emit(item.node, {step.attr<Tensor>("value")}, frame, item.iteration);
    } else if (op == "Switch" || op == "RefSwitch") {
      Tensors outputs(2);
      outputs[item.inputs[1].item<bool>() ? 1 : 0] = item.inputs[0];
      emit(item.node, outputs, frame, item.iteration);
    } else if (op == "_SwitchN") {  // of a Case; as there, the last branch stands for all other numbers
      Tensors outputs(static_cast<std::size_t>(step.num_outputs));
      const auto branch = item.inputs[1].item<std::int32_t>();
      const bool known = branch >= 0 && branch < step.num_outputs;
      outputs[static_cast<std::size_t>(known ? branch : step.num_outputs - 1)] = item.inputs[0];
      emit(item.node, outputs, frame, item.iteration);
    } else if (op == "Merge" || op == "RefMerge") {
      emit(item.node, {item.inputs[static_cast<std::size_t>(item.merged)], Tensor::scalar(std::int32_t{item.merged})},
           frame, item.iteration);
    } else if (op == "Enter" || op == "RefEnter") {
      enter(item, step);
    } else if (op == "Exit" || op == "RefExit") {
      if (!frame.parent)
        throw_invalid_argument(fmt::format("node '{}' leaves a frame that was not entered", step.node->name));
      emit(item.node, item.inputs, *frame.parent, frame.parent_iteration);
    } else if (op == "NextIteration" || op == "RefNextIteration") {
      next_iteration(item);
    } else if (op == "LoopCond") {
      emit(item.node, item.inputs, frame, item.iteration);
    } else {
      emit(item.node, run_step(step, item.inputs, context_, plan_.what_), frame, item.iteration);
    }
    if (const auto iteration = frame.iterations.find(item.iteration); iteration != frame.iterations.end()) {
      --iteration->second.pending;
    }
  }

  void enter(Ready& item, const Step& step) {
    auto& frames = children_[{item.frame, item.iteration}];
    auto& child = frames[step.attr<std::string>("frame_name")];
    if (!child) {
      child = std::make_unique<Frame>();
      child->parent = item.frame;
      child->parent_iteration = item.iteration;
      child->iterations[0];
      child->enters_to_come = enters_[step.attr<std::string>("frame_name")];
      if (const auto own = triggers_.find(step.attr<std::string>("frame_name")); own != triggers_.end())
        child->triggers = own->second;
      ++item.frame->iterations[item.iteration].pending;  // iterations with children are kept
    }
    --child->enters_to_come;
    if (!step.attr<bool>("is_constant")) {
      emit(item.node, item.inputs, *child, 0);
      return;
    }
    child->invariants.emplace_back(item.node, item.inputs[0]);
    for (int i = 0; i <= child->latest; ++i) {
      if (child->iterations.contains(i)) emit(item.node, item.inputs, *child, i);
    }
  }

  void next_iteration(Ready& item) {
    Frame& frame = *item.frame;
    if (!frame.parent) throw_invalid_argument("NextIteration outside of a frame");
    const int next = item.iteration + 1;
    if (next > frame.latest) {
      context_.budget.count_iteration();
      frame.latest = next;
      frame.iterations[next];
      for (const auto& [node, value] : frame.invariants) emit(node, {value}, frame, next);
      // Iterations where nothing can happen any more: the first ones get values from outside too.
      while (frame.enters_to_come == 0 && frame.iterations.begin()->first < item.iteration &&
             frame.iterations.begin()->second.pending == 0 &&
             std::none_of(frame.triggers.begin(), frame.triggers.end(),
                          [&](int id) { return is_open(frame.iterations.begin()->second, id); })) {
        frame.iterations.erase(frame.iterations.begin());
      }
    }
    emit(item.node, item.inputs, frame, next);
  }

  const Plan& plan_;
  RunContext& context_;
  std::vector<std::vector<User>> users_;
  std::map<std::string, int> enters_;  // number of nodes that enter each frame
  std::map<std::string, std::vector<int>> triggers_;
  Frame root_;
  std::map<std::pair<Frame*, int>, std::map<std::string, std::unique_ptr<Frame>>> children_;
  std::deque<Ready> ready_;
  std::vector<Held> held_;  // those that have run since are skipped
  std::map<std::pair<int, int>, Tensor> results_;
  std::unordered_map<int, std::vector<std::pair<int, Tensor>>> fed_outputs_;
};

Tensors Plan::run_as_dataflow(const Tensors& feeds, RunContext& context) const {
  return Dataflow(*this, context).run(feeds);
}

}  // namespace lockstep::graph
