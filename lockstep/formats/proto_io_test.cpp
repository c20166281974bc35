#include "lockstep/formats/proto_io_internal.h"

#include <google/protobuf/stubs/logging.h>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/formats/proto/graph.pb.h"
#include "lockstep/formats/proto_text_internal.h"
#include "lockstep/io/atomic_file.h"

namespace lockstep::formats {
namespace {

std::string nodes(int count, std::string_view payload) {
  std::string bytes;
  for (int i = 0; i < count; ++i)
    bytes += std::string("\x0a") + static_cast<char>(payload.size()) + std::string(payload);
  return bytes;
}

// 12 million empty nodes: 24 MB that would take 1.8 GB as messages.
TEST(ProtoIo, MemoryOfManySmallMessagesIsBounded) {
  tensorflow::GraphDef graph;
  try {
    parse_proto(graph, io::as_bytes(nodes(12'000'000, "")), "graph.pb");
    FAIL() << "no error";
  } catch (const errors::ResourceExhaustedError& error) {
    EXPECT_EQ(error.message(),
              "graph.pb: the tensorflow.GraphDef message of 24000000 bytes would take more than 740 MiB of memory");
  }
}

TEST(ProtoIo, LargeMessagesAreParsed) {
  tensorflow::GraphDef graph;
  parse_proto(graph, io::as_bytes(nodes(200'000, "\x0a\x64" + std::string(100, 'n'))), "graph.pb");
  ASSERT_EQ(graph.node_size(), 200'000);
  EXPECT_EQ(graph.node(199'999).name(), std::string(100, 'n'));
}

int logged = 0;
void count(google::protobuf::LogLevel, const char*, int, const std::string&) { ++logged; }

// Messages of reading are errors, not lines of the log; the handler of the program stays.
TEST(ProtoIo, TheLogOfTheProgramIsLeftAlone) {
  const auto before = google::protobuf::SetLogHandler(count);
  tensorflow::NodeDef node;
  EXPECT_THROW(parse_proto(node, io::as_bytes("\x0a\x02\xff\xff"), "node.pb"), Error);
  EXPECT_EQ(logged, 0);
  EXPECT_EQ(google::protobuf::SetLogHandler(before), count);
}

TEST(ProtoIo, LargeMalformedMessagesAreReported) {
  tensorflow::GraphDef graph;
  std::string bytes = nodes(200'000, "\x0a\x64" + std::string(100, 'n'));
  bytes.pop_back();
  EXPECT_THROW(parse_proto(graph, io::as_bytes(bytes), "graph.pb"), errors::DataLossError);
}

TEST(ProtoText, MalformedTextIsReportedWithItsPlace) {
  tensorflow::GraphDef graph;
  const std::string text = "# a graph\nnode {\n  name: \"a\"\n  newer_field: 3\n  op: \"Const\"\n";
  parse_proto_text(graph, io::as_bytes(text + "}"), "g.pbtxt");
  ASSERT_EQ(graph.node_size(), 1);
  EXPECT_EQ(graph.node(0).op(), "Const");
  try {
    parse_proto_text(graph, io::as_bytes(text), "g.pbtxt");
    FAIL() << "no error";
  } catch (const errors::DataLossError& error) {
    EXPECT_TRUE(error.message().starts_with("g.pbtxt: not a valid tensorflow.GraphDef message in text: line 6, "))
        << error.message();
  }
}

TEST(ProtoText, MemoryOfManySmallMessagesIsBounded) {
  tensorflow::GraphDef graph;
  std::string text;
  for (int i = 0; i < 4'000'000; ++i) text += "node{}";
  EXPECT_THROW(parse_proto_text(graph, io::as_bytes(text), "g.pbtxt"), errors::ResourceExhaustedError);
}

}  // namespace
}  // namespace lockstep::formats
