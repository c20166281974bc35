#include "lockstep/ops/function.h"

#include <algorithm>
#include <mutex>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composite_specs.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/ragged_elements_internal.h"

namespace lockstep::internal {

class FunctionTraces : public ops::TracedDraws {};

std::shared_ptr<FunctionTraces> make_function_traces() { return std::make_shared<FunctionTraces>(); }
void set_reduce_retracing(FunctionTraces& traces) { traces.reduce_retracing(); }
std::shared_ptr<void> enter_function(const std::shared_ptr<FunctionTraces>& traces, const TraceKey& key) {
  return std::make_shared<ops::FunctionDraws::Call>(traces->of(key.exact(), key.without_shapes()));
}

void TraceKey::add_text(const std::string& text) {
  for (std::string* key : {&exact_, &without_shapes_}) *key += fmt::format("{}:{};", text.size(), text);
}
void TraceKey::add_tensors(const Nested<Tensor>& tensors) {
  tensors.visit([&](const Tensor& tensor) {
    if (!tensor.defined()) return add_text("None");
    add_text(std::string(dtype_name(tensor.dtype())));
    exact_ += tensor.shape().to_string();
  });
}

}  // namespace lockstep::internal

namespace lockstep {

bool executing_eagerly() { return !ops::FunctionDraws::active() && !ops::ScopedRecorder::active(); }

Nested<TensorSpec> specs_of(const Nested<Tensor>& arguments) {
  return arguments.map([](const Tensor& tensor) { return TensorSpec(tensor.shape(), tensor.dtype()); });
}

namespace {

using Specs = Nested<TensorSpec>;

bool describes(const TensorSpec& spec, const TensorSpec& found) {
  return found.dtype == spec.dtype && found.shape.compatible_with(spec.shape);
}
bool describes(const TensorSpec& spec, const Tensor& found) {
  if (spec.ragged && ops::holds_ragged(found))
    return RaggedTensorSpec::of_element(spec).is_compatible_with(ops::ragged_in(found));
  return found.dtype() == spec.dtype && found.shape().compatible_with(spec.shape);
}
template <typename Leaf>
bool describes(const Specs& specs, const Nested<Leaf>& found) {
  if (specs.is_leaf() || found.is_leaf())
    return specs.is_leaf() && found.is_leaf() && describes(specs.leaf(), found.leaf());
  if (specs.is_list() != found.is_list() || specs.size() != found.size()) return false;
  if (specs.is_list()) {
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (!describes(specs.parts()[i], found.parts()[i])) return false;
    }
    return true;
  }
  return std::all_of(specs.entries().begin(), specs.entries().end(), [&](const auto& entry) {
    const Nested<Leaf>* value = found.find(entry.first);
    return value && describes(entry.second, *value);
  });
}
template <typename Leaf>
bool describes(const Function::Signature& signature, const std::vector<Nested<Leaf>>& found) {
  return std::equal(signature.begin(), signature.end(), found.begin(), found.end(),
                    [](const Specs& specs, const auto& argument) { return describes(specs, argument); });
}

std::string to_text(const Specs& specs) {
  std::string out;
  specs.visit([&](const TensorSpec& spec) {
    const DType dtype = spec.ragged ? spec.ragged->dtype : spec.dtype;
    const Shape& shape = spec.ragged ? spec.ragged->shape : spec.shape;
    out += fmt::format("{}{}{} {}", out.empty() ? "" : ", ", spec.ragged ? "ragged " : "", dtype_name(dtype),
                       shape.to_string());
  });
  return out;
}

// The numbers and strings among the arguments; empty without them.
std::string to_text(const std::vector<std::optional<Tensor>>& constants) {
  std::string out;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (constants[i])
      out += fmt::format("{}: {} {}; ", i, dtype_name(constants[i]->dtype()), constants[i]->to_string());
  }
  return out;
}

template <typename Leaf>
void check(const Function::Signature& signature, const std::vector<Nested<Leaf>>& arguments) {
  if (arguments.size() != signature.size()) {
    throw_invalid_argument(fmt::format("function: invalid call: found {} arguments, expected {} of input_signature",
                                       arguments.size(), signature.size()));
  }
  for (std::size_t i = 0; i < signature.size(); ++i) {
    if (!describes(signature[i], arguments[i]))
      throw_invalid_argument(fmt::format("function: invalid argument {}: found {}, expected {} of input_signature", i,
                                         to_text(specs_of(arguments[i])), to_text(signature[i])));
  }
}

}  // namespace

void check_input_signature(const std::vector<Nested<TensorSpec>>& signature,
                           const std::vector<Nested<Tensor>>& arguments) {
  check(signature, arguments);
}

// The concrete functions of a function without an input signature belong to all of its copies.
struct Function::State {
  State(std::optional<Signature> input_signature, Call call, std::string constants)
      : input_signature(std::move(input_signature)), call(std::move(call)), constants(std::move(constants)) {}
  const std::optional<Signature> input_signature;
  const Call call;
  const std::string constants;  // of a concrete function
  std::mutex mutex;
  std::vector<std::shared_ptr<State>> concrete;
  std::size_t seen_in_calls = 0;
};

std::shared_ptr<Function::State> Function::make(Signature input_signature, Call call, bool takes_nothing) {
  std::optional<Signature> given;
  if (takes_nothing || !input_signature.empty()) given = std::move(input_signature);
  return std::make_shared<State>(std::move(given), std::move(call), "");
}

Function::State& Function::state() const {
  if (!state_) throw_failed_precondition("Function: the call requires a function, found an empty Function");
  return *state_;
}

Nested<Tensor> Function::call(const std::vector<Nested<Tensor>>& arguments,
                              const std::vector<bool>& python_values) const {
  State& known = state();
  if (known.input_signature) {
    check(*known.input_signature, arguments);
    return known.call(arguments);
  }
  Nested<Tensor> result = known.call(arguments);
  constexpr std::size_t kMostSeen = 100;
  const std::lock_guard lock(known.mutex);
  std::vector<Nested<Tensor>> tensors;
  Constants constants(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (python_values.empty() || !python_values[i]) {
      tensors.push_back(arguments[i]);
    } else {
      constants[i] = arguments[i].leaf();
    }
  }
  const std::string constants_text = to_text(constants);
  const bool is_new = std::none_of(known.concrete.begin(), known.concrete.end(), [&](const auto& each) {
    return each->constants == constants_text && describes(*each->input_signature, tensors);
  });
  if (is_new && known.seen_in_calls < kMostSeen) {
    ++known.seen_in_calls;
    Signature seen;
    for (const Nested<Tensor>& argument : tensors) seen.push_back(specs_of(argument));
    known.concrete.push_back(
        std::make_shared<State>(std::move(seen), with_constants(known.call, std::move(constants)), constants_text));
  }
  return result;
}

const Function::Signature& Function::input_signature() const {
  static const Signature kNone;
  const State& known = state();
  return known.input_signature ? *known.input_signature : kNone;
}

Function::Call Function::with_constants(Call call, Constants constants) {
  if (std::none_of(constants.begin(), constants.end(), [](const auto& constant) { return constant.has_value(); }))
    return call;
  return [call = std::move(call), constants = std::move(constants)](const std::vector<Nested<Tensor>>& tensors) {
    std::vector<Nested<Tensor>> arguments;
    auto next = tensors.begin();
    for (const auto& constant : constants) arguments.push_back(constant ? Nested<Tensor>(*constant) : *next++);
    return call(arguments);
  };
}

Function Function::concrete(Signature signature, Constants constants) const {
  State& known = state();
  if (known.input_signature) {
    if (!constants.empty()) check(*known.input_signature, signature);
    return *this;
  }
  const auto is_equal = [](const Specs& a, const Specs& b) { return describes(a, b) && a.flatten() == b.flatten(); };
  const std::string constants_text = to_text(constants);
  const std::lock_guard lock(known.mutex);
  Function found;
  for (const auto& each : known.concrete) {
    if (each->constants == constants_text &&
        std::equal(signature.begin(), signature.end(), each->input_signature->begin(), each->input_signature->end(),
                   is_equal))
      found.state_ = each;
  }
  if (!found.state_) {
    found.state_ = known.concrete.emplace_back(std::make_shared<State>(
        std::move(signature), with_constants(known.call, std::move(constants)), constants_text));
  }
  return found;
}

std::vector<Function> Function::concrete_functions() const {
  State& known = state();
  if (known.input_signature) return {*this};
  const std::lock_guard lock(known.mutex);
  std::vector<Function> all(known.concrete.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i].state_ = known.concrete[i];
  return all;
}

void internal::throw_wrong_arguments(std::size_t expected, std::size_t found) {
  throw_invalid_argument(fmt::format("function: invalid call: found {} arguments, expected {}", found, expected));
}

}  // namespace lockstep
