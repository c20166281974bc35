// Messages from other workers are not trusted.
#include "lockstep/collectives/messages_internal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/io/file_system.h"

namespace lockstep::collectives {
namespace {

using ::testing::HasSubstr;

TEST(Messages, Registrations) {
  const Registration own{"1.0", {"worker 0", "worker 1"}};
  EXPECT_EQ(own.difference(own.text(), 1), "");
  EXPECT_NE(own.text(), own.text());
  EXPECT_THAT(own.difference(Registration{"2.0", own.members}.text(), 1), HasSubstr("\"2.0\", worker 0 runs \"1.0\""));
  EXPECT_THAT(own.difference(Registration{"1.0", {"worker 0"}}.text(), 1), HasSubstr("same cluster"));
  // 100,000 levels: printing them needs more stack than there is.
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  for (const std::string& text : {std::string("GET / HTTP/1.1"), std::string("[]"), std::string("{\"version\": 1}"),
                                  "{\"version\": \"1.0\", \"members\": " + deep + "}"}) {
    EXPECT_THAT(own.difference(text, 1), HasSubstr("worker 1 does not use lockstep's protocol")) << text.substr(0, 50);
  }
  const std::string long_name(100000, 'x');
  EXPECT_LT(own.difference(Registration{"1.0", {long_name}}.text(), 1).size(), 5000u);
}

TEST(Messages, RegistrationsOfLargeClustersAreShort) {
  Registration own{"1.0", {}};
  for (int i = 0; i < 4096; ++i) own.members.push_back("worker " + std::to_string(i) + " (10.0.0.1:2222)");
  EXPECT_LT(own.text().size(), 200u);
  EXPECT_EQ(own.difference(own.text(), 7), "");
  Registration other = own;
  std::swap(other.members[8], other.members[9]);
  EXPECT_THAT(own.difference(other.text(), 7), HasSubstr("same cluster"));
  other.members.pop_back();
  EXPECT_THAT(own.difference(other.text(), 7), HasSubstr("4095"));
}

TEST(Messages, Facts) {
  const std::map<std::string, std::string> facts{{"seed", "7"}, {"", "a:b"}, {"empty", ""}};
  EXPECT_EQ(unpack_facts(pack_facts(facts)), facts);
  for (const char* text : {"x", ":", "4", "4:", "4:see", "4:seed", "4:seed9", "-1:a1:b", "99999999999999999999:a"}) {
    EXPECT_THROW(unpack_facts(text), Error) << text;
  }
}

TEST(Messages, Tensors) {
  const std::vector<float> values{1, 2};
  const auto sent = formats::TensorData::copy_of(DType::kFloat32, Shape{1, 2}, std::as_bytes(std::span(values)));
  const std::string text = pack_tensor(sent);
  const auto received = unpack_tensor(text);
  EXPECT_EQ(received.dtype, DType::kFloat32);
  EXPECT_EQ(received.shape, (Shape{1, 2}));
  EXPECT_EQ(io::as_text(received.bytes), io::as_text(sent.bytes));
  formats::TensorData strings;
  strings.dtype = DType::kString;
  strings.shape = Shape{2};
  strings.strings = {"a", "bc"};
  EXPECT_EQ(unpack_tensor(pack_tensor(strings)).strings, strings.strings);
  for (std::size_t cut = 0; cut < text.size(); ++cut) EXPECT_THROW(unpack_tensor(text.substr(0, cut)), Error) << cut;
  for (const char* head :
       {R"({"dtype": "float32", "shape": [-1]})", R"({"dtype": "float32", "shape": [1e300]})",
        R"({"dtype": "float32", "shape": [4611686018427387904, 4, 2]})", R"({"dtype": "int128", "shape": [2]})",
        R"({"dtype": "string", "shape": [2]})", R"({"dtype": "string", "shape": [1], "sizes": [9]})",
        R"({"dtype": "string", "shape": [1], "sizes": [18446744073709551615]})", "[]", "7"}) {
    EXPECT_THROW(unpack_tensor(std::string(head) + "\n12345678"), Error) << head;
  }
}

}  // namespace
}  // namespace lockstep::collectives
