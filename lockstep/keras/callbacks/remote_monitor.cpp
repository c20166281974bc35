#include "lockstep/keras/callbacks/remote_monitor.h"

#include <array>
#include <chrono>
#include <cstring>

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/distribute/strategy.h"
#include "lockstep/keras/callbacks/monitors.h"
#include "lockstep/keras/callbacks/reads_together.h"
#include "lockstep/keras/trainer/trainer.h"

namespace lockstep::callbacks {
namespace {

constexpr std::chrono::seconds kTimeout{10};

// As a value of a form: application/x-www-form-urlencoded.
std::string form_encoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::strchr("_.-~", c)) {
      out += c;
    } else if (c == ' ') {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

class Socket {
 public:
  explicit Socket(int socket) : socket_(socket) {}
  ~Socket() {
    if (socket_ >= 0) close(socket_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Sends all of it and awaits the first bytes of an answer. Gives the problem, if there is one.
  std::string exchange(const std::string& request) const {
    const timeval limit{kTimeout.count(), 0};
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (std::size_t sent = 0; sent < request.size();) {
      const ssize_t n = send(socket_, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return std::strerror(errno);
      sent += static_cast<std::size_t>(n);
    }
    std::array<char, 512> answer{};
    ssize_t n = 0;
    do {
      n = recv(socket_, answer.data(), answer.size(), 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0) return errno == EAGAIN ? "no answer in time" : std::strerror(errno);
    return n == 0 ? "the server closed the connection without an answer" : "";
  }

 private:
  int socket_;
};

class RemoteMonitorCallback final : public Callback, public keras::ReadsTogether {
 public:
  explicit RemoteMonitorCallback(RemoteMonitorOptions options) : options_(std::move(options)) {
    constexpr std::string_view kScheme = "http://";
    if (!options_.root.starts_with(kScheme))
      throw_invalid_argument(
          fmt::format("RemoteMonitor: root is '{}', expected an address that begins with http://", options_.root));
    const std::string rest = options_.root.substr(kScheme.size());
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    host_ = rest.substr(0, slash);
    prefix_ = rest.substr(slash);
    const bool has_port =
        host_.find(':', host_.starts_with('[') ? std::min(host_.find(']'), host_.size()) : 0) != std::string::npos;
    address_ = collectives::parse_address(has_port ? host_ : host_ + ":80");
    check_text("path", options_.path);
    check_text("root", options_.root);
    if (options_.headers.is_null()) return;
    if (!options_.headers.is_object())
      throw_invalid_argument("RemoteMonitor: headers must be an object of names and values");
    for (const auto& [name, value] : options_.headers.items()) {
      check_text("headers", name);
      if (!value.is_string())
        throw_invalid_argument(fmt::format("RemoteMonitor: the header '{}' must be a string", name));
      check_text("headers", value.get<std::string>());
    }
  }
  std::string class_name() const override { return "RemoteMonitor"; }

  void on_epoch_end(int epoch, Logs& logs) override {
    if (trainer_ && trainer_->strategy() && !trainer_->strategy()->is_chief()) return;
    Json sent = {{"epoch", epoch}};
    for (const auto& [name, value] : logs) sent[name] = Json(value);
    std::string problem;
    const int socket = collectives::connect_to(address_, kTimeout, problem);
    if (socket >= 0) problem = Socket(socket).exchange(request(dump_json(sent)));
    if (!problem.empty()) log_warning("RemoteMonitor: {} was not reached: {}", options_.root, problem);
  }

 private:
  static void check_text(const char* what, const std::string& text) {
    if (text.find_first_of("\r\n") != std::string::npos)
      throw_invalid_argument(fmt::format("RemoteMonitor: {} contains a line break", what));
  }
  std::string request(const std::string& json) const {
    const std::string body = options_.send_as_json ? json : form_encoded(options_.field) + "=" + form_encoded(json);
    std::string text = fmt::format("POST {}{} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n",
                                   prefix_, options_.path, host_, body.size());
    text += options_.send_as_json ? "Content-Type: application/json\r\n"
                                  : "Content-Type: application/x-www-form-urlencoded\r\n";
    if (options_.headers.is_object()) {
      for (const auto& [name, value] : options_.headers.items())
        text += fmt::format("{}: {}\r\n", name, value.get<std::string>());
    }
    return text + "\r\n" + body;
  }

  RemoteMonitorOptions options_;
  std::string host_, prefix_;
  collectives::HostPort address_;
};

}  // namespace

keras::CallbackPtr RemoteMonitor(RemoteMonitorOptions options) {
  return std::make_shared<RemoteMonitorCallback>(std::move(options));
}

}  // namespace lockstep::callbacks
