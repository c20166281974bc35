#include "lockstep/collectives/message_channel_internal.h"

#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kPatience{5000};

struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    raw = ends[0];
    channel = std::make_unique<MessageChannel>(ends[1], "worker 1");
  }
  ~Pair() { close(raw); }
  int raw;
  std::unique_ptr<MessageChannel> channel;
};

Message some_message() {
  Message message("step");
  message.head["number"] = 7;
  message.tensors = {Tensor::from_vector<float>({1, 2, 3}, Shape{1, 3}).to_data(),
                     Tensor::from_vector<std::int64_t>({}).to_data(), Tensor::scalar(true).to_data()};
  return message;
}

// The bytes of a message.
std::string frame() {
  Pair pair;
  pair.channel->send(some_message(), kPatience);
  std::string bytes(4096, '\0');
  bytes.resize(static_cast<std::size_t>(recv(pair.raw, bytes.data(), bytes.size(), 0)));
  return bytes;
}

// receive() of truncated bytes.
std::string outcome(const std::string& bytes) {
  Pair pair;
  EXPECT_EQ(send(pair.raw, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  shutdown(pair.raw, SHUT_WR);
  try {
    pair.channel->receive(kPatience);
  } catch (const Error& error) {
    return error.message();
  }
  return "received";
}

TEST(MessageChannel, CarriesTensors) {
  Pair pair;
  const std::string bytes = frame();
  ASSERT_EQ(send(pair.raw, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  const Message message = pair.channel->receive(kPatience);
  EXPECT_EQ(message.kind(), "step");
  EXPECT_EQ(message.integer("number"), 7);
  ASSERT_EQ(message.tensors.size(), 3U);
  const Tensor first = Tensor::from_data(message.tensors[0]);
  EXPECT_EQ(first.shape(), (Shape{1, 3}));
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(Tensor::from_data(message.tensors[1]).num_elements(), 0);
  EXPECT_THROW(message.text("number"), errors::DataLossError);
  EXPECT_THROW(message.integer("kind"), errors::DataLossError);
}

TEST(MessageChannel, MessagesThatAreCutOffAreErrors) {
  const std::string bytes = frame();
  EXPECT_EQ(outcome(bytes), "received");
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THAT(outcome(bytes.substr(0, length)), HasSubstr("worker 1")) << length;
}

TEST(MessageChannel, ChangedMessagesAreErrorsOrMessages) {
  const std::string bytes = frame();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const std::string what = outcome(changed);
      if (what != "received") {
        EXPECT_THAT(what, HasSubstr("worker 1"));
      }
      if (at < 4) {
        EXPECT_THAT(what, HasSubstr("does not use lockstep's protocol"));
      }
    }
  }
}

TEST(MessageChannel, SilenceAndFullBuffersHaveADeadline) {
  Pair pair;
  EXPECT_FALSE(pair.channel->readable(milliseconds(1)));
  EXPECT_THROW(pair.channel->receive(milliseconds(20)), errors::DeadlineExceededError);
  Pair full;
  Message large("large");
  large.tensors = {Tensor::zeros(Shape{4 << 20}).to_data()};
  EXPECT_THROW(full.channel->send(std::move(large), milliseconds(20)), errors::DeadlineExceededError);
  EXPECT_THROW(full.channel->send(Message("next"), milliseconds(20)), errors::UnavailableError);
}

}  // namespace
}  // namespace lockstep::collectives
