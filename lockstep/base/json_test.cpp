#include "lockstep/base/json.h"

#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

Code code_of(std::string_view text) {
  try {
    parse_json(text, "test");
  } catch (const Error& error) {
    return error.code();
  }
  return Code::kUnknown;
}

// Pairs from Python's repr.
TEST(PythonFloat, SpellsAsPythonDoes) {
  EXPECT_EQ(python_float(0.0), "0.0");
  EXPECT_EQ(python_float(-0.0), "-0.0");
  EXPECT_EQ(python_float(1.0), "1.0");
  EXPECT_EQ(python_float(0.1), "0.1");
  EXPECT_EQ(python_float(1e-7), "1e-07");
  EXPECT_EQ(python_float(1e-4), "0.0001");
  EXPECT_EQ(python_float(0.00012345), "0.00012345");
  EXPECT_EQ(python_float(1e-5), "1e-05");
  EXPECT_EQ(python_float(9999999999999998.0), "9999999999999998.0");
  EXPECT_EQ(python_float(1e15), "1000000000000000.0");
  EXPECT_EQ(python_float(1e16), "1e+16");
  EXPECT_EQ(python_float(1.5e300), "1.5e+300");
  EXPECT_EQ(python_float(5e-324), "5e-324");
  EXPECT_EQ(python_float(123456789.125), "123456789.125");
  EXPECT_EQ(python_float(-2.5), "-2.5");
  EXPECT_EQ(python_float(INFINITY), "inf");
  EXPECT_EQ(python_float(NAN), "nan");
}

TEST(Json, DumpsAsPythonDoes) {
  const Json value = {{"b", {1, 2.0, true, nullptr}}, {"a", "x\"\\\n\t\x01é😀\x7f"}, {"c", Json::object()}};
  EXPECT_EQ(dump_json(value),
            "{\"b\": [1, 2.0, true, null], \"a\": \"x\\\"\\\\\\n\\t\\u0001\\u00e9\\ud83d\\ude00\x7f\", \"c\": {}}");
  EXPECT_EQ(dump_json(Json(INFINITY)), "Infinity");
  EXPECT_EQ(dump_json(Json(-INFINITY)), "-Infinity");
  EXPECT_EQ(dump_json(Json(NAN)), "NaN");
  EXPECT_EQ(dump_json(Json::array()), "[]");
}

TEST(Json, ReadsWhatItWrites) {
  const std::string text =
      R"({"z": [1, -2, 18446744073709551615, 1e-07, NaN, Infinity, -Infinity], "a": {"k": "\u00e9\ud83d\ude00"}})";
  EXPECT_EQ(dump_json(parse_json(text, "test")), text);
}

TEST(Json, KeepsOrderAndTheLastDuplicate) {
  EXPECT_EQ(dump_json(parse_json(R"({"b": 1, "a": 2, "b": 3})", "test")), R"({"b": 3, "a": 2})");
}

TEST(Json, ReadsNumbers) {
  EXPECT_TRUE(parse_json("1", "test").is_number_integer());
  EXPECT_TRUE(parse_json("1.0", "test").is_number_float());
  EXPECT_EQ(parse_json("123456789012345678901234567890", "test").get<double>(), 1.2345678901234568e29);
  EXPECT_TRUE(std::isinf(parse_json("1e999", "test").get<double>()));
  EXPECT_EQ(parse_json("1e-999", "test").get<double>(), 0.0);
}

TEST(Json, RefusesMalformedText) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1",
                           "[1,]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "01",
                           "1.",
                           "1e",
                           "-",
                           "tru",
                           "1 2",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\n\"",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "\"\xf4\x90\x80\x80\"",
                           "\"\xe2\x82\"",
                           "[1}",
                           "nan"}) {
    EXPECT_EQ(code_of(text), Code::kDataLoss) << text;
  }
}

TEST(Json, BoundsDepth) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_NO_THROW(parse_json(nested(512), "test"));
  EXPECT_EQ(code_of(nested(514)), Code::kDataLoss);
  EXPECT_EQ(code_of(std::string(1000000, '[')), Code::kDataLoss);
}

TEST(Json, NamesFileAndPlace) {
  try {
    parse_json("{\"a\": 1,\n  oops}", "config.json of m.keras");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("config.json of m.keras"), std::string::npos);
    EXPECT_NE(error.message().find("line 2, column 3"), std::string::npos);
  }
}

TEST(Json, CutAnywhereIsAnErrorOrAValue) {
  const std::string text = R"({"a": [1.5e3, "\u00e9\n", true, {"b": null}], "c": -12})";
  for (std::size_t n = 0; n < text.size(); ++n) EXPECT_EQ(code_of(text.substr(0, n)), Code::kDataLoss) << n;
}

}  // namespace
}  // namespace lockstep
