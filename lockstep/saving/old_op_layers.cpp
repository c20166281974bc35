#include "lockstep/saving/old_op_layers_internal.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/node_def.pb.h"
#include "lockstep/saving/old_json_internal.h"

namespace lockstep::saving {
namespace {

// An operation as the function of TensorFlow that a TFOpLambda names.
struct OpRow {
  std::string_view op;
  std::string_view function;
  // The function's parameters for the inputs, in their order. "*": a list of all inputs that the others leave; "^": the
  // parameter that comes first, if that is not the first input.
  std::string_view inputs;
  std::string_view attributes = "";  // attribute=parameter, …
};

constexpr OpRow kOps[] = {
    {"Add", "math.add", "x y"},
    {"AddV2", "math.add", "x y"},
    {"BiasAdd", "nn.bias_add", "value bias"},
    {"Sub", "math.subtract", "x y"},
    {"Mul", "math.multiply", "x y"},
    {"RealDiv", "math.divide", "x y"},
    {"FloorDiv", "math.floordiv", "x y"},
    {"FloorMod", "math.floormod", "x y"},
    {"Pow", "math.pow", "x y"},
    {"SquaredDifference", "math.squared_difference", "x y"},
    {"Maximum", "math.maximum", "x y"},
    {"Minimum", "math.minimum", "x y"},
    {"Greater", "math.greater", "x y"},
    {"GreaterEqual", "math.greater_equal", "x y"},
    {"Less", "math.less", "x y"},
    {"LessEqual", "math.less_equal", "x y"},
    {"Equal", "math.equal", "x y"},
    {"NotEqual", "math.not_equal", "x y"},
    {"LogicalAnd", "math.logical_and", "x y"},
    {"LogicalOr", "math.logical_or", "x y"},
    {"LogicalNot", "math.logical_not", "x"},
    {"AddN", "math.add_n", "*inputs"},
    {"Identity", "identity", "input"},
    {"StopGradient", "stop_gradient", "input"},
    {"Neg", "math.negative", "x"},
    {"Abs", "math.abs", "x"},
    {"Sign", "math.sign", "x"},
    {"Square", "math.square", "x"},
    {"Sqrt", "math.sqrt", "x"},
    {"Rsqrt", "math.rsqrt", "x"},
    {"Reciprocal", "math.reciprocal", "x"},
    {"Exp", "math.exp", "x"},
    {"Expm1", "math.expm1", "x"},
    {"Log", "math.log", "x"},
    {"Log1p", "math.log1p", "x"},
    {"Sin", "math.sin", "x"},
    {"Cos", "math.cos", "x"},
    {"Tan", "math.tan", "x"},
    {"Tanh", "math.tanh", "x"},
    {"Floor", "math.floor", "x"},
    {"Ceil", "math.ceil", "x"},
    {"Erf", "math.erf", "x"},
    {"Sigmoid", "math.sigmoid", "x"},
    {"Relu", "nn.relu", "features"},
    {"Relu6", "nn.relu6", "features"},
    {"Elu", "nn.elu", "features"},
    {"Selu", "nn.selu", "features"},
    {"Softplus", "math.softplus", "features"},
    {"Softsign", "nn.softsign", "features"},
    {"LeakyRelu", "nn.leaky_relu", "features", "alpha"},
    {"Softmax", "nn.softmax", "logits"},
    {"LogSoftmax", "nn.log_softmax", "logits"},
    {"Mean", "math.reduce_mean", "input_tensor axis", "keep_dims=keepdims"},
    {"Sum", "math.reduce_sum", "input_tensor axis", "keep_dims=keepdims"},
    {"Max", "math.reduce_max", "input_tensor axis", "keep_dims=keepdims"},
    {"Min", "math.reduce_min", "input_tensor axis", "keep_dims=keepdims"},
    {"Prod", "math.reduce_prod", "input_tensor axis", "keep_dims=keepdims"},
    {"Any", "math.reduce_any", "input_tensor axis", "keep_dims=keepdims"},
    {"All", "math.reduce_all", "input_tensor axis", "keep_dims=keepdims"},
    {"ArgMax", "math.argmax", "input axis", "output_type"},
    {"ArgMin", "math.argmin", "input axis", "output_type"},
    {"Cumsum", "math.cumsum", "x axis", "exclusive reverse"},
    {"MatMul", "linalg.matmul", "a b", "transpose_a transpose_b"},
    {"BatchMatMul", "linalg.matmul", "a b", "adj_x=transpose_a adj_y=transpose_b"},
    {"BatchMatMulV2", "linalg.matmul", "a b", "adj_x=transpose_a adj_y=transpose_b"},
    {"ConcatV2", "concat", "*values axis"},
    {"Pack", "stack", "*values", "axis"},
    {"Unpack", "unstack", "value", "axis num"},
    {"Split", "split", "axis ^value", "num_split=num_or_size_splits"},
    {"SplitV", "split", "value num_or_size_splits axis"},
    {"Shape", "shape", "input"},
    {"Reshape", "reshape", "tensor shape"},
    {"ExpandDims", "expand_dims", "input axis"},
    {"Squeeze", "squeeze", "input", "squeeze_dims=axis"},
    {"Transpose", "transpose", "a perm"},
    {"ReverseV2", "reverse", "tensor axis"},
    {"Tile", "tile", "input multiples"},
    {"Pad", "pad", "tensor paddings"},
    {"PadV2", "pad", "tensor paddings constant_values"},
    {"MirrorPad", "pad", "tensor paddings", "mode"},
    {"GatherV2", "gather", "params indices axis", "batch_dims"},
    {"Select", "where", "condition x y"},
    {"SelectV2", "where", "condition x y"},
    {"ClipByValue", "clip_by_value", "t clip_value_min clip_value_max"},
    {"ZerosLike", "zeros_like", "input"},
    {"OnesLike", "ones_like", "input"},
    {"Cast", "cast", "x", "DstT=dtype"},
    {"DepthToSpace", "nn.depth_to_space", "input", "block_size"},
    {"SpaceToDepth", "nn.space_to_depth", "input", "block_size"},
    {"ResizeBilinear", "image.resize", "images size", "align_corners half_pixel_centers"},
    {"ResizeNearestNeighbor", "image.resize", "images size", "align_corners half_pixel_centers"},
    {"ResizeBicubic", "image.resize", "images size", "align_corners half_pixel_centers"},
    {"StridedSlice", "__operators__.getitem", "tensor begin end strides",
     "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask"},
};

bool is_op_layer(const Json& entry) {
  return entry.is_object() && entry.value("class_name", Json()) == Json("TensorFlowOpLayer");
}

// Protocol Buffers writes 64-bit integers as text in JSON.
Json number(const Json& value) {
  if (!value.is_string()) return value;
  const std::string& text = value.text();
  std::int64_t found = 0;
  const auto end = text.data() + text.size();
  return std::from_chars(text.data(), end, found).ptr == end ? Json(found) : value;
}

Json dtype_name(std::string name) {
  if (name.starts_with("DT_")) name = name.substr(3);
  for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return name == "float" ? "float32" : name == "double" ? "float64" : name == "half" ? "float16" : name;
}

// The value of an attribute as JSON of Protocol Buffers; null for kinds that no row uses.
Json attribute_value(const Json& attribute) {
  if (!attribute.is_object()) return nullptr;
  if (const Json list = attribute.value("list", Json()); list.is_object()) {
    Json values = Json::array();
    for (const Json& each : list.value("i", Json::array())) values.push_back(number(each));
    return values.size() == 0 ? Json(nullptr) : values;
  }
  if (const Json type = attribute.value("type", Json()); type.is_string()) return dtype_name(type.text());
  for (const char* kind : {"i", "f", "b"}) {
    if (attribute.contains(kind)) return number(attribute.at(kind));
  }
  return nullptr;
}

// TensorFlow 2.0 and 2.1 saved the serialized message.
Json node_of(const Json& saved, const std::string& layer) {
  if (saved.is_object()) return saved;
  tensorflow::NodeDef node;
  if (!saved.is_string() || !node.ParseFromString(saved.text()))
    throw_invalid_argument(fmt::format("layer '{}' (TensorFlowOpLayer): 'node_def' is not a NodeDef", layer));
  Json attributes = Json::object();
  for (const auto& [name, value] : node.attr()) {
    switch (value.value_case()) {
      case tensorflow::AttrValue::kI: attributes[name] = {{"i", value.i()}}; break;
      case tensorflow::AttrValue::kF: attributes[name] = {{"f", value.f()}}; break;
      case tensorflow::AttrValue::kB: attributes[name] = {{"b", value.b()}}; break;
      case tensorflow::AttrValue::kType: attributes[name] = {{"type", tensorflow::DataType_Name(value.type())}}; break;
      case tensorflow::AttrValue::kList: {
        Json list = Json::array();
        for (const std::int64_t each : value.list().i()) list.push_back(each);
        attributes[name] = {{"list", {{"i", std::move(list)}}}};
        break;
      }
      default: break;
    }
  }
  return {{"op", node.op()}, {"attr", std::move(attributes)}};
}

class OpLayer {
 public:
  explicit OpLayer(const Json& entry) : entry_(entry), name_(entry.at("name").get<std::string>()) {
    const Json& config = entry.at("config");
    constants_ = config.value("constants", Json::object());
    const Json node = node_of(config.value("node_def", Json()), name_);
    op_ = node.value("op", "");
    attributes_ = node.value("attr", Json::object());
    row_ = std::find_if(std::begin(kOps), std::end(kOps), [&](const OpRow& row) { return row.op == op_; });
    if (row_ == std::end(kOps)) fail("it has no counterpart in keras.ops");
  }

  Json function() const {
    Json nodes = Json::array();
    for (const Json& node : entry_.value("inbound_nodes", Json::array())) nodes.push_back(call(node));
    return {{"class_name", op_ == "StridedSlice" ? "SlicingOpLambda" : "TFOpLambda"},
            {"config", {{"name", name_}, {"function", std::string(row_->function)}}},
            {"name", name_},
            {"inbound_nodes", std::move(nodes)}};
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw_unimplemented(fmt::format("layer '{}' runs TensorFlow's operation {}: {}", name_, op_, why));
  }

  // The inputs of the operation: [layer, call, output], or ["_CONSTANT_VALUE", -1, value].
  std::vector<Json> inputs(const Json& node) const {
    std::vector<Json> tensors, all;
    for (const Json& tensor : node) {
      if (!tensor.is_array() || tensor.size() < 3) fail("its inputs are not tensors");
      tensors.push_back(Json::array({tensor[0], tensor[1], tensor[2]}));
    }
    auto tensor = tensors.begin();
    for (std::size_t i = 0; i < tensors.size() + constants_.size(); ++i) {
      if (const std::string key = std::to_string(i); constants_.contains(key)) {
        all.push_back(Json::array({"_CONSTANT_VALUE", -1, constants_.at(key)}));
      } else if (tensor != tensors.end()) {
        all.push_back(*tensor++);
      }
    }
    return all;
  }

  Json attribute(const std::string& key) const { return attribute_value(attributes_.value(key, Json())); }

  Json call(const Json& node) const {
    if (!node.is_array()) fail("its inputs are not tensors");
    const std::vector<Json> given = inputs(node);
    const std::vector<std::string> names = words(row_->inputs);
    Json first, keywords = Json::object();
    std::size_t next = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::size_t after = names.size() - i - 1;
      if (names[i].starts_with('*')) {
        first = Json::array();
        while (next + after < given.size()) first.push_back(given[next++]);
        continue;
      }
      if (next == given.size()) fail(fmt::format("input {} of {} is missing", next, names.size()));
      const bool marked = names[i].starts_with('^');
      if (marked || (i == 0 && row_->inputs.find('^') == std::string_view::npos)) {
        first = given[next++];
      } else {
        const Json& value = given[next++];
        keywords[names[i]] = value[0] == Json("_CONSTANT_VALUE") ? value[2] : value;
      }
    }
    for (const std::string& argument : words(row_->attributes)) {
      const auto equals = argument.find('=');
      const Json value = attribute(argument.substr(0, equals));
      if (!value.is_null()) keywords[equals == std::string::npos ? argument : argument.substr(equals + 1)] = value;
    }
    if (op_ == "StridedSlice") keywords = slices(keywords);
    if (op_.starts_with("Resize")) change_resize(keywords);
    Json out = row_->inputs.starts_with('*') ? first : Json::array({first});
    for (Json& each : out) each.push_back(keywords);
    return row_->inputs.starts_with('*') ? out : out[0];
  }

  // TensorFlow 1 placed pixels in other ways, which image.resize does not have.
  void change_resize(Json& keywords) const {
    if (keywords.value("align_corners", Json(false)) == Json(true) ||
        keywords.value("half_pixel_centers", Json(false)) != Json(true))
      fail("only half_pixel_centers without align_corners has a counterpart in keras.ops");
    keywords.erase("align_corners");
    keywords.erase("half_pixel_centers");
    keywords["method"] = op_ == "ResizeBilinear" ? "bilinear" : op_ == "ResizeBicubic" ? "bicubic" : "nearest";
  }

  // begin, end and strides with their masks, as an index of Python.
  Json slices(const Json& given) const {
    for (const char* key : {"begin", "end", "strides"}) {
      if (!given.at(key).is_array() || given.at(key).size() != given.at("begin").size() ||
          std::any_of(given.at(key).begin(), given.at(key).end(), [](const Json& n) { return !n.is_number_integer(); }))
        fail(fmt::format("'{}' is not constant", key));
    }
    const auto masked = [&](const char* mask, std::size_t i) {
      const Json bits = given.value(mask, Json(0));
      return bits.is_number_integer() && i < 32 && ((bits.get<std::int64_t>() >> i) & 1) == 1;
    };
    Json index = Json::array();
    for (std::size_t i = 0; i < given.at("begin").size(); ++i) {
      if (masked("ellipsis_mask", i)) {
        index.push_back({{"class_name", "__ellipsis__"}});
      } else if (masked("new_axis_mask", i)) {
        index.push_back(nullptr);
      } else if (masked("shrink_axis_mask", i)) {
        index.push_back(given.at("begin")[i]);
      } else {
        index.push_back({{"start", masked("begin_mask", i) ? Json(nullptr) : given.at("begin")[i]},
                         {"stop", masked("end_mask", i) ? Json(nullptr) : given.at("end")[i]},
                         {"step", given.at("strides")[i]}});
      }
    }
    return {{"slice_spec", std::move(index)}};
  }

  const Json& entry_;
  std::string name_, op_;
  Json constants_, attributes_;
  const OpRow* row_ = nullptr;
};

}  // namespace

void change_op_layers(Json& functional) {
  for (Json& entry : functional["layers"]) {
    if (is_op_layer(entry)) entry = OpLayer(entry).function();
  }
}

}  // namespace lockstep::saving
