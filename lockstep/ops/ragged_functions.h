// TensorFlow's functions of tensors, applied to ragged ones: elementwise functions keep the rows.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/ragged_tensor.h"
#include "lockstep/ops/string_functions.h"
#include "lockstep/ops/tensor_functions.h"

namespace lockstep {

template <typename T>
concept Ragged = std::derived_from<T, RaggedTensor>;
// A ragged tensor and another one, a tensor or a number.
template <typename A, typename B>
concept RaggedPair = (Ragged<A> || Ragged<B>)&&(
    std::is_arithmetic_v<A> ||
    std::convertible_to<const A&, RaggedTensor>)&&(std::is_arithmetic_v<B> ||
                                                   std::convertible_to<const B&, RaggedTensor>);

// Where an operand is a RaggedRow (or the result of strings::split()), so is the result: it converts to a tensor.
template <typename A, typename B = A>
using RaggedResult =
    std::conditional_t<std::derived_from<A, RaggedRow> || std::derived_from<B, RaggedRow>, RaggedRow, RaggedTensor>;

// x with fn of its values, which gives a row for each of them: one ragged axis more.
RaggedTensor ragged_rows(const RaggedTensor& x, const std::function<RaggedTensor(const Tensor&)>& fn);
// x with fn of its values.
template <Ragged R, typename Fn>
RaggedResult<R> ragged_values(const R& x, Fn fn) {
  const Tensor made = fn(x.flat_values());
  return RaggedResult<R>(x.ragged_rank() > 0 ? x.with_flat_values(made) : RaggedTensor(made));
}
// fn of the values of both. Rows have equal lengths; the ragged axes of a tensor next to a ragged one have extent 1,
// its first one that or the number of rows. Throws InvalidArgument for others.
RaggedTensor ragged_elementwise(const char* what, const RaggedTensor& a, const RaggedTensor& b,
                                const std::function<Tensor(const Tensor&, const Tensor&)>& fn);
template <typename A, typename B, typename Fn>
requires RaggedPair<A, B> RaggedResult<A, B> ragged_pair(const char* what, const A& a, const B& b, Fn fn) {
  if constexpr (std::is_arithmetic_v<B>) {
    return ragged_values(a, [&](const Tensor& x) { return fn(x, b); });
  } else if constexpr (std::is_arithmetic_v<A>) {
    return ragged_values(b, [&](const Tensor& y) { return fn(a, y); });
  } else {
    return RaggedResult<A, B>(ragged_elementwise(what, a, b, fn));
  }
}
#define LOCKSTEP_RAGGED_OPERATOR(op)                                                              \
  template <typename A, typename B>                                                               \
  requires RaggedPair<A, B>                                                                       \
  auto operator op(const A& a, const B& b) {                                                      \
    return ragged_pair(#op, a, b, [](const auto& x, const auto& y) -> Tensor { return x op y; }); \
  }
LOCKSTEP_RAGGED_OPERATOR(+)
LOCKSTEP_RAGGED_OPERATOR(-)
LOCKSTEP_RAGGED_OPERATOR(*)
LOCKSTEP_RAGGED_OPERATOR(/)
LOCKSTEP_RAGGED_OPERATOR(%)
LOCKSTEP_RAGGED_OPERATOR(<)
LOCKSTEP_RAGGED_OPERATOR(<=)
LOCKSTEP_RAGGED_OPERATOR(>)
LOCKSTEP_RAGGED_OPERATOR(>=)
LOCKSTEP_RAGGED_OPERATOR(==)
#undef LOCKSTEP_RAGGED_OPERATOR
template <Ragged R>
RaggedResult<R> operator-(const R& x) {
  return ragged_values(x, [](const Tensor& values) { return -values; });
}

// Applies fn to each row. Results with axes become ragged rows; scalars become a tensor.
RaggedRow map_ragged(const std::function<Tensor(const Tensor&)>& fn, const RaggedTensor& elems);

namespace ops {

#define LOCKSTEP_RAGGED_PAIR(function)                                                                          \
  template <typename A, typename B>                                                                             \
  requires RaggedPair<A, B>                                                                                     \
  auto function(const A& a, const B& b) {                                                                       \
    return ragged_pair(#function, a, b, [](const auto& x, const auto& y) -> Tensor { return function(x, y); }); \
  }
LOCKSTEP_RAGGED_PAIR(add)
LOCKSTEP_RAGGED_PAIR(subtract)
LOCKSTEP_RAGGED_PAIR(multiply)
LOCKSTEP_RAGGED_PAIR(divide)
LOCKSTEP_RAGGED_PAIR(floordiv)
LOCKSTEP_RAGGED_PAIR(floor_div)
LOCKSTEP_RAGGED_PAIR(floormod)
LOCKSTEP_RAGGED_PAIR(squared_difference)
LOCKSTEP_RAGGED_PAIR(atan2)
LOCKSTEP_RAGGED_PAIR(logical_and)
LOCKSTEP_RAGGED_PAIR(logical_or)
LOCKSTEP_RAGGED_PAIR(logical_xor)
LOCKSTEP_RAGGED_PAIR(mod)
LOCKSTEP_RAGGED_PAIR(pow)
LOCKSTEP_RAGGED_PAIR(maximum)
LOCKSTEP_RAGGED_PAIR(minimum)
LOCKSTEP_RAGGED_PAIR(equal)
LOCKSTEP_RAGGED_PAIR(not_equal)
LOCKSTEP_RAGGED_PAIR(greater)
LOCKSTEP_RAGGED_PAIR(greater_equal)
LOCKSTEP_RAGGED_PAIR(less)
LOCKSTEP_RAGGED_PAIR(less_equal)
#undef LOCKSTEP_RAGGED_PAIR

#define LOCKSTEP_RAGGED_VALUES(function)                                            \
  template <Ragged R>                                                               \
  RaggedResult<R> function(const R& x) {                                            \
    return ragged_values(x, [](const Tensor& values) { return function(values); }); \
  }
LOCKSTEP_RAGGED_VALUES(abs)
LOCKSTEP_RAGGED_VALUES(negative)
LOCKSTEP_RAGGED_VALUES(sign)
LOCKSTEP_RAGGED_VALUES(floor)
LOCKSTEP_RAGGED_VALUES(ceil)
LOCKSTEP_RAGGED_VALUES(round)
LOCKSTEP_RAGGED_VALUES(log1p)
LOCKSTEP_RAGGED_VALUES(expm1)
LOCKSTEP_RAGGED_VALUES(logical_not)
LOCKSTEP_RAGGED_VALUES(identity)
LOCKSTEP_RAGGED_VALUES(stop_gradient)
LOCKSTEP_RAGGED_VALUES(square)
LOCKSTEP_RAGGED_VALUES(sqrt)
LOCKSTEP_RAGGED_VALUES(rsqrt)
LOCKSTEP_RAGGED_VALUES(exp)
LOCKSTEP_RAGGED_VALUES(log)
LOCKSTEP_RAGGED_VALUES(sin)
LOCKSTEP_RAGGED_VALUES(cos)
LOCKSTEP_RAGGED_VALUES(tanh)
LOCKSTEP_RAGGED_VALUES(sigmoid)
LOCKSTEP_RAGGED_VALUES(zeros_like)
LOCKSTEP_RAGGED_VALUES(ones_like)
template <Ragged R>
RaggedResult<R> cast(const R& ragged, DTypeLike dtype) {
  return ragged_values(ragged, [&](const Tensor& values) { return cast(values, dtype); });
}

// Of ragged tensors, or of these and tensors.
template <Ragged R>
RaggedResult<R> concat(std::initializer_list<R> values, int axis) {
  return RaggedResult<R>(concat_ragged({values.begin(), values.end()}, axis));
}
template <Ragged R>
RaggedResult<R> concat(std::initializer_list<R> values, const OneAxisKeywords& keywords) {
  return RaggedResult<R>(concat_ragged({values.begin(), values.end()}, keywords.axis));
}
template <std::same_as<std::vector<RaggedTensor>> List>
RaggedTensor concat(const List& values, int axis) {
  return concat_ragged(values, axis);
}
// Ragged tensors and tensors in one list.
struct RaggedList : std::vector<RaggedTensor> {
  RaggedList(std::initializer_list<RaggedTensor> values) : vector(values) {}
};
// Templates, so that a list of tensors only gives a tensor.
template <int = 0>
RaggedTensor concat(const RaggedList& values, int axis) {
  return concat_ragged(values, axis);
}
template <int = 0>
RaggedTensor concat(const RaggedList& values, const OneAxisKeywords& keywords) {
  return concat_ragged(values, keywords.axis);
}
template <std::same_as<RaggedTensor> R>
RaggedTensor stack(std::initializer_list<R> values, int axis) {
  return ragged::stack(std::vector<RaggedTensor>(values), axis);
}
template <std::same_as<RaggedTensor> R>
RaggedTensor stack(std::initializer_list<R> values, const OneAxisKeywords& keywords) {
  return stack(values, keywords.axis);
}
// The number of all values.
template <Ragged R>
Tensor size(const R& ragged, DTypeLike out_type = DType::kInt32) {
  return size(ragged.flat_values(), out_type);
}
template <Ragged R>
RaggedResult<R> one_hot(const R& indices, std::int64_t depth, DTypeLike dtype = DType::kFloat32) {
  return ragged_values(indices, [&](const Tensor& values) { return one_hot(values, depth, DType(dtype)); });
}
template <Ragged R>
RaggedResult<R> one_hot(const R& indices, std::int64_t depth, const OneHotKeywords& keywords) {
  return ragged_values(indices, [&](const Tensor& values) { return one_hot(values, depth, keywords); });
}
template <Ragged R, typename Low, typename High>
RaggedResult<R> clip_by_value(const R& x, const Low& clip_value_min, const High& clip_value_max) {
  return ragged_values(x, [&](const Tensor& values) { return clip_by_value(values, clip_value_min, clip_value_max); });
}
template <std::same_as<RaggedTensor> R>
RaggedTensor expand_dims(const R& ragged, int axis) {
  return expand_ragged_dims(ragged, axis);
}
template <std::same_as<RaggedTensor> R>
RaggedTensor expand_dims(const R& ragged, const OneAxisKeywords& keywords) {
  return expand_ragged_dims(ragged, keywords.axis);
}
// Axes by position are not written in braces.
template <std::same_as<RaggedTensor> R, std::convertible_to<Axes> A>
RaggedTensor reverse(const R& ragged, const A& axis) {
  return reverse_ragged(ragged, axis);
}
template <std::same_as<RaggedTensor> R>
RaggedTensor reverse(const R& ragged, const RaggedAxisKeywords& keywords) {
  return reverse_ragged(ragged, keywords.axis);
}
// The number of axes.
template <std::same_as<RaggedTensor> R>
Tensor rank(const R& ragged) {
  return Tensor::scalar(static_cast<std::int32_t>(ragged.shape().rank()));
}
// Rows, one after the other.
template <std::same_as<RaggedTensor> R>
RaggedTensor stack(std::initializer_list<R> values) {
  return ragged::stack({values.begin(), values.end()});
}
// How often each axis is repeated.
RaggedTensor tile_ragged(const RaggedTensor& ragged, const Ints& multiples);
template <std::same_as<RaggedTensor> R>
RaggedTensor tile(const R& ragged, const Ints& multiples) {
  return tile_ragged(ragged, multiples);
}
// The rows with these indices; ragged indices give a ragged tensor of rows.
RaggedTensor gather_ragged(const RaggedTensor& params, const RaggedTensor& indices);
template <typename A, typename B>
requires RaggedPair<A, B> RaggedResult<A, B> gather(const A& params, const B& indices) {
  return RaggedResult<A, B>(gather_ragged(params, indices));
}
template <Ragged A, std::size_t N>
RaggedResult<A> gather(const A& params, const std::int64_t (&indices)[N]) {
  return RaggedResult<A>(gather_ragged(params, RaggedTensor(constant_ints(Ints(indices, indices + N)))));
}
// Of a ragged condition: tensors, ragged tensors of the same rows, or numbers.
template <Ragged C, typename A, typename B>
requires RaggedPair<C, A> && RaggedPair<C, B> RaggedResult<C> where(const C& condition, const A& yes, const B& no) {
  const auto values = [&](const auto& x) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(x)>>) {
      return x;
    } else {
      return ragged_elementwise("where", condition, x,
                                [](const Tensor& places, const Tensor& of) { return where(places, of, of); })
          .flat_values();
    }
  };
  return ragged_values(condition, [&](const Tensor& places) { return where(places, values(yes), values(no)); });
}
// Applies fn to each row, as map_ragged().
template <typename Fn = Tensor (*)(const Tensor&), std::same_as<RaggedTensor> R>
RaggedRow map_fn(Fn fn, const R& elems) {
  return lockstep::map_ragged(fn, elems);
}

}  // namespace ops
using ops::map_fn;

namespace nn {

// A row of `params` for each of the numbers.
template <std::convertible_to<Tensor> T, Ragged R>
RaggedResult<R> embedding_lookup(const T& params, const R& ids) {
  return ragged_values(ids, [&](const Tensor& values) { return ops::gather(params, values); });
}

}  // namespace nn

namespace strings {

LOCKSTEP_RAGGED_VALUES(lower)
LOCKSTEP_RAGGED_VALUES(upper)
LOCKSTEP_RAGGED_VALUES(strip)
LOCKSTEP_RAGGED_VALUES(length)
LOCKSTEP_RAGGED_VALUES(to_number)
LOCKSTEP_RAGGED_VALUES(as_string)
#undef LOCKSTEP_RAGGED_VALUES
// The parts of each string are a further axis.
template <Ragged R>
Parts split(const R& x, std::string_view separator = "", std::int64_t maxsplit = -1) {
  return Parts(ragged_rows(x, [&](const Tensor& values) { return split(values, separator, maxsplit); }));
}
template <Ragged R>
Parts split(const R& x, const SplitKeywords& keywords) {
  return split(x, keywords.sep, keywords.maxsplit);
}
template <Ragged R>
Parts bytes_split(const R& x) {
  return Parts(ragged_rows(x, [](const Tensor& values) { return bytes_split(values); }));
}
template <Ragged R>
Parts unicode_split(const R& x, const EncodingKeywords& keywords) {
  return Parts(ragged_rows(x, [&](const Tensor& values) { return unicode_split(values, keywords); }));
}
template <Ragged R>
Parts unicode_split(const R& x, std::string_view input_encoding = "UTF-8") {
  return unicode_split(x, EncodingKeywords{.input_encoding = input_encoding});
}
template <Ragged R>
RaggedResult<R> length(const R& x, const LengthKeywords& keywords) {
  return ragged_values(x, [&](const Tensor& values) { return length(values, keywords); });
}
template <Ragged R>
RaggedResult<R> substr(const R& x, int pos, int len, std::string_view unit = "BYTE") {
  return ragged_values(x, [&](const Tensor& values) { return substr(values, pos, len, unit); });
}
template <Ragged R>
RaggedResult<R> substr(const R& x, const SubstrKeywords& keywords) {
  return ragged_values(x, [&](const Tensor& values) { return substr(values, keywords); });
}
template <Ragged R>
RaggedResult<R> regex_replace(const R& x, std::string_view pattern, std::string_view rewrite,
                              bool replace_global = true) {
  return ragged_values(x,
                       [&](const Tensor& values) { return regex_replace(values, pattern, rewrite, replace_global); });
}
template <Ragged R>
RaggedResult<R> regex_full_match(const R& x, std::string_view pattern) {
  return ragged_values(x, [&](const Tensor& values) { return regex_full_match(values, pattern); });
}
template <Ragged R>
RaggedResult<R> to_hash_bucket_fast(const R& x, std::int64_t num_buckets) {
  return ragged_values(x, [&](const Tensor& values) { return to_hash_bucket_fast(values, num_buckets); });
}
template <Ragged R>
RaggedRow reduce_join(const R& x, const ReduceJoinKeywords& keywords) {
  const ops::Axes axes = keywords.axis ? ops::Axes(*keywords.axis) : ops::Axes(std::nullopt);
  return ops::reduce_ragged(x, "Join" + std::string(keywords.separator), axes);
}
template <Ragged R>
RaggedRow reduce_join(const R& x, int axis) {
  return reduce_join(x, ReduceJoinKeywords{.axis = axis});
}
// Of the strings of each innermost row.
RaggedTensor ngrams_ragged(const RaggedTensor& data, const NgramsKeywords& keywords);
template <Ragged R>
RaggedResult<R> ngrams(const R& data, const NgramsKeywords& keywords) {
  return RaggedResult<R>(ngrams_ragged(data, keywords));
}
template <Ragged R, std::convertible_to<ops::IntOrInts> Width>
RaggedResult<R> ngrams(const R& data, const Width& ngram_width, std::string_view separator = " ") {
  return ngrams(data, NgramsKeywords{{}, ngram_width, std::string(separator)});
}
// Of the strings at the same indices.
RaggedTensor join_ragged(const std::vector<RaggedTensor>& parts, std::string_view separator);
template <Ragged R>
RaggedResult<R> join(std::initializer_list<R> parts, std::string_view separator = "") {
  return RaggedResult<R>(join_ragged({parts.begin(), parts.end()}, separator));
}
template <Ragged R>
RaggedResult<R> join(std::initializer_list<R> parts, const JoinKeywords& keywords) {
  return RaggedResult<R>(join_ragged({parts.begin(), parts.end()}, keywords.separator));
}

}  // namespace strings

namespace ragged {

inline RaggedTensor stack(const std::vector<RaggedTensor>& values, const ops::OneAxisKeywords& keywords) {
  return stack(values, keywords.axis);
}

}  // namespace ragged
}  // namespace lockstep
