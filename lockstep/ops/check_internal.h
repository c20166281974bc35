// Enforces what signatures.tsv declares: kinds, minima and allowed values of attributes, number, dtypes, ranks and
// equal shapes of inputs.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

// The most tensors that one list argument may stand for.
inline constexpr std::int64_t kMaxListLength = std::int64_t{1} << 20;

// The kind of an attribute declared as `type` ("int", "list(shape)", ...): its index among Attr's alternatives.
std::size_t attr_kind(std::string_view type);

// Checks every attribute of the signature and adds the defaults of missing ones. A missing one without a default throws
// InvalidArgument, but for a tensor: the value of a constant with an unsupported dtype is reported where it is read.
// Attributes that the signature does not know are ignored, as TensorFlow ignores those of newer producers.
void check_attrs(const Signature& signature, Attrs& attrs);

// How many tensors an argument stands for, by checked attributes. Throws InvalidArgument above kMaxListLength.
std::size_t list_length(const Signature& signature, const ArgDef& arg, const Attrs& attrs);

// The dtype of each input tensor in order, by checked attributes.
std::vector<DType> input_types(const Signature& signature, const Attrs& attrs);

// The limits of a signature for the shapes of one input argument.
struct InputLimit {
  int min_rank = 0, max_rank = kAnyRank;  // of each tensor
  int same_shape_as = -1;                 // the number of an earlier argument

  static constexpr int kAnyRank = std::numeric_limits<int>::max();
};

// One for each input argument of a signature of the op table, or none where no input has a limit. Constant time.
std::span<const InputLimit> input_limits(const Signature& signature);

// Throws InvalidArgument unless each input has a rank that the signature allows, and the shape of another input where
// the signature asks for it, as far as they are known; handles of resources have no shape here. `attrs` is checked.
void check_shapes(const Signature& signature, std::span<const Tensor> inputs, const Attrs& attrs);

}  // namespace lockstep::ops
