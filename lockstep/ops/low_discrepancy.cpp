// Sequences that cover a range evenly: Sobol numbers, and pseudorandom permutations of indices.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "lockstep/ops/graph_rows_internal.h"
#include "lockstep/ops/kernels_internal.h"

namespace lockstep::ops {
namespace {

// A permutation of [0, 2^(2 * half)) by Feistel rounds of the block cipher Simon (eprint.iacr.org/2013/404), whose
// words have `half` bits here.
class IndexCipher {
 public:
  IndexCipher(int half, const std::array<std::uint32_t, 3>& key, std::int64_t rounds)
      : half_(half), mask_((std::uint64_t{1} << half) - 1) {
    for (const std::uint32_t word : key) keys_.push_back(word & mask_);
    std::uint64_t bits = 0x7369f885192c0ef5;
    for (auto i = keys_.size(); static_cast<std::int64_t>(i) < rounds; ++i, bits >>= 1) {
      const std::uint64_t before = keys_[i - 1];
      keys_.push_back((0xfffffffc & mask_) ^ (bits & 1) ^ keys_[i - 3] ^ left(before, half_ - 3) ^
                      left(before, half_ - 4));
    }
  }
  std::uint64_t operator()(std::uint64_t value) const {
    std::uint64_t high = (value >> half_) & mask_, low = value & mask_;
    for (std::size_t i = 0; i + 1 < keys_.size(); i += 2) {
      high ^= mixed(low) ^ keys_[i];
      low ^= mixed(high) ^ keys_[i + 1];
    }
    return (high << half_) | low;
  }

 private:
  std::uint64_t left(std::uint64_t x, int by) const { return ((x << by) | (x >> (half_ - by))) & mask_; }
  std::uint64_t mixed(std::uint64_t x) const { return (left(x, 1) & left(x, 8 % half_)) ^ left(x, 2); }

  int half_;
  std::uint64_t mask_;
  std::vector<std::uint64_t> keys_;
};

// Positions are enciphered until one is in range. The block has at least 16 bits.
std::uint64_t shuffled(std::uint64_t index, std::uint64_t most, const std::array<std::uint32_t, 3>& key,
                       std::int64_t rounds) {
  if (most == 0) return 0;
  int bits = static_cast<int>(std::ceil(std::log2(static_cast<double>(most))));
  bits = std::clamp(bits + bits % 2, 16, 64);
  const IndexCipher cipher(bits / 2, key, rounds);
  do index = cipher(index);
  while (index > most);
  return index;
}

std::uint64_t word_of(std::int64_t value, DType dtype) {
  const bool narrow = dtype == DType::kInt32 || dtype == DType::kUInt32;
  return narrow ? static_cast<std::uint32_t>(value) : static_cast<std::uint64_t>(value);
}

Tensors shuffle_indices(const Call& call) {
  const DType dtype = call.input(0).dtype();
  const Ints index = ints_in(call, 0), seeds = ints_in(call, 1), most = ints_in(call, 2);
  const std::int64_t rounds = call.attr<std::int64_t>("rounds");
  if (rounds < 4 || rounds % 2 != 0 || rounds > 1024)
    throw_invalid_argument(fmt::format("invalid rounds: found {}, expected an even number of at least 4", rounds));
  const Tensor &seed = call.input(1), &limit = call.input(2), &given = call.input(0);
  if (seed.rank() < 1 || seed.rank() > 2 || seed.dim(-1) != 3)
    throw_invalid_argument(fmt::format("seed must have the shape [3] or [n, 3], found {}", seed.shape().to_string()));
  const std::size_t count =
      std::max({index.size() * (given.rank() > 0 ? 1 : 0), seeds.size() / 3 * (seed.rank() > 1 ? 1 : 0),
                most.size() * (limit.rank() > 0 ? 1 : 0)});
  const bool scalar = given.rank() == 0 && seed.rank() == 1 && limit.rank() == 0;
  const std::size_t total = scalar ? 1 : count;
  if ((given.rank() > 0 && index.size() != total) || (seed.rank() > 1 && seeds.size() != 3 * total) ||
      (limit.rank() > 0 && most.size() != total))
    throw_invalid_argument("index, seed and max_index must have the same number of entries");
  Ints out;
  for (std::size_t i = 0; i < total; ++i) {
    const std::size_t s = seed.rank() > 1 ? 3 * i : 0;
    const std::array<std::uint32_t, 3> key{static_cast<std::uint32_t>(seeds[s]),
                                           static_cast<std::uint32_t>(seeds[s + 1]),
                                           static_cast<std::uint32_t>(seeds[s + 2])};
    const std::uint64_t value = word_of(index[given.rank() > 0 ? i : 0], dtype),
                        largest = word_of(most[limit.rank() > 0 ? i : 0], dtype);
    if (value > largest) throw_invalid_argument(fmt::format("index {} is more than max_index {}", value, largest));
    out.push_back(static_cast<std::int64_t>(shuffled(value, largest, key, rounds)));
  }
  const at::Tensor numbers = at::tensor(at::IntArrayRef(out), at::kLong).to(to_scalar_type(dtype));
  return one(scalar ? numbers.squeeze(0) : numbers);
}

Tensors sobol_numbers(const Call& call) {
  constexpr std::int64_t kMostAxes = 21201;
  const std::int64_t axes = int_in(call, 0), count = int_in(call, 1), skip = int_in(call, 2);
  if (axes < 1 || axes > kMostAxes)
    throw_invalid_argument(fmt::format("invalid dim: found {}, expected 1 to {}", axes, kMostAxes));
  if (count < 1)
    throw_invalid_argument(fmt::format("invalid num_results: found {}, expected a positive number", count));
  if (skip < 0 || skip >= std::numeric_limits<std::int32_t>::max() - count)
    throw_invalid_argument(fmt::format("invalid skip: found {}", skip));
  element_count({count, axes}, sizeof(double) * 2);
  constexpr int kBits = 30;
  at::Tensor directions = at::zeros({axes, kBits}, at::kLong);
  at::_sobol_engine_initialize_state_(directions, axes);
  // In the order of Gray codes, without the zero at the begin.
  const at::Tensor numbers = at::empty({count, axes}, at::kDouble);
  std::vector<std::int64_t> point(static_cast<std::size_t>(axes));
  const std::int64_t* direction = directions.const_data_ptr<std::int64_t>();
  double* to = numbers.mutable_data_ptr<double>();
  const auto flip = [&](int bit) {
    for (std::int64_t i = 0; i < axes; ++i) point[static_cast<std::size_t>(i)] ^= direction[i * kBits + bit];
  };
  const std::int64_t code = (skip + 1) ^ ((skip + 1) >> 1);
  for (int bit = 0; bit < kBits; ++bit) {
    if ((code >> bit) & 1) flip(bit);
  }
  for (std::int64_t n = skip + 1; n <= skip + count; ++n) {
    if (n > skip + 1) flip(std::min(std::countr_zero(static_cast<std::uint64_t>(n)), kBits - 1));
    for (const std::int64_t value : point) *to++ = static_cast<double>(value) * 0x1p-30;
  }
  return one(numbers.to(to_scalar_type(call.attr<DType>("dtype"))));
}

}  // namespace

void register_low_discrepancy(Table& table) {
  table.add("RandomIndexShuffle", nullptr, shuffle_indices);
  table.add("SobolSample", nullptr, sobol_numbers);
}

}  // namespace lockstep::ops
