#include "lockstep/keras/trainer/dataset_batches.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::keras {
namespace {

class DatasetBatches : public BatchSource {
 public:
  DatasetBatches(data::Dataset dataset, bool steps_given, std::map<std::int64_t, double> class_weight)
      : dataset_(std::move(dataset)), steps_given_(steps_given), class_weight_(std::move(class_weight)) {}

  std::optional<std::int64_t> num_batches() const override {
    const std::int64_t count = dataset_.cardinality();
    return count >= 0 ? std::optional(count) : std::nullopt;
  }

  void reset() override {
    // Keras opens an iterator to look at a dataset of known size, and another to read it.
    if (dataset_.cardinality() >= 0 && !steps_given_) dataset_.make_iterator();
    iterator_.emplace(dataset_.make_iterator());
  }

  std::optional<Batch> next() override {
    if (!iterator_) reset();
    std::optional<data::Element> element = iterator_->next();
    if (!element) return std::nullopt;
    Batch batch = split(*element);
    if (!class_weight_.empty()) batch.sample_weight = apply_class_weight(batch.y, batch.sample_weight, class_weight_);
    return batch;
  }

 private:
  static Batch split(const data::Element& element) {
    if (!element.is_list()) return {element, {}, {}};
    switch (element.items().size()) {
      case 1: return {element[0], {}, {}};
      case 2: return {element[0], element[1], {}};
      case 3: return {element[0], element[1], element[2]};
      default:
        throw_invalid_argument(fmt::format("a dataset's element has {} parts; expected x, (x, y) or (x, y, sample_weight)",
                                           element.items().size()));
    }
  }

  data::Dataset dataset_;
  bool steps_given_;
  std::map<std::int64_t, double> class_weight_;
  std::optional<data::DatasetIterator> iterator_;
};

}  // namespace

std::unique_ptr<BatchSource> dataset_batches(data::Dataset dataset, bool steps_given,
                                             std::map<std::int64_t, double> class_weight) {
  return std::make_unique<DatasetBatches>(std::move(dataset), steps_given, std::move(class_weight));
}

}  // namespace lockstep::keras
