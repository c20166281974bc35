// tf.cond, tf.while_loop, tf.map_fn, tf.scan, tf.foldl and the like, and those of keras.ops: their functions are called
// at once. A tape records the operations of the functions. While a layer infers shapes and while a SavedModel is
// traced, conditions and numbers of rows that are not known become operations If and While.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/dtype_like.h"
#include "lockstep/base/field_names_only.h"
#include "lockstep/base/tensor_spec.h"
#include "lockstep/tensor/structure.h"

namespace lockstep::ops {

namespace internal {

using StructureFunction = std::function<Nested<Tensor>(const Nested<Tensor>&)>;

template <typename Fn, std::size_t... I>
Nested<Tensor> call_with_parts(Fn& fn, const Nested<Tensor>& values, std::index_sequence<I...>) {
  const auto parts = values.parts<sizeof...(I)>();
  // A function that takes structures also takes tensors.
  if constexpr (std::is_invocable_v<Fn&, decltype((I, std::declval<const Tensor&>()))...>) {
    if ((parts[I].is_leaf() && ...)) return fn(parts[I].leaf()...);
  }
  if constexpr (std::is_invocable_v<Fn&, decltype((I, std::declval<const Nested<Tensor>&>()))...>) {
    return fn(parts[I]...);
  } else {
    throw_wrong_structure("a list or a dict", "one tensor");
  }
}
template <typename Fn, std::size_t... I>
constexpr bool takes_parts(std::index_sequence<I...>) {
  return std::is_invocable_v<Fn&, decltype((I, std::declval<const Tensor&>()))...> ||
         std::is_invocable_v<Fn&, decltype((I, std::declval<const Nested<Tensor>&>()))...>;
}
// A function of a structure, or of the one to six parts of a list.
template <std::size_t N = 2, typename Fn>
StructureFunction of_parts(Fn fn) {
  static_assert(N < 7, "the function must take the values, (const Tensor& a, const Tensor& b), or their structure");
  if constexpr (std::is_invocable_v<Fn&, const Nested<Tensor>&>) {
    return [fn = std::move(fn)](const Nested<Tensor>& values) mutable -> Nested<Tensor> {
      // Of a list of one, as tf.while_loop takes it: its element.
      if (values.is_list() && values.size() == 1) return fn(values.parts()[0]);
      return fn(values);
    };
  } else if constexpr (takes_parts<Fn>(std::make_index_sequence<N>())) {
    return [fn = std::move(fn)](const Nested<Tensor>& values) mutable {
      return call_with_parts(fn, values, std::make_index_sequence<N>());
    };
  } else {
    return of_parts<N + 1>(std::move(fn));
  }
}

Nested<Tensor> while_loop(const StructureFunction& cond, const StructureFunction& body, Nested<Tensor> loop_vars,
                          std::optional<std::int64_t> maximum_iterations);
// fn of the numbers of each element of tensors, which broadcast.
Tensor map_places(const StructureFunction& fn, const Tensors& tensors);
Nested<Tensor> map_rows(const StructureFunction& fn, const Nested<Tensor>& elems);
// Throws InvalidArgument unless the tensors have the dtype; kInvalid is any.
Nested<Tensor> checked_dtype(Nested<Tensor> results, DType declared);
// `initializer` undefined: the first row, as in TensorFlow.
Nested<Tensor> scan(const StructureFunction& fn, const Nested<Tensor>& elems, Nested<Tensor> initializer, bool reverse,
                    bool keep_all);
// keras.ops.scan: the last carry and the outputs of all steps.
std::pair<Nested<Tensor>, Nested<Tensor>> scan_with_carry(const StructureFunction& fn, Nested<Tensor> init,
                                                          const Nested<Tensor>& xs, std::optional<std::int64_t> length,
                                                          bool reverse);
// keras.ops.associative_scan.
Nested<Tensor> associative_scan(const StructureFunction& fn, const Nested<Tensor>& elems, bool reverse, int axis);
// Throws InvalidArgument where the condition is not one boolean or number that is known.
bool is_true(const Tensor& pred);
// The same, with branches in the graph, of a condition that is not known while a graph is traced.
Nested<Tensor> choose(const Tensor& pred, const std::function<Nested<Tensor>()>& true_fn,
                      const std::function<Nested<Tensor>()>& false_fn);
Nested<Tensor> choose(const Tensor& index, const std::vector<std::function<Nested<Tensor>()>>& branches);
// The branch that an index chooses: beyond the last one the last, below 0 the given one. Throws InvalidArgument for an
// index that is not known.
std::size_t chosen_branch(const Tensor& index, std::size_t branches, std::size_t below);
Nested<Tensor> first_true(const std::vector<std::pair<Tensor, std::function<Nested<Tensor>()>>>& cases,
                          const std::function<Nested<Tensor>()>& otherwise, std::size_t from);
template <typename T>
Tensor of_number(T number) {
  if constexpr (std::is_same_v<T, bool>) return Tensor::scalar(number);
  if constexpr (std::is_integral_v<T>) return Tensor::scalar(static_cast<std::int32_t>(number));
  return Tensor::scalar(static_cast<float>(number));
}

}  // namespace internal

// A number, where the other function gives a tensor, is one of float32, int32 or bool.
template <typename True, typename False>
auto cond(const Tensor& pred, True true_fn, False false_fn) {
  using OfTrue = std::invoke_result_t<True&>;
  using OfFalse = std::invoke_result_t<False&>;
  if constexpr (std::is_convertible_v<OfTrue, Nested<Tensor>> && std::is_convertible_v<OfFalse, Nested<Tensor>>) {
    using Result = std::common_type_t<OfTrue, OfFalse>;
    if constexpr (std::is_same_v<Result, Tensor> || std::is_same_v<Result, Nested<Tensor>>) {
      if (pred.is_symbolic()) {
        return static_cast<Result>(internal::choose(
            pred, [&]() -> Nested<Tensor> { return true_fn(); }, [&]() -> Nested<Tensor> { return false_fn(); }));
      }
    }
  }
  if constexpr (std::is_arithmetic_v<OfTrue> && std::is_convertible_v<OfFalse, Tensor>) {
    return internal::is_true(pred) ? internal::of_number(true_fn()) : static_cast<Tensor>(false_fn());
  } else if constexpr (std::is_arithmetic_v<OfFalse> && std::is_convertible_v<OfTrue, Tensor>) {
    return internal::is_true(pred) ? static_cast<Tensor>(true_fn()) : internal::of_number(false_fn());
  } else {
    using Result = std::common_type_t<OfTrue, OfFalse>;
    return internal::is_true(pred) ? static_cast<Result>(true_fn()) : static_cast<Result>(false_fn());
  }
}

using Branch = std::function<Nested<Tensor>()>;
struct CondKeywords {
  FieldNamesOnly names_only = {};
  Branch true_fn = {};
  Branch false_fn = {};
};
inline Nested<Tensor> cond(const Tensor& pred, const CondKeywords& o) {
  return internal::choose(pred, o.true_fn, o.false_fn);
}

struct SwitchKeywords {
  FieldNamesOnly names_only = {};
  Branch default_fn = {};
};
// tf.switch_case(index, {[&] { return x; }, [&] { return x * 2; }}): for an index outside default_fn, or the last
// function.
inline Nested<Tensor> switch_case(const Tensor& branch_index, std::vector<Branch> branch_fns,
                                  const SwitchKeywords& o = {}) {
  if (o.default_fn) branch_fns.push_back(o.default_fn);
  return internal::choose(branch_index, branch_fns);
}
struct CaseKeywords {
  FieldNamesOnly names_only = {};
  Branch default_fn = {};
};
// tf.case: the function of the first true condition. Throws InvalidArgument where there is none and no default_fn.
inline Nested<Tensor> case_(const std::vector<std::pair<Tensor, Branch>>& pred_fn_pairs,
                            const CaseKeywords& keywords = {}) {
  return internal::first_true(pred_fn_pairs, keywords.default_fn, 0);
}

struct WhileLoopKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> parallel_iterations = std::nullopt;  // has no effect, here and below
  std::optional<std::int64_t> maximum_iterations = std::nullopt;
};
// const auto [i, sum] = while_loop([](const Tensor& i, const Tensor&) { return i < 5; }, body, {i, sum}).
template <typename Cond, typename Body>
Nested<Tensor> while_loop(Cond cond, Body body, const Nested<Tensor>& loop_vars,
                          const WhileLoopKeywords& keywords = {}) {
  return internal::while_loop(internal::of_parts(std::move(cond)), internal::of_parts(std::move(body)), loop_vars,
                              keywords.maximum_iterations);
}

// Of tensors and numbers: while_loop(cond, body, {x, 0}).
struct LoopVariable : Nested<Tensor> {
  template <std::convertible_to<Nested<Tensor>> V>
  LoopVariable(const V& value) : Nested(value) {}
  template <typename N>
  requires std::is_arithmetic_v<N> LoopVariable(N number) : Nested(internal::of_number(number)) {}
};
template <typename Cond, typename Body>
Nested<Tensor> while_loop(Cond cond, Body body, std::initializer_list<LoopVariable> loop_vars,
                          const WhileLoopKeywords& keywords = {}) {
  return while_loop(std::move(cond), std::move(body), Nested<Tensor>::list({loop_vars.begin(), loop_vars.end()}),
                    keywords);
}
// Of one number: while_loop(cond, body, 0).
template <typename Cond, typename Body, typename N>
requires std::is_arithmetic_v<N> Nested<Tensor> while_loop(Cond cond, Body body, N loop_var,
                                                           const WhileLoopKeywords& keywords = {}) {
  return while_loop(std::move(cond), std::move(body), Nested<Tensor>(Tensor(loop_var)), keywords);
}

// A dtype or its name, or a specification, whose dtype counts.
class OutputSignature : public DTypeLike {
 public:
  using DTypeLike::DTypeLike;
  OutputSignature(const TensorSpec& spec) : DTypeLike(spec.dtype) {}
};
// dtype and fn_output_signature, its newer name, are the dtype of the results. Both are not needed.
struct MapKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kInvalid;
  std::optional<std::int64_t> parallel_iterations = std::nullopt;
  OutputSignature fn_output_signature = DType::kInvalid;
};
// fn of each row of the tensors, stacked. Throws InvalidArgument for tensors of different numbers of rows, and for
// results of another dtype than the one that is declared. The default of Fn, here and below, is for names that several
// functions have: map_fn(ops::square, x).
template <typename Fn = Tensor (*)(const Tensor&)>
Nested<Tensor> map_fn(Fn fn, const Nested<Tensor>& elems, const MapKeywords& o = {}) {
  const DType declared = DType(o.dtype) == DType::kInvalid ? DType(o.fn_output_signature) : DType(o.dtype);
  return internal::checked_dtype(internal::map_rows(internal::of_parts(std::move(fn)), elems), declared);
}
template <typename Fn = Tensor (*)(const Tensor&)>
Nested<Tensor> vectorized_map(Fn fn, const Nested<Tensor>& elems) {
  return map_fn(std::move(fn), elems);
}

// Also a number.
class Initializer : public Nested<Tensor> {
 public:
  using Nested::Nested;
  template <typename T>
  requires std::is_arithmetic_v<T> Initializer(T number) : Nested(Tensor(number)) {}
  template <typename T>
  requires(std::is_convertible_v<const T&, Nested<Tensor>> && !std::is_same_v<T, Initializer>)
      Initializer(const T& value)
      : Nested(static_cast<Nested<Tensor>>(value)) {}
};
struct ScanKeywords {
  FieldNamesOnly names_only = {};
  Initializer initializer = {};  // default: the first row
  std::optional<std::int64_t> parallel_iterations = std::nullopt;
  bool reverse = false;
};
// fn(accumulated, row) for one row after the other: all results, stacked, or the last one.
template <typename Fn = Tensor (*)(const Tensor&, const Tensor&)>
Nested<Tensor> scan(Fn fn, const Nested<Tensor>& elems, const ScanKeywords& keywords = {}) {
  return internal::scan(internal::of_parts(std::move(fn)), elems,
                        static_cast<const Nested<Tensor>&>(keywords.initializer), keywords.reverse, true);
}
template <typename Fn = Tensor (*)(const Tensor&, const Tensor&)>
Nested<Tensor> foldl(Fn fn, const Nested<Tensor>& elems, const Nested<Tensor>& initializer = {}) {
  return internal::scan(internal::of_parts(std::move(fn)), elems, initializer, false, false);
}
template <typename Fn = Tensor (*)(const Tensor&, const Tensor&)>
Nested<Tensor> foldr(Fn fn, const Nested<Tensor>& elems, const Nested<Tensor>& initializer = {}) {
  return internal::scan(internal::of_parts(std::move(fn)), elems, initializer, true, false);
}

}  // namespace lockstep::ops

namespace lockstep {
using ops::case_;
using ops::cond;
using ops::foldl;
using ops::foldr;
using ops::map_fn;
using ops::scan;
using ops::switch_case;
using ops::vectorized_map;
using ops::while_loop;
}  // namespace lockstep

namespace lockstep::keras_ops {
using ops::cond;
using ops::vectorized_map;
using ops::while_loop;

template <typename Fn = Tensor (*)(const Tensor&)>
Nested<Tensor> map(Fn f, const Nested<Tensor>& xs) {
  return ops::map_fn(std::move(f), xs);
}
// keras.ops.switch (a keyword of C++): the branch of the index, called with the operands.
template <typename... Operands>
Nested<Tensor> switch_(
    const Tensor& index,
    const std::vector<std::type_identity_t<std::function<Nested<Tensor>(const Operands&...)>>>& branches,
    const Operands&... operands) {
  return branches[ops::internal::chosen_branch(index, branches.size(), 0)](operands...);
}
struct AssociativeScanKeywords {
  FieldNamesOnly names_only = {};
  bool reverse = false;
  int axis = 0;
};
// f(a, b), associative, of slices of elems: all partial results.
template <typename Fn = Tensor (*)(const Tensor&, const Tensor&)>
Nested<Tensor> associative_scan(Fn f, const Nested<Tensor>& elems, const AssociativeScanKeywords& keywords = {}) {
  return ops::internal::associative_scan(ops::internal::of_parts(std::move(f)), elems, keywords.reverse, keywords.axis);
}
// body_fun(i, value) for i from lower to upper - 1, i an int32 scalar.
template <typename Fn>
Nested<Tensor> fori_loop(std::int64_t lower, std::int64_t upper, Fn body_fun, Nested<Tensor> init_val) {
  const auto body = ops::internal::of_parts(std::move(body_fun));
  for (std::int64_t i = lower; i < upper; ++i) {
    init_val = body(Nested<Tensor>::list({Tensor::scalar(static_cast<std::int32_t>(i)), init_val}));
  }
  return init_val;
}
template <typename Fn, typename N>
requires std::is_arithmetic_v<N> Nested<Tensor> fori_loop(std::int64_t lower, std::int64_t upper, Fn body_fun,
                                                          N init_val) {
  return fori_loop(lower, upper, std::move(body_fun), Nested<Tensor>(Tensor(init_val)));
}
// A function of tensors that calls pyfunc with the numbers of each element, which broadcast.
template <typename Fn>
auto vectorize(Fn pyfunc) {
  return [fn = ops::internal::of_parts(std::move(pyfunc))]<typename... X>(const X&... x) {
    return ops::internal::map_places(fn, {static_cast<Tensor>(x)...});
  };
}
struct ScanKeywords {
  FieldNamesOnly names_only = {};
  std::optional<std::int64_t> length = std::nullopt;  // where xs is undefined
  bool reverse = false;
};
// f(carry, x) returns the next carry and an output: const auto [carry, outputs] = scan(f, init, xs).
template <typename Fn>
std::pair<Nested<Tensor>, Nested<Tensor>> scan(Fn f, const Nested<Tensor>& init, const Nested<Tensor>& xs = {},
                                               const ScanKeywords& keywords = {}) {
  return ops::internal::scan_with_carry(ops::internal::of_parts(std::move(f)), init, xs, keywords.length,
                                        keywords.reverse);
}
}  // namespace lockstep::keras_ops
