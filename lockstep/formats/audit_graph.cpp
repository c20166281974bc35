// Graphs: operations that reach beyond the model's own values.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/formats/audit_internal.h"
#include "lockstep/formats/proto/meta_graph.pb.h"

namespace lockstep::formats {
namespace {

using Risk = AuditFinding::Risk;
using Nodes = google::protobuf::RepeatedPtrField<tensorflow::NodeDef>;

struct OpRow {
  std::string_view op;
  Risk risk;
};

// TensorFlow's kernels of these operations. Sorted by name.
constexpr std::array kOps = {
    OpRow{"Barrier", Risk::kMemory},
    OpRow{"BigQueryReader", Risk::kNetwork},
    OpRow{"CSVDataset", Risk::kFileRead},
    OpRow{"CSVDatasetV2", Risk::kFileRead},
    OpRow{"CacheDataset", Risk::kFileWrite},
    OpRow{"CacheDatasetV2", Risk::kFileWrite},
    OpRow{"CollectiveInitializeCommunicator", Risk::kNetwork},
    OpRow{"ConfigureDistributedTPU", Risk::kNetwork},
    OpRow{"CreateSummaryDbWriter", Risk::kFileWrite},
    OpRow{"CreateSummaryFileWriter", Risk::kFileWrite},
    OpRow{"DataServiceDataset", Risk::kNetwork},
    OpRow{"DataServiceDatasetV2", Risk::kNetwork},
    OpRow{"DataServiceDatasetV3", Risk::kNetwork},
    OpRow{"DataServiceDatasetV4", Risk::kNetwork},
    OpRow{"DatasetToTFRecord", Risk::kFileWrite},
    OpRow{"DebugIdentity", Risk::kNetwork},
    OpRow{"DebugIdentityV2", Risk::kFileWrite},
    OpRow{"DebugIdentityV3", Risk::kNetwork},
    OpRow{"DebugNanCount", Risk::kNetwork},
    OpRow{"DebugNumericSummary", Risk::kNetwork},
    OpRow{"DistributedSave", Risk::kFileWrite},
    OpRow{"EagerPyFunc", Risk::kPython},
    OpRow{"ExperimentalCSVDataset", Risk::kFileRead},
    OpRow{"ExperimentalDatasetToTFRecord", Risk::kFileWrite},
    OpRow{"ExperimentalLMDBDataset", Risk::kFileRead},
    OpRow{"ExperimentalMatchingFilesDataset", Risk::kFileRead},
    OpRow{"ExperimentalSqlDataset", Risk::kFileRead},
    OpRow{"FIFOQueue", Risk::kMemory},
    OpRow{"FIFOQueueV2", Risk::kMemory},
    OpRow{"FileSystemSetConfiguration", Risk::kNetwork},
    OpRow{"FixedLengthRecordDataset", Risk::kFileRead},
    OpRow{"FixedLengthRecordDatasetV2", Risk::kFileRead},
    OpRow{"FixedLengthRecordReader", Risk::kFileRead},
    OpRow{"FixedLengthRecordReaderV2", Risk::kFileRead},
    OpRow{"GcsConfigureBlockCache", Risk::kNetwork},
    OpRow{"GcsConfigureCredentials", Risk::kNetwork},
    OpRow{"GenerateVocabRemapping", Risk::kFileRead},
    OpRow{"ImmutableConst", Risk::kFileRead},
    OpRow{"ImportEvent", Risk::kFileWrite},
    OpRow{"InitializeTableFromTextFile", Risk::kFileRead},
    OpRow{"InitializeTableFromTextFileV2", Risk::kFileRead},
    OpRow{"LMDBDataset", Risk::kFileRead},
    OpRow{"LMDBReader", Risk::kFileRead},
    OpRow{"ListDataset", Risk::kMemory},
    OpRow{"LoadAndRemapMatrix", Risk::kFileRead},
    OpRow{"LoadDataset", Risk::kFileRead},
    OpRow{"MapStage", Risk::kMemory},
    OpRow{"MatchingFiles", Risk::kFileRead},
    OpRow{"MatchingFilesDataset", Risk::kFileRead},
    OpRow{"MergeV2Checkpoints", Risk::kFileWrite},
    OpRow{"OrderedMapStage", Risk::kMemory},
    OpRow{"PaddingFIFOQueue", Risk::kMemory},
    OpRow{"PaddingFIFOQueueV2", Risk::kMemory},
    OpRow{"PriorityQueue", Risk::kMemory},
    OpRow{"PriorityQueueV2", Risk::kMemory},
    OpRow{"PyFunc", Risk::kPython},
    OpRow{"PyFuncStateless", Risk::kPython},
    OpRow{"RandomShuffleQueue", Risk::kMemory},
    OpRow{"RandomShuffleQueueV2", Risk::kMemory},
    OpRow{"ReadFile", Risk::kFileRead},
    OpRow{"RecordInput", Risk::kFileRead},
    OpRow{"Recv", Risk::kNetwork},
    OpRow{"RegisterDataset", Risk::kNetwork},
    OpRow{"RegisterDatasetV2", Risk::kNetwork},
    OpRow{"RemoteCall", Risk::kNetwork},
    OpRow{"RemoteFusedGraphExecute", Risk::kCode},
    OpRow{"Restore", Risk::kFileRead},
    OpRow{"RestoreSlice", Risk::kFileRead},
    OpRow{"RestoreV2", Risk::kFileRead},
    OpRow{"RpcCall", Risk::kNetwork},
    OpRow{"RpcClient", Risk::kNetwork},
    OpRow{"RpcServer", Risk::kNetwork},
    OpRow{"RpcServerStart", Risk::kNetwork},
    OpRow{"Save", Risk::kFileWrite},
    OpRow{"SaveDataset", Risk::kFileWrite},
    OpRow{"SaveDatasetV2", Risk::kFileWrite},
    OpRow{"SaveSlices", Risk::kFileWrite},
    OpRow{"SaveV2", Risk::kFileWrite},
    OpRow{"Send", Risk::kNetwork},
    OpRow{"SnapshotDataset", Risk::kFileWrite},
    OpRow{"SnapshotDatasetV2", Risk::kFileWrite},
    OpRow{"SqlDataset", Risk::kFileRead},
    OpRow{"Stack", Risk::kMemory},
    OpRow{"StackV2", Risk::kMemory},
    OpRow{"Stage", Risk::kMemory},
    OpRow{"TFRecordDataset", Risk::kFileRead},
    OpRow{"TFRecordDatasetV2", Risk::kFileRead},
    OpRow{"TFRecordReader", Risk::kFileRead},
    OpRow{"TFRecordReaderV2", Risk::kFileRead},
    OpRow{"TextLineDataset", Risk::kFileRead},
    OpRow{"TextLineReader", Risk::kFileRead},
    OpRow{"TextLineReaderV2", Risk::kFileRead},
    OpRow{"WholeFileReader", Risk::kFileRead},
    OpRow{"WholeFileReaderV2", Risk::kFileRead},
    OpRow{"WriteAudioSummary", Risk::kFileWrite},
    OpRow{"WriteFile", Risk::kFileWrite},
    OpRow{"WriteGraphSummary", Risk::kFileWrite},
    OpRow{"WriteHistogramSummary", Risk::kFileWrite},
    OpRow{"WriteImageSummary", Risk::kFileWrite},
    OpRow{"WriteRawProtoSummary", Risk::kFileWrite},
    OpRow{"WriteScalarSummary", Risk::kFileWrite},
    OpRow{"WriteSummary", Risk::kFileWrite},
    OpRow{"XlaCustomCall", Risk::kCode},
    OpRow{"XlaCustomCallV2", Risk::kCode},
    OpRow{"_HostRecv", Risk::kNetwork},
    OpRow{"_HostSend", Risk::kNetwork},
    OpRow{"_Recv", Risk::kNetwork},
    OpRow{"_Send", Risk::kNetwork},
};

// Operations of savers. Each SavedModel has them in its functions for saving and restoring, which no signature calls.
constexpr std::array<std::string_view, 3> kSaverOps = {"MergeV2Checkpoints", "RestoreV2", "SaveV2"};

std::string_view sentence(Risk risk) {
  switch (risk) {
    case Risk::kPython: return "calls a Python function";
    case Risk::kFileRead: return "reads files";
    case Risk::kFileWrite: return "writes files";
    case Risk::kNetwork: return "connects to other processes or machines";
    case Risk::kMemory: return "takes memory without bound";
    default: return "runs code that is not part of TensorFlow";
  }
}

const OpRow* find_op(std::string_view op) {
  const auto found = std::lower_bound(kOps.begin(), kOps.end(), op,
                                      [](const OpRow& row, std::string_view name) { return row.op < name; });
  return found != kOps.end() && found->op == op ? &*found : nullptr;
}

std::int64_t int_attr(const tensorflow::NodeDef& node, const char* name, std::int64_t otherwise) {
  const auto found = node.attr().find(name);
  return found == node.attr().end() ? otherwise : found->second.i();
}

bool is_bounded(const tensorflow::NodeDef& node) {
  if (node.op().find("Stage") != std::string::npos) {
    return int_attr(node, "capacity", 0) > 0 || int_attr(node, "memory_limit", 0) > 0;
  }
  return int_attr(node, "capacity", -1) >= 0;
}

std::string input_node(const std::string& input) {
  const std::size_t begin = input.starts_with('^') ? 1 : 0;
  return input.substr(begin, input.find(':') == std::string::npos ? std::string::npos : input.find(':') - begin);
}

// The elements of an integer constant; empty for anything else.
std::vector<std::int64_t> constant_ints(const tensorflow::NodeDef& node) {
  const auto value = node.attr().find("value");
  if (node.op() != "Const" || value == node.attr().end() || !value->second.has_tensor()) return {};
  const auto& tensor = value->second.tensor();
  std::vector<std::int64_t> numbers(tensor.int_val().begin(), tensor.int_val().end());
  numbers.insert(numbers.end(), tensor.int64_val().begin(), tensor.int64_val().end());
  const std::string& content = tensor.tensor_content();
  const std::size_t width = tensor.dtype() == tensorflow::DT_INT64 ? 8 : tensor.dtype() == tensorflow::DT_INT32 ? 4 : 0;
  for (std::size_t at = 0; width > 0 && numbers.size() < 64 && at + width <= content.size(); at += width) {
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (width == 8) std::memcpy(&wide, content.data() + at, width);
    if (width == 4) std::memcpy(&narrow, content.data() + at, width);
    numbers.push_back(width == 8 ? wide : narrow);
  }
  return numbers;
}

// Which input of an operation is the shape of its output.
int shape_input(std::string_view op) {
  constexpr std::array<std::string_view, 9> kFirst = {"Empty",
                                                      "Fill",
                                                      "RandomStandardNormal",
                                                      "RandomUniform",
                                                      "RandomUniformInt",
                                                      "RandomPoissonV2",
                                                      "TruncatedNormal",
                                                      "StatelessRandomNormal",
                                                      "StatelessRandomUniform"};
  if (std::find(kFirst.begin(), kFirst.end(), op) != kFirst.end()) return 0;
  return op == "BroadcastTo" || op == "TensorListReserve" ? 1 : -1;
}

class GraphWalk {
 public:
  GraphWalk(Auditor& auditor, bool has_assets) : auditor_(auditor), has_assets_(has_assets) {}

  // `saver`: these nodes belong to saving and restoring.
  void nodes(const Nodes& nodes, const std::string& where, const std::set<std::string>* saver_nodes, bool saver) {
    std::map<std::string, const tensorflow::NodeDef*> by_name;
    for (const auto& node : nodes) by_name.emplace(node.name(), &node);
    for (const auto& node : nodes) {
      const bool saving = saver || (saver_nodes != nullptr && saver_nodes->contains(node.name()));
      check(node, fmt::format("{}node {}", where, node.name()), saving);
      check_size(node, fmt::format("{}node {}", where, node.name()), by_name);
    }
  }

 private:
  void check(const tensorflow::NodeDef& node, const std::string& where, bool saving) {
    const std::string& op = node.op();
    if (op.find('>') != std::string::npos) {
      auditor_.add(Risk::kCustomObject, where, fmt::format("operation {} of another library", op));
    }
    if (op == "PrintV2") {
      const auto stream = node.attr().find("output_stream");
      if (stream != node.attr().end() && stream->second.s().starts_with("file://")) {
        auditor_.add(Risk::kFileWrite, where, fmt::format("PrintV2 writes to {}", stream->second.s()));
      }
    }
    if (op == "Const") constant(node, where);
    const OpRow* row = find_op(op);
    if (row == nullptr) return;
    if (saving && std::find(kSaverOps.begin(), kSaverOps.end(), op) != kSaverOps.end()) return;
    if (row->risk == Risk::kMemory && is_bounded(node)) return;
    if (op.starts_with("InitializeTableFromTextFile") && has_assets_) return;  // constants are checked on their own
    auditor_.add(row->risk, where, fmt::format("{} {}", op, sentence(row->risk)));
  }

  void constant(const tensorflow::NodeDef& node, const std::string& where) {
    const auto value = node.attr().find("value");
    if (value == node.attr().end() || !value->second.has_tensor()) return;
    for (const std::string& text : value->second.tensor().string_val()) auditor_.path_text(text, where);
  }

  void check_size(const tensorflow::NodeDef& node, const std::string& where,
                  const std::map<std::string, const tensorflow::NodeDef*>& by_name) {
    constexpr std::int64_t kMostElements = std::int64_t{1} << 28;  // 1 GiB of float32
    const int input = shape_input(node.op());
    if (input < 0 || input >= node.input_size()) return;
    const auto shape = by_name.find(input_node(node.input(input)));
    if (shape == by_name.end()) return;
    std::int64_t elements = 1;
    const auto dims = constant_ints(*shape->second);
    for (const std::int64_t dim : dims) {
      if (dim < 0) return;
      if (__builtin_mul_overflow(elements, dim, &elements)) elements = std::numeric_limits<std::int64_t>::max();
    }
    if (elements > kMostElements) {
      auditor_.add(Risk::kMemory, where,
                   fmt::format("{} makes a tensor of shape ({})", node.op(), fmt::join(dims, ", ")));
    }
  }

  Auditor& auditor_;
  bool has_assets_;
};

// All names of `nodes` that the nodes in `roots` are computed from, and themselves.
std::set<std::string> ancestors(const Nodes& nodes, const std::vector<std::string>& roots) {
  std::map<std::string, const tensorflow::NodeDef*> by_name;
  for (const auto& node : nodes) by_name.emplace(node.name(), &node);
  std::set<std::string> found;
  std::vector<std::string> open = roots;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    const auto node = by_name.find(name);
    if (node == by_name.end() || !found.insert(name).second) continue;
    for (const std::string& input : node->second->input()) open.push_back(input_node(input));
  }
  return found;
}

using Library = std::map<std::string, const tensorflow::FunctionDef*>;

void add_called(const tensorflow::NodeDef& node, const Library& library, std::vector<std::string>& open) {
  if (library.contains(node.op())) open.push_back(node.op());
  for (const auto& [key, attr] : node.attr()) {
    if (attr.has_func()) open.push_back(attr.func().name());
    for (const auto& function : attr.list().func()) open.push_back(function.name());
  }
}

// The functions that the nodes for which `starts` is true call, directly or not.
template <typename Starts>
std::set<std::string> called_functions(const Nodes& nodes, const Library& library, Starts starts) {
  std::vector<std::string> open;
  for (const auto& node : nodes) {
    if (starts(node)) add_called(node, library, open);
  }
  std::set<std::string> found;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    const auto function = library.find(name);
    if (function == library.end() || !found.insert(name).second) continue;
    for (const auto& node : function->second->node_def()) add_called(node, library, open);
  }
  return found;
}

void audit_graph(Auditor& auditor, const tensorflow::GraphDef& graph, const std::string& where,
                 const std::set<std::string>& saver_nodes, bool has_assets) {
  GraphWalk walk(auditor, has_assets);
  Library library;
  for (const auto& function : graph.library().function()) library.emplace(function.signature().name(), &function);
  const auto is_saver = [&](const auto& node) { return saver_nodes.contains(node.name()); };
  const auto saving = called_functions(graph.node(), library, is_saver);
  const auto serving = called_functions(graph.node(), library, [&](const auto& node) { return !is_saver(node); });
  walk.nodes(graph.node(), where + ": ", &saver_nodes, false);
  for (const auto& function : graph.library().function()) {
    const std::string& name = function.signature().name();
    walk.nodes(function.node_def(), fmt::format("{}: function {}, ", where, name), nullptr,
               saving.contains(name) && !serving.contains(name));
  }
  if (graph.versions().min_consumer() > 0) {
    auditor.add_version(fmt::format("GraphDef version {} or later", graph.versions().min_consumer()));
  }
}

}  // namespace

void Auditor::graph(const tensorflow::GraphDef& graph, const std::string& where) {
  audit_graph(*this, graph, where, {}, false);
}

void Auditor::meta_graph(const tensorflow::MetaGraphDef& graph, const std::string& where) {
  const auto& info = graph.meta_info_def();
  if (!info.tensorflow_version().empty()) add_version("TensorFlow " + info.tensorflow_version());
  for (const auto& asset : graph.asset_file_def()) {
    if (leaves_folder(asset.filename())) {
      add(Risk::kPath, where + ": assets", fmt::format("\"{}\" leaves the folder of assets", asset.filename()));
    }
  }
  std::set<std::string> saver_nodes;
  if (graph.has_saver_def()) {
    const Nodes& nodes = graph.graph_def().node();
    saver_nodes = ancestors(
        nodes, {input_node(graph.saver_def().save_tensor_name()), input_node(graph.saver_def().restore_op_name())});
    // A node that a signature computes from serves, whatever else uses it.
    std::vector<std::string> outputs;
    for (const auto& [name, signature] : graph.signature_def()) {
      for (const auto& [key, tensor] : signature.outputs()) {
        if (!name.starts_with("__saved_model")) outputs.push_back(input_node(tensor.name()));
      }
    }
    for (const std::string& name : ancestors(nodes, outputs)) saver_nodes.erase(name);
  }
  audit_graph(*this, graph.graph_def(), where, saver_nodes, graph.asset_file_def_size() > 0);
}

}  // namespace lockstep::formats
