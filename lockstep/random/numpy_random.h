// numpy.random: the numbers that NumPy draws, bit for bit, float64 and int64 unless stated.
//
//   np::random::seed(0);
//   Tensor x = np::random::rand(1000, 32).astype("float32");
//   Tensor y = np::random::randint(10, {.size = {1000, 1}});
//   auto rng = np::random::default_rng(42);
//   Tensor z = rng.normal({.scale = 0.5, .size = {8, 2}});
//
// The functions draw from one generator of the process, which keras::utils::set_random_seed seeds too. All throw
// InvalidArgument for numbers that NumPy rejects. The size of a single number is {}.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/tensor/shape_arg.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::random {
class NumpyRandom;
class Pcg64;
}  // namespace lockstep::random

namespace lockstep::np::random {

struct UniformKeywords {
  FieldNamesOnly names_only = {};
  double low = 0.0;
  double high = 1.0;
  ShapeArg size = {};
};
struct NormalKeywords {
  FieldNamesOnly names_only = {};
  double loc = 0.0;
  double scale = 1.0;
  ShapeArg size = {};
};
struct IntegersKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg size = {};
  DTypeLike dtype = DType::kInt64;  // or int32
};
// The probability of each: numbers in braces or in a vector, or an array, whose precision decides how close to 1
// their sum has to be.
class Probabilities {
 public:
  Probabilities() = default;
  Probabilities(std::initializer_list<double> values) : values(values) {}
  Probabilities(std::vector<double> values) : values(std::move(values)) {}
  template <typename T>
  requires(std::is_class_v<T>&& std::is_convertible_v<const T&, Tensor> && !std::is_same_v<T, std::vector<double>>)
      Probabilities(const T& array)
      : Probabilities(of_array(array)) {}

  std::vector<double> values;
  double tolerance = 1.5e-8;  // the square root of float64's epsilon

 private:
  static Probabilities of_array(const Tensor& array);
};
struct ChoiceKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg size = {};
  bool replace = true;
  Probabilities p = {};  // none: the same of all
};

namespace internal {
template <typename T>
std::vector<T> in_order(const std::vector<T>& items, const Tensor& order) {
  std::vector<T> result;
  for (const std::int64_t place : order.to_vector<std::int64_t>())
    result.push_back(items[static_cast<std::size_t>(place)]);
  return result;
}
}  // namespace internal

// What both generators draw. Copies share the state.
template <typename Numbers>
class Draws {
 public:
  Tensor standard_normal(const ShapeArg& size = {}) { return normal(0.0, 1.0, size); }
  Tensor uniform(double low, double high, const ShapeArg& size = {});
  Tensor uniform(const UniformKeywords& o = {}) { return uniform(o.low, o.high, o.size); }
  Tensor normal(double loc, double scale, const ShapeArg& size = {});
  Tensor normal(const NormalKeywords& o = {}) { return normal(o.loc, o.scale, o.size); }
  // The numbers 0 to count - 1, or the rows of a tensor, in another order.
  Tensor permutation(std::int64_t count);
  Tensor permutation(const Tensor& rows);
  void shuffle(Tensor& rows);
  // Of a list.
  template <typename T>
  void shuffle(std::vector<T>& items) {
    items = internal::in_order(items, permutation(static_cast<std::int64_t>(items.size())));
  }
  // Numbers from 0 to count - 1, or elements of a vector. Generator throws Unimplemented for replace = false.
  Tensor choice(std::int64_t count, const ChoiceKeywords& o = {});
  Tensor choice(const Tensor& from, const ChoiceKeywords& o = {});
  // choice(5, 3). A template, because GCC would take {.size = {3}} for a shape.
  template <typename From, std::convertible_to<ShapeArg> Size>
  Tensor choice(const From& from, const Size& size) {
    return choice(from, ChoiceKeywords{.size = size});
  }

 protected:
  explicit Draws(std::shared_ptr<Numbers> numbers) : numbers_(std::move(numbers)) {}
  Tensor integers_between(std::int64_t low, std::optional<std::int64_t> high, const IntegersKeywords& o);

  std::shared_ptr<Numbers> numbers_;
};
extern template class Draws<lockstep::random::NumpyRandom>;
extern template class Draws<lockstep::random::Pcg64>;

// numpy.random.RandomState: the generator of NumPy's functions, MT19937.
class RandomState : public Draws<lockstep::random::NumpyRandom> {
 public:
  // 0 <= seed < 2^32.
  explicit RandomState(std::int64_t seed);

  Tensor random_sample(const ShapeArg& size = {});  // in [0, 1)
  Tensor random(const ShapeArg& size = {}) { return random_sample(size); }
  template <std::integral... I>
  Tensor rand(I... extents) {
    return random_sample(Shape{static_cast<std::int64_t>(extents)...});
  }
  template <std::integral... I>
  Tensor randn(I... extents) {
    return normal(0.0, 1.0, Shape{static_cast<std::int64_t>(extents)...});
  }
  // In [low, high), or in [0, low) with one limit.
  Tensor randint(std::int64_t low, std::optional<std::int64_t> high, const IntegersKeywords& o = {}) {
    return integers_between(low, high, o);
  }
  Tensor randint(std::int64_t low, std::int64_t high, const ShapeArg& size) { return randint(low, high, {{}, size}); }
  Tensor randint(std::int64_t low, const IntegersKeywords& o = {}) { return randint(low, std::nullopt, o); }
};

// numpy.random.Generator of PCG64.
class Generator : public Draws<lockstep::random::Pcg64> {
 public:
  struct Floats {
    FieldNamesOnly names_only = {};
    ShapeArg size = {};
    DTypeLike dtype = DType::kFloat64;  // or float32
  };
  explicit Generator(std::int64_t seed);

  Tensor random(const ShapeArg& size, const DTypeLike& dtype = DType::kFloat64);
  Tensor random(const Floats& o) { return random(o.size, o.dtype); }
  Tensor random() { return random(ShapeArg()); }
  // In [low, high), or in [0, low) with one limit.
  Tensor integers(std::int64_t low, std::optional<std::int64_t> high, const IntegersKeywords& o = {}) {
    return integers_between(low, high, o);
  }
  Tensor integers(std::int64_t low, std::int64_t high, const ShapeArg& size) { return integers(low, high, {{}, size}); }
  Tensor integers(std::int64_t low, const IntegersKeywords& o = {}) { return integers(low, std::nullopt, o); }
};
inline Generator default_rng(std::int64_t seed) { return Generator(seed); }

// The functions of the process's generator, which is seeded at random.
void seed(std::int64_t seed);
Tensor random_sample(const ShapeArg& size = {});
inline Tensor random(const ShapeArg& size = {}) { return random_sample(size); }
Tensor uniform(double low, double high, const ShapeArg& size = {});
inline Tensor uniform(const UniformKeywords& o = {}) { return uniform(o.low, o.high, o.size); }
Tensor normal(double loc, double scale, const ShapeArg& size = {});
inline Tensor normal(const NormalKeywords& o = {}) { return normal(o.loc, o.scale, o.size); }
inline Tensor standard_normal(const ShapeArg& size = {}) { return normal(0.0, 1.0, size); }
template <std::integral... I>
Tensor rand(I... extents) {
  return random_sample(Shape{static_cast<std::int64_t>(extents)...});
}
template <std::integral... I>
Tensor randn(I... extents) {
  return normal(0.0, 1.0, Shape{static_cast<std::int64_t>(extents)...});
}
Tensor randint(std::int64_t low, std::optional<std::int64_t> high, const IntegersKeywords& o = {});
inline Tensor randint(std::int64_t low, std::int64_t high, const ShapeArg& size) {
  return randint(low, high, {{}, size});
}
inline Tensor randint(std::int64_t low, const IntegersKeywords& o = {}) { return randint(low, std::nullopt, o); }
Tensor permutation(std::int64_t count);
Tensor permutation(const Tensor& rows);
void shuffle(Tensor& rows);
template <typename T>
void shuffle(std::vector<T>& items) {
  items = internal::in_order(items, permutation(static_cast<std::int64_t>(items.size())));
}
Tensor choice(std::int64_t count, const ChoiceKeywords& o = {});
Tensor choice(const Tensor& from, const ChoiceKeywords& o = {});
template <typename From, std::convertible_to<ShapeArg> Size>
Tensor choice(const From& from, const Size& size) {
  return choice(from, ChoiceKeywords{.size = size});
}

}  // namespace lockstep::np::random
