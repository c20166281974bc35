#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/keras/layers/call_scope_internal.h"
#include "lockstep/keras/layers/following_internal.h"
#include "lockstep/keras/layers/input_layer.h"
#include "lockstep/keras/models/compiled_call_internal.h"
#include "lockstep/keras/models/graph_walk_internal.h"
#include "lockstep/keras/models/keras2_order_internal.h"
#include "lockstep/keras/models/model_impl.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {
namespace {

const KerasTensor& checked_tensor(const Tensor& tensor, const char* what) {
  const KerasTensor* symbol = tensor.defined() ? as_keras_tensor(tensor) : nullptr;
  if (!symbol)
    throw_invalid_argument(
        fmt::format("{} of a model must be symbolic tensors, made by layers::Input and layers", what));
  return *symbol;
}

bool is_input_tensor(const Tensor& tensor) {
  const KerasTensor* symbol = as_keras_tensor(tensor);
  return symbol && symbol->node().arguments.tensors().empty();
}

// Models between tensors inside another model get their own inputs and copies of the calls between.
void clone_graph(Structure& inputs, Structure& outputs) {
  std::map<std::pair<const Node*, int>, Tensor> replaced;
  inputs = inputs.map([&](const Tensor& t) {
    const KerasTensor& symbol = checked_tensor(t, "the inputs");
    Tensor input = t;
    if (!is_input_tensor(t)) {
      input = InputLayer::create(t.shape(), {.dtype = std::string(dtype_name(t.dtype())),
                                             .name = symbol.operation()->name() + "_input_clone"})
                  ->output();
    }
    replaced[{&symbol.node(), symbol.tensor_index()}] = input;
    return input;
  });
  GraphWalk walk;
  std::vector<std::shared_ptr<Node>> order = walk.finished(replaced, outputs);
  for (const auto& node : order) {
    if (node->arguments.tensors().empty()) continue;
    const auto lookup = [&](const Tensor& t) {
      const KerasTensor* symbol = as_keras_tensor(t);
      if (!symbol) return t;
      const auto found = replaced.find({&symbol->node(), symbol->tensor_index()});
      return found == replaced.end() ? t : found->second;
    };
    const Structure copies = node->operation->add_node(node->arguments.map_tensors(lookup), node->outputs, node->masks);
    int index = 0;
    for (const Tensor& copy : copies.flatten()) replaced.try_emplace({node.get(), index++}, copy);
  }
  outputs = outputs.map([&](const Tensor& t) {
    const KerasTensor& symbol = checked_tensor(t, "the outputs");
    const auto found = replaced.find({&symbol.node(), symbol.tensor_index()});
    return found == replaced.end() ? t : found->second;
  });
}

}  // namespace

// ---- the order of calls --------------------------------------------------------------------------------

std::vector<std::shared_ptr<Node>> GraphWalk::finished(const Stops& stops, const Structure& outputs) {
  struct Frame {
    std::shared_ptr<Node> node;
    Tensors inputs;
    std::size_t next = 0;
  };
  std::vector<std::shared_ptr<Node>> done;
  std::unordered_set<const Node*> finished, in_progress;
  std::vector<Frame> stack;
  const auto push = [&](const Tensor& tensor) {
    const KerasTensor* symbol = as_keras_tensor(tensor);
    if (!symbol) return;
    const auto& node = symbol->operation()->inbound_nodes()[static_cast<std::size_t>(symbol->node_index())];
    if (finished.contains(node.get())) return;
    if (!in_progress.insert(node.get()).second) throw_invalid_argument("the calls of the model form a loop");
    index_of_.try_emplace(node->operation, static_cast<int>(index_of_.size()));
    keep_.push_back(symbol->operation());
    Frame frame{node, {}, 0};
    if (!stops.contains({node.get(), symbol->tensor_index()})) frame.inputs = node->arguments.tensors();
    stack.push_back(std::move(frame));
  };
  for (const Tensor& output : outputs.flatten()) {
    push(output);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.inputs.size()) {
        const Tensor next = top.inputs[top.next++];
        push(next);
        continue;
      }
      in_progress.erase(top.node.get());
      finished.insert(top.node.get());
      done.push_back(top.node);
      stack.pop_back();
    }
  }
  return done;
}

// ---- construction --------------------------------------------------------------------------------------

FunctionalImpl::FunctionalImpl(Structure inputs, Structure outputs, Layer::Options options)
    : ModelImpl("Functional", std::move(options)),
      compiled_(std::make_unique<CompiledCall>()),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)) {
  bool cloned = false;
  inputs_.visit([&](const Tensor& t) {
    checked_tensor(t, "the inputs");
    cloned = cloned || !is_input_tensor(t);
  });
  outputs_.visit([](const Tensor& t) { checked_tensor(t, "the outputs"); });
  if (inputs_.num_leaves() == 0 || outputs_.num_leaves() == 0) {
    throw_invalid_argument(fmt::format("model '{}' needs at least one input and one output", name()));
  }
  if (cloned) clone_graph(inputs_, outputs_);
  build_graph();
  set_built();
}

void FunctionalImpl::build_graph() {
  GraphWalk::Stops stops;
  std::set<const Operation*> input_operations;
  for (const Tensor& input : inputs_.flatten()) {
    const KerasTensor& symbol = *as_keras_tensor(input);
    if (!stops.try_emplace({&symbol.node(), symbol.tensor_index()}, input).second) {
      throw_invalid_argument(fmt::format("model '{}': input '{}' is given twice", name(), symbol.operation()->name()));
    }
    input_operations.insert(symbol.operation().get());
  }
  GraphWalk walk;
  const auto finished = walk.finished(stops, outputs_);
  for (const auto& node : finished) {
    if (node->arguments.tensors().empty() && !input_operations.contains(node->operation)) {
      throw_invalid_argument(
          fmt::format("graph disconnected: model '{}' uses input '{}', which is not among its inputs", name(),
                      node->operation->name()));
    }
  }
  // Depths: 0 at the outputs, each input of a call deeper than the call. Keras runs operations of one depth in the
  // order in which it found them, beginning with the last output.
  std::unordered_map<const Node*, int> node_depth;
  std::unordered_map<const Operation*, int> operation_depth;
  std::vector<const Node*> met;
  const auto depth_of = [&](const Node* node) -> int& {
    const auto [found, first] = node_depth.try_emplace(node, 0);
    if (first) met.push_back(node);
    return found->second;
  };
  for (auto it = finished.rbegin(); it != finished.rend(); ++it) {
    const Node* node = it->get();
    int& depth = depth_of(node);
    int& of_operation = operation_depth[node->operation];
    depth = of_operation = std::max(depth, of_operation);
    for (const Tensor& input : node->arguments.tensors()) {
      if (const KerasTensor* symbol = as_keras_tensor(input)) {
        int& parent = depth_of(&symbol->node());
        parent = std::max(parent, depth + 1);
      }
    }
  }
  std::unordered_map<const Node*, std::shared_ptr<Node>> all;
  for (const auto& node : finished) all.emplace(node.get(), node);
  for (const Tensor& input : inputs_.flatten()) {
    const KerasTensor& symbol = *as_keras_tensor(input);
    if (node_depth.contains(&symbol.node())) continue;
    depth_of(&symbol.node());
    operation_depth.try_emplace(symbol.operation().get(), 0);
    walk.index_of().try_emplace(symbol.operation().get(), -1);
    walk.keep(symbol.operation());
    all.emplace(&symbol.node(), symbol.operation()->inbound_nodes()[static_cast<std::size_t>(symbol.node_index())]);
  }
  if (Keras2Order::active()) {
    for (const auto& [operation, depth] : depths_in_keras2(finished, outputs_)) operation_depth[operation] = depth;
  }
  order_operations(walk, operation_depth);
  int deepest = 0;
  for (const auto& [node, depth] : node_depth) deepest = std::max(deepest, depth);
  nodes_by_depth_.assign(static_cast<std::size_t>(deepest) + 1, {});
  for (const Node* node : met) {
    if (const auto found = all.find(node); found != all.end())
      nodes_by_depth_[static_cast<std::size_t>(node_depth[node])].push_back(found->second);
  }
  for (auto level = nodes_by_depth_.rbegin(); level != nodes_by_depth_.rend(); ++level) {
    nodes_.insert(nodes_.end(), level->begin(), level->end());
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) node_ids_[nodes_[i].get()] = static_cast<int>(i);
  count_uses();
}

void FunctionalImpl::order_operations(GraphWalk& walk, const std::unordered_map<const Operation*, int>& depths) {
  operations_ = walk.operations();
  std::sort(operations_.begin(), operations_.end(), [&](const OperationPtr& a, const OperationPtr& b) {
    const int da = depths.at(a.get()), db = depths.at(b.get());
    return da != db ? da > db : walk.index_of().at(a.get()) < walk.index_of().at(b.get());
  });
  std::set<std::string> names;
  for (const OperationPtr& operation : operations_) {
    if (!names.insert(operation->name()).second) {
      throw_invalid_argument(
          fmt::format("model '{}': the name '{}' is used {} times; names of a model's layers must differ", name(),
                      operation->name(), 2));
    }
  }
}

// How often each node's results are read, so that a run can let go of them.
void FunctionalImpl::count_uses() {
  uses_.assign(nodes_.size(), 0);
  const auto use = [&](const Tensor& t) {
    if (const KerasTensor* symbol = as_keras_tensor(t))
      ++uses_[static_cast<std::size_t>(node_ids_.at(&symbol->node()))];
  };
  for (const auto& node : nodes_) {
    for (const Tensor& t : node->arguments.tensors()) use(t);
  }
  outputs_.visit(use);
}

FunctionalImpl::~FunctionalImpl() {
  // Later operations hold earlier ones: from the end, so that no chain of destructors grows deep.
  outputs_ = Structure();
  inputs_ = Structure();
  nodes_by_depth_.clear();
  node_ids_.clear();
  while (!nodes_.empty()) nodes_.pop_back();
  while (!operations_.empty()) operations_.pop_back();
}

std::vector<LayerPtr> FunctionalImpl::layers() const {
  std::vector<LayerPtr> out;
  for (const OperationPtr& operation : operations_) {
    if (auto layer = std::dynamic_pointer_cast<Layer>(operation)) out.push_back(std::move(layer));
  }
  return Keras2Order::active() ? in_order_of_keras2(std::move(out), inputs_, outputs_) : out;
}

bool FunctionalImpl::owns(const Node* node) const { return node_ids_.contains(node); }

int FunctionalImpl::node_number(const Node* node) const {
  int number = 0;
  for (const auto& other : node->operation->inbound_nodes()) {
    if (other.get() == node) return owns(node) ? number : -1;
    number += owns(other.get());
  }
  return -1;
}

// ---- running -------------------------------------------------------------------------------------------

namespace {

// Calls that the operation of the call before them may do in its own pass.
struct Followers {
  std::vector<std::size_t> calls;
  std::optional<ops::FixedNorm> norm;
  ElementwiseActivation activation;
};

class FollowerSearch {
 public:
  FollowerSearch(const std::vector<std::shared_ptr<Node>>& nodes, const std::vector<int>& uses)
      : nodes_(nodes), uses_(uses) {}

  std::optional<Followers> after(std::size_t node, bool training) const {
    const Layer* const first = layer(node);
    if (!first || uses_[node] != 1) return std::nullopt;
    Followers found;
    if (!training && ends_with_convolution(*first)) {
      const auto norm = only_reader(node);
      if (norm) found.norm = fixed_norm(*layer(*norm));
      if (!found.norm) return std::nullopt;
      found.calls = {*norm};
      if (uses_[*norm] != 1) return found;
    } else if (first->class_name() != "BatchNormalization" || first->activity_regularizer()) {
      return std::nullopt;
    }
    const auto next = only_reader(found.calls.empty() ? node : found.calls.back());
    const auto activation = next ? elementwise_activation(*layer(*next)) : std::nullopt;
    if (activation) found.calls.push_back(*next), found.activation = *activation;
    return found.calls.empty() ? std::nullopt : std::optional(found);
  }

  // The max-pool that alone reads a convolution.
  std::optional<ops::FollowingPool> pool_after(std::size_t node) const {
    const Layer* const first = layer(node);
    if (!first || uses_[node] != 1 || first->class_name() != "Conv2D") return std::nullopt;
    const auto next = only_reader(node);
    return next ? following_pool(*layer(*next)) : std::nullopt;
  }

 private:
  const Layer* layer(std::size_t node) const { return dynamic_cast<const Layer*>(nodes_[node]->operation); }

  // The call of a layer that reads the result of `node`, which has one use, and nothing else.
  std::optional<std::size_t> only_reader(std::size_t node) const {
    for (std::size_t j = node + 1; j < nodes_.size(); ++j) {
      const std::vector<Tensor> inputs = nodes_[j]->arguments.tensors();
      const bool reads = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) {
        const KerasTensor* const symbol = as_keras_tensor(input);
        return symbol && &symbol->node() == nodes_[node].get();
      });
      if (!reads) continue;
      const bool same_type = layer(j) && layer(j)->compute_dtype() == layer(node)->compute_dtype();
      return same_type && inputs.size() == 1 ? std::optional(j) : std::nullopt;
    }
    return std::nullopt;
  }

  const std::vector<std::shared_ptr<Node>>& nodes_;
  const std::vector<int>& uses_;
};

[[noreturn]] void throw_other_shape(const FunctionalImpl& model, const Tensor& given, const KerasTensor& expected) {
  throw_invalid_argument(fmt::format("model '{}': input '{}' has shape {}, expected {}", model.name(),
                                     expected.operation()->name(), given.shape().to_string(),
                                     expected.shape().to_string()));
}

// The extents after the batch, without a last axis of 1.
std::vector<std::int64_t> checked_extents(const Shape& shape) {
  std::vector<std::int64_t> extents(shape.dims().begin(), shape.dims().end());
  if (!extents.empty() && extents.back() == 1) extents.pop_back();
  return {extents.begin() + (extents.empty() ? 0 : 1), extents.end()};
}

}  // namespace

Tensor FunctionalImpl::adjust_input(const Tensor& given, const KerasTensor& expected) const {
  if (!given.defined()) {
    const auto* layer = dynamic_cast<const InputLayer*>(expected.operation().get());
    if (layer && !layer->optional()) {
      throw_invalid_argument(fmt::format("model '{}': input '{}' is missing", name(), expected.operation()->name()));
    }
    return given;
  }
  Tensor value =
      given.dtype() == expected.dtype() || given.dtype() == DType::kString ? given : ops::cast(given, expected.dtype());
  const Shape& want = expected.shape();
  if (given.shape().known_rank() && want.known_rank() && given.shape().rank() != want.rank()) {
    if (given.shape().rank() == want.rank() + 1 && given.shape()[-1] == 1) {
      value = ops::squeeze(value, {-1});
    } else if (given.shape().rank() == want.rank() - 1 && want.rank() > 0 && want[-1] == 1) {
      value = ops::expand_dims(value, -1);
    }
  }
  if (value.shape().known_rank() && want.known_rank() && value.shape().rank() != want.rank())
    throw_other_shape(*this, given, expected);
  if (given.mask().defined() && !same(value, given)) value.set_mask(given.mask());
  return value;
}

std::vector<Tensor> FunctionalImpl::ordered_inputs(const Structure& inputs) const {
  const std::vector<Tensor> expected = inputs_.flatten();
  Structure ordered = inputs;
  if (inputs.is_dict() && !inputs_.is_dict()) {
    Structure::List picked;
    for (const Tensor& input : expected) {
      const std::string& wanted = as_keras_tensor(input)->operation()->name();
      const Structure* found = inputs.find(wanted);
      if (!found) {
        std::string keys;
        for (const auto& [key, value] : inputs.entries()) keys += (keys.empty() ? "" : ", ") + key;
        throw_invalid_argument(fmt::format("model '{}': no input '{}' among those given ({})", name(), wanted, keys));
      }
      picked.push_back(*found);
    }
    ordered = Structure::list(std::move(picked));
  } else if (inputs.is_dict()) {
    Structure::Dict picked;
    for (const auto& [key, value] : inputs_.entries()) {
      const Structure* found = inputs.find(key);
      if (!found) throw_invalid_argument(fmt::format("model '{}': no input '{}' among those given", name(), key));
      picked.emplace_back(key, *found);
    }
    ordered = Structure::dict(std::move(picked));
  }
  return ordered.flatten();
}

Structure FunctionalImpl::adjust_inputs(std::vector<Tensor> given) const {
  const std::vector<Tensor> expected = inputs_.flatten();
  if (given.size() != expected.size()) {
    throw_invalid_argument(
        fmt::format("model '{}' takes {} inputs, {} were given", name(), expected.size(), given.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = adjust_input(given[i], *as_keras_tensor(expected[i]));
  return Structure(given);
}

namespace {

std::optional<bool> training_of(const CallArguments& arguments) {
  const Argument* given = arguments.find("training");
  if (!given || !given->is_leaf() || !given->leaf().value.is_boolean()) return std::nullopt;
  return given->leaf().value.get<bool>();
}

// The training argument of a call in a model of Keras 2. Keras 3 replaces it by that of the model's call.
std::optional<bool> own_training(const ModelImpl& model, const Node& node) {
  return model.keras_version() > 2 ? std::nullopt : training_of(node.arguments);
}

// Keras 2 passes the mask of the sequence on to a recurrent layer that is called with its states, Keras 3 only where
// the call names it.
CallArguments with_mask_of_keras2(const Operation& operation, CallArguments arguments) {
  const auto* layer = dynamic_cast<const Layer*>(&operation);
  if (!layer || !layer->uses_mask() || arguments.args.empty() || !arguments.args[0].is_leaf()) return arguments;
  if (!arguments.find("initial_state") || arguments.find("mask")) return arguments;
  const Tensor& sequence = arguments.args[0].leaf().tensor;
  if (sequence.defined() && sequence.mask().defined()) arguments.set("mask", ArgValue(sequence.mask()));
  return arguments;
}

// Whether a layer is called with another one than the model.
bool calls_otherwise(const ModelImpl& model, const std::vector<std::shared_ptr<Node>>& nodes, bool training) {
  if (model.keras_version() > 2) return false;
  return std::ranges::any_of(nodes, [&](const auto& node) { return own_training(model, *node) == !training; });
}

// Whether layers train in a call without the argument: layers whose node has it, or whose default is true.
bool trains_by_default(const FunctionalImpl& model) {
  return std::ranges::any_of(model.nodes(), [](const auto& node) {
    if (training_of(node->arguments) == true) return true;
    const auto* layer = dynamic_cast<const Layer*>(node->operation);
    if (!layer) return false;
    if (const auto* inner = dynamic_cast<const FunctionalImpl*>(layer)) return trains_by_default(*inner);
    if (const auto* inner = dynamic_cast<const SequentialImpl*>(layer))
      return inner->functional() && trains_by_default(*inner->functional());
    return layer->training_argument() == Layer::TrainingArgument::kDefaultTrue;
  });
}

}  // namespace

void FunctionalImpl::check_extents(const std::vector<Tensor>& given) const {
  const std::vector<Tensor> expected = inputs_.flatten();
  for (std::size_t i = 0; i < given.size() && i < expected.size(); ++i) {
    if (!given[i].defined() || !given[i].shape().known_rank() || !expected[i].shape().known_rank()) continue;
    const std::vector<std::int64_t> want = checked_extents(expected[i].shape());
    const std::vector<std::int64_t> extents = checked_extents(given[i].shape());
    for (std::size_t axis = 0; axis < want.size() && axis < extents.size(); ++axis) {
      if (want[axis] != kUnknownDim && extents[axis] != kUnknownDim && want[axis] != extents[axis])
        throw_other_shape(*this, given[i], *as_keras_tensor(expected[i]));
    }
  }
}

Structure FunctionalImpl::call(const Structure& inputs, const CallContext& context) {
  std::vector<Tensor> given = ordered_inputs(inputs);
  check_extents(given);
  return call_adjusted(adjust_inputs(std::move(given)), context);
}

Structure FunctionalImpl::call_with_any_extents(const Structure& inputs, const CallContext& context) {
  return call_adjusted(adjust_inputs(ordered_inputs(inputs)), context);
}

Structure FunctionalImpl::call_adjusted(const Structure& adjusted, const CallContext& context) {
  const std::vector<Tensor> masks = context.mask.flatten();
  const bool masked = std::ranges::any_of(masks, [](const Tensor& mask) { return mask.defined(); });
  if (context.training || masked || calls_otherwise(*this, nodes_, context.training) ||
      (!training_of(*context.arguments) && trains_by_default(*this)))
    return call_layers(adjusted, context);
  const auto layers = [&](const std::vector<Tensor>& leaves) {
    return call_layers(Structure(leaves), context).flatten();
  };
  const auto results = compiled_->run(*this, adjusted.flatten(), layers);
  if (!results) return call_layers(adjusted, context);
  std::size_t next = 0;
  return outputs_.map([&](const Tensor&) { return (*results)[next++]; });
}

Structure FunctionalImpl::call_layers(const Structure& adjusted, const CallContext& context) {
  std::vector<std::vector<Tensor>> values(nodes_.size());
  std::vector<int> uses = uses_;
  const std::vector<Tensor> expected = inputs_.flatten();
  const std::vector<Tensor> masks = context.mask.flatten();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const KerasTensor& symbol = *as_keras_tensor(expected[i]);
    const Tensor& value = adjusted.parts()[i].leaf();
    if (i < masks.size() && masks[i].defined() && value.defined()) value.set_mask(masks[i]);
    auto& slot = values[static_cast<std::size_t>(node_ids_.at(&symbol.node()))];
    slot.resize(std::max(slot.size(), static_cast<std::size_t>(symbol.tensor_index()) + 1));
    slot[static_cast<std::size_t>(symbol.tensor_index())] = value;
  }
  const auto lookup = [&](const Tensor& t) {
    const KerasTensor* symbol = as_keras_tensor(t);
    if (!symbol) return t;
    auto id = static_cast<std::size_t>(node_ids_.at(&symbol->node()));
    const Tensor value = values[id].at(static_cast<std::size_t>(symbol->tensor_index()));
    if (--uses[id] == 0) values[id].clear();
    return value;
  };
  const std::optional<bool> training = training_of(*context.arguments);
  const FollowerSearch search(nodes_, uses_);
  const bool traced = ops::ScopedRecorder::active() != nullptr;
  const bool apart = traced || calls_otherwise(*this, nodes_, context.training);
  std::vector<bool> done(nodes_.size());  // by the call before them
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = *nodes_[i];
    if (done[i] || !values[i].empty() || node.arguments.tensors().empty()) continue;
    // A layer that trains by default makes those after it train: see CallScope.
    const bool trains = training.value_or(CallScope::inherited().value_or(context.training));
    // A trace records the layers one by one.
    const std::optional<Followers> next = apart ? std::nullopt : search.after(i, trains);
    std::optional<ops::ScopedFollower> follower;
    std::optional<ops::ScopedPoolFollower> pool_follower;
    if (next && next->norm) {
      follower.emplace(*next->norm, next->activation.name, next->activation.alpha);
    } else if (next) {
      follower.emplace(next->activation.name, next->activation.alpha);
    } else if (trains && !traced) {
      if (const auto pool = search.pool_after(i)) pool_follower.emplace(*pool);
    }
    try {
      const bool own = own_training(*this, node).has_value();
      std::optional<ScopedInheritance> as_in_keras2;
      CallArguments arguments = node.arguments.map_tensors(lookup);
      if (keras_version() <= 2) {
        as_in_keras2.emplace();
        arguments = with_mask_of_keras2(*node.operation, std::move(arguments));
      }
      values[i] = node.operation->run(arguments, own ? std::nullopt : training).flatten();
      if (follower && follower->taken()) {
        for (const std::size_t call : next->calls) done[call] = true;
        values[next->calls.back()] = std::move(values[i]);
      }
    } catch (const Error& error) {
      if (error.code() != Code::kInvalidArgument || error.message().find("layer '") != std::string::npos) throw;
      throw_error(error.code(),
                  fmt::format("layer '{}' of model '{}': {}", node.operation->name(), name(), error.message()));
    }
  }
  return outputs_.map(lookup);
}

Structure FunctionalImpl::compute_mask(const Structure&, const Structure&, const Structure& outputs) {
  return outputs.map([](const Tensor& t) { return t.mask(); });
}

}  // namespace lockstep::keras
