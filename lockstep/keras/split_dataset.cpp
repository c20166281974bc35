// keras.utils.split_dataset.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/node_internal.h"
#include "lockstep/keras/utils.h"
#include "lockstep/ops/functions.h"
#include "lockstep/random/python_random.h"

namespace lockstep::utils {
namespace {

constexpr std::int64_t kLargestSeed = 1000000;

// Of `total` samples; empty: the rest.
std::optional<std::int64_t> samples(const std::optional<Number>& size, const char* what, std::int64_t total) {
  if (!size) return std::nullopt;
  if (size->is_integer() ? size->integer() > 0 && size->integer() < total : size->value() > 0 && size->value() < 1) {
    return size->is_integer() ? size->integer()
                              : static_cast<std::int64_t>(std::nearbyint(size->value() * static_cast<double>(total)));
  }
  throw_invalid_argument(fmt::format(
      "split_dataset: invalid {}: found {}, expected a number of samples from 1 to {} or a fraction between 0 and 1",
      what, size->value(), total - 1));
}

data::Dataset dataset_of(const std::vector<data::Element>& elements, std::int64_t batch_size) {
  std::vector<Tensors> leaves(elements[0].num_leaves());
  for (const data::Element& element : elements) {
    const Tensors parts = element.flatten();
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i].push_back(parts[i]);
  }
  Tensors columns;
  for (const Tensors& column : leaves) columns.push_back(ops::stack(column));
  auto dataset = data::Dataset::from_tensor_slices(elements[0].pack(columns));
  if (batch_size > 0) dataset = dataset.batch(batch_size);
  return dataset.prefetch(data::AUTOTUNE);
}

}  // namespace

std::pair<data::Dataset, data::Dataset> split_dataset(const data::Dataset& dataset, const SplitOptions& o) {
  if (!o.left_size && !o.right_size) throw_invalid_argument("split_dataset requires left_size or right_size");
  if (dataset.cardinality() == data::kInfiniteCardinality)
    throw_invalid_argument("split_dataset: the dataset is infinite: limit it with take()");
  const std::int64_t batch_size = dataset.node()->batch_size();
  std::vector<data::Element> elements;
  for (const data::Element& element : batch_size > 0 ? dataset.unbatch() : dataset) elements.push_back(element);
  const auto total = static_cast<std::int64_t>(elements.size());
  auto left = samples(o.left_size, "left_size", total), right = samples(o.right_size, "right_size", total);
  if (!left) left = total - *right;
  if (!right) right = total - *left;
  if (*left + *right > total || *left == 0 || *right == 0) {
    throw_invalid_argument(fmt::format(
        "split_dataset: invalid sizes: found {} and {} of {} samples, expected two parts that are not empty", *left,
        *right, total));
  }
  if (o.shuffle) {
    std::vector<data::Element> shuffled;
    for (const std::int64_t i :
         random::python_shuffled(o.seed ? *o.seed : random::python_randint(0, kLargestSeed), total))
      shuffled.push_back(elements[static_cast<std::size_t>(i)]);
    elements = std::move(shuffled);
  }
  return {dataset_of({elements.begin(), elements.begin() + *left}, batch_size),
          dataset_of({elements.end() - *right, elements.end()}, batch_size)};
}

std::pair<data::Dataset, data::Dataset> split_dataset(const data::Element& arrays, const SplitOptions& o) {
  return split_dataset(data::Dataset::from_tensor_slices(arrays), o);
}

}  // namespace lockstep::utils
