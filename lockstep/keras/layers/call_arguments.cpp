// Arguments of a layer's call: binding to names, masks, and the C++ forms of a call.
#include <algorithm>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/strings_internal.h"
#include "lockstep/keras/layers/layer.h"

namespace lockstep::keras {
namespace {

bool is_none(const Argument& argument) {
  return argument.is_leaf() && !argument.leaf().is_tensor() && argument.leaf().value.is_null();
}

// What Keras counts as a tensor argument: a tensor, or a structure of tensors and None.
bool is_tensor_argument(const Argument& argument) {
  if (argument.is_leaf()) return argument.leaf().is_tensor();
  bool any = false, all = true;
  argument.visit([&](const ArgValue& value) {
    any = true;
    all = all && (value.is_tensor() || value.value.is_null());
  });
  return any && all;
}

Argument masks_argument(const Argument& tensors) {
  return tensors.map([](const ArgValue& value) { return value.is_tensor() ? ArgValue(value.tensor.mask()) : value; });
}

std::string list_of(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

}  // namespace

bool has_tensor(const Argument& argument) {
  bool any = false;
  argument.visit([&](const ArgValue& value) { any = any || value.is_tensor(); });
  return any;
}

std::vector<std::string> Layer::call_parameters() const {
  std::vector<std::string> names = argument_names();
  if (uses_mask()) names.push_back("mask");
  if (training_argument() != TrainingArgument::kNone) names.push_back("training");
  return names;
}

bool Layer::given_by_position(const CallArguments& arguments, std::string_view parameter) const {
  const std::vector<std::string> names = call_parameters();
  const auto count = std::min(arguments.args.size(), names.size());
  return std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), parameter) !=
         names.begin() + static_cast<std::ptrdiff_t>(count);
}

void Layer::bind_arguments(CallArguments& arguments) const {
  const std::vector<std::string> leading = argument_names();
  if (arguments.kwargs.empty() && arguments.args.size() <= leading.size()) return;
  const std::vector<std::string> names = call_parameters();
  const auto who = [&] { return fmt::format("call of {} '{}'", class_name(), name()); };
  if (arguments.args.size() > names.size()) {
    throw_invalid_argument(
        fmt::format("{}: {} arguments were given by position, expected at most {} ({}){}", who(), arguments.args.size(),
                    names.size(), list_of(names),
                    module().is_null() ? "; the class names those of call() in argument_names()" : ""));
  }
  for (std::size_t i = 0; i < arguments.args.size(); ++i) {
    if (arguments.find(names[i])) {
      throw_invalid_argument(
          fmt::format("{}: argument '{}' was given twice, by position and by name", who(), names[i]));
    }
    if (i >= leading.size()) arguments.set(names[i], std::move(arguments.args[i]));
  }
  if (arguments.args.size() > leading.size()) arguments.args.resize(leading.size());
  for (std::size_t i = arguments.args.size(); i < leading.size(); ++i) {
    const Argument* named = arguments.find(leading[i]);
    if (!named) continue;
    arguments.args.resize(i, Argument(ArgValue()));
    arguments.args.push_back(*named);
    arguments.erase(leading[i]);
  }
  if (takes_any_keyword()) return;
  for (const auto& [keyword, value] : arguments.kwargs) {
    // Every layer accepts training; those without such an argument pass it on to their sublayers.
    if (keyword == "training" || is_none(value)) continue;
    if (std::find(names.begin(), names.end(), keyword) == names.end()) {
      throw_invalid_argument(fmt::format("{}: unknown argument '{}'{}; expected {}", who(), keyword,
                                         did_you_mean(keyword, names), list_of(names)));
    }
  }
}

Structure Layer::first_arguments(const CallArguments& arguments) const {
  const auto names = argument_names();
  if (names.size() == 1) {
    if (arguments.args.empty())
      throw_invalid_argument(fmt::format("{} '{}' was called without inputs", class_name(), name()));
    return to_structure(arguments.args[0]);
  }
  Structure::List items;
  for (const Argument& given : arguments.args) {
    Structure item = to_structure(given);
    if (item.is_leaf() && !item.leaf().defined()) continue;
    items.push_back(std::move(item));
  }
  return Structure::list(std::move(items));
}

// Keras attaches masks to arguments by name: a call with one tensor argument gets its mask as `mask`; in a call with
// several, `x` gets its mask as `x_mask` where call() has such an argument, and nothing is passed as `mask`.
void Layer::fill_masks(CallArguments& arguments) const {
  if (!uses_mask()) return;
  const std::vector<std::string> leading = argument_names();
  std::vector<std::pair<std::string, const Argument*>> tensors;
  for (std::size_t i = 0; i < arguments.args.size() && i < leading.size(); ++i) {
    if (is_tensor_argument(arguments.args[i])) tensors.emplace_back(leading[i], &arguments.args[i]);
  }
  for (const auto& [keyword, value] : arguments.kwargs) {
    if (is_tensor_argument(value)) tensors.emplace_back(keyword, &value);
  }
  const std::vector<std::string> names = call_parameters();
  std::vector<std::pair<std::string, Argument>> masks;
  const auto fill = [&](const std::string& keyword, const Argument& tensor) {
    if (std::find(names.begin(), names.end(), keyword) == names.end()) return;
    const Argument* given = arguments.find(keyword);
    if (!given || is_none(*given)) masks.emplace_back(keyword, masks_argument(tensor));
  };
  if (tensors.size() == 1) {
    fill("mask", *tensors[0].second);
  } else {
    for (const auto& [name, tensor] : tensors) fill(name + "_mask", *tensor);
  }
  for (auto& [keyword, mask] : masks) arguments.set(keyword, std::move(mask));
}

// The mask that compute_mask() starts from: the one call() got, else that of the inputs.
Structure Layer::previous_mask(const CallArguments& arguments, const Structure& inputs) const {
  const Argument* given = arguments.find("mask");
  if (given && has_tensor(*given)) return to_structure(*given);
  return inputs.map([](const Tensor& t) { return t.defined() ? t.mask() : Tensor(); });
}

Structure Layer::call_given(const Structure& inputs, const CallOptions& options) {
  if (argument_names().size() > 1 && inputs.is_list()) return call_with(inputs.parts(), options);
  return call_with({inputs}, options);
}

Structure Layer::call_with(const std::vector<Structure>& positional, const CallOptions& options) {
  CallArguments arguments;
  for (const Structure& argument : positional) arguments.args.push_back(to_argument(argument));
  const auto tensors = [&](const char* keyword, const Structure& value) {
    Argument argument = to_argument(value);
    if (has_tensor(argument)) arguments.set(keyword, std::move(argument));
  };
  const auto flag = [&](const char* keyword, const std::optional<bool>& value) {
    if (value) arguments.set(keyword, ArgValue(Json(*value)));
  };
  tensors("inputs", options.inputs);
  tensors("query", options.query);
  tensors("value", options.value);
  tensors("key", options.key);
  tensors("initial_state", options.initial_state);
  tensors("states", options.states);
  tensors("mask", options.mask);
  tensors("query_mask", options.query_mask);
  tensors("value_mask", options.value_mask);
  tensors("key_mask", options.key_mask);
  tensors("attention_mask", options.attention_mask);
  flag("return_attention_scores", options.return_attention_scores);
  flag("use_causal_mask", options.use_causal_mask);
  tensors("count_weights", options.count_weights);
  for (const auto& [keyword, value] : options.arguments) arguments.set(keyword, value);
  return invoke(std::move(arguments), options.training);
}

}  // namespace lockstep::keras
