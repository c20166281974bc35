// keras.ops.nn: windows that move over images, attention, and connectionist temporal classification
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/keras/layers/tensor_op_rows_internal.h"
#include "lockstep/keras/layers/windows_internal.h"
#include "lockstep/keras/losses/ctc.h"

namespace lockstep::keras::tensor_ops {

ops::Ints per_axis(const Json& value, int rank, std::string_view what) {
  ops::Ints out = int_list(value, what);
  if (out.size() == 1) out.resize(static_cast<std::size_t>(rank), out[0]);
  if (static_cast<int>(out.size()) != rank)
    bad(fmt::format("{} is {}, expected {} integers", what, dump_json(value), rank));
  return out;
}

std::string_view padding_of(const Json& config) {
  const Json padding = get(config, "padding", "valid");
  if (padding == "valid") return "VALID";
  if (padding == "same") return "SAME";
  bad(fmt::format("padding is {}, expected \"valid\" or \"same\"", dump_json(padding)));
}

Tensor on_channels_last(const Tensor& x, const Json& config, int least_rank, int most_rank, bool single,
                        const std::function<Tensor(const Tensor&)>& run) {
  const Json format = get(config, "data_format");
  if (!format.is_null() && format != "channels_last" && format != "channels_first")
    bad(fmt::format("data_format is {}, expected \"channels_last\" or \"channels_first\"", dump_json(format)));
  const bool alone = single && x.rank() == least_rank - 1, first = format == "channels_first";
  if (!alone && (x.rank() < least_rank || x.rank() > most_rank))
    bad(fmt::format("found shape {}, expected {} to {} axes", x.shape().to_string(),
                    single ? least_rank - 1 : least_rank, most_rank));
  const Tensor batch = alone ? ops::expand_dims(x, 0) : x;
  Tensor y = run(first ? to_channels_last(batch) : batch);
  if (first) y = to_channels_first(y);
  return alone ? ops::squeeze(y, {0}) : y;
}

namespace {

// Images of one axis as images of two, of height 1.
struct Spatial {
  Tensor x;
  int rank = 2;  // of spatial axes: 1, 2 or 3

  explicit Spatial(const Tensor& given)
      : x(given.rank() == 3 ? ops::expand_dims(given, 1) : given), rank(given.rank() - 2) {}
  Tensor back(const Tensor& y) const { return rank == 1 ? ops::squeeze(y, {1}) : y; }
  Tensor kernel(const Tensor& k) const { return rank == 1 ? ops::expand_dims(k, 0) : k; }
  ops::Ints sizes(ops::Ints given) const {
    if (rank == 1) given.insert(given.begin(), 1);
    return given;
  }
};

Run pool(bool max) {
  return [max](const CallArguments& call, const Json& config) {
    return Structure(
        on_channels_last(floating_operand(call, 0, "inputs"), config, 3, 5, false, [&](const Tensor& given) {
          const Spatial images(given);
          const Json size = get(config, "pool_size"), strides = get(config, "strides");
          const ops::PoolOptions options = {
              .size = images.sizes(per_axis(size, images.rank, "pool_size")),
              .strides = images.sizes(per_axis(strides.is_null() ? size : strides, images.rank, "strides")),
              .padding = padding_of(config),
              .data_format = images.rank == 3 ? "NDHWC" : "NHWC"};
          if (images.rank == 3) return max ? ops::max_pool3d(given, options) : ops::avg_pool3d(given, options);
          return images.back(max ? ops::max_pool(images.x, options) : ops::avg_pool(images.x, options));
        }));
  };
}

Run adaptive(bool max) {
  return [max](const CallArguments& call, const Json& config) {
    return Structure(
        on_channels_last(floating_operand(call, 0, "inputs"), config, 3, 5, false, [&](const Tensor& given) {
          const int rank = given.rank() - 2;
          const ops::Ints sizes = per_axis(get(config, "output_size"), rank, "output_size");
          for (int axis = 1; axis < rank + 2; ++axis) extent(given, axis, "an adaptive pool");
          Tensor y = given;
          for (int axis = 1; axis <= rank; ++axis) {
            const std::int64_t size = sizes[static_cast<std::size_t>(axis - 1)];
            if (size < 1 || size > 1 << 20)
              bad(fmt::format("output_size is {}", dump_json(get(config, "output_size"))));
            y = adaptive_pool(y, axis, size, max);
          }
          return y;
        }));
  };
}

enum class Convolution { kPlain, kDepthwise, kSeparable };

Run convolution(Convolution kind) {
  return [kind](const CallArguments& call, const Json& config) {
    return Structure(
        on_channels_last(floating_operand(call, 0, "inputs"), config, 3, 5, false, [&](const Tensor& given) {
          const Spatial images(given);
          const bool named = call.find("depthwise_kernel") != nullptr;
          const Tensor kernel = floating_operand(call, 1, named ? "depthwise_kernel" : "kernel");
          ops::ConvOptions options = {
              .strides = images.sizes(per_axis(get(config, "strides", 1), images.rank, "strides")),
              .padding = padding_of(config),
              .dilations = images.sizes(per_axis(get(config, "dilation_rate", 1), images.rank, "dilation_rate"))};
          if (images.rank == 3) {
            if (kind != Convolution::kPlain) bad("depthwise convolutions of three spatial axes are not supported");
            options.data_format = "NDHWC";
            return ops::conv3d(given, kernel, options);
          }
          if (kind == Convolution::kPlain) return images.back(ops::conv2d(images.x, images.kernel(kernel), options));
          Tensor y = ops::depthwise_conv2d(images.x, images.kernel(kernel), options);
          if (kind == Convolution::kSeparable)
            y = ops::conv2d(y, images.kernel(floating_operand(call, 2, "pointwise_kernel")));
          return images.back(y);
        }));
  };
}

// The output's extent of one axis is n · stride + extra.
std::int64_t transposed_extra(std::int64_t kernel, std::int64_t stride, bool same, const Json& output_padding,
                              std::size_t axis) {
  if (output_padding.is_null()) return same ? 0 : std::max<std::int64_t>(kernel - stride, 0);
  const Json own = output_padding.is_array() ? output_padding.at(axis) : output_padding;
  return kernel - stride - 2 * (same ? kernel / 2 : 0) + own.get<std::int64_t>();
}

Structure transposed_convolution(const CallArguments& call, const Json& config) {
  return on_channels_last(floating_operand(call, 0, "inputs"), config, 3, 4, false, [&](const Tensor& given) {
    const Spatial images(given);
    const Tensor kernel = images.kernel(floating_operand(call, 1, "kernel"));
    const ops::Ints strides = per_axis(get(config, "strides", 1), images.rank, "strides");
    const ops::Ints dilations = per_axis(get(config, "dilation_rate", 1), images.rank, "dilation_rate");
    const bool same = padding_of(config) == "SAME";
    Tensors sizes = {ops::dim_of(images.x, 0)};
    if (images.rank == 1) sizes.push_back(Tensor::scalar(std::int32_t{1}));
    for (int i = 0; i < images.rank; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const int axis = i + (images.rank == 1 ? 1 : 0);
      const std::int64_t span = (kernel.dim(axis) - 1) * dilations[at] + 1;
      const std::int64_t extra = transposed_extra(span, strides[at], same, get(config, "output_padding"), at);
      sizes.push_back(ops::dim_of(images.x, axis + 1) * Tensor::scalar(static_cast<std::int32_t>(strides[at])) +
                      Tensor::scalar(static_cast<std::int32_t>(extra)));
    }
    sizes.push_back(Tensor::scalar(static_cast<std::int32_t>(kernel.dim(2))));
    return images.back(ops::conv2d_transpose(
        images.x, kernel, ops::stack(sizes),
        {.strides = images.sizes(strides), .padding = padding_of(config), .dilations = images.sizes(dilations)}));
  });
}

// ---- columns of patches, with the channels first ------------------------------------------------------------------
struct Patches {
  ops::Ints size, dilation, padding, stride;
  explicit Patches(const Json& config)
      : size(per_axis(get(config, "kernel_size"), 2, "kernel_size")),
        dilation(per_axis(get(config, "dilation", 1), 2, "dilation")),
        padding(per_axis(get(config, "padding", 0), 2, "padding")),
        stride(per_axis(get(config, "stride", 1), 2, "stride")) {
    for (const ops::Ints* each : {&size, &dilation, &stride}) {
      for (const std::int64_t n : *each) {
        if (n < 1 || n > 1 << 20)
          bad(fmt::format("Unfold and Fold require positive sizes, found {}", dump_json(config)));
      }
    }
  }
};

Structure unfold(const CallArguments& call, const Json& config) {
  const Patches p(config);
  const Tensor x = tensor_operand(call);
  if (x.rank() != 4)
    bad(fmt::format("Unfold: found shape {}, expected (batch, channels, height, width)", x.shape().to_string()));
  const std::int64_t channels = extent(x, 1, "Unfold");
  const Tensor padded = ops::pad(x, {{0, 0}, {0, 0}, {p.padding[0], p.padding[0]}, {p.padding[1], p.padding[1]}});
  const Tensor patches = ops::call1("ExtractImagePatches", {ops::transpose(padded, {0, 2, 3, 1})},
                                    {{"ksizes", ops::Ints{1, p.size[0], p.size[1], 1}},
                                     {"strides", ops::Ints{1, p.stride[0], p.stride[1], 1}},
                                     {"rates", ops::Ints{1, p.dilation[0], p.dilation[1], 1}},
                                     {"padding", std::string("VALID")}});
  const std::int64_t rows = extent(patches, 1, "Unfold"), columns = extent(patches, 2, "Unfold");
  const Tensor apart = ops::reshape(patches, {-1, rows, columns, p.size[0] * p.size[1], channels});
  return ops::reshape(ops::transpose(apart, {0, 4, 3, 1, 2}), {-1, channels * p.size[0] * p.size[1], rows * columns});
}

// Patches added where they overlap.
Structure fold(const CallArguments& call, const Json& config) {
  const Patches p(config);
  const Tensor x = tensor_operand(call);
  if (x.rank() != 3)
    bad(fmt::format("Fold: found shape {}, expected (batch, columns, patches)", x.shape().to_string()));
  const ops::Ints out = per_axis(get(config, "output_size"), 2, "output_size");
  const auto count = [&](std::size_t i) {
    return (out[i] + 2 * p.padding[i] - p.dilation[i] * (p.size[i] - 1) - 1) / p.stride[i] + 1;
  };
  const std::int64_t rows = count(0), columns = count(1), window = p.size[0] * p.size[1];
  const std::int64_t height = out[0] + 2 * p.padding[0], width = out[1] + 2 * p.padding[1];
  const std::int64_t channels = extent(x, 1, "Fold") / window;
  if (rows < 1 || columns < 1 || height * width > 1 << 26 || channels * window != x.dim(1))
    bad(fmt::format("Fold: shape {} does not fit {}", x.shape().to_string(), dump_json(config)));
  std::vector<std::int32_t> places;
  for (std::int64_t k = 0; k < window * rows * columns; ++k) {
    const std::int64_t column = k % columns, row = k / columns % rows, j = k / columns / rows;
    const std::int64_t y = row * p.stride[0] + j / p.size[1] * p.dilation[0];
    places.push_back(static_cast<std::int32_t>(y * width + column * p.stride[1] + j % p.size[1] * p.dilation[1]));
  }
  const Tensor entries = ops::transpose(ops::reshape(x, {-1, channels, window * rows * columns}), {2, 0, 1});
  const Tensor sums = ops::unsorted_segment_sum(entries, Tensor::from_vector(places), height * width);
  const Tensor whole = ops::reshape(ops::transpose(sums, {1, 2, 0}), {-1, channels, height, width});
  return ops::slice(whole, {0, 0, p.padding[0], p.padding[1]}, {-1, -1, out[0], out[1]});
}

// ---- attention ---------------------------------------------------------------------------------------------------
// query (batch, steps, heads, features), key and value (batch, other steps, heads or a divisor of them, features).
Structure dot_product_attention(const CallArguments& call, const Json& config) {
  const Tensor query = floating_operand(call, 0, "query");
  Tensor key = floating_operand(call, 1, "key"), value = floating_operand(call, 2, "value");
  for (const Tensor* each : std::initializer_list<const Tensor*>{&query, &key, &value}) {
    if (each->rank() != 4)
      bad(fmt::format("DotProductAttention: found shape {}, expected 4 axes", each->shape().to_string()));
  }
  const std::int64_t heads = query.dim(2), groups = key.dim(2);
  if (heads > groups && groups > 1) {
    std::vector<std::int32_t> of_head;
    for (std::int64_t i = 0; i < heads / groups * groups; ++i)
      of_head.push_back(static_cast<std::int32_t>(i / (heads / groups)));
    const Tensor places = Tensor::from_vector(of_head);
    key = ops::gather(key, places, 2);
    value = ops::gather(value, places, 2);
  }
  const DType wide = query.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  Tensor logits = ops::cast(ops::einsum("BTNH,BSNH->BNTS", {query, key}), wide);
  if (is_given(call, 5, "scale")) {
    logits = logits * ops::cast(tensor_operand(call, 5, "scale"), wide);
  } else {
    logits = logits * (1.0 / std::sqrt(static_cast<double>(extent(key, 3, "DotProductAttention"))));
  }
  if (is_given(call, 3, "bias")) logits = logits + ops::cast(tensor_operand(call, 3, "bias"), wide);
  Tensor allowed;
  if (is_given(call, 4, "mask")) allowed = logical(tensor_operand(call, 4, "mask"));
  if (get(config, "is_causal", false) == true) {
    const auto places = [&](int axis) {
      return ops::range(Tensor::scalar(std::int32_t{0}), ops::dim_of(logits, axis), Tensor::scalar(std::int32_t{1}));
    };
    const Tensor past = ops::less_equal(ops::expand_dims(places(3), 0), ops::expand_dims(places(2), 1));
    allowed = allowed.defined() ? ops::logical_and(allowed, past) : past;
  }
  if (allowed.defined()) logits = ops::where(allowed, logits, ops::zeros_like(logits) - 0.7 * 3.38953e38);
  return ops::einsum("BNTS,BSNH->BTNH", {ops::cast(ops::softmax(logits), key.dtype()), value});
}

// ---- connectionist temporal classification -----------------------------------------------------------------------
Tensor dense_paths(const Tensor& indices, const Tensor& values, const Tensor& samples, const Tensor& steps) {
  const Tensor shape = ops::cast(ops::stack({samples, steps}), DType::kInt64);
  return ops::cast(ops::call1("SparseToDense", {indices, shape, values, Tensor::scalar(std::int64_t{-1})}),
                   DType::kInt32);
}

Structure ctc_decode(const CallArguments& call, const Json& config) {
  const Tensor given = floating_operand(call, 0, "inputs");
  const Tensor lengths = ops::cast(tensor_operand(call, 1, "sequence_lengths"), DType::kInt32);
  if (given.rank() != 3) bad(fmt::format("CTCDecode: found shape {}, expected 3 axes", given.shape().to_string()));
  const Tensor samples = ops::dim_of(given, 0), steps = ops::dim_of(given, 1);
  const Tensor x = ops::transpose(given, {1, 0, 2});
  const std::int64_t classes = extent(given, 2, "CTCDecode");
  const Json mask = get(config, "mask_index", 0);
  const std::int64_t blank = mask.is_null() ? classes - 1 : mask.get<std::int64_t>();
  const std::int64_t place = blank < 0 ? blank + classes : blank;
  if (place < 0 || place >= classes) bad(fmt::format("mask_index is {} of {} classes", blank, classes));
  const bool merge = get(config, "merge_repeated", true).get<bool>();
  if (get(config, "strategy", "greedy") == "greedy") {
    const Tensors found =
        ops::call("CTCGreedyDecoder", {x, lengths}, {{"merge_repeated", merge}, {"blank_index", place}});
    return Structure::list({ops::expand_dims(dense_paths(found[0], found[1], samples, steps), 0), found[3]});
  }
  if (get(config, "strategy") != "beam_search")
    bad(fmt::format("strategy is {}, expected \"greedy\" or \"beam_search\"", dump_json(get(config, "strategy"))));
  // TensorFlow's operation has the blank as its last class.
  const Tensor ordered = ops::concat({ops::slice_axis(x, 2, 0, place), ops::slice_axis(x, 2, place + 1, std::nullopt),
                                      ops::slice_axis(x, 2, place, place + 1)},
                                     2);
  const std::int64_t paths = get(config, "top_paths", 1).get<std::int64_t>();
  const Tensors found = ops::call("CTCBeamSearchDecoder", {ordered, lengths},
                                  {{"beam_width", get(config, "beam_width", 100).get<std::int64_t>()},
                                   {"top_paths", paths},
                                   {"merge_repeated", false}});
  Tensors decoded;
  for (std::int64_t i = 0; i < paths; ++i) {
    const auto at = static_cast<std::size_t>(i), n = static_cast<std::size_t>(paths);
    decoded.push_back(dense_paths(found[at], found[n + at], samples, steps));
  }
  Tensor labels = ops::stack(decoded, 0);
  if (!mask.is_null()) {
    const Tensor moved = labels + Tensor::scalar(std::int32_t{1});
    labels = ops::where(ops::greater_equal(labels, static_cast<double>(place)), moved, labels);
  }
  return Structure::list({labels, found.back()});
}

}  // namespace

void add_windows(Rows& rows) {
  const auto row = [&](const char* name, Run run) { rows[name] = {name, "keras.src.ops.nn", std::move(run)}; };
  row("MaxPool", pool(true));
  row("AveragePool", pool(false));
  row("AdaptiveMaxPool", adaptive(true));
  row("AdaptiveAveragePool", adaptive(false));
  row("Conv", convolution(Convolution::kPlain));
  row("DepthwiseConv", convolution(Convolution::kDepthwise));
  row("SeparableConv", convolution(Convolution::kSeparable));
  row("ConvTranspose", transposed_convolution);
  row("Unfold", unfold);
  row("Fold", fold);
  row("DotProductAttention", dot_product_attention);
  row("CTCLoss", [](const CallArguments& call, const Json& config) {
    const auto lengths = [&](std::size_t index, const char* keyword) {
      return ops::cast(tensor_operand(call, index, keyword), DType::kInt32);
    };
    return Structure(losses::ctc_of_lengths(
        ops::cast(tensor_operand(call, 0, "target"), DType::kInt32), floating_operand(call, 1, "output"),
        lengths(2, "target_length"), lengths(3, "output_length"), get(config, "mask_index", 0).get<std::int64_t>()));
  });
  row("CTCDecode", ctc_decode);
  for (const char* name : {"DepthToSpace", "SpaceToDepth"}) {
    row(name, [name](const CallArguments& call, const Json& config) {
      return Structure(on_channels_last(tensor_operand(call), config, 4, 4, false, [&](const Tensor& x) {
        return ops::call1(name, {x}, {{"block_size", get(config, "block_size").get<std::int64_t>()}});
      }));
    });
  }
}

}  // namespace lockstep::keras::tensor_ops
