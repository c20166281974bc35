// tf.ragged.cross, tf.sparse.cross and their hashed forms: all combinations of the features of each row.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/ops/sparse_tensor.h"

namespace lockstep {

// Features of each row: a tensor of two axes, a sparse or a ragged one, of strings or integers.
class CrossInput {
 public:
  CrossInput(const SparseTensor& features) : features_(features) {}
  CrossInput(const RaggedTensor& features) : features_(features) {}
  CrossInput(const Tensor& features) : features_(RaggedTensor(features)) {}
  const SparseTensor* sparse() const { return std::get_if<SparseTensor>(&features_); }
  const RaggedTensor& ragged() const { return std::get<RaggedTensor>(features_); }

 private:
  std::variant<RaggedTensor, SparseTensor> features_;
};
struct CrossHashedKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_buckets = 0;  // the hashes modulo this number; 0: the hashes
  std::int64_t hash_key = 0xDECAFCAFFELL;
};

namespace ragged {

// "a_X_b" of each feature a of the first input and b of the second, and so on, strings. Throws InvalidArgument for
// inputs with other than two axes, or with different numbers of rows.
RaggedTensor cross(const std::vector<CrossInput>& inputs);
// int64.
RaggedTensor cross_hashed(const std::vector<CrossInput>& inputs, const CrossHashedKeywords& o = {});
template <std::integral I>
RaggedTensor cross_hashed(const std::vector<CrossInput>& inputs, I num_buckets) {
  return cross_hashed(inputs, CrossHashedKeywords{.num_buckets = num_buckets});
}

}  // namespace ragged

namespace sparse {

struct CrossKeywords {
  FieldNamesOnly names_only = {};
  std::string separator = "_X_";
};
// As ragged::cross(), of tensors and sparse tensors.
SparseTensor cross(const std::vector<CrossInput>& inputs, const CrossKeywords& o = {});
SparseTensor cross_hashed(const std::vector<CrossInput>& inputs, const CrossHashedKeywords& o = {});
template <std::integral I>
SparseTensor cross_hashed(const std::vector<CrossInput>& inputs, I num_buckets) {
  return cross_hashed(inputs, CrossHashedKeywords{.num_buckets = num_buckets});
}

}  // namespace sparse
}  // namespace lockstep
