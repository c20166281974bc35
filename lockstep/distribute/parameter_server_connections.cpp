// The connections of a process to the parameter servers, and its requests.
#include "lockstep/distribute/parameter_servers_internal.h"

#include <thread>

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::distribute {
namespace {

using collectives::Message;
using collectives::MessageChannel;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSynchronizePoll{50};

}  // namespace

void ParameterServers::connect() {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i].channel) {
      try {
        hello(i);
        continue;
      } catch (const Error&) {
        connections_[i].channel = nullptr;  // made again
      }
    }
    channel(i);
  }
}

Message ParameterServers::hello(std::size_t server) {
  Message request("hello");
  request.head["name"] = options_.own_name;
  request.head["chief"] = options_.chief;
  return ask(server, std::move(request));
}

MessageChannel& ParameterServers::channel(std::size_t server) {
  Connection& connection = connections_[server];
  const Clock::time_point end = Clock::now() + options_.startup_timeout;
  while (!connection.channel) {
    const Server& to = options_.servers[server];
    connection.channel = MessageChannel::connect(to.name, to.address, options_.startup_timeout);
    connection.optimizers.clear();
    try {
      hello(server);
    } catch (const Error& error) {
      // A process that is being killed may still accept connections: its successor is awaited.
      if (error.code() != Code::kUnavailable || Clock::now() >= end) throw;
      connection.channel = nullptr;
      std::this_thread::sleep_for(kSynchronizePoll);
    }
  }
  return *connection.channel;
}

Message ParameterServers::received(std::size_t server) {
  Connection& connection = connections_[server];
  Message reply;
  try {
    reply = connection.channel->receive(options_.timeout);
  } catch (...) {
    connection.channel = nullptr;
    throw;
  }
  collectives::throw_error_of(reply);
  return reply;
}

Message ParameterServers::ask(std::size_t server, Message request) {
  MessageChannel& to = channel(server);
  try {
    to.send(std::move(request), options_.timeout);
  } catch (...) {
    connections_[server].channel = nullptr;
    throw;
  }
  return received(server);
}

// A message for each server. All answers are read, whichever fails, so that connections stay usable.
std::vector<Message> ParameterServers::ask_all(std::vector<Message> requests) {
  std::vector<Message> replies(requests.size());
  std::vector<bool> sent(requests.size());
  std::exception_ptr problem;
  const auto noting = [&](const auto& work) {
    try {
      work();
    } catch (const Error&) {
      if (!problem) problem = std::current_exception();
    }
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    noting([&] {
      MessageChannel& to = channel(i);
      try {
        to.send(std::move(requests[i]), options_.timeout);
      } catch (...) {
        connections_[i].channel = nullptr;
        throw;
      }
      sent[i] = true;
    });
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (sent[i]) noting([&] { replies[i] = received(i); });
  }
  if (problem) {
    try {
      std::rethrow_exception(problem);
    } catch (const Error& error) {
      if (error.code() == Code::kAborted) generation_ = 0;
      throw;
    }
  }
  return replies;
}

// Waits until all servers hold the variables of one upload.
void ParameterServers::synchronize() {
  const Clock::time_point end = Clock::now() + options_.startup_timeout;
  for (;;) {
    std::int64_t generation = 0;
    bool ready = true;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      const Message state = hello(i);
      if (i > 0 && state.integer("generation") != generation) ready = false;
      generation = state.integer("generation");
      ready = ready && state.flag("ready") && generation > 0;
    }
    if (ready) {
      generation_ = generation;
      for (Connection& connection : connections_) connection.optimizers.clear();
      for (Placed& placed : placed_) {
        for (Part& part : placed.parts) part.version = 0;
      }
      return;
    }
    if (Clock::now() > end) {
      throw_deadline_exceeded(
          fmt::format("the chief has not sent the variables to the parameter servers within {:.0f} s",
                      std::chrono::duration<double>(options_.startup_timeout).count()));
    }
    std::this_thread::sleep_for(kSynchronizePoll);
  }
}

Message ParameterServers::step_request(std::size_t server, const std::string& optimizer, bool wanted) const {
  Message request("step");
  request.head["generation"] = generation_;
  request.head["token"] = "";
  request.head["optimizer"] = optimizer;
  request.head["updates"] = Json::array();
  Json list = Json::array();
  for (std::size_t i = 0; i < placed_.size() && wanted; ++i) {
    for (std::size_t k = 0; k < placed_[i].parts.size(); ++k) {
      const Part& part = placed_[i].parts[k];
      const bool later = placed_[i].by_rows && part.version > 0;
      if (part.server == server && !later) list.push_back(Json::array({i, k, part.version}));
    }
  }
  request.head["wanted"] = std::move(list);
  return request;
}

std::vector<Message> ParameterServers::step_requests(const std::string& optimizer, bool wanted) const {
  std::vector<Message> requests;
  for (std::size_t i = 0; i < connections_.size(); ++i) requests.push_back(step_request(i, optimizer, wanted));
  return requests;
}

}  // namespace lockstep::distribute
