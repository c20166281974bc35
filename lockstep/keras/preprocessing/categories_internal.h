// Shared by layers that return categories.
#pragma once

#include <string>
#include <utility>

#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::keras {

// Categories as output_mode asks for (categories.h), in this dtype. Categories of `depth` and above are left out of
// all modes but "int".
Tensor encode_categories(const Tensor& categories, const std::string& output_mode, std::int64_t depth, DType dtype);

// The arguments of a layer whose outputs may be sparse tensors in Keras; here they are dense tensors of the same
// values.
template <typename Options>
struct WithSparse : Options {
  WithSparse() = default;
  WithSparse(Options options) : Options(std::move(options)) {}
  bool sparse = false;
};
// Throws InvalidArgument where Keras has no sparse outputs.
void check_sparse(bool sparse, const std::string& output_mode, const std::string& who);

// The num_bins - 1 boundaries, or fewer, between quantiles of a summary (2, n): values in ascending order and how many
// elements each stands for.
std::vector<float> bin_boundaries(const Tensor& summary, std::int64_t num_bins);

// Two numbers of a salt, or the same one twice. Throws InvalidArgument, naming `who`, for more of them.
void normalize_salt(std::optional<std::vector<std::int64_t>>& salt, const std::string& who);

// Strings as numbers from 0 to num_buckets - 1: SipHash with the salt, else FarmHash. Integers by their digits.
Tensor hash_buckets(const Tensor& values, std::int64_t num_buckets,
                    const std::optional<std::vector<std::int64_t>>& salt);

}  // namespace lockstep::keras
