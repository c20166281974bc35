// Weights in the layouts of Keras 1 and 2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/keras/models/model_impl.h"

namespace lockstep::saving {

// Who wrote a file of weights.
struct WeightsOrigin {
  int major = 3;                 // of Keras
  bool flipped_kernels = false;  // Theano's convolutions turn their kernels around
};
// The axis of a kernel of a layer, in the terms of Keras 3, that `axis` of the kernel of Keras 1 has become.
std::int64_t kernel_axis(std::string_view class_name, std::string_view data_format, std::int64_t axis);
WeightsOrigin weights_origin(std::string_view keras_version, std::string_view backend);

// Whether old_weights() has anything to do for weights of these shapes.
bool in_old_layout(const keras::Layer& layer, const std::vector<Shape>& shapes, const WeightsOrigin& origin);

// A layer's weights in the order and layout of the layer's: those trainable now, then the others. `saved` are those of
// the file in its order. Layers below it (of models, TimeDistributed, Bidirectional) are converted each.
//   - Keras 1: each gate has three weights in LSTM, GRU and ConvLSTM2D; kernels of channels-first layers begin
//     with the filters; those of Conv1D have four axes, those of Deconvolution2D the channels the other way round.
//   - Theano: kernels are flipped.
//   - cuDNN: gates of LSTM and GRU are transposed, biases are two.
std::vector<Tensor> old_weights(const keras::Layer& layer, std::vector<Tensor> saved, const WeightsOrigin& origin);

}  // namespace lockstep::saving
