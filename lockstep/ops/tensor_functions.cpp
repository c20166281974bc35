#include "lockstep/ops/tensor_functions.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/complex_functions.h"
#include "lockstep/ops/operators.h"
#include "lockstep/ops/ragged_functions.h"

namespace lockstep::ops {

Tensor gather_nd(const Tensor& params, const GatherNdKeywords& keywords) {
  const Tensor& indices = keywords.indices;
  const int batch_dims = keywords.batch_dims;
  if (batch_dims == 0) return gather_nd(params, indices);
  // The leading axes as one, and its place in front of each index.
  std::int64_t rows = 1;
  for (int i = 0; i < batch_dims; ++i) rows *= indices.dim(i);
  std::vector<std::int64_t> given(indices.shape().dims()), values{rows}, places{rows};
  const std::vector<std::int64_t>& all = params.shape().dims();
  values.insert(values.end(), all.begin() + batch_dims, all.end());
  places.insert(places.end(), given.begin() + batch_dims, given.end());
  std::vector<std::int64_t> row(places.size(), 1), repeats = places;
  row[0] = rows;
  repeats[0] = repeats.back() = 1;
  const Tensor row_of = tile(reshape(cast(range(rows), indices.dtype()), Shape(row)), repeats);
  const Tensor found = gather_nd(reshape(params, Shape(values)), concat({row_of, reshape(indices, Shape(places))}, -1));
  std::vector<std::int64_t> shape(given.begin(), given.begin() + batch_dims);
  shape.insert(shape.end(), found.shape().dims().begin() + 1, found.shape().dims().end());
  return reshape(found, Shape(shape));
}

Tensor matmul(const Tensor& a, const Tensor& b, const AdjointKeywords& keywords) {
  return matmul(keywords.adjoint_a ? conj(a) : a, keywords.adjoint_b ? conj(b) : b, keywords.adjoint_a,
                keywords.adjoint_b);
}
Tensor bincount(const Tensor& arr, const BincountKeywords& o) {
  const int axis = o.axis.value_or(0);
  if (axis != 0 && axis != -1)
    throw_invalid_argument(fmt::format("bincount: invalid axis: found {}, expected 0 or -1", axis));
  if (o.weights.defined() && o.binary_output)
    throw_invalid_argument("bincount: weights and binary_output exclude each other");
  Tensor x = is_integer(arr.dtype()) ? arr : cast(arr, DType::kInt32);
  const auto known = cast(reshape(x, {-1}), DType::kInt64).to_vector<std::int64_t>();
  std::int64_t size = known.empty() ? 0 : *std::max_element(known.begin(), known.end()) + 1;
  if (o.minlength) size = std::max(size, *o.minlength);
  if (o.maxlength) size = std::min(size, *o.maxlength);
  Tensor weights = o.weights;
  if (axis == 0) {
    x = reshape(x, {-1});
    if (weights.defined()) weights = reshape(weights, {-1});
  }
  if (!weights.defined()) weights = Tensor::zeros(Shape{0}, o.dtype);
  return call1("DenseBincount", {x, constant(static_cast<double>(size), x.dtype()), weights},
               {{"binary_output", o.binary_output}});
}
Tensor confusion_matrix(const ConfusionKeywords& o) {
  const Tensor labels = cast(reshape(o.labels, {-1}), DType::kInt64);
  const Tensor predictions = cast(reshape(o.predictions, {-1}), DType::kInt64);
  const Tensor both = concat({labels, predictions}, 0);
  if (both.is_value()) {
    for (const std::int64_t value : both.to_vector<std::int64_t>()) {
      if (value >= 0 && (!o.num_classes || value < *o.num_classes)) continue;
      throw_invalid_argument(fmt::format("confusion_matrix: found the class {}, expected 0 or more{}", value,
                                         o.num_classes ? fmt::format(" and below {}", *o.num_classes) : ""));
    }
  }
  const Tensor classes = o.num_classes ? Tensor::scalar(*o.num_classes) : reduce_max(both) + std::int64_t{1};
  const Tensor counts = o.weights.defined() ? cast(o.weights, o.dtype) : cast(ones_like(labels), o.dtype);
  return scatter_nd(stack({labels, predictions}, 1), counts, stack({classes, classes}, 0));
}
Tensor histogram_fixed_width_bins(const Tensor& values, const Tensor& value_range, const BinsKeywords& o) {
  const Tensor low = value_range[0], high = value_range[1];
  const Tensor places = floor(static_cast<double>(o.nbins) * ((values - low) / (high - low)));
  return cast(clip_by_value(places, 0.0, static_cast<double>(o.nbins - 1)), o.dtype);
}
Tensor igamma(const Tensor& a, const Tensor& x) { return call1("Igamma", {a, x}); }
Tensor igammac(const Tensor& a, const Tensor& x) { return call1("Igammac", {a, x}); }
Tensor polyval(const Tensor& coeffs, const Tensor& x) {
  Tensor sum = zeros_like(x);
  for (const Tensor& c : unstack(coeffs, 0)) sum = sum * x + c;
  return sum;
}
Tensor reverse_sequence(const Tensor& input, const Tensor& seq_lengths, const ReverseKeywords& keywords) {
  return call1("ReverseSequence", {input, seq_lengths},
               {{"seq_dim", keywords.seq_axis}, {"batch_dim", keywords.batch_axis}});
}
Tensor space_to_batch(const Tensor& input, const SpaceToBatchKeywords& o) {
  return call1("SpaceToBatchND", {input, o.block_shape, o.paddings});
}
Tensor batch_to_space(const Tensor& input, const BatchToSpaceKeywords& o) {
  return call1("BatchToSpaceND", {input, o.block_shape, o.crops});
}

Tensor broadcast_dynamic_shape(const Tensor& shape_x, const Tensor& shape_y) {
  return call1("BroadcastArgs", {shape_x, shape_y});
}
Shape broadcast_static_shape(const Shape& shape_x, const Shape& shape_y) {
  if (!shape_x.known_rank() || !shape_y.known_rank()) return Shape::unknown_rank();
  const int rank = std::max(shape_x.rank(), shape_y.rank());
  std::vector<std::int64_t> dims;
  for (int i = -rank; i < 0; ++i) {
    const std::int64_t x = -i <= shape_x.rank() ? shape_x[i] : 1, y = -i <= shape_y.rank() ? shape_y[i] : 1;
    if (x > 1 && y > 1 && x != y) {
      throw_invalid_argument(fmt::format("broadcast_static_shape: the shapes {} and {} do not fit", shape_x.to_string(),
                                         shape_y.to_string()));
    }
    dims.push_back(x == 1 ? y : y == 1 ? x : std::max(x, y));
  }
  return Shape(dims);
}
Unpacked shape_n(const Tensors& input, DTypeLike out_type) {
  Tensors out;
  for (const Tensor& x : input) out.push_back(shape_of(x, out_type));
  return out;
}
Unpacked identity_n(const Tensors& input) { return call("IdentityN", std::span<const Tensor>(input)); }
Tensor parallel_stack(const Tensors& values) { return stack(values, 0); }
Tensor unravel_index(const Tensor& indices, const Tensor& dims) {
  return call1("UnravelIndex", {indices, cast(dims, indices.dtype())});
}
Tensor boolean_mask(const Tensor& tensor, const Tensor& mask, MaskKeywords o) {
  const int axis = o.axis < 0 ? o.axis + tensor.rank() : o.axis, rank = mask.rank();
  if (axis == 0) return boolean_mask(tensor, mask);
  if (rank == 0 || axis < 0 || axis + rank > tensor.rank()) {
    throw_invalid_argument(
        fmt::format("boolean_mask: the mask of shape {} at axis {} does not fit the tensor of "
                    "shape {}",
                    mask.shape().to_string(), o.axis, tensor.shape().to_string()));
  }
  std::vector<std::int64_t> dims;
  std::int64_t masked = 1;
  for (int i = 0; i < tensor.rank(); ++i) {
    if (i < axis || i >= axis + rank) {
      dims.push_back(tensor.dim(i));
      continue;
    }
    if (tensor.dim(i) != mask.dim(i - axis)) {
      throw_invalid_argument(
          fmt::format("boolean_mask: the mask of shape {} at axis {} does not fit the tensor of "
                      "shape {}",
                      mask.shape().to_string(), o.axis, tensor.shape().to_string()));
    }
    masked *= tensor.dim(i);
    if (i == axis + rank - 1) dims.push_back(masked);
  }
  return gather(reshape(tensor, Shape(dims)), squeeze(where(reshape(mask, {-1})), {1}), axis);
}
Tensor linspace(const Tensor& start, const Tensor& stop, std::int64_t num, const LinspaceAxisKeywords& o) {
  if (num < 1) throw_invalid_argument(fmt::format("linspace: invalid num: found {}, expected 1 or more", num));
  const Tensor shape = broadcast_dynamic_shape(shape_of(start), shape_of(stop));
  const Tensor first = expand_dims(broadcast_to(start, shape), o.axis);
  const Tensor last = expand_dims(broadcast_to(stop, shape), o.axis);
  if (num == 1) return first;
  const Tensor delta = (last - first) / static_cast<double>(num - 1);
  Tensors parts = {first};
  for (std::int64_t i = 1; i + 1 < num; ++i) parts.push_back(first + delta * static_cast<double>(i));
  parts.push_back(last);
  return concat(parts, o.axis);
}
Tensor extract_volume_patches(const Tensor& input, const VolumePatchesKeywords& o) {
  return call1("ExtractVolumePatches", {input}, {{"ksizes", o.ksizes}, {"strides", o.strides}, {"padding", o.padding}});
}
Tensor edit_distance(const SparseTensor& hypothesis, const SparseTensor& truth, const DistanceKeywords& o) {
  return call1("EditDistance",
               {hypothesis.indices(), hypothesis.values(), hypothesis.dense_shape(), truth.indices(), truth.values(),
                truth.dense_shape()},
               {{"normalize", o.normalize}});
}

}  // namespace lockstep::ops

namespace lockstep::sets {
namespace {

SparseTensor of_rows(const Tensor& a, const Tensor& b, const char* operation) {
  const Tensors out = ops::call("DenseToDenseSetOperation", {a, b}, {{"set_operation", std::string(operation)}});
  return {out[0], out[1], out[2]};
}
SparseTensor of_rows(const SparseTensor& a, const SparseTensor& b, const char* operation) {
  const Tensors out = ops::call("SparseToSparseSetOperation",
                                {a.indices(), a.values(), a.dense_shape(), b.indices(), b.values(), b.dense_shape()},
                                {{"set_operation", std::string(operation)}});
  return {out[0], out[1], out[2]};
}

}  // namespace

SparseTensor intersection(const Tensor& a, const Tensor& b) { return of_rows(a, b, "intersection"); }
SparseTensor set_union(const Tensor& a, const Tensor& b) { return of_rows(a, b, "union"); }
SparseTensor difference(const Tensor& a, const Tensor& b) { return of_rows(a, b, "a-b"); }
SparseTensor intersection(const SparseTensor& a, const SparseTensor& b) { return of_rows(a, b, "intersection"); }
SparseTensor set_union(const SparseTensor& a, const SparseTensor& b) { return of_rows(a, b, "union"); }
SparseTensor difference(const SparseTensor& a, const SparseTensor& b) { return of_rows(a, b, "a-b"); }
Tensor size(const SparseTensor& a) { return ops::call1("SetSize", {a.indices(), a.values(), a.dense_shape()}); }

}  // namespace lockstep::sets

namespace lockstep::image {

Tensor crop_and_resize(const Tensor& image, const CropAndResizeKeywords& o) {
  return ops::call1("CropAndResize",
                    {image, ops::cast(o.boxes, DType::kFloat32), ops::cast(o.box_indices, DType::kInt32),
                     ops::cast(o.crop_size, DType::kInt32)},
                    {{"method", o.method}, {"extrapolation_value", static_cast<float>(o.extrapolation_value)}});
}
namespace {
Tensor int32_scalar(std::int64_t value) { return Tensor::scalar(static_cast<std::int32_t>(value)); }
Tensor float_scalar(double value) { return Tensor::scalar(static_cast<float>(value)); }
Tensor lowest_score(std::optional<double> threshold) {
  return float_scalar(threshold.value_or(-std::numeric_limits<double>::infinity()));
}
}  // namespace

Tensor non_max_suppression(const SuppressionKeywords& o) {
  return ops::call1("NonMaxSuppressionV3", {o.boxes, o.scores, int32_scalar(o.max_output_size),
                                            float_scalar(o.iou_threshold), lowest_score(o.score_threshold)});
}
Tensor non_max_suppression_overlaps(const Tensor& overlaps, const Tensor& scores, std::int64_t max_output_size,
                                    const OverlapSuppressionOptions& o) {
  return ops::call1("NonMaxSuppressionWithOverlaps",
                    {overlaps, scores, int32_scalar(max_output_size), float_scalar(o.overlap_threshold),
                     lowest_score(o.score_threshold)});
}
std::pair<Tensor, Tensor> non_max_suppression_padded(const Tensor& boxes, const Tensor& scores,
                                                     std::int64_t max_output_size, const PaddedSuppressionOptions& o) {
  const Tensors out = ops::call(
      "NonMaxSuppressionV4",
      {boxes, scores, int32_scalar(max_output_size), float_scalar(o.iou_threshold), lowest_score(o.score_threshold)},
      {{"pad_to_max_output_size", o.pad_to_max_output_size}});
  return {out[0], out[1]};
}
SelectedBoxes non_max_suppression_with_scores(const SoftSuppressionKeywords& o) {
  const Tensors out = ops::call("NonMaxSuppressionV5",
                                {o.boxes, o.scores, int32_scalar(o.max_output_size), float_scalar(o.iou_threshold),
                                 lowest_score(o.score_threshold), float_scalar(o.soft_nms_sigma)});
  return {out[0], out[1]};
}
CombinedBoxes combined_non_max_suppression(const CombinedSuppressionKeywords& o) {
  const Tensors out =
      ops::call("CombinedNonMaxSuppression",
                {o.boxes, o.scores, int32_scalar(o.max_output_size_per_class), int32_scalar(o.max_total_size),
                 float_scalar(o.iou_threshold), lowest_score(o.score_threshold)},
                {{"pad_per_class", o.pad_per_class}, {"clip_boxes", o.clip_boxes}});
  return {out[0], out[1], out[2], out[3]};
}
Tensor draw_bounding_boxes(const Tensor& images, const Tensor& boxes, const Tensor& colors) {
  return ops::call1("DrawBoundingBoxesV2",
                    {images, ops::cast(boxes, DType::kFloat32), ops::cast(colors, DType::kFloat32)});
}
Tensor adjust_jpeg_quality(const Tensor& image, std::int64_t jpeg_quality) {
  if (image.rank() != 3) {
    throw_invalid_argument(
        fmt::format("image.adjust_jpeg_quality: the image must have the shape (height, width, channels), found {}",
                    image.shape().to_string()));
  }
  const Tensor pixels = convert_image_dtype(image, DType::kUInt8, true);
  const Tensor file =
      ops::call1("EncodeJpegVariableQuality", {pixels, Tensor::scalar(static_cast<std::int32_t>(jpeg_quality))});
  return convert_image_dtype(io::decode_jpeg(file, image.dim(-1)), image.dtype(), true);
}

}  // namespace lockstep::image

namespace lockstep::strings {

Tensor to_hash_bucket(const Tensor& x, std::int64_t num_buckets) {
  return ops::call1("StringToHashBucket", {x}, {{"num_buckets", num_buckets}});
}
Tensor to_hash_bucket_strong(const Tensor& x, std::int64_t num_buckets, const StrongBucketKeywords& o) {
  return ops::call1("StringToHashBucketStrong", {x}, {{"num_buckets", num_buckets}, {"key", o.key}});
}
Tensor as_string(const Tensor& x, const AsStringKeywords& o) {
  return ops::call1("AsString", {x},
                    {{"precision", o.precision},
                     {"scientific", o.scientific},
                     {"shortest", o.shortest},
                     {"width", o.width},
                     {"fill", o.fill}});
}
namespace {

Tensors ngrams_of_rows(const Tensor& texts, const Tensor& row_splits, const NgramsKeywords& o) {
  const ops::Ints widths = o.ngram_width.is_one() ? ops::Ints{o.ngram_width[0]} : ops::Ints(o.ngram_width);
  return ops::call("StringNGrams", {texts, row_splits},
                   {{"separator", o.separator},
                    {"ngram_widths", widths},
                    {"left_pad", std::string()},
                    {"right_pad", std::string()},
                    {"pad_width", std::int64_t{0}},
                    {"preserve_short_sequences", false}});
}

}  // namespace

Tensor ngrams(const Tensor& data, const NgramsKeywords& o) {
  return ngrams_of_rows(data, Tensor::from_vector(std::vector<std::int64_t>{0, data.dim(0)}), o)[0];
}

RaggedTensor ngrams_ragged(const RaggedTensor& data, const NgramsKeywords& o) {
  if (data.ragged_rank() == 0) return RaggedTensor(ngrams(data.flat_values(), o));
  const Tensors rows = ngrams_of_rows(data.flat_values(), data.nested_row_splits().back(), o);
  RaggedTensor out = RaggedTensor::from_row_splits(rows[0], rows[1]);
  for (std::size_t level = data.nested_row_splits().size() - 1; level-- > 0;)
    out = RaggedTensor::from_row_splits(out, data.nested_row_splits()[level]);
  return out;
}

}  // namespace lockstep::strings
