// Enforces what signatures.tsv declares: kinds, minima and allowed values of attributes, number and dtypes of inputs.
#pragma once

#include <cstdint>
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

}  // namespace lockstep::ops
