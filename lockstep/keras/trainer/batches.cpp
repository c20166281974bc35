#include "lockstep/keras/trainer/batches.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/data/fit_order_internal.h"
#include "lockstep/keras/layers/dtype_policy.h"
#include "lockstep/keras/trainer/epoch_iterator_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/fused_internal.h"

namespace lockstep::keras {
namespace {

Structure map_defined(const Structure& structure, const std::function<Tensor(const Tensor&)>& fn) {
  return structure.map([&](const Tensor& leaf) { return leaf.defined() ? fn(leaf) : leaf; });
}

class ArrayBatches : public BatchSource {
 public:
  ArrayBatches(Batch data, ArrayOptions options) : data_(std::move(data)), options_(std::move(options)) {
    rows_ = batch_rows(data_);
    if (data_.x.num_leaves() == 0 || !data_.x.flatten()[0].defined())
      throw_invalid_argument("x is an undefined tensor");
    if (options_.batch_size < 1)
      throw_invalid_argument(fmt::format("invalid batch_size: found {}, expected at least 1", options_.batch_size));
    if (!options_.class_weight.empty()) {
      data_.sample_weight = apply_class_weight(data_.y, data_.sample_weight, options_.class_weight);
    }
    for (const Structure* part : {&data_.x, &data_.y, &data_.sample_weight})
      part->visit([&](const Tensor& leaf) { has_other_fractions_ |= leaf.defined() && is_other_fraction(leaf); });
  }

  std::optional<std::int64_t> num_batches() const override {
    return (rows_ + options_.batch_size - 1) / options_.batch_size;
  }
  void reset() override {
    next_ = 0;
    if (options_.shuffle != Shuffle::kNone) seeds_ = data::draw_order_seeds();
    make_order(options_.batch_size);
  }
  std::optional<std::int64_t> batches_left() const override {
    return (rows_ - next_ + options_.batch_size - 1) / options_.batch_size;
  }
  Json save_state() const override {
    return {{"rows", rows_}, {"next", next_}, {"batch_size", order_batch_size_}, {"seeds", seeds_}};
  }
  void restore_state(const Json& state) override {
    const auto rows = state.at("rows").get<std::int64_t>();
    if (state.at("next").get<std::int64_t>() >= rows) {  // the pass was over
      next_ = rows_;
      return;
    }
    if (rows != rows_) {
      if (state.at("next") == 0) return reset();  // nothing of the pass has been read
      throw_invalid_argument(fmt::format(
          "invalid data for resuming within an epoch: found {1} samples, expected {0}; resume with the same data", rows,
          rows_));
    }
    next_ = std::clamp<std::int64_t>(state.at("next").get<std::int64_t>(), 0, rows_);
    seeds_ = state.at("seeds").get<data::OrderSeeds>();
    make_order(std::max<std::int64_t>(1, state.at("batch_size").get<std::int64_t>()));
  }
  std::optional<Batch> next() override {
    if (next_ >= rows_) return std::nullopt;
    const std::int64_t begin = next_;
    next_ = std::min(rows_, next_ + options_.batch_size);
    if (order_.empty()) return standardized(batch_slice(data_, begin, next_));
    const Tensor indices =
        Tensor::from_vector(std::vector<std::int64_t>(order_.begin() + begin, order_.begin() + next_));
    const auto take = [&](const Tensor& leaf) { return ops::gather(leaf, indices); };
    return standardized(
        {map_defined(data_.x, take), map_defined(data_.y, take), map_defined(data_.sample_weight, take)});
  }

 private:
  bool is_other_fraction(const Tensor& leaf) const { return is_floating(leaf.dtype()) && leaf.dtype() != floatx_; }
  // As in Keras, fractions of arrays become floatx; those of datasets stay what they are.
  Batch standardized(Batch batch) const {
    if (!has_other_fractions_) return batch;
    const auto cast = [&](const Tensor& leaf) { return is_other_fraction(leaf) ? ops::cast(leaf, floatx_) : leaf; };
    return {map_defined(batch.x, cast), map_defined(batch.y, cast), map_defined(batch.sample_weight, cast)};
  }
  void make_order(std::int64_t batch_size) {
    order_batch_size_ = batch_size;
    if (options_.shuffle == Shuffle::kSamples) order_ = data::fit_order(rows_, seeds_);
    if (options_.shuffle == Shuffle::kBatch) order_ = data::batch_order(rows_, batch_size, seeds_);
  }

  const DType floatx_ = DTypeLike(default_floatx());
  bool has_other_fractions_ = false;
  Batch data_;
  ArrayOptions options_;
  std::int64_t rows_ = 0;
  std::int64_t next_ = 0;
  data::OrderSeeds seeds_{};           // of the pass
  std::int64_t order_batch_size_ = 1;  // with which its order was made
  std::vector<std::int64_t> order_;
};

}  // namespace

bool is_of_arrays(const BatchSource& source) { return dynamic_cast<const ArrayBatches*>(&source) != nullptr; }

std::int64_t batch_rows(const Batch& batch) {
  std::optional<std::int64_t> rows;
  const auto check = [&](const char* what, const Structure& structure) {
    structure.visit([&](const Tensor& leaf) {
      if (!leaf.defined()) return;
      if (leaf.rank() == 0)
        throw_invalid_argument(
            fmt::format("invalid {}: found a scalar, expected an array whose first axis counts samples", what));
      if (rows && *rows != leaf.dim(0)) {
        throw_invalid_argument(
            fmt::format("invalid {}: found {} samples, expected {} as in the other arrays", what, leaf.dim(0), *rows));
      }
      rows = leaf.dim(0);
    });
  };
  check("x", batch.x);
  check("y", batch.y);
  check("sample_weight", batch.sample_weight);
  return rows.value_or(0);
}

std::int64_t first_rows(const Batch& batch) {
  std::optional<std::int64_t> rows;
  for (const Structure* part : {&batch.x, &batch.y, &batch.sample_weight}) {
    part->visit([&](const Tensor& leaf) {
      if (!rows && leaf.defined() && leaf.rank() > 0) rows = leaf.dim(0);
    });
  }
  return rows.value_or(0);
}

Batch batch_slice(const Batch& batch, std::int64_t begin, std::int64_t end) {
  const auto cut = [&](const Tensor& leaf) {
    if (begin == 0 && end == leaf.dim(0)) return leaf;
    if (end > leaf.dim(0)) {
      throw_invalid_argument(
          fmt::format("invalid batch: it has parts of {} and of {} rows; the elements of a dataset "
                      "must be batches, as dataset.batch(32) makes them",
                      end, leaf.dim(0)));
    }
    const auto rows = ops::try_rows(leaf, begin, end);
    return rows ? *rows : ops::slice_axis(leaf, 0, begin, end);
  };
  return {map_defined(batch.x, cut), map_defined(batch.y, cut), map_defined(batch.sample_weight, cut)};
}

std::unique_ptr<BatchSource> array_batches(Batch data, ArrayOptions options) {
  return std::make_unique<ArrayBatches>(std::move(data), std::move(options));
}

Structure apply_class_weight(const Structure& y, const Structure& sample_weight,
                             const std::map<std::int64_t, double>& class_weight) {
  const Tensors targets = y.flatten();
  if (targets.size() != 1 || !targets[0].defined()) {
    throw_invalid_argument("class_weight requires a model with a single output");
  }
  if (sample_weight.num_leaves() > 0 && sample_weight.flatten()[0].defined()) {
    throw_invalid_argument("invalid arguments: class_weight and sample_weight exclude each other");
  }
  Tensor labels = targets[0];
  if (labels.rank() > 1 && labels.dim(-1) > 1) labels = ops::argmax(labels, -1);
  labels = ops::reshape(labels, ops::Ints{labels.dim(0)});
  if (is_floating(labels.dtype())) labels = ops::round(labels);  // half to even, as Keras
  labels = ops::cast(labels, DType::kInt64);
  std::vector<float> weights;
  for (const std::int64_t label : labels.to_vector<std::int64_t>()) {
    const auto weight = class_weight.find(label);
    weights.push_back(weight == class_weight.end() ? 1.0F : static_cast<float>(weight->second));
  }
  return Structure(Tensor::from_vector(weights));
}

}  // namespace lockstep::keras
