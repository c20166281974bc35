// Shared by layers with windows over spatial axes.
#pragma once

#include <string>

#include "lockstep/keras/layers/configured_layer_internal.h"

namespace lockstep::keras {

// One entry for each of `rank` axes. Throws InvalidArgument, naming `who`, unless all are at least `least`.
void normalize_window(Window& window, int rank, std::int64_t least, const std::string& who);

// "channels_last" for empty; throws InvalidArgument for anything but the two formats.
void normalize_data_format(std::string& data_format, const std::string& who);

// Throws InvalidArgument unless `value` is one of `allowed`; lower-cases it first.
void normalize_choice(std::string& value, std::initializer_list<const char*> allowed, const std::string& who);

// Throws InvalidArgument where a window with `dilation` between its elements is larger than an axis of the input and
// the padding is "valid".
void require_place(const Shape& input, const std::string& data_format, const Ints& window, const Ints& dilation,
                   const std::string& padding, const std::string& who);

// (batch, channels, spatial…) to (batch, spatial…, channels) and back.
Tensor to_channels_last(const Tensor& x);
Tensor to_channels_first(const Tensor& x);

// x (batch, …) with `count` entries along an axis of n: entry i pools those from floor(i·n/count) to before
// ceil((i+1)·n/count). The extents but that of the batch must be known.
Tensor adaptive_pool(const Tensor& x, int axis, std::int64_t count, bool max);

// [batch of x, sizes…] as a shape vector; sizes are known numbers or int32 scalars.
Tensor shape_with_batch_of(const Tensor& x, const Tensors& sizes);

}  // namespace lockstep::keras
