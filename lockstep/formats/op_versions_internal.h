// The oldest TensorFlow that knows the operations of a graph.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tensorflow {
class GraphDef;
}

namespace lockstep::formats {

struct TensorFlowVersion {
  int major = 1;
  int minor = 0;
  friend auto operator<=>(const TensorFlowVersion&, const TensorFlowVersion&) = default;
  std::string to_string() const { return std::to_string(major) + "." + std::to_string(minor); }
};

// "2.11" or "2.11.1". Throws InvalidArgument for other text.
TensorFlowVersion parse_tensorflow_version(std::string_view text);

struct OldestTensorFlow {
  TensorFlowVersion version{1, 4};  // older ones are not distinguished
  // Operations, or attributes of them ("MaxPool.explicit_paddings"), that ask for this version, sorted.
  std::vector<std::string> because;
  // All that older versions lack, with the version that each needs.
  std::vector<std::pair<std::string, TensorFlowVersion>> newer;
};

// `attributes`: attributes count too; of a graph without attributes that have their default.
OldestTensorFlow oldest_tensorflow(const tensorflow::GraphDef& graph, bool attributes);

}  // namespace lockstep::formats
