#include "lockstep/base/yaml.h"

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string json_of(std::string_view yaml) { return dump_json(parse_yaml(yaml, "test")); }

// Expected values are those of PyYAML 6.
TEST(Yaml, BlockCollections) {
  EXPECT_EQ(json_of("a: 1\nb:\n- x\n- y: 2\n  z: [1, 2.5, {c: null}]\nd: {}\ne:\n  f: text of\n    two lines\n"),
            R"({"a": 1, "b": ["x", {"y": 2, "z": [1, 2.5, {"c": null}]}], "d": {}, "e": {"f": "text of two lines"}})");
  EXPECT_EQ(json_of("- - 1\n  - 2\n-\n  - 3\n- {}\n"), "[[1, 2], [3], {}]");
  EXPECT_EQ(json_of("a:\nb: 1\n"), R"({"a": null, "b": 1})");
}

TEST(Yaml, Scalars) {
  EXPECT_EQ(json_of("[-2, 1.0e-05, 1e-05, yes, off, ~, 'it''s', \"a\\tb\", +3]"),
            R"([-2, 1e-05, "1e-05", true, false, null, "it's", "a\tb", 3])");
  EXPECT_EQ(json_of("a: 'one\n  two'\n"), R"({"a": "one two"})");
}

TEST(Yaml, AnchorsAndTags) {
  EXPECT_EQ(json_of("a: &id001 !!python/tuple [1, 2]\nb: *id001\nc: !!python/tuple\n- 1\n- null\n"),
            R"({"a": [1, 2], "b": [1, 2], "c": [1, null]})");
  EXPECT_EQ(json_of("!!python/unicode 'name': 1"), R"({"name": 1})");
  EXPECT_THROW(parse_yaml("a: !!python/object/apply:os.system ['ls']", "test"), errors::UnimplementedError);
}

// As tf.keras wrote the axis of a BatchNormalization.
TEST(Yaml, ListsOfTfKeras) {
  const std::string tag = "!!python/object/apply:tensorflow.python.training.tracking.data_structures.ListWrapper";
  EXPECT_EQ(json_of("axis: &id001 " + tag + "\n- [3]\nagain: *id001\n"), json_of("axis: [3]\nagain: [3]\n"));
  EXPECT_THROW(json_of("axis: " + tag + "\n- 3\n"), Error);
  EXPECT_THROW(json_of("axis: " + tag + "\n- [3]\n- [4]\n"), Error);
}

// In quadratic time they would take minutes.
TEST(Yaml, BigMappings) {
  std::string block, flow = "{";
  for (int i = 0; i < 200'000; ++i) {
    block += "k" + std::to_string(i) + ": 1\n";
    flow += "k" + std::to_string(i) + ": 1,";
  }
  EXPECT_EQ(parse_yaml(block + "k5: 2\n", "test").size(), 200'000u);
  EXPECT_EQ(parse_yaml(flow + "k5: 2}", "test").at("k5").get<int>(), 2);
}

TEST(Yaml, MalformedText) {
  for (const char* text : {"a: [1, 2", "a: 'x", "a: *nothing", "a: 1\n  b: 2", "{a: 1", "a: \"\\q\"", "[1 2", "a: \xC0",
                           "a: \"\\ud800\""}) {
    EXPECT_THROW(parse_yaml(text, "test"), errors::DataLossError) << text;
  }
  EXPECT_THROW(parse_yaml(std::string(1000, '['), "test"), errors::DataLossError);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_THROW(parse_yaml(bomb, "test"), errors::DataLossError);
}

}  // namespace
}  // namespace lockstep
