// op_versions.tsv: an operation, or OPERATION.ATTRIBUTE, and the first of the
// releases 1.4, 1.12, 1.15, 2.2, 2.4, 2.6, 2.8, 2.11, 2.14 and 2.18 whose wheel has it. What 1.4 has is not listed.
#include "lockstep/formats/op_versions_internal.h"

#include <algorithm>
#include <charconv>
#include <map>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/graph.pb.h"

namespace lockstep::formats {

extern const std::string_view kOpVersionLines[];
extern const std::size_t kOpVersionCount;

TensorFlowVersion parse_tensorflow_version(std::string_view text) {
  TensorFlowVersion version;
  const char* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec == std::errc() && major.ptr != end && *major.ptr == '.') {
    const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
    if (minor.ec == std::errc() && version.major >= 0 && version.minor >= 0 &&
        (minor.ptr == end || *minor.ptr == '.' || *minor.ptr == '-')) {
      return version;
    }
  }
  throw_invalid_argument(fmt::format("invalid version of TensorFlow '{}': expected a number such as 2.11", text));
}

namespace {

const std::map<std::string_view, TensorFlowVersion>& first_versions() {
  static const std::map<std::string_view, TensorFlowVersion> table = [] {
    std::map<std::string_view, TensorFlowVersion> rows;
    for (std::size_t i = 0; i < kOpVersionCount; ++i) {
      const std::string_view line = kOpVersionLines[i];
      const std::size_t tab = line.find('\t');
      rows.emplace(line.substr(0, tab), parse_tensorflow_version(line.substr(tab + 1)));
    }
    return rows;
  }();
  return table;
}

}  // namespace

OldestTensorFlow oldest_tensorflow(const tensorflow::GraphDef& graph, bool attributes) {
  std::map<std::string, TensorFlowVersion> needs;
  const auto look = [&](const std::string& name) {
    const auto row = first_versions().find(name);
    if (row != first_versions().end()) needs.emplace(name, row->second);
  };
  const auto add = [&](const tensorflow::NodeDef& node) {
    look(node.op());
    if (!attributes) return;
    for (const auto& [name, value] : node.attr()) look(fmt::format("{}.{}", node.op(), name));
  };
  for (const auto& node : graph.node()) add(node);
  for (const auto& function : graph.library().function()) {
    for (const auto& node : function.node_def()) add(node);
  }
  OldestTensorFlow out;
  for (const auto& [name, version] : needs) out.version = std::max(out.version, version);
  for (const auto& [name, version] : needs) {
    out.newer.emplace_back(name, version);
    if (version == out.version) out.because.push_back(name);
  }
  return out;
}

}  // namespace lockstep::formats
