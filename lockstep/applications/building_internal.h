// Shared by the builders of architectures.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "lockstep/applications/applications.h"
#include "lockstep/base/error.h"
#include "lockstep/keras/layers/application_layers.h"
#include "lockstep/keras/layers/layers.h"

namespace lockstep::applications {

using Window = keras::Window;

// The arguments that all architectures have, of any of their option structs.
template <typename Options>
ApplicationOptions common_of(const Options& o) {
  return {.include_top = o.include_top,
          .weights = o.weights,
          .input_shape = o.input_shape,
          .pooling = o.pooling,
          .classes = o.classes,
          .classifier_activation = o.classifier_activation,
          .name = o.name};
}

// The input of an architecture; checks the common arguments. `default_size` is the height and width where none are
// given; kUnknownDim: with its top, too, it takes images of any size.
Tensor start(const std::string& architecture, const ApplicationOptions& options, std::int64_t default_size,
             std::int64_t least_size);
// The model from the input to the output, with the weights of the file where one is given.
keras::Model finish(const Tensor& input, const Tensor& output, const ApplicationOptions& options,
                    const std::string& default_name);

// Names of layers; empty ones are numbered by class.
struct TopNames {
  std::string average = {}, average_without_top = {}, max = {};
};
// "avg_pool" and "max_pool".
TopNames pool_names();
// The mean over the image and the classifier; without top, the pooling that was chosen.
Tensor classify(Tensor x, const ApplicationOptions& options, const TopNames& names, layers::DenseOptions dense = {});
Tensor pooled(const Tensor& x, const ApplicationOptions& options, const std::string& average, const std::string& max);

Tensor conv(const Tensor& x, std::int64_t filters, Window kernel, layers::ConvOptions options);
Tensor batch_norm(const Tensor& x, const std::string& name, layers::BatchNormalizationOptions options = {.axis = 3});
Tensor act(const Tensor& x, activations::ActivationArg activation, const std::string& name = {});
Tensor pad(const Tensor& x, Json padding, const std::string& name = {});
// The padding before a convolution with stride 2 that is "valid", so that it equals "same".
Json correct_pad(const Tensor& x, std::int64_t kernel);
// The nearest multiple of `divisor`, at least `divisor` and not less than nine tenths of v.
std::int64_t divisible(double v, std::int64_t divisor = 8);

}  // namespace lockstep::applications
