// A job with parameter servers as threads of one process, for tests.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/parameter_server_strategy.h"
#include "lockstep/keras/optimizers/server.h"

namespace lockstep::distribute {

// Ports that nobody listens on; they stay bound, so that nobody else gets them.
class Ports {
 public:
  explicit Ports(int count) {
    for (int i = 0; i < count; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const int on = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      socklen_t length = sizeof address;
      if (bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) throw_unavailable("no free port");
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
      sockets_.push_back(fd);
      ports_.push_back(ntohs(address.sin_port));
    }
  }
  ~Ports() {
    for (const int fd : sockets_) close(fd);
  }
  int operator[](int i) const { return ports_[static_cast<std::size_t>(i)]; }
  std::string address(int i) const { return fmt::format("127.0.0.1:{}", (*this)[i]); }

 private:
  std::vector<int> sockets_, ports_;
};

// The processes of a cluster as threads; `program` runs on the chief and on the workers.
inline void run_cluster(
    int workers, int servers, const std::function<void(ParameterServerStrategy&)>& program,
    const std::function<void(const std::string& chief, const std::string& cluster)>& run_meanwhile = {}) {
  const Ports ports(1 + workers + servers);
  std::map<std::string, ClusterSpec::Tasks> jobs;
  jobs["chief"][0] = ports.address(0);
  for (int i = 0; i < workers; ++i) jobs["worker"][i] = ports.address(1 + i);
  for (int i = 0; i < servers; ++i) jobs["ps"][i] = ports.address(1 + workers + i);
  const ClusterSpec spec(jobs);
  std::vector<std::thread> threads;
  const auto run = [&](const std::string& job, int index) {
    threads.emplace_back([&program, cluster = ClusterResolver(spec, job, index)] {
      if (cluster.task_type() == "ps") return Server({.cluster_resolver = cluster}).join();
      ParameterServerStrategy strategy({.cluster_resolver = cluster, .report = [](const std::string&) {}});
      const auto scope = strategy.scope();
      program(strategy);
    });
  };
  for (int i = 0; i < servers; ++i) run("ps", i);
  run("chief", 0);
  if (run_meanwhile) run_meanwhile(ports.address(0), dump_json(spec.as_dict()));
  for (int i = 0; i < workers; ++i) run("worker", i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::distribute
