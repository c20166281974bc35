// The keyword arguments of fit, evaluate and predict.
#pragma once

#include <concepts>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/keras/callbacks/callback.h"
#include "lockstep/keras/nested.h"
#include "lockstep/keras/trainer/batched_data.h"
#include "lockstep/keras/trainer/batches.h"
#include "lockstep/keras/trainer/preemption.h"

namespace lockstep::keras {

// Arrays to validate on; sample_weight may stay empty.
struct ValidationArrays {
  Structure x;
  Structure y;
  Structure sample_weight = {};
};
// Nothing, arrays as in {x, y} or {x, y, sample_weight}, or batches.
class ValidationData {
 public:
  ValidationData() = default;
  ValidationData(std::nullopt_t) {}
  ValidationData(ValidationArrays arrays);
  template <typename T>
  requires std::is_constructible_v<BatchedData, T&&> &&
      (!std::is_same_v<std::remove_cvref_t<T>, ValidationData>)ValidationData(T&& data)
      : ValidationData(BatchedData(std::forward<T>(data)), nullptr) {}
  ValidationData(Structure x, Structure y, Structure sample_weight = {});

  // At most one of the two is not null.
  const ValidationArrays* arrays() const { return arrays_.get(); }
  const BatchedData* batches() const { return batches_.get(); }

 private:
  ValidationData(BatchedData data, std::nullptr_t);
  std::shared_ptr<const ValidationArrays> arrays_;
  std::shared_ptr<const BatchedData> batches_;
};

// fit's shuffle: true, false or "batch".
struct ShuffleArg {
  ShuffleArg(bool on = true) : mode(on ? Shuffle::kSamples : Shuffle::kNone) {}
  ShuffleArg(const char* text);  // "batch"; throws InvalidArgument for another word
  Shuffle mode;
};

// fit's validation_freq: after each so many epochs, or after these epochs, counted from 1: {1, 2, 10}.
class ValidationFreq {
 public:
  // Throws InvalidArgument for a number below 1.
  ValidationFreq(int every = 1);
  ValidationFreq(std::initializer_list<int> epochs) : epochs_(epochs), listed_(true) {}
  ValidationFreq(std::vector<int> epochs) : epochs_(std::move(epochs)), listed_(true) {}
  bool includes(int epoch) const;  // counted from 0

 private:
  int every_ = 1;
  std::vector<int> epochs_;
  bool listed_ = false;
};

// Weights of classes: {{0, 1.0}, {1, 5.0}}, or any std::map of whole numbers.
class ClassWeight : public std::map<std::int64_t, double> {
 public:
  using map::map;
  ClassWeight(std::nullopt_t) {}
  template <std::integral Class, typename Weight>
  ClassWeight(const std::map<Class, Weight>& weights) : map(weights.begin(), weights.end()) {}
};

// The x of a call by names: tensors, or a dataset with the targets in it.
class Inputs : public Structure {
 public:
  using Structure::Structure;
  Inputs() = default;
  Inputs(const Structure& tensors) : Structure(tensors) {}
  template <typename T>
  requires(std::is_constructible_v<BatchedData, const T&> && !std::is_convertible_v<const T&, Structure>)
      Inputs(const T& data)
      : data_(std::make_shared<const BatchedData>(data)) {}

  const std::shared_ptr<const BatchedData>& data() const { return data_; }  // or null

 private:
  std::shared_ptr<const BatchedData> data_;
};

// 0: nothing, 1: a progress bar, 2: a line for each epoch, -1 or "auto": a bar.
class Verbose {
 public:
  template <std::integral T>
  constexpr Verbose(T level) : level_(static_cast<int>(level)) {}
  Verbose(const char* text);  // throws InvalidArgument for another word than "auto"
  constexpr operator int() const { return level_; }

 private:
  int level_;
};

// Keras's keyword arguments with its defaults. x and y are for calls with names only:
// fit({.x = images, .y = labels, .epochs = 2}).
struct FitOptions {
  FieldNamesOnly names_only = {};
  Inputs x = {};
  Structure y = {};
  std::optional<std::int64_t> batch_size = {};  // of arrays, also of validation_data next to a dataset; default: 32
  int epochs = 1;                               // index of the last epoch + 1
  Verbose verbose = -1;
  CallbackArgs callbacks = {};
  double validation_split = 0.0;  // arrays: the last samples, before shuffling
  ValidationData validation_data = {};
  ShuffleArg shuffle = true;
  ClassWeight class_weight = {};
  Structure sample_weight = {};
  int initial_epoch = 0;
  std::optional<std::int64_t> steps_per_epoch = {};
  std::optional<std::int64_t> validation_steps = {};
  std::optional<std::int64_t> validation_batch_size = {};
  ValidationFreq validation_freq = 1;
  // Not in Keras: when requested, fit ends after the step at hand. Workers agree on the step: when one of them is
  // asked, Trainer::preempted() becomes true on all after the same step, and callbacks see it in after_callbacks, the
  // last hook that is called. fit returns within the epoch, without on_epoch_end and on_train_end.
  PreemptionToken preemption = {};
};

struct EvaluateOptions {
  FieldNamesOnly names_only = {};
  Inputs x = {};
  Structure y = {};
  std::optional<std::int64_t> batch_size = {};
  Verbose verbose = -1;
  Structure sample_weight = {};
  std::optional<std::int64_t> steps = {};
  CallbackArgs callbacks = {};
  bool return_dict = false;  // Results are a list and a dict in any case; true: in alphabetical order, as in Keras
};

// Of train_on_batch and test_on_batch.
struct BatchOptions {
  FieldNamesOnly names_only = {};
  Structure sample_weight = {};
  ClassWeight class_weight = {};  // of train_on_batch
  bool return_dict = false;       // Results are a list and a dict in any case; true: in alphabetical order
};

struct PredictOptions {
  FieldNamesOnly names_only = {};
  Inputs x = {};
  std::optional<std::int64_t> batch_size = {};
  Verbose verbose = -1;
  std::optional<std::int64_t> steps = {};
  CallbackArgs callbacks = {};
};

}  // namespace lockstep::keras
