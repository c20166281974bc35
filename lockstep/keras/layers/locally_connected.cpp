// LocallyConnected1D and LocallyConnected2D of Keras 1 and 2, which Keras 3 does not have: convolutions with a kernel
// of its own for each place of the output. The kernel has one of three layouts:
//   implementation 1: [places, elements of a window, filters]; with the channels first, windows begin with the channels
//   implementation 2: [input…, channels, output…, filters], of which elements outside of windows are ignored
//   implementation 3: [n], the elements inside of windows in the order of [output…, filters, input…, channels]
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "lockstep/keras/layers/convolution_internal.h"
#include "lockstep/keras/layers/families_internal.h"
#include "lockstep/keras/layers/weight_fields_internal.h"

namespace lockstep::keras {
namespace {

using namespace layers;

struct LocallyConnectedOptions {
  std::int64_t filters = 0;
  Window kernel_size = {};
  Window strides = 1;
  std::string padding = "valid";
  std::string data_format = {};
  ActivationArg activation = {};
  bool use_bias = true;
  InitializerArg kernel_initializer = "glorot_uniform";
  InitializerArg bias_initializer = "zeros";
  RegularizerArg kernel_regularizer = {};
  RegularizerArg bias_regularizer = {};
  RegularizerArg activity_regularizer = {};
  ConstraintArg kernel_constraint = {};
  ConstraintArg bias_constraint = {};
  std::int64_t implementation = 1;
  std::string name = {};
  bool trainable = true;
  DTypePolicy dtype = {};
};

std::int64_t product(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Coordinates of the place with this number.
Ints place(std::int64_t number, const Ints& sizes) {
  Ints out(sizes.size());
  for (std::size_t i = sizes.size(); i-- > 0; number /= sizes[i]) out[i] = number % sizes[i];
  return out;
}

template <typename Derived, int kRank>
class LocallyConnected : public ConfiguredLayer<Derived, LocallyConnectedOptions> {
 public:
  template <typename V>
  static void fields(V& v, LocallyConnectedOptions& o) {
    v("filters", o.filters, Field::kRequired);
    v("kernel_size", o.kernel_size, Field::kRequired);
    v("strides", o.strides);
    v("padding", o.padding);
    v("data_format", DataFormat{o.data_format});
    v("activation", o.activation);
    v("use_bias", o.use_bias);
    kernel_and_bias_fields(v, o);
    v("implementation", o.implementation);
  }
  explicit LocallyConnected(LocallyConnectedOptions options)
      : ConfiguredLayer<Derived, LocallyConnectedOptions>(std::move(options)) {
    auto& o = this->options_;
    normalize_window(o.kernel_size, kRank, 1, who() + ": kernel_size");
    normalize_window(o.strides, kRank, 1, who() + ": strides");
    normalize_choice(o.padding, {"valid", "same"}, who() + ": padding");
    normalize_data_format(o.data_format, who() + ": data_format");
    if (o.implementation < 1 || o.implementation > 3)
      throw_invalid_argument(fmt::format("{}: implementation is {}, expected 1, 2 or 3", who(), o.implementation));
    if (o.implementation == 1 && o.padding != "valid")
      throw_invalid_argument(fmt::format("{}: padding \"same\" requires implementation 2 or 3", who()));
    if (o.implementation != 1 && first())
      throw_unimplemented(fmt::format("{}: data_format channels_first requires implementation 1", who()));
    if (o.filters < 1) throw_invalid_argument(fmt::format("{}: filters {} must be at least 1", who(), o.filters));
  }

  void build(const Nested<Shape>& shapes) override {
    const auto& o = this->options_;
    const Shape& shape = shapes.leaf();
    channels_ = channels_of(shape, kRank, o.data_format, who());
    input_.clear();
    output_.clear();
    for (int i = 0; i < kRank; ++i) {
      const std::int64_t size = shape[(first() ? 2 : 1) + i];
      const std::int64_t window = o.kernel_size.values[static_cast<std::size_t>(i)];
      const std::int64_t stride = o.strides.values[static_cast<std::size_t>(i)];
      if (size == kUnknownDim || (o.padding == "valid" && size < window))
        throw_invalid_argument(
            fmt::format("{}: input {} must have known sizes, at least those of the kernel", who(), shape.to_string()));
      input_.push_back(size);
      output_.push_back(o.padding == "valid" ? (size - window) / stride + 1 : (size + stride - 1) / stride);
    }
    kernel_ = this->add_weight({.shape = Shape(kernel_shape()),
                                .initializer = o.kernel_initializer.object(),
                                .regularizer = o.kernel_regularizer.object(),
                                .constraint = o.kernel_constraint.object(),
                                .name = "kernel"});
    if (!o.use_bias) return;
    Shape bias(output_);
    bias.push_back(o.filters);
    bias_ = this->add_weight({.shape = bias,
                              .initializer = o.bias_initializer.object(),
                              .regularizer = o.bias_regularizer.object(),
                              .constraint = o.bias_constraint.object(),
                              .name = "bias"});
  }

  Structure call(const Structure& inputs, const CallContext&) override {
    const auto& o = this->options_;
    Tensor x = inputs.leaf();
    if (first()) x = ops::transpose(x, kRank == 1 ? Ints{0, 2, 1} : Ints{0, 2, 3, 1});
    Tensor y = o.implementation == 1 ? by_windows(x) : by_matrix(x);
    Ints shape = {-1};
    shape.insert(shape.end(), output_.begin(), output_.end());
    shape.push_back(o.filters);
    y = ops::reshape(y, shape);
    if (first()) y = ops::transpose(y, kRank == 1 ? Ints{0, 2, 1} : Ints{0, 3, 1, 2});
    if (bias_) y = y + bias();
    if (const auto activation = o.activation.object()) y = (*activation)(y);
    return y;
  }

 private:
  std::string who() const { return fmt::format("{} '{}'", Derived::kClass, this->name()); }
  bool first() const { return this->options_.data_format == "channels_first"; }

  // [output…, filters]; with the channels first, Keras reads its elements as [filters, output…].
  Tensor bias() const {
    if (!first()) return this->value(bias_);
    Ints shape = {this->options_.filters};
    shape.insert(shape.end(), output_.begin(), output_.end());
    return ops::reshape(this->value(bias_), shape);
  }

  // Where the windows of an output's row or column begin and end.
  std::pair<std::int64_t, std::int64_t> window(std::size_t axis, std::int64_t at) const {
    const auto& o = this->options_;
    const std::int64_t size = o.kernel_size.values[axis], before = size / 2;
    const std::int64_t centre = at * o.strides.values[axis] + (o.padding == "valid" ? before : 0);
    return {std::max<std::int64_t>(0, centre - before), std::min(input_[axis], centre + size - before)};
  }
  bool connected(const Ints& in, const Ints& out) const {
    for (std::size_t i = 0; i < in.size(); ++i) {
      const auto [begin, end] = window(i, out[i]);
      if (in[i] < begin || in[i] >= end) return false;
    }
    return true;
  }

  Ints kernel_shape() const {
    const auto& o = this->options_;
    if (o.implementation == 1) return {product(output_), product(o.kernel_size.values) * channels_, o.filters};
    if (o.implementation == 3) {
      std::int64_t pairs = 0;
      for (std::int64_t out = 0; out < product(output_); ++out) {
        std::int64_t elements = 1;
        const Ints at = place(out, output_);
        for (std::size_t i = 0; i < at.size(); ++i) elements *= window(i, at[i]).second - window(i, at[i]).first;
        pairs += elements;
      }
      return {pairs * channels_ * o.filters};
    }
    Ints shape = input_;
    shape.push_back(channels_);
    shape.insert(shape.end(), output_.begin(), output_.end());
    shape.push_back(o.filters);
    return shape;
  }

  // Rows (columns) of each window along an axis.
  Tensor indices(std::size_t axis) const {
    std::vector<std::int32_t> all;
    for (std::int64_t out = 0; out < output_[axis]; ++out) {
      const auto [begin, end] = window(axis, out);
      for (std::int64_t in = begin; in < end; ++in) all.push_back(static_cast<std::int32_t>(in));
    }
    return Tensor::from_vector(all, Shape({output_[axis], this->options_.kernel_size.values[axis]}));
  }

  Tensor by_windows(const Tensor& x) const {
    Tensor windows = ops::gather(x, indices(0), 1);  // batch, places, window, …, channels
    if constexpr (kRank == 2) {
      windows = ops::gather(windows, indices(1), 3);
      windows = ops::transpose(windows, first() ? Ints{0, 1, 3, 5, 2, 4} : Ints{0, 1, 3, 2, 4, 5});
    } else if (first()) {
      windows = ops::transpose(windows, {0, 1, 3, 2});
    }
    windows = ops::reshape(windows, {-1, product(output_), product(this->options_.kernel_size.values) * channels_});
    return ops::einsum("bpe,pef->bpf", {windows, this->value(kernel_)});
  }

  Tensor by_matrix(const Tensor& x) const {
    const auto& o = this->options_;
    const std::int64_t in = product(input_), out = product(output_);
    const Tensor flat = ops::reshape(x, {-1, in * channels_});
    if (o.implementation == 2) {
      std::vector<float> mask(static_cast<std::size_t>(in * out));
      for (std::int64_t i = 0; i < in; ++i) {
        for (std::int64_t k = 0; k < out; ++k)
          mask[static_cast<std::size_t>(i * out + k)] = connected(place(i, input_), place(k, output_)) ? 1.0F : 0.0F;
      }
      const Tensor kernel = ops::reshape(this->value(kernel_), {in, channels_, out, o.filters});
      const Tensor kept = kernel * ops::cast(Tensor::from_vector(mask, Shape({in, 1, out, 1})), kernel.dtype());
      return ops::matmul(flat, ops::reshape(kept, {in * channels_, out * o.filters}));
    }
    // Element n, behind the last one, is zero.
    const std::int64_t zero = kernel_->shape()[0];
    std::vector<std::int32_t> from;
    std::int32_t next = 0;
    for (std::int64_t k = 0; k < out; ++k) {
      for (std::int64_t f = 0; f < o.filters; ++f) {
        for (std::int64_t i = 0; i < in; ++i) {
          const bool inside = connected(place(i, input_), place(k, output_));
          for (std::int64_t c = 0; c < channels_; ++c)
            from.push_back(inside ? next++ : static_cast<std::int32_t>(zero));
        }
      }
    }
    const Tensor kernel = this->value(kernel_);
    const Tensor padded = ops::concat({kernel, ops::zeros({1}, kernel.dtype())}, 0);
    const Tensor dense = ops::gather(padded, Tensor::from_vector(from, Shape({out * o.filters, in * channels_})), 0);
    return ops::matmul(flat, dense, false, true);
  }

  VariablePtr kernel_, bias_;
  Ints input_, output_;
  std::int64_t channels_ = 0;
};

class LocallyConnected1DLayer : public LocallyConnected<LocallyConnected1DLayer, 1> {
 public:
  static constexpr const char* kClass = "LocallyConnected1D";
  using LocallyConnected::LocallyConnected;
};
class LocallyConnected2DLayer : public LocallyConnected<LocallyConnected2DLayer, 2> {
 public:
  static constexpr const char* kClass = "LocallyConnected2D";
  using LocallyConnected::LocallyConnected;
};

}  // namespace

void register_locally_connected_layers(ClassTable& registry) {
  registry.add(layer_row<LocallyConnected1DLayer>());
  registry.add(layer_row<LocallyConnected2DLayer>());
}

}  // namespace lockstep::keras
