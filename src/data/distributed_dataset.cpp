#include "lockstep/data/distributed_dataset.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/functions.h"

namespace lockstep::distribute {
namespace {

data::Element rows(const data::Element& element, const RowRange& range) {
  return element.map([&](const Tensor& leaf) {
    return leaf.defined() ? ops::slice_axis(leaf, 0, range.begin, range.end) : leaf;
  });
}

std::int64_t row_count(const data::Element& element) {
  std::optional<std::int64_t> count;
  element.visit([&](const Tensor& leaf) {
    if (leaf.rank() == 0) {
      throw_invalid_argument("experimental_distribute_dataset: an element is a scalar; batch the dataset first");
    }
    if (count && *count != leaf.dim(0)) {
      throw_invalid_argument(fmt::format("experimental_distribute_dataset: the tensors of an element have {} and {} rows", *count, leaf.dim(0)));
    }
    count = leaf.dim(0);
  });
  return count.value_or(0);
}

}  // namespace

std::int64_t InputContext::get_per_replica_batch_size(std::int64_t global_batch_size) const {
  if (global_batch_size % num_replicas_in_sync != 0) {
    throw_invalid_argument(fmt::format("the global batch size {} is not divisible by {} replicas", global_batch_size, num_replicas_in_sync));
  }
  return global_batch_size / num_replicas_in_sync;
}

DistributedDataset Strategy::experimental_distribute_dataset(const data::Dataset& dataset) {
  const int replicas = num_replicas_in_sync();
  return DistributedDataset([dataset, replicas]() -> DistributedDataset::Steps {
    auto iterator = std::make_shared<data::DatasetIterator>(dataset.make_iterator());
    return [iterator, replicas]() -> std::optional<PerReplica<data::Element>> {
      const std::optional<data::Element> batch = iterator->next();
      if (!batch) return std::nullopt;
      if (replicas == 1) return PerReplica<data::Element>({*batch});
      std::vector<data::Element> parts;
      for (const RowRange& range : split_rows(row_count(*batch), replicas)) parts.push_back(rows(*batch, range));
      return PerReplica<data::Element>(std::move(parts));
    };
  });
}

DistributedDataset Strategy::distribute_datasets_from_function(const std::function<data::Dataset(const InputContext&)>& fn) {
  const int replicas = num_replicas_in_sync();
  const data::Dataset dataset = fn(InputContext{1, 0, replicas});
  return DistributedDataset([dataset, replicas]() -> DistributedDataset::Steps {
    auto iterator = std::make_shared<data::DatasetIterator>(dataset.make_iterator());
    return [iterator, replicas]() -> std::optional<PerReplica<data::Element>> {
      std::vector<data::Element> parts;
      for (int replica = 0; replica < replicas; ++replica) {
        if (std::optional<data::Element> element = iterator->next()) {
          parts.push_back(std::move(*element));
        } else if (parts.empty()) {
          return std::nullopt;
        } else {
          parts.push_back(rows(parts[0], {0, 0}));  // the odd replica out gets an empty batch
        }
      }
      return PerReplica<data::Element>(std::move(parts));
    };
  });
}

}  // namespace lockstep::distribute
