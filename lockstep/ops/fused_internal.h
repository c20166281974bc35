// Composites of several operations that have one kernel on values. Empty results mean: run the plain
// operations (an input is symbolic, or the case has no kernel of its own).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/ops/op.h"

namespace lockstep::ops {

struct ConvOptions;  // functions.h

// Conv2D, then BiasAdd (undefined bias: none), then Relu if asked. `attrs` are Conv2D's.
std::optional<Tensor> try_conv2d_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool relu,
                                          const Attrs& attrs);
// Conv2DBackpropInput of output_shape, kernel and x: the transposed convolution, then BiasAdd and Relu as above.
std::optional<Tensor> try_conv2d_transpose_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& output_shape,
                                                    const Tensor& bias, bool relu, const Attrs& attrs);
// That, or the plain operations.
Tensor conv2d_transpose_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& output_shape, const Tensor& bias,
                                 bool relu, const ConvOptions& options);
// x [..., in] times kernel [in, out], plus bias, then Relu if asked.
std::optional<Tensor> try_dense_bias_act(const Tensor& x, const Tensor& kernel, const Tensor& bias, bool relu);
// An einsum over the last axes of x and the first of the kernel ("abc,cde->abde"), plus a bias over the kernel's other
// axes.
std::optional<Tensor> try_einsum_bias(std::string_view equation, const Tensor& x, const Tensor& kernel,
                                      const Tensor& bias);

// LSTM, GRU or SimpleRNN over all steps.
struct RecurrentOptions {
  std::string cell;  // "LSTM", "GRU", "SimpleRNN"
  bool reset_after = true;
  std::string activation, recurrent_activation;  // names of Keras
  bool return_sequences = false, go_backwards = false, zero_output_for_mask = false;
};
struct RecurrentResult {
  Tensor output;  // [batch, units], or [batch, steps, units] in the order of computing
  Tensors states;
};
// `projected` [batch, steps, gates · units] is the input's part of the gates, its bias included; `kernel` [units,
// gates · units] the recurrent weights; `bias` (undefined: none) that of the recurrent product of a GRU with
// reset_after. mask: bool [batch, steps], or undefined. `dropped`: factors [batch, units] of the state in the product
// of each gate, in every step; or none.
std::optional<RecurrentResult> try_recurrent(const Tensor& projected, const Tensor& kernel, const Tensor& bias,
                                             const Tensor& mask, const Tensors& dropped, const Tensors& states,
                                             const RecurrentOptions& options);

// softmax(scale · query keyᵀ) value for each head; tensors are [batch, steps, heads, size]. `mask`: bool [batch or 1,
// heads or 1, query's steps or 1, key's steps or 1], false for scores that do not count, or undefined. `factors`
// [batch, heads, query's steps, key's steps] multiply the weights after softmax (dropout), or undefined.
struct AttentionOptions {
  double scale = 1;
  bool blind_rows_are_zero = false;  // where nothing counts; else all keys count alike
};
std::optional<Tensor> try_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                                    const Tensor& factors, const AttentionOptions& options);

// Batch normalization over all axes but the last, by the moments of x itself. gamma and beta [channels] may be
// undefined. `mean` and `variance` (biased) are [channels].
struct BatchNormalized {
  Tensor y, mean, variance;
};
std::optional<BatchNormalized> try_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon);
// x · factor + shift, with one number each for an element of the last axis.
std::optional<Tensor> try_scale_shift(const Tensor& x, const Tensor& factor, const Tensor& shift);
// (x - mean) / √(variance + epsilon) · gamma + beta along the last axis; without `centered` the mean is taken for 0.
// gamma and beta may be undefined.
std::optional<Tensor> try_normalize_rows(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                                         bool centered);

// The same over all axes but the first, for each of `groups` equal groups of neighbours along the last axis; gamma and
// beta are [channels].
std::optional<Tensor> try_group_norm(const Tensor& x, std::int64_t groups, const Tensor& gamma, const Tensor& beta,
                                     double epsilon);

// "gelu", "gelu_tanh" (the approximate one), "silu", "relu", "leaky_relu" (alpha: the factor of values that are not
// positive), "relu6", "hard_sigmoid", "hard_silu".
std::optional<Tensor> try_unary(std::string_view name, const Tensor& x, double alpha = 0);

// A batch normalization over the last axis by fixed moments; gamma and beta may be undefined.
struct FixedNorm {
  Tensor gamma, beta, mean, variance;
  double epsilon = 0;
};

// What follows the operation that is called next on this thread: an activation of try_unary's (empty: none) after a
// batch normalization, or after a convolution with a fixed batch normalization. The operation may take it into its own
// pass, a convolution only where no gradients are recorded; taken() then returns whether the result is that of the last
// of them.
class ScopedFollower {
 public:
  ScopedFollower(std::string_view activation, double alpha);
  ScopedFollower(const FixedNorm& norm, std::string_view activation, double alpha);
  ~ScopedFollower();
  ScopedFollower(const ScopedFollower&) = delete;
  ScopedFollower& operator=(const ScopedFollower&) = delete;
  bool taken() const;
};

// x[begin:end] along the first axis of a dense value, which shares its memory.
std::optional<Tensor> try_rows(const Tensor& x, std::int64_t begin, std::int64_t end);

// Each entry of the axes first_axis, first_axis + 1, … so many times in a row.
std::optional<Tensor> try_repeat(const Tensor& x, int first_axis, std::span<const std::int64_t> times);

// While one lives, a max-pool right after a relu convolution of images with few channels shares one backward
// pass with it. Only for steps whose gradients are requested with respect to variables alone: there is then
// no gradient with respect to the convolution's output, and no second gradient. The forward pass is shared too where a
// ScopedPoolFollower announces the pool.
class ScopedPoolFusion {
 public:
  ScopedPoolFusion();
  ~ScopedPoolFusion();
  ScopedPoolFusion(const ScopedPoolFusion&) = delete;
  ScopedPoolFusion& operator=(const ScopedPoolFusion&) = delete;

 private:
  bool previous_;
};

// The max-pool of channels-last images that alone reads the result of the convolution that is called next on this
// thread. An announced pool that does not follow costs time only.
struct FollowingPool {
  std::int64_t window[2], strides[2];  // height, width
  bool same = false;                   // padding
};
class ScopedPoolFollower {
 public:
  explicit ScopedPoolFollower(const FollowingPool& pool);
  ~ScopedPoolFollower();
  ScopedPoolFollower(const ScopedPoolFollower&) = delete;
  ScopedPoolFollower& operator=(const ScopedPoolFollower&) = delete;
};

}  // namespace lockstep::ops
