#include "lockstep/ops/feature_crosses.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"

namespace lockstep {
namespace {

// The inputs as the list arguments of SparseCross and RaggedCross.
struct Columns {
  std::string order;  // R, S or D for each input
  Tensors ragged_values, ragged_splits, indices, sparse_values, shapes, dense;

  static Tensor features(const Tensor& values) {
    return values.dtype() == DType::kString ? values : ops::cast(values, DType::kInt64);
  }
  void add(const CrossInput& input) {
    if (const SparseTensor* const sparse = input.sparse()) {
      order += 'S';
      indices.push_back(sparse->indices());
      sparse_values.push_back(features(sparse->values()));
      shapes.push_back(sparse->dense_shape());
    } else if (input.ragged().ragged_rank() == 0) {
      order += 'D';
      dense.push_back(features(input.ragged().flat_values()));
    } else if (input.ragged().ragged_rank() == 1) {
      order += 'R';
      ragged_values.push_back(features(input.ragged().flat_values()));
      ragged_splits.push_back(input.ragged().row_splits());
    } else {
      throw_invalid_argument(
          fmt::format("cross: invalid input of shape {}, expected two axes", input.ragged().shape().to_string()));
    }
  }
};
std::vector<DType> dtypes(const Tensors& tensors) {
  std::vector<DType> out;
  for (const Tensor& tensor : tensors) out.push_back(tensor.dtype());
  return out;
}
Tensors in_line(const std::vector<const Tensors*>& lists) {
  Tensors out;
  for (const Tensors* const list : lists) out.insert(out.end(), list->begin(), list->end());
  return out;
}
Columns columns_of(const char* function, const std::vector<CrossInput>& inputs) {
  if (inputs.empty()) throw_invalid_argument(fmt::format("{} requires an input", function));
  Columns columns;
  for (const CrossInput& input : inputs) columns.add(input);
  return columns;
}

RaggedTensor ragged_cross(const std::vector<CrossInput>& inputs, bool hashed, const CrossHashedKeywords& o) {
  const Columns c = columns_of("ragged.cross", inputs);
  const Tensors made = ops::call(
      "RaggedCross", in_line({&c.ragged_values, &c.ragged_splits, &c.indices, &c.sparse_values, &c.shapes, &c.dense}),
      {{"Nsparse", static_cast<std::int64_t>(c.indices.size())},
       {"input_order", c.order},
       {"hashed_output", hashed},
       {"num_buckets", o.num_buckets},
       {"hash_key", o.hash_key},
       {"ragged_values_types", dtypes(c.ragged_values)},
       {"ragged_splits_types", dtypes(c.ragged_splits)},
       {"sparse_values_types", dtypes(c.sparse_values)},
       {"dense_types", dtypes(c.dense)},
       {"out_values_type", hashed ? DType::kInt64 : DType::kString},
       {"out_row_splits_type", DType::kInt64}});
  return RaggedTensor::from_row_splits(made[0], made[1]);
}

// Of sparse and dense columns: SparseCrossV2, or SparseCross with hashes.
SparseTensor sparse_cross(const char* op, const std::vector<CrossInput>& inputs, const Tensors& scalars,
                          ops::Attrs attrs) {
  const Columns c = columns_of("sparse.cross", inputs);
  if (!c.ragged_values.empty())
    throw_invalid_argument("sparse.cross: invalid input: found a ragged tensor, expected sparse ones and tensors");
  attrs.set("N", static_cast<std::int64_t>(c.indices.size()));
  attrs.set("sparse_types", dtypes(c.sparse_values));
  attrs.set("dense_types", dtypes(c.dense));
  const Tensors made = ops::call(op, in_line({&c.indices, &c.sparse_values, &c.shapes, &c.dense, &scalars}), attrs);
  return {made[0], made[1], made[2]};
}

}  // namespace

namespace ragged {

RaggedTensor cross(const std::vector<CrossInput>& inputs) { return ragged_cross(inputs, false, {}); }
RaggedTensor cross_hashed(const std::vector<CrossInput>& inputs, const CrossHashedKeywords& o) {
  return ragged_cross(inputs, true, o);
}

}  // namespace ragged

namespace sparse {

SparseTensor cross(const std::vector<CrossInput>& inputs, const CrossKeywords& o) {
  return sparse_cross("SparseCrossV2", inputs, {Tensor::strings({o.separator}, {})}, {});
}
SparseTensor cross_hashed(const std::vector<CrossInput>& inputs, const CrossHashedKeywords& o) {
  const auto has_text = [](const CrossInput& input) {
    return (input.sparse() ? input.sparse()->dtype() : input.ragged().dtype()) == DType::kString;
  };
  const bool text = std::all_of(inputs.begin(), inputs.end(), has_text);
  return sparse_cross("SparseCross", inputs, {},
                      {{"hashed_output", true},
                       {"num_buckets", o.num_buckets},
                       {"hash_key", o.hash_key},
                       {"out_type", DType::kInt64},
                       {"internal_type", text ? DType::kString : DType::kInt64}});
}

}  // namespace sparse
}  // namespace lockstep
