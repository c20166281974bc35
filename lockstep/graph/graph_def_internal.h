// Graphs and functions from and to TensorFlow's messages. Internal: it pulls protobuf in.
#pragma once

#include <memory>
#include <string_view>

#include "lockstep/formats/proto/graph.pb.h"
#include "lockstep/graph/graph_internal.h"

namespace lockstep::graph {

// `owner` keeps the message alive: constants share its bytes. Without one they are copied.
using Owner = std::shared_ptr<const void>;

// Limits the memory of the constants that this thread reads while one lives: those that repeat one value for their
// whole shape may take 512 MiB together. (A few bytes of a file can ask for terabytes.)
class RepeatedConstants {
 public:
  RepeatedConstants();
  ~RepeatedConstants();
  RepeatedConstants(const RepeatedConstants&) = delete;
  RepeatedConstants& operator=(const RepeatedConstants&) = delete;

 private:
  std::size_t bytes_ = 0;
  bool outermost_;
};

// Throws DataLoss for a tensor whose values do not fit its shape; ResourceExhausted for one that
// repeats a value into more than 256 MiB, or into more than a RepeatedConstants allows.
Tensor tensor_from_proto(const tensorflow::TensorProto& proto, std::string_view what, const Owner& owner = {});
void tensor_to_proto(const Tensor& tensor, tensorflow::TensorProto* proto);

Shape shape_from_proto(const tensorflow::TensorShapeProto& proto);
void shape_to_proto(const Shape& shape, tensorflow::TensorShapeProto* proto);

// Reference types become their base type; types lockstep has not become kInvalid.
DType dtype_from_proto(int number);

Graph graph_from_proto(const tensorflow::GraphDef& proto, std::string_view what, const Owner& owner = {});
FunctionLibrary library_from_proto(const tensorflow::FunctionDefLibrary& proto, std::string_view what,
                                   const Owner& owner = {});
void graph_to_proto(const Graph& graph, tensorflow::GraphDef* proto);
void function_to_proto(const Function& function, const FunctionLibrary& library, tensorflow::FunctionDef* proto);

}  // namespace lockstep::graph
