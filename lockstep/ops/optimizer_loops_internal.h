// Loops over the elements of variables, for the kernels of optimizers.
#pragma once

#include <cstdint>

#ifdef __AVX__
#include <immintrin.h>
#endif

namespace lockstep::ops::optimizer_loops {

inline constexpr std::int64_t kGrain = 32768;  // elements for which a thread is worth waking

// During its lifetime, this thread treats denormal numbers as zero, as TensorFlow's operations do. A momentum without
// further gradients would become denormal, and the processor is slow with such numbers.
class FlushedDenormals {
 public:
#ifdef __AVX__
  FlushedDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero); }
  ~FlushedDenormals() { _mm_setcsr(before_); }
#else
  FlushedDenormals() {}
#endif
  FlushedDenormals(const FlushedDenormals&) = delete;
  FlushedDenormals& operator=(const FlushedDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
  unsigned before_ = 0;
};

// Eight elements at a time, the rest one by one, both by the same body. Products and sums round on their own,
// so a share's borders, and with them the number of threads, do not show in the result.
#pragma GCC push_options
#pragma GCC optimize("fp-contract=off")

using Wide = float __attribute__((vector_size(32)));

inline float root(float x) { return __builtin_sqrtf(x); }
inline Wide root(const Wide& x) {
#ifdef __AVX__
  return _mm256_sqrt_ps(x);
#else
  Wide y;
  for (int i = 0; i < 8; ++i) y[i] = __builtin_sqrtf(x[i]);
  return y;
#endif
}

template <typename T>
inline void load(const float* from, T& value) {
  __builtin_memcpy(&value, from, sizeof(T));
}
template <typename T>
inline void store(float* to, const T& value) {
  __builtin_memcpy(to, &value, sizeof(T));
}

template <typename Body>
inline void sweep(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) body.template operator()<Wide>(i);
  for (; i < n; ++i) body.template operator()<float>(i);
}

// The square of element i of the gradient, whose value is g; `squares`: those of the gradient, or null: g · g.
template <typename T>
T square_of(T g, const float* squares, std::int64_t i) {
  T square = g * g;
  if (squares) load(squares + i, square);
  return square;
}

// Elements of a gradient and of the averages of it and of its square, which have moved towards it.
template <typename T>
struct Moments {
  T g, m, v;

  Moments(const float* gradient, const float* squares, float* mean, float* mean_square, std::int64_t i, float b1,
          float b2) {
    load(gradient + i, g), load(mean + i, m), load(mean_square + i, v);
    m = m + (g - m) * b1;
    v = v + (square_of(g, squares, i) - v) * b2;
    store(mean + i, m), store(mean_square + i, v);
  }
};

#pragma GCC pop_options

}  // namespace lockstep::ops::optimizer_loops
