// TensorArrayV3 and StackV2: tensors that loops of the first control-flow style, and their gradients, write and read.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "lockstep/ops/call.h"
#include "lockstep/ops/rows_internal.h"
#include "lockstep/ops/variants_internal.h"

namespace lockstep::ops {
namespace {

// Thread-safe.
class TensorArray final : public Resource {
 public:
  struct Options {
    DType dtype = DType::kFloat32;
    Shape element_shape;
    bool dynamic = false;  // writes may lengthen it
    bool clears = true;    // an element is gone once it was read
    bool adds = false;     // a second write adds, as the array of gradients does
    bool uniform = false;  // the first write decides the shape of all elements
  };

  TensorArray(Options options, std::int64_t size)
      : options_(std::move(options)), elements_(static_cast<std::size_t>(element_count({size}, sizeof(Element)))) {}

  std::string resource_name() const override { return "TensorArray"; }
  DType dtype() const { return options_.dtype; }

  std::int64_t size() const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(elements_.size());
  }
  Shape element_shape() const {
    const std::lock_guard lock(mutex_);
    return options_.element_shape;
  }

  void write(std::int64_t index, const Tensor& value) {
    const std::lock_guard lock(mutex_);
    if (value.dtype() != options_.dtype) {
      throw_invalid_argument(fmt::format("the TensorArray holds {}, the value is {}", dtype_name(options_.dtype),
                                         dtype_name(value.dtype())));
    }
    if (!options_.element_shape.compatible_with(value.shape())) {
      throw_invalid_argument(fmt::format("the TensorArray holds elements of shape {}, the value has {}",
                                         options_.element_shape.to_string(), value.shape().to_string()));
    }
    if (options_.uniform && !options_.element_shape.fully_known()) options_.element_shape = value.shape();
    const auto count = static_cast<std::int64_t>(elements_.size());
    if (index < 0 || (index >= count && !options_.dynamic))
      throw_invalid_argument(fmt::format("index {} of a TensorArray with {} elements", index, count));
    if (index >= count) elements_.resize(static_cast<std::size_t>(element_count({index}, sizeof(Element))) + 1);
    Element& element = elements_[static_cast<std::size_t>(index)];
    if (element.value.defined() && options_.adds) {
      element.value = call1("AddV2", {element.value, value});
      return;
    }
    if (element.value.defined() || element.cleared)
      throw_invalid_argument(fmt::format("element {} of a TensorArray is written twice", index));
    element.value = value;
    element.shape = value.shape();
  }

  Tensor read(std::int64_t index) {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::int64_t>(elements_.size());
    if (index < 0 || index >= count)
      throw_invalid_argument(fmt::format("index {} of a TensorArray with {} elements", index, count));
    Element& element = elements_[static_cast<std::size_t>(index)];
    if (element.cleared)
      throw_invalid_argument(fmt::format("element {} of a TensorArray was cleared by an earlier read", index));
    if (!element.value.defined()) return zeros(merge_shapes(options_.element_shape, element.shape));
    Tensor value = element.value;
    if (options_.clears) {
      element.value = Tensor();
      element.cleared = true;
    }
    return value;
  }

  // That of gradients of this array under the name `source`, made when first asked for.
  std::shared_ptr<TensorArray> gradients(const std::string& source, const Shape& in_front) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<TensorArray>& found = gradients_[source];
    if (found) return found;
    Options options = options_;
    options.clears = false, options.adds = true, options.dynamic = false;
    const auto with_front = [&](const Shape& shape) {
      if (!shape.known_rank()) return shape;
      std::vector<std::int64_t> dims = in_front.dims();
      dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
      return Shape(dims);
    };
    options.element_shape = with_front(options.element_shape);
    found = std::make_shared<TensorArray>(options, static_cast<std::int64_t>(elements_.size()));
    for (std::size_t i = 0; i < elements_.size(); ++i) found->elements_[i].shape = with_front(elements_[i].shape);
    return found;
  }

  void close() {
    const std::lock_guard lock(mutex_);
    elements_.clear();
    gradients_.clear();
  }

 private:
  struct Element {
    Tensor value;
    Shape shape =
        Shape::unknown_rank();  // of the value that was written, here or in the array whose gradients these are
    bool cleared = false;
  };

  // An element that was never written.
  Tensor zeros(const Shape& shape) const {
    if (!shape.fully_known()) {
      throw_invalid_argument(
          fmt::format("an element that was never written needs a full element shape, it is {}", shape.to_string()));
    }
    const std::int64_t count = element_count(shape.dims(), sizeof(std::string));
    if (options_.dtype == DType::kString)
      return Tensor::strings(std::vector<std::string>(static_cast<std::size_t>(count)), shape);
    return Tensor::zeros(shape, options_.dtype);
  }

  Options options_;
  mutable std::mutex mutex_;
  std::vector<Element> elements_;
  std::map<std::string, std::shared_ptr<TensorArray>> gradients_;
};

// TensorFlow declares the handle as a vector of two.
Tensor handle_of(std::shared_ptr<Resource> array) {
  auto impl = std::make_shared<TensorImpl>();
  impl->dtype = DType::kResource;
  impl->shape = Shape{2};
  impl->resource = std::move(array);
  return Tensor(std::move(impl));
}

// What a loop keeps for its gradient. Thread-safe.
class TensorStack final : public Resource {
 public:
  TensorStack(DType dtype, std::int64_t most) : dtype_(dtype), most_(most) {}

  std::string resource_name() const override { return "Stack"; }
  void push(const Tensor& value) {
    const std::lock_guard lock(mutex_);
    if (value.dtype() != dtype_) {
      throw_invalid_argument(
          fmt::format("the stack holds {}, the value is {}", dtype_name(dtype_), dtype_name(value.dtype())));
    }
    if (most_ >= 0 && static_cast<std::int64_t>(values_.size()) >= most_)
      throw_invalid_argument(fmt::format("the stack is full: it holds {} values", most_));
    values_.push_back(value);
  }
  Tensor pop() {
    const std::lock_guard lock(mutex_);
    if (values_.empty()) throw_invalid_argument("the stack is empty");
    const Tensor value = values_.back();
    values_.pop_back();
    return value;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    values_.clear();
  }
  DType dtype() const { return dtype_; }

 private:
  const DType dtype_;
  const std::int64_t most_;
  std::mutex mutex_;
  Tensors values_;
};

TensorStack& stack_in(const Call& call) {
  const Tensor& handle = call.input(0);
  auto* found =
      handle.dtype() == DType::kResource ? dynamic_cast<TensorStack*>(handle.resource_value().get()) : nullptr;
  if (!found) throw_invalid_argument("input 0 is not a stack");
  return *found;
}

Tensors pop_value(const Call& call) {
  TensorStack& stack = stack_in(call);
  const DType declared = call.attr<DType>("elem_type");
  if (declared != stack.dtype()) {
    throw_invalid_argument(
        fmt::format("the stack holds {}, the call expects {}", dtype_name(stack.dtype()), dtype_name(declared)));
  }
  return {stack.pop()};
}

TensorArray& array_in(const Call& call) {
  const Tensor& handle = call.input(0);
  auto* found =
      handle.dtype() == DType::kResource ? dynamic_cast<TensorArray*>(handle.resource_value().get()) : nullptr;
  if (!found) throw_invalid_argument("input 0 is not a TensorArray");
  const DType* declared = call.find_attr<DType>("dtype");
  if (declared && *declared != found->dtype()) {
    throw_invalid_argument(fmt::format("the TensorArray holds {}, the call expects {}", dtype_name(found->dtype()),
                                       dtype_name(*declared)));
  }
  return *found;
}

Tensors make_array(const Call& call) {
  TensorArray::Options options;
  options.dtype = call.attr<DType>("dtype");
  options.element_shape = call.attr<Shape>("element_shape");
  options.dynamic = call.attr<bool>("dynamic_size");
  options.clears = call.attr<bool>("clear_after_read");
  const bool* identical = call.find_attr<bool>("identical_element_shapes");
  options.uniform = identical && *identical;
  const std::int64_t size = int_in(call, 0);
  if (size < 0) throw_invalid_argument(fmt::format("the size of a TensorArray must not be negative: {}", size));
  return {handle_of(std::make_shared<TensorArray>(options, size)), Tensor::scalar(0.0f)};
}

Tensors array_gradients(const Call& call) {
  TensorArray& array = array_in(call);
  Shape in_front{};
  if (call.num_inputs() > 2) in_front = Shape(ints_in(call, 2));
  return {handle_of(array.gradients(call.attr<std::string>("source"), in_front)), call.input(1)};
}

Tensors write_element(const Call& call) {
  array_in(call).write(int_in(call, 1), call.input(2));
  return {call.input(3)};
}

Tensors read_element(const Call& call) { return {array_in(call).read(int_in(call, 1))}; }

// One tensor whose first axis numbers the elements; of an empty list by the element shape.
Tensor pack_elements(const Tensors& parts, const Shape& element, DType dtype) {
  if (dtype == DType::kVariant) return variants(parts);
  if (parts.empty()) {
    if (!element.fully_known())
      throw_invalid_argument(
          fmt::format("a TensorArray without elements needs a full element shape, it is {}", element.to_string()));
    Ints dims = element.dims();
    dims.insert(dims.begin(), 0);
    if (dtype == DType::kString) return Tensor::strings({}, Shape(dims));
    return Tensor::zeros(Shape(dims), dtype);
  }
  return call1("Pack", parts, {{"axis", std::int64_t{0}}});
}

Tensors gather_elements(const Call& call) {
  TensorArray& array = array_in(call);
  Tensors parts;
  for (const std::int64_t index : ints_in(call, 1)) parts.push_back(array.read(index));
  const Shape& given = call.attr<Shape>("element_shape");
  for (const Tensor& part : parts) {
    if (!given.compatible_with(part.shape())) {
      throw_invalid_argument(
          fmt::format("the element has shape {}, expected {}", part.shape().to_string(), given.to_string()));
    }
  }
  return {pack_elements(parts, merge_shapes(array.element_shape(), given), array.dtype())};
}

// Rows [begin, end) of the first axis.
Tensor rows_between(const Tensor& x, std::int64_t begin, std::int64_t end) {
  if (x.dtype() != DType::kString) return wrap(dense(x).slice(0, begin, end).contiguous());
  Ints rows;
  for (std::int64_t i = begin; i < end; ++i) rows.push_back(i);
  return take_rows(x, rows);
}

Tensors scatter_elements(const Call& call) {
  TensorArray& array = array_in(call);
  const Ints indices = ints_in(call, 1);
  const Tensor& value = call.input(2);
  if (value.dim(0) != static_cast<std::int64_t>(indices.size()))
    throw_invalid_argument(fmt::format("{} indices for {} rows", indices.size(), value.dim(0)));
  Shape inner(std::vector<std::int64_t>(value.shape().dims().begin() + 1, value.shape().dims().end()));
  if (value.dtype() == DType::kVariant) {
    for (std::size_t i = 0; i < indices.size(); ++i) array.write(indices[i], variants_in(value)[i]);
    return {call.input(3)};
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Tensor row = rows_between(value, at, at + 1);
    array.write(indices[i], row.dtype() == DType::kString ? Tensor::strings(row.string_values(), inner)
                                                          : wrap(dense(row).reshape(inner.dims())));
  }
  return {call.input(3)};
}

Tensors concat_elements(const Call& call) {
  TensorArray& array = array_in(call);
  Tensors parts;
  Ints lengths;
  for (std::int64_t i = 0, size = array.size(); i < size; ++i) {
    parts.push_back(array.read(i));
    if (parts.back().rank() < 1) throw_invalid_argument("scalars cannot be concatenated");
    lengths.push_back(parts.back().dim(0));
    const auto& dims = parts.back().shape().dims();
    if (!std::equal(dims.begin() + 1, dims.end(), parts[0].shape().dims().begin() + 1, parts[0].shape().dims().end()))
      throw_invalid_argument("the elements differ in an axis that is not concatenated");
  }
  if (!parts.empty()) return {concat_rows(parts), wrap(int64_tensor(lengths))};
  return {pack_elements({}, call.attr<Shape>("element_shape_except0"), array.dtype()), wrap(int64_tensor(lengths))};
}

Tensors split_elements(const Call& call) {
  TensorArray& array = array_in(call);
  const Tensor& value = call.input(1);
  if (value.rank() < 1) throw_invalid_argument("a scalar cannot be split");
  std::int64_t begin = 0, index = 0;
  for (const std::int64_t length : ints_in(call, 2)) {
    if (length < 0 || length > value.dim(0) - begin)
      throw_invalid_argument(fmt::format("the lengths do not add up to the {} rows", value.dim(0)));
    array.write(index++, rows_between(value, begin, begin + length));
    begin += length;
  }
  if (begin != value.dim(0))
    throw_invalid_argument(fmt::format("the lengths add up to {}, expected {}", begin, value.dim(0)));
  return {call.input(3)};
}

}  // namespace

void register_tensor_arrays(Table& table) {
  const ShapeRule flow_rule = [](const Call&) { return Shapes{Shape{}}; };
  const ShapeRule made_rule = [](const Call&) { return Shapes{Shape{2}, Shape{}}; };
  table.add("TensorArrayV3", made_rule, make_array);
  for (auto name : {"TensorArrayGradV3", "TensorArrayGradWithShape"}) table.add(name, made_rule, array_gradients);
  table.add("TensorArrayWriteV3", flow_rule, write_element);
  table.add("TensorArrayReadV3", nullptr, read_element);
  table.add("TensorArrayGatherV3", nullptr, gather_elements);
  table.add("TensorArrayScatterV3", flow_rule, scatter_elements);
  table.add(
      "TensorArrayConcatV3",
      [](const Call&) {
        return Shapes{Shape::unknown_rank(), Shape{kUnknownDim}};
      },
      concat_elements);
  table.add("TensorArraySplitV3", flow_rule, split_elements);
  table.add("TensorArraySizeV3", scalar_rule,
            [](const Call& call) { return Tensors{Tensor::scalar(static_cast<std::int32_t>(array_in(call).size()))}; });
  table.add(
      "StackV2", [](const Call&) { return Shapes{Shape{2}}; },
      [](const Call& call) {
        return Tensors{handle_of(std::make_shared<TensorStack>(call.attr<DType>("elem_type"), int_in(call, 0)))};
      });
  table.add(
      "StackPushV2", [](const Call& call) { return Shapes{call.input(1).shape()}; },
      [](const Call& call) {
        stack_in(call).push(call.input(1));
        return Tensors{call.input(1)};
      });
  table.add("StackPopV2", nullptr, pop_value);
  table.add("StackCloseV2", no_outputs, [](const Call& call) {
    stack_in(call).close();
    return Tensors{};
  });
  table.add("TensorArrayCloseV3", no_outputs, [](const Call& call) {
    array_in(call).close();
    return Tensors{};
  });
}

}  // namespace lockstep::ops
