// Messages with tensors between two processes over TCP. Every wait ends: at a deadline, or when the peer is lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/formats/tensor_data.h"

namespace lockstep::collectives {

// A message: a JSON object and dense tensors. "kind" of the object is its type.
struct Message {
  Json head = Json::object();
  std::vector<formats::TensorData> tensors = {};

  Message() = default;
  explicit Message(const char* kind) { head["kind"] = kind; }
  // Throw DataLoss where the head has no such member, or one of another type.
  std::string kind() const { return text("kind"); }
  std::string text(const char* name) const;
  std::int64_t integer(const char* name) const;
  double number(const char* name) const;
  bool flag(const char* name) const;
  const Json& list(const char* name) const;
};

// A message that contains an error, and the error in it; throw_error_of() does nothing for other messages.
Message error_message(Code code, const std::string& text);
Code code_of(const Message& message);
void throw_error_of(const Message& message);

// The parts of a received message's lists. Throws DataLoss for a value of another type.
std::int64_t integer_of(const Json& value);

// A connection. The frame of a message: "LSM1", the length of the head (u32), that of the tensors (u64), both
// little-endian, the head, whose member "tensors" lists dtypes and shapes, and the elements, each tensor padded to 64
// bytes. A message is checked before memory is allocated for it; a received tensor shares the memory of its message.
//
// Errors: Unavailable for a connection that is closed or broken, DeadlineExceeded when nothing moves for `timeout`,
// DataLoss for malformed messages; each names the peer. After an error the connection is closed.
class MessageChannel {
 public:
  // Takes the socket over.
  MessageChannel(int socket, std::string peer);
  ~MessageChannel();
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  // Connects, trying again until `timeout`: the peer may still be starting. Throws DeadlineExceeded with the reason.
  static std::unique_ptr<MessageChannel> connect(const std::string& peer, const std::string& address,
                                                 std::chrono::milliseconds timeout);

  const std::string& peer() const { return peer_; }
  void set_peer(std::string peer) { peer_ = std::move(peer); }
  // Any thread.
  void send(Message message, std::chrono::milliseconds timeout);
  // One thread at a time.
  Message receive(std::chrono::milliseconds timeout);
  // Whether a message, or the end of the connection, can be received within the time.
  bool readable(std::chrono::milliseconds timeout) const;
  // send() and receive() of all threads fail from now on.
  void close() noexcept;

 private:
  void read(void* to, std::size_t bytes, std::chrono::milliseconds timeout);
  [[noreturn]] void lost(const std::string& why);
  [[noreturn]] void malformed(const std::string& why);

  int socket_;
  std::string peer_;
  std::mutex sending_;
};

}  // namespace lockstep::collectives
