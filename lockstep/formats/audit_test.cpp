#include "lockstep/formats/audit.h"

#include <gtest/gtest.h>

#include <map>

#include "lockstep/formats/hdf5_writer.h"
#include "lockstep/formats/proto/saved_model.pb.h"
#include "lockstep/io/file_system.h"
#include "lockstep/io/memory_file_system_internal.h"

namespace lockstep::formats {
namespace {

using Risk = AuditFinding::Risk;

std::multimap<Risk, std::string> risks(const AuditReport& report) {
  std::multimap<Risk, std::string> found;
  for (const AuditFinding& finding : report.findings)
    found.emplace(finding.risk, finding.where + ": " + finding.detail);
  return found;
}

std::string listed(const AuditReport& report) {
  std::string text;
  for (const auto& [risk, where] : risks(report)) text += std::string(risk_name(risk)) + " " + where + "\n";
  return text;
}

// The findings of a model of Keras 3 with this config.
AuditReport audit_config(const std::string& config) {
  Hdf5Writer weights;
  weights.add_group("vars");
  io::MemoryFileSystem files;
  std::string image;
  weights.write([&](std::span<const std::byte> bytes) { image += io::as_text(bytes); });
  files.put("m/config.json", config);
  files.put("m/metadata.json", R"({"keras_version": "3.15.0"})");
  files.put("m/model.weights.h5", image);
  return audit("m", files);
}

tensorflow::NodeDef* add_node(tensorflow::GraphDef& graph, const std::string& name, const std::string& op,
                              const std::vector<std::string>& inputs = {}) {
  auto* node = graph.add_node();
  node->set_name(name);
  node->set_op(op);
  for (const auto& input : inputs) node->add_input(input);
  return node;
}

AuditReport audit_graph(const tensorflow::GraphDef& graph) {
  io::MemoryFileSystem files;
  files.put("g.pb", graph.SerializeAsString());
  return audit("g.pb", files);
}

TEST(AuditTest, AGraphThatOnlyComputesHasNoFindings) {
  tensorflow::GraphDef graph;
  add_node(graph, "x", "Placeholder");
  add_node(graph, "y", "Relu", {"x"});
  const AuditReport report = audit_graph(graph);
  EXPECT_EQ(report.kind, "graph_def");
  EXPECT_TRUE(report.findings.empty()) << listed(report);
}

TEST(AuditTest, OperationsThatReachBeyondTheModel) {
  tensorflow::GraphDef graph;
  add_node(graph, "x", "Placeholder");
  add_node(graph, "read", "ReadFile", {"x"});
  add_node(graph, "call", "PyFunc", {"x"});
  add_node(graph, "text", "TFText>WhitespaceTokenize", {"x"});
  (*add_node(graph, "queue", "FIFOQueueV2")->mutable_attr())["capacity"].set_i(-1);
  (*add_node(graph, "bounded", "FIFOQueueV2")->mutable_attr())["capacity"].set_i(10);
  (*add_node(graph, "print", "PrintV2", {"x"})->mutable_attr())["output_stream"].set_s("file:///tmp/log");
  (*add_node(graph, "stderr", "PrintV2", {"x"})->mutable_attr())["output_stream"].set_s("stderr");
  auto* function = graph.mutable_library()->add_function();
  function->mutable_signature()->set_name("f");
  auto* node = function->add_node_def();
  node->set_name("write");
  node->set_op("WriteFile");
  const auto found = risks(audit_graph(graph));
  EXPECT_EQ(found.size(), 6u);
  EXPECT_EQ(found.find(Risk::kFileRead)->second, "g.pb: node read: ReadFile reads files");
  EXPECT_EQ(found.find(Risk::kPython)->second, "g.pb: node call: PyFunc calls a Python function");
  EXPECT_EQ(found.count(Risk::kCustomObject), 1u);
  EXPECT_EQ(found.find(Risk::kMemory)->second, "g.pb: node queue: FIFOQueueV2 takes memory without bound");
  EXPECT_EQ(found.count(Risk::kFileWrite), 2u);
}

TEST(AuditTest, ConstantsThatNameFilesAndHugeTensors) {
  tensorflow::GraphDef graph;
  auto* name = (*add_node(graph, "name", "Const")->mutable_attr())["value"].mutable_tensor();
  name->set_dtype(tensorflow::DT_STRING);
  name->add_string_val("/etc/passwd");
  name->add_string_val("and/or");
  auto* dims = (*add_node(graph, "dims", "Const")->mutable_attr())["value"].mutable_tensor();
  dims->set_dtype(tensorflow::DT_INT32);
  dims->add_int_val(1 << 20);
  dims->add_int_val(1 << 20);
  add_node(graph, "fill", "Fill", {"dims", "name"});
  const auto found = risks(audit_graph(graph));
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.find(Risk::kPath)->second, "g.pb: node name: absolute path \"/etc/passwd\"");
  EXPECT_EQ(found.find(Risk::kMemory)->second, "g.pb: node fill: Fill makes a tensor of shape (1048576, 1048576)");
}

// Saving and restoring belong to each SavedModel, until a signature does it.
TEST(AuditTest, SaversAreNoFindingUnlessASignatureUsesThem) {
  tensorflow::SavedModel model;
  auto* meta = model.add_meta_graphs();
  meta->mutable_meta_info_def()->set_tensorflow_version("2.21.0");
  auto& graph = *meta->mutable_graph_def();
  add_node(graph, "prefix", "Placeholder");
  add_node(graph, "values", "Placeholder");
  (*add_node(graph, "save", "PartitionedCall", {"prefix"})->mutable_attr())["f"].mutable_func()->set_name("saver");
  add_node(graph, "restore", "RestoreV2", {"prefix"});
  auto* function = graph.mutable_library()->add_function();
  function->mutable_signature()->set_name("saver");
  auto* save = function->add_node_def();
  save->set_name("write");
  save->set_op("SaveV2");
  meta->mutable_saver_def()->set_save_tensor_name("save:0");
  meta->mutable_saver_def()->set_restore_op_name("restore");
  const auto audited = [&] {
    io::MemoryFileSystem files;
    files.put("m/saved_model.pb", model.SerializeAsString());
    return audit("m", files);
  };
  const AuditReport report = audited();
  EXPECT_TRUE(report.findings.empty()) << listed(report);
  EXPECT_EQ(report.versions, std::vector<std::string>{"TensorFlow 2.21.0"});
  (*(*meta->mutable_signature_def())["serving_default"].mutable_outputs())["y"].set_name("save:0");
  EXPECT_EQ(audited().findings.size(), 1u);
  meta->add_asset_file_def()->set_filename("../../outside");
  EXPECT_EQ(audited().findings.size(), 2u);
}

struct ConfigCase {
  const char* config;
  std::vector<Risk> expected;
};

TEST(AuditTest, KerasConfigs) {
  const std::vector<ConfigCase> cases = {
      {R"({"module": "keras.layers", "class_name": "Dense", "config": {"activation": "relu"}})", {}},
      {R"({"module": "keras.src.models.functional", "class_name": "Functional", "config": {},
           "registered_name": "Functional"})",
       {}},
      {R"({"class_name": "Conv2D", "config": {"padding": "same"}})", {}},
      {R"({"module": "keras.layers", "class_name": "Lambda",
           "config": {"function": {"class_name": "__lambda__", "config": {"code": "4wEA"}}}})",
       {Risk::kCode, Risk::kCode}},
      {R"({"class_name": "Lambda", "config": {"function": ["4wEA", null, null], "function_type": "lambda"}})",
       {Risk::kCode, Risk::kCode}},
      {R"({"module": null, "class_name": "My", "config": {}, "registered_name": "Custom>My"})", {Risk::kCustomObject}},
      {R"({"module": "builtins", "class_name": "function", "config": "my_loss", "registered_name": "function"})",
       {Risk::kCustomObject}},
      {R"({"module": "os", "class_name": "function", "config": "system", "registered_name": "system"})", {Risk::kCode}},
      {R"({"module": "keras.utils", "class_name": "function", "config": "get_file", "registered_name": "get_file"})",
       {Risk::kCode}},
      {R"({"module": "subprocess", "class_name": "Popen", "config": {"args": "true"}})", {Risk::kCustomObject}},
      {R"({"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": "/etc/passwd"}})",
       {Risk::kFileRead, Risk::kPath}},
      {R"({"module": "keras.layers", "class_name": "StringLookup", "config": {"vocabulary": ["/", "a/b"]}})", {}},
      {R"({"module": "keras.layers", "class_name": "TorchModuleWrapper", "config": {"module": "UEsDBA=="}})",
       {Risk::kCode}},
      {R"({"class_name": "TFOpLambda", "config": {"function": "math.add"}})", {}},
      {R"({"class_name": "TFOpLambda", "config": {"function": "io.write_file"}})", {Risk::kCode}},
      {R"({"class_name": "MyLayer", "config": {}})", {Risk::kCustomObject}},
      {R"({"config": {"origin": "https://example.com/w"}})", {Risk::kPath}},
  };
  for (const ConfigCase& each : cases) {
    const AuditReport report = audit_config(each.config);
    std::vector<Risk> found;
    for (const AuditFinding& finding : report.findings) found.push_back(finding.risk);
    EXPECT_EQ(found, each.expected) << each.config << "\n" << listed(report);
    EXPECT_EQ(report.versions, std::vector<std::string>{"Keras 3.15.0"});
  }
}

TEST(AuditTest, PicklesAndObjectArrays) {
  io::MemoryFileSystem files;
  files.put("model.pkl", "\x80\x04\x95 anything");
  const AuditReport pickle = audit("model.pkl", files);
  EXPECT_EQ(pickle.kind, "pickle");
  ASSERT_EQ(pickle.findings.size(), 1u);
  EXPECT_EQ(pickle.findings[0].risk, Risk::kCode);
  std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }";
  header.resize(118, ' ');
  files.put("a.npy", std::string("\x93NUMPY\x01\x00v\x00", 10) + header + "pickled");
  EXPECT_EQ(risks(audit("a.npy", files)).count(Risk::kCode), 1u);
}

}  // namespace
}  // namespace lockstep::formats
