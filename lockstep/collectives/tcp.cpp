#include "lockstep/collectives/tcp_internal.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kOtherFiles = 256;  // of data, checkpoints and the program itself

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses resolve(const std::string& host, int port, std::string& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0) {
    problem = fmt::format("the host name '{}' cannot be resolved ({})", host, gai_strerror(status));
    found = nullptr;
  }
  return {found, freeaddrinfo};
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

int listening_socket(int family, int port) {
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  socklen_t length = 0;
  if (family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address);
    v6->sin6_family = AF_INET6;
    v6->sin6_addr = in6addr_any;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof(sockaddr_in6);
  } else {
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address);
    v4->sin_family = AF_INET;
    v4->sin_addr.s_addr = htonl(INADDR_ANY);
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    length = sizeof(sockaddr_in);
  }
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

// Connects within the time; 0 or an errno.
int connect_within(int fd, const addrinfo& to, std::chrono::milliseconds timeout) {
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  if (connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd wait{fd, POLLOUT, 0};
  if (poll(&wait, 1, static_cast<int>(timeout.count())) <= 0) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

HostPort parse_address(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  HostPort out;
  if (colon != std::string::npos) {
    out.host = address.substr(0, colon);
    if (out.host.size() > 2 && out.host.front() == '[' && out.host.back() == ']')
      out.host = out.host.substr(1, out.host.size() - 2);
    const char* const end = address.data() + address.size();
    const auto parsed = std::from_chars(address.data() + colon + 1, end, out.port);
    if (parsed.ec != std::errc() || parsed.ptr != end) out.port = 0;
  }
  if (out.host.empty() || out.port < 1 || out.port > 65535) {
    throw_invalid_argument(fmt::format("address '{}': expected host:port with a port from 1 to 65535", address));
  }
  return out;
}

Listener::Listener(const std::string& who, int port) {
  socket_ = listening_socket(AF_INET6, port);
  if (socket_ < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) socket_ = listening_socket(AF_INET, port);
  if (socket_ >= 0) return;
  const int error = errno;
  const char* const remedy = error == EADDRINUSE
                                 ? "another process uses it (an earlier run of this job, or this task started twice?); "
                                   "end it or give another port"
                                 : "give a port this user may listen on";
  throw_unavailable(fmt::format("{}: cannot listen on port {} ({}): {}", who, port, std::strerror(error), remedy));
}

Listener::~Listener() {
  if (socket_ >= 0) close(socket_);
}

int Listener::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

int Listener::release() { return std::exchange(socket_, -1); }

int Listener::accept(std::chrono::milliseconds timeout) const {
  pollfd wait{socket_, POLLIN, 0};
  if (poll(&wait, 1, static_cast<int>(timeout.count())) <= 0) return -1;
  return accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
}

int connect_to(const HostPort& address, std::chrono::milliseconds timeout, std::string& problem) {
  const Addresses found = resolve(address.host, address.port, problem);
  for (const addrinfo* to = found.get(); to; to = to->ai_next) {
    Socket connection(socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC, to->ai_protocol));
    if (connection.fd() < 0) continue;
    const int error = connect_within(connection.fd(), *to, timeout);
    if (error == 0) return connection.release();
    problem = std::strerror(error);
  }
  return -1;
}

std::optional<std::string> probe(const HostPort& address, std::chrono::milliseconds timeout, std::string& problem) {
  const int fd = connect_to(address, timeout, problem);
  if (fd < 0) return std::nullopt;
  const Socket connection(fd);
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  getsockname(connection.fd(), reinterpret_cast<sockaddr*>(&local), &length);
  return numeric(reinterpret_cast<sockaddr*>(&local), length);
}

std::optional<std::string> local_address_of(const std::string& host) {
  std::string problem;
  const Addresses found = resolve(host, 0, problem);
  for (const addrinfo* address = found.get(); address; address = address->ai_next) {
    const Socket trial(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (trial.fd() >= 0 && bind(trial.fd(), address->ai_addr, address->ai_addrlen) == 0) {
      return numeric(address->ai_addr, address->ai_addrlen);
    }
  }
  return std::nullopt;
}

void require_descriptors(const std::string& who, std::size_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const auto needed = static_cast<rlim_t>(count + kOtherFiles);
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed) {
    throw_resource_exhausted(fmt::format("{} requires {} open files: found a limit of {}; raise it (ulimit -n {})", who,
                                         needed, limit.rlim_max, needed));
  }
  limit.rlim_cur = needed;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace lockstep::collectives
