#include "lockstep/collectives/message_channel_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::collectives {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array<char, 4> kMagic{'L', 'S', 'M', '1'};
constexpr std::size_t kFrame = 16;
constexpr std::size_t kAlignment = 64;
constexpr std::uint32_t kLongestHead = 16 << 20;
constexpr std::uint64_t kLongestBody = std::uint64_t{16} << 30;
constexpr std::size_t kMostTensors = 65536;
constexpr milliseconds kBetweenAttempts{100};

std::size_t padded(std::size_t bytes) { return io::align_up(bytes, kAlignment); }

[[noreturn]] void no_member(const char* name) {
  throw_data_loss(fmt::format("invalid message: found no valid '{}', expected one", name));
}

// A peer whose machine is gone is noticed while nothing is sent, too.
void set_options(int socket) {
  const int on = 1, idle = 5, interval = 2, count = 5;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

bool wait_for(int socket, short events, milliseconds timeout) {
  pollfd polled{socket, events, 0};
  for (;;) {
    const int ready = poll(&polled, 1, static_cast<int>(std::min<std::int64_t>(timeout.count(), INT32_MAX)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace

std::string Message::text(const char* name) const {
  if (!head.contains(name) || !head[name].is_string()) no_member(name);
  return head[name].get<std::string>();
}

std::int64_t Message::integer(const char* name) const {
  if (!head.contains(name)) no_member(name);
  return integer_of(head[name]);
}

double Message::number(const char* name) const {
  if (!head.contains(name) || !head[name].is_number()) no_member(name);
  return head[name].get<double>();
}

bool Message::flag(const char* name) const {
  if (!head.contains(name) || !head[name].is_boolean()) no_member(name);
  return head[name].get<bool>();
}

const Json& Message::list(const char* name) const {
  if (!head.contains(name) || !head[name].is_array()) no_member(name);
  return head[name];
}

Message error_message(Code code, const std::string& text) {
  Message message("error");
  message.head["code"] = static_cast<int>(code);
  message.head["message"] = text;
  return message;
}

Code code_of(const Message& message) {
  const std::int64_t code = message.integer("code");
  return code >= 1 && code <= 15 ? static_cast<Code>(code) : Code::kUnknown;
}

void throw_error_of(const Message& message) {
  if (message.kind() == "error") throw_error(code_of(message), message.text("message"));
}

std::int64_t integer_of(const Json& value) {
  if (!value.is_number_integer()) throw_data_loss("invalid message: found no whole number where one was expected");
  return value.get<std::int64_t>();
}

MessageChannel::MessageChannel(int socket, std::string peer) : socket_(socket), peer_(std::move(peer)) {
  set_options(socket_);
}

MessageChannel::~MessageChannel() { ::close(socket_); }

void MessageChannel::close() noexcept { shutdown(socket_, SHUT_RDWR); }

std::unique_ptr<MessageChannel> MessageChannel::connect(const std::string& peer, const std::string& address,
                                                        milliseconds timeout) {
  const HostPort to = parse_address(address);
  const Clock::time_point end = Clock::now() + timeout;
  std::string problem;
  for (;;) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
    const int socket = connect_to(to, std::clamp(left, milliseconds(1), milliseconds(2000)), problem);
    if (socket >= 0) return std::make_unique<MessageChannel>(socket, peer);
    if (Clock::now() + kBetweenAttempts >= end) {
      throw_deadline_exceeded(fmt::format("{} cannot be reached within {:.1f} s ({}); start it, and check its address",
                                          peer, std::chrono::duration<double>(timeout).count(), problem));
    }
    std::this_thread::sleep_for(kBetweenAttempts);
  }
}

void MessageChannel::lost(const std::string& why) {
  close();
  throw_unavailable(fmt::format("{} is lost: {}", peer_, why));
}

void MessageChannel::malformed(const std::string& why) {
  close();
  throw_data_loss(fmt::format("invalid message of {}: {}", peer_, why));
}

bool MessageChannel::readable(milliseconds timeout) const { return wait_for(socket_, POLLIN, timeout); }

void MessageChannel::send(Message message, milliseconds timeout) {
  static constexpr std::array<char, kAlignment> kPadding{};
  Json tensors = Json::array();
  std::uint64_t body = 0;
  for (const formats::TensorData& tensor : message.tensors) {
    tensors.push_back(Json::array({std::string(dtype_name(tensor.dtype)), tensor.shape.dims()}));
    body += padded(tensor.bytes.size());
  }
  if (body > kLongestBody) {
    throw_resource_exhausted(
        fmt::format("invalid message: found {} bytes of tensors, expected at most {}", body, kLongestBody));
  }
  message.head["tensors"] = std::move(tensors);
  std::string head = dump_json(message.head);
  const auto head_bytes = static_cast<std::uint32_t>(head.size());
  std::array<char, kFrame> frame{};
  std::memcpy(frame.data(), kMagic.data(), kMagic.size());
  std::memcpy(frame.data() + 4, &head_bytes, sizeof head_bytes);
  std::memcpy(frame.data() + 8, &body, sizeof body);
  std::vector<iovec> parts{{frame.data(), frame.size()}, {head.data(), head.size()}};
  for (const formats::TensorData& tensor : message.tensors) {
    const std::size_t bytes = tensor.bytes.size();
    parts.push_back({const_cast<std::byte*>(tensor.bytes.data()), bytes});
    parts.push_back({const_cast<char*>(kPadding.data()), padded(bytes) - bytes});
  }
  const std::lock_guard lock(sending_);
  for (std::size_t at = 0; at < parts.size();) {
    msghdr what{};
    what.msg_iov = parts.data() + at;
    what.msg_iovlen = std::min<std::size_t>(parts.size() - at, 64);
    ssize_t sent = sendmsg(socket_, &what, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (wait_for(socket_, POLLOUT, timeout)) continue;
      close();
      throw_deadline_exceeded(fmt::format("{} has received nothing for {:.1f} s: it is stopped or disconnected", peer_,
                                          std::chrono::duration<double>(timeout).count()));
    }
    if (sent < 0) lost(std::strerror(errno));
    for (; at < parts.size() && static_cast<std::size_t>(sent) >= parts[at].iov_len; ++at)
      sent -= static_cast<ssize_t>(parts[at].iov_len);
    if (at == parts.size()) break;
    parts[at].iov_base = static_cast<char*>(parts[at].iov_base) + sent;
    parts[at].iov_len -= static_cast<std::size_t>(sent);
  }
}

void MessageChannel::read(void* to, std::size_t bytes, milliseconds timeout) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = recv(socket_, at, bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (wait_for(socket_, POLLIN, timeout)) continue;
      close();
      throw_deadline_exceeded(fmt::format("{} has been silent for {:.1f} s: it is stopped or disconnected", peer_,
                                          std::chrono::duration<double>(timeout).count()));
    }
    if (got < 0) lost(std::strerror(errno));
    if (got == 0) lost("it has closed the connection");
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

Message MessageChannel::receive(milliseconds timeout) {
  std::array<char, kFrame> frame{};
  read(frame.data(), frame.size(), timeout);
  if (!std::equal(kMagic.begin(), kMagic.end(), frame.begin())) malformed("it does not use lockstep's protocol");
  std::uint32_t head_bytes = 0;
  std::uint64_t body_bytes = 0;
  std::memcpy(&head_bytes, frame.data() + 4, sizeof head_bytes);
  std::memcpy(&body_bytes, frame.data() + 8, sizeof body_bytes);
  if (head_bytes > kLongestHead || body_bytes > kLongestBody) malformed("it is too long");
  std::string head(head_bytes, '\0');
  read(head.data(), head.size(), timeout);
  Message message;
  try {
    message.head = parse_json(head, "the message");
    if (!message.head.is_object()) throw_data_loss("found no object");
    const Json& tensors = message.list("tensors");
    if (tensors.size() > kMostTensors) throw_data_loss("it has too many tensors");
    std::uint64_t expected = 0;
    for (const Json& entry : tensors) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_array())
        throw_data_loss("found no dtype and shape of a tensor");
      formats::TensorData tensor;
      tensor.dtype = parse_dtype(entry[0].get<std::string>()).value_or(DType::kInvalid);
      for (const Json& dim : entry[1]) {
        const std::int64_t size = integer_of(dim);
        if (size < 0) throw_data_loss("found a negative size");
        tensor.shape.push_back(size);
      }
      const std::size_t width = tensor.dtype == DType::kString ? 0 : dtype_size(tensor.dtype);
      const auto count = tensor.shape.num_elements();
      if (width == 0 || !count || static_cast<std::uint64_t>(*count) > body_bytes / width)
        throw_data_loss("a tensor does not fit into it");
      expected += padded(static_cast<std::size_t>(*count) * width);
      if (expected > body_bytes) throw_data_loss("its tensors do not fit into it");
      message.tensors.push_back(std::move(tensor));
    }
    if (expected != body_bytes) throw_data_loss("its length is not that of its tensors");
  } catch (const Error& error) {
    malformed(error.message());
  }
  if (body_bytes == 0) return message;
  const std::shared_ptr<std::byte> memory(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, static_cast<std::size_t>(body_bytes))), std::free);
  if (!memory) {
    close();
    throw_resource_exhausted(fmt::format("no memory for a message of {} bytes of {}", body_bytes, peer_));
  }
  read(memory.get(), static_cast<std::size_t>(body_bytes), timeout);
  std::size_t offset = 0;
  for (formats::TensorData& tensor : message.tensors) {
    const std::size_t bytes = static_cast<std::size_t>(*tensor.shape.num_elements()) * dtype_size(tensor.dtype);
    tensor.bytes = {memory.get() + offset, bytes};
    tensor.owner = memory;
    offset += padded(bytes);
  }
  return message;
}

}  // namespace lockstep::collectives
