#include "lockstep/collectives/peer_links_internal.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/block_gather_internal.h"
#include "lockstep/collectives/element_sum_internal.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/io/bytes_internal.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;

constexpr int kLook = 20;                         // milliseconds between two checks for an abort
constexpr std::size_t kScratch = 256 << 10;       // bytes that are added while they are in the cache
constexpr std::size_t kPartAlignment = 64;        // of the parts of a ring
constexpr std::size_t kBroadcastPiece = 1 << 20;  // bytes that a member of a tree passes on at a time

// The network that the choice between rings and recursive doubling assumes. It is not measured: the order of addition
// follows from it and must be the same in every run.
constexpr double kLatency = 100e-6;  // seconds of a message
constexpr double kSecondsPerByte = 1e-9;
constexpr double kSecondsPerAddedByte = 0.25e-9;  // which a ring does while it receives

using Token = std::array<unsigned char, 16>;

// The first bytes of a connection.
struct Hello {
  Token token;  // of the member that is called
  std::int32_t caller;
};

std::string hex(const Token& token) {
  std::string out;
  for (const unsigned char byte : token) out += fmt::format("{:02x}", byte);
  return out;
}

std::string key_of(const std::string& name, int member) { return fmt::format("links/{}/{}", name, member); }

std::string failure() { return std::strerror(errno); }

[[noreturn]] void broken(const std::string& why) { throw_unavailable(fmt::format("connection lost: {}", why)); }

void wait_for(int socket, short events, const PeerLinks::AbortCheck& check_abort) {
  for (;;) {
    pollfd waiting{socket, events, 0};
    if (poll(&waiting, 1, kLook) > 0) return;
    check_abort();
  }
}

int accept(const Listener& listener, const PeerLinks::AbortCheck& check_abort) {
  for (;;) {
    const int socket = listener.accept(milliseconds(kLook));
    if (socket >= 0) return socket;
    check_abort();
  }
}

// The hello of a new connection; false for a stranger.
bool read_hello(int socket, const Token& token, std::int32_t& caller, const PeerLinks::AbortCheck& check_abort) {
  Hello hello;
  for (std::size_t at = 0; at < sizeof hello;) {
    wait_for(socket, POLLIN, check_abort);
    const ssize_t count = recv(socket, reinterpret_cast<char*>(&hello) + at, sizeof hello - at, MSG_DONTWAIT);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (count > 0) at += static_cast<std::size_t>(count);
  }
  caller = hello.caller;
  return hello.token == token;
}

}  // namespace

std::vector<int> linked_members(int rank, int size) {
  std::set<int> members;
  for (int distance = 1; distance < size; distance *= 2) {
    members.insert((rank + distance) % size);
    members.insert((rank - distance + size) % size);
  }
  members.erase(rank);
  return {members.begin(), members.end()};
}

bool doubling_is_faster(std::size_t bytes, int size) {
  if (size < 2) return true;
  const auto members = static_cast<double>(size), length = static_cast<double>(bytes) * kSecondsPerByte;
  const int whole = std::bit_width(static_cast<unsigned>(size)) - 1;  // rounds among a power of two
  const int rounds = whole + (std::has_single_bit(static_cast<unsigned>(size)) ? 0 : 2);
  return rounds * (kLatency + length + static_cast<double>(bytes) * kSecondsPerAddedByte) <=
         2 * (members - 1) * (kLatency + length / members);
}

PeerLinks::PeerLinks(JobStore& store, const std::string& name, int rank, int size, const std::string& host,
                     milliseconds timeout, const AbortCheck& check_abort)
    : rank_(rank), size_(size) {
  if (size < 2) return;
  Token token;
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size()))
    throw_internal("the system has no random numbers");
  const Listener listener(name, 0);
  const bool numeric6 = host.find(':') != std::string::npos;
  store.set(key_of(name, rank),
            fmt::format("{}{}{}:{} {}", numeric6 ? "[" : "", host, numeric6 ? "]" : "", listener.port(), hex(token)));
  std::set<int> awaited;
  for (const int member : linked_members(rank, size)) {
    if (member > rank) {
      awaited.insert(member);
      continue;
    }
    const std::string text = store.get(key_of(name, member));
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.size() != space + 1 + 2 * sizeof(Token))
      throw_data_loss("invalid address of a worker");
    Hello hello{{}, rank};
    for (std::size_t i = 0; i < sizeof(Token); ++i)
      hello.token[i] = static_cast<unsigned char>(std::stoi(text.substr(space + 1 + 2 * i, 2), nullptr, 16));
    std::string problem;
    const int socket = connect_to(parse_address(text.substr(0, space)), timeout, problem);
    if (socket < 0) broken(fmt::format("{}: {}", text.substr(0, space), problem));
    sockets_[member] = socket;
    exchange(member, {reinterpret_cast<const std::byte*>(&hello), sizeof hello}, member, std::span<std::byte>(),
             check_abort);
  }
  while (!awaited.empty()) {
    const int socket = accept(listener, check_abort);
    std::int32_t caller = -1;
    if (!read_hello(socket, token, caller, check_abort) || awaited.erase(caller) == 0) {
      close(socket);
      continue;
    }
    sockets_[caller] = socket;
  }
  for (const auto& [member, socket] : sockets_) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
}

PeerLinks::~PeerLinks() {
  for (const auto& [member, socket] : sockets_) close(socket);
}

int PeerLinks::socket_of(int member) const {
  const auto found = sockets_.find(member);
  if (found == sockets_.end()) throw_internal("no connection to a member");
  return found->second;
}

// Sends to one member while it receives from another, or from the same one. What arrives is put into `in`; with
// `received` that gets it in pieces instead, and only the size of `in` counts.
void PeerLinks::exchange(int to, std::span<const std::byte> out, int from, std::span<std::byte> in,
                         const Received& received, const AbortCheck& check_abort) {
  if (received) scratch_.resize(kScratch);
  const int target = out.empty() ? -1 : socket_of(to), source = in.empty() ? -1 : socket_of(from);
  std::size_t sent = 0, done = 0, held = 0;  // held: bytes in scratch_
  while (sent < out.size() || done < in.size()) {
    bool moved = false;
    if (sent < out.size()) {
      const ssize_t count = send(target, out.data() + sent, out.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN && errno != EINTR) broken(failure());
      if (count > 0) sent += static_cast<std::size_t>(count), moved = true;
    }
    if (done < in.size()) {
      const std::size_t piece = received ? std::min(kScratch, in.size() - done) : in.size() - done;
      std::byte* const place = received ? scratch_.data() : in.data() + done;
      const ssize_t count = recv(source, place + held, piece - held, MSG_DONTWAIT);
      if (count == 0) broken("closed by the other side");
      if (count < 0 && errno != EAGAIN && errno != EINTR) broken(failure());
      if (count > 0) {
        moved = true;
        held += static_cast<std::size_t>(count);
        if (received && held == piece) received(done, {scratch_.data(), held});
        if (!received || held == piece) done += std::exchange(held, 0);
      }
    }
    if (moved) continue;
    std::array<pollfd, 2> waiting{};
    nfds_t number = 0;
    if (sent < out.size()) waiting[number++] = {target, POLLOUT, 0};
    if (done < in.size()) waiting[number++] = {source, POLLIN, 0};
    if (poll(waiting.data(), number, kLook) <= 0) check_abort();
  }
}

void PeerLinks::exchange(int to, std::span<const std::byte> out, int from, std::span<std::byte> in,
                         const AbortCheck& check_abort) {
  exchange(to, out, from, in, {}, check_abort);
}

void PeerLinks::sum(std::span<std::byte> data, DType dtype, const AbortCheck& check_abort) {
  if (size_ < 2 || data.empty()) return;
  if (doubling_is_faster(data.size(), size_)) {
    doubling_sum(data, dtype, check_abort);
  } else {
    ring_sum(data, dtype, check_abort);
  }
}

// Reduce-scatter and all-gather in size - 1 steps each. Part p is summed in the order of the members from p on.
void PeerLinks::ring_sum(std::span<std::byte> data, DType dtype, const AbortCheck& check_abort) {
  const auto members = static_cast<std::size_t>(size_);
  const std::size_t each = io::align_up(data.size(), members * kPartAlignment) / members;
  const auto part = [&](int number) {
    const std::size_t begin = std::min(data.size(), static_cast<std::size_t>((number + 2 * size_) % size_) * each);
    return data.subspan(begin, std::min(each, data.size() - begin));
  };
  const int next = at_distance(1), previous = at_distance(-1);
  const ElementSum add = element_sum(dtype);
  for (int step = 0; step + 1 < size_; ++step) {
    const std::span<std::byte> mine = part(rank_ - step - 1);
    const auto add_received = [&](std::size_t offset, std::span<const std::byte> bytes) {
      const std::byte* const addends[] = {bytes.data(), mine.data() + offset};
      add(addends, 2, bytes.size(), mine.data() + offset);
    };
    exchange(next, part(rank_ - step), previous, mine, add_received, check_abort);
  }
  for (int step = 0; step + 1 < size_; ++step)
    exchange(next, part(rank_ - step + 1), previous, part(rank_ - step), check_abort);
}

// The members beyond the largest power of two give their data to others and get the result; these exchange all data
// with the members at distances 1, 2, 4, …
void PeerLinks::doubling_sum(std::span<std::byte> data, DType dtype, const AbortCheck& check_abort) {
  const int half = static_cast<int>(std::bit_floor(static_cast<unsigned>(size_)));
  const ElementSum add = element_sum(dtype);
  std::vector<std::byte> theirs(data.size());
  const auto add_theirs = [&](bool first) {
    const std::byte* const addends[] = {first ? theirs.data() : data.data(), first ? data.data() : theirs.data()};
    add(addends, 2, data.size(), data.data());
  };
  if (rank_ >= half) {
    exchange(rank_ - half, data, rank_ - half, std::span<std::byte>(), check_abort);
    exchange(rank_ - half, {}, rank_ - half, data, check_abort);
    return;
  }
  const int extra = rank_ + half < size_ ? rank_ + half : -1;
  if (extra >= 0) {
    exchange(extra, {}, extra, theirs, check_abort);
    add_theirs(false);
  }
  for (int distance = 1; distance < half; distance *= 2) {
    const int other = rank_ ^ distance;
    exchange(other, data, other, theirs, check_abort);
    add_theirs(other < rank_);
  }
  if (extra >= 0) exchange(extra, data, extra, std::span<std::byte>(), check_abort);
}

void PeerLinks::gather(std::span<std::byte> data, const std::vector<std::size_t>& ends, const AbortCheck& check_abort) {
  const auto block = [&](int member) { return block_at(data, ends, (member + 2 * size_) % size_); };
  for (int step = 0; step + 1 < size_; ++step)
    exchange(at_distance(1), block(rank_ - step), at_distance(-1), block(rank_ - step - 1), check_abort);
}

// A binomial tree: the member at distance d from the root receives from the one at d without its lowest bit.
void PeerLinks::broadcast(std::span<std::byte> data, int root, const AbortCheck& check_abort) {
  const int place = (rank_ - root + size_) % size_;
  int bit = 1;
  while (bit < size_ && !(place & bit)) bit *= 2;
  for (std::size_t begin = 0; begin < data.size(); begin += kBroadcastPiece) {
    const std::span<std::byte> piece = data.subspan(begin, std::min(kBroadcastPiece, data.size() - begin));
    if (place != 0) exchange(at_distance(-bit), {}, at_distance(-bit), piece, check_abort);
    for (int distance = bit / 2; distance > 0; distance /= 2) {
      if (place + distance < size_)
        exchange(at_distance(distance), piece, at_distance(distance), std::span<std::byte>(), check_abort);
    }
  }
}

}  // namespace lockstep::collectives
