#include "lockstep/saving/keras2_table_internal.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "lockstep/saving/old_json_internal.h"

namespace lockstep::saving {
namespace {

constexpr Keras3Argument kArguments[] = {
    {"InputLayer", "batch_shape", "batch_input_shape", ""},
    {"InputLayer", "optional", "", "[false]"},
    {"InputLayer", "trainable", "", ""},
    {"Sequential", "trainable", "", ""},  // each layer has its own
    {"Sequential", "dtype", "", ""},
    {"Sequential", "build_input_shape", "", ""},
    {"LeakyReLU", "negative_slope", "alpha", ""},
    {"Dense Conv* Embedding EinsumDense", "lora_rank", "", "[null]"},
    {"Dense Conv* Embedding EinsumDense", "lora_alpha", "", ""},
    {"Dense Conv* Embedding EinsumDense", "quantization_config", "", "[null]"},
    {"EinsumDense", "activity_regularizer", "activity_regularizer", "[null]"},  // without effect there
    {"EinsumDense", "gptq_unpacked_column_size", "", "[null]"},
    {"LSTM GRU SimpleRNN RNN", "zero_output_for_mask", "zero_output_for_mask", "[false]"},
    {"ConvLSTM*", "zero_output_for_mask", "", "[false]"},
    {"LSTM GRU", "use_cudnn", "", ""},
    {"SimpleRNN ConvLSTM*", "seed", "", ""},
    {"LayerNormalization", "rms_scaling", "", "[false]"},
    {"MultiHeadAttention", "use_gate", "", "[false]"},
    {"MultiHeadAttention", "sliding_window", "", "[null]"},
    {"MultiHeadAttention", "flash_attention", "", ""},
    {"MultiHeadAttention", "seed", "", ""},
    {"AdditiveAttention", "score_mode", "", ""},
    {"ZeroPadding1D", "data_format", "", R"([null, "channels_last"])"},
    {"CenterCrop Resizing Random*", "data_format", "", R"([null, "channels_last"])"},
    {"CenterCrop Resizing Random*", "bounding_box_format", "", ""},
    {"Resizing", "pad_to_aspect_ratio", "", "[false]"},
    {"Resizing", "fill_mode", "", ""},
    {"Resizing", "fill_value", "", ""},
    {"Resizing", "antialias", "", "[false]"},
    {"RandomContrast", "value_range", "", "[[0, 255], [0.0, 255.0]]"},
    {"StringLookup", "oov_method", "", ""},
    {"IntegerLookup", "oov_method", "", R"([null, "default", "floormod"])"},
    {"StringLookup IntegerLookup", "salt", "", "[null]"},
    {"", "autocast", "", ""},
    {"Glorot* He* Lecun* VarianceScaling", "input_axes", "", ""},
    {"Glorot* He* Lecun* VarianceScaling", "output_axes", "", ""},
    {"SparseTopKCategoricalAccuracy", "from_sorted_ids", "", "[false]"},
};

constexpr std::string_view kLayers[] = {
    "Activation",
    "ActivityRegularization",
    "Add",
    "AdditiveAttention",
    "AlphaDropout",
    "Attention",
    "Average",
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "BatchNormalization",
    "Bidirectional",
    "CategoryEncoding",
    "CenterCrop",
    "Concatenate",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Conv3DTranspose",
    "ConvLSTM1D",
    "ConvLSTM2D",
    "ConvLSTM3D",
    "Cropping1D",
    "Cropping2D",
    "Cropping3D",
    "Dense",
    "DepthwiseConv1D",
    "DepthwiseConv2D",
    "Discretization",
    "Dot",
    "Dropout",
    "ELU",
    "EinsumDense",
    "Embedding",
    "Flatten",
    "Functional",
    "GRU",
    "GRUCell",
    "GaussianDropout",
    "GaussianNoise",
    "GlobalAveragePooling1D",
    "GlobalAveragePooling2D",
    "GlobalAveragePooling3D",
    "GlobalMaxPooling1D",
    "GlobalMaxPooling2D",
    "GlobalMaxPooling3D",
    "GroupNormalization",
    "HashedCrossing",
    "Hashing",
    "Identity",
    "InputLayer",
    "IntegerLookup",
    "LSTM",
    "LSTMCell",
    "LayerNormalization",
    "LeakyReLU",
    "LocallyConnected1D",
    "LocallyConnected2D",
    "Masking",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
    "Maximum",
    "Minimum",
    "MultiHeadAttention",
    "Multiply",
    "Normalization",
    "PReLU",
    "Permute",
    "RNN",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomHeight",
    "RandomRotation",
    "RandomTranslation",
    "RandomWidth",
    "RandomZoom",
    "ReLU",
    "RepeatVector",
    "Rescaling",
    "Reshape",
    "Resizing",
    "SeparableConv1D",
    "SeparableConv2D",
    "Sequential",
    "SimpleRNN",
    "SimpleRNNCell",
    "Softmax",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    "SpectralNormalization",
    "StackedRNNCells",
    "StringLookup",
    "Subtract",
    "TextVectorization",
    "TimeDistributed",
    "UnitNormalization",
    "UpSampling1D",
    "UpSampling2D",
    "UpSampling3D",
    "ZeroPadding1D",
    "ZeroPadding2D",
    "ZeroPadding3D",
};

constexpr std::string_view kActivations[] = {
    "elu",   "exponential", "gelu",    "hard_sigmoid", "leaky_relu", "linear",   "log_softmax", "mish",  "relu",
    "relu6", "selu",        "sigmoid", "silu",         "softmax",    "softplus", "softsign",    "swish", "tanh",
};

constexpr std::string_view kObjectsOfKeras3[] = {
    "STFT", "STFTInitializer",    "CTC",     "CategoricalGeneralizedCrossEntropy", "Circle", "ConcordanceCorrelation",
    "Dice", "PearsonCorrelation", "Tversky",
};

bool fits(std::string_view classes, std::string_view name) {
  const std::vector<std::string> all = words(classes);
  return all.empty() || std::any_of(all.begin(), all.end(), [&](const std::string& each) {
           return each.ends_with('*') ? name.starts_with(each.substr(0, each.size() - 1)) : name == each;
         });
}

}  // namespace

const Keras3Argument* keras3_argument(std::string_view class_name, std::string_view key) {
  const auto row = std::find_if(std::begin(kArguments), std::end(kArguments), [&](const Keras3Argument& each) {
    return each.key == key && fits(each.classes, class_name);
  });
  return row == std::end(kArguments) ? nullptr : &*row;
}

bool is_layer_of_keras2(std::string_view class_name) {
  return std::binary_search(std::begin(kLayers), std::end(kLayers), class_name);
}

bool is_activation_of_keras2(std::string_view name) {
  return std::binary_search(std::begin(kActivations), std::end(kActivations), name);
}

bool is_object_of_keras3(std::string_view class_name) {
  return std::find(std::begin(kObjectsOfKeras3), std::end(kObjectsOfKeras3), class_name) != std::end(kObjectsOfKeras3);
}

}  // namespace lockstep::saving
