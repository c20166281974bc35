// keras.layers: numbers and strings as categories, without a vocabulary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/keras/layers/core.h"
#include "lockstep/tensor/optional_list.h"

namespace lockstep::layers {

// The results of these layers and the lookup layers for categories of shape (batch, n), with d of them:
//   "int"        the categories, (batch, n)
//   "one_hot"    (batch, n, d); (batch, d) when n is 1
//   "multi_hot"  (batch, d): 1 for each category that occurs
//   "count"      (batch, d): how often it occurs

struct DiscretizationOptions {
  OptionalList<double> bin_boundaries = {};   // ascending; or
  std::optional<std::int64_t> num_bins = {};  // how many bins adapt() finds
  double epsilon = 0.01;                      // error of the quantiles that adapt() estimates
  std::string output_mode = "int";
  DTypePolicy dtype = {};
  Shape input_shape = Shape::unknown_rank();
  std::string name = {};
  bool trainable = true;
};
// The number of the bin, int32: 0 below the first boundary, bin_boundaries.size() from the last one on. The output of
// other modes has the compute dtype. Throws InvalidArgument unless one of bin_boundaries and num_bins is given, and
// FailedPrecondition when it is called before adapt().
LayerHandle Discretization(DiscretizationOptions options = {});

struct HashingOptions {
  std::int64_t num_bins = 0;
  Json mask_value = nullptr;             // a string or an integer, which gets bin 0
  OptionalList<std::int64_t> salt = {};  // two numbers, or one for both: SipHash instead of FarmHash
  std::string output_mode = "int";
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};  // of the output; with "int", int64 unless it is an integer type
  Shape input_shape = Shape::unknown_rank();
};
// A hash of strings or integers, modulo num_bins; the bins are those of Keras and TensorFlow.
LayerHandle Hashing(std::int64_t num_bins, HashingOptions options = {});

struct HashedCrossingOptions {
  std::int64_t num_bins = 0;
  std::string output_mode = "int";  // or "one_hot"
  std::string name = {};
  bool trainable = true;
  std::optional<DTypePolicy> dtype = {};  // by default "int64" for "int", else the process's default policy
  Shape input_shape = Shape::unknown_rank();
};
// A hash of a combination of features: of two or more strings or integers, each of shape (), (batch) or (batch, 1).
LayerHandle HashedCrossing(std::int64_t num_bins, HashedCrossingOptions options = {});

}  // namespace lockstep::layers
