// Fourier transforms by Stockham's algorithm, with factors 4, 2 and odd ones, eight lines at a time.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lockstep/inference/step_internal.h"

namespace lockstep::inference {
namespace {

typedef float Lanes __attribute__((vector_size(32)));
typedef float LanesInArray __attribute__((vector_size(32), aligned(4), may_alias));
typedef std::int32_t Places __attribute__((vector_size(32)));
constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kLargestFactor = 31, kLongest = 4096;

struct Complex {
  Lanes re, im;
  Complex operator+(const Complex& o) const { return {re + o.re, im + o.im}; }
  Complex operator-(const Complex& o) const { return {re - o.re, im - o.im}; }
  Complex times_minus_i() const { return {im, -re}; }
};
struct Root {
  float re, im;
  Complex operator*(const Complex& x) const { return {x.re * re - x.im * im, x.re * im + x.im * re}; }
};

// e^(-2 pi i k / n)
Root root(std::int64_t k, std::int64_t n) {
  const double angle = -2 * std::numbers::pi * static_cast<double>(k % n) / static_cast<double>(n);
  return {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
}

std::vector<std::int64_t> factors_of(std::int64_t n) {
  std::vector<std::int64_t> factors;
  for (std::int64_t factor = 4; n > 1; factor = factor == 4 ? 2 : factor == 2 ? 3 : factor + 2) {
    for (; n % factor == 0; n /= factor) factors.push_back(factor);
    if (factor != 4 && factor * factor > n && n > 1) {
      factors.push_back(n);
      break;
    }
  }
  return factors;
}

// The transform of one axis.
class Transform {
 public:
  explicit Transform(std::int64_t length) : length_(length) {
    for (std::int64_t rest = length; const std::int64_t factor : factors_of(length)) {
      Stage& stage = stages_.emplace_back(Stage{factor, rest / factor, {}, {}});
      for (std::int64_t p = 0; p < stage.count; ++p) {
        for (std::int64_t j = 1; j < factor; ++j) stage.twiddles.push_back(root(j * p, rest));
      }
      for (std::int64_t j = 0; j < factor; ++j) stage.roots.push_back(root(j, factor));
      rest = stage.count;
    }
  }
  std::int64_t length() const { return length_; }

  // Of eight lines in x; y is other memory. Where the result is.
  Complex* run(Complex* x, Complex* y) const {
    std::int64_t step = 1;
    for (const Stage& stage : stages_) {
      for (std::int64_t p = 0; p < stage.count; ++p) {
        const Root* const twiddles = stage.twiddles.data() + p * (stage.factor - 1);
        for (std::int64_t q = 0; q < step; ++q)
          butterfly(stage, twiddles, x + q + step * p, step * stage.count, y + q + step * stage.factor * p, step);
      }
      step *= stage.factor;
      std::swap(x, y);
    }
    return x;
  }

 private:
  struct Stage {
    std::int64_t factor, count;  // of parts
    std::vector<Root> twiddles, roots;
  };

  static void butterfly(const Stage& stage, const Root* twiddles, const Complex* x, std::int64_t from, Complex* y,
                        std::int64_t to) {
    if (stage.factor == 2) {
      const Complex a = x[0], b = x[from];
      y[0] = a + b, y[to] = twiddles[0] * (a - b);
      return;
    }
    if (stage.factor == 4) {
      const Complex a = x[0] + x[2 * from], b = x[0] - x[2 * from], c = x[from] + x[3 * from],
                    d = (x[from] - x[3 * from]).times_minus_i();
      y[0] = a + c, y[to] = twiddles[0] * (b + d), y[2 * to] = twiddles[1] * (a - c), y[3 * to] = twiddles[2] * (b - d);
      return;
    }
    for (std::int64_t j = 0; j < stage.factor; ++j) {
      Complex sum = x[0];
      for (std::int64_t k = 1; k < stage.factor; ++k)
        sum = sum + stage.roots[static_cast<std::size_t>(j * k % stage.factor)] * x[k * from];
      y[j * to] = j == 0 ? sum : twiddles[j - 1] * sum;
    }
  }

  std::int64_t length_;
  std::vector<Stage> stages_;
};

constexpr Places kRealPlaces = {0, 2, 4, 6, 8, 10, 12, 14}, kImaginaryPlaces = {1, 3, 5, 7, 9, 11, 13, 15},
                 kFirstPlaces = {0, 8, 1, 9, 2, 10, 3, 11}, kSecondPlaces = {4, 12, 5, 13, 6, 14, 7, 15};

class FourierStep : public Step {
 public:
  FourierStep(int x, int result, Dims dims, int axes, bool inverse)
      : Step({x}, result, std::move(dims)), inverse_(inverse) {
    for (std::size_t i = dims_.size(); i-- > dims_.size() - static_cast<std::size_t>(axes);)
      transforms_.emplace_back(dims_[i]);
  }
  bool follow(const Chain&, int, int) override { return false; }
  bool pays_threads() const override { return product_of(dims_) >= kFewestThreaded / 8; }

  void run(const Run& run) const override {
    const float* from = input(run, 0);
    float* const to = output(run);
    std::int64_t inner = 1;  // numbers between those of a line
    for (const Transform& transform : transforms_) {
      const std::int64_t n = transform.length(), lines = product_of(dims_) / n, columns = inner == 1 ? lines : inner,
                         blocks = (columns + kLanes - 1) / kLanes, grain = std::max<std::int64_t>(1, kGrain / 8 / n);
      for_parts(run, lines / columns * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
        static thread_local std::vector<Complex> memory;
        if (memory.size() < static_cast<std::size_t>(2 * n)) memory.resize(static_cast<std::size_t>(2 * n));
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t column = block % blocks * kLanes, count = std::min(kLanes, columns - column);
          const std::int64_t at = 2 * (inner == 1 ? column * n : block / blocks * n * inner + column);
          Complex* const x = memory.data();
          if (inner == 1) {
            read_rows(from + at, n, count, x);
          } else {
            read_columns(from + at, n, inner, count, x);
          }
          turn(n, x);
          Complex* const y = transform.run(x, x + n);
          turn(n, y);
          if (inverse_) scale(n, y);
          if (inner == 1) {
            write_rows(y, n, count, to + at);
          } else {
            write_columns(y, n, inner, count, to + at);
          }
        }
      });
      from = to;
      inner *= n;
    }
  }

 private:
  // The inverse transform is that of numbers whose parts change places.
  void turn(std::int64_t n, Complex* x) const {
    if (!inverse_) return;
    for (std::int64_t k = 0; k < n; ++k) std::swap(x[k].re, x[k].im);
  }
  static void scale(std::int64_t n, Complex* x) {
    const float factor = 1.0f / static_cast<float>(n);
    for (std::int64_t k = 0; k < n; ++k) x[k].re *= factor, x[k].im *= factor;
  }
  static void read_rows(const float* from, std::int64_t n, std::int64_t count, Complex* x) {
    if (count < kLanes) std::fill_n(x, n, Complex{});
    kernels().copy_plane({2 * n, count, 1, 2 * n, kLanes, 1}, from, reinterpret_cast<float*>(x));
  }
  static void write_rows(const Complex* x, std::int64_t n, std::int64_t count, float* to) {
    kernels().copy_plane({count, 2 * n, 1, kLanes, 2 * n, 1}, reinterpret_cast<const float*>(x), to);
  }
  static void read_columns(const float* from, std::int64_t n, std::int64_t inner, std::int64_t count, Complex* x) {
    std::array<float, 2 * kLanes> some{};
    for (std::int64_t k = 0; k < n; ++k, from += 2 * inner) {
      const float* pairs = from;
      if (count < kLanes) std::copy_n(from, 2 * count, some.data()), pairs = some.data();
      const Lanes a = *reinterpret_cast<const LanesInArray*>(pairs),
                  b = *reinterpret_cast<const LanesInArray*>(pairs + kLanes);
      x[k] = {__builtin_shuffle(a, b, kRealPlaces), __builtin_shuffle(a, b, kImaginaryPlaces)};
    }
  }
  static void write_columns(const Complex* x, std::int64_t n, std::int64_t inner, std::int64_t count, float* to) {
    std::array<float, 2 * kLanes> some{};
    for (std::int64_t k = 0; k < n; ++k, to += 2 * inner) {
      float* const pairs = count < kLanes ? some.data() : to;
      *reinterpret_cast<LanesInArray*>(pairs) = __builtin_shuffle(x[k].re, x[k].im, kFirstPlaces);
      *reinterpret_cast<LanesInArray*>(pairs + kLanes) = __builtin_shuffle(x[k].re, x[k].im, kSecondPlaces);
      if (count < kLanes) std::copy_n(some.data(), 2 * count, to);
    }
  }

  bool inverse_;
  std::vector<Transform> transforms_;  // the last axis first
};

}  // namespace

bool has_fourier(std::int64_t length) {
  if (length < 1 || length > kLongest) return false;
  const std::vector<std::int64_t> factors = factors_of(length);
  return std::ranges::all_of(factors, [](std::int64_t factor) { return factor <= kLargestFactor; });
}

StepPtr fourier(int x, int result, Dims dims, int axes, bool inverse) {
  return std::make_unique<FourierStep>(x, result, std::move(dims), axes, inverse);
}

}  // namespace lockstep::inference
