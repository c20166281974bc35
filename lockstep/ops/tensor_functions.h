// More of TensorFlow's functions of tensors, strings and images, and more keywords of those of functions.h and
// composed.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/field_names_only.h"
#include "lockstep/ops/control_flow.h"
#include "lockstep/ops/image_functions.h"
#include "lockstep/ops/keywords.h"
#include "lockstep/ops/linear_algebra.h"
#include "lockstep/ops/sparse_tensor.h"
#include "lockstep/ops/string_functions.h"

namespace lockstep::ops {

struct GatherNdKeywords {
  FieldNamesOnly names_only = {};
  Tensor indices = {};  // where they are not given by position
  int batch_dims = 0;   // leading axes that both have
};
Tensor gather_nd(const Tensor& params, const GatherNdKeywords& keywords);
inline Tensor gather_nd(const Tensor& params, const Tensor& indices, GatherNdKeywords keywords) {
  keywords.indices = indices;
  return gather_nd(params, keywords);
}
struct ScatterNdKeywords {
  FieldNamesOnly names_only = {};
  Tensor indices = {};
  Tensor updates = {};
  Tensor shape = {};
};
inline Tensor scatter_nd(const ScatterNdKeywords& o) { return scatter_nd(o.indices, o.updates, o.shape); }
struct ScatterKeywords {
  FieldNamesOnly names_only = {};
  Tensor indices = {};
  Tensor updates = {};
};
#define LOCKSTEP_SCATTER(function)                                           \
  inline Tensor function(const Tensor& x, const ScatterKeywords& keywords) { \
    return function(x, keywords.indices, keywords.updates);                  \
  }
LOCKSTEP_SCATTER(tensor_scatter_nd_update)
LOCKSTEP_SCATTER(tensor_scatter_nd_add)
LOCKSTEP_SCATTER(tensor_scatter_nd_sub)
LOCKSTEP_SCATTER(tensor_scatter_nd_max)
LOCKSTEP_SCATTER(tensor_scatter_nd_min)
#undef LOCKSTEP_SCATTER
struct AdjointKeywords {
  FieldNamesOnly names_only = {};
  bool adjoint_a = false;
  bool adjoint_b = false;
};
Tensor matmul(const Tensor& a, const Tensor& b, const AdjointKeywords& keywords);
struct BandKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_lower = 0;
  std::int64_t num_upper = 0;
};
inline Tensor band_part(const Tensor& input, const BandKeywords& o) {
  return band_part(input, o.num_lower, o.num_upper);
}
struct NormalizeKeywords {
  FieldNamesOnly names_only = {};
  NormOrder ord = {};
  Axes axis = std::nullopt;
};
inline Normalized normalize(const Tensor& x, const NormalizeKeywords& o) { return normalize(x, o.ord, o.axis); }

struct BincountKeywords {
  FieldNamesOnly names_only = {};
  Tensor weights = {};  // what each element counts; default: 1, and the result has the dtype
  std::optional<std::int64_t> minlength = std::nullopt;
  std::optional<std::int64_t> maxlength = std::nullopt;  // larger numbers are left out
  DTypeLike dtype = DType::kInt32;
  std::optional<int> axis = std::nullopt;  // 0: of all elements; -1: of each row of a matrix
  bool binary_output = false;              // whether a number comes, rather than how often
};
Tensor bincount(const Tensor& arr, const BincountKeywords& keywords);
struct ConfusionKeywords {
  FieldNamesOnly names_only = {};
  Tensor labels = {}, predictions = {};  // where they are not given by position
  std::optional<std::int64_t> num_classes = std::nullopt;
  Tensor weights = {};  // what each label counts; default: 1
  DTypeLike dtype = DType::kInt32;
};
Tensor confusion_matrix(const ConfusionKeywords& o);
inline Tensor confusion_matrix(const Tensor& labels, const Tensor& predictions, ConfusionKeywords o) {
  o.labels = labels, o.predictions = predictions;
  return confusion_matrix(o);
}
inline Tensor confusion_matrix(const Tensor& labels, const Tensor& predictions, std::int64_t num_classes,
                               ConfusionKeywords o) {
  o.num_classes = num_classes;
  return confusion_matrix(labels, predictions, o);
}
struct SideKeywords {
  FieldNamesOnly names_only = {};
  std::string_view side = "left";
};
inline Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values, const SideKeywords& o) {
  return searchsorted(sorted_sequence, values, o.side);
}
struct InTopKKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t k = 1;
};
inline Tensor in_top_k(const Tensor& targets, const Tensor& predictions, const InTopKKeywords& o) {
  return in_top_k(targets, predictions, o.k);
}
struct HistogramKeywords {
  FieldNamesOnly names_only = {};
  Tensor values = {}, value_range = {};  // where they are not given by position
  std::int64_t nbins = 100;
  DTypeLike dtype = DType::kInt32;
};
inline Tensor histogram_fixed_width(const HistogramKeywords& o) {
  return cast(histogram_fixed_width(o.values, o.value_range, o.nbins), o.dtype);
}
inline Tensor histogram_fixed_width(const Tensor& values, HistogramKeywords o) {
  o.values = values;
  return histogram_fixed_width(o);
}
inline Tensor histogram_fixed_width(const Tensor& values, const Tensor& value_range, HistogramKeywords o) {
  o.values = values;
  o.value_range = value_range;
  return histogram_fixed_width(o);
}
// The bin in the histogram of each value.
struct BinsKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t nbins = 100;
  DTypeLike dtype = DType::kInt32;
};
Tensor histogram_fixed_width_bins(const Tensor& values, const Tensor& value_range, const BinsKeywords& o = {});
inline Tensor histogram_fixed_width_bins(const Tensor& values, const Tensor& value_range, std::int64_t nbins) {
  return histogram_fixed_width_bins(values, value_range, BinsKeywords{{}, nbins});
}
// Of strings: equal(x, "cat"), x == "cat".
template <std::convertible_to<std::string_view> Text>
Tensor equal(const Tensor& x, const Text& text) {
  return equal(x, Tensor::strings({std::string(text)}, {}));
}
template <std::convertible_to<std::string_view> Text>
Tensor not_equal(const Tensor& x, const Text& text) {
  return not_equal(x, Tensor::strings({std::string(text)}, {}));
}
struct FillKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg dims = {};
  Tensor value = {};
};
inline Tensor fill(const FillKeywords& o) { return fill(o.dims, o.value); }
// All by name: ones({.shape = {2, 3}, .dtype = "int64"}). Templates, so that ones({}) is a scalar.
struct FilledKeywords {
  FieldNamesOnly names_only = {};
  ShapeArg shape = {};
  DTypeLike dtype = DType::kFloat32;
};
template <typename = void>
Tensor zeros(const FilledKeywords& o) {
  return zeros(o.shape, o.dtype);
}
template <typename = void>
Tensor ones(const FilledKeywords& o) {
  return ones(o.shape, o.dtype);
}

// The regularized incomplete gamma functions.
Tensor igamma(const Tensor& a, const Tensor& x);
Tensor igammac(const Tensor& a, const Tensor& x);
// c0 xⁿ + c1 xⁿ⁻¹ + … of coefficients that begin with the highest power.
Tensor polyval(const Tensor& coeffs, const Tensor& x);
struct ReverseKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t seq_axis = 1;
  std::int64_t batch_axis = 0;
};
// The first seq_lengths[i] steps of row i in the opposite order.
Tensor reverse_sequence(const Tensor& input, const Tensor& seq_lengths, const ReverseKeywords& keywords);
struct SpaceToBatchKeywords {
  FieldNamesOnly names_only = {};
  Tensor block_shape = {};
  Tensor paddings = {};  // (axes, 2)
};
Tensor space_to_batch(const Tensor& input, const SpaceToBatchKeywords& o);
struct BatchToSpaceKeywords {
  FieldNamesOnly names_only = {};
  Tensor block_shape = {};
  Tensor crops = {};  // (axes, 2)
};
Tensor batch_to_space(const Tensor& input, const BatchToSpaceKeywords& o);
template <int = 0>
Tensor space_to_batch(const Tensor& input, const Tensor& block_shape, const Tensor& paddings) {
  return space_to_batch(input, SpaceToBatchKeywords{{}, block_shape, paddings});
}
template <int = 0>
Tensor batch_to_space(const Tensor& input, const Tensor& block_shape, const Tensor& crops) {
  return batch_to_space(input, BatchToSpaceKeywords{{}, block_shape, crops});
}

// ---- shapes ----------------------------------------------------------------------------------------------
// The shape of sums of tensors of these shapes: of vectors of integers, and of shapes that are known.
Tensor broadcast_dynamic_shape(const Tensor& shape_x, const Tensor& shape_y);
Shape broadcast_static_shape(const Shape& shape_x, const Shape& shape_y);
Unpacked shape_n(const Tensors& input, DTypeLike out_type = DType::kInt32);
inline Unpacked shape_n(const Tensors& input, const OutTypeKeywords& o) { return shape_n(input, o.out_type); }
Unpacked identity_n(const Tensors& input);
Tensor parallel_stack(const Tensors& values);
// Coordinates, one row for each axis, of indices among all elements of a tensor of the shape `dims`.
Tensor unravel_index(const Tensor& indices, const Tensor& dims);
struct UnravelKeywords {
  FieldNamesOnly names_only = {};
  Tensor indices = {};
  Tensor dims = {};
};
inline Tensor unravel_index(const UnravelKeywords& o) { return unravel_index(o.indices, o.dims); }
// Of the axes of the mask, which begin at `axis`.
struct MaskKeywords {
  FieldNamesOnly names_only = {};
  Tensor mask = {};  // where it is not given by position
  int axis = 0;
};
Tensor boolean_mask(const Tensor& tensor, const Tensor& mask, MaskKeywords o);
// A template, because GCC would also take {.mask = m} for a tensor.
template <int = 0>
Tensor boolean_mask(const Tensor& tensor, const MaskKeywords& o) {
  return boolean_mask(tensor, o.mask, o);
}
inline Tensor boolean_mask(const Tensor& tensor, const Tensor& mask, int axis) {
  return boolean_mask(tensor, mask, MaskKeywords{.axis = axis});
}
// Of tensors of any shape, along a new axis.
struct LinspaceAxisKeywords {
  FieldNamesOnly names_only = {};
  int axis = 0;
};
Tensor linspace(const Tensor& start, const Tensor& stop, std::int64_t num, const LinspaceAxisKeywords& o);
// Patches of a batch of volumes, (batch, depths, rows, columns, depth · height · width · channels). Sizes and strides
// have five numbers, the first and the last of which are 1.
struct VolumePatchesKeywords {
  FieldNamesOnly names_only = {};
  std::vector<std::int64_t> ksizes = {};
  std::vector<std::int64_t> strides = {};
  std::string padding = "VALID";  // or "SAME"
};
Tensor extract_volume_patches(const Tensor& input, const VolumePatchesKeywords& o);
template <int = 0>
Tensor extract_volume_patches(const Tensor& input, const std::vector<std::int64_t>& ksizes,
                              const std::vector<std::int64_t>& strides, const std::string& padding) {
  return extract_volume_patches(input, VolumePatchesKeywords{{}, ksizes, strides, padding});
}
// Levenshtein's distance of the rows of two sparse tensors; normalized by the length of the row of truth.
struct DistanceKeywords {
  FieldNamesOnly names_only = {};
  bool normalize = true;
};
Tensor edit_distance(const SparseTensor& hypothesis, const SparseTensor& truth, const DistanceKeywords& o = {});

}  // namespace lockstep::ops

namespace lockstep {
using ops::map_fn;
}

namespace lockstep::sets {

// Of the rows of the last axis, as sets in ascending order.
SparseTensor intersection(const Tensor& a, const Tensor& b);
SparseTensor set_union(const Tensor& a, const Tensor& b);  // `union` is a keyword of C++
SparseTensor difference(const Tensor& a, const Tensor& b);
inline SparseTensor union_(const Tensor& a, const Tensor& b) { return set_union(a, b); }
// Of the rows of sparse tensors, or of a tensor and a sparse one.
SparseTensor intersection(const SparseTensor& a, const SparseTensor& b);
SparseTensor set_union(const SparseTensor& a, const SparseTensor& b);
SparseTensor difference(const SparseTensor& a, const SparseTensor& b);
inline SparseTensor union_(const SparseTensor& a, const SparseTensor& b) { return set_union(a, b); }
struct DifferenceKeywords {
  FieldNamesOnly names_only = {};
  bool aminusb = true;  // or else the elements of b that a does not have
};
template <typename A, typename B>
SparseTensor difference(const A& a, const B& b, const DifferenceKeywords& o) {
  return o.aminusb ? difference(a, b) : difference(b, a);
}
// How many different elements each row has, int32.
Tensor size(const SparseTensor& a);

}  // namespace lockstep::sets

namespace lockstep::image {

struct GammaKeywords {
  FieldNamesOnly names_only = {};
  double gamma = 1;
  double gain = 1;
};
inline Tensor adjust_gamma(const Tensor& images, const GammaKeywords& o) {
  return adjust_gamma(images, o.gamma, o.gain);
}
struct RotationKeywords {
  FieldNamesOnly names_only = {};
  int k = 1;
};
inline Tensor rot90(const Tensor& images, const RotationKeywords& o) { return rot90(images, o.k); }
struct BoundingBoxKeywords {
  FieldNamesOnly names_only = {};
  Extent offset_height = 0;
  Extent offset_width = 0;
  Extent target_height = 0;
  Extent target_width = 0;
};
inline Tensor crop_to_bounding_box(const Tensor& images, const BoundingBoxKeywords& o) {
  return crop_to_bounding_box(images, o.offset_height, o.offset_width, o.target_height, o.target_width);
}
inline Tensor pad_to_bounding_box(const Tensor& images, const BoundingBoxKeywords& o) {
  return pad_to_bounding_box(images, o.offset_height, o.offset_width, o.target_height, o.target_width);
}
struct ConvertKeywords {
  FieldNamesOnly names_only = {};
  DTypeLike dtype = DType::kFloat32;
  bool saturate = false;
};
inline Tensor convert_image_dtype(const Tensor& images, const ConvertKeywords& o) {
  return convert_image_dtype(images, o.dtype, o.saturate);
}
struct ConvertOptions {
  FieldNamesOnly names_only = {};
  bool saturate = false;
};
inline Tensor convert_image_dtype(const Tensor& images, DTypeLike dtype, const ConvertOptions& o) {
  return convert_image_dtype(images, dtype, o.saturate);
}
struct CropAndResizeKeywords {
  FieldNamesOnly names_only = {};
  Tensor boxes = {};        // (boxes, 4): y1, x1, y2, x2, from 0 to 1
  Tensor box_indices = {};  // (boxes): the image of each
  Tensor crop_size = {};    // height and width
  std::string method = "bilinear";
  double extrapolation_value = 0;
};
Tensor crop_and_resize(const Tensor& image, const CropAndResizeKeywords& o);
struct CropAndResizeOptions {
  FieldNamesOnly names_only = {};
  std::string method = "bilinear";
  double extrapolation_value = 0;
};
inline Tensor crop_and_resize(const Tensor& image, const Tensor& boxes, const Tensor& box_indices,
                              const Tensor& crop_size, const CropAndResizeOptions& o = {}) {
  return crop_and_resize(image,
                         CropAndResizeKeywords{{}, boxes, box_indices, crop_size, o.method, o.extrapolation_value});
}
struct SuppressionKeywords {
  FieldNamesOnly names_only = {};
  Tensor boxes = {};   // (boxes, 4)
  Tensor scores = {};  // (boxes)
  std::int64_t max_output_size = 0;
  double iou_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
};
// The boxes that do not overlap a better one too much, best first, int32.
Tensor non_max_suppression(const SuppressionKeywords& o);
struct SuppressionOptions {
  FieldNamesOnly names_only = {};
  double iou_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
};
inline Tensor non_max_suppression(const Tensor& boxes, const Tensor& scores, std::int64_t max_output_size,
                                  const SuppressionOptions& o = {}) {
  return non_max_suppression(
      SuppressionKeywords{{}, boxes, scores, max_output_size, o.iou_threshold, o.score_threshold});
}
// By the overlap of each pair of boxes: overlaps (boxes, boxes).
struct OverlapSuppressionOptions {
  FieldNamesOnly names_only = {};
  double overlap_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
};
Tensor non_max_suppression_overlaps(const Tensor& overlaps, const Tensor& scores, std::int64_t max_output_size,
                                    const OverlapSuppressionOptions& o = {});
// Of one image: the selected boxes, filled up with 0, and how many there are, int32.
struct PaddedSuppressionOptions {
  FieldNamesOnly names_only = {};
  double iou_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
  bool pad_to_max_output_size = false;
};
std::pair<Tensor, Tensor> non_max_suppression_padded(const Tensor& boxes, const Tensor& scores,
                                                     std::int64_t max_output_size,
                                                     const PaddedSuppressionOptions& o = {});
struct SoftSuppressionKeywords {
  FieldNamesOnly names_only = {};
  Tensor boxes = {};
  Tensor scores = {};
  std::int64_t max_output_size = 0;
  double iou_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
  double soft_nms_sigma = 0;  // above 0 overlapping boxes lose a part of their score
};
struct SelectedBoxes {
  Tensor selected_indices, selected_scores;
};
SelectedBoxes non_max_suppression_with_scores(const SoftSuppressionKeywords& o);
struct SoftSuppressionOptions {
  FieldNamesOnly names_only = {};
  double iou_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
  double soft_nms_sigma = 0;
};
inline SelectedBoxes non_max_suppression_with_scores(const Tensor& boxes, const Tensor& scores,
                                                     std::int64_t max_output_size,
                                                     const SoftSuppressionOptions& o = {}) {
  return non_max_suppression_with_scores(SoftSuppressionKeywords{
      {}, boxes, scores, max_output_size, o.iou_threshold, o.score_threshold, o.soft_nms_sigma});
}
struct CombinedSuppressionKeywords {
  FieldNamesOnly names_only = {};
  Tensor boxes = {};   // (batch, boxes, classes or 1, 4)
  Tensor scores = {};  // (batch, boxes, classes)
  std::int64_t max_output_size_per_class = 0;
  std::int64_t max_total_size = 0;
  double iou_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
  bool pad_per_class = false;
  bool clip_boxes = true;  // to 0 .. 1
};
// The best boxes of each image, padded with zeros: (batch, n, 4), (batch, n), (batch, n), and how many are valid,
// int32.
struct CombinedBoxes {
  Tensor nmsed_boxes, nmsed_scores, nmsed_classes, valid_detections;
  operator Nested<Tensor>() const {
    return Nested<Tensor>::list({nmsed_boxes, nmsed_scores, nmsed_classes, valid_detections});
  }
};
CombinedBoxes combined_non_max_suppression(const CombinedSuppressionKeywords& o);
struct CombinedSuppressionOptions {
  FieldNamesOnly names_only = {};
  double iou_threshold = 0.5;
  std::optional<double> score_threshold = std::nullopt;
  bool pad_per_class = false;
  bool clip_boxes = true;
};
inline CombinedBoxes combined_non_max_suppression(const Tensor& boxes, const Tensor& scores,
                                                  std::int64_t max_output_size_per_class, std::int64_t max_total_size,
                                                  const CombinedSuppressionOptions& o = {}) {
  return combined_non_max_suppression(CombinedSuppressionKeywords{{},
                                                                  boxes,
                                                                  scores,
                                                                  max_output_size_per_class,
                                                                  max_total_size,
                                                                  o.iou_threshold,
                                                                  o.score_threshold,
                                                                  o.pad_per_class,
                                                                  o.clip_boxes});
}
inline CombinedBoxes combined_non_max_suppression(const Tensor& boxes, const Tensor& scores,
                                                  std::int64_t max_output_size_per_class, std::int64_t max_total_size,
                                                  double iou_threshold,
                                                  std::optional<double> score_threshold = std::nullopt,
                                                  const CombinedSuppressionOptions& o = {}) {
  return combined_non_max_suppression(boxes, scores, max_output_size_per_class, max_total_size,
                                      {{}, iou_threshold, score_threshold, o.pad_per_class, o.clip_boxes});
}
// Images (N, height, width, channels) with the outlines of boxes (N, boxes, 4): y1, x1, y2, x2, from 0 to 1. Outlines
// have the colors (colors, channels) in turn.
Tensor draw_bounding_boxes(const Tensor& images, const Tensor& boxes, const Tensor& colors);
// An image (height, width, channels) written as a JPEG file of this quality, 0 to 100, and read again.
Tensor adjust_jpeg_quality(const Tensor& image, std::int64_t jpeg_quality);

}  // namespace lockstep::image

namespace lockstep::strings {

struct BucketKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t num_buckets = 1;
};
inline Tensor to_hash_bucket_fast(const Tensor& x, const BucketKeywords& o) {
  return to_hash_bucket_fast(x, o.num_buckets);
}
Tensor to_hash_bucket(const Tensor& x, std::int64_t num_buckets);
inline Tensor to_hash_bucket(const Tensor& x, const BucketKeywords& o) { return to_hash_bucket(x, o.num_buckets); }
struct StrongBucketKeywords {
  FieldNamesOnly names_only = {};
  std::vector<std::int64_t> key = {};  // two numbers
};
Tensor to_hash_bucket_strong(const Tensor& x, std::int64_t num_buckets, const StrongBucketKeywords& o);
struct AsStringKeywords {
  FieldNamesOnly names_only = {};
  std::int64_t precision = -1;
  bool scientific = false;
  bool shortest = false;
  std::int64_t width = -1;
  std::string fill = {};
};
Tensor as_string(const Tensor& x, const AsStringKeywords& o);
struct NgramsKeywords {
  FieldNamesOnly names_only = {};
  ops::IntOrInts ngram_width = 1;  // or several widths
  std::string separator = " ";
};
// Of the strings of a vector.
Tensor ngrams(const Tensor& data, const NgramsKeywords& o);
template <std::convertible_to<ops::IntOrInts> Width>  // GCC would take {.ngram_width = 2} for a list
Tensor ngrams(const Tensor& data, const Width& ngram_width, std::string_view separator = " ") {
  return ngrams(data, NgramsKeywords{{}, ngram_width, std::string(separator)});
}

}  // namespace lockstep::strings
