// Random changes of the messages of TensorFlow's graphs.
#pragma once

#include <string>
#include <vector>

#include "fuzz/execution/choices.h"
#include "lockstep/formats/proto/graph.pb.h"

namespace lockstep::fuzz {

// The names of the attributes in alphabetical order: that of the map differs from run to run.
std::vector<std::string> attr_names(const tensorflow::NodeDef& node);
// Adds an axis, or changes the extent of one.
void change_shape(Choices& choices, tensorflow::TensorShapeProto& shape);
// Changes one to four nodes of the graph and its functions: an attribute, an input, a constant, the operation, which
// becomes another node's or one of `operations`.
void change_graph(Choices& choices, tensorflow::GraphDef& graph, const std::vector<std::string>& operations);

}  // namespace lockstep::fuzz
