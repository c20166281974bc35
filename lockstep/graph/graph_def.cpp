#include "lockstep/graph/graph_def_internal.h"

#include <algorithm>
#include <charconv>
#include <span>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/graph_files_internal.h"
#include "lockstep/graph/attr_proto_internal.h"
#include "lockstep/graph/collective_ops_internal.h"
#include "lockstep/io/file_system.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/check_internal.h"
#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

constexpr int kProducer = 1286;  // graph version of TensorFlow 2.11: accepted by it and all later ones
constexpr int kMinConsumer = 12;
const std::string kOutputShapes = "_output_shapes";
const std::string kUserName = "_user_specified_name";

const ops::Signature* signature_of(const std::string& op) {
  const ops::Op* row = ops::Table::instance().find(op);
  return row ? row->signature : nullptr;
}

// How many tensors an output argument stands for.
int width_of(const ops::ArgDef& arg, const ops::Signature& signature, const ops::Attrs& attrs, std::string_view what) {
  try {
    return static_cast<int>(ops::list_length(signature, arg, attrs));
  } catch (const Error& error) {
    throw_error(error.code(), fmt::format("{}: {}", what, error.message()));
  }
}

// Resolves "arg", "node:out:k" and "^node" of a function's body.
class BodyNames {
 public:
  BodyNames(const Graph& body, const tensorflow::FunctionDefLibrary& library, std::string_view what)
      : body_(body), library_(library), what_(what) {}

  Output output(std::string_view text) const {
    const std::size_t first = text.find(':');
    const int id = node(text.substr(0, first));
    const Node& found = body_.node(id);
    if (found.op == "_Arg") return {id, 0};
    const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
    if (second == std::string_view::npos) {
      throw_invalid_argument(fmt::format("{}: input '{}' does not have the form node:output:number", what_, text));
    }
    int number = -1;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + second + 1, end, number);
    if (error != std::errc() || rest != end || number < 0 || number >= ops::kMaxListLength) {
      throw_invalid_argument(fmt::format("{}: input '{}' has no valid output number", what_, text));
    }
    return {id, first_of(found, text.substr(first + 1, second - first - 1)) + number};
  }

  int node(std::string_view name) const {
    const int id = body_.find(name);
    if (id < 0) throw_invalid_argument(fmt::format("{}: input '{}' is not found", what_, name));
    return id;
  }

 private:
  int first_of(const Node& found, std::string_view argument) const {
    const ops::Signature* signature = signature_of(found.op);
    int first = 0;
    if (signature) {
      for (const ops::ArgDef& arg : signature->outputs) {
        if (arg.name == argument) return first;
        first += width_of(arg, *signature, found.attrs, what_);
      }
      throw_invalid_argument(fmt::format("{}: {} has no output '{}'", what_, found.op, argument));
    }
    for (const auto& function : library_.function()) {
      if (function.signature().name() != found.op) continue;
      for (const auto& arg : function.signature().output_arg()) {
        if (arg.name() == argument) return first;
        ++first;
      }
    }
    return 0;  // an operation that lockstep has never heard of, most likely with one output
  }

  const Graph& body_;
  const tensorflow::FunctionDefLibrary& library_;
  std::string_view what_;
};

Node node_from_proto(const tensorflow::NodeDef& proto, std::string_view what, const Owner& owner) {
  Node node;
  node.name = proto.name();
  node.op = proto.op();
  node.device = proto.device();
  // Calls of functions have the function's gradient, whatever name an older TensorFlow registered it by.
  const auto gradient = proto.attr().find("_gradient_op_type");
  if (gradient != proto.attr().end() && node.op != "PartitionedCall" && node.op != "StatefulPartitionedCall" &&
      gradient->second.s() != node.op)
    node.gradient = gradient->second.s();
  node.attrs =
      attrs_from_proto(proto.attr(), signature_of(proto.op()), fmt::format("{}, node '{}'", what, proto.name()), owner);
  return node;
}

// A cast to int4 or uint4, which are held in bytes, keeps the low four bits.
void keep_four_bits(Graph& graph, int cast, const tensorflow::NodeDef& proto) {
  const auto type = proto.attr().find("DstT");
  if (proto.op() != "Cast" || type == proto.attr().end()) return;
  const bool is_signed = type->second.type() == tensorflow::DT_INT4;
  if (!is_signed && type->second.type() != tensorflow::DT_UINT4) return;
  const DType dtype = is_signed ? DType::kInt8 : DType::kUInt8;
  const std::string base = graph.node(cast).name;
  const auto add = [&](const char* op, std::vector<Output> inputs, std::vector<int> after = {}) {
    Node node;
    node.name = graph.unique_name(base + "/" + op);
    node.op = op;
    node.inputs = std::move(inputs);
    node.control_inputs = std::move(after);
    node.attrs.set(node.op == "Const" ? "dtype" : "T", dtype);
    return graph.add(std::move(node));
  };
  Node narrow = graph.node(cast);
  narrow.name = graph.unique_name(base + "/narrow");
  const int bytes = graph.add(std::move(narrow));
  const auto number = [&](int value) {
    const int id = add("Const", {}, {bytes});
    const auto byte = static_cast<std::uint8_t>(value);
    graph.node(id).attrs.set(
        "value", Tensor::from_data(formats::TensorData::copy_of(dtype, Shape{}, std::as_bytes(std::span(&byte, 1)))));
    return Output{id, 0};
  };
  int last = add("BitwiseAnd", {{bytes, 0}, number(15)});
  if (is_signed) {
    last = add("BitwiseXor", {{last, 0}, number(8)});
    last = add("Sub", {{last, 0}, number(8)});
  }
  Node& node = graph.node(cast);
  node.inputs = {{last, 0}};
  node.control_inputs.clear();
  node.attrs.set("SrcT", dtype);
}

std::shared_ptr<const Function> function_from_proto(const tensorflow::FunctionDef& proto,
                                                    const tensorflow::FunctionDefLibrary& library,
                                                    std::string_view file, const Owner& owner) {
  auto function = std::make_shared<Function>();
  function->name = proto.signature().name();
  function->stateful = proto.signature().is_stateful();
  const std::string what = fmt::format("{}, function '{}'", file, function->name);
  for (int i = 0; i < proto.signature().input_arg_size(); ++i) {
    const auto& arg = proto.signature().input_arg(i);
    Argument argument;
    argument.name = arg.name();
    argument.dtype = dtype_from_proto(arg.type());
    const auto attrs = proto.arg_attr().find(static_cast<std::uint32_t>(i));
    if (attrs != proto.arg_attr().end()) {
      const auto shapes = attrs->second.attr().find(kOutputShapes);
      if (shapes != attrs->second.attr().end() && shapes->second.list().shape_size() == 1) {
        argument.shape = shape_from_proto(shapes->second.list().shape(0));
      }
      const auto user = attrs->second.attr().find(kUserName);
      if (user != attrs->second.attr().end()) argument.user_name = user->second.s();
    }
    if (arg.handle_data_size() == 1) {
      argument.handle =
          TensorSpec(shape_from_proto(arg.handle_data(0).shape()), dtype_from_proto(arg.handle_data(0).dtype()));
    }
    Node node;
    node.name = arg.name();
    node.op = "_Arg";
    node.attrs.set("T", argument.dtype);
    node.attrs.set("index", std::int64_t{i});
    function->body.add(std::move(node));
    function->arguments.push_back(std::move(argument));
  }
  for (const auto& node : proto.node_def()) function->body.add(node_from_proto(node, what, owner));
  const BodyNames names(function->body, library, what);
  const int arguments = proto.signature().input_arg_size();
  for (int i = 0; i < proto.node_def_size(); ++i) {
    Node& node = function->body.node(arguments + i);
    for (const std::string& input : proto.node_def(i).input()) {
      if (input.starts_with("^")) {
        node.control_inputs.push_back(names.node(std::string_view(input).substr(1)));
      } else {
        node.inputs.push_back(names.output(input));
      }
    }
  }
  for (int i = 0; i < proto.node_def_size(); ++i) keep_four_bits(function->body, arguments + i, proto.node_def(i));
  for (const auto& arg : proto.signature().output_arg()) {
    const auto value = proto.ret().find(arg.name());
    if (value == proto.ret().end())
      throw_invalid_argument(fmt::format("{}: output '{}' has no value", what, arg.name()));
    function->results.push_back({arg.name(), dtype_from_proto(arg.type()), names.output(value->second)});
  }
  for (const auto& [name, node] : proto.control_ret()) function->effects.push_back(names.node(node));
  std::sort(function->effects.begin(), function->effects.end());
  function->body.check(what);
  join_collectives(function->body);
  return function;
}

// "node:out:k" for a flat output number.
std::string body_reference(const Function& function, const FunctionLibrary& library, const Output& output) {
  const Node& node = function.body.node(output.node);
  if (node.op == "_Arg") return function.arguments[static_cast<std::size_t>(output.node)].name;
  if (const ops::Signature* signature = signature_of(node.op)) {
    int first = 0;
    for (const ops::ArgDef& arg : signature->outputs) {
      const int width = width_of(arg, *signature, node.attrs, function.name);
      if (output.output < first + width) return fmt::format("{}:{}:{}", node.name, arg.name, output.output - first);
      first += width;
    }
  } else if (const auto called = library.find(node.op)) {
    if (output.output < static_cast<int>(called->results.size())) {
      return fmt::format("{}:{}:0", node.name, called->results[static_cast<std::size_t>(output.output)].name);
    }
  }
  throw_internal(
      fmt::format("function '{}': node '{}' ({}) has no output {}", function.name, node.name, node.op, output.output));
}

void node_to_proto(const Node& node, tensorflow::NodeDef* proto) {
  proto->set_name(node.name);
  proto->set_op(node.op);
  proto->set_device(node.device);
  attrs_to_proto(node.attrs, signature_of(node.op), proto->mutable_attr());
  if (!node.gradient.empty()) (*proto->mutable_attr())["_gradient_op_type"].set_s(node.gradient);
}

// Before this version of TensorFlow's graphs, placeholders of unknown rank were written like scalars.
constexpr int kScalarPlaceholders = 22;
void forget_scalar_shape(Node& node) {
  if (node.op != "Placeholder") return;
  const ops::Attr* attr = node.attrs.find("shape");
  const Shape* shape = attr ? std::get_if<Shape>(attr) : nullptr;
  if (shape && shape->known_rank() && shape->rank() == 0) node.attrs.set("shape", Shape::unknown_rank());
}

// The function that a library has for the gradient of the one that a SymbolicGradient names; empty if there is none.
std::string gradient_function(const tensorflow::NodeDef& node, const tensorflow::FunctionDefLibrary& library) {
  const auto function = node.attr().find("f");
  if (node.op() != "SymbolicGradient" || function == node.attr().end()) return "";
  for (const auto& each : library.gradient()) {
    if (each.function_name() != function->second.func().name()) continue;
    const auto is_it = [&](const auto& own) { return own.signature().name() == each.gradient_func(); };
    const bool known = std::any_of(library.function().begin(), library.function().end(), is_it);
    return known && !ops::Table::instance().find(each.gradient_func()) ? each.gradient_func() : "";
  }
  return "";
}

// TensorFlow calls the gradient functions of a library in place of derivatives, inside of other functions too.
void check_symbolic_gradient(const tensorflow::NodeDef& node, const tensorflow::FunctionDefLibrary& library,
                             std::string_view what) {
  if (library.gradient().empty() || node.op() != "SymbolicGradient") return;
  throw_unimplemented(
      fmt::format("{}: node '{}' is a SymbolicGradient, and the function library has gradient functions (of '{}'), "
                  "which are supported as the gradients of that function itself only",
                  what, node.name(), library.gradient(0).function_name()));
}

}  // namespace

Graph graph_from_proto(const tensorflow::GraphDef& proto, std::string_view what, const Owner& owner) {
  const RepeatedConstants limit;
  Graph graph;
  for (const auto& node : proto.node()) {
    const std::string gradient = gradient_function(node, proto.library());
    if (gradient.empty()) check_symbolic_gradient(node, proto.library(), what);
    Node made = node_from_proto(node, what, owner);
    if (proto.versions().producer() < kScalarPlaceholders) forget_scalar_shape(made);
    if (!gradient.empty()) made.op = gradient, made.attrs = {};
    graph.add(std::move(made));
  }
  for (int i = 0; i < proto.node_size(); ++i) {
    Node& node = graph.node(i);
    for (const std::string& input : proto.node(i).input()) {
      try {
        if (input.starts_with("^")) {
          node.control_inputs.push_back(graph.parse_output(std::string_view(input).substr(1)).node);
        } else {
          node.inputs.push_back(graph.parse_output(input));
        }
      } catch (const Error& error) {
        throw_invalid_argument(
            fmt::format("{}: node '{}' has input '{}', which is not in the graph", what, node.name, input));
      }
    }
  }
  for (int i = 0; i < proto.node_size(); ++i) keep_four_bits(graph, i, proto.node(i));
  graph.check(what);
  join_collectives(graph);
  return graph;
}

FunctionLibrary library_from_proto(const tensorflow::FunctionDefLibrary& proto, std::string_view what,
                                   const Owner& owner) {
  const RepeatedConstants limit;
  FunctionLibrary library;
  for (const auto& function : proto.function()) {
    const std::string& name = function.signature().name();
    if (ops::Table::instance().find(name) != nullptr) {
      throw_invalid_argument(fmt::format(
          "{}: function '{}' of the library has the name of an operation, expected another name", what, name));
    }
    for (const auto& node : function.node_def()) check_symbolic_gradient(node, proto, what);
    library.add(function_from_proto(function, proto, what, owner));
  }
  return library;
}

void graph_to_proto(const Graph& graph, tensorflow::GraphDef* proto) {
  for (const Node& node : graph.nodes()) {
    tensorflow::NodeDef* target = proto->add_node();
    node_to_proto(node, target);
    for (const Output& input : node.inputs) {
      const std::string& name = graph.node(input.node).name;
      target->add_input(input.output == 0 ? name : fmt::format("{}:{}", name, input.output));
    }
    for (int control : node.control_inputs) target->add_input(fmt::format("^{}", graph.node(control).name));
  }
  proto->mutable_versions()->set_producer(kProducer);
  proto->mutable_versions()->set_min_consumer(kMinConsumer);
}

void function_to_proto(const Function& function, const FunctionLibrary& library, tensorflow::FunctionDef* proto) {
  proto->mutable_signature()->set_name(function.name);
  proto->mutable_signature()->set_is_stateful(function.stateful);
  for (std::size_t i = 0; i < function.arguments.size(); ++i) {
    const Argument& argument = function.arguments[i];
    auto* arg = proto->mutable_signature()->add_input_arg();
    arg->set_name(argument.name);
    arg->set_type(static_cast<tensorflow::DataType>(argument.dtype));
    if (argument.handle) {
      auto* data = arg->add_handle_data();
      data->set_dtype(static_cast<tensorflow::DataType>(argument.handle->dtype));
      shape_to_proto(argument.handle->shape, data->mutable_shape());
    }
    auto& attrs = *(*proto->mutable_arg_attr())[static_cast<std::uint32_t>(i)].mutable_attr();
    if (!argument.user_name.empty()) attrs[kUserName].set_s(argument.user_name);
    const Shape& shape = argument.dtype == DType::kResource || !argument.shape ? Shape{} : *argument.shape;
    if (argument.dtype == DType::kResource || argument.shape) {
      shape_to_proto(shape, attrs[kOutputShapes].mutable_list()->add_shape());
    }
  }
  for (const Result& result : function.results) {
    auto* arg = proto->mutable_signature()->add_output_arg();
    arg->set_name(result.name);
    arg->set_type(static_cast<tensorflow::DataType>(result.dtype));
    (*proto->mutable_ret())[result.name] = body_reference(function, library, result.value);
  }
  for (const Node& node : function.body.nodes()) {
    if (node.op == "_Arg") continue;
    tensorflow::NodeDef* target = proto->add_node_def();
    node_to_proto(node, target);
    for (const Output& input : node.inputs) target->add_input(body_reference(function, library, input));
    for (int control : node.control_inputs) target->add_input(fmt::format("^{}", function.body.node(control).name));
  }
  for (int effect : function.effects) {
    const std::string& name = function.body.node(effect).name;
    proto->mutable_signature()->add_control_output(name);
    (*proto->mutable_control_ret())[name] = name;
  }
}

GraphAndLibrary parse_graph_def(std::string_view bytes, std::string_view what) {
  auto proto = std::make_shared<tensorflow::GraphDef>();
  formats::parse_graph_file(*proto, io::as_bytes(bytes), what);
  GraphAndLibrary result;
  result.library = library_from_proto(proto->library(), what, proto);
  result.graph = graph_from_proto(*proto, what, proto);
  return result;
}

}  // namespace lockstep::graph
