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
Tensor diag(const Tensor& diagonal, const DiagonalKeywords& keywords) {
  return call1("MatrixDiagV3", {diagonal, Tensor::scalar(std::int32_t{keywords.k}), Tensor::scalar(std::int32_t{-1}),
                                Tensor::scalar(std::int32_t{-1}), cast(Tensor::scalar(0.0F), diagonal.dtype())});
}
Tensor diag_part(const Tensor& input, const DiagonalKeywords& keywords) {
  return call1("MatrixDiagPartV3",
               {input, Tensor::scalar(std::int32_t{keywords.k}), cast(Tensor::scalar(0.0F), input.dtype())});
}
Tensor bincount(const Tensor& arr, const BincountKeywords& keywords) {
  const auto values = cast(reshape(arr, {-1}), DType::kInt64).to_vector<std::int64_t>();
  const std::int64_t largest = values.empty() ? -1 : *std::max_element(values.begin(), values.end());
  const Tensor counts = bincount(arr, std::max(largest + 1, keywords.minlength), keywords.weights);
  return keywords.weights.defined() ? counts : cast(counts, DType::kInt32);
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

}  // namespace lockstep::ops

namespace lockstep::sets {
namespace {

SparseTensor of_rows(const Tensor& a, const Tensor& b, const char* operation) {
  const Tensors out = ops::call("DenseToDenseSetOperation", {a, b}, {{"set_operation", std::string(operation)}});
  return {out[0], out[1], out[2]};
}

}  // namespace

SparseTensor intersection(const Tensor& a, const Tensor& b) { return of_rows(a, b, "intersection"); }
SparseTensor set_union(const Tensor& a, const Tensor& b) { return of_rows(a, b, "union"); }
SparseTensor difference(const Tensor& a, const Tensor& b) { return of_rows(a, b, "a-b"); }

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
