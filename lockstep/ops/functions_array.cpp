#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/ops/arrays_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/composed.h"
#include "lockstep/ops/function_draws_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/tensor/symbol.h"

namespace lockstep::ops {
namespace {

int whole_axis(const Tensor& x, int axis, const char* what) {
  if (!x.shape().known_rank()) throw_invalid_argument(fmt::format("{}: the rank must be known", what));
  const int positive = axis < 0 ? axis + x.rank() : axis;
  if (positive < 0 || positive >= x.rank()) {
    throw_invalid_argument(fmt::format("{}: axis {} of shape {}", what, axis, x.shape().to_string()));
  }
  return positive;
}

Tensor paddings_tensor(const std::vector<std::pair<std::int64_t, std::int64_t>>& paddings) {
  std::vector<std::int32_t> flat;
  for (const auto& [before, after] : paddings) {
    flat.push_back(static_cast<std::int32_t>(before));
    flat.push_back(static_cast<std::int32_t>(after));
  }
  return Tensor::from_vector(flat, Shape{static_cast<std::int64_t>(paddings.size()), 2});
}

}  // namespace

Tensor shape_tensor(const ShapeArg& shape) {
  if (shape.vector().defined()) return shape.vector();
  if (shape.is_known()) {
    const Ints& dims = shape.shape().dims();
    const bool is_long = std::any_of(dims.begin(), dims.end(),
                                     [](std::int64_t d) { return d > std::numeric_limits<std::int32_t>::max(); });
    return constant_ints(dims, is_long ? DType::kInt64 : DType::kInt32);
  }
  Tensors extents;
  for (const Extent& extent : shape.extents())
    extents.push_back(extent.tensor().defined() ? cast(extent.tensor(), DType::kInt32)
                                                : Tensor::scalar(static_cast<std::int32_t>(extent.known())));
  return stack(extents);
}

Tensor fill(const ShapeArg& shape, const Tensor& value) { return call1("Fill", {shape_tensor(shape), value}); }

Tensor range(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  return call1("Range", {start, limit, delta});
}
Tensor range(std::int64_t limit, DTypeLike dtype) {
  return range(constant(0, dtype), constant(static_cast<double>(limit), dtype), constant(1, dtype));
}
Tensor linspace(const Tensor& start, const Tensor& stop, std::int64_t num) {
  return call1("LinSpace", {start, stop, constant(static_cast<double>(num), DType::kInt32)});
}

Tensor shape_of(const Tensor& x, DType dtype) {
  if (x.shape().fully_known()) return constant_ints(x.shape().dims(), dtype);
  return call1("Shape", {x}, {{"out_type", dtype}});
}
Tensor size_of(const Tensor& x, DType dtype) {
  if (auto count = x.shape().num_elements()) return constant(static_cast<double>(*count), dtype);
  return call1("Size", {x}, {{"out_type", dtype}});
}
Tensor rank_of(const Tensor& x) {
  if (x.shape().known_rank()) return constant(x.rank(), DType::kInt32);
  return call1("Rank", {x});
}
Tensor dim_of(const Tensor& x, int axis) {
  axis = whole_axis(x, axis, "dim_of");
  if (x.dim(axis) != kUnknownDim) return constant(static_cast<double>(x.dim(axis)), DType::kInt32);
  return strided_slice(shape_of(x), {SliceSpec::at(axis)});
}

Tensor reshape(const Tensor& x, const ShapeArg& shape) { return call1("Reshape", {x, shape_tensor(shape)}); }

Tensor flatten(const Tensor& x) {
  Ints shape = {-1, 1};
  for (int i = 1; i < x.rank(); ++i) {
    if (x.dim(i) == kUnknownDim) return reshape(x, stack({dim_of(x, 0), constant(-1, DType::kInt32)}));
    shape[1] *= x.dim(i);
  }
  if (x.rank() > 0 && x.dim(0) != kUnknownDim) shape[0] = x.dim(0);
  return reshape(x, shape);
}

Tensor transpose(const Tensor& x, const TransposeKeywords& keywords) {
  if (keywords.perm) return call1("Transpose", {x, constant_ints(*keywords.perm)});
  Ints reversed(static_cast<std::size_t>(x.rank()));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return call1("Transpose", {x, constant_ints(reversed)});
}
Tensor expand_dims(const Tensor& x, int axis) { return call1("ExpandDims", {x, constant(axis, DType::kInt32)}); }
Tensor squeeze(const Tensor& x, const AxisKeywords& keywords) {
  return call1("Squeeze", {x}, {{"squeeze_dims", keywords.axis.value_or(Ints{})}});
}
Tensor broadcast_to(const Tensor& x, const ShapeArg& shape) { return call1("BroadcastTo", {x, shape_tensor(shape)}); }

Tensor concat(const Tensors& values, int axis) {
  if (values.size() == 1) return values[0];
  Tensors inputs = values;
  inputs.push_back(constant(axis, DType::kInt32));
  return call1("ConcatV2", inputs);
}
Tensor stack(const Tensors& values, int axis) {
  const auto of_number = [](const Tensor& value) { return value.is_number(); };
  const auto tensor = std::ranges::find_if_not(values, of_number);
  if (tensor == values.end() || std::ranges::none_of(values, of_number))
    return call1("Pack", values, {{"axis", static_cast<std::int64_t>(axis)}});
  // A number takes the dtype of the tensors, where that can hold it.
  Tensors parts = values;
  for (Tensor& part : parts)
    if (part.is_number() && (is_floating(tensor->dtype()) || !is_floating(part.dtype())))
      part = cast(part, tensor->dtype());
  return call1("Pack", parts, {{"axis", static_cast<std::int64_t>(axis)}});
}
Unpacked unstack(const Tensor& x, int axis) {
  const std::int64_t num = x.dim(whole_axis(x, axis, "unstack"));
  if (num == kUnknownDim) throw_invalid_argument("unstack: the extent of the axis must be known");
  return call("Unpack", {x}, {{"num", num}, {"axis", static_cast<std::int64_t>(axis)}});
}
Unpacked split(const Tensor& x, int num, int axis) {
  return call("Split", {constant(axis, DType::kInt32), x}, {{"num_split", static_cast<std::int64_t>(num)}});
}
Unpacked split(const Tensor& x, const Ints& sizes, int axis) {
  return call("SplitV", {x, constant_ints(sizes), constant(axis, DType::kInt32)},
              {{"num_split", static_cast<std::int64_t>(sizes.size())}});
}
Tensor slice(const Tensor& x, const Ints& begin, const Ints& size) {
  return slice(x, constant_ints(begin), constant_ints(size));
}
Tensor slice(const Tensor& x, const Tensor& begin, const Tensor& size) { return call1("Slice", {x, begin, size}); }

namespace {

// The places of several axes as one vector.
Tensor places_tensor(const std::vector<Place>& places) {
  if (std::all_of(places.begin(), places.end(), [](const Place& place) { return place.number().has_value(); })) {
    Ints numbers;
    for (const Place& place : places) numbers.push_back(*place.number());
    return constant_ints(numbers);
  }
  Tensors parts;
  for (const Place& place : places)
    parts.push_back(place.number() ? Tensor::scalar(static_cast<std::int32_t>(*place.number()))
                                   : cast(place.tensor(), DType::kInt32));
  return stack(parts);
}
Place after(const Place& place) {
  return place.number() ? Place(*place.number() + 1) : Place(cast(place.tensor(), DType::kInt32) + 1);
}

}  // namespace

namespace {

// begin, end, strides, and the masks of StridedSlice and its like.
struct SliceArguments {
  Tensor begin, end, strides;
  Attrs masks;
};
SliceArguments slice_arguments(const std::vector<SliceSpec>& index) {
  std::vector<Place> begin, end;
  Ints strides;
  std::int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_mask = 0;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const SliceSpec& spec = index[i];
    const std::int64_t bit = std::int64_t{1} << i;
    begin.push_back(spec.begin.has_value() ? spec.begin : 0);
    end.push_back(spec.end.has_value() ? spec.end : 0);
    strides.push_back(spec.stride);
    switch (spec.kind) {
      case SliceSpec::Kind::kRange:
        if (!spec.begin.has_value()) begin_mask |= bit;
        if (!spec.end.has_value()) end_mask |= bit;
        break;
      case SliceSpec::Kind::kIndex:
        shrink_mask |= bit;
        end.back() = after(begin.back());
        break;
      case SliceSpec::Kind::kNewAxis: new_axis_mask |= bit; break;
      case SliceSpec::Kind::kEllipsis: ellipsis_mask |= bit; break;
      case SliceSpec::Kind::kElements:
        throw_unimplemented("an index of several elements is supported in x.index({...}), which reads or assigns");
    }
  }
  return {places_tensor(begin),
          places_tensor(end),
          constant_ints(strides),
          {{"begin_mask", begin_mask},
           {"end_mask", end_mask},
           {"ellipsis_mask", ellipsis_mask},
           {"new_axis_mask", new_axis_mask},
           {"shrink_axis_mask", shrink_mask}}};
}

}  // namespace

void SliceSpec::set(const Tensor& place) {
  const bool one = !place.shape().known_rank() || place.rank() == 0;
  kind = one ? Kind::kIndex : Kind::kElements;
  if (one) {
    begin = Place(place);
  } else {
    elements = place;
  }
}

namespace {

// The entries for all axes, without an ellipsis.
std::vector<SliceSpec> entry_of_each_axis(const Tensor& x, const std::vector<SliceSpec>& index) {
  const auto takes_axis = [](const SliceSpec& spec) {
    return spec.kind != SliceSpec::Kind::kNewAxis && spec.kind != SliceSpec::Kind::kEllipsis;
  };
  const std::int64_t missing = x.rank() - std::ranges::count_if(index, takes_axis);
  const auto whole = [&](std::vector<SliceSpec>& specs) {
    for (std::int64_t i = 0; i < missing; ++i) specs.push_back(SliceSpec::all());
  };
  std::vector<SliceSpec> all;
  bool has_ellipsis = false;
  for (const SliceSpec& spec : index) {
    if (spec.kind == SliceSpec::Kind::kEllipsis) {
      whole(all);
      has_ellipsis = true;
    } else {
      all.push_back(spec);
    }
  }
  if (!has_ellipsis) whole(all);
  return all;
}

bool has_elements(const std::vector<SliceSpec>& index) {
  return std::ranges::any_of(index, [](const SliceSpec& spec) { return spec.kind == SliceSpec::Kind::kElements; });
}

// As in NumPy an integer next to several indices is one of them.
std::vector<SliceSpec> with_integers_as_elements(std::vector<SliceSpec> index) {
  if (!has_elements(index)) return index;
  for (SliceSpec& spec : index) {
    if (spec.kind != SliceSpec::Kind::kIndex) continue;
    spec.kind = SliceSpec::Kind::kElements;
    spec.elements = spec.begin.number() ? Tensor::scalar(*spec.begin.number()) : spec.begin.tensor();
  }
  return index;
}

// x[i, :, [0, 2]] with integers or booleans on some axes, as NumPy has it: the axes of the elements are where the first
// of them was if they are next to each other, else in front.
Tensor elements_of(const Tensor& x, const std::vector<SliceSpec>& index) {
  if (!x.shape().known_rank()) throw_invalid_argument("an index of several elements requires a known rank");
  std::vector<SliceSpec> rest = entry_of_each_axis(x, with_integers_as_elements(index));
  std::vector<int> axes;
  Tensors indices;
  int axis = 0;
  for (SliceSpec& spec : rest) {
    if (spec.kind == SliceSpec::Kind::kElements) {
      axes.push_back(axis);
      indices.push_back(spec.elements.dtype() == DType::kBool ? squeeze(where(spec.elements), Axes(1)) : spec.elements);
      spec = SliceSpec::all();
    }
    ++axis;
  }
  const Tensor part = strided_slice(x, rest);
  // The axes of the elements first.
  Ints order(axes.begin(), axes.end());
  for (int i = 0; i < part.rank(); ++i) {
    if (std::ranges::find(axes, i) == axes.end()) order.push_back(i);
  }
  Tensor none;  // 0 in the shape of all indices together
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Tensor& entries = indices[i];
    if (!is_integer(entries.dtype()))
      throw_invalid_argument(fmt::format("invalid index: found a tensor of {}, expected booleans or integers",
                                         dtype_name(entries.dtype())));
    entries = cast(entries, DType::kInt64);
    entries = where(less(entries, 0), entries + cast(dim_of(part, axes[i]), DType::kInt64), entries);
    none = none.defined() ? none + zeros_like(entries) : zeros_like(entries);
  }
  for (Tensor& entries : indices) entries = entries + none;
  const Tensor found = gather_places(transpose(part, Axes(order)), stack(indices, -1));
  const int first = axes.front(), count = none.rank();
  if (first == 0 || axes.back() - first + 1 != static_cast<int>(axes.size())) return found;
  Ints places;
  for (int i = 0; i < first; ++i) places.push_back(count + i);
  for (int i = 0; i < count; ++i) places.push_back(i);
  for (int i = count + first; i < found.rank(); ++i) places.push_back(i);
  return transpose(found, Axes(places));
}

}  // namespace

Tensor strided_slice(const Tensor& x, const std::vector<SliceSpec>& index) {
  if (has_elements(index)) return elements_of(x, index);
  SliceArguments at = slice_arguments(index);
  return call1("StridedSlice", {x, at.begin, at.end, at.strides}, std::move(at.masks));
}
Tensor updated_slice(const Tensor& x, const std::vector<SliceSpec>& index, const Tensor& value) {
  SliceArguments at = slice_arguments(index);
  return call1("TensorStridedSliceUpdate", {x, at.begin, at.end, at.strides, value}, std::move(at.masks));
}

Tensor slice_axis(const Tensor& x, int axis, const Place& begin, const Place& end, std::int64_t stride) {
  std::vector<SliceSpec> index(static_cast<std::size_t>(whole_axis(x, axis, "slice")), SliceSpec::all());
  index.push_back(SliceSpec::range(begin, end, stride));
  return strided_slice(x, index);
}

Tensor gather(const Tensor& params, const Tensor& indices, int axis, int batch_dims) {
  return call1("GatherV2", {params, indices, constant(axis, DType::kInt32)},
               {{"batch_dims", static_cast<std::int64_t>(batch_dims)}});
}
Tensor gather_places(const Tensor& params, const Tensor& indices) { return call1("GatherNd", {params, indices}); }
Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Tensor& shape) {
  return call1("ScatterNd", {indices, updates, shape});
}
Tensor one_hot(const Tensor& indices, std::int64_t depth, DType dtype, int axis) {
  return call1("OneHot",
               {indices, constant(static_cast<double>(depth), DType::kInt32), constant(1, dtype), constant(0, dtype)},
               {{"axis", static_cast<std::int64_t>(axis)}});
}
Tensor pad(const Tensor& x, const Paddings& paddings, const PadKeywords& keywords) {
  std::string mode(keywords.mode);
  for (char& letter : mode) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (mode == "REFLECT" || mode == "SYMMETRIC") return mirror_pad(x, paddings, mode);
  if (mode != "CONSTANT") {
    throw_invalid_argument(fmt::format(
        "pad: invalid mode: found '{}', expected \"CONSTANT\", \"REFLECT\" or \"SYMMETRIC\"", keywords.mode));
  }
  if (keywords.constant_values == 0) return call1("Pad", {x, paddings_tensor(paddings)});
  return call1("PadV2", {x, paddings_tensor(paddings), constant(keywords.constant_values, x.dtype())});
}
Tensor mirror_pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& paddings,
                  std::string_view mode) {
  return call1("MirrorPad", {x, paddings_tensor(paddings)}, {{"mode", std::string(mode)}});
}
Tensor tile(const Tensor& x, const ShapeArg& multiples) { return call1("Tile", {x, shape_tensor(multiples)}); }
Tensor reverse(const Tensor& x, const Ints& axes) { return call1("ReverseV2", {x, constant_ints(axes)}); }
Tensor roll(const Tensor& x, const Ints& shifts, const Ints& axes) {
  return call1("Roll", {x, constant_ints(shifts), constant_ints(axes)});
}
Tensor matrix_band_part(const Tensor& x, std::int64_t lower, std::int64_t upper) {
  return call1("MatrixBandPart", {x, constant(static_cast<double>(lower), DType::kInt64),
                                  constant(static_cast<double>(upper), DType::kInt64)});
}

Tensor argsort(const Tensor& x, int axis, bool descending) {
  axis = whole_axis(x, axis, "argsort");
  Ints permutation(static_cast<std::size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[static_cast<std::size_t>(axis)], permutation.back());
  const bool last = axis == x.rank() - 1;
  Tensor y = last ? x : transpose(x, permutation);
  // Ascending: TopK of the negated values keeps the order of equal ones. Negating an integer's minimum
  // overflows, so -1 - x takes its place there.
  if (!descending) y = is_integer(x.dtype()) ? sub(constant(-1, x.dtype()), y) : neg(y);
  const Tensor indices = x.dim(axis) == kUnknownDim ? call("TopKV2", {y, dim_of(x, axis)}, {{"sorted", true}})[1]
                                                    : top_k(y, x.dim(axis)).indices;
  return last ? indices : transpose(indices, permutation);
}

Tensor sort(const Tensor& x, int axis, bool descending) {
  axis = whole_axis(x, axis, "sort");
  const Tensor order = argsort(x, axis, descending);
  if (axis == x.rank() - 1) return gather(x, order, axis, axis);
  Ints permutation(static_cast<std::size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[static_cast<std::size_t>(axis)], permutation.back());
  const Tensor sorted = gather(transpose(x, permutation), transpose(order, permutation), x.rank() - 1, x.rank() - 1);
  return transpose(sorted, permutation);
}

}  // namespace lockstep::ops

namespace lockstep {

using ops::like;  // members of an array give arrays

namespace {

Tensor part(const Tensor& x, const std::vector<ops::SliceSpec>& index) {
  if (!is_array(x)) return ops::strided_slice(x, index);
  const auto entries = ops::entry_of_each_axis(x, ops::with_integers_as_elements(index));
  if (const auto elements = ops::array_slice(x, entries)) return *elements;
  return like(x, ops::strided_slice(x, index));
}

}  // namespace

Tensor Tensor::operator[](std::int64_t index) const {
  if (shape().known_rank()) {
    const std::int64_t extent = rank() == 0 ? 0 : dim(0);
    if (rank() == 0 || (extent >= 0 && (index >= extent || index < -extent)))
      throw_out_of_range(fmt::format("index {} is out of range for shape {}", index, shape().to_string()));
  }
  return part(*this, {ops::SliceSpec::at(index)});
}

void Tensor::operator=(const Tensor& values) && { ops::assign_part(*this, values); }
void Tensor::assign_number(Number number) const {
  ops::assign_part(*this, Tensor::scalar(number.value(), defined() ? dtype() : DType::kInvalid));
}

Tensor Tensor::part_of(std::size_t index, std::size_t size) const {
  const std::int64_t extent = len(*this);
  if (extent != static_cast<std::int64_t>(size))
    throw_invalid_argument(fmt::format("a tensor of shape {} has {} elements on its first axis, {} were requested",
                                       shape().to_string(), extent, size));
  return (*this)[static_cast<std::int64_t>(index)];
}

void Place::set(const Tensor& scalar) {
  if (scalar.is_value() && scalar.num_elements() == 1 && is_integer(scalar.dtype())) {
    number_ = scalar.item<std::int64_t>();
  } else if (scalar.is_symbolic() && is_integer(scalar.dtype()) && scalar.shape().compatible_with(Shape{})) {
    tensor_ = scalar;
  } else {
    throw_invalid_argument(fmt::format("invalid index on an axis: found {} {}, expected one integer",
                                       dtype_name(scalar.dtype()), scalar.shape().to_string()));
  }
}

TensorRows Tensor::begin() const {
  len(*this);
  return {*this, 0, ops::loop_in_function()};
}
TensorRows Tensor::end() const { return {*this, len(*this)}; }

std::int64_t len(const Tensor& tensor) {
  if (tensor.rank() == 0) throw_invalid_argument("a scalar has no length and no rows");
  const std::int64_t length = tensor.dim(0);
  if (length == kUnknownDim)
    throw_invalid_argument("the number of rows is not known while a model is built; use ops::shape(x)[0]");
  return length;
}

Tensor Tensor::elements(const Tensor& given) const {
  if (given.dtype() == DType::kBool) return ops::array_elements(*this, given, ops::boolean_mask(*this, given));
  if (!is_integer(given.dtype())) {
    throw_invalid_argument(
        fmt::format("invalid index: found a tensor of {}, expected booleans or integers", dtype_name(given.dtype())));
  }
  const Tensor entries = given.dtype() == DType::kInt64 ? given : ops::cast(given, DType::kInt32);
  if (entries.shape().known_rank() && entries.rank() == 0) {
    const Place place(entries);
    return place.number() ? (*this)[*place.number()] : ops::strided_slice(*this, {ops::SliceSpec::at(place)});
  }
  const Tensor from_end = entries + ops::cast(ops::dim_of(*this, 0), entries.dtype());
  return ops::array_elements(*this, given, ops::gather(*this, ops::where(ops::less(entries, 0), from_end, entries)));
}

Leaves::operator Tensor() const {
  if (size() != 1) {
    throw_invalid_argument(fmt::format("flatten: {} tensors were found where the elements of one are needed", size()));
  }
  return front().flatten();
}

Tensor Tensor::reshape(const ShapeArg& shape) const { return like(*this, ops::reshape(*this, shape)); }
Tensor Tensor::reshaped(std::vector<std::int64_t> dims) const { return like(*this, ops::reshape(*this, dims)); }
Tensor Tensor::flatten() const { return like(*this, ops::reshape(*this, {-1})); }

namespace {

// The elements of the axes from `axis` on; `at` is the place of the next one.
template <typename T>
Json lists_of(const std::vector<T>& values, const Shape& shape, int axis, std::size_t& at) {
  if (axis == shape.rank()) return Json(static_cast<T>(values[at++]));
  Json out = Json::array();
  for (std::int64_t i = 0; i < shape[axis]; ++i) out.push_back(lists_of(values, shape, axis + 1, at));
  return out;
}
template <typename T>
Json lists_of(const Tensor& x) {
  std::size_t at = 0;
  return lists_of(x.to_vector<T>(), x.shape(), 0, at);
}

}  // namespace

Json Tensor::tolist() const {
  if (is_complex(dtype())) throw_invalid_argument("tolist: lists have no complex numbers");
  if (dtype() == DType::kString) return lists_of<std::string>(*this);
  if (dtype() == DType::kBool) return lists_of<bool>(*this);
  if (dtype() == DType::kUInt64) return lists_of<std::uint64_t>(*this);
  return is_floating(dtype()) ? lists_of<double>(astype(DType::kFloat64))
                              : lists_of<std::int64_t>(astype(DType::kInt64));
}

Tensor Tensor::astype(DType dtype) const { return like(*this, ops::cast(*this, dtype)); }
Tensor Tensor::astype(std::string_view dtype) const { return like(*this, ops::cast(*this, dtype)); }
Tensor Tensor::transpose() const { return like(*this, ops::transpose(*this)); }
Tensor Tensor::transpose(std::initializer_list<std::int64_t> axes) const {
  return like(*this, ops::transpose(*this, ops::Axes(axes)));
}
Tensor Tensor::swapaxes(int a, int b) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(rank()));
  std::iota(order.begin(), order.end(), 0);
  dim(a), dim(b);
  std::swap(order[static_cast<std::size_t>(a < 0 ? a + rank() : a)],
            order[static_cast<std::size_t>(b < 0 ? b + rank() : b)]);
  return like(*this, ops::transpose(*this, ops::Axes(order)));
}
Tensor Tensor::squeeze(std::optional<int> axis) const {
  return like(*this, ops::squeeze(*this, axis ? ops::Axes(*axis) : ops::Axes()));
}
Tensor Tensor::repeat(std::int64_t repeats, std::optional<int> axis) const {
  return like(*this, axis ? ops::repeat(*this, repeats, *axis) : ops::repeat(flatten(), repeats, 0));
}
Tensor Tensor::clip(Number min, Number max) const {
  return like(*this, ops::clip_by_value(*this, min.value(), max.value()));
}
Tensor Tensor::round(int decimals) const {
  if (!is_floating(dtype())) return *this;
  const double scale = std::pow(10.0, decimals);
  return like(*this, decimals == 0 ? ops::round(*this) : ops::round(*this * scale) / scale);
}
Tensor Tensor::dot(const Tensor& other) const {
  if (rank() == 0 || other.rank() == 0) return *this * other;
  return other.rank() == 1 ? ops::tensordot(*this, other, 1) : ops::tensordot(*this, other, {{-1}, {-2}});
}

namespace {
// Integers as NumPy adds them.
Tensor summable(const Tensor& x) {
  const bool whole = !is_floating(x.dtype()) && !is_complex(x.dtype());
  return whole ? ops::cast(x, DType::kInt64) : x;
}
Tensor real(const Tensor& x) {
  const bool whole = !is_floating(x.dtype()) && !is_complex(x.dtype());
  return whole ? ops::cast(x, DType::kFloat64) : x;
}
}  // namespace

Tensor Tensor::sum(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_sum(summable(*this), o)); }
Tensor Tensor::prod(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_prod(summable(*this), o)); }
Tensor Tensor::mean(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_mean(real(*this), o)); }
Tensor Tensor::std(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_std(real(*this), o)); }
Tensor Tensor::var(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_variance(real(*this), o)); }
Tensor Tensor::max(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_max(*this, o)); }
Tensor Tensor::min(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_min(*this, o)); }
Tensor Tensor::any(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_any(astype(DType::kBool), o)); }
Tensor Tensor::all(const ops::AxisKeywords& o) const { return like(*this, ops::reduce_all(astype(DType::kBool), o)); }
Tensor Tensor::cumsum(std::optional<int> axis) const {
  return like(*this, axis ? ops::cumsum(summable(*this), *axis) : ops::cumsum(summable(flatten()), 0));
}
Tensor Tensor::argmax(std::optional<int> axis) const {
  return like(*this, axis ? ops::argmax(*this, *axis) : ops::argmax(flatten(), 0));
}
Tensor Tensor::argmin(std::optional<int> axis) const {
  return like(*this, axis ? ops::argmin(*this, *axis) : ops::argmin(flatten(), 0));
}

Tensor Tensor::argsort(int axis) const { return like(*this, ops::cast(ops::argsort(*this, axis), DType::kInt64)); }

Tensor Tensor::operator[](const Range& range) const {
  return part(*this, {ops::SliceSpec::range(range.begin, range.end, range.step)});
}

Tensor Tensor::index(std::initializer_list<ops::SliceSpec> entries) const { return part(*this, entries); }

}  // namespace lockstep
