// tf.data.experimental: functions that Dataset has as members now, in the form that apply() takes:
// dataset.apply(experimental::unique()).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data::experimental {

using data::AutoShardPolicy;
using data::AUTOTUNE;
using data::INFINITE_CARDINALITY;
using data::UNKNOWN_CARDINALITY;

using data::Cardinality;
inline Cardinality cardinality(const Dataset& dataset) { return dataset.cardinality(); }
inline Element get_single_element(const Dataset& dataset) { return dataset.get_single_element(); }
inline ElementSpec get_structure(const Dataset& dataset) { return dataset.element_spec(); }
inline Dataset Counter(std::int64_t start = 0, std::int64_t step = 1) { return Dataset::counter(start, step); }
inline Dataset Counter(const CounterOptions& o) { return Dataset::counter(o); }
inline Dataset RandomDataset(const RandomOptions& o = {}) { return Dataset::random(o); }
inline Dataset choose_from_datasets(const std::vector<Dataset>& datasets, const Dataset& choice_dataset,
                                    bool stop_on_empty_dataset = false) {
  return Dataset::choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset);
}
inline Dataset sample_from_datasets(const std::vector<Dataset>& datasets, const SampleOptions& o = {}) {
  return Dataset::sample_from_datasets(datasets, o);
}
template <std::same_as<double> W = double>  // as {.weights = {…}} would be a list
Dataset sample_from_datasets(const std::vector<Dataset>& datasets, const std::vector<W>& weights,
                             const Dataset::SampleKeywords& o = {}) {
  return Dataset::sample_from_datasets(datasets, weights, o);
}
inline void save(const Dataset& dataset, const std::string& path) { dataset.save(path); }
inline Dataset load(const std::string& path) { return Dataset::load(path); }

inline auto assert_cardinality(std::int64_t expected_cardinality) {
  return [=](const Dataset& dataset) { return dataset.assert_cardinality(expected_cardinality); };
}
inline auto unique() {
  return [](const Dataset& dataset) { return dataset.unique(); };
}
inline auto ignore_errors(bool log_warning = false) {
  return [=](const Dataset& dataset) { return dataset.ignore_errors(log_warning); };
}
inline auto enumerate_dataset(std::int64_t start = 0) {
  return [=](const Dataset& dataset) { return dataset.enumerate(start); };
}
inline auto unbatch() {
  return [](const Dataset& dataset) { return dataset.unbatch(); };
}
inline auto snapshot(const std::string& path) {
  return [=](const Dataset& dataset) { return dataset.snapshot(path); };
}
// All tensors are on the CPU: a copy is the dataset itself.
inline auto copy_to_device(const std::string& target_device) {
  static_cast<void>(target_device);
  return [](const Dataset& dataset) { return dataset; };
}
inline auto prefetch_to_device(const std::string& device, std::optional<std::int64_t> buffer_size = std::nullopt) {
  static_cast<void>(device);
  return [=](const Dataset& dataset) { return dataset.prefetch(buffer_size.value_or(-1)); };
}
struct ShuffleAndRepeatKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> count = std::nullopt;  // default: for ever
  std::optional<std::int64_t> seed = std::nullopt;
};
inline auto shuffle_and_repeat(std::int64_t buffer_size, const ShuffleAndRepeatKeywords& o = {}) {
  return [=](const Dataset& dataset) { return dataset.shuffle(buffer_size, o.seed).repeat(o.count.value_or(-1)); };
}
inline auto dense_to_ragged_batch(std::int64_t batch_size, bool drop_remainder = false) {
  return [=](const Dataset& dataset) { return dataset.ragged_batch(batch_size, drop_remainder); };
}
inline auto dense_to_ragged_batch(std::int64_t batch_size, const BatchOptions& o) {
  return dense_to_ragged_batch(batch_size, o.drop_remainder);
}
inline auto dense_to_ragged_batch(const BatchKeywords& o) {
  return dense_to_ragged_batch(o.batch_size, o.drop_remainder);
}
template <typename Fn>
auto map_and_batch(Fn map_func, std::int64_t batch_size, const BatchOptions& o = {}) {
  return [=](const Dataset& dataset) { return dataset.map(map_func).batch(batch_size, o); };
}
template <typename Fn>
auto take_while(Fn predicate) {
  return [=](const Dataset& dataset) { return dataset.take_while(predicate); };
}
template <typename Fn, typename State>
auto scan(const State& initial_state, Fn scan_func) {
  return [=](const Dataset& dataset) { return dataset.scan(initial_state, scan_func); };
}
struct ParallelInterleaveKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t cycle_length = 1;
  std::int64_t block_length = 1;
  bool sloppy = false;  // elements keep their order whatever it is
};
template <typename Fn>
auto parallel_interleave(Fn map_func, const ParallelInterleaveKeywords& o) {
  return [=](const Dataset& dataset) { return dataset.interleave(map_func, o.cycle_length, o.block_length); };
}
template <typename Fn>
auto parallel_interleave(Fn map_func, std::int64_t cycle_length, std::int64_t block_length = 1) {
  return [=](const Dataset& dataset) { return dataset.interleave(map_func, cycle_length, block_length); };
}
template <typename Key, typename Reduce>
auto group_by_window(Key key_func, Reduce reduce_func, const GroupByWindowOptions& o) {
  return [=](const Dataset& dataset) { return dataset.group_by_window(key_func, reduce_func, o); };
}
template <typename Key, typename Reduce>
auto group_by_window(Key key_func, Reduce reduce_func, std::int64_t window_size) {
  return group_by_window(std::move(key_func), std::move(reduce_func), GroupByWindowOptions{.window_size = window_size});
}
template <typename Length>
auto bucket_by_sequence_length(Length element_length_func, const std::vector<std::int64_t>& bucket_boundaries,
                               const std::vector<std::int64_t>& bucket_batch_sizes, const BucketOptions& o = {}) {
  return [=](const Dataset& dataset) {
    return dataset.bucket_by_sequence_length(element_length_func, bucket_boundaries, bucket_batch_sizes, o);
  };
}
template <typename Class>
auto rejection_resample(Class class_func, const std::vector<double>& target_dist,
                        const std::vector<double>& initial_dist = {}, std::optional<std::int64_t> seed = std::nullopt) {
  return
      [=](const Dataset& dataset) { return dataset.rejection_resample(class_func, target_dist, initial_dist, seed); };
}

}  // namespace lockstep::data::experimental
