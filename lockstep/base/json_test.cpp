#include "lockstep/base/json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

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
  EXPECT_EQ(python_float(0.00010000000474974514), "0.00010000000474974514");
  EXPECT_EQ(python_float(1e22), "1e+22");
  EXPECT_EQ(python_float(INFINITY), "inf");
  EXPECT_EQ(python_float(-INFINITY), "-inf");
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
  EXPECT_EQ(parse_json(R"({"b": 1, "a": 2})", "test").keys(), (std::vector<std::string>{"b", "a"}));
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

// What `read` throws as a JsonError.
template <class Read>
std::string fault_of(const Read& read) {
  try {
    read();
  } catch (const JsonError& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    return error.message();
  }
  return "nothing was thrown";
}

TEST(Json, BracesMakeObjectsOfPairsWithKeysAndArraysOfAllElse) {
  EXPECT_EQ(Json({{"a", 1}, {"b", {1, 2}}, {"c", {{"d", nullptr}}}}).dump(), R"({"a":1,"b":[1,2],"c":{"d":null}})");
  EXPECT_EQ(Json({{"a", 1}, {"b"}}).dump(), R"([["a",1],["b"]])");
  EXPECT_EQ(Json({"a", "b"}).dump(), R"(["a","b"])");
  EXPECT_EQ(Json::array({{"a", 1}, {"b", 2}}).dump(), R"([["a",1],["b",2]])");
  EXPECT_EQ(Json::object({{"a", 1}, {"a", 2}}).dump(), R"({"a":1})");
  const Json none = {};
  EXPECT_TRUE(none.is_null());
  EXPECT_EQ(fault_of([] { Json::object({1}); }),
            "invalid value in JSON: found number 1, expected a pair of a key and a value");
}

TEST(Json, IsMadeOfTheStandardLibrarysContainers) {
  EXPECT_EQ(Json(std::vector<std::vector<int>>{{1}, {}}).dump(), "[[1],[]]");
  EXPECT_EQ(Json(std::vector<bool>{true, false}).dump(), "[true,false]");
  EXPECT_EQ(Json(std::map<std::string, double>{{"x", 0.5}, {"y", 2}}).dump(), R"({"x":0.5,"y":2.0})");
  EXPECT_EQ(Json(std::pair("a", std::tuple(1, true, "b"))).dump(), R"(["a",[1,true,"b"]])");
  const Json rows = {{"a", 1}, {"b", 2}};
  using Row = std::pair<std::string, int>;
  EXPECT_EQ(Json::array({{"a", 1}, {"b", 2}}).get<std::vector<Row>>(), (std::vector<Row>{{"a", 1}, {"b", 2}}));
  EXPECT_EQ(fault_of([] {
              Json({1, 2, 3}).get<std::pair<int, int>>();
            }),
            "invalid value in JSON: found array, expected an array of 2 items");
}

TEST(Json, ReadsNumbersThatFit) {
  const Json big = UINT64_MAX, negative = -3, fraction = 2.75;
  EXPECT_EQ(big.get<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(negative.get<std::int8_t>(), -3);
  EXPECT_EQ(fraction.get<int>(), 2);
  const float narrow = fraction;
  EXPECT_EQ(narrow, 2.75f);
  EXPECT_NE(fault_of([&] { big.get<std::int64_t>(); }), "nothing was thrown");
  EXPECT_NE(fault_of([&] { negative.get<std::uint64_t>(); }), "nothing was thrown");
  EXPECT_NE(fault_of([&] { Json(1e300).get<std::int64_t>(); }), "nothing was thrown");
  EXPECT_NE(fault_of([&] { Json(NAN).get<std::uint32_t>(); }), "nothing was thrown");
  EXPECT_EQ(fault_of([] { Json(300).get<std::int8_t>(); }),
            "invalid value in JSON: found number 300, expected a smaller integer");
  EXPECT_EQ(fault_of([] { Json("x").get<double>(); }), "invalid value in JSON: found string \"x\", expected a number");
  EXPECT_EQ(fault_of([] { Json(true).get<int>(); }), "invalid value in JSON: found boolean true, expected a number");
  EXPECT_EQ(fault_of([] { Json(1).get<bool>(); }), "invalid value in JSON: found number 1, expected a boolean");
}

TEST(Json, ComparesNumbersByValue) {
  EXPECT_EQ(Json(1), 1u);
  EXPECT_EQ(Json(1), 1.0);
  EXPECT_NE(Json(-1), UINT64_MAX);
  EXPECT_LT(Json(-1), Json(UINT64_MAX));
  EXPECT_GT(Json(UINT64_MAX), Json(INT64_MAX));
  EXPECT_LT(Json("a"), Json("b"));
  EXPECT_NE(Json(true), 1);
  EXPECT_NE(Json(), false);
  EXPECT_NE(Json(NAN), Json(NAN));
  EXPECT_FALSE(Json("1") < 2);
  EXPECT_EQ(Json({1, "a"}), Json({1.0, "a"}));
  EXPECT_NE(Json({{"a", 1}, {"b", 2}}), Json({{"b", 2}, {"a", 1}}));
}

TEST(Json, ObjectsAreChangedByKey) {
  Json json;
  json["b"] = {1, 2};
  json["a"]["inner"] = "x";
  json["c"] = json["b"];  // the new key may move the others
  json["c"].push_back(3.5);
  EXPECT_EQ(json.dump(), R"({"b":[1,2],"a":{"inner":"x"},"c":[1,2,3.5]})");
  EXPECT_EQ(json.erase("b"), 1u);
  EXPECT_EQ(json.erase("b"), 0u);
  EXPECT_FALSE(json.contains("b"));
  EXPECT_TRUE(json.find("b") == json.end());
  EXPECT_EQ(json.find("c").key(), "c");
  EXPECT_EQ(json.find("c")->size(), 3u);
  EXPECT_EQ(json.value("d", "none"), "none");
  EXPECT_EQ(json["a"].value("inner", ""), "x");
  for (auto& [key, value] : json.items()) value = key;
  EXPECT_EQ(json.dump(), R"({"a":"a","c":"c"})");
  EXPECT_EQ(fault_of([&] { std::as_const(json)["d"]; }),
            "invalid object in JSON: found 'a', 'c', expected the key 'd'");
  EXPECT_EQ(fault_of([&] { json["a"]["x"]; }), "invalid value in JSON: found string \"a\", expected an object");
}

TEST(Json, ArraysAreReadByIndex) {
  Json json = {3, 1, 2};
  std::sort(json.begin(), json.end());
  EXPECT_EQ(json, Json({1, 2, 3}));
  EXPECT_EQ(json.front() <=> json.back(), std::partial_ordering::less);
  EXPECT_EQ(fault_of([&] { json[3]; }), "JSON index 3 is outside of 3 items");
  EXPECT_NE(fault_of([&] { json[-1]; }), "nothing was thrown");
  EXPECT_EQ(fault_of([&] { Json("abc")[0]; }), "invalid value in JSON: found string \"abc\", expected an array");
}

TEST(Json, CopiesAreIndependentAndMovedValuesAreNull) {
  Json one = {{"a", {1, {{"b", "text"}}}}};
  const Json two = one;
  one["a"][1]["b"] = 5;
  EXPECT_EQ(two.dump(), R"({"a":[1,{"b":"text"}]})");
  const Json three = std::move(one);
  EXPECT_TRUE(one.is_null());
  one = three["a"];
  one = one[1];  // a part of itself
  EXPECT_EQ(one, Json({{"b", 5}}));
}

TEST(Json, DumpsCompactlyInUtf8) {
  EXPECT_EQ(Json({{"é", "\x01\n\x7f😀"}, {"n", {1, 1e-7, nullptr}}}).dump(),
            "{\"é\":\"\\u0001\\n\x7f😀\",\"n\":[1,1e-07,null]}");
  EXPECT_EQ(fault_of([] { Json("\xff").dump(); }), "invalid string in JSON: found bytes that are not UTF-8");
}

}  // namespace
}  // namespace lockstep
