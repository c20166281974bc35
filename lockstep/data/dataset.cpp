#include "lockstep/data/dataset.h"

#include <algorithm>
#include <limits>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/data/replay_limit_internal.h"
#include "lockstep/data/sequence_internal.h"
#include "lockstep/ops/composite_specs.h"
#include "lockstep/random/seeds.h"

template class lockstep::Nested<lockstep::TensorSpec>;

namespace lockstep {

std::ostream& operator<<(std::ostream& out, const TensorSpec& spec) {
  if (spec.ragged) return out << RaggedTensorSpec::of_element(spec);
  return out << fmt::format("TensorSpec(shape={}, dtype=tf.{}, name={})",
                            spec.shape.known_rank() ? spec.shape.to_string() : "<unknown>", dtype_name(spec.dtype),
                            spec.name.empty() ? "None" : "'" + spec.name + "'");
}
std::ostream& operator<<(std::ostream& out, const Nested<TensorSpec>& specs) {
  if (specs.is_leaf()) return out << specs.leaf();
  const char* separator = "";
  if (specs.is_list()) {
    out << "(";
    for (const auto& part : specs.parts()) {
      out << separator << part;
      separator = ", ";
    }
    return out << (specs.size() == 1 ? ",)" : ")");
  }
  out << "{";
  for (const auto& [key, part] : specs.entries()) {
    out << separator << "'" << key << "': " << part;
    separator = ", ";
  }
  return out << "}";
}

}  // namespace lockstep

namespace lockstep::data {
namespace {

constexpr std::int64_t kAutotunedPrefetch = 2;

void check_positive(const char* what, std::int64_t value) {
  if (value < 1) throw_invalid_argument(fmt::format("invalid {}: found {}, expected at least 1", what, value));
}

}  // namespace

// ---- DatasetIterator -----------------------------------------------------------------------------------

DatasetIterator::DatasetIterator(std::shared_ptr<const DatasetNode> node)
    : node_(Dataset(std::move(node)).node()), iterator_(node_->make_iterator()) {}
DatasetIterator::~DatasetIterator() = default;
DatasetIterator::DatasetIterator(DatasetIterator&&) noexcept = default;
DatasetIterator& DatasetIterator::operator=(DatasetIterator&& other) noexcept {
  iterator_ = std::move(other.iterator_);  // before the node that it refers to
  node_ = std::move(other.node_);
  return *this;
}

std::optional<Element> DatasetIterator::next() {
  require();
  Item item;
  if (!iterator_->next(item)) return std::nullopt;
  Element element = item.element();
  return has_ragged(element) ? with_plain_rows(element) : std::move(element);
}

std::int64_t DatasetIterator::skip(std::int64_t n) {
  require();
  return iterator_->advance(n);
}

Json DatasetIterator::save_state() const {
  require();
  return {{"iterator", iterator_->save()}, {"nodes", save_nodes(*node_)}};
}

void DatasetIterator::require() const {
  if (!iterator_) throw_failed_precondition("the dataset's iterator was moved from");
}

void DatasetIterator::restore_state(const Json& state) {
  require();
  const ReplayLimit limit;
  iterator_->restore(state_at(state, "iterator"));
  restore_nodes(*node_, state_at(state, "nodes"));  // last: iterators that were made took seeds
}

struct DatasetInputIterator::State {
  std::optional<LoopElement> current;
  bool was_read = false;
};

DatasetInputIterator::DatasetInputIterator(std::shared_ptr<DatasetIterator> iterator)
    : iterator_(std::move(iterator)), state_(std::make_shared<State>()) {}

bool DatasetInputIterator::at_end() const {
  if (!state_) return true;
  if (!state_->was_read) {
    state_->current = iterator_->next();
    state_->was_read = true;
  }
  return !state_->current;
}

const LoopElement& DatasetInputIterator::operator*() const& {
  if (at_end()) throw_out_of_range("the dataset has no more elements");
  return *state_->current;
}

DatasetInputIterator& DatasetInputIterator::operator++() {
  if (at_end()) throw_out_of_range("the dataset has no more elements");
  state_->current.reset();
  state_->was_read = false;
  return *this;
}

// ---- Dataset -------------------------------------------------------------------------------------------

Dataset::Dataset() : node_(empty_node()) {}
Dataset::Dataset(std::shared_ptr<const DatasetNode> node) : node_(std::move(node)) {
  if (!node_) throw_invalid_argument("a dataset requires a description");
}

Dataset Dataset::zip(const std::vector<Dataset>& datasets) {
  if (datasets.empty()) throw_invalid_argument("zip requires at least one dataset");
  std::vector<NodePtr> nodes;
  for (const Dataset& dataset : datasets) nodes.push_back(dataset.node_);
  return Dataset(zip_node(std::move(nodes)));
}

Dataset Dataset::choose_from_datasets(const std::vector<Dataset>& datasets, const Dataset& choices,
                                      bool stop_on_empty_dataset) {
  if (datasets.empty()) throw_invalid_argument("choose_from_datasets requires at least one dataset");
  std::vector<NodePtr> nodes{choices.node_};
  for (const Dataset& dataset : datasets) nodes.push_back(dataset.node_);
  return Dataset(choose_node(std::move(nodes), stop_on_empty_dataset));
}

Dataset Dataset::sample_from_datasets(const std::vector<Dataset>& datasets, const SampleOptions& options) {
  return Dataset(sample_node(datasets, options));
}
Dataset Dataset::random(const RandomOptions& options) {
  return Dataset(random_node(random::op_seeds(options.seed), options.rerandomize_each_iteration));
}
Dataset Dataset::counter(std::int64_t start, std::int64_t step) {
  if (step == 0) return from_tensors(Tensor::scalar(start)).repeat();
  // As far as the distance from the start is an int64.
  using Int = std::numeric_limits<std::int64_t>;
  return range(
      start,
      step > 0 ? Int::max() + std::min<std::int64_t>(start, 0) : Int::min() + 1 + std::max<std::int64_t>(start, 0),
      step);
}
Element Dataset::get_single_element() const {
  DatasetIterator iterator = make_iterator();
  std::optional<Element> element = iterator.next();
  if (!element) throw_invalid_argument("get_single_element: the dataset is empty");
  if (iterator.next()) throw_invalid_argument("get_single_element: the dataset has more than one element");
  return *std::move(element);
}

Dataset Dataset::unique() const { return Dataset(unique_node(node_)); }
Dataset Dataset::ignore_errors(bool log_warning) const { return Dataset(ignore_errors_node(node_, log_warning)); }
Dataset Dataset::scan_elements(const Element& initial_state, ScanFunction fn) const {
  return Dataset(scan_node(node_, initial_state, std::move(fn)));
}

Dataset Dataset::group_elements(KeyFunction key, GroupFunction reduce, const GroupByWindowOptions& options) const {
  if (options.window_size.has_value() == static_cast<bool>(options.window_size_func))
    throw_invalid_argument("group_by_window requires either window_size or window_size_func");
  if (options.window_size) check_positive("group_by_window: window_size", *options.window_size);
  const auto size =
      options.window_size_func ? options.window_size_func : [n = *options.window_size](std::int64_t) { return n; };
  return Dataset(group_by_window_node(node_, std::move(key), std::move(reduce), size));
}

Dataset Dataset::map_elements(MapFunction fn) const { return Dataset(map_node(node_, std::move(fn))); }
Dataset Dataset::filter_elements(FilterFunction fn) const { return Dataset(filter_node(node_, std::move(fn))); }
Dataset Dataset::take_elements_while(FilterFunction fn) const { return Dataset(take_while_node(node_, std::move(fn))); }

std::int64_t Dataset::default_cycle_length() { return std::max(1U, std::thread::hardware_concurrency()); }
Dataset Dataset::interleave_elements(FlatMapFunction fn, std::int64_t cycle_length, std::int64_t block_length) const {
  check_positive("interleave: cycle_length", cycle_length);
  check_positive("interleave: block_length", block_length);
  return Dataset(interleave_node(node_, std::move(fn), cycle_length, block_length));
}

Dataset Dataset::batch(std::int64_t batch_size, bool drop_remainder) const {
  check_positive("batch: batch_size", batch_size);
  return Dataset(batch_node(node_, batch_size, drop_remainder));
}

Dataset Dataset::ragged_batch(std::int64_t batch_size, bool drop_remainder) const {
  check_positive("ragged_batch: batch_size", batch_size);
  return Dataset(ragged_batch_node(node_, batch_size, drop_remainder));
}

Dataset Dataset::padded_batches(std::int64_t batch_size, const std::vector<Shape>& padded_shapes,
                                const PaddingValues& padding_values, bool drop_remainder) const {
  check_positive("padded_batch: batch_size", batch_size);
  return Dataset(padded_batch_node(node_, batch_size, padded_shapes, padding_values, drop_remainder));
}

Dataset Dataset::unbatch() const { return Dataset(unbatch_node(node_)); }

Dataset Dataset::shuffle(std::int64_t buffer_size, std::optional<std::int64_t> seed,
                         bool reshuffle_each_iteration) const {
  // UNKNOWN as a buffer size means all elements.
  if (buffer_size == kUnknownCardinality) buffer_size = std::numeric_limits<std::int64_t>::max();
  check_positive("shuffle: buffer_size", buffer_size);
  return Dataset(shuffle_node(node_, buffer_size, random::op_seeds(seed), reshuffle_each_iteration));
}

Dataset Dataset::repeat(std::int64_t count) const { return Dataset(repeat_node(node_, count)); }
Dataset Dataset::take(std::int64_t count) const { return count < 0 ? *this : Dataset(take_node(node_, count)); }
Dataset Dataset::skip(std::int64_t count) const { return count < 0 ? take(0) : Dataset(skip_node(node_, count)); }

Dataset Dataset::shard(std::int64_t num_shards, std::int64_t index) const {
  check_positive("shard: num_shards", num_shards);
  if (index < 0 || index >= num_shards) {
    throw_invalid_argument(fmt::format("shard: invalid index: found {}, expected 0 to {}", index, num_shards - 1));
  }
  return Dataset(shard_node(node_, num_shards, index));
}

Dataset Dataset::cache(const std::string& filename) const {
  return Dataset(filename.empty() ? cache_node(node_) : file_cache_node(node_, filename));
}

Dataset Dataset::prefetch(std::int64_t buffer_size) const {
  if (buffer_size < -1)
    throw_invalid_argument(fmt::format("prefetch: invalid buffer_size: found {}, expected at least 0", buffer_size));
  if (buffer_size == 0) return *this;
  return Dataset(prefetch_node(node_, buffer_size < 0 ? kAutotunedPrefetch : buffer_size));
}

Dataset Dataset::concatenate(const Dataset& other) const { return Dataset(concatenate_node(node_, other.node_)); }
Dataset Dataset::enumerate(std::int64_t start) const { return Dataset(enumerate_node(node_, start)); }
Dataset Dataset::assert_cardinality(std::int64_t count) const { return Dataset(assert_cardinality_node(node_, count)); }

Dataset Dataset::with_options(const Options& options) const { return Dataset(options_node(node_, options)); }

Options Dataset::options() const {
  // Through the first inputs: where several datasets come together, the first one's count.
  for (const DatasetNode* node = node_.get();; node = node->input().get()) {
    if (node->options()) return *node->options();
    if (node->inputs().empty()) return {};
  }
}

Cardinality Dataset::cardinality() const { return node_->cardinality(); }
std::int64_t Dataset::len() const {
  const std::int64_t count = cardinality();
  if (count < 0) {
    throw_invalid_argument(fmt::format("the dataset has no length: its number of elements is {}",
                                       count == kInfiniteCardinality ? "infinite" : "unknown"));
  }
  return count;
}
ElementSpec Dataset::element_spec() const { return node_->element_spec(); }
DatasetInputIterator Dataset::begin() const {
  return DatasetInputIterator(std::make_shared<DatasetIterator>(make_iterator()));
}

Json Dataset::save_state() const { return save_nodes(*node_); }
void Dataset::restore_state(const Json& state) const { restore_nodes(*node_, state); }

}  // namespace lockstep::data
