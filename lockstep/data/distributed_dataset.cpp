#include "lockstep/data/distributed_dataset.h"

#include <deque>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/data/auto_shard_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::distribute {
namespace {

using data::AutoShardPolicy;
using data::Element;
using Elements = std::vector<Element>;

Element rows(const Element& element, const RowRange& range) {
  return element.map(
      [&](const Tensor& leaf) { return leaf.defined() ? ops::slice_axis(leaf, 0, range.begin, range.end) : leaf; });
}

std::int64_t row_count(const Element& element) {
  std::optional<std::int64_t> count;
  element.visit([&](const Tensor& leaf) {
    if (!leaf.defined()) return;
    if (leaf.rank() == 0) {
      throw_invalid_argument(
          "experimental_distribute_dataset requires batches: an element is a scalar; batch the dataset first");
    }
    if (count && *count != leaf.dim(0)) {
      throw_invalid_argument(fmt::format(
          "experimental_distribute_dataset: invalid element: its tensors have {} and {} rows, expected equal numbers",
          *count, leaf.dim(0)));
    }
    count = leaf.dim(0);
  });
  return count.value_or(0);
}

// Runs a piece of a pipeline; when it throws, the other workers hear of it.
template <typename Fn>
auto shared_failure(collectives::Communicator* group, Fn fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const std::exception& e) {
    if (group) group->fail(fmt::format("its input pipeline failed: {}", e.what()));
    throw;
  }
}

// ---- elements of no rows -------------------------------------------------------------------------------

Json describe(const Element& element) {
  if (element.is_leaf()) {
    const Tensor& leaf = element.leaf();
    if (!leaf.defined()) return nullptr;
    Json shape = Json::array();
    for (const std::int64_t dim : leaf.shape().dims()) shape.push_back(dim);
    return {{"dtype", static_cast<int>(leaf.dtype())}, {"shape", std::move(shape)}};
  }
  if (element.is_list()) {
    Json items = Json::array();
    for (const Element& item : element.parts()) items.push_back(describe(item));
    return items;
  }
  Json entries = Json::array();
  for (const auto& [key, value] : element.entries()) entries.push_back({key, describe(value)});
  return {{"dict", std::move(entries)}};
}

// Elements that are not batches count as one.
bool has_rows(const Element& element) {
  bool some = false;
  element.visit([&](const Tensor& leaf) { some = some || (leaf.defined() && (leaf.rank() == 0 || leaf.dim(0) > 0)); });
  return some;
}

// The element that describe() was given, without rows; scalars stay, as zeros.
Element without_rows(const Json& described) {
  if (described.is_null()) return Element();
  if (described.is_array()) {
    Element::List items;
    for (const Json& item : described) items.push_back(without_rows(item));
    return Element::list(std::move(items));
  }
  if (described.contains("dict")) {
    Element::Dict entries;
    for (const Json& entry : described["dict"])
      entries.emplace_back(entry[0].get<std::string>(), without_rows(entry[1]));
    return Element::dict(std::move(entries));
  }
  auto dims = described["shape"].get<std::vector<std::int64_t>>();
  if (!dims.empty()) dims[0] = 0;
  const auto dtype = static_cast<DType>(described["dtype"].get<int>());
  if (dtype == DType::kString) return Element(Tensor::strings({}, Shape(dims)));
  return Element(Tensor::zeros(Shape(dims), dtype));
}

// ---- steps that end together ---------------------------------------------------------------------------

// The part of a step from a worker's own pipeline: an element for each of its first replicas; nothing at its end.
using LocalSteps = std::function<std::optional<Elements>()>;

// Steps of workers whose pipelines differ: in each, the workers exchange which of them have data.
class CommonSteps {
 public:
  CommonSteps(LocalSteps local, const InputShare& share) : local_(std::move(local)), share_(share) {}

  std::optional<PerReplica<Element>> next() {
    while (true) {
      std::optional<Elements> own;
      if (!ended_) own = shared_failure(share_.group, local_);
      ended_ = !own;
      if (own && !empty_) empty_ = without_rows(describe(own->front()));
      if (!share_.group) {
        if (!own) return std::nullopt;
        return filled(std::move(*own));
      }
      const Outcome outcome = agree(own);
      if (outcome == Outcome::kEnd) return std::nullopt;
      if (outcome == Outcome::kStep) return filled(own ? std::move(*own) : Elements());
    }
  }

 private:
  enum class Outcome { kStep, kNobodyHasRows, kEnd };

  // Each worker sends "-" at its end, else how many of its elements have rows, and "?" after it when it does not know
  // what elements look like.
  Outcome agree(const std::optional<Elements>& own) {
    std::int64_t count = 0;
    if (own) {
      for (const Element& element : *own) count += has_rows(element) ? 1 : 0;
    }
    const std::vector<std::string> words =
        share_.group->all_gather((own ? std::to_string(count) : "-") + (empty_ ? "" : "?"));
    bool all_ended = true, asked = false;
    int source_rank = -1, with_rows = 0;
    for (std::size_t rank = 0; rank < words.size(); ++rank) {
      const std::string& word = words[rank];
      if (word.empty()) throw_internal("a worker sent no report of its data");
      all_ended = all_ended && word[0] == '-';
      with_rows += word[0] != '-' && word[0] != '0' ? 1 : 0;
      const bool knows = word.back() != '?';
      asked = asked || !knows;
      if (knows && source_rank < 0) source_rank = static_cast<int>(rank);
    }
    if (all_ended) return Outcome::kEnd;
    if (asked && source_rank >= 0) {
      const std::string description =
          share_.group->broadcast(share_.group->rank() == source_rank ? dump_json(describe(*empty_)) : "", source_rank);
      if (!empty_) empty_ = without_rows(parse_json(description, "a worker's description of its elements"));
    }
    return with_rows > 0 ? Outcome::kStep : Outcome::kNobodyHasRows;
  }

  // Replicas without an element get one of no rows.
  PerReplica<Element> filled(Elements elements) const {
    while (static_cast<int>(elements.size()) < share_.num_local_replicas) elements.push_back(*empty_);
    return PerReplica<Element>(std::move(elements));
  }

  LocalSteps local_;
  InputShare share_;
  std::optional<Element> empty_;
  bool ended_ = false;
};

DistributedDataset common_dataset(std::function<LocalSteps()> make, const InputShare& share) {
  return DistributedDataset([make = std::move(make), share]() -> DistributedDataset::Steps {
    const auto steps = std::make_shared<CommonSteps>(make(), share);
    return [steps] { return steps->next(); };
  });
}

// ---- the policies --------------------------------------------------------------------------------------

// Rows of each global batch for the local replicas.
DistributedDataset data_sharded(const data::Dataset& dataset, const InputShare& share) {
  return DistributedDataset([dataset, share]() -> DistributedDataset::Steps {
    auto iterator = std::make_shared<data::DatasetIterator>(dataset.make_iterator());
    return [iterator, share]() -> std::optional<PerReplica<Element>> {
      return shared_failure(share.group, [&]() -> std::optional<PerReplica<Element>> {
        const std::optional<Element> batch = iterator->next();
        if (!batch) return std::nullopt;
        if (share.num_replicas == 1) return PerReplica<Element>({*batch});
        const std::vector<RowRange> ranges = split_rows(row_count(*batch), share.num_replicas);
        Elements parts;
        for (int i = 0; i < share.num_local_replicas; ++i) {
          parts.push_back(rows(*batch, ranges[static_cast<std::size_t>(share.first_replica + i)]));
        }
        return PerReplica<Element>(std::move(parts));
      });
    };
  });
}

// A worker's own batches, each given out over as many steps as there are workers. Worker w begins with part w of a
// batch, so the parts of the workers at a step together make one, as tf.data's rebatching does. A last, partial batch
// takes fewer steps.
class Rebatched {
 public:
  Rebatched(const data::Dataset& dataset, int workers, int worker)
      : iterator_(dataset.make_iterator()),
        workers_(workers),
        worker_(worker),
        batch_size_(data::nominal_batch_size(dataset)) {}

  std::optional<Element> next() {
    if (parts_.empty() && !take_batch()) return std::nullopt;
    Element part = std::move(parts_.front());
    parts_.pop_front();
    return part;
  }

 private:
  bool take_batch() {
    const std::optional<Element> batch = iterator_.next();
    if (!batch) return false;
    const std::int64_t count = row_count(*batch);
    batch_size_ = std::max(batch_size_, count);
    const std::vector<RowRange> sizes = split_rows(batch_size_, workers_);
    std::int64_t begin = 0;
    for (int i = 0; i < workers_ && (begin < count || count == batch_size_); ++i) {
      const RowRange& size = sizes[static_cast<std::size_t>((i + worker_) % workers_)];
      const std::int64_t end = std::min(count, begin + size.end - size.begin);
      parts_.push_back(rows(*batch, {begin, end}));
      begin = end;
    }
    return true;
  }

  data::DatasetIterator iterator_;
  int workers_, worker_;
  std::int64_t batch_size_;
  std::deque<Element> parts_;
};

DistributedDataset rebatched(const data::Dataset& dataset, const InputShare& share) {
  return common_dataset(
      [dataset, share]() -> LocalSteps {
        const auto own = std::make_shared<Rebatched>(dataset, share.num_workers(), share.worker());
        return [own, replicas = share.num_local_replicas]() -> std::optional<Elements> {
          const std::optional<Element> part = own->next();
          if (!part) return std::nullopt;
          Elements elements;
          for (const RowRange& range : split_rows(row_count(*part), replicas)) elements.push_back(rows(*part, range));
          return elements;
        };
      },
      share);
}

}  // namespace

Element joined_rows(const Elements& parts) {
  std::vector<Tensors> leaves;
  for (const Element& part : parts) leaves.push_back(part.flatten());
  Tensors whole;
  for (std::size_t i = 0; i < leaves[0].size(); ++i) {
    Tensors column;
    for (const Tensors& each : leaves) column.push_back(each[i]);
    whole.push_back(column[0].defined() && column.size() > 1 ? ops::concat(column, 0) : column[0]);
  }
  return parts[0].pack(whole);
}

std::function<std::optional<Element>()> file_sharded_pass(const data::Dataset& dataset, int workers,
                                                          std::int64_t pass) {
  const auto pipelines = std::make_shared<std::vector<Rebatched>>();
  for (int worker = 0; worker < workers; ++worker) {
    const data::Dataset own = data::shard_files(dataset, workers, worker);
    for (std::int64_t before = 1; before < pass; ++before) own.make_iterator();
    pipelines->emplace_back(own, workers, worker);
  }
  return [pipelines]() -> std::optional<Element> {
    while (true) {
      Elements parts;
      bool some = false;
      for (Rebatched& pipeline : *pipelines) {
        std::optional<Element> part = pipeline.next();
        if (!part) continue;
        some = some || has_rows(*part);
        parts.push_back(std::move(*part));
      }
      if (parts.empty()) return std::nullopt;
      if (some) return joined_rows(parts);
    }
  };
}

std::int64_t InputContext::get_per_replica_batch_size(std::int64_t global_batch_size) const {
  if (global_batch_size % num_replicas_in_sync != 0) {
    throw_invalid_argument(fmt::format("invalid global batch size: {} is not divisible by {} replicas",
                                       global_batch_size, num_replicas_in_sync));
  }
  return global_batch_size / num_replicas_in_sync;
}

AutoShardPolicy agree_on_policy(const data::Dataset& dataset, collectives::Communicator& group) {
  Json decision;
  if (group.rank() == 0) {
    try {
      decision = {{"policy", static_cast<int>(data::resolve_policy(dataset, group.size()))},
                  {"seeds", dataset.save_state()}};
    } catch (const Error& e) {
      decision = {{"code", static_cast<int>(e.code())}, {"message", e.message()}};
    }
  }
  decision =
      parse_json(group.broadcast(group.rank() == 0 ? dump_json(decision) : "", 0), "the chief's decision on a dataset");
  if (decision.contains("message")) {
    throw_error(static_cast<Code>(decision["code"].get<int>()), decision["message"].get<std::string>());
  }
  shared_failure(&group, [&] { dataset.restore_state(decision["seeds"]); });
  return static_cast<AutoShardPolicy>(decision["policy"].get<int>());
}

DistributedDataset distribute_dataset(const data::Dataset& dataset, const InputShare& share) {
  if (!share.group) return data_sharded(dataset, share);
  const AutoShardPolicy policy = agree_on_policy(dataset, *share.group);
  if (policy == AutoShardPolicy::kData) return data_sharded(dataset, share);
  if (policy == AutoShardPolicy::kFile) {
    return rebatched(
        shared_failure(share.group, [&] { return data::shard_files(dataset, share.num_workers(), share.worker()); }),
        share);
  }
  if (share.worker() == 0 && !data::has_shard(dataset)) {
    log_warning(
        "auto-sharding is OFF and the dataset has no shard(): all {} workers see every element, so an epoch has {} "
        "times "
        "as many",
        share.num_workers(), share.num_workers());
  }
  return rebatched(dataset, share);
}

DistributedDataset distribute_from_function(const std::function<data::Dataset(const InputContext&)>& fn,
                                            const InputShare& share, const InputOptions& options) {
  require_function(fn, "distribute_datasets_from_function");
  const data::Dataset dataset = shared_failure(share.group, [&] {
    return fn(InputContext{share.num_workers(), share.worker(), share.num_replicas});
  });
  const int replicas = share.num_local_replicas;
  const bool copies = options.experimental_replication_mode == InputReplicationMode::kPerReplica;
  return common_dataset(
      [dataset, replicas, copies]() -> LocalSteps {
        const auto iterators = std::make_shared<std::vector<data::DatasetIterator>>();
        for (int i = 0; i < (copies ? replicas : 1); ++i) iterators->push_back(dataset.make_iterator());
        return [iterators, replicas]() -> std::optional<Elements> {
          Elements elements;
          for (int replica = 0; replica < replicas; ++replica) {
            std::optional<Element> element = (*iterators)[static_cast<std::size_t>(replica) % iterators->size()].next();
            if (!element) break;
            elements.push_back(std::move(*element));
          }
          if (elements.empty()) return std::nullopt;
          return elements;
        };
      },
      share);
}

namespace {

InputShare share_of(const Strategy& strategy) {
  return {strategy.communicator(), strategy.num_replicas_in_sync(), strategy.first_local_replica(),
          strategy.num_local_replicas()};
}

}  // namespace

DistributedDataset Strategy::experimental_distribute_dataset(const data::Dataset& dataset) {
  const auto source = std::make_shared<const data::Dataset>(dataset);
  const DistributedDataset parts = distribute_dataset(dataset, share_of(*this));
  return {[parts] { return parts.begin_steps(); }, source};
}

DistributedDataset Strategy::distribute_datasets_from_function(
    const std::function<data::Dataset(const InputContext&)>& fn) {
  return distribute_datasets_from_function(fn, InputOptions());
}

DistributedDataset Strategy::distribute_datasets_from_function(
    const std::function<data::Dataset(const InputContext&)>& fn, const InputOptions& options) {
  return distribute_from_function(fn, share_of(*this), options);
}

data::ElementSpec DistributedDataset::element_spec() const {
  if (!source_) throw_failed_precondition("element_spec: the datasets of the workers are made by a function");
  return source_->element_spec();
}

}  // namespace lockstep::distribute
