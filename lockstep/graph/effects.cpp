#include "lockstep/graph/effects_internal.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "lockstep/ops/table_internal.h"

namespace lockstep::graph {
namespace {

// Operations with a resource, a reference or a mark as stateful that only read, or whose effects end with the run.
bool only_reads(std::string_view op) {
  static const std::set<std::string_view> names = {"VarHandleOp",
                                                   "ReadVariableOp",
                                                   "VariableShape",
                                                   "VarIsInitializedOp",
                                                   "ResourceGather",
                                                   "ResourceGatherNd",
                                                   "DisableCopyOnRead",
                                                   "Variable",
                                                   "VariableV2",
                                                   "RefIdentity",
                                                   "RefSwitch",
                                                   "RefMerge",
                                                   "RefEnter",
                                                   "RefExit",
                                                   "RefNextIteration",
                                                   "HashTable",
                                                   "HashTableV2",
                                                   "AnonymousHashTable",
                                                   "MutableHashTable",
                                                   "MutableHashTableV2",
                                                   "AnonymousMutableHashTable",
                                                   "MutableHashTableOfTensors",
                                                   "MutableHashTableOfTensorsV2",
                                                   "AnonymousMutableHashTableOfTensors",
                                                   "MutableDenseHashTable",
                                                   "MutableDenseHashTableV2",
                                                   "AnonymousMutableDenseHashTable",
                                                   "LookupTableFind",
                                                   "LookupTableFindV2",
                                                   "LookupTableSize",
                                                   "LookupTableSizeV2",
                                                   "LookupTableExport",
                                                   "LookupTableExportV2",
                                                   "IsVariableInitialized",
                                                   "Assert",
                                                   "Print",
                                                   "PrintV2",
                                                   "PartitionedCall",
                                                   "StatefulPartitionedCall",
                                                   "TPUPartitionedCall",
                                                   "TPUOrdinalSelector",
                                                   "RemoteCall",
                                                   "DeviceIndex",
                                                   "ReadFile",
                                                   "If",
                                                   "While",
                                                   "Case",
                                                   "Placeholder",
                                                   "Restore",
                                                   "RestoreSlice",
                                                   "RestoreV2",
                                                   "MutexV2",
                                                   "MutexLock",
                                                   "ConsumeMutexLock",
                                                   "StackV2",
                                                   "StackPushV2",
                                                   "StackPopV2",
                                                   "StackCloseV2",
                                                   "Identity",
                                                   "IdentityN",
                                                   "CheckNumericsV2"};
  return names.contains(op) || op.starts_with("TensorArray") || op.starts_with("Nccl") ||
         op.starts_with("Collective") || op.starts_with("Anonymous") || op.starts_with("Dummy") ||
         op.ends_with("Dataset") || op.ends_with("DatasetV2") || op.ends_with("DatasetV3");
}

class Search {
 public:
  explicit Search(const FunctionLibrary& library) : library_(library) {}

  bool in_graph(const Graph& graph, std::vector<int> stack) {
    std::vector<char> seen(graph.nodes().size(), 0);
    while (!stack.empty()) {
      const int id = stack.back();
      stack.pop_back();
      if (std::exchange(seen[static_cast<std::size_t>(id)], 1)) continue;
      const Node& node = graph.node(id);
      if (in_node(node)) return true;
      for (const Output& input : node.inputs) stack.push_back(input.node);
      stack.insert(stack.end(), node.control_inputs.begin(), node.control_inputs.end());
    }
    return false;
  }

  bool in_function(const Function& function) {
    if (!visited_.insert(&function).second) return false;
    std::vector<int> stack = function.effects;
    for (const Result& result : function.results) stack.push_back(result.value.node);
    return in_graph(function.body, std::move(stack));
  }

 private:
  bool in_node(const Node& node) {
    for (const std::string& name : called_functions(node)) {
      const auto function = library_.find(name);
      if (function && in_function(*function)) return true;
    }
    const ops::Op* op = ops::Table::instance().find(node.op);
    if (!op || only_reads(node.op)) return false;
    const auto& inputs = op->signature->inputs;
    return op->signature->stateful || std::any_of(inputs.begin(), inputs.end(), [](const ops::ArgDef& input) {
             return input.is_ref || input.dtype == DType::kResource;
           });
  }

  const FunctionLibrary& library_;
  std::set<const Function*> visited_;
};

}  // namespace

bool changes_state(const Graph& graph, const FunctionLibrary& library, const std::vector<Output>& fetches) {
  std::vector<int> stack;
  for (const Output& fetch : fetches) stack.push_back(fetch.node);
  return Search(library).in_graph(graph, std::move(stack));
}

bool changes_state(const Function& function, const FunctionLibrary& library) {
  return Search(library).in_function(function);
}

}  // namespace lockstep::graph
