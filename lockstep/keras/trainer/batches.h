// Batches of training data, from arrays or from a dataset.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "lockstep/base/json.h"
#include "lockstep/keras/nested.h"

namespace lockstep::keras {

// Inputs, targets and weights of some samples; y and sample_weight may be undefined leaves.
struct Batch {
  Structure x;
  Structure y;
  Structure sample_weight;
};

// Rows of the first leaf that is defined. Throws InvalidArgument when leaves differ in length or are scalars.
std::int64_t batch_rows(const Batch& batch);
// The same without these checks: a user-defined step may take parts of any lengths. 0 if all are scalars.
std::int64_t first_rows(const Batch& batch);
// Rows begin … end-1 of every defined leaf, sharing memory.
Batch batch_slice(const Batch& batch, std::int64_t begin, std::int64_t end);

// How fit() orders the samples of arrays.
enum class Shuffle {
  kNone,
  kSamples,  // one permutation of all samples an epoch
  kBatch,    // rows are permuted within each batch
};

// The source of a loop's batches.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Batches of one pass; empty when unknown before the pass has ended.
  virtual std::optional<std::int64_t> num_batches() const = 0;
  // The shape of x as the source declares it, where x is one tensor: extents that vary are unknown.
  virtual std::optional<Shape> declared_input_shape() const { return std::nullopt; }
  // Whether the source declares the number of rows of its batches.
  virtual bool has_static_rows() const { return false; }
  // Starts a pass.
  virtual void reset() = 0;
  // Counts a pass that is not read: Keras opens more iterators of a dataset than it uses, and shuffles count them.
  virtual void skip_pass() {}
  // The same for a pass of which Keras reads the beginning.
  virtual void peek() { skip_pass(); }
  // Of a DatasetCreator, which Keras 2 alone has: fit reads nothing before the first epoch.
  void set_keras2_order() { keras2_order_ = true; }
  bool has_keras2_order() const { return keras2_order_; }
  // Hooks of data sets of the user's.
  virtual void on_epoch_begin() {}
  virtual void on_epoch_end() {}
  // The next batch; empty at the end of the pass.
  virtual std::optional<Batch> next() = 0;
  // Batches of this pass that are left, where the source counts them.
  virtual std::optional<std::int64_t> batches_left() const { return std::nullopt; }
  // The position, from which a source that was made in the same way over the same data continues, whatever the number
  // of replicas. restore_state replaces reset(); it throws InvalidArgument when the state belongs to other data.
  virtual Json save_state() const = 0;
  virtual void restore_state(const Json& state) = 0;

 private:
  bool keras2_order_ = false;
};

// Batches of arrays. Every leaf must have the same number of rows; throws InvalidArgument naming the
// difference. The permutation is Keras's: a function of the global seed alone (each epoch repeats it), or a
// new one each epoch when no seed was set. class_weight multiplies sample weights by the class of y
// (argmax for one-hot targets); classes that are not in it weigh 1.
struct ArrayOptions {
  std::int64_t batch_size = 32;
  Shuffle shuffle = Shuffle::kNone;
  std::map<std::int64_t, double> class_weight;
};
std::unique_ptr<BatchSource> array_batches(Batch data, ArrayOptions options);

// sample_weight times the weight of each sample's class.
Structure apply_class_weight(const Structure& y, const Structure& sample_weight,
                             const std::map<std::int64_t, double>& class_weight);

}  // namespace lockstep::keras
