// Input pipelines: tf.data's Dataset, its transformations and iterators.
//
// A Dataset is a cheap handle on an immutable description; every transformation returns a new one. What
// is kept in addition to the description is the same as in tf.data: the contents of cache() and the generator
// that gives each new iterator of shuffle() its seeds. Orders are tf.data's bit for bit, in particular
// those of shuffle, interleave, repeat and zip.
//
// Rows of from_tensor_slices travel as row numbers through shuffle, repeat, take, shard and cache, and are
// copied once, straight into their batch.
//
// Errors are thrown where they happen: by a transformation for arguments that can be checked at once
// (InvalidArgument), by DatasetIterator::next() for elements (InvalidArgument for shapes that do not stack).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/json.h"
#include "lockstep/base/tensor_spec.h"
#include "lockstep/data/dataset_iterator.h"
#include "lockstep/data/dataset_options.h"
#include "lockstep/data/element.h"

extern template class lockstep::Nested<lockstep::TensorSpec>;

namespace lockstep {
// As Python prints them: TensorSpec(shape=(None, 2), dtype=tf.float32, name=None), in tuples and dicts.
std::ostream& operator<<(std::ostream& out, const TensorSpec& spec);
std::ostream& operator<<(std::ostream& out, const Nested<TensorSpec>& specs);
}  // namespace lockstep

namespace lockstep::data {

class Dataset;

// The leaves of elements; dimensions that vary from element to element are unknown.
using lockstep::TensorSpec;
using ElementSpec = Nested<TensorSpec>;

// Cardinalities that are not a number of elements.
inline constexpr std::int64_t kInfiniteCardinality = -1;
inline constexpr std::int64_t kUnknownCardinality = -2;
inline constexpr std::int64_t INFINITE_CARDINALITY = kInfiniteCardinality;
inline constexpr std::int64_t UNKNOWN_CARDINALITY = kUnknownCardinality;
// As the argument of prefetch() and map().
inline constexpr std::int64_t AUTOTUNE = -1;

using MapFunction = std::function<Element(const Element&)>;
using FilterFunction = std::function<bool(const Element&)>;
using FlatMapFunction = std::function<Dataset(const Element&)>;
// State and element to next state and output.
using ScanFunction = std::function<std::pair<Element, Element>(const Element&, const Element&)>;
using KeyFunction = std::function<std::int64_t(const Element&)>;
using GroupFunction = std::function<Dataset(std::int64_t, const Dataset&)>;

template <std::size_t N>
class DatasetParts;
class Windows;

class Dataset {
 public:
  // Empty: no elements.
  Dataset();
  // Throws InvalidArgument for a null node.
  explicit Dataset(std::shared_ptr<const DatasetNode> node);
  // Moving copies, so that no dataset is ever without a description.
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;

  // ---- sources -----------------------------------------------------------------------------------------
  static Dataset from_tensors(const Element& element);
  // Slices of axis 0; every leaf must have as many. Memory is shared with the tensors.
  static Dataset from_tensor_slices(const Element& tensors);
  // Of numbers or strings: from_tensor_slices({8, 3, 0}).
  static Dataset from_tensors(std::initializer_list<Values> values) { return from_tensors(Tensor(values)); }
  template <typename T>
  requires std::is_arithmetic_v<T>
  static Dataset from_tensors(T number) { return from_tensors(Element(Tensor(number))); }
  template <std::convertible_to<std::string> Text>
  static Dataset from_tensors(const Text& text) {
    return from_tensors(Tensor::strings({std::string(text)}, {}));
  }
  // A template loses against the vectors below.
  template <int = 0>
  static Dataset from_tensor_slices(std::initializer_list<Values> values) {
    return from_tensor_slices(Tensor(values));
  }
  // Of vectors of numbers or strings: from_tensor_slices(files), from_tensor_slices({sources, targets}).
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_same_v<T, std::string>
  static Dataset from_tensor_slices(const std::vector<T>& values) { return from_tensor_slices(vector_of(values)); }
  // Also of vectors of vectors, and nested: from_tensor_slices({{targets, contexts}, labels}), ({{{"x", x}, {"y", y}},
  // z}).
  struct Vector {
    template <typename T>
    requires std::is_arithmetic_v<T> || std::is_same_v<T, std::string> Vector(const std::vector<T>& values)
        : element(vector_of(values)) {}
    template <typename T>
    requires std::is_arithmetic_v<T> || std::is_same_v<T, std::string> Vector(const std::vector<std::vector<T>>& rows)
        : element(Tensor(rows)) {}
    Vector(std::initializer_list<Vector> parts);
    Vector(std::initializer_list<std::pair<std::string_view, Vector>> entries);
    Element element;
  };
  static Dataset from_tensor_slices(std::initializer_list<Vector> parts) {
    return from_tensor_slices(Vector(parts).element);
  }
  // A dict of vectors, or of numbers or strings in braces:
  // from_tensor_slices({{"age", {30, 40}}, {"name", {"a", "b"}}}).
  struct Column {
    Column(std::string_view name, const Vector& values) : entry(name, values.element) {}
    Column(std::string_view name, std::initializer_list<Values> values) : entry(name, Element(Tensor(values))) {}
    std::pair<std::string, Element> entry;
  };
  static Dataset from_tensor_slices(std::initializer_list<Column> columns) {
    Element::Dict dict;
    for (const Column& column : columns) dict.push_back(column.entry);
    return from_tensor_slices(Element::dict(std::move(dict)));
  }
  // int64 scalars start, start + step, … below (for a negative step: above) stop.
  static Dataset range(std::int64_t stop) { return range(0, stop, 1); }
  static Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1);
  struct RangeKeywords {
    FieldNamesOnly names_only = {};
    DTypeLike output_type = DType::kInt64;
  };
  static Dataset range(std::int64_t stop, const RangeKeywords& o) { return range(0, stop, 1, o); }
  static Dataset range(std::int64_t start, std::int64_t stop, const RangeKeywords& o) {
    return range(start, stop, 1, o);
  }
  static Dataset range(std::int64_t start, std::int64_t stop, std::int64_t step, const RangeKeywords& o);
  // A known integer tensor.
  template <std::convertible_to<Tensor> T>
  requires std::is_class_v<T>
  static Dataset range(const T& stop) { return range(static_cast<Tensor>(stop).template item<std::int64_t>()); }
  // Calls `make` for each iteration; the function that it returns produces elements until it returns nullopt. Or `make`
  // returns the elements in a container, or it is such a function itself, of which each iteration has a copy. The
  // cardinality is unknown.
  using Generator = std::function<std::optional<Element>()>;
  class GeneratorMaker;
  struct GeneratorOptions;
  template <int = 0>  // as GCC would take {.output_signature = …} for a list
  static Dataset from_generator(GeneratorMaker make, ElementSpec spec);
  static Dataset from_generator(GeneratorMaker make, const GeneratorOptions& options);
  struct OutputTypes;
  struct OutputShapes;
  template <int = 0>
  static Dataset from_generator(GeneratorMaker make, OutputTypes output_types, OutputShapes output_shapes);
  template <int = 0>
  static Dataset from_generator(GeneratorMaker make, OutputTypes output_types);
  static Dataset zip(const std::vector<Dataset>& datasets);  // tuples; ends with the shortest
  static Dataset zip(const Dataset& a, const Dataset& b) { return zip(std::vector<Dataset>{a, b}); }
  // Takes from datasets[choice] for each int64 scalar of `choices`. Ends when the chosen one is empty, or
  // passes over it when stop_on_empty_dataset is false.
  static Dataset choose_from_datasets(const std::vector<Dataset>& datasets, const Dataset& choices,
                                      bool stop_on_empty_dataset = true);
  // Elements of datasets chosen at random, in TensorFlow's order for the same seeds.
  static Dataset sample_from_datasets(const std::vector<Dataset>& datasets, const SampleOptions& options = {});
  struct SampleKeywords;
  static Dataset sample_from_datasets(const std::vector<Dataset>& datasets, const std::vector<double>& weights,
                                      const SampleKeywords& o);
  // Infinitely many int64 scalars, uniform in [0, 2^32).
  static Dataset random(const RandomOptions& options = {});
  // start, start + step, … without end.
  static Dataset counter(std::int64_t start = 0, std::int64_t step = 1);
  static Dataset counter(const CounterOptions& o) { return counter(o.start, o.step); }
  // The elements that save() wrote; TensorFlow's too, if they were written in one shard. Throws NotFound, DataLoss.
  static Dataset load(const std::string& path);

  // ---- transformations ---------------------------------------------------------------------------------
  // fn takes the element (or a tuple's parts, at most 16) and returns an element. It is called in order, by one thread:
  // num_parallel_calls has no effect. prefetch() runs it in parallel with the training. The default of Fn, here and
  // below, is for names that several functions have: map(ops::square).
  template <typename Fn = Tensor (*)(const Tensor&)>
  Dataset map(Fn fn, std::int64_t num_parallel_calls = 1) const {
    static_cast<void>(num_parallel_calls);
    return map_elements(internal::element_function<Element>(std::move(fn)));
  }
  Dataset map(Tensor (*fn)(const Tensor&, const Tensor&), std::int64_t num_parallel_calls = 1) const {
    return map<decltype(fn)>(fn, num_parallel_calls);
  }
  template <typename Fn = Tensor (*)(const Tensor&)>
  Dataset map(Fn fn, const MapOptions& options) const {
    return map(std::move(fn), options.num_parallel_calls);
  }
  template <typename Fn = Tensor (*)(const Tensor&)>
  Dataset filter(Fn fn) const {
    return filter_elements(predicate(std::move(fn)));
  }
  template <typename Fn = Tensor (*)(const Tensor&)>
  Dataset take_while(Fn fn) const {
    return take_elements_while(predicate(std::move(fn)));
  }
  // Consecutive elements stacked along a new first axis. The last batch may be shorter.
  Dataset batch(std::int64_t batch_size, bool drop_remainder = false) const;
  Dataset batch(std::int64_t batch_size, const BatchOptions& options) const {
    return batch(batch_size, options.drop_remainder);
  }
  // The same, with leaves of different shapes as ragged tensors: for (const RaggedTensor rows : ds.ragged_batch(2)). A
  // batch of leaves that all have the shape of element_spec() is a tensor.
  Dataset ragged_batch(std::int64_t batch_size, bool drop_remainder = false) const;
  Dataset ragged_batch(std::int64_t batch_size, const BatchOptions& options) const {
    return ragged_batch(batch_size, options.drop_remainder);
  }
  Dataset ragged_batch(const BatchKeywords& o) const { return ragged_batch(o.batch_size, o.drop_remainder); }
  // The same for leaves of different shapes, padded at the end to the longest of the batch or to
  // `padded_shapes` (one for each leaf; unknown entries: the longest), with padding_value or "".
  // A template, as GCC would take {.padding_values = -1} for a list.
  template <std::same_as<Shape> S = Shape>
  Dataset padded_batch(std::int64_t batch_size, const std::vector<S>& padded_shapes = {},
                       const PaddingValues& padding_values = 0, bool drop_remainder = false) const {
    return padded_batches(batch_size, padded_shapes, padding_values, drop_remainder);
  }
  Dataset padded_batch(std::int64_t batch_size, const PaddedBatchOptions& o) const {
    return padded_batches(batch_size, o.padded_shapes ? o.padded_shapes->flatten() : std::vector<Shape>(),
                          o.padding_values, o.drop_remainder);
  }
  Dataset padded_batch(const PaddedBatchKeywords& o) const {
    return padded_batch(o.batch_size, {{}, o.padded_shapes, o.padding_values, o.drop_remainder});
  }
  Dataset unbatch() const;
  // Without a seed, one follows from the global seed (random::set_random_seed) when there is one.
  Dataset shuffle(std::int64_t buffer_size, std::optional<std::int64_t> seed = std::nullopt,
                  bool reshuffle_each_iteration = true) const;
  Dataset shuffle(std::int64_t buffer_size, const ShuffleOptions& options) const {
    return shuffle(buffer_size, options.seed, options.reshuffle_each_iteration);
  }
  // All arguments by name.
  Dataset batch(const BatchKeywords& o) const { return batch(o.batch_size, o.drop_remainder); }
  Dataset shuffle(const ShuffleKeywords& o) const { return shuffle(o.buffer_size, o.seed, o.reshuffle_each_iteration); }
  Dataset prefetch(const PrefetchKeywords& o) const { return prefetch(o.buffer_size); }
  Dataset repeat(std::int64_t count = -1) const;  // negative: for ever
  Dataset take(std::int64_t count) const;         // negative: all
  Dataset skip(std::int64_t count) const;         // negative: all
  Dataset repeat(const RepeatKeywords& o) const { return repeat(o.count); }
  Dataset take(const CountKeywords& o) const { return take(o.count); }
  Dataset skip(const CountKeywords& o) const { return skip(o.count); }
  Dataset shard(std::int64_t num_shards, std::int64_t index) const;
  Dataset shard(const ShardOptions& o) const { return shard(o.num_shards, o.index); }
  // Keeps the elements of the first complete pass in memory, or in the files NAME.index and NAME.data-… as TensorFlow
  // does. Where these files are there already, the elements are read from them.
  Dataset cache(const std::string& filename = {}) const;
  // The elements, written into a folder by the first iterator and read from it by later ones, also of other programs. A
  // folder is of one pipeline. Throws as save() and load() do.
  Dataset snapshot(const std::string& path) const;
  Dataset snapshot(const std::string& path, const SnapshotKeywords&) const { return snapshot(path); }
  // Writes all elements into a folder, for load() and TensorFlow's. Throws InvalidArgument for infinite datasets.
  void save(const std::string& path) const;
  // A thread computes up to buffer_size elements ahead; -1 (AUTOTUNE): 2.
  Dataset prefetch(std::int64_t buffer_size = -1) const;
  Dataset concatenate(const Dataset& other) const;  // element_spec must match
  Dataset enumerate(std::int64_t start = 0) const;  // (int64 scalar, element)
  Dataset enumerate(const EnumerateOptions& o) const { return enumerate(o.start); }
  // The distinct elements, in the order of their first occurrence: tensors of int32, int64 or strings.
  Dataset unique() const;
  // Batches of another size with the same rows.
  Dataset rebatch(std::int64_t batch_size, bool drop_remainder = false) const {
    return unbatch().batch(batch_size, drop_remainder);
  }
  // Without the elements for which a function throws an Error, which is logged on request.
  Dataset ignore_errors(bool log_warning = false) const;
  struct IgnoreErrorsKeywords {
    FieldNamesOnly names_only = {};
    bool log_warning = false;
  };
  Dataset ignore_errors(const IgnoreErrorsKeywords& o) const { return ignore_errors(o.log_warning); }
  // The only element. Throws InvalidArgument when there is none or more than one.
  Element get_single_element() const;
  // fn(state, element) returns the next state and the output: std::pair{state + x, state + x}.
  template <typename Fn>
  Dataset scan(const Element& initial_state, Fn fn) const {
    static_assert(std::is_invocable_v<Fn&, const Element&, const Element&>,
                  "Dataset.scan(initial_state, fn): fn must take the state and an element, (const Tensor& state, const "
                  "Tensor& x), and return the new state and the output as a pair");
    require_function(fn, "Dataset.scan");
    return scan_elements(initial_state, scan_function(std::move(fn)));
  }
  template <typename T, typename Fn>
  requires std::is_arithmetic_v<T> Dataset scan(T initial_state, Fn fn)
  const { return scan(Element(Tensor(initial_state)), std::move(fn)); }
  // All arguments by name: scan({.initial_state = 0, .scan_func = …}).
  struct ScanArguments;
  Dataset scan(const ScanArguments& o) const;
  // Groups elements of equal key, an int64 that key_func gives of an element, until there are window_size of them, and
  // gives the elements of reduce_func(key, dataset of the group). What is left at the end follows by increasing keys.
  template <typename Key, typename Reduce>
  Dataset group_by_window(Key key_func, Reduce reduce_func, const GroupByWindowOptions& options) const {
    static_assert(std::is_invocable_r_v<Dataset, Reduce&, const Tensor&, const Dataset&> ||
                      std::is_invocable_r_v<Dataset, Reduce&, std::int64_t, const Dataset&>,
                  "Dataset.group_by_window(key_func, reduce_func, options): reduce_func must take the key and the "
                  "group, (std::int64_t key, const Dataset& group), and return a dataset");
    require_function(reduce_func, "Dataset.group_by_window");
    return group_elements(key_function(std::move(key_func)), group_function(std::move(reduce_func)), options);
  }
  // Elements drawn so that their classes, integers that class_func gives, have the shares target_dist; each with its
  // class before it. initial_dist has the shares of the classes in this dataset; without it they are estimated.
  template <typename Class>
  Dataset rejection_resample(Class class_func, const ResampleOptions& options) const {
    return resample_elements(internal::element_function<Tensor>(std::move(class_func)), options);
  }
  template <typename Class>
  Dataset rejection_resample(Class class_func, const std::vector<double>& target_dist,
                             const std::vector<double>& initial_dist = {},
                             std::optional<std::int64_t> seed = std::nullopt) const {
    return rejection_resample(std::move(class_func), ResampleOptions{{}, target_dist, initial_dist, seed});
  }
  struct ResampleArguments;
  Dataset rejection_resample(const ResampleArguments& o) const;
  // All arguments by name: group_by_window({.key_func = …, .reduce_func = …, .window_size = 2}).
  struct GroupByWindowArguments;
  Dataset group_by_window(const GroupByWindowArguments& o) const;
  // Batches of elements of similar length: of lengths below bucket_boundaries[0], below bucket_boundaries[1], … and of
  // the rest, bucket_batch_sizes[i] elements each, padded to the longest of the batch.
  template <typename Length>
  Dataset bucket_by_sequence_length(Length element_length_func, const std::vector<std::int64_t>& bucket_boundaries,
                                    const std::vector<std::int64_t>& bucket_batch_sizes,
                                    const BucketOptions& options = {}) const {
    return bucket_elements(key_function(std::move(element_length_func)), bucket_boundaries, bucket_batch_sizes,
                           options);
  }
  struct BucketArguments;
  Dataset bucket_by_sequence_length(const BucketArguments& o) const;
  template <typename Fn>
  Dataset flat_map(Fn fn) const {
    return interleave_elements(internal::element_function<Dataset>(std::move(fn)), 1, 1);
  }
  // block_length elements in turn from cycle_length datasets.
  template <typename Fn>
  Dataset interleave(Fn fn, std::int64_t cycle_length, std::int64_t block_length = 1) const {
    return interleave_elements(internal::element_function<Dataset>(std::move(fn)), cycle_length, block_length);
  }
  template <typename Fn>
  Dataset interleave(Fn fn, const InterleaveOptions& options) const {
    return interleave(std::move(fn), options.cycle_length ? *options.cycle_length : default_cycle_length(),
                      options.block_length);
  }
  template <typename Fn>
  Dataset interleave(Fn fn) const {
    return interleave(std::move(fn), default_cycle_length());
  }
  // Datasets of `size` consecutive elements each (the last may have fewer), every `stride`-th of them, one window
  // beginning `shift` elements after the other (default: size): dataset.window(3, {.shift = 1}).flat_map(...).
  Windows window(std::int64_t size, const WindowOptions& options = {}) const;
  // Calls fn(state, element) for all elements in order, beginning with initial_state; returns the last state.
  template <typename Fn = Tensor (*)(const Tensor&, const Tensor&)>
  Element reduce(const Element& initial_state, Fn fn) const {
    static_assert(
        std::is_invocable_r_v<Element, Fn&, const Element&, const Element&>,
        "Dataset.reduce(initial_state, fn): fn must take the state and an element, (const Tensor& state, const "
        "Tensor& x) or (const Element& state, const Element& element), and return the new state");
    require_function(fn, "Dataset.reduce");
    Element state = initial_state;
    for (const Element& element : *this) state = fn(std::as_const(state), element);
    return state;
  }
  // A number counts as a scalar, int32 (int64 of a std::int64_t) of a whole one, else float32.
  template <typename T, typename Fn = Tensor (*)(const Tensor&, const Tensor&)>
  requires std::is_arithmetic_v<T> Element reduce(T initial_state, Fn fn)
  const { return reduce(Element(Tensor(initial_state)), std::move(fn)); }
  // Declares the number of elements; iterating throws FailedPrecondition if it differs.
  Dataset assert_cardinality(std::int64_t count) const;
  Dataset with_options(const Options& options) const;
  // The options that were set last.
  Options options() const;
  // The result of a function of this dataset.
  template <typename Fn>
  Dataset apply(Fn fn) const {
    require_function(fn, "Dataset.apply");
    return fn(*this);
  }

  // ---- properties --------------------------------------------------------------------------------------
  // Number of elements, kInfiniteCardinality or kUnknownCardinality.
  Cardinality cardinality() const;
  // Python's len(). Throws InvalidArgument for an infinite or unknown number.
  std::int64_t len() const;
  // Of map, the spec is learned from the function's result for the first element.
  ElementSpec element_spec() const;

  // ---- iterating ---------------------------------------------------------------------------------------
  // Each iterator of shuffle() takes the next seeds; Keras's fit opens two an epoch on datasets of known
  // finite cardinality and uses the second.
  DatasetIterator make_iterator() const { return DatasetIterator(node_); }
  DatasetInputIterator begin() const;
  // Python's iter(dataset).
  friend DatasetInputIterator iter(const Dataset& dataset) { return dataset.begin(); }
  // An iterator too: elements are values already.
  DatasetInputIterator as_numpy_iterator() const { return begin(); }
  DatasetInputIterator end() const { return {}; }

  // The elements, tuples of N, in their parts: for (const auto& [x, y, sample_weight] : dataset.parts<3>()). Tuples of
  // two need none of it: for (const auto& [x, y] : dataset).
  template <std::size_t N>
  DatasetParts<N> parts() const {
    return DatasetParts<N>(*this);
  }

  // The seeds of the next iterators, which a training that is saved between two epochs needs.
  // restore_state throws InvalidArgument when the state is of another pipeline.
  Json save_state() const;
  void restore_state(const Json& state) const;

  const std::shared_ptr<const DatasetNode>& node() const { return node_; }

 private:
  template <typename Fn>
  static FilterFunction predicate(Fn fn) {
    return [call = internal::element_function<Truth>(std::move(fn))](const Element& e) { return call(e).value; };
  }
  // A bool, or a bool scalar tensor.
  struct Truth {
    Truth(bool truth) : value(truth) {}
    Truth(const Tensor& truth) : value(truth.item<bool>()) {}
    bool value;
  };
  // An integer, or an integer scalar tensor.
  struct Whole {
    template <std::integral I>
    Whole(I number) : value(static_cast<std::int64_t>(number)) {}
    Whole(const Tensor& number) : value(number.item<std::int64_t>()) {}
    std::int64_t value;
  };
  template <typename Fn>
  static KeyFunction key_function(Fn fn) {
    return [call = internal::element_function<Whole>(std::move(fn))](const Element& e) { return call(e).value; };
  }
  template <typename Fn>
  static ScanFunction scan_function(Fn fn) {
    return [fn = std::move(fn)](const Element& state, const Element& element) mutable {
      auto out = fn(state, element);
      if constexpr (std::is_convertible_v<decltype(out), Element>) {
        auto parts = Element(out).template parts<2>();
        return std::pair<Element, Element>(std::move(parts[0]), std::move(parts[1]));
      } else {
        return std::pair<Element, Element>(Element(std::get<0>(out)), Element(std::get<1>(out)));
      }
    };
  }
  template <typename Reduce>
  static GroupFunction group_function(Reduce reduce_func) {
    return [reduce = std::move(reduce_func)](std::int64_t key, const Dataset& group) mutable -> Dataset {
      if constexpr (std::is_invocable_r_v<Dataset, Reduce&, std::int64_t, const Dataset&>) {
        return reduce(key, group);
      } else {
        return reduce(Tensor::scalar(key), group);
      }
    };
  }
  Dataset padded_batches(std::int64_t batch_size, const std::vector<Shape>& padded_shapes,
                         const PaddingValues& padding_values, bool drop_remainder) const;
  static Dataset generated(std::function<Generator()> make, ElementSpec spec);
  // The specs of dtypes and shapes in one structure.
  static ElementSpec described(ElementSpec types, const std::optional<Nested<Shape>>& shapes);
  template <typename T>
  static Tensor vector_of(const std::vector<T>& values) {
    if constexpr (std::is_same_v<T, std::string>) {
      return Tensor::strings(values, {static_cast<std::int64_t>(values.size())});
    } else {
      return Tensor::from_vector(values);
    }
  }
  Dataset scan_elements(const Element& initial_state, ScanFunction fn) const;
  Dataset group_elements(KeyFunction key, GroupFunction reduce, const GroupByWindowOptions& options) const;
  Dataset bucket_elements(KeyFunction length, const std::vector<std::int64_t>& boundaries,
                          const std::vector<std::int64_t>& batch_sizes, const BucketOptions& options) const;
  Dataset resample_elements(std::function<Tensor(const Element&)> class_of, const ResampleOptions& options) const;
  Dataset map_elements(MapFunction fn) const;
  Dataset filter_elements(FilterFunction fn) const;
  Dataset take_elements_while(FilterFunction fn) const;
  // TensorFlow's: the number of processors that this process may use.
  static std::int64_t default_cycle_length();
  Dataset interleave_elements(FlatMapFunction fn, std::int64_t cycle_length, std::int64_t block_length) const;

  std::shared_ptr<const DatasetNode> node_;
};

struct Dataset::SampleKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> seed = std::nullopt;
  bool stop_on_empty_dataset = false;
  bool rerandomize_each_iteration = false;
};
inline Dataset Dataset::sample_from_datasets(const std::vector<Dataset>& datasets, const std::vector<double>& weights,
                                             const SampleKeywords& o) {
  return sample_from_datasets(datasets, {weights, o.seed, o.stop_on_empty_dataset, o.rerandomize_each_iteration});
}

}  // namespace lockstep::data

namespace lockstep {
// Python's len(dataset): see Dataset::len().
inline std::int64_t len(const data::Dataset& dataset) { return dataset.len(); }
}  // namespace lockstep

#include "lockstep/data/dataset_arguments.h"
