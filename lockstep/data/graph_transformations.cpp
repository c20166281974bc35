// Transformations of the datasets of graphs.
#include <limits>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/graph_datasets_internal.h"
#include "lockstep/data/sequence_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/variants_internal.h"
#include "lockstep/random/seeds.h"

namespace lockstep::data {
namespace {

using graph::RunContext;
using graph::Step;

Tensors dataset(NodePtr node) { return {variant_of_dataset(std::move(node))}; }

std::int64_t number(const Tensors& inputs, std::size_t i) { return inputs.at(i).item<std::int64_t>(); }

std::int64_t positive(const Tensors& inputs, std::size_t i, std::string_view what) {
  const std::int64_t value = number(inputs, i);
  if (value < 1) throw_invalid_argument(fmt::format("invalid {}: found {}, expected at least 1", what, value));
  return value;
}

bool is_true(const Tensors& inputs, std::size_t i) { return inputs.at(i).item<bool>(); }

MapFunction map_function(GraphFunction function) {
  return
      [function = std::move(function)](const Element& element) { return element_of(function(components_of(element))); };
}

FilterFunction predicate(GraphFunction function) {
  return [function = std::move(function)](const Element& element) {
    const Tensors answer = function(components_of(element));
    if (answer.size() != 1) throw_invalid_argument("the predicate of a dataset must give one value");
    return answer[0].item<bool>();
  };
}

Dataset dataset_from(const Tensors& results) {
  if (results.size() != 1) throw_invalid_argument("the function of a dataset must give one dataset");
  return Dataset(dataset_in(results[0]));
}

FlatMapFunction dataset_function(GraphFunction function) {
  return [function = std::move(function)](const Element& element) {
    return dataset_from(function(components_of(element)));
  };
}

Tensors same(const Step&, const Tensors& inputs, RunContext&) { return {inputs.at(0)}; }

Tensors map(const Step& step, const Tensors& inputs, RunContext&) {
  return dataset(map_node(dataset_in(inputs.at(0)), map_function(GraphFunction(step, "f", "Targuments", inputs, 1))));
}

Tensors filter(const Step& step, const Tensors& inputs, RunContext&) {
  return dataset(
      filter_node(dataset_in(inputs.at(0)), predicate(GraphFunction(step, "predicate", "Targuments", inputs, 1))));
}

Tensors take_while(const Step& step, const Tensors& inputs, RunContext&) {
  return dataset(
      take_while_node(dataset_in(inputs.at(0)), predicate(GraphFunction(step, "predicate", "Targuments", inputs, 1))));
}

Tensors flat_map(const Step& step, const Tensors& inputs, RunContext&) {
  return dataset(interleave_node(dataset_in(inputs.at(0)),
                                 dataset_function(GraphFunction(step, "f", "Targuments", inputs, 1)), 1, 1));
}

// More threads do not change the order.
Tensors interleave(const Step& step, const Tensors& inputs, RunContext&) {
  const std::size_t lengths = 1 + step.attr<std::vector<DType>>("Targuments").size();
  constexpr std::int64_t kMostSlots = 1 << 20;
  std::int64_t cycle = number(inputs, lengths);
  if (cycle == AUTOTUNE) cycle = 10;
  if (cycle < 1 || cycle > kMostSlots)
    throw_invalid_argument(fmt::format("invalid cycle_length: found {}, expected 1 to {}", cycle, kMostSlots));
  return dataset(interleave_node(dataset_in(inputs.at(0)),
                                 dataset_function(GraphFunction(step, "f", "Targuments", inputs, 1)), cycle,
                                 positive(inputs, lengths + 1, "block_length")));
}

Tensors scan(const Step& step, const Tensors& inputs, RunContext&) {
  const std::size_t states = step.attr<std::vector<DType>>("Tstate").size();
  const Tensors initial(inputs.begin() + 1, inputs.begin() + 1 + static_cast<std::ptrdiff_t>(states));
  const GraphFunction function(step, "f", "Targuments", inputs, 1 + states);
  return dataset(scan_node(
      dataset_in(inputs.at(0)), element_of(initial), [function, states](const Element& state, const Element& element) {
        Tensors arguments = components_of(state);
        const Tensors components = components_of(element);
        arguments.insert(arguments.end(), components.begin(), components.end());
        const Tensors results = function(std::move(arguments));
        if (results.size() < states)
          throw_invalid_argument("the function of a scan must give the state and an element");
        const auto middle = results.begin() + static_cast<std::ptrdiff_t>(states);
        return std::pair(element_of(Tensors(results.begin(), middle)), element_of(Tensors(middle, results.end())));
      }));
}

Tensors group_by_window(const Step& step, const Tensors& inputs, RunContext&) {
  const auto count = [&](std::string_view types) { return step.attr<std::vector<DType>>(types).size(); };
  const std::size_t reduce_at = 1 + count("Tkey_func_other_arguments");
  const GraphFunction key(step, "key_func", "Tkey_func_other_arguments", inputs, 1);
  const GraphFunction reduce(step, "reduce_func", "Treduce_func_other_arguments", inputs, reduce_at);
  const GraphFunction size(step, "window_size_func", "Twindow_size_func_other_arguments", inputs,
                           reduce_at + count("Treduce_func_other_arguments"));
  return dataset(group_by_window_node(
      dataset_in(inputs.at(0)),
      [key](const Element& element) { return key(components_of(element)).at(0).item<std::int64_t>(); },
      [reduce](std::int64_t of, const Dataset& group) {
        return dataset_from(reduce({Tensor::scalar(of), variant_of_dataset(group.node())}));
      },
      [size](std::int64_t of) { return size({Tensor::scalar(of)}).at(0).item<std::int64_t>(); }));
}

// ---- batches: windows whose elements are stacked, in memory that counts for the run --------------------

std::vector<Tensors> columns_of(const Element& window) {
  std::vector<Tensors> columns;
  for (const Element& element : window.parts()) {
    const Tensors components = components_of(element);
    columns.resize(std::max(columns.size(), components.size()));
    for (std::size_t i = 0; i < components.size(); ++i) columns[i].push_back(components[i]);
  }
  return columns;
}

Tensor stacked(const Tensors& parts, std::size_t component) {
  if (parts[0].dtype() == DType::kVariant) return ops::variants(parts);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].shape() == parts[0].shape()) continue;
    throw_invalid_argument(
        fmt::format("Cannot batch tensors with different shapes in component {}. First element had shape {} and "
                    "element {} had shape {}",
                    component, parts[0].shape().to_string(), i, parts[i].shape().to_string()));
  }
  return ops::call1("Pack", parts);
}

NodePtr batches_of(NodePtr input, std::int64_t size, bool drop_remainder) {
  return map_node(window_node(std::move(input), size, size, 1, drop_remainder), [](const Element& window) {
    const std::vector<Tensors> columns = columns_of(window);
    Tensors out;
    for (std::size_t i = 0; i < columns.size(); ++i) out.push_back(stacked(columns[i], i));
    return element_of(out);
  });
}

Tensors batch(const Step& step, const Tensors& inputs, RunContext&) {
  const bool drops = step.op->signature->name != "BatchDataset" && is_true(inputs, inputs.size() - 1);
  return dataset(batches_of(dataset_in(inputs.at(0)), positive(inputs, 1, "batch_size"), drops));
}

Tensors map_and_batch(const Step& step, const Tensors& inputs, RunContext&) {
  const std::size_t at = 1 + step.attr<std::vector<DType>>("Targuments").size();
  return dataset(
      batches_of(map_node(dataset_in(inputs.at(0)), map_function(GraphFunction(step, "f", "Targuments", inputs, 1))),
                 positive(inputs, at, "batch_size"), is_true(inputs, at + 2)));
}

// The parts with `value` behind each axis, up to the longest or to `wanted`.
Tensor padded(Tensors parts, const std::vector<std::int64_t>& wanted, const Tensor& value, std::size_t component) {
  const int rank = parts[0].rank();
  std::vector<std::int64_t> most(static_cast<std::size_t>(rank), 0);
  for (const Tensor& part : parts) {
    if (part.rank() != rank || static_cast<int>(wanted.size()) != rank)
      throw_invalid_argument(
          fmt::format("All elements in a batch must have the same rank as the padded shape for component {}: expected "
                      "rank {} but got element with rank {}",
                      component, wanted.size(), part.rank()));
    for (int axis = 0; axis < rank; ++axis)
      most[static_cast<std::size_t>(axis)] = std::max(most[static_cast<std::size_t>(axis)], part.dim(axis));
  }
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    if (wanted[axis] == kUnknownDim) continue;
    if (most[axis] > wanted[axis])
      throw_invalid_argument(
          fmt::format("Attempted to pad to a smaller size than the input element: axis {} of component {} has {}, the "
                      "padded shape {}",
                      axis, component, most[axis], wanted[axis]));
    most[axis] = wanted[axis];
  }
  for (Tensor& part : parts) {
    if (part.shape() == Shape(most)) continue;
    std::vector<std::int64_t> paddings;
    for (int axis = 0; axis < rank; ++axis) {
      paddings.push_back(0);
      paddings.push_back(most[static_cast<std::size_t>(axis)] - part.dim(axis));
    }
    part = ops::call1("PadV2", {part, Tensor::from_vector(paddings, Shape{rank, 2}), value});
  }
  return ops::call1("Pack", parts);
}

Tensors padded_batch(const Step& step, const Tensors& inputs, RunContext&) {
  const std::size_t width = step.attr<std::vector<DType>>("Toutput_types").size();
  std::vector<std::vector<std::int64_t>> shapes;
  for (std::size_t i = 0; i < width; ++i) shapes.push_back(inputs.at(2 + i).to_vector<std::int64_t>());
  const Tensors values(inputs.begin() + 2 + static_cast<std::ptrdiff_t>(width),
                       inputs.begin() + 2 + static_cast<std::ptrdiff_t>(2 * width));
  const bool drops = step.op->signature->name != "PaddedBatchDataset" && is_true(inputs, inputs.size() - 1);
  const std::int64_t size = positive(inputs, 1, "batch_size");
  const auto pad = [shapes, values](const Element& window) {
    const std::vector<Tensors> columns = columns_of(window);
    if (columns.size() != shapes.size()) throw_invalid_argument("as many padded shapes as components are expected");
    Tensors out;
    for (std::size_t i = 0; i < columns.size(); ++i) out.push_back(padded(columns[i], shapes[i], values[i], i));
    return element_of(out);
  };
  return dataset(map_node(window_node(dataset_in(inputs.at(0)), size, size, 1, drops), pad));
}

Tensors window_dataset(const Step&, const Tensors& inputs, RunContext&) {
  const NodePtr windows = window_node(dataset_in(inputs.at(0)), number(inputs, 1), number(inputs, 2), number(inputs, 3),
                                      is_true(inputs, 4));
  return dataset(map_node(windows, [](const Element& window) {
    Tensors out;
    for (const Tensors& column : columns_of(window)) {
      std::vector<Element> elements;
      for (const Tensor& part : column) elements.push_back(element_of({part}));
      out.push_back(variant_of_dataset(elements_node(std::move(elements))));
    }
    return element_of(out);
  }));
}

// ---- transformations without functions -----------------------------------------------------------------

Tensors concatenate(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(concatenate_node(dataset_in(inputs.at(0)), dataset_in(inputs.at(1))));
}

Tensors repeat(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(repeat_node(dataset_in(inputs.at(0)), number(inputs, 1)));
}

// Negative counts are all elements.
Tensors take(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(Dataset(dataset_in(inputs.at(0))).take(number(inputs, 1)).node());
}
Tensors skip(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(Dataset(dataset_in(inputs.at(0))).skip(number(inputs, 1)).node());
}

Tensors shard(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(Dataset(dataset_in(inputs.at(0))).shard(number(inputs, 1), number(inputs, 2)).node());
}

Tensors zip(const Step&, const Tensors& inputs, RunContext&) {
  std::vector<NodePtr> nodes;
  for (const Tensor& input : inputs) nodes.push_back(dataset_in(input));
  return dataset(
      map_node(zip_node(std::move(nodes)), [](const Element& element) { return element_of(components_of(element)); }));
}

NodePtr of_leaves(NodePtr node) {
  return map_node(std::move(node), [](const Element& element) {
    const Tensors components = components_of(element);
    if (components.size() != 1) throw_invalid_argument("elements of one component are expected");
    return Element(components[0]);
  });
}

Tensors choose(const Step& step, const Tensors& inputs, RunContext&) {
  std::vector<NodePtr> nodes{of_leaves(dataset_in(inputs.at(0)))};
  for (std::size_t i = 1; i < inputs.size(); ++i) nodes.push_back(dataset_in(inputs[i]));
  return dataset(choose_node(std::move(nodes), step.attr<bool>("stop_on_empty_dataset")));
}

Tensors unique(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(map_node(unique_node(of_leaves(dataset_in(inputs.at(0)))),
                          [](const Element& element) { return element_of({element.leaf()}); }));
}

Tensors unbatch(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(unbatch_node(dataset_in(inputs.at(0))));
}

Tensors ignore_errors(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(ignore_errors_node(dataset_in(inputs.at(0)), false));
}

Tensors cache(const Step&, const Tensors& inputs, RunContext&) {
  if (inputs.at(1).string_values().at(0) != "")
    throw_unimplemented("a graph wants to keep a dataset in files; export it with cache() in memory");
  return dataset(cache_node(dataset_in(inputs.at(0))));
}

Tensors assert_cardinality(const Step&, const Tensors& inputs, RunContext&) {
  return dataset(assert_cardinality_node(dataset_in(inputs.at(0)), number(inputs, 1)));
}

Tensors rebatch(const Step&, const Tensors& inputs, RunContext&) {
  if (inputs.at(1).num_elements() != 1) throw_unimplemented("RebatchDatasetV2 with several sizes");
  return dataset(
      batches_of(unbatch_node(dataset_in(inputs.at(0))), positive(inputs, 1, "batch_sizes"), is_true(inputs, 2)));
}

NodePtr shuffled(const Tensors& inputs, bool reshuffle) {
  std::int64_t size = number(inputs, 1);
  if (size == kUnknownCardinality) size = std::numeric_limits<std::int32_t>::max();
  if (size < 1) throw_invalid_argument(fmt::format("invalid buffer_size: found {}, expected at least 1", size));
  const bool given = inputs.at(2).dtype() == DType::kInt64;
  const auto seeds = given ? seeds_at(inputs, 2) : random::op_seeds(std::nullopt);
  return shuffle_node(dataset_in(inputs.at(0)), size, seeds, reshuffle);
}

Tensors shuffle_anew(const Step&, const Tensors& inputs, RunContext&) { return dataset(shuffled(inputs, true)); }

Tensors shuffle(const Step& step, const Tensors& inputs, RunContext&) {
  return dataset(shuffled(inputs, step.attr<bool>("reshuffle_each_iteration")));
}

Tensors shuffle_and_repeat(const Step& step, const Tensors& inputs, RunContext&) {
  return dataset(repeat_node(shuffled(inputs, step.attr<bool>("reshuffle_each_iteration")), number(inputs, 4)));
}

// Examples to their features, in the order of the keys: sparse tensors as vectors of variants, ragged ones as variants.
class ParsedExamples {
 public:
  explicit ParsedExamples(const Step& step, const Tensors& inputs)
      : dense_keys_(step.attr<Names>("dense_keys")),
        sparse_keys_(step.attr<Names>("sparse_keys")),
        ragged_keys_(step.attr<Names>("ragged_keys")),
        split_types_(step.attr<std::vector<DType>>("ragged_split_types")),
        defaults_(inputs.begin() + 2, inputs.end()),
        attrs_{{"Tdense", step.attr<std::vector<DType>>("Tdense")},
               {"num_sparse", static_cast<std::int64_t>(sparse_keys_.size())},
               {"sparse_types", step.attr<std::vector<DType>>("sparse_types")},
               {"ragged_value_types", step.attr<std::vector<DType>>("ragged_value_types")},
               {"ragged_split_types", split_types_},
               {"dense_shapes", step.attr<std::vector<Shape>>("dense_shapes")}} {}

  Element operator()(const Element& element) const {
    const Tensors components = components_of(element);
    if (components.size() != 1) throw_invalid_argument("a dataset of examples must have one component");
    Tensors inputs = {components[0], texts({}), texts(sparse_keys_), texts(dense_keys_), texts(ragged_keys_)};
    inputs.insert(inputs.end(), defaults_.begin(), defaults_.end());
    const Tensors found = ops::call("ParseExampleV2", inputs, attrs_);
    const std::size_t sparse = sparse_keys_.size(), dense = dense_keys_.size(), ragged = ragged_keys_.size();
    std::map<std::string, Tensor> by_key;
    for (std::size_t i = 0; i < sparse; ++i) {
      by_key[sparse_keys_[i]] = ops::variants({ops::variant_of({found[i]}), ops::variant_of({found[sparse + i]}),
                                               ops::variant_of({found[2 * sparse + i]})});
    }
    for (std::size_t i = 0; i < dense; ++i) by_key[dense_keys_[i]] = found[3 * sparse + i];
    for (std::size_t i = 0; i < ragged; ++i) {
      const std::size_t at = 3 * sparse + dense + i;
      by_key[ragged_keys_[i]] = ops::variant_of({found[at + ragged], found[at]});
    }
    Tensors out;
    for (const auto& [key, value] : by_key) out.push_back(value);
    return element_of(out);
  }

 private:
  using Names = std::vector<std::string>;
  static Tensor texts(const Names& keys) {
    return Tensor::strings(keys, Shape{static_cast<std::int64_t>(keys.size())});
  }

  const Names dense_keys_, sparse_keys_, ragged_keys_;
  const std::vector<DType> split_types_;
  const Tensors defaults_;
  const ops::Attrs attrs_;
};

Tensors parse_examples(const Step& step, const Tensors& inputs, RunContext&) {
  return dataset(map_node(dataset_in(inputs.at(0)), ParsedExamples(step, inputs)));
}

Tensors cardinality(const Step&, const Tensors& inputs, RunContext&) {
  return {Tensor::scalar(dataset_in(inputs.at(0))->cardinality())};
}

}  // namespace

graph::ExecutorOp find_dataset_transformation(std::string_view op) {
  static const std::unordered_map<std::string_view, graph::ExecutorOp> table = {
      {"AssertCardinalityDataset", assert_cardinality},
      {"BatchDataset", batch},
      {"BatchDatasetV2", batch},
      {"CacheDataset", cache},
      {"CacheDatasetV2", cache},
      {"ConcatenateDataset", concatenate},
      {"DatasetCardinality", cardinality},
      {"DirectedInterleaveDataset", choose},
      {"FilterDataset", filter},
      {"FinalizeDataset", same},
      {"FlatMapDataset", flat_map},
      {"GroupByWindowDataset", group_by_window},
      {"IgnoreErrorsDataset", ignore_errors},
      {"InterleaveDataset", interleave},
      {"MapAndBatchDataset", map_and_batch},
      {"MapDataset", map},
      {"MaxIntraOpParallelismDataset", same},
      {"ModelDataset", same},
      {"OptimizeDataset", same},
      {"OptimizeDatasetV2", same},
      {"OptionsDataset", same},
      {"PaddedBatchDataset", padded_batch},
      {"PaddedBatchDatasetV2", padded_batch},
      {"ParallelBatchDataset", batch},
      {"ParallelFilterDataset", filter},
      {"ParallelInterleaveDatasetV2", interleave},
      {"ParallelInterleaveDatasetV3", interleave},
      {"ParallelInterleaveDatasetV4", interleave},
      {"ParallelMapDataset", map},
      {"ParallelMapDatasetV2", map},
      {"ParseExampleDataset", parse_examples},
      {"ParseExampleDatasetV2", parse_examples},
      {"PrefetchDataset", same},
      {"PrivateThreadPoolDataset", same},
      {"RebatchDatasetV2", rebatch},
      {"RepeatDataset", repeat},
      {"RewriteDataset", same},
      {"ScanDataset", scan},
      {"ShardDataset", shard},
      {"ShuffleAndRepeatDataset", shuffle_and_repeat},
      {"ShuffleAndRepeatDatasetV2", shuffle_and_repeat},
      {"ShuffleDataset", shuffle},
      {"ShuffleDatasetV2", shuffle_anew},
      {"ShuffleDatasetV3", shuffle},
      {"SkipDataset", skip},
      {"TakeDataset", take},
      {"TakeWhileDataset", take_while},
      {"UnbatchDataset", unbatch},
      {"UniqueDataset", unique},
      {"UnwrapDatasetVariant", same},
      {"WindowDataset", window_dataset},
      {"WrapDatasetVariant", same},
      {"ZipDataset", zip},
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::data
