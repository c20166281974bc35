#include "lockstep/saving/old_weights_internal.h"

#include <algorithm>
#include <iterator>

#include "lockstep/keras/layers/bias_add_internal.h"
#include "lockstep/ops/functions.h"

namespace lockstep::saving {
namespace {

using keras::Layer;
using keras::LayerPtr;

std::string argument_text(const Layer& layer, const char* key) {
  const Json value = layer.get_config().value(key, Json());
  return value.is_string() ? value.get<std::string>() : "";
}

// A convolution of Keras 1. Without a row its kernel has Keras 3's layout.
struct KernelRow {
  std::string_view class_name;
  std::string_view data_format;  // empty: any
  int rank;                      // of the saved kernel
  ops::Ints order;               // of the saved axes
};
const std::vector<KernelRow>& kernels_of_keras_1() {
  static const std::vector<KernelRow> rows = {
      {"Conv2D", "channels_first", 4, {2, 3, 1, 0}},         {"Conv3D", "channels_first", 5, {2, 3, 4, 1, 0}},
      {"ConvLSTM2D", "channels_first", 4, {2, 3, 1, 0}},     {"Conv2DTranspose", "channels_first", 4, {2, 3, 0, 1}},
      {"Conv2DTranspose", "channels_last", 4, {0, 1, 3, 2}}, {"SeparableConv2D", "channels_first", 4, {2, 3, 1, 0}},
  };
  return rows;
}

// Kernels of such a layer, from the first on.
int kernels_in(std::string_view class_name) {
  if (class_name == "ConvLSTM2D" || class_name == "SeparableConv2D") return 2;
  for (const char* name : {"Conv1D", "Conv2D", "Conv3D", "Conv2DTranspose"}) {
    if (class_name == name) return 1;
  }
  return 0;
}

Tensor kernel_of_keras_1(const Layer& layer, const Tensor& kernel) {
  const std::string class_name = layer.class_name();
  if (class_name == "Conv1D" && kernel.rank() == 4) {
    // (length, 1, channels, filters), or (filters, channels, length, 1) before 1.2
    const Json size = layer.get_config().at("kernel_size");
    const std::int64_t length = size.is_array() ? size[0].get<std::int64_t>() : size.get<std::int64_t>();
    const bool ours = kernel.dim(0) == length && kernel.dim(1) == 1;
    return ops::squeeze(ours ? kernel : ops::transpose(kernel, {2, 3, 1, 0}), {1});
  }
  for (const KernelRow& row : kernels_of_keras_1()) {
    if (row.class_name == class_name && row.rank == kernel.rank() &&
        (row.data_format.empty() || row.data_format == argument_text(layer, "data_format"))) {
      return ops::transpose(kernel, row.order);
    }
  }
  return kernel;
}

Tensor turned_around(const Tensor& kernel) {
  ops::Ints axes;
  for (int i = 0; i + 2 < kernel.rank(); ++i) axes.push_back(i);
  return ops::reverse(kernel, axes);
}

// Keras 1 saved the kernel, the recurrent kernel and the bias of each gate; `gates` are their positions in the order of
// Keras 3.
std::vector<Tensor> joined_gates(const std::vector<Tensor>& saved, const std::vector<std::size_t>& gates) {
  std::vector<Tensor> out;
  for (std::size_t part = 0; part < 3; ++part) {
    Tensors pieces;
    for (std::size_t gate : gates) pieces.push_back(saved[3 * gate + part]);
    out.push_back(ops::concat(pieces, pieces[0].rank() - 1));
  }
  return out;
}

struct GatesRow {
  std::string_view class_name;
  std::vector<std::size_t> gates;
};
const std::vector<GatesRow>& gates_of_keras_1() {
  static const std::vector<GatesRow> rows = {
      {"LSTM", {0, 2, 1, 3}}, {"ConvLSTM2D", {0, 2, 1, 3}}, {"GRU", {0, 1, 2}}};  // saved as i, c, f, o
  return rows;
}
const GatesRow* gates_row(const Layer& layer) {
  for (const GatesRow& row : gates_of_keras_1()) {
    if (row.class_name == layer.class_name()) return &row;
  }
  return nullptr;
}

// cuDNN: `gates` matrices in columns, of which each has the other order of elements in the same shape.
Tensor cudnn_kernel(const Tensor& kernel, int gates, bool recurrent) {
  Tensors out;
  for (const Tensor& gate : ops::split(kernel, gates, 1)) {
    const Tensor turned = recurrent ? gate : ops::reshape(gate, {gate.dim(1), gate.dim(0)});
    out.push_back(ops::transpose(turned, {1, 0}));
  }
  return ops::concat(out, 1);
}

bool has_cudnn_bias(const Layer& layer, const std::vector<Shape>& shapes) {
  const bool lstm = layer.class_name() == "LSTM", gru = layer.class_name() == "GRU";
  if ((!lstm && !gru) || shapes.size() != 3 || shapes[1].rank() != 2 || shapes[2].rank() != 1) return false;
  return shapes[2][0] == (lstm ? 8 : 6) * shapes[1][0];
}

std::vector<Tensor> from_cudnn(const Layer& layer, const std::vector<Tensor>& saved) {
  const bool lstm = layer.class_name() == "LSTM";
  const int gates = lstm ? 4 : 3;
  const Tensor halves = ops::reshape(saved[2], {2, gates * saved[1].dim(0)});
  return {cudnn_kernel(saved[0], gates, false), cudnn_kernel(saved[1], gates, true),
          lstm ? ops::reduce_sum(halves, ops::Ints{0}, false) : halves};
}

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.shape());
  return shapes;
}

// The layers whose weights a layer of layers has, in order; empty for all others.
std::vector<LayerPtr> parts_of(const Layer& layer) {
  const bool wrapper = layer.class_name() == "TimeDistributed" || layer.class_name() == "Bidirectional";
  if (!wrapper && !dynamic_cast<const keras::ModelImpl*>(&layer)) return {};
  return layer.sublayers();
}

std::vector<Tensor> leaf(const Layer& layer, std::vector<Tensor> saved, const WeightsOrigin& origin) {
  // With Theano, Keras itself flipped the kernels of separable convolutions.
  const bool flipped = origin.flipped_kernels && layer.class_name() != "SeparableConv2D";
  const auto convert = [&](Tensor& kernel) {
    if (origin.major == 1) kernel = kernel_of_keras_1(layer, kernel);
    if (flipped) kernel = turned_around(kernel);
  };
  const auto kernels = static_cast<std::size_t>(kernels_in(layer.class_name()));
  const GatesRow* row = origin.major == 1 ? gates_row(layer) : nullptr;
  const bool separate = row && saved.size() == 3 * row->gates.size();
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if ((separate ? i % 3 : i) < kernels) convert(saved[i]);
  }
  if (separate) saved = joined_gates(saved, row->gates);
  // Until 1.1 each matrix was followed by its bias.
  if (layer.class_name() == "Highway" && saved.size() == 4 && saved[1].rank() == 1) std::swap(saved[1], saved[2]);
  return has_cudnn_bias(layer, shapes_of(saved)) ? from_cudnn(layer, saved) : saved;
}

using Iterator = std::vector<Tensor>::iterator;

std::vector<Tensor> take(Iterator& from, Iterator end, std::size_t count) {
  count = std::min(count, static_cast<std::size_t>(end - from));
  std::vector<Tensor> out(std::make_move_iterator(from),
                          std::make_move_iterator(from + static_cast<std::ptrdiff_t>(count)));
  from += static_cast<std::ptrdiff_t>(count);
  return out;
}

// The number of Keras 1 weights that correspond to `ours` weights, where each gate may have its own.
std::size_t saved_count(const Layer& layer, std::size_t ours, bool separate_gates) {
  const std::vector<LayerPtr> parts = parts_of(layer);
  if (!parts.empty()) {
    std::size_t count = 0;
    for (const LayerPtr& part : parts) count += saved_count(*part, part->trainable_weights().size(), separate_gates);
    return count;
  }
  const GatesRow* row = separate_gates ? gates_row(layer) : nullptr;
  return row && ours == 3 ? 3 * row->gates.size() : ours;
}

}  // namespace

std::int64_t kernel_axis(std::string_view class_name, std::string_view data_format, std::int64_t axis) {
  if (class_name == "Conv1D") {  // (length, 1, channels, filters)
    const std::int64_t at = axis < 0 ? axis + 4 : axis;
    return at > 1 ? at - 1 : 0;
  }
  for (const KernelRow& row : kernels_of_keras_1()) {
    if (row.class_name != class_name || row.data_format != data_format) continue;
    const auto found = std::find(row.order.begin(), row.order.end(), axis < 0 ? axis + row.rank : axis);
    if (found != row.order.end()) return found - row.order.begin();
  }
  return axis;
}

WeightsOrigin weights_origin(std::string_view keras_version, std::string_view backend) {
  WeightsOrigin origin;
  origin.major = keras_version.starts_with("1") ? 1 : keras_version.starts_with("2") ? 2 : 3;
  origin.flipped_kernels = backend == "theano";
  return origin;
}

bool in_old_layout(const Layer& layer, const std::vector<Shape>& shapes, const WeightsOrigin& origin) {
  if (origin.major == 1 || origin.flipped_kernels) return true;
  if (origin.major == 3) return false;
  std::vector<Shape> ours;
  for (const auto& variable : layer.trainable_weights()) ours.push_back(variable->shape());
  for (const auto& variable : layer.non_trainable_weights()) ours.push_back(variable->shape());
  return ours != shapes;
}

std::vector<Tensor> old_weights(const Layer& layer, std::vector<Tensor> saved, const WeightsOrigin& origin) {
  const std::vector<LayerPtr> parts = parts_of(layer);
  if (parts.empty()) return leaf(layer, std::move(saved), origin);
  const std::size_t all = layer.non_trainable_weights().size();
  const std::size_t joined = saved_count(layer, 0, false);
  const bool separate = origin.major == 1 && saved.size() != joined + all;
  Iterator trainable = saved.begin();
  Iterator others = saved.begin() + static_cast<std::ptrdiff_t>(
                                        std::min(saved.size(), separate ? saved_count(layer, 0, true) : joined));
  const Iterator middle = others;
  std::vector<Tensor> out, out_others;
  for (const LayerPtr& part : parts) {
    const std::size_t ours = part->trainable_weights().size();
    std::vector<Tensor> own = take(trainable, middle, saved_count(*part, ours, separate));
    for (Tensor& other : take(others, saved.end(), part->non_trainable_weights().size()))
      own.push_back(std::move(other));
    own = old_weights(*part, std::move(own), origin);
    for (std::size_t i = 0; i < own.size(); ++i) (i < ours ? out : out_others).push_back(std::move(own[i]));
  }
  for (Tensor& other : out_others) out.push_back(std::move(other));
  return out;
}

}  // namespace lockstep::saving
