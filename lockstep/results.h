// Parts of results by position, as those of tuples in Python: std::get<1>(linalg::qr(x)) is linalg::qr(x).r.
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "lockstep/keras/operations/operations.h"
#include "lockstep/ops/nn_functions.h"
#include "lockstep/ops/ops.h"
#include "lockstep/ops/quantization_functions.h"
#include "lockstep/ops/tensor_functions.h"
#include "lockstep/random/random_images.h"

namespace lockstep::internal {

// How many parts a struct that functions return has.
template <typename Result>
inline constexpr std::size_t kParts = 0;
template <std::size_t I, typename... Parts>
decltype(auto) part(Parts&&... parts) {
  return std::get<I>(std::forward_as_tuple(std::forward<Parts>(parts)...));
}

#define LOCKSTEP_PARTS(Result, count) \
  template <>                         \
  inline constexpr std::size_t kParts<Result> = count;
LOCKSTEP_PARTS(ops::ClippedTensors, 2)
LOCKSTEP_PARTS(ops::Moments, 2)
LOCKSTEP_PARTS(ops::TopK, 2)
LOCKSTEP_PARTS(ops::BatchNorm, 3)
LOCKSTEP_PARTS(ops::Unique, 2)
LOCKSTEP_PARTS(ops::UniqueWithCounts, 3)
LOCKSTEP_PARTS(ops::SignAndLogDet, 2)
LOCKSTEP_PARTS(ops::QR, 2)
LOCKSTEP_PARTS(ops::SVD, 3)
LOCKSTEP_PARTS(ops::Eigen, 2)
LOCKSTEP_PARTS(ops::LU, 2)
LOCKSTEP_PARTS(ops::Normalized, 2)
LOCKSTEP_PARTS(audio::Wav, 2)
LOCKSTEP_PARTS(image::ImageGradients, 2)
LOCKSTEP_PARTS(image::SelectedBoxes, 2)
LOCKSTEP_PARTS(image::CombinedBoxes, 4)
LOCKSTEP_PARTS(image::DistortedBox, 3)
LOCKSTEP_PARTS(quantization::Quantized, 3)
LOCKSTEP_PARTS(keras_ops::Histogram, 2)
LOCKSTEP_PARTS(nn::PoolWithArgmax, 2)
LOCKSTEP_PARTS(nn::SufficientStatistics, 4)
LOCKSTEP_PARTS(nn::DecodedLabels, 2)
LOCKSTEP_PARTS(nn::UniqueLabels, 2)
LOCKSTEP_PARTS(nn::CollapsedLabels, 2)
#undef LOCKSTEP_PARTS

}  // namespace lockstep::internal

// Programs write std::get, which finds no functions of other namespaces.
namespace std {

template <std::size_t I, typename Result>
requires(I < lockstep::internal::kParts<std::remove_cvref_t<Result>>) auto get(Result&& result) {
  constexpr std::size_t count = lockstep::internal::kParts<std::remove_cvref_t<Result>>;
  if constexpr (count == 2) {
    auto&& [a, b] = result;
    return lockstep::internal::part<I>(a, b);
  } else if constexpr (count == 3) {
    auto&& [a, b, c] = result;
    return lockstep::internal::part<I>(a, b, c);
  } else {
    auto&& [a, b, c, d] = result;
    return lockstep::internal::part<I>(a, b, c, d);
  }
}

}  // namespace std
