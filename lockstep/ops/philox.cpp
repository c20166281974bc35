#pragma GCC optimize("fp-contract=off")

#include "lockstep/ops/philox_internal.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace lockstep::ops {
namespace {

constexpr std::uint32_t kMultiplierA = 0xD2511F53, kMultiplierB = 0xCD9E8D57;
constexpr std::uint32_t kKeyStep0 = 0x9E3779B9, kKeyStep1 = 0xBB67AE85;
constexpr double kTwoPi = 2.0 * 3.14159265358979323846;

float unit_float(std::uint32_t word) { return std::bit_cast<float>(0x3F800000u | (word & 0x7FFFFFu)) - 1.0f; }

double unit_double(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t mantissa = (static_cast<std::uint64_t>(high & 0xFFFFFu) << 32) | low;
  return std::bit_cast<double>((1023ull << 52) | mantissa) - 1.0;
}

// What two words (double: four) become: a sine and a cosine value.
template <typename T>
struct Pair {
  T first, second;
};

Pair<float> box_muller(std::uint32_t x0, std::uint32_t x1) {
  float u = unit_float(x0);
  if (u < 1.0e-7f) u = 1.0e-7f;
  const float angle = static_cast<float>(kTwoPi * static_cast<double>(unit_float(x1)));
  const float radius = sqrtf(-2.0f * logf(u));
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  return {sine * radius, cosine * radius};
}

Pair<double> box_muller(std::uint32_t x0, std::uint32_t x1, std::uint32_t x2, std::uint32_t x3) {
  double u = unit_double(x0, x1);
  if (u < 1.0e-7) u = 1.0e-7;
  const double angle = kTwoPi * unit_double(x2, x3);
  const double radius = std::sqrt(-2.0 * std::log(u));
  double sine, cosine;
  sincos(angle, &sine, &cosine);
  return {sine * radius, cosine * radius};
}

// Calls emit(position, values of one group) for each group of `kGroup` elements that the span touches,
// and copies the part inside the span.
template <int kGroup, typename T, typename MakeGroup>
void fill_groups(std::int64_t offset, std::span<T> out, const MakeGroup& make) {
  const std::int64_t end = offset + static_cast<std::int64_t>(out.size());
  T group[kGroup];
  for (std::int64_t at = offset; at < end;) {
    const std::int64_t index = at / kGroup;
    const std::int64_t begin = index * kGroup;
    const std::int64_t stop = std::min<std::int64_t>(begin + kGroup, end);
    T* target = out.data() + (at - offset);
    if (at == begin && stop == begin + kGroup) {
      make(static_cast<std::uint64_t>(index), target);
    } else {
      make(static_cast<std::uint64_t>(index), group);
      std::copy(group + (at - begin), group + (stop - begin), target);
    }
    at = stop;
  }
}

}  // namespace

PhiloxState PhiloxState::skipped(std::uint64_t blocks) const {
  PhiloxState next = *this;
  next.counter_low += blocks;
  if (next.counter_low < counter_low) ++next.counter_high;
  return next;
}

PhiloxBlock philox_block(const PhiloxState& state) {
  std::uint32_t k0 = static_cast<std::uint32_t>(state.key), k1 = static_cast<std::uint32_t>(state.key >> 32);
  std::uint32_t c0 = static_cast<std::uint32_t>(state.counter_low);
  std::uint32_t c1 = static_cast<std::uint32_t>(state.counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(state.counter_high);
  std::uint32_t c3 = static_cast<std::uint32_t>(state.counter_high >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(kMultiplierA) * c0;
    const std::uint64_t p1 = static_cast<std::uint64_t>(kMultiplierB) * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += kKeyStep0;
    k1 += kKeyStep1;
  }
  return {c0, c1, c2, c3};
}

namespace {

constexpr int kLanes = 16;

// Words 0 … 3 of the block at `state` and of the next ones, in loops over the blocks that the compiler vectorizes.
void philox_blocks(const PhiloxState& state, std::uint32_t (&c)[4][kLanes]) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const PhiloxState own = state.skipped(static_cast<std::uint64_t>(lane));
    c[0][lane] = static_cast<std::uint32_t>(own.counter_low);
    c[1][lane] = static_cast<std::uint32_t>(own.counter_low >> 32);
    c[2][lane] = static_cast<std::uint32_t>(own.counter_high);
    c[3][lane] = static_cast<std::uint32_t>(own.counter_high >> 32);
  }
  std::uint32_t k0 = static_cast<std::uint32_t>(state.key), k1 = static_cast<std::uint32_t>(state.key >> 32);
  for (int round = 0; round < 10; ++round, k0 += kKeyStep0, k1 += kKeyStep1) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t p0 = static_cast<std::uint64_t>(kMultiplierA) * c[0][lane];
      const std::uint64_t p1 = static_cast<std::uint64_t>(kMultiplierB) * c[2][lane];
      c[0][lane] = static_cast<std::uint32_t>(p1 >> 32) ^ c[1][lane] ^ k0;
      c[1][lane] = static_cast<std::uint32_t>(p1);
      c[2][lane] = static_cast<std::uint32_t>(p0 >> 32) ^ c[3][lane] ^ k1;
      c[3][lane] = static_cast<std::uint32_t>(p0);
    }
  }
}

}  // namespace

PhiloxState philox_from_seeds(std::int64_t seed, std::int64_t seed2) {
  return {static_cast<std::uint64_t>(seed), 0, static_cast<std::uint64_t>(seed2)};
}

PhiloxState philox_from_stateless_seed(std::int64_t seed0, std::int64_t seed1) {
  constexpr std::uint64_t kScrambleKey = 0x3EC8F720ull | (0x02461E29ull << 32);
  const PhiloxBlock m =
      philox_block({kScrambleKey, static_cast<std::uint64_t>(seed0), static_cast<std::uint64_t>(seed1)});
  return {m[0] | (static_cast<std::uint64_t>(m[1]) << 32), 0, m[2] | (static_cast<std::uint64_t>(m[3]) << 32)};
}

std::uint32_t PhiloxStream::next() {
  if (used_ == 4) {
    block_ = philox_block(state_);
    state_ = state_.skipped(1);
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

double PhiloxStream::next_double() {
  const std::uint32_t high = next();
  return unit_double(high, next());
}

float PhiloxStream::next_float() { return unit_float(next()); }

namespace {

template <typename T, typename Draw>
T draw_below(T limit, const Draw& draw) {
  if ((limit & (limit - 1)) == 0) return draw() & (limit - 1);
  const T skipped = std::numeric_limits<T>::max() % limit + 1;
  T value = draw();
  while (value < skipped) value = draw();
  return value % limit;
}

}  // namespace

std::uint32_t PhiloxStream::next_below(std::uint32_t limit) {
  return draw_below<std::uint32_t>(limit, [this] { return next(); });
}
std::uint64_t PhiloxStream::next_below64(std::uint64_t limit) {
  return draw_below<std::uint64_t>(limit, [this] {
    const std::uint64_t low = next();
    return low | static_cast<std::uint64_t>(next()) << 32;
  });
}

namespace {

// Groups of four floats, of one block each; whole runs of blocks are computed together.
template <typename MakeGroup>
void fill_from_blocks(const PhiloxState& state, std::int64_t offset, std::span<float> out, const MakeGroup& make) {
  const auto fill = [&](std::int64_t at, std::span<float> part) {
    fill_groups<4>(at, part, [&](std::uint64_t index, float* values) {
      const PhiloxBlock x = philox_block(state.skipped(index));
      make(x[0], x[1], x[2], x[3], values);
    });
  };
  constexpr std::size_t kWhole = 4 * kLanes;
  std::size_t done = std::min(out.size(), static_cast<std::size_t>((4 - offset % 4) % 4));
  fill(offset, out.first(done));
  for (; out.size() - done >= kWhole; done += kWhole) {
    std::uint32_t words[4][kLanes];
    philox_blocks(state.skipped(static_cast<std::uint64_t>(offset + static_cast<std::int64_t>(done)) / 4), words);
    for (int lane = 0; lane < kLanes; ++lane)
      make(words[0][lane], words[1][lane], words[2][lane], words[3][lane], out.data() + done + 4 * lane);
  }
  fill(offset + static_cast<std::int64_t>(done), out.subspan(done));
}

}  // namespace

void philox_uniform(const PhiloxState& state, std::int64_t offset, std::span<float> out) {
  fill_from_blocks(
      state, offset, out, [](std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d, float* values) {
        values[0] = unit_float(a), values[1] = unit_float(b), values[2] = unit_float(c), values[3] = unit_float(d);
      });
}

void philox_uniform(const PhiloxState& state, std::int64_t offset, std::span<double> out) {
  fill_groups<2>(offset, out, [&](std::uint64_t index, double* values) {
    const PhiloxBlock x = philox_block(state.skipped(index));
    values[0] = unit_double(x[0], x[1]);
    values[1] = unit_double(x[2], x[3]);
  });
}

void philox_normal(const PhiloxState& state, std::int64_t offset, std::span<float> out) {
  fill_from_blocks(state, offset, out,
                   [](std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d, float* values) {
                     const Pair<float> x = box_muller(a, b), y = box_muller(c, d);
                     values[0] = x.first, values[1] = x.second, values[2] = y.first, values[3] = y.second;
                   });
}

void philox_normal(const PhiloxState& state, std::int64_t offset, std::span<double> out) {
  fill_groups<2>(offset, out, [&](std::uint64_t index, double* values) {
    const PhiloxBlock x = philox_block(state.skipped(index));
    const Pair<double> a = box_muller(x[0], x[1], x[2], x[3]);
    values[0] = a.first, values[1] = a.second;
  });
}

namespace {

// Blocks of one stream, each made into two uniform or two normal numbers, of which the second is used first.
class PairStream {
 public:
  explicit PairStream(PhiloxState state) : state_(state) {}
  double uniform() {
    return take(uniform_, uniforms_, [this](std::span<double> pair) { philox_uniform(state_, 0, pair); });
  }
  double normal() {
    return take(normal_, normals_, [this](std::span<double> pair) { philox_normal(state_, 0, pair); });
  }

 private:
  template <typename Fill>
  double take(std::array<double, 2>& pair, std::size_t& left, Fill fill) {
    if (left == 0) {
      fill(pair);
      state_ = state_.skipped(1);
      left = 2;
    }
    return pair[--left];
  }
  PhiloxState state_;
  std::array<double, 2> uniform_{}, normal_{};
  std::size_t uniforms_ = 0, normals_ = 0;
};

double draw_gamma(PairStream stream, double alpha) {
  if (alpha == 1) return -std::log1p(-stream.uniform());
  const double d = alpha + (alpha < 1 ? 2.0 / 3.0 : -1.0 / 3.0), c = 1.0 / 3.0 / std::sqrt(d);
  while (true) {
    const double x = stream.normal();
    double v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    const double u = stream.uniform();
    if (u >= 1 - 0.0331 * (x * x) * (x * x) && std::log(u) >= 0.5 * x * x + d * (1 - v + std::log(v))) continue;
    return alpha < 1 ? d * v * std::pow(stream.uniform(), 1 / alpha) : d * v;
  }
}

}  // namespace

void philox_gamma(const PhiloxState& state, std::int64_t offset, const std::function<double(std::int64_t)>& alpha_at,
                  std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t element = offset + static_cast<std::int64_t>(i);
    out[i] = draw_gamma(PairStream(state.skipped(static_cast<std::uint64_t>(element) * 256)), alpha_at(element));
  }
}

void philox_truncated_normal(const PhiloxState& state, std::int64_t offset, std::span<float> out) {
  fill_groups<4>(offset, out, [&](std::uint64_t index, float* values) {
    PhiloxStream words(state.skipped(index * 256));
    for (int filled = 0; filled < 4;) {
      const std::uint32_t x0 = words.next();
      const Pair<float> pair = box_muller(x0, words.next());
      if (std::fabs(pair.first) < 2.0f) values[filled++] = pair.first;
      if (filled < 4 && std::fabs(pair.second) < 2.0f) values[filled++] = pair.second;
    }
  });
}

void philox_truncated_normal(const PhiloxState& state, std::int64_t offset, std::span<double> out) {
  fill_groups<2>(offset, out, [&](std::uint64_t index, double* values) {
    PhiloxStream words(state.skipped(index * 128));
    for (int filled = 0; filled < 2;) {
      const std::uint32_t x0 = words.next(), x1 = words.next(), x2 = words.next();
      const Pair<double> pair = box_muller(x0, x1, x2, words.next());
      if (std::fabs(pair.first) < 2.0) values[filled++] = pair.first;
      if (filled < 2 && std::fabs(pair.second) < 2.0) values[filled++] = pair.second;
    }
  });
}

void philox_full_int(const PhiloxState& state, std::int64_t offset, std::span<std::uint32_t> out) {
  fill_groups<4>(offset, out, [&](std::uint64_t index, std::uint32_t* values) {
    const PhiloxBlock x = philox_block(state.skipped(index));
    std::copy(x.begin(), x.end(), values);
  });
}

void philox_full_int(const PhiloxState& state, std::int64_t offset, std::span<std::uint64_t> out) {
  fill_groups<2>(offset, out, [&](std::uint64_t index, std::uint64_t* values) {
    const PhiloxBlock x = philox_block(state.skipped(index));
    values[0] = x[0] | (static_cast<std::uint64_t>(x[1]) << 32);
    values[1] = x[2] | (static_cast<std::uint64_t>(x[3]) << 32);
  });
}

void philox_uniform16(const PhiloxState& state, std::int64_t offset, int mantissa_bits, std::span<float> out) {
  const std::uint32_t mask = (1u << mantissa_bits) - 1;
  const float scale = std::ldexp(1.0f, -mantissa_bits);
  fill_groups<4>(offset, out, [&](std::uint64_t index, float* values) {
    const PhiloxBlock x = philox_block(state.skipped(index));
    for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(x[static_cast<std::size_t>(i)] & mask) * scale;
  });
}

void scale_and_shift(std::span<float> values, float scale, float shift) {
  for (float& value : values) value = value * scale + shift;
}

void scale_and_shift(std::span<double> values, double scale, double shift) {
  for (double& value : values) value = value * scale + shift;
}

void philox_shuffle(const PhiloxState& state, std::span<std::int64_t> order) {
  std::iota(order.begin(), order.end(), std::int64_t{0});
  PhiloxStream words(state);
  const std::size_t n = order.size();
  for (std::size_t k = 0; k + 1 < n; ++k) {
    std::swap(order[k], order[k + words.next() % static_cast<std::uint32_t>(n - k)]);
  }
}

}  // namespace lockstep::ops
