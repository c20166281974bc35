// The little of sockets that starting a job needs; everything else is LibTorch's.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace lockstep::collectives {

// "host:port", "[::1]:2222" -> parts. Throws InvalidArgument quoting the address when it has no port from 1 to 65535.
struct HostPort {
  std::string host;
  int port = 0;
};
HostPort parse_address(const std::string& address);

// A listening socket on all interfaces, closed on destruction unless released. It also keeps a second process from
// taking the same place in a job.
class Listener {
 public:
  // Port 0: one that the system chooses. Throws Unavailable naming `who`, the port and the system's reason, e.g. that
  // another process uses the port.
  Listener(const std::string& who, int port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int release();
  int port() const;
  // A connection that somebody has made; -1 when nobody does within the time.
  int accept(std::chrono::milliseconds timeout) const;

 private:
  int socket_ = -1;
};

// Raises this process's limit of open files as far as a job needs it. Throws ResourceExhausted, naming `who`, if the
// system does not permit that.
void require_descriptors(const std::string& who, std::size_t count);

// Tries once to connect. Gives the socket, or -1 and the reason in `problem`.
int connect_to(const HostPort& address, std::chrono::milliseconds timeout, std::string& problem);

// Tries once to connect. Gives the local address that such a connection has (numeric, without the port), or nothing and
// the reason in `problem`.
std::optional<std::string> probe(const HostPort& address, std::chrono::milliseconds timeout, std::string& problem);

// Whether this machine has the address of `host` on one of its interfaces; then its numeric form.
std::optional<std::string> local_address_of(const std::string& host);

}  // namespace lockstep::collectives
