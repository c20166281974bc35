#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/collectives/message_channel_internal.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/distribute/parameter_server_internal.h"

namespace lockstep::distribute {
namespace {

using collectives::Message;
constexpr std::chrono::seconds kTimeout{60};

// A server that a chief's messages reach, as they come from a network.
TEST(ParameterServer, ChecksTheOptionsOfRules) {
  const int port = collectives::Listener("test", 0).port();
  ParameterServer server("ps 0", port,
                         [](const Json&, const Variable&, const Json&) { return std::unique_ptr<UpdateRule>(); });
  std::thread serving([&] { server.join(); });
  const auto channel = collectives::MessageChannel::connect("ps 0", "127.0.0.1:" + std::to_string(port), kTimeout);
  const auto answer = [&](Message message) {
    channel->send(std::move(message), kTimeout);
    return channel->receive(kTimeout);
  };
  Message hello("hello");
  hello.head["name"] = "chief";
  hello.head["chief"] = true;
  EXPECT_EQ(answer(std::move(hello)).kind(), "state");
  const auto define = [&](const std::optional<Json>& options) {
    Message message("define");
    message.head["id"] = message.head["part"] = 0;
    message.head["path"] = "kernel";
    message.head["optimizer"] = "adam";
    message.head["slots"] = Json::array();
    if (options) message.head["options"] = *options;
    message.tensors.push_back(Tensor::scalar(1.0F).to_data());
    return answer(std::move(message));
  };
  EXPECT_EQ(define(Json::object()).kind(), "done");
  EXPECT_EQ(define(Json{{"decays", false}}).kind(), "done");
  for (const std::optional<Json>& options :
       {std::optional<Json>(), std::optional<Json>(Json()), std::optional<Json>(Json::array({1})),
        std::optional<Json>(Json("decays")), std::optional<Json>(Json{{"decays", 1}})}) {
    try {
      throw_error_of(define(options));
      ADD_FAILURE() << (options ? dump_json(*options) : "no options");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDataLoss);
      EXPECT_NE(error.message().find("without the options of its rule"), std::string::npos) << error.message();
    }
  }
  EXPECT_EQ(answer(Message("stop")).kind(), "done");
  serving.join();
}

}  // namespace
}  // namespace lockstep::distribute
