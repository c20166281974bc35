// TensorList: a plain list of tensors, itself a value. Setting an item gives a new list.
#include <algorithm>

#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/kernels_internal.h"
#include "lockstep/ops/variants_internal.h"

namespace lockstep::ops {
namespace {

// Input i as a list. Throws InvalidArgument for another value, and for items of another dtype than the call declares.
const Tensor& list_in(const Call& call, int i) {
  const Tensor& list = call.input(i);
  if (!list.impl()->list) throw_invalid_argument(fmt::format("input {} is not a list of tensors", i));
  const DType* declared = call.find_attr<DType>("element_dtype");
  if (declared && *declared != list.list_element_dtype()) {
    throw_invalid_argument(fmt::format("the list holds {}, the call expects {}", dtype_name(list.list_element_dtype()),
                                       dtype_name(*declared)));
  }
  return list;
}
// The shape of an item, from the list, the call and the items.
Shape merged_element_shape(const Tensor& list, const Shape& given, const Tensors& items) {
  Shape shape = merge_shapes(list.list_element_shape(), given);
  for (const Tensor& x : items) {
    if (x.defined()) shape = merge_shapes(shape, x.shape());
  }
  return shape;
}
Shape merged_element_shape(const Tensor& list, const Shape& given) {
  return merged_element_shape(list, given, list.list_elements());
}
Shape shape_input(const Call& call, int i) {
  const at::Tensor& x = in(call, i);
  if (x.dim() == 0) {
    if (x.item().to<std::int64_t>() == -1) return Shape::unknown_rank();
    throw_invalid_argument("an element shape must be a vector, or -1 if it is unknown");
  }
  const Ints dims = ints_of(x);
  for (const std::int64_t dim : dims) {
    if (dim < kUnknownDim) throw_invalid_argument(fmt::format("{} is not an extent of an element shape", dim));
  }
  return Shape(dims);
}
Tensor zeros_of(const Shape& shape, DType dtype) {
  if (!shape.fully_known())
    throw_invalid_argument(
        fmt::format("an item that was never set needs a full element shape, it is {}", shape.to_string()));
  if (dtype == DType::kString)
    return Tensor::strings(
        std::vector<std::string>(static_cast<std::size_t>(element_count(shape.dims(), sizeof(std::string)))), shape);
  return Tensor::zeros(shape, dtype);
}
void check_item(const Tensor& list, const Tensor& item) {
  if (item.dtype() != list.list_element_dtype()) {
    throw_invalid_argument(fmt::format("the list holds {}, the item is {}", dtype_name(list.list_element_dtype()),
                                       dtype_name(item.dtype())));
  }
  if (!list.list_element_shape().compatible_with(item.shape())) {
    throw_invalid_argument(fmt::format("the list holds items of shape {}, the item has {}",
                                       list.list_element_shape().to_string(), item.shape().to_string()));
  }
}
Tensor with(const Tensor& list, Tensors elements) {
  return Tensor::list(std::move(elements), list.list_element_shape(), list.list_element_dtype());
}
// The items for a list that replaces `list`: the very ones where nobody else has the list, so that a loop that writes
// one item after another does not copy all of them each time.
Tensors taken_elements(const Tensor& list) {
  const auto& value = list.impl()->list;
  return list.impl().use_count() == 1 && value.use_count() == 1 ? std::move(value->elements) : value->elements;
}
DType dtype_attr(const Call& call) { return call.attr<DType>("element_dtype"); }
Shape spec(const Call& call, int i) { return call.input(i).defined() ? shape_input(call, i) : Shape::unknown_rank(); }

Tensors reserve(const Call& call) {
  const std::int64_t n = int_in(call, 1);
  if (n < 0) throw_invalid_argument("num_elements must not be negative");
  element_count({n}, sizeof(Tensor));
  return {Tensor::list(Tensors(static_cast<std::size_t>(n)), spec(call, 0), dtype_attr(call))};
}
Tensors empty_list(const Call& call) { return {Tensor::list({}, spec(call, 0), dtype_attr(call))}; }

std::size_t item_index(const Call& call, const Tensor& list, int i) {
  const std::int64_t at = int_in(call, i);
  const auto size = static_cast<std::int64_t>(list.list_elements().size());
  if (at < 0 || at >= size) throw_invalid_argument(fmt::format("index {} of a list with {} items", at, size));
  return static_cast<std::size_t>(at);
}
Tensors set_item(const Call& call) {
  const Tensor& list = list_in(call, 0);
  Tensors elements = taken_elements(list);
  const auto* grow = call.find_attr<bool>("resize_if_index_out_of_bounds");
  const std::int64_t wanted = int_in(call, 1);
  if (grow && *grow && wanted >= static_cast<std::int64_t>(elements.size()))
    elements.resize(static_cast<std::size_t>(element_count({wanted}, sizeof(Tensor))) + 1);
  if (wanted < 0 || wanted >= static_cast<std::int64_t>(elements.size()))
    throw_invalid_argument(fmt::format("index {} of a list with {} items", wanted, elements.size()));
  check_item(list, call.input(2));
  elements[static_cast<std::size_t>(wanted)] = call.input(2);
  return {with(list, std::move(elements))};
}
Tensors get_item(const Call& call) {
  const Tensor& list = list_in(call, 0);
  const Tensor& item = list.list_elements()[item_index(call, list, 1)];
  if (item.defined()) {
    const Shape expected = spec(call, 2);
    if (expected.compatible_with(item.shape())) return {item};
    throw_invalid_argument(
        fmt::format("the item has shape {}, expected {}", item.shape().to_string(), expected.to_string()));
  }
  return {zeros_of(merged_element_shape(list, spec(call, 2)), dtype_attr(call))};
}

Tensors stacked(const Tensor& list, const Tensors& items, const Shape& given, DType dtype) {
  const Shape shape = merged_element_shape(list, given, items);
  if (dtype == DType::kVariant) return {variants(items)};
  std::vector<at::Tensor> values;
  std::vector<std::string> strings;
  Ints out = {static_cast<std::int64_t>(items.size())};
  if (items.empty() && !shape.fully_known()) throw_invalid_argument("an empty list needs a full element shape");
  for (const Tensor& item : items) {
    const Tensor value = item.defined() ? item : zeros_of(shape, dtype);
    if (value.dtype() == DType::kString) {
      strings.insert(strings.end(), value.string_values().begin(), value.string_values().end());
    } else {
      values.push_back(dense(value));
    }
  }
  if (dtype == DType::kString || values.empty()) {
    out.insert(out.end(), shape.dims().begin(), shape.dims().end());
    if (dtype == DType::kString) return {Tensor::strings(std::move(strings), Shape(out))};
    return {Tensor::zeros(Shape(out), dtype)};
  }
  return one(at::stack(values));
}
Tensors stack(const Call& call) {
  const Tensor& list = list_in(call, 0);
  const auto wanted = call.attr<std::int64_t>("num_elements");
  if (wanted != -1 && wanted != static_cast<std::int64_t>(list.list_elements().size())) {
    throw_invalid_argument(fmt::format("the list has {} items, expected {}", list.list_elements().size(), wanted));
  }
  return stacked(list, list.list_elements(), spec(call, 1), dtype_attr(call));
}
Tensors gather(const Call& call) {
  const Tensor& list = list_in(call, 0);
  Tensors items;
  const Ints numbers = ints_in(call, 1);
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    const std::int64_t i = numbers[k];
    if (i < 0 || i >= static_cast<std::int64_t>(list.list_elements().size()))
      throw_invalid_argument(fmt::format("index {} of a list with {} items", i, list.list_elements().size()));
    const Tensor& item = list.list_elements()[static_cast<std::size_t>(i)];
    // TensorFlow's gradient of an item that is gathered several times is that of the last one.
    const bool again =
        std::find(numbers.begin() + static_cast<std::ptrdiff_t>(k) + 1, numbers.end(), i) != numbers.end();
    items.push_back(again && item.defined() && requires_grad(item) ? detach(item) : item);
  }
  return stacked(list, items, spec(call, 2), dtype_attr(call));
}
// The rows of a tensor, each a view.
Tensors rows_of(const Tensor& x) {
  if (x.rank() < 1) throw_invalid_argument("a scalar has no rows");
  if (x.dtype() == DType::kVariant) return variants_in(x);
  Tensors rows;
  Shape row(Ints(x.shape().dims().begin() + 1, x.shape().dims().end()));
  if (x.dtype() == DType::kString) {
    const auto width = static_cast<std::ptrdiff_t>(*row.num_elements());
    for (std::ptrdiff_t i = 0; i < x.dim(0); ++i) {
      rows.push_back(
          Tensor::strings({x.string_values().begin() + i * width, x.string_values().begin() + (i + 1) * width}, row));
    }
    return rows;
  }
  for (const at::Tensor& part : dense(x).unbind(0)) rows.push_back(wrap(part));
  return rows;
}
Tensor slice_rows(const Tensor& x, std::int64_t begin, std::int64_t count) {
  if (x.dtype() != DType::kString) return wrap(dense(x).slice(0, begin, begin + count));
  Ints from(static_cast<std::size_t>(x.rank()), 0), size(from.size(), -1);
  from[0] = begin;
  size[0] = count;
  return call1("Slice", {x, Tensor::from_vector(from), Tensor::from_vector(size)});
}
Tensors from_tensor(const Call& call) {
  Shape shape(Ints(call.input(0).shape().dims().begin() + std::min(1, call.input(0).rank()),
                   call.input(0).shape().dims().end()));
  const Shape given = spec(call, 1);
  merge_shapes(given, shape);
  return {Tensor::list(rows_of(call.input(0)), given, call.input(0).dtype())};
}
Tensors scatter_into_existing(const Call& call) {
  const Tensor& list = list_in(call, 0);
  const Tensors rows = rows_of(call.input(1));
  const Ints indices = ints_in(call, 2);
  if (indices.size() != rows.size()) throw_invalid_argument("there must be one index for each row");
  Tensors elements = taken_elements(list);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    check_item(list, rows[i]);
    if (indices[i] < 0) throw_invalid_argument(fmt::format("index {} must not be negative", indices[i]));
    const auto at = static_cast<std::size_t>(indices[i]);
    if (at >= elements.size())
      elements.resize(static_cast<std::size_t>(element_count({indices[i] + 1}, sizeof(Tensor))));
    elements[at] = rows[i];
  }
  return {with(list, std::move(elements))};
}
Tensors scatter(const Call& call) {
  const Tensors rows = rows_of(call.input(0));
  const Ints indices = ints_in(call, 1);
  std::int64_t n = call.num_inputs() > 3 ? int_in(call, 3) : -1;
  for (auto i : indices) {
    if (i < 0) throw_invalid_argument(fmt::format("index {} must not be negative", i));
    if (n >= 0 && call.num_inputs() > 3 && int_in(call, 3) >= 0 && i >= int_in(call, 3))
      throw_invalid_argument(fmt::format("index {} of a list with {} items", i, n));
    n = std::max(n, element_count({i}, sizeof(Tensor)) + 1);
  }
  if (indices.size() != rows.size()) throw_invalid_argument("there must be one index for each row");
  Tensors elements(static_cast<std::size_t>(element_count({std::max<std::int64_t>(n, 0)}, sizeof(Tensor))));
  const Shape given = spec(call, 2);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    merge_shapes(given, rows[i].shape());
    elements[static_cast<std::size_t>(indices[i])] = rows[i];
  }
  return {Tensor::list(std::move(elements), given, call.input(0).dtype())};
}
Tensors push_back(const Call& call) {
  const Tensor& list = list_in(call, 0);
  check_item(list, call.input(1));
  Tensors elements = taken_elements(list);
  elements.push_back(call.input(1));
  return {with(list, std::move(elements))};
}
Tensors pop_back(const Call& call) {
  const Tensor& list = list_in(call, 0);
  if (list.list_elements().empty()) throw_invalid_argument("the list is empty");
  Tensor last = list.list_elements().back();
  if (!last.defined()) last = zeros_of(merged_element_shape(list, spec(call, 1)), dtype_attr(call));
  Tensors elements = taken_elements(list);
  elements.pop_back();
  return {with(list, std::move(elements)), last};
}
Tensors resize(const Call& call) {
  const std::int64_t n = int_in(call, 1);
  if (n < 0) throw_invalid_argument("size must not be negative");
  element_count({n}, sizeof(Tensor));
  const Tensor& list = list_in(call, 0);
  Tensors elements = list.list_elements();
  elements.resize(static_cast<std::size_t>(n));
  return {with(list, std::move(elements))};
}
Tensors element_shape(const Call& call) {
  const Shape& shape = list_in(call, 0).list_element_shape();
  const auto type = to_scalar_type(call.attr<DType>("shape_type"));
  if (!shape.known_rank()) return one(at::full({}, -1, type));
  return one(at::tensor(at::IntArrayRef(shape.dims()), at::kLong).to(type));
}
// The concatenated items. An item that was never set is zeros; its number of rows is that of leading_dims or, without
// an entry, that of the element shape or of all items that were set.
Tensors concat(const Call& call) {
  const Tensor& list = list_in(call, 0);
  const Tensors& items = list.list_elements();
  const Shape* const attribute = call.find_attr<Shape>("element_shape");
  Shape shape = call.num_inputs() > 1 ? spec(call, 1) : attribute ? *attribute : Shape::unknown_rank();
  shape = merge_shapes(list.list_element_shape(), shape);
  const Ints leading = call.num_inputs() > 2 ? ints_in(call, 2) : Ints{};
  const auto without_rows = [](Shape x) {
    if (x.known_rank() && x.rank() < 1) throw_invalid_argument("scalars cannot be concatenated");
    if (x.known_rank()) x[0] = kUnknownDim;
    return x;
  };
  std::int64_t rows = shape.known_rank() && shape.rank() > 0 ? shape[0] : kUnknownDim;
  const bool rows_given = rows != kUnknownDim;
  shape = without_rows(shape);
  bool first = true;
  for (const Tensor& item : items) {
    if (!item.defined()) continue;
    shape = merge_shapes(shape, without_rows(item.shape()));
    if (rows_given && rows != item.dim(0))
      throw_invalid_argument(fmt::format("an item has {} rows, expected {} by the element shape", item.dim(0), rows));
    if (!rows_given) rows = first || rows == item.dim(0) ? item.dim(0) : kUnknownDim;
    first = false;
  }
  Tensors values;
  Ints lengths;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Tensor item = items[i];
    if (!item.defined()) {
      Shape full = shape;
      if (full.known_rank()) full[0] = i < leading.size() ? leading[i] : rows;
      if (!full.fully_known() || full[0] < 0) {
        throw_invalid_argument(fmt::format(
            "item {} was never set, and its shape follows neither from leading_dims nor from the other items", i));
      }
      item = zeros_of(full, dtype_attr(call));
    }
    lengths.push_back(item.dim(0));
    values.push_back(std::move(item));
  }
  if (!values.empty()) return {concat_rows(values), Tensor::from_vector(lengths)};
  if (shape.known_rank()) shape[0] = 0;
  return {zeros_of(shape, dtype_attr(call)), Tensor::from_vector(lengths)};
}
Tensors split(const Call& call) {
  const Ints lengths = ints_in(call, 2);
  Shape given = spec(call, 1), whole = call.input(0).shape();
  if (whole.rank() < 1) throw_invalid_argument("a scalar has no rows");
  if (given.known_rank() && given.rank() > 0) whole[0] = given[0];
  merge_shapes(given, whole);
  std::int64_t begin = 0;
  Tensors elements;
  for (auto n : lengths) {
    if (n < 0 || n > call.input(0).dim(0) - begin)
      throw_invalid_argument("lengths do not add up to the rows of the tensor");
    elements.push_back(slice_rows(call.input(0), begin, n));
    begin += n;
  }
  if (begin != call.input(0).dim(0)) throw_invalid_argument("lengths do not add up to the rows of the tensor");
  return {Tensor::list(std::move(elements), given, call.input(0).dtype())};
}
Tensors concat_lists(const Call& call) {
  const Tensor &list = list_in(call, 0), &more = list_in(call, 1);
  Tensors elements = list.list_elements();
  elements.insert(elements.end(), more.list_elements().begin(), more.list_elements().end());
  return {with(list, std::move(elements))};
}

// A row of the tensor at the end of each list of a tensor of lists.
Tensors push_back_batch(const Call& call) {
  const Tensors& lists = variants_in(call.input(0));
  const at::Tensor* const rows = call.input(1).dtype() == DType::kString ? nullptr : &in(call, 1);
  if (call.input(0).rank() != 1 || !rows || rows->dim() < 1 || rows->size(0) != static_cast<std::int64_t>(lists.size()))
    throw_invalid_argument("input_handles must be a vector of lists, tensor must have a row of numbers for each");
  Tensors out;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (!lists[i].impl()->list) throw_invalid_argument("input_handles must be lists of tensors");
    const Tensor row = wrap(rows->select(0, static_cast<std::int64_t>(i)));
    check_item(lists[i], row);
    Tensors elements = lists[i].list_elements();
    elements.push_back(row);
    out.push_back(with(lists[i], std::move(elements)));
  }
  return {variants(out)};
}

// The element shape that an input names, as far as it is known while building.
Shapes element_rule(const Call& call, int i) { return {shape_from_input(call, i)}; }
Shapes stack_rule(const Call& call) {
  const Shape element = shape_from_input(call, 1);
  if (!element.known_rank() || call.input(1).shape() == Shape{}) return {Shape::unknown_rank()};
  const auto n = call.attr<std::int64_t>("num_elements");
  Shape out{n < 0 ? kUnknownDim : n};
  for (auto dim : element.dims()) out.push_back(dim);
  return {out};
}

}  // namespace

void register_lists(Table& table) {
  table.add("TensorListReserve", scalar_rule, reserve);
  table.add("EmptyTensorList", scalar_rule, empty_list);
  table.add("TensorListSetItem", scalar_rule, set_item);
  table.add(
      "TensorListGetItem",
      [](const Call& call) {
        return call.input(2).shape() == Shape{} ? Shapes{Shape::unknown_rank()} : element_rule(call, 2);
      },
      get_item);
  table.add("TensorListStack", stack_rule, stack);
  table.add("TensorListGather", nullptr, gather);
  table.add("TensorListFromTensor", scalar_rule, from_tensor);
  table.add("TensorListScatter", scalar_rule, scatter);
  table.add("TensorListScatterV2", scalar_rule, scatter);
  table.add("TensorListScatterIntoExistingList", scalar_rule, scatter_into_existing);
  table.add("TensorListPushBack", scalar_rule, push_back);
  table.add("TensorListPushBackBatch", same_shape, push_back_batch);
  table.add("TensorListPopBack", nullptr, pop_back);
  table.add("TensorListResize", scalar_rule, resize);
  table.add("TensorListLength", scalar_rule, [](const Call& call) {
    return one(at::scalar_tensor(static_cast<std::int64_t>(list_in(call, 0).list_elements().size()), at::kInt));
  });
  table.add("TensorListElementShape", nullptr, element_shape);
  table.add("TensorListConcat", nullptr, concat);
  table.add("TensorListConcatV2", nullptr, concat);
  table.add("TensorListSplit", scalar_rule, split);
  table.add("TensorListConcatLists", scalar_rule, concat_lists);
}

}  // namespace lockstep::ops
