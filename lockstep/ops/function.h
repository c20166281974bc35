// tf.function.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/base/require_function.h"
#include "lockstep/base/tensor_spec.h"
#include "lockstep/ops/control_flow.h"
#include "lockstep/tensor/structure.h"

namespace lockstep {

namespace internal {

// What a call of a function is traced for: dtypes and shapes of tensors, and the values of numbers and strings.
class TraceKey {
 public:
  template <typename... A>
  explicit TraceKey(const A&... arguments) {
    (add(arguments), ...);
  }
  const std::string& exact() const { return exact_; }
  const std::string& without_shapes() const { return without_shapes_; }

 private:
  template <typename T>
  void add(const T& argument) {
    if constexpr (std::is_arithmetic_v<T>) {
      add_text(std::to_string(argument));
    } else if constexpr (std::is_convertible_v<const T&, std::string>) {
      add_text(std::string(argument));
    } else if constexpr (std::is_base_of_v<Tensor, T> || std::is_base_of_v<Nested<Tensor>, T> ||
                         std::is_base_of_v<std::vector<Tensor>, T>) {
      add_tensors(argument);
    }
  }
  void add_text(const std::string& text);
  void add_tensors(const Nested<Tensor>& tensors);

  std::string exact_, without_shapes_;
};

// The states of stateful random operations in a function: each trace has its own. With reduce_retracing, calls with
// other shapes than the first one share a trace.
class FunctionTraces;
std::shared_ptr<FunctionTraces> make_function_traces();
void set_reduce_retracing(FunctionTraces& traces);
// While the result lives, stateful random operations of this thread are those of the trace.
std::shared_ptr<void> enter_function(const std::shared_ptr<FunctionTraces>& traces, const TraceKey& key);

// R(A...) of a function or of a class with one operator(); void of other classes.
template <typename Fn>
struct SignatureOf : std::type_identity<void> {};
template <typename R, typename... A>
struct SignatureOf<R (*)(A...)> : std::type_identity<R(A...)> {};
template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(A...)> : std::type_identity<R(A...)> {};
template <typename C, typename R, typename... A>
struct SignatureOf<R (C::*)(A...) const> : std::type_identity<R(A...)> {};
template <typename Fn>
requires requires { &Fn::operator(); }
struct SignatureOf<Fn> : SignatureOf<decltype(&Fn::operator())> {};

// A number or a string, which is a Python value where tf.function traces a call.
template <typename T>
concept PythonValue = std::is_arithmetic_v<T> || std::same_as<T, std::string>;
// Whether one of the parameters is one.
template <typename Signature>
inline constexpr bool kTakesPythonValues = false;
template <typename R, typename... A>
inline constexpr bool kTakesPythonValues<R(A...)> = (PythonValue<std::remove_cvref_t<A>> || ...);

// The argument of a parameter of type A.
template <typename A>
decltype(auto) as_parameter(const Nested<Tensor>& argument) {
  using Value = std::remove_cvref_t<A>;
  if constexpr (PythonValue<Value>) {
    return argument.leaf().template item<Value>();
  } else if constexpr (std::is_same_v<Value, Tensor>) {
    return argument.leaf();
  } else {
    return argument;
  }
}
[[noreturn]] void throw_wrong_arguments(std::size_t expected, std::size_t found);
// fn of the first N arguments, or of fewer where there are fewer: the others have defaults.
template <typename Fn, typename... A, std::size_t... I>
Nested<Tensor> call_with_defaults(Fn& fn, const std::vector<Nested<Tensor>>& arguments, std::type_identity<void(A...)>,
                                  std::index_sequence<I...>) {
  constexpr std::size_t N = sizeof...(I);
  using Parameters = std::tuple<std::type_identity<A>...>;
  if constexpr (requires { fn(as_parameter<typename std::tuple_element_t<I, Parameters>::type>(arguments[I])...); }) {
    if (arguments.size() == N)
      return fn(as_parameter<typename std::tuple_element_t<I, Parameters>::type>(arguments[I])...);
  }
  if constexpr (N > 0) {
    if (arguments.size() < N)
      return call_with_defaults(fn, arguments, std::type_identity<void(A...)>(), std::make_index_sequence<N - 1>());
  }
  throw_wrong_arguments(sizeof...(A), arguments.size());
}
template <typename Fn, typename R, typename... A>
Nested<Tensor> call_with_values(Fn& fn, const std::vector<Nested<Tensor>>& arguments, std::type_identity<R(A...)>) {
  return call_with_defaults(fn, arguments, std::type_identity<void(A...)>(), std::index_sequence_for<A...>());
}

}  // namespace internal

class Function;
// What specs or example arguments stand for.
inline Nested<TensorSpec> specs_of(const Nested<TensorSpec>& specs) { return specs; }
Nested<TensorSpec> specs_of(const Nested<Tensor>& arguments);

namespace internal {

// What all TensorFlowFunctions have; copies share the state.
template <typename Fn, typename Derived>
class TensorFlowFunctionBase {
 public:
  explicit TensorFlowFunctionBase(Fn fn) : fn_(std::move(fn)), traces_(make_function_traces()) {}
  // The function for arguments of these specs, or like these: see Function.
  template <typename F = Function, typename... Specs>
  F get_concrete_function(const Specs&... specs) const {
    return F(static_cast<const Derived&>(*this)).get_concrete_function(specs...);
  }

  // A call of the one trace that an input signature has.
  template <typename... A>
  decltype(auto) call_of_signature(const A&... arguments) const {
    const auto entered = enter_function(traces_, TraceKey());
    return fn_(arguments...);
  }
  void reduce_retracing() const { set_reduce_retracing(*traces_); }

 protected:
  template <typename... A>
  decltype(auto) call(A&&... arguments) const {
    const auto entered = enter_function(traces_, TraceKey(arguments...));
    return fn_(std::forward<A>(arguments)...);
  }

 private:
  mutable Fn fn_;
  std::shared_ptr<FunctionTraces> traces_;
};

}  // namespace internal

// What function() returns: calls are those of the function.
template <typename Fn, typename Signature = typename internal::SignatureOf<Fn>::type>
class TensorFlowFunction;
template <typename Fn, typename R, typename... A>
class TensorFlowFunction<Fn, R(A...)> : public internal::TensorFlowFunctionBase<Fn, TensorFlowFunction<Fn, R(A...)>> {
 public:
  using FunctionType = R(A...);
  using internal::TensorFlowFunctionBase<Fn, TensorFlowFunction>::TensorFlowFunctionBase;
  // Arguments may be written in braces.
  R operator()(A... arguments) const { return this->call(std::forward<A>(arguments)...); }
  // With default arguments.
  template <typename... B>
  requires(sizeof...(B) < sizeof...(A) && std::is_invocable_v<Fn&, B...>) R operator()(B&&... arguments) const {
    return this->call(std::forward<B>(arguments)...);
  }
};
template <typename Fn>
class TensorFlowFunction<Fn, void> : public internal::TensorFlowFunctionBase<Fn, TensorFlowFunction<Fn, void>> {
 public:
  using internal::TensorFlowFunctionBase<Fn, TensorFlowFunction>::TensorFlowFunctionBase;
  template <typename... A>
  requires std::is_invocable_v<Fn&, A...>
  decltype(auto) operator()(A&&... arguments) const { return this->call(std::forward<A>(arguments)...); }
};

// tf.function. Its calls are compiled already: they run at once, and stateful random operations in them have states of
// their own, which begin at their seeds, as the nodes of TensorFlow's graphs have: others for each dtype and shape of
// tensors and each value of numbers and strings. Where the function is saved it is traced, see saved_model::save() and
// saved_model::ExportArchive.
template <typename Fn>
TensorFlowFunction<Fn> function(Fn fn) {
  require_function(fn, "function");
  return TensorFlowFunction<Fn>(std::move(fn));
}
struct FunctionKeywords {
  FieldNamesOnly names_only = {};
  std::vector<Nested<TensorSpec>> input_signature = {};  // default: calls are not checked
  bool autograph = true;                                 // these two have no effect
  bool jit_compile = false;
  bool reduce_retracing = false;  // of the states of random operations, see function()
};
// Throws InvalidArgument for arguments that the specs do not allow.
void check_input_signature(const std::vector<Nested<TensorSpec>>& signature,
                           const std::vector<Nested<Tensor>>& arguments);
// Calls check the arguments against input_signature.
template <typename Fn>
class CheckedFunction {
 public:
  CheckedFunction(Fn fn, FunctionKeywords keywords) : fn_(std::move(fn)), keywords_(std::move(keywords)) {
    if (keywords_.reduce_retracing) fn_.reduce_retracing();
  }
  template <typename... Arguments>
  requires std::is_invocable_v<Fn&, const Arguments&...>
  auto operator()(const Arguments&... arguments) const {
    if (keywords_.input_signature.empty()) return fn_(arguments...);
    check_input_signature(keywords_.input_signature, {Nested<Tensor>(arguments)...});
    return fn_.call_of_signature(arguments...);
  }
  const std::vector<Nested<TensorSpec>>& input_signature() const { return keywords_.input_signature; }
  const Fn& unchecked() const { return fn_; }

 private:
  mutable Fn fn_;
  FunctionKeywords keywords_;
};
template <typename Fn>
CheckedFunction<TensorFlowFunction<Fn>> function(Fn fn, FunctionKeywords keywords) {
  return {function(std::move(fn)), std::move(keywords)};
}

// The type of a member that holds a function of tensors or structures, of no argument to six. Copies are the same
// function. A call of an empty one throws FailedPrecondition; a function that returns nothing gives an empty list.
//
//   class Adder : public ls::Module {
//    public:
//     ls::Function add = track("add", ls::function([](const ls::Tensor& x) { return x + 1; },
//                                                  {.input_signature = {ls::TensorSpec({ls::None}, ls::float32)}}));
//   };
class Function {
 public:
  using Signature = std::vector<Nested<TensorSpec>>;  // one for each argument

  Function() = default;
  template <typename Fn>
  requires(!std::is_same_v<Fn, Function> && std::is_class_v<Fn>) Function(Fn fn) {
    if constexpr (requires { fn.input_signature(); }) {
      state_ = make(fn.input_signature(), of_arguments(fn.unchecked()));
    } else {
      state_ = make({}, of_arguments(std::move(fn)), kTakesNothing<Fn>);
    }
  }
  template <typename... Arguments>
  Nested<Tensor> operator()(const Arguments&... arguments) const {
    return call({as_argument(arguments)...}, {kIsPythonValue<Arguments>...});
  }
  // Of one list in braces: module.add({1.0, 2.0}).
  Nested<Tensor> operator()(std::initializer_list<Values> values) const { return call({Tensor(values)}, {false}); }
  // `python_values`: for each argument, whether it is a number or a string. Such arguments are not inputs of the
  // function in a SavedModel. If it is empty, all arguments are tensors.
  Nested<Tensor> call(const std::vector<Nested<Tensor>>& arguments, const std::vector<bool>& python_values = {}) const;
  // Empty where the function was made without one.
  const Signature& input_signature() const;

  // The function for arguments of these specs, or with those of example tensors, which calls are checked against; it is
  // one of concrete_functions() from now on. Numbers and strings are constants of it: calls give the tensors alone.
  // Throws InvalidArgument where the function has an input signature that does not allow the specs.
  template <typename... Arguments>
  Function get_concrete_function(const Arguments&... arguments) const {
    Signature signature;
    (add_spec(signature, arguments), ...);
    return concrete(std::move(signature), {as_constant(arguments)...});
  }
  // What a SavedModel contains: this function, if it has an input signature or no arguments; otherwise one for each of
  // the dtypes and shapes that calls have had (the first hundred) or that get_concrete_function() was asked for, in
  // this order.
  std::vector<Function> concrete_functions() const;
  // The same function, not an equal one.
  friend bool operator==(const Function& a, const Function& b) { return a.state_ == b.state_; }

 private:
  using Call = std::function<Nested<Tensor>(const std::vector<Nested<Tensor>>&)>;
  struct State;
  // `takes_nothing`: a function without arguments has a signature, the empty one.
  static std::shared_ptr<State> make(Signature input_signature, Call call, bool takes_nothing = false);
  State& state() const;
  // `constants`: for each argument, its value if it is a number or a string.
  using Constants = std::vector<std::optional<Tensor>>;
  Function concrete(Signature signature, Constants constants) const;
  static Call with_constants(Call call, Constants constants);

  template <typename T>
  static void add_spec(Signature& signature, const T& argument) {
    if constexpr (!kIsPythonValue<T>) signature.push_back(specs_of(argument));
  }
  template <typename T>
  static std::optional<Tensor> as_constant(const T& argument) {
    if constexpr (kIsPythonValue<T>) {
      return as_argument(argument).leaf();
    } else {
      return std::nullopt;
    }
  }

  template <typename T>
  static Nested<Tensor> as_argument(const T& argument) {
    if constexpr (std::is_convertible_v<const T&, std::string>) {
      return Tensor::strings({std::string(argument)}, {});
    } else {
      return Nested<Tensor>(argument);
    }
  }
  template <typename T>
  static constexpr bool kIsPythonValue = std::is_arithmetic_v<T> || std::is_convertible_v<const T&, std::string>;

  template <typename Fn>
  static auto signature_of() {
    if constexpr (requires { typename Fn::FunctionType; }) {
      return std::type_identity<typename Fn::FunctionType>();
    } else {
      return internal::SignatureOf<Fn>();
    }
  }
  template <typename T>
  struct IsWithoutArguments : std::false_type {};
  template <typename R>
  struct IsWithoutArguments<R()> : std::true_type {};
  template <typename Fn>
  static constexpr bool kTakesNothing = IsWithoutArguments<typename decltype(signature_of<Fn>())::type>::value;

  template <typename Fn>
  static Call of_arguments(Fn fn) {
    using FunctionType = typename decltype(signature_of<Fn>())::type;
    if constexpr (internal::kTakesPythonValues<FunctionType>) {
      return [fn = returning(std::move(fn))](const std::vector<Nested<Tensor>>& arguments) mutable -> Nested<Tensor> {
        return internal::call_with_values(fn, arguments, std::type_identity<FunctionType>());
      };
    } else if constexpr (std::is_invocable_v<Fn&>) {
      return [fn = returning(std::move(fn))](const std::vector<Nested<Tensor>>& arguments) mutable -> Nested<Tensor> {
        if (!arguments.empty()) internal::throw_wrong_arguments(0, arguments.size());
        return fn();
      };
    } else if constexpr (std::is_invocable_v<Fn&, const Nested<Tensor>&>) {
      return [fn = returning(std::move(fn))](const std::vector<Nested<Tensor>>& arguments) mutable -> Nested<Tensor> {
        if (arguments.size() != 1) internal::throw_wrong_arguments(1, arguments.size());
        return fn(arguments[0]);
      };
    } else {
      return [fn = ops::internal::of_parts(returning(std::move(fn)))](const std::vector<Nested<Tensor>>& arguments) {
        return fn(Nested<Tensor>(arguments));
      };
    }
  }
  // fn with an empty list in place of nothing, and the value of a variable that it returns.
  template <typename Fn>
  static auto returning(Fn fn) {
    return [fn = std::move(fn)]<typename... Arguments>(const Arguments&... arguments) mutable -> Nested<Tensor>
    requires std::is_invocable_v<Fn&, const Arguments&...> {
      if constexpr (std::is_void_v<std::invoke_result_t<Fn&, const Arguments&...>>) {
        fn(arguments...);
        return Nested<Tensor>::list({});
      } else {
        return fn(arguments...);
      }
    };
  }

  std::shared_ptr<State> state_;
};

// tf.executing_eagerly(): false in functions of datasets, in tf.function and in the steps of fit, as in TensorFlow,
// though they run at once.
bool executing_eagerly();
// with tf.device("CPU:0"): here all tensors are on the CPU; a scope, `const ls::device cpu("CPU:0");`, has no effect.
class [[maybe_unused]] device {
 public:
  explicit device(const std::string& name) { static_cast<void>(name); }
  ~device() {}
};

// tf.config.run_functions_eagerly(): functions are always called at once, and traced only where they are saved.
namespace config {
inline void run_functions_eagerly(bool) {}
inline bool functions_run_eagerly() { return true; }
}  // namespace config

}  // namespace lockstep
