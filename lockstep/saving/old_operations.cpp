#include "lockstep/saving/old_operations_internal.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/saving/old_json_internal.h"
#include "lockstep/saving/old_op_layers_internal.h"

namespace lockstep::saving {
namespace {

constexpr std::string_view kNumpy = "keras.src.ops.numpy", kNn = "keras.src.ops.nn", kMath = "keras.src.ops.math",
                           kCore = "keras.src.ops.core", kImage = "keras.src.ops.image", kLayers = "keras.layers",
                           kLinalg = "keras.src.ops.linalg";

constexpr std::string_view kPool = "ksize=pool_size strides padding data_format";

// Sizes of parts become the places between them.
void change_split(OperationCall& call) {
  Json& parts = call.config["indices_or_sections"];
  if (!parts.is_array()) return;
  Json places = Json::array();
  std::int64_t place = 0;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) places.push_back(place += parts[i].get<std::int64_t>());
  parts = places;
}

void change_pad(OperationCall& call) {
  std::string mode = call.config.value("mode", "constant");
  for (char& c : mode) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  call.config["mode"] = mode;
  // Keras takes the constant in that mode only.
  if (mode != "constant") call.args = Json::array({call.args[0]});
}

// The class of what stands for the first size of a tensor in a shape.
constexpr const char* kBatchSize = "batch size";

// A tensor in the shape, such as the batch size, is the one that follows from the others.
void change_reshape(OperationCall& call) {
  Json& shape = call.config["newshape"];
  if (!shape.is_array()) throw_unimplemented("tf.reshape to a shape that is a tensor");
  int open = 0;
  const bool batch = shape.size() > 0 && text_of(shape[0], "class_name") == kBatchSize;
  for (Json& size : shape) {
    if (!size.is_number_integer()) size = -1;
    open += size == Json(-1);
  }
  if (open == 2 && batch) {  // the layer keeps the first axis
    Json rest = Json::array();
    for (std::size_t i = 1; i < shape.size(); ++i) rest.push_back(Json(shape[i]));
    call.config = {{"class_name", "Reshape"}, {"module", std::string(kLayers)}, {"target_shape", std::move(rest)}};
    return;
  }
  if (open > 1) throw_unimplemented("tf.reshape to a shape of which two sizes are computed");
}

// rsqrt(max(sum, epsilon)) is min(rsqrt(sum), 1 / sqrt(epsilon)).
void change_l2(OperationCall& call) { call.config["epsilon"] = std::sqrt(call.config["epsilon"].get<double>()); }

void change_norm(OperationCall& call) {
  if (call.config.value("ord", Json()) == Json("euclidean")) call.config["ord"] = nullptr;
}

void change_matmul(OperationCall& call) {
  const bool a = call.config.value("transpose_a", false), b = call.config.value("transpose_b", false);
  call.config.erase("transpose_a");
  call.config.erase("transpose_b");
  if (!a && !b) return;
  call.config["class_name"] = "Einsum";
  call.config["subscripts"] = fmt::format("...{},...{}->...ik", a ? "ji" : "ij", b ? "kj" : "jk");
}

// TensorFlow keeps the dtype of integers, also in means, which it rounds towards zero.
void keep_dtype(OperationCall& call) { call.dtypes = {{"integers", "float64"}, {"result", "operand"}}; }
void keep_dtype_of_sums(OperationCall& call) { call.dtypes = {{"result", "operand"}}; }

// TensorFlow divides integers as float64.
void divide_integers(OperationCall& call) { call.dtypes = {{"integers", "float64"}}; }

void change_arg(OperationCall& call) {
  const Json type = call.config.value("output_type", Json());
  call.config.erase("output_type");
  call.dtypes = {{"result", type.is_string() ? type : Json("int64")}};
}

void change_count(OperationCall& call) { call.dtypes = {{"result", "int64"}}; }

void change_sort(OperationCall& call) {
  if (call.config.value("direction", Json("ASCENDING")) != Json("ASCENDING"))
    throw_unimplemented("tf.sort and tf.argsort with direction 'DESCENDING'");
  call.config.erase("direction");
  call.config.erase("stable");  // always
}

// The sizes of height and width, given by themselves, as one number, or with those of rows and channels.
Json of_places(const Json& given) {
  if (!given.is_array() || given.size() == 2) return given;
  if (given.size() == 1) return given[0];
  if (given.size() != 4 || given[0] != Json(1) || given[3] != Json(1))
    throw_unimplemented(fmt::format("windows or strides of {}", dump_json(given).substr(0, 40)));
  if (given[1] == given[2]) return given[1];
  return Json::array({given[1], given[2]});
}

// Windows over images whose channels are last.
void change_windows(OperationCall& call) {
  Json& config = call.config;
  for (const char* key : {"pool_size", "size", "strides", "dilation_rate"}) {
    if (config.contains(key)) config[key] = of_places(config[key]);
  }
  const Json padding = config.value("padding", Json("VALID"));
  if (padding != Json("VALID") && padding != Json("SAME")) throw_unimplemented("padding of windows by numbers");
  config["padding"] = padding == Json("SAME") ? "same" : "valid";
  const std::string format = config.value("data_format", "NHWC");
  if (format.starts_with("NC")) throw_unimplemented(fmt::format("windows over data_format '{}'", format));
  config.erase("data_format");
  config.erase("use_cudnn_on_gpu");
}

// tf.slice has the begin and the size of each axis; -1 is all that is left.
void change_slice(OperationCall& call) {
  const Json begin = call.config.value("begin", Json()), size = call.config.value("size", Json());
  call.config.erase("begin");
  call.config.erase("size");
  if (!begin.is_array() || !size.is_array() || begin.size() != size.size())
    throw_unimplemented("tf.slice with a begin or size that is a tensor");
  Json index = Json::array();
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (!begin[i].is_number_integer() || !size[i].is_number_integer())
      throw_unimplemented("tf.slice with a begin or size that is a tensor");
    const bool open = size[i] == Json(-1);
    const Json stop = open ? Json(nullptr) : Json(begin[i].get<std::int64_t>() + size[i].get<std::int64_t>());
    index.push_back(
        {{"class_name", "__slice__"}, {"config", {{"start", begin[i]}, {"stop", stop}, {"step", nullptr}}}});
  }
  call.args.push_back(std::move(index));
}

// How rows are divided among several tables.
void of_one_table(OperationCall& call) { call.config.erase("partition_strategy"); }

void without_shape(OperationCall& call) { call.config.erase("shape"); }

constexpr OldFunction kFunctions[] = {
    {"__operators__.add", kNumpy, "Add", "x y", ""},
    {"math.add", kNumpy, "Add", "x y", ""},
    {"nn.bias_add", kNumpy, "Add", "value bias", ""},
    {"math.subtract", kNumpy, "Subtract", "x y", ""},
    {"math.multiply", kNumpy, "Multiply", "x y", ""},
    {"math.scalar_mul", kNumpy, "Multiply", "scalar x", ""},
    {"math.truediv", kNumpy, "TrueDivide", "x y", "", "", divide_integers},
    {"math.divide", kNumpy, "TrueDivide", "x y", "", "", divide_integers},
    {"realdiv", kNumpy, "TrueDivide", "x y", ""},
    {"math.floordiv", kNumpy, "FloorDivide", "x y", ""},
    {"compat.v1.floor_div", kNumpy, "FloorDivide", "x y", ""},
    {"math.floormod", kNumpy, "Mod", "x y", ""},
    {"math.mod", kNumpy, "Mod", "x y", ""},
    {"math.pow", kNumpy, "Power", "x y", ""},
    {"math.maximum", kNumpy, "Maximum", "x y", ""},
    {"math.minimum", kNumpy, "Minimum", "x y", ""},
    {"math.greater", kNumpy, "Greater", "x y", ""},
    {"math.greater_equal", kNumpy, "GreaterEqual", "x y", ""},
    {"math.less", kNumpy, "Less", "x y", ""},
    {"math.less_equal", kNumpy, "LessEqual", "x y", ""},
    {"math.equal", kNumpy, "Equal", "x y", ""},
    {"math.not_equal", kNumpy, "NotEqual", "x y", ""},
    {"math.logical_and", kNumpy, "LogicalAnd", "x y", ""},
    {"math.logical_or", kNumpy, "LogicalOr", "x y", ""},
    {"math.logical_not", kNumpy, "LogicalNot", "x", ""},
    {"math.add_n", kLayers, "Add", "inputs", ""},
    {"identity", kLayers, "Identity", "input", ""},
    {"math.negative", kNumpy, "Negative", "x", ""},
    {"math.abs", kNumpy, "Absolute", "x", ""},
    {"math.sign", kNumpy, "Sign", "x", ""},
    {"math.square", kNumpy, "Square", "x", ""},
    {"math.sqrt", kNumpy, "Sqrt", "x", ""},
    {"math.rsqrt", kMath, "Rsqrt", "x", ""},
    {"math.reciprocal", kNumpy, "Reciprocal", "x", ""},
    {"math.exp", kNumpy, "Exp", "x", ""},
    {"math.expm1", kNumpy, "Expm1", "x", ""},
    {"math.log", kNumpy, "Log", "x", ""},
    {"math.log1p", kNumpy, "Log1p", "x", ""},
    {"math.sin", kNumpy, "Sin", "x", ""},
    {"math.cos", kNumpy, "Cos", "x", ""},
    {"math.tan", kNumpy, "Tan", "x", ""},
    {"math.tanh", kNumpy, "Tanh", "x", ""},
    {"math.floor", kNumpy, "Floor", "x", ""},
    {"math.ceil", kNumpy, "Ceil", "x", ""},
    {"math.erf", kMath, "Erf", "x", ""},
    {"math.sigmoid", kNn, "Sigmoid", "x", ""},
    {"nn.sigmoid", kNn, "Sigmoid", "x", ""},
    {"nn.tanh", kNumpy, "Tanh", "x", ""},
    {"nn.relu", kNn, "Relu", "features", ""},
    {"nn.relu6", kNn, "Relu6", "features", ""},
    {"nn.elu", kNn, "Elu", "features", ""},
    {"nn.selu", kNn, "Selu", "features", ""},
    {"nn.silu", kNn, "Silu", "features", ""},
    {"nn.swish", kNn, "Silu", "features", ""},
    {"math.softplus", kNn, "Softplus", "features", ""},
    {"nn.softsign", kNn, "Softsign", "features", ""},
    {"nn.gelu", kNn, "Gelu", "features", "approximate", R"({"approximate": false})"},
    {"nn.leaky_relu", kNn, "LeakyRelu", "features", "alpha=negative_slope"},
    {"nn.softmax", kNn, "Softmax", "logits", "axis"},
    {"nn.log_softmax", kNn, "LogSoftmax", "logits", "axis"},
    {"math.l2_normalize", kNn, "Normalize", "x", "axis epsilon", R"({"order": 2, "epsilon": 1e-12})", change_l2},
    {"math.reduce_mean", kNumpy, "Mean", "input_tensor", "axis keepdims", "", keep_dtype},
    {"math.reduce_sum", kNumpy, "Sum", "input_tensor", "axis keepdims", "", keep_dtype_of_sums},
    {"math.reduce_max", kNumpy, "Max", "input_tensor", "axis keepdims"},
    {"math.reduce_min", kNumpy, "Min", "input_tensor", "axis keepdims"},
    {"math.reduce_prod", kNumpy, "Prod", "input_tensor", "axis keepdims", "", keep_dtype_of_sums},
    {"math.reduce_any", kNumpy, "Any", "input_tensor", "axis keepdims"},
    {"math.reduce_all", kNumpy, "All", "input_tensor", "axis keepdims"},
    {"math.reduce_std", kNumpy, "Std", "input_tensor", "axis keepdims"},
    {"math.reduce_variance", kNumpy, "Var", "input_tensor", "axis keepdims"},
    {"math.reduce_logsumexp", kMath, "Logsumexp", "input_tensor", "axis keepdims"},
    {"math.cumsum", kNumpy, "Cumsum", "x", "axis", R"({"axis": 0})"},
    {"math.argmax", kNumpy, "Argmax", "input", "axis output_type", R"({"axis": 0})", change_arg},
    {"math.argmin", kNumpy, "Argmin", "input", "axis output_type", R"({"axis": 0})", change_arg},
    {"compat.v1.argmax", kNumpy, "Argmax", "input", "axis output_type", R"({"axis": 0})", change_arg},
    {"compat.v1.argmin", kNumpy, "Argmin", "input", "axis output_type", R"({"axis": 0})", change_arg},
    {"norm", kLinalg, "Norm", "tensor", "axis keepdims ord", "", change_norm},
    {"compat.v1.norm", kLinalg, "Norm", "tensor", "axis keepdims ord", "", change_norm},
    {"linalg.matmul", kNumpy, "Matmul", "a b", "transpose_a transpose_b", "", change_matmul},
    {"concat", kNumpy, "Concatenate", "values", "axis"},
    {"stack", kNumpy, "Stack", "values", "axis", R"({"axis": 0})"},
    {"unstack", kCore, "Unstack", "value", "axis num", R"({"axis": 0})"},
    {"split", kNumpy, "Split", "value", "num_or_size_splits=indices_or_sections axis", R"({"axis": 0})", change_split},
    {"reshape", kNumpy, "Reshape", "tensor", "shape=newshape", "", change_reshape},
    {"expand_dims", kNumpy, "ExpandDims", "input", "axis"},
    {"squeeze", kNumpy, "Squeeze", "input", "axis"},
    {"compat.v1.squeeze", kNumpy, "Squeeze", "input", "axis"},
    {"transpose", kNumpy, "Transpose", "a", "perm=axes"},
    {"compat.v1.transpose", kNumpy, "Transpose", "a", "perm=axes"},
    {"reverse", kNumpy, "Flip", "tensor", "axis"},
    {"image.flip_left_right", kNumpy, "Flip", "image", "", R"({"axis": -2})"},
    {"image.flip_up_down", kNumpy, "Flip", "image", "", R"({"axis": -3})"},
    {"tile", kNumpy, "Tile", "input", "multiples=repeats"},
    {"repeat", kNumpy, "Repeat", "input", "repeats axis"},
    {"pad", kNumpy, "Pad", "tensor constant_values", "paddings=pad_width mode", "", change_pad},
    {"compat.v1.pad", kNumpy, "Pad", "tensor constant_values", "paddings=pad_width mode", "", change_pad},
    {"gather", kNumpy, "Take", "params indices", "axis", R"({"axis": 0})"},
    {"compat.v1.gather", kNumpy, "Take", "params indices", "axis", R"({"axis": 0})"},
    {"where", kNumpy, "Where", "condition x y", ""},
    {"clip_by_value", kNumpy, "Clip", "t", "clip_value_min=x_min clip_value_max=x_max"},
    {"zeros_like", kNumpy, "ZerosLike", "input", "dtype"},
    {"ones_like", kNumpy, "OnesLike", "input", "dtype"},
    {"one_hot", kNn, "OneHot", "indices", "depth=num_classes axis dtype"},
    {"cast", kCore, "Cast", "x", "dtype"},
    {"stop_gradient", kCore, "StopGradient", "input", ""},
    {"image.resize", kImage, "Resize", "images", "size method=interpolation antialias"},
    {"nn.depth_to_space", kNn, "DepthToSpace", "input", "block_size"},
    {"nn.space_to_depth", kNn, "SpaceToDepth", "input", "block_size"},
    {"__operators__.getitem", kNumpy, "GetItem", "tensor slice_spec", ""},
    {"slice", kNumpy, "GetItem", "input_", "begin size", "", change_slice, true},
    {"ensure_shape", kLayers, "Identity", "x", "shape", "", without_shape, true},
    {"math.round", kNumpy, "Round", "x", ""},
    {"math.asin", kNumpy, "Arcsin", "x", ""},
    {"math.acos", kNumpy, "Arccos", "x", ""},
    {"math.atan", kNumpy, "Arctan", "x", ""},
    {"math.atan2", kNumpy, "Arctan2", "y x", ""},
    {"math.sinh", kNumpy, "Sinh", "x", ""},
    {"math.cosh", kNumpy, "Cosh", "x", ""},
    {"math.asinh", kNumpy, "Arcsinh", "x", ""},
    {"math.acosh", kNumpy, "Arccosh", "x", ""},
    {"math.atanh", kNumpy, "Arctanh", "x", ""},
    {"math.erfc", kMath, "Erfc", "x", ""},
    {"math.erfinv", kMath, "Erfinv", "x", ""},
    {"math.is_nan", kNumpy, "Isnan", "x", ""},
    {"math.is_inf", kNumpy, "Isinf", "x", ""},
    {"math.is_finite", kNumpy, "Isfinite", "x", ""},
    {"math.log_sigmoid", kNn, "LogSigmoid", "x", ""},
    {"math.divide_no_nan", kNumpy, "DivideNoNan", "x y", ""},
    {"math.nextafter", kNumpy, "Nextafter", "x1 x2", "", "", nullptr, true},
    {"math.accumulate_n", kLayers, "Add", "inputs", "", "", nullptr, true},
    {"math.cumprod", kNumpy, "Cumprod", "x", "axis", R"({"axis": 0})", keep_dtype_of_sums, true},
    {"math.reduce_euclidean_norm", kLinalg, "Norm", "input_tensor", "axis keepdims", "", nullptr, true},
    {"math.count_nonzero", kNumpy, "CountNonzero", "input", "axis", "", change_count, true},
    {"math.top_k", kMath, "TopK", "input", "k sorted", R"({"k": 1})", nullptr, true},
    {"sort", kNumpy, "Sort", "values", "axis direction", R"({"axis": -1})", change_sort, true},
    {"argsort", kNumpy, "Argsort", "values", "axis direction stable", R"({"axis": -1})", change_sort, true},
    {"roll", kNumpy, "Roll", "input", "shift axis", "", nullptr, true},
    {"tensordot", kNumpy, "Tensordot", "a b", "axes", "", nullptr, true},
    {"bitwise.bitwise_and", kNumpy, "BitwiseAnd", "x y", ""},
    {"bitwise.bitwise_or", kNumpy, "BitwiseOr", "x y", ""},
    {"bitwise.bitwise_xor", kNumpy, "BitwiseXor", "x y", ""},
    {"linalg.det", kLinalg, "Det", "input", ""},
    {"linalg.inv", kLinalg, "Inv", "input", ""},
    {"linalg.cross", kNumpy, "Cross", "a b", "", "", nullptr, true},
    {"linalg.trace", kNumpy, "Trace", "x", "", R"({"axis1": -2, "axis2": -1})", nullptr, true},
    {"linalg.diag_part", kNumpy, "Diagonal", "input", "", R"({"axis1": -2, "axis2": -1})", nullptr, true},
    {"linalg.matrix_transpose", kNumpy, "Swapaxes", "a", "", R"({"axis1": -2, "axis2": -1})", nullptr, true},
    {"linalg.adjoint", kNumpy, "Swapaxes", "matrix", "", R"({"axis1": -2, "axis2": -1})", nullptr, true},
    {"nn.max_pool", kNn, "MaxPool", "input", kPool, "", change_windows, true},
    {"nn.max_pool2d", kNn, "MaxPool", "input", kPool, "", change_windows, true},
    {"compat.v1.nn.max_pool", kNn, "MaxPool", "value", kPool, "", change_windows, true},
    {"nn.avg_pool", kNn, "AveragePool", "input", kPool, "", change_windows, true},
    {"nn.avg_pool2d", kNn, "AveragePool", "input", kPool, "", change_windows, true},
    {"compat.v1.nn.avg_pool", kNn, "AveragePool", "value", kPool, "", change_windows, true},
    {"compat.v1.nn.conv2d", kNn, "Conv", "input filter",
     "strides padding data_format use_cudnn_on_gpu dilations=dilation_rate", "", change_windows, true},
    {"compat.v1.nn.depthwise_conv2d", kNn, "DepthwiseConv", "input filter",
     "strides padding data_format rate=dilation_rate", "", change_windows, true},
    {"compat.v1.nn.sigmoid_cross_entropy_with_logits", kNn, "BinaryCrossentropy", "labels logits", "",
     R"({"from_logits": true})", nullptr, true},
    {"compat.v1.nn.softmax_cross_entropy_with_logits_v2", kNn, "CategoricalCrossentropy", "labels logits", "axis",
     R"({"from_logits": true})", nullptr, true},
    {"compat.v1.nn.embedding_lookup", kNumpy, "Take", "params ids", "partition_strategy", R"({"axis": 0})",
     of_one_table, true},
    {"compat.v1.nn.softmax", kNn, "Softmax", "logits", "axis"},
    {"compat.v1.where", kNumpy, "Where", "condition x y", ""},
    {"compat.v1.nn.depth_to_space", kNn, "DepthToSpace", "input", "block_size"},
    {"compat.v1.nn.space_to_depth", kNn, "SpaceToDepth", "input", "block_size"},
    {"image.rgb_to_grayscale", kImage, "RGBToGrayscale", "images", "", "", nullptr, true},
    {"image.rgb_to_hsv", kImage, "RGBToHSV", "images", "", "", nullptr, true},
    {"image.hsv_to_rgb", kImage, "HSVToRGB", "images", "", "", nullptr, true},
    {"image.transpose", kNumpy, "Transpose", "image", "", R"({"axes": [0, 2, 1, 3]})", nullptr, true},
    {"image.crop_to_bounding_box", kImage, "CropImages", "image",
     "offset_height=top_cropping offset_width=left_cropping target_height target_width", "", nullptr, true},
    {"image.pad_to_bounding_box", kImage, "PadImages", "image",
     "offset_height=top_padding offset_width=left_padding target_height target_width", "", nullptr, true},
    {"image.extract_patches", kImage, "ExtractPatches", "images", "sizes=size strides rates=dilation_rate padding", "",
     change_windows, true},
};

bool is_function(const Json& entry) {
  const Json name = entry.is_object() ? entry.value("class_name", Json()) : Json();
  return name == Json("TFOpLambda") || name == Json("SlicingOpLambda");
}

bool is_reference(const Json& json) {
  return json.is_array() && json.size() >= 3 && json[0].is_string() && json[1].is_number_integer() &&
         json[2].is_number_integer();
}

// A constant is given as ["_CONSTANT_VALUE", -1, value, …].
constexpr std::string_view kConstant = "_CONSTANT_VALUE";

bool is_constant(const Json& json) {
  return json.is_array() && json.size() >= 3 && json[0] == Json(std::string(kConstant));
}

class Operations {
 public:
  explicit Operations(Json& functional) : config_(functional) {}

  void run() {
    Json kept = Json::array();
    for (const Json& entry : config_["layers"]) collect(entry);
    for (const Json& entry : config_["layers"]) {
      if (!sizes_.contains(text_of(entry, "name"))) kept.push_back(is_function(entry) ? changed(entry) : entry);
    }
    config_["layers"] = std::move(kept);
  }

 private:
  // Notes nested models, whose calls Keras 2 counts from 1, and what is computed of the shape of a tensor.
  void collect(const Json& entry) {
    const std::string name = text_of(entry, "name");
    if (entry.contains("config") && entry["config"].is_object() && entry["config"].contains("layers"))
      models_.insert(name);
    if (!is_function(entry)) return;
    const std::string function = text_of(entry["config"], "function");
    const Json& nodes = entry.value("inbound_nodes", Json::array());
    if (!nodes.is_array() || nodes.size() != 1) return;
    if (function == "compat.v1.shape" || function == "shape") {
      sizes_.insert(name);
      return;
    }
    const std::vector<Json> given = values_of(nodes[0]);
    const auto is_size = [&](const Json& value) {
      return is_reference(value) && !is_constant(value) && sizes_.contains(value[0].get<std::string>());
    };
    const auto is_number = [](const Json& value) { return !is_reference(value) || is_constant(value); };
    if (std::none_of(given.begin(), given.end(), is_size)) return;
    if (!std::all_of(given.begin(), given.end(), [&](const Json& v) { return is_size(v) || is_number(v); })) return;
    sizes_.insert(name);
    if (function == "__operators__.getitem") note_batch_size(name, nodes[0]);
    if (function != "stack") return;
    Json& list = stacks_[name] = Json::array();
    for (const Json& value : given) list.push_back(is_constant(value) ? value[2] : value);
  }

  // tf.shape(x)[0]
  void note_batch_size(const std::string& name, const Json& node) {
    const Json& head = is_reference(node) ? node : node[0];
    const Json spec = head.size() > 3 && head[3].is_object() ? head[3].value("slice_spec", Json()) : Json();
    if (spec == Json(0) || spec == Json::array({0})) batch_sizes_.insert(name);
  }
  bool is_batch_size(const Json& given) const {
    return is_reference(given) && batch_sizes_.contains(given[0].get<std::string>());
  }

  // The tensors and constants of a call: the first argument, or its list, and the keywords.
  static std::vector<Json> values_of(const Json& node) {
    std::vector<Json> out;
    const bool single = is_reference(node) || is_constant(node);
    if (!node.is_array() || node.size() == 0) return out;
    const Json& head = single ? node : node[0];
    if (single) {
      out.push_back(node);
    } else {
      for (const Json& each : node) out.push_back(each);
    }
    if (!head.is_array() || head.size() < 4 || !head[3].is_object()) return out;
    for (const auto& [key, value] : head[3].items()) {
      if (is_reference(value)) out.push_back(value);
    }
    return out;
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw_unimplemented(fmt::format("layer '{}' calls tf.{}: {}", name_, function_, why));
  }

  Json changed(const Json& entry) {
    name_ = text_of(entry, "name");
    function_ = text_of(entry["config"], "function");
    const auto row = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                  [&](const OldFunction& each) { return each.function == function_; });
    if (row == std::end(kFunctions)) fail("this function of TensorFlow has no counterpart in lockstep");
    Json nodes = Json::array();
    Json object = {{"module", std::string(row->module)}, {"class_name", std::string(row->class_name)}};
    for (const Json& node : entry.value("inbound_nodes", Json::array())) {
      OperationCall call = bound(*row, node);
      nodes.push_back({{"args", call.args}, {"kwargs", Json::object()}});
      for (const char* key : {"class_name", "module"}) {
        if (!call.config.contains(key)) continue;
        object[key] = call.config[key];
        call.config.erase(key);
      }
      if (!call.dtypes.is_null()) object["dtypes_of_keras2"] = call.dtypes;
      if (object.contains("config") && object["config"] != call.config) fail("two calls have other arguments");
      object["config"] = call.config;
    }
    if (object["module"] != Json(std::string(kLayers))) object["registered_name"] = object["class_name"];
    object["name"] = name_;
    object["config"]["name"] = name_;
    object["inbound_nodes"] = std::move(nodes);
    return object;
  }

  // A node is [layer, call, output, {keywords}], or a list of these where the first argument is a list.
  OperationCall bound(const OldFunction& row, const Json& node) {
    if (!node.is_array() || node.size() == 0) fail("the call has no inputs");
    const bool single = is_reference(node) || is_constant(node);
    const Json& head = single ? node : node[0];
    const Json keywords = head.is_array() && head.size() > 3 ? head[3] : Json::object();
    Json first;
    if (single) {
      first = operand(Json::array({node[0], node[1], node[2]}));
    } else {
      first = Json::array();
      for (const Json& each : node) first.push_back(operand(Json::array({each[0], each[1], each[2]})));
    }
    OperationCall call;
    call.config = row.fixed.empty() ? Json::object() : Json::parse(row.fixed);
    call.config["name"] = name_;
    const std::vector<std::string> operands = words(row.operands);
    std::set<std::string> used = {"name"};
    for (std::size_t i = 0; i < operands.size(); ++i) {
      used.insert(operands[i]);
      const Json given = i == 0 ? first : keywords.value(operands[i], Json());
      if (i == 0) call.args.push_back(first);
      if (i == 0) continue;
      if (given.is_null() && operands[i] != "slice_spec") {
        if (operands[i] == "constant_values") continue;
        fail(fmt::format("argument '{}' is missing", operands[i]));
      }
      call.args.push_back(operands[i] == "slice_spec" ? index(given) : operand(given));
    }
    for (const std::string& argument : words(row.arguments)) {
      const auto equals = argument.find('=');
      const std::string from = argument.substr(0, equals);
      used.insert(from);
      Json given = keywords.value(from, Json());
      if (is_reference(given) && stacks_.contains(given[0].get<std::string>()))
        given = stacks_.at(given[0].get<std::string>());
      if (row.class_name == "Reshape" && given.is_array() && given.size() > 0 && is_batch_size(given[0]))
        given[0] = Json{{"class_name", kBatchSize}};
      if (!given.is_null()) call.config[equals == std::string::npos ? from : argument.substr(equals + 1)] = given;
    }
    for (const auto& [key, value] : keywords.items()) {
      // Of arguments without counterpart, the default is null, false or 0.
      if (!used.contains(key) && !value.is_null() && value != Json(false) && value != Json(0))
        fail(fmt::format("argument '{}' is {}, which has no counterpart", key, dump_json(value).substr(0, 60)));
    }
    if (row.change) row.change(call);
    for (const auto& [key, value] : call.config.items()) {
      if (is_reference(value)) fail(fmt::format("argument '{}' is a tensor", key));
    }
    return call;
  }

  // A tensor, a number, or an array of numbers.
  Json operand(const Json& given) {
    if (is_constant(given)) return operand(given[2]);
    if (is_reference(given)) {
      const std::string layer = given[0].get<std::string>();
      if (sizes_.contains(layer)) fail("an argument is computed of the shape of a tensor");
      const std::int64_t call = given[1].get<std::int64_t>() - (models_.contains(layer) ? 1 : 0);
      return {{"class_name", "__keras_tensor__"},
              {"config", {{"keras_history", Json::array({layer, std::max<std::int64_t>(call, 0), given[2]})}}}};
    }
    if (!given.is_array()) return given;
    const Json* leaf = &given;
    while (leaf->is_array() && leaf->size() > 0) leaf = &(*leaf)[0];
    if (leaf->is_string()) fail("a list of tensors is given where one is expected");
    const char* dtype = leaf->is_boolean() ? "bool" : leaf->is_number_integer() ? "int32" : "float32";
    return {{"class_name", "__numpy__"}, {"config", {{"value", given}, {"dtype", dtype}}}};
  }

  // One entry of an index, or a list of them.
  Json index(const Json& given) {
    if (given.is_array() && !is_reference(given)) {
      Json out = Json::array();
      for (const Json& each : given) out.push_back(index(each));
      return out;
    }
    if (is_reference(given)) fail("an index is a tensor");
    if (!given.is_object()) return given;
    if (given.value("class_name", Json()) == Json("__ellipsis__"))
      return {{"class_name", "__ellipsis__"}, {"config", Json::object()}};
    for (const auto& [key, value] : given.items()) {
      if (is_reference(value)) fail("an index is a tensor");
    }
    return {{"class_name", "__slice__"}, {"config", given}};
  }

  Json& config_;
  std::set<std::string> models_;
  std::set<std::string> sizes_;         // layers that compute sizes of tensors
  std::set<std::string> batch_sizes_;   // of these, sizes of first axes
  std::map<std::string, Json> stacks_;  // of these, lists of sizes and numbers
  std::string name_, function_;
};

// (x - y)² as two functions, since keras.ops has none for both.
void split_squared_differences(Json& layers) {
  Json out = Json::array();
  for (const Json& entry : layers) {
    if (!is_function(entry) || text_of(entry["config"], "function") != "math.squared_difference") {
      out.push_back(entry);
      continue;
    }
    Json difference = entry, square = entry;
    const std::string name = text_of(entry, "name"), inner = name + "_difference";
    difference["name"] = difference["config"]["name"] = inner;
    difference["config"]["function"] = "math.subtract";
    square["config"]["function"] = "math.square";
    Json calls = Json::array();
    for (std::size_t i = 0; i < entry.value("inbound_nodes", Json::array()).size(); ++i)
      calls.push_back(Json::array({inner, i, 0, Json::object()}));
    square["inbound_nodes"] = std::move(calls);
    out.push_back(std::move(difference));
    out.push_back(std::move(square));
  }
  layers = std::move(out);
}

}  // namespace

std::span<const OldFunction> functions_of_tensorflow() { return kFunctions; }

void change_operations(Json& functional) {
  if (!functional["layers"].is_array()) return;
  change_op_layers(functional);
  split_squared_differences(functional["layers"]);
  const Json& layers = functional["layers"];
  if (std::any_of(layers.begin(), layers.end(), is_function)) Operations(functional).run();
}

}  // namespace lockstep::saving
