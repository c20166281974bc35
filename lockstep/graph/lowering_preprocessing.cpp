// Operations on strings, which programs do not have, before a program.
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/graph/lowering_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/table_resource_internal.h"

namespace lockstep::graph {
namespace {

bool finds_in_table(std::string_view op) { return op == "LookupTableFindV2" || op == "LookupTableFind"; }

// By the signature; kInvalid for lists of types.
std::vector<DType> output_types(const Step& step) {
  std::vector<DType> types;
  if (!step.op) return types;
  for (const ops::ArgDef& arg : step.op->signature->outputs) {
    const ops::Attr* const attr = arg.type_attr.empty() ? nullptr : step.attrs.find(arg.type_attr);
    const DType* const type = attr ? std::get_if<DType>(attr) : nullptr;
    types.push_back(type ? *type : arg.dtype);
  }
  return types;
}

bool gives_strings(const Step& step) {
  const std::vector<DType> types = output_types(step);
  return std::ranges::find(types, DType::kString) != types.end();
}
bool gives_integers(const Step& step) {
  const std::vector<DType> types = output_types(step);
  return !types.empty() && std::ranges::all_of(types, [](DType type) {
    return type == DType::kInt32 || type == DType::kInt64 || type == DType::kBool;
  });
}

bool runs_before(const Step& step) {
  return finds_in_table(step.node->op) ||
         (step.op && step.op->kernel && !step.executor_op && !step.op->signature->stateful);
}

}  // namespace

Tensors Preprocessing::compute(const Item& item, const Tensors& values) {
  Tensors inputs = item.constants;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) inputs[i] = values[static_cast<std::size_t>(item.values[i])];
  }
  if (item.table) return {item.table->find(inputs[1], inputs[2])};
  return ops::run_kernel(*item.op, inputs, item.attrs);
}

int Preprocessing::add(const Step& step, std::span<const Lowered> inputs) {
  Item item{step.op, step.attrs, nullptr, {}, {}, static_cast<int>(values_.size()), step.num_outputs};
  if (finds_in_table(step.node->op))
    item.table = std::dynamic_pointer_cast<ops::TableResource>(inputs[0].constant.resource_value());
  for (const Lowered& input : inputs) {
    item.constants.push_back(input.constant);
    item.values.push_back(input.is_constant() ? -1 : input.before);
  }
  for (Tensor& value : compute(item, values_)) values_.push_back(std::move(value));
  items_.push_back(std::move(item));
  return items_.back().first_output;
}

void Preprocessing::finish() {
  std::vector<char> needed(values_.size(), 0);
  for (const int value : taken_) needed[static_cast<std::size_t>(value)] = 1;
  std::vector<Item> kept;
  for (auto item = items_.rbegin(); item != items_.rend(); ++item) {
    const auto first = needed.begin() + item->first_output;
    if (std::none_of(first, first + item->num_outputs, [](char is) { return is != 0; })) continue;
    for (const int value : item->values) {
      if (value >= 0) needed[static_cast<std::size_t>(value)] = 1;
    }
    kept.push_back(std::move(*item));
  }
  std::ranges::reverse(kept);
  items_ = std::move(kept);
  for (const int value : taken_) shapes_.push_back(values_[static_cast<std::size_t>(value)].shape());
  num_values_ = values_.size();
  values_.clear();
}

std::optional<Tensors> Preprocessing::run(std::span<const Tensor> feeds, std::int64_t batch) const {
  if (taken_.empty()) return Tensors{};
  Tensors values(feeds.begin(), feeds.end()), taken;
  values.resize(num_values_);
  for (const Item& item : items_) {
    Tensors outputs = compute(item, values);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      values[static_cast<std::size_t>(item.first_output) + i] = std::move(outputs[i]);
  }
  for (std::size_t i = 0; i < taken_.size(); ++i) {
    taken.push_back(values[static_cast<std::size_t>(taken_[i])]);
    Shape expected = shapes_[i];
    if (batch_ > 0) expected[0] = batch;
    if (!(taken.back().shape() == expected)) return std::nullopt;
  }
  return taken;
}

// Steps that read or give strings, those that read what cannot be an input of the program, and, where the program would
// lack operations otherwise, those that compute integers from others of these.
bool Lowering::is_before(const Step& step, std::span<const Lowered> inputs) const {
  if (std::ranges::none_of(inputs, [](const Lowered& input) { return input.before >= 0; })) return false;
  if (gives_shape(step.node->op) && before_.is_feed(inputs[0].before)) return false;
  if (before_.takes_integers() && gives_integers(step) && runs_before(step) &&
      std::ranges::any_of(inputs,
                          [&](const Lowered& input) { return input.before >= 0 && !before_.is_feed(input.before); }) &&
      std::ranges::all_of(inputs, [](const Lowered& input) {
        return input.is_constant() ? !input.other.defined() && !input.series : input.before >= 0;
      }))
    return true;
  return gives_strings(step) || std::ranges::any_of(inputs, [&](const Lowered& input) {
           return input.before >= 0 && !input.is_constant() && input.value < 0 && !can_be_input(input);
         });
}

bool Lowering::can_be_input(const Lowered& known) const {
  const Tensor& value = before_.value(known.before);
  const auto& dims = value.shape().dims();
  return value.is_value() && has_bytes(value.dtype()) && value.num_elements() > 0 &&
         (!by_rows() || (!dims.empty() && dims[0] == before_.batch()));
}

Lowered Lowering::as_input(const Lowered& known) {
  const bool is_string_feed = known.before >= 0 && before_.is_feed(known.before);  // its shape is known
  if (known.before < 0 || known.is_constant() || known.value >= 0 || is_string_feed) return known;
  require_by_rows(can_be_input(known));
  require(can_be_input(known));
  const auto found = inputs_before_.find(known.before);
  if (found != inputs_before_.end()) return found->second;
  Lowered input = known;
  input.dims = before_.value(known.before).shape().dims();
  if (by_rows()) input.dims[0] = rows_;
  input.other_dims = input.dims;
  if (by_rows()) ++input.other_dims[0];
  input.value = program_.add_value(0);
  before_.take(known.before);
  values_before_.push_back(input.value);
  return inputs_before_[known.before] = input;
}

std::vector<Lowered> Lowering::lower_before(const Step& step, std::span<const Lowered> inputs) {
  const bool finds = finds_in_table(step.node->op);
  require(!frame_ && runs_before(step));
  require(!finds || (inputs[0].is_constant() && inputs[0].dtype == DType::kResource &&
                     std::dynamic_pointer_cast<ops::TableResource>(inputs[0].constant.resource_value())));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Lowered& input = inputs[i];
    require_by_rows(!input.other.defined());
    require(!input.series && !input.list && !input.is_later() && (input.is_constant() || input.before >= 0));
    require(input.dtype != DType::kResource || (finds && i == 0));
    require(i >= step.input_types.size() || input.dtype == step.input_types[i]);
  }
  const int first = before_.add(step, inputs);
  std::vector<Lowered> outputs;
  for (int i = 0; i < step.num_outputs; ++i) {
    Lowered& output = outputs.emplace_back();
    output.before = first + i;
    output.dtype = before_.value(output.before).dtype();
  }
  return outputs;
}

}  // namespace lockstep::graph
