#include "lockstep/data/node_internal.h"

#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/replay_limit_internal.h"
#include "lockstep/ops/composite_specs.h"
#include "lockstep/ops/ragged_elements_internal.h"

namespace lockstep::data {
namespace {

[[noreturn]] void throw_other_pipeline(std::string_view what) {
  throw_invalid_argument(fmt::format(
      "the state of a dataset iterator does not fit this dataset ({}): build the same pipeline before restoring",
      what));
}

void save_below(const DatasetNode& node, Json& out) {
  Json own = node.save_node();
  if (!own.is_null()) {
    own["node"] = node.name();
    out.push_back(std::move(own));
  }
  if (const std::optional<Json> below = node.delivered_nodes()) {
    for (const Json& node_below : *below) out.push_back(node_below);
    return;
  }
  for (const NodePtr& input : node.inputs()) save_below(*input, out);
}

void restore_below(const DatasetNode& node, const Json& state, std::size_t& next) {
  if (!node.save_node().is_null()) {
    if (next >= state.size()) throw_other_pipeline(fmt::format("it has no entry for {}", node.name()));
    const Json& own = state[next++];
    const Json& name = state_at(own, "node");
    if (name != node.name()) throw_other_pipeline(fmt::format("{} where {} is expected", name.dump(), node.name()));
    node.restore_node(own);
  }
  for (const NodePtr& input : node.inputs()) restore_below(*input, state, next);
}

}  // namespace

std::int64_t NodeIterator::advance(std::int64_t n) {
  Item item;
  std::int64_t count = 0;
  while (count < n && next(item)) {
    ++count;
    ReplayLimit::check();
  }
  return count;
}

NodePtr DatasetNode::with_inputs(std::vector<NodePtr>) const {
  throw_internal(fmt::format("the dataset {} has no inputs", name_));
}

namespace {
thread_local SharedFunctions* t_functions = nullptr;
}  // namespace

SharedFunctions::Scope::Scope(SharedFunctions* functions) : before_(std::exchange(t_functions, functions)) {}
SharedFunctions::Scope::~Scope() { t_functions = before_; }

std::shared_ptr<SharedFunctions> SharedFunctions::of_repeat() {
  return t_functions ? t_functions->self_.lock() : make(false);
}

std::shared_ptr<SharedFunctions> SharedFunctions::make(bool by_type) {
  auto functions = std::make_shared<SharedFunctions>();
  functions->self_ = functions;
  functions->by_type_ = by_type;
  return functions;
}

std::shared_ptr<SharedFunctions> SharedFunctions::of_datasets(const void* function) {
  if (!t_functions || t_functions->by_type_) return make(true);
  const std::lock_guard lock(t_functions->mutex_);
  std::shared_ptr<SharedFunctions>& functions = t_functions->datasets_[function];
  if (!functions) functions = make(true);
  return functions;
}

std::shared_ptr<ops::FunctionDraws> SharedFunctions::draws_of(const void* function, const std::type_info& type) {
  if (!t_functions) return std::make_shared<ops::FunctionDraws>();
  const std::lock_guard lock(t_functions->mutex_);
  std::shared_ptr<ops::FunctionDraws>& draws =
      t_functions->by_type_ ? t_functions->draws_of_types_[type] : t_functions->draws_[function];
  if (!draws) draws = std::make_shared<ops::FunctionDraws>();
  return draws;
}

Json save_nodes(const DatasetNode& root) {
  Json out = Json::array();
  save_below(root, out);
  return out;
}

void restore_nodes(const DatasetNode& root, const Json& state) {
  if (!state.is_array()) throw_other_pipeline("it has no list of nodes");
  std::size_t next = 0;
  restore_below(root, state, next);
  if (next != state.size()) throw_other_pipeline("it has more entries");
}

const Json& state_at(const Json& state, std::string_view key) {
  if (!state.is_object()) throw_other_pipeline(fmt::format("no '{}'", key));
  const auto found = state.find(key);
  if (found == state.end()) throw_other_pipeline(fmt::format("no '{}'", key));
  return *found;
}

std::int64_t state_int(const Json& state, std::string_view key) {
  const Json& value = state_at(state, key);
  if (!value.is_number_integer()) throw_other_pipeline(fmt::format("'{}' is not an integer", key));
  return value.get<std::int64_t>();
}

std::int64_t state_count(const Json& state, std::string_view key, std::int64_t most) {
  const std::int64_t count = state_int(state, key);
  if (count < 0 || count > most) throw_other_pipeline(fmt::format("'{}' is {}", key, count));
  return count;
}

std::pair<std::int64_t, std::int64_t> state_pair(const Json& state, std::string_view key) {
  const Json& value = state_at(state, key);
  if (!value.is_array() || value.size() != 2 || !value[0].is_number_integer() || !value[1].is_number_integer()) {
    throw_other_pipeline(fmt::format("'{}' is not a pair of integers", key));
  }
  return {value[0].get<std::int64_t>(), value[1].get<std::int64_t>()};
}

std::vector<Item> items_at(NodeIterator& iterator, const std::vector<std::int64_t>& indices) {
  std::vector<Item> items(indices.size());
  std::int64_t position = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < position) throw_other_pipeline(fmt::format("element {} twice, or out of order", indices[i]));
    const std::int64_t gap = indices[i] - position;
    if (iterator.advance(gap) != gap || !iterator.next(items[i])) {
      throw_failed_precondition(
          fmt::format("the dataset ends before element {}, which the saved iterator had read: it is built on less data",
                      indices[i]));
    }
    position = indices[i] + 1;
  }
  return items;
}

std::optional<std::int64_t> known(std::int64_t cardinality) {
  if (cardinality < 0) return std::nullopt;
  return cardinality;
}

ElementSpec spec_of(const Element& element) {
  return element.map([](const Tensor& leaf) {
    if (leaf.defined() && !leaf.is_symbolic() && ops::holds_ragged(leaf))
      return static_cast<ElementSpec>(RaggedTensorSpec::from_value(ops::ragged_in(leaf))).leaf();
    return leaf.defined() ? TensorSpec(leaf.shape(), leaf.dtype()) : TensorSpec(Shape::unknown_rank(), DType::kInvalid);
  });
}

ElementSpec merge_specs(const ElementSpec& a, const ElementSpec& b) {
  const std::vector<TensorSpec> others = b.flatten();
  std::vector<TensorSpec> merged = a.flatten();
  const auto merge = [](Shape& shape, const Shape& other) {
    if (!shape.known_rank() || !other.known_rank() || shape.rank() != other.rank()) {
      shape = Shape::unknown_rank();
      return;
    }
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] != other[axis]) shape[axis] = kUnknownDim;
    }
  };
  for (std::size_t i = 0; i < merged.size() && i < others.size(); ++i) {
    merge(merged[i].shape, others[i].shape);
    if (!merged[i].ragged || !others[i].ragged) {
      merged[i].ragged = std::nullopt;
    } else {
      merge(merged[i].ragged->shape, others[i].ragged->shape);
    }
  }
  return a.pack(merged);
}

}  // namespace lockstep::data
