// tf.data.Options, and keyword arguments of the transformations of datasets, as in TensorFlow.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/shape.h"
#include "lockstep/tensor/structure.h"

namespace lockstep::data {

// tf.data.experimental.AutoShardPolicy: how the workers of a job divide a dataset that all of them have.
enum class AutoShardPolicy {
  kOff = -1,  // nothing: each sees every element
  kAuto = 0,  // kFile where there are files enough, else kData
  kFile = 1,  // each reads different files
  kData = 2,  // each batch is cut among all replicas
  kHint = 3,  // as kOff: the user's own shard()
  OFF = kOff,
  AUTO = kAuto,
  FILE = kFile,
  DATA = kData,
  HINT = kHint,
};

// tf.data.Options.
struct Options {
  struct Distribute {
    AutoShardPolicy auto_shard_policy = AutoShardPolicy::kAuto;
  };
  Distribute experimental_distribute;
  struct Threading {
    std::optional<int> max_intra_op_parallelism = std::nullopt;
    std::optional<int> private_threadpool_size = std::nullopt;
  };
  Threading threading;                               // has no effect
  std::optional<bool> deterministic = std::nullopt;  // has no effect: orders never depend on timing
  struct Autotune {
    std::optional<bool> enabled = std::nullopt;
    std::optional<int> cpu_budget = std::nullopt;
    std::optional<std::int64_t> ram_budget = std::nullopt;
  };
  Autotune autotune;  // has no effect, as the options below
  struct Optimization {
    std::optional<bool> apply_default_optimizations = std::nullopt;
    std::optional<bool> filter_fusion = std::nullopt;
    std::optional<bool> filter_parallelization = std::nullopt;
    std::optional<bool> inject_prefetch = std::nullopt;
    std::optional<bool> map_and_batch_fusion = std::nullopt;
    std::optional<bool> map_and_filter_fusion = std::nullopt;
    std::optional<bool> map_fusion = std::nullopt;
    std::optional<bool> map_parallelization = std::nullopt;
    std::optional<bool> noop_elimination = std::nullopt;
    std::optional<bool> parallel_batch = std::nullopt;
    std::optional<bool> shuffle_and_repeat_fusion = std::nullopt;
  };
  Optimization experimental_optimization;
  std::optional<bool> experimental_slack = std::nullopt;
};
struct SnapshotKeywords {
  FieldNamesOnly names_only = {};
  std::string compression = "AUTO";  // has no effect
};

struct MapOptions {
  std::int64_t num_parallel_calls = 1;
  std::optional<bool> deterministic = std::nullopt;  // elements keep their order whatever it is
};
struct BatchOptions {
  bool drop_remainder = false;
  std::int64_t num_parallel_calls = 1;  // as of map()
  std::optional<bool> deterministic = std::nullopt;
};
struct BatchKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t batch_size = 0;
  bool drop_remainder = false;
  std::int64_t num_parallel_calls = 1;  // as of map()
};
struct ShuffleKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t buffer_size = 0;
  std::optional<std::int64_t> seed = std::nullopt;
  bool reshuffle_each_iteration = true;
};
struct RepeatKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t count = -1;
};
struct CountKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t count = 0;
};
struct PrefetchKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t buffer_size = -1;
};
// A number of elements; numpy() as of the tensor that TensorFlow returns.
class Cardinality {
 public:
  constexpr Cardinality(std::int64_t count) : count_(count) {}
  constexpr operator std::int64_t() const { return count_; }
  constexpr std::int64_t numpy() const { return count_; }

 private:
  std::int64_t count_;
};
// A number or a string, or a tensor of one.
struct PaddingValue {
  template <typename T>
  requires std::is_arithmetic_v<T> PaddingValue(T number) : number(static_cast<double>(number)) {}
  template <std::convertible_to<std::string> Text>
  PaddingValue(const Text& text) : text(text) {}
  PaddingValue(const Tensor& scalar) {
    if (scalar.dtype() == DType::kString) {
      text = static_cast<std::string>(scalar);
    } else {
      number = scalar.item<double>();
    }
  }
  double number = 0;
  std::string text = {};
};
// One for all components, or one for each leaf of the element: {0.0, 1e-8, -1}, {{"image", 0.0}, {"label", -1}}.
struct PaddingValues : std::vector<PaddingValue> {
  template <std::convertible_to<PaddingValue> V>
  PaddingValues(const V& value) : vector{PaddingValue(value)} {}
  PaddingValues(std::initializer_list<PaddingValue> values) : vector(values) {}
  PaddingValues(std::initializer_list<std::pair<const char*, PaddingValue>> dict) {
    for (const auto& [name, value] : std::map<std::string, PaddingValue>(dict.begin(), dict.end()))
      push_back(value);  // leaves are in the order of their names
  }
};
// Shapes in the element's structure: {None}, {{None}, {}}, {{"image", {None, 3}}, {"label", {}}}.
struct PaddedShapes : std::optional<Nested<Shape>> {
  PaddedShapes(std::nullopt_t = std::nullopt) {}
  template <std::convertible_to<Nested<Shape>> S>
  PaddedShapes(const S& shapes) : optional(Nested<Shape>(shapes)) {}
  PaddedShapes(std::initializer_list<Nested<Shape>> parts) : optional(Nested<Shape>(parts)) {}
  // Templates, here and below, so that {{}, {}} and {{None}, {None}} are two shapes.
  template <int = 0, typename Entry = std::pair<const char*, Shape>>
  PaddedShapes(std::initializer_list<std::type_identity_t<Entry>> dict) {
    Nested<Shape>::Dict entries;
    for (const auto& [name, shape] : dict) entries.emplace_back(name, shape);
    emplace(Nested<Shape>::dict(std::move(entries)));
  }
  template <typename D = Dim>
  PaddedShapes(std::initializer_list<std::type_identity_t<D>> dims) : optional(Nested<Shape>(Shape(dims))) {}
};
struct PaddedBatchOptions {
  FieldNamesOnly names_only = {};
  PaddedShapes padded_shapes = {};  // in the element's structure
  PaddingValues padding_values = 0;
  bool drop_remainder = false;
};
struct PaddedBatchKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t batch_size = 1;
  PaddedShapes padded_shapes = {};
  PaddingValues padding_values = 0;
  bool drop_remainder = false;
};
struct CounterOptions {
  FieldNamesOnly names_only = {};
  std::int64_t start = 0;
  std::int64_t step = 1;
};
struct ShardOptions {
  FieldNamesOnly names_only = {};
  std::int64_t num_shards = 1;
  std::int64_t index = 0;
};
struct EnumerateOptions {
  FieldNamesOnly names_only = {};
  std::int64_t start = 0;
};
struct ShuffleOptions {
  std::optional<std::int64_t> seed = std::nullopt;
  bool reshuffle_each_iteration = true;
};
struct InterleaveOptions {
  std::optional<std::int64_t> cycle_length = std::nullopt;  // default: the number of processors, as in TensorFlow
  std::int64_t block_length = 1;
  std::int64_t num_parallel_calls = 1;
  std::optional<bool> deterministic = std::nullopt;
};
struct WindowOptions {
  std::optional<std::int64_t> shift = std::nullopt;
  std::int64_t stride = 1;
  bool drop_remainder = false;
};

struct RandomOptions {
  std::optional<std::int64_t> seed = std::nullopt;
  bool rerandomize_each_iteration = false;
};
struct SampleOptions {
  std::vector<double> weights = {};  // one for each dataset; empty: equal ones
  std::optional<std::int64_t> seed = std::nullopt;
  bool stop_on_empty_dataset = false;
  bool rerandomize_each_iteration = false;
};
struct ResampleOptions {
  FieldNamesOnly names_only = {};
  std::vector<double> target_dist = {};   // the share of each class
  std::vector<double> initial_dist = {};  // default: estimated from the elements as they come
  std::optional<std::int64_t> seed = std::nullopt;
};
struct GroupByWindowOptions {
  std::optional<std::int64_t> window_size = std::nullopt;
  std::function<std::int64_t(std::int64_t key)> window_size_func = {};  // one of both is required
};
struct BucketOptions {
  FieldNamesOnly names_only = {};
  PaddedShapes padded_shapes = {};  // default: those of element_spec()
  PaddingValues padding_values = 0;
  bool pad_to_bucket_boundary = false;
  bool no_padding = false;
  bool drop_remainder = false;
};

}  // namespace lockstep::data
