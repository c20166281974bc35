#include "lockstep/saving/old_config_table_internal.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/keras/layers/old_layers_internal.h"

namespace lockstep::saving {
namespace {

std::string name_of(const Json& config) {
  const auto name = config.find("name");
  return name != config.end() && name->is_string() ? name->get<std::string>() : "";
}

// "th" and "tf" name the backends whose order it was.
Json data_format(const Json& value) {
  if (value == Json("th")) return "channels_first";
  if (value == Json("tf")) return "channels_last";
  return value == Json("default") ? Json(nullptr) : value;
}

Json is_one(const Json& value) { return value == Json("one") || value == Json("ones"); }

// [rows, columns], [top, bottom, left, right], or a dictionary of these four.
Json padding_2d(const Json& value) {
  if (value.is_object()) {
    const auto get = [&](const char* key) { return value.value(key, Json(0)); };
    return Json::array(
        {Json::array({get("top_pad"), get("bottom_pad")}), Json::array({get("left_pad"), get("right_pad")})});
  }
  if (!value.is_array() || value.size() != 4) return value;
  return Json::array({Json::array({value[0], value[1]}), Json::array({value[2], value[3]})});
}

Json padding_1d(const Json& value) {
  if (!value.is_object()) return value;
  return Json::array({value.value("left_pad", Json(0)), value.value("right_pad", Json(0))});
}

// Scripts of Keras 1 passed on command line arguments as they were.
Json number_of_text(const Json& value) {
  if (!value.is_string()) return value;
  const std::string& text = value.text();
  double found = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), found);
  return error == std::errc() && end == text.data() + text.size() ? Json(found) : value;
}

// Words were left out as a whole in training; prediction is the same.
Json dropped_words(const Json& value) {
  if (value.is_number() && value.get<double>() != 0)
    log_warning("Keras 1 left out whole words in training (dropout {} of an Embedding); Keras 3 has no such argument",
                value.get<double>());
  return value;
}

// Keras 2.0 gave an Embedding the dtype of its indices, but its weights were floats.
Json dtype_of_embeddings(const Json& value) {
  const std::string name = value.is_string() ? value.get<std::string>() : "";
  return name.starts_with("int") || name.starts_with("uint") ? Json("float32") : value;
}

// Keras 1 adds the regularizer of a whole batch to the loss; later versions divide it by the number of samples.
Json sum_over_the_batch(const Json& value) {
  const auto has = [&](const char* key) {
    const Json factor = value.is_object() ? value.value(key, Json()) : value;
    return factor.is_number() && factor.get<double>() != 0;
  };
  if (has("l1") || has("l2"))
    log_warning("Keras 1 adds a regularizer of activities to the loss as it is; it is divided by the batch size here");
  return value;
}

// Whose statistics for mode 0 are not those of a fused operation.
void change_batch_normalization(Json& object) {
  Json& config = object["config"];
  if (config.value("mode", Json(0)) == Json(0)) {
    config.erase("mode");
    config["fused_statistics"] = false;
  } else {
    object["class_name"] = keras::kBatchNormalizationWithMode;
  }
}

// Keras 1 names the whole shape, of which the padding follows: n of `n = (inputs - 1) * stride + …` is known modulo
// the stride.
void change_deconvolution(Json& object) {
  Json& config = object["config"];
  const Json shape = config.value("output_shape", Json());
  config.erase("output_shape");
  const Json strides = config.value("strides", Json()), kernel = config.value("kernel_size", Json());
  if (!shape.is_array() || shape.size() != 4 || !strides.is_array() || !kernel.is_array()) return;
  const std::size_t first = config.value("data_format", Json()) == Json("channels_first") ? 2 : 1;
  Json padding = Json::array();
  bool needed = false, beyond = false;
  for (std::size_t i = 0; i < 2; ++i) {
    if (!shape[first + i].is_number_integer()) return;
    const std::int64_t out = shape[first + i], stride = strides[i], size = kernel[i];
    if (stride < 1 || out < 1 || size < 1) return;
    const bool same = config.value("padding", Json()) == Json("same");
    // A "same" one gives each input `stride` outputs, of which the last input may lack some.
    const std::int64_t more = same ? (out - 1) % stride + 1 - size % 2 : ((out - size) % stride + stride) % stride;
    padding.push_back(more);
    needed = needed || (same ? out % stride != 0 : size + more != std::max(size, stride));
    beyond = beyond || more >= stride;
  }
  if (needed && beyond)
    throw_unimplemented(
        fmt::format("layer '{}' (Deconvolution2D of Keras 1) has the output_shape {} with an even kernel "
                    "and padding \"same\", which Keras 3 has no output_padding for",
                    name_of(config), dump_json(shape)));
  if (needed) config["output_padding"] = padding;
}

// The kernel of cuDNN's cells is that of LSTM and of GRU with reset_after; the weights are in another layout.
constexpr std::string_view kCuDnn = R"({"recurrent_activation": "sigmoid"})";
constexpr std::string_view kCuDnnGru = R"({"recurrent_activation": "sigmoid", "reset_after": true})";

// The only kind until Keras 2.1, whose configs do not name it.
constexpr std::string_view kResetBefore = R"({"reset_after": false})";

// Of layers with several inputs; see MaskRule in merging.cpp.
constexpr std::string_view kAllMasks = R"({"all_masks": true})";

// Layers that support masks since Keras 3.
constexpr std::string_view kDropsMasks = R"({"drops_masks": true})";

// Images and volumes are normalized by a fused operation.
constexpr std::string_view kFused = R"({"fused_statistics": true})";

// How Keras 2 masks scores; see MaskedSoftmax.
void change_softmax(Json& object) {
  Json& config = object["config"];
  bool robust = false;
  for (const char* key : {"robust_masking", "softmax_robust_masking"}) {
    robust = robust || config.value(key, Json(false)) == Json(true);
    config.erase(key);
  }
  config["adds_masks"] = robust ? "robust" : "added";
}

// Keras 2 has the integers in the dtype of the layer.
void change_discretization(Json& object) {
  Json& config = object["config"];
  if (config.value("output_mode", Json("int")) == Json("int"))
    config["integers"] = config.value("dtype", Json("int64"));
}

// Other outputs than integers are in the dtype of the layer.
void change_lookup(Json& object) {
  Json& config = object["config"];
  const Json dtype = config.value("dtype", Json());
  if (config.value("output_mode", Json("int")) != Json("int") || dtype == Json("int32")) config["numbers"] = dtype;
}

// The second layer of Keras 2 goes in the opposite direction of the first; that of Keras 3 goes backwards.
void change_bidirectional(Json& object) {
  Json& config = object["config"];
  if (!config.value("backward_layer", Json()).is_null()) return;
  Json layer = config.value("layer", Json());
  if (!layer.is_object() || !layer.contains("config") || !layer["config"].is_object()) return;
  if (layer["config"].value("go_backwards", Json(false)) != Json(true)) return;
  layer["config"]["go_backwards"] = false;
  layer["config"]["name"] = "backward_" + name_of(layer["config"]);
  config["backward_layer"] = std::move(layer);
}

constexpr OldClass kClasses[] = {
    {1, "Convolution1D", "Conv1D", ""},
    {1, "AtrousConvolution1D", "Conv1D", ""},
    {1, "Convolution2D", "Conv2D", ""},
    {1, "AtrousConvolution2D", "Conv2D", ""},
    {1, "SeparableConvolution2D", "SeparableConv2D", ""},
    {1, "Convolution3D", "Conv3D", ""},
    {1, "Deconvolution2D", "Conv2DTranspose", "", change_deconvolution},
    {1, "TimeDistributedDense", "Dense", ""},
    {2, "Merge", "Merge", "", change_merge},
    {2, "ThresholdedReLU", "ReLU", ""},
    {2, "CuDNNLSTM", "LSTM", kCuDnn},
    {2, "CuDNNGRU", "GRU", kCuDnnGru},
    {2, "GRU", "GRU", kResetBefore},
    {2, "GRUCell", "GRUCell", kResetBefore},
    {2, "UnifiedLSTM", "LSTM", ""},
    {2, "UnifiedGRU", "GRU", ""},
    {2, "BatchNormalization", "BatchNormalization", kFused},
    {1, "BatchNormalization", "BatchNormalization", "", change_batch_normalization},
    {2, "BatchNormalizationV1", "BatchNormalization", kFused},
    {2, "BatchNormalizationV2", "BatchNormalization", kFused},
    {2, "Add", "Add", kAllMasks},
    {2, "Subtract", "Subtract", kAllMasks},
    {2, "Multiply", "Multiply", kAllMasks},
    {2, "Average", "Average", kAllMasks},
    {2, "Maximum", "Maximum", kAllMasks},
    {2, "Minimum", "Minimum", kAllMasks},
    {2, "Concatenate", "Concatenate", kAllMasks},
    {2, "Rescaling", "Rescaling", kDropsMasks},
    {2, "Normalization", "Normalization", kDropsMasks},
    {2, "Identity", "Identity", kDropsMasks},
    {2, "Softmax", "Softmax", "", change_softmax},
    {2, "MultiHeadAttention", "MultiHeadAttention", "", change_softmax},
    {2, "RandomCrop", "RandomCrop", R"({"resizes": true})"},
    {2, "Resizing", "Resizing", R"({"own_dtype": true})"},
    {2, "StringLookup", "StringLookup", "", change_lookup},
    {2, "IntegerLookup", "IntegerLookup", "", change_lookup},
    {2, "TextVectorization", "TextVectorization", "", change_lookup},
    {2, "Bidirectional", "Bidirectional", "", change_bidirectional},
    {2, "Discretization", "Discretization", "", change_discretization},
    {2, "TimeDistributed", "TimeDistributed", R"({"steps_as_samples": true})"},
    {2, "SyncBatchNormalization", "BatchNormalization", R"({"synchronized": true})"},
};

constexpr std::string_view kConvolutions =
    "Conv1D Conv2D Conv3D Conv2DTranspose SeparableConv2D ConvLSTM2D LocallyConnected1D LocallyConnected2D";

constexpr OldArgument kArguments[] = {
    {2, "ReLU", "theta", "threshold"},
    {1, "Embedding", "init", "embeddings_initializer"},
    {1, "Embedding", "W_regularizer", "embeddings_regularizer"},
    {1, "Embedding", "W_constraint", "embeddings_constraint"},
    {1, "Embedding", "dropout", "", dropped_words},
    {1, "Embedding", "output_dim", "output_dim"},
    {2, "Embedding", "dtype", "dtype", dtype_of_embeddings},
    {1, "InputLayer", "input_dtype", "dtype"},
    {1, "PReLU", "init", "alpha_initializer"},
    {1, "SReLU", "t_left_init", "t_left_initializer"},
    {1, "SReLU", "a_left_init", "a_left_initializer"},
    {1, "SReLU", "t_right_init", "t_right_initializer"},
    {1, "SReLU", "a_right_init", "a_right_initializer"},
    {1, "SeparableConv2D", "init", "depthwise_initializer"},
    {1, "BatchNormalization", "gamma_init", "gamma_initializer"},
    {1, "BatchNormalization", "beta_init", "beta_initializer"},
    {1, "", "activity_regularizer", "activity_regularizer", sum_over_the_batch},
    {1, "ActivityRegularization", "l1", "l1", sum_over_the_batch},
    {1, "ActivityRegularization", "l2", "l2", sum_over_the_batch},
    {1, "", "output_dim", "units"},
    {1, kConvolutions, "nb_filter", "filters"},
    {1, kConvolutions, "nb_row nb_col", "kernel_size"},
    {1, kConvolutions, "kernel_dim1 kernel_dim2 kernel_dim3", "kernel_size"},
    {1, kConvolutions, "filter_length", "kernel_size"},
    {1, kConvolutions, "subsample_length", "strides"},
    {1, kConvolutions, "subsample", "strides"},
    {1, kConvolutions, "atrous_rate", "dilation_rate"},
    {1, "", "border_mode", "padding"},
    {1, "", "dim_ordering", "data_format", data_format},
    {1, "", "init", "kernel_initializer"},
    {1, "", "inner_init", "recurrent_initializer"},
    {1, "", "forget_bias_init", "unit_forget_bias", is_one},
    {1, "", "inner_activation", "recurrent_activation"},
    {1, "", "W_regularizer", "kernel_regularizer"},
    {1, "", "U_regularizer", "recurrent_regularizer"},
    {1, "", "b_regularizer", "bias_regularizer"},
    {1, "", "W_constraint", "kernel_constraint"},
    {1, "", "U_constraint", "recurrent_constraint"},
    {1, "", "b_constraint", "bias_constraint"},
    {1, "", "bias", "use_bias"},
    {1, "", "dropout_W", "dropout"},
    {1, "", "dropout_U", "recurrent_dropout"},
    {1, "", "consume_less", ""},
    {1, "Dense Highway MaxoutDense Conv1D LocallyConnected1D SimpleRNN GRU LSTM", "input_dim", ""},
    {1, "Dense Conv1D LocallyConnected1D SimpleRNN GRU LSTM", "input_length", ""},
    {1, "Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D GaussianDropout", "p", "rate", number_of_text},
    {1, "GaussianNoise", "sigma", "stddev"},
    {1, "MaxPooling1D AveragePooling1D", "pool_length", "pool_size"},
    {1, "MaxPooling1D AveragePooling1D", "stride", "strides"},
    {1, "UpSampling1D", "length", "size"},
    {1, "ZeroPadding1D", "padding", "padding", padding_1d},
    {1, "ZeroPadding2D", "padding", "padding", padding_2d},
};

// Objects of Keras 1 are {"name": class, arguments}.
struct OldObject {
  std::string_view name, class_name;
  std::string_view renamed[4][2];
};
constexpr OldObject kObjects[] = {
    {"L1L2Regularizer", "L1L2", {}},
    {"WeightRegularizer", "L1L2", {}},
    {"ActivityRegularizer", "L1L2", {}},
    {"MaxNorm", "MaxNorm", {{"m", "max_value"}}},
    {"MinMaxNorm", "MinMaxNorm", {{"low", "min_value"}, {"high", "max_value"}}},
    {"UnitNorm", "UnitNorm", {}},
    {"NonNeg", "NonNeg", {}},
};

// Initializers are names of functions.
constexpr std::string_view kInitializers[][2] = {
    {"zero", R"("zeros")"},
    {"one", R"("ones")"},
    {"uniform", R"({"class_name": "RandomUniform", "config": {"minval": -0.05, "maxval": 0.05}})"},
    {"normal", R"({"class_name": "RandomNormal", "config": {"mean": 0.0, "stddev": 0.05}})"},
    {"orthogonal", R"({"class_name": "Orthogonal", "config": {"gain": 1.1}})"},
};

// A merge layer of Keras 3 for a mode.
constexpr std::string_view kMergeModes[][2] = {{"sum", "Add"},     {"mul", "Multiply"},       {"ave", "Average"},
                                               {"max", "Maximum"}, {"concat", "Concatenate"}, {"dot", "Dot"}};

Json reference(std::string_view layer) {
  return Json::array({Json::array({std::string(layer), 0, 0, Json::object()})});
}

// Collects the layers of a model of branches.
class Branches {
 public:
  // Adds the layers of a branch; returns the name of the layer whose output is the branch's.
  std::string add(const Json& entry) {
    const Json& config = entry.at("config");
    const bool sequential = entry.at("class_name") == Json("Sequential");
    if (!sequential && config.contains("output_layers")) return add_functional(config);
    if (!sequential) return add_chain(Json::array({entry}));
    return add_chain(config.is_array() ? config : config.at("layers"));
  }

  // Adds layers in a row, of which the first may be a Merge of branches.
  std::string add_chain(const Json& entries) {
    if (!entries.is_array() || entries.size() == 0) throw_invalid_argument("a Sequential of Keras 1 has no layers");
    std::string last;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      Json entry = entries[i];
      Json& config = entry["config"];
      Json inputs;
      if (i == 0 && config.contains("layers") && config.contains("merged")) {
        Json list = Json::array();
        for (const Json& branch : config["layers"]) list.push_back(Json::array({add(branch), 0, 0, Json::object()}));
        config.erase("layers");
        config.erase("merged");
        inputs = list;
      } else {
        inputs = i == 0 ? reference(add_input(config)) : reference(last);
      }
      last = name_of(config);
      entry["name"] = last;
      entry["inbound_nodes"] = Json::array({inputs});
      layers_.push_back(std::move(entry));
    }
    return last;
  }

  Json take(const Json& name, const std::string& output) {
    Json config = Json::object();
    if (name.is_string()) config["name"] = name;
    config["layers"] = std::move(layers_);
    config["input_layers"] = std::move(inputs_);
    config["output_layers"] = Json::array({Json::array({output, 0, 0})});
    return {{"class_name", "Functional"}, {"config", std::move(config)}};
  }

 private:
  std::string add_functional(const Json& config) {
    for (const Json& layer : config.at("layers")) layers_.push_back(layer);
    for (const Json& input : config.at("input_layers")) inputs_.push_back(input);
    return config.at("output_layers")[0][0].get<std::string>();
  }

  std::string add_input(Json& config) {
    const std::string name = name_of(config) + "_input";
    Json input = {{"name", name}, {"batch_input_shape", config.value("batch_input_shape", Json())}};
    if (input["batch_input_shape"].is_null())
      throw_invalid_argument(fmt::format("layer '{}' begins a branch and has no batch_input_shape", name_of(config)));
    if (const Json dtype = config.value("input_dtype", Json()); dtype.is_string()) input["dtype"] = dtype;
    layers_.push_back(
        {{"class_name", "InputLayer"}, {"config", std::move(input)}, {"name", name}, {"inbound_nodes", Json::array()}});
    inputs_.push_back(Json::array({name, 0, 0}));
    return name;
  }

  Json layers_ = Json::array(), inputs_ = Json::array();
};

// Keras 2.0 wrote into the calls of a Merge that its inputs have no masks.
void drop_missing_masks(Json& object) {
  const auto is_missing = [](const Json& mask) {
    const auto is_null = [](const Json& each) { return each.is_null(); };
    return mask.is_null() || (mask.is_array() && std::all_of(mask.begin(), mask.end(), is_null));
  };
  if (!object.contains("inbound_nodes") || !object["inbound_nodes"].is_array()) return;
  for (Json& node : object["inbound_nodes"]) {
    if (!node.is_array()) continue;
    for (Json& input : node) {
      if (!input.is_array() || input.size() < 4 || !input[3].is_object()) continue;
      if (input[3].contains("mask") && is_missing(input[3]["mask"])) input[3].erase("mask");
    }
  }
}

}  // namespace

std::span<const OldClass> old_classes() { return kClasses; }
std::span<const OldArgument> old_arguments() { return kArguments; }

Json value_of_keras_1(std::string_view key, const Json& value) {
  if (value.is_string() && key.ends_with("_initializer")) {
    const std::string& name = value.text();
    for (const auto& row : kInitializers) {
      if (row[0] == name) return Json::parse(row[1]);
    }
    return value;
  }
  if (!value.is_object() || value.contains("class_name")) return value;
  const std::string name = name_of(value);
  for (const OldObject& row : kObjects) {
    if (row.name != name) continue;
    Json config = Json::object();
    for (const auto& [old_key, argument] : value.items()) {
      if (old_key == "name") continue;
      const auto renamed =
          std::find_if(std::begin(row.renamed), std::end(row.renamed), [&](const auto& r) { return r[0] == old_key; });
      config[renamed == std::end(row.renamed) ? std::string(old_key) : std::string((*renamed)[1])] = argument;
    }
    return {{"class_name", std::string(row.class_name)}, {"config", std::move(config)}};
  }
  return value;
}

bool lacks_data_format(std::string_view class_name) {
  static constexpr std::string_view kNames[] = {"UpSampling2D", "UpSampling3D", "ZeroPadding2D",    "ZeroPadding3D",
                                                "Cropping2D",   "Cropping3D",   "SpatialDropout2D", "SpatialDropout3D"};
  return std::find(std::begin(kNames), std::end(kNames), class_name) != std::end(kNames);
}

void change_merge(Json& object) {
  drop_missing_masks(object);
  const Json config = object.at("config");
  const Json mode = config.value("mode", Json());
  const auto row = std::find_if(std::begin(kMergeModes), std::end(kMergeModes),
                                [&](const auto& r) { return mode == Json(std::string(r[0])); });
  if (row == std::end(kMergeModes))
    throw_unimplemented(fmt::format(
        "layer '{}' (Merge of Keras 1) has mode {}, expected \"sum\", \"mul\", \"ave\", \"max\", \"concat\" or \"dot\"",
        name_of(config), dump_json(mode).substr(0, 80)));
  Json now = {{"name", name_of(config)}};
  if (mode != Json("dot")) now["all_masks"] = true;
  if (mode == Json("concat")) now["axis"] = config.value("concat_axis", Json(-1));
  if (mode == Json("dot")) {
    Json axes = config.value("dot_axes", Json(-1));
    // [[axes of the first], [axes of the second]] with one axis each.
    if (axes.is_array()) {
      for (Json& axis : axes) {
        if (axis.is_array() && axis.size() == 1) axis = Json(axis[0]);
      }
    }
    now["axes"] = std::move(axes);
  }
  if (config.contains("layers") && config["layers"].is_array() && config["layers"].size() > 0) {
    now["layers"] = config["layers"];
    now["merged"] = true;  // read by functional_of_branches()
  }
  object["class_name"] = std::string((*row)[1]);
  object["config"] = std::move(now);
}

Json functional_of_branches(const Json& entries, const Json& name) {
  Branches branches;
  const std::string output = branches.add_chain(entries);
  return branches.take(name, output);
}

}  // namespace lockstep::saving
