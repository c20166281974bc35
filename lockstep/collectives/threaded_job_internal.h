// Jobs over loopback whose ranks are threads of one process, for tests.
#pragma once

#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/collectives/workers_internal.h"

namespace lockstep::collectives::threaded_job {

// Ports that nobody uses at the moment, below those that the system gives to outgoing connections; other processes'
// tests look for theirs elsewhere.
inline std::vector<std::string> free_addresses(int count) {
  static int next = 21000 + static_cast<int>(getpid() % 1000) * 11;
  std::vector<std::string> out;
  while (static_cast<int>(out.size()) < count) {
    const int port = next++;
    try {
      const Listener probe("test", port);
      out.push_back("127.0.0.1:" + std::to_string(port));
    } catch (const Error&) {  // taken
    }
  }
  return out;
}

inline JobOptions job(int rank, const std::vector<std::string>& addresses) {
  JobOptions options;
  options.rank = rank;
  options.addresses = addresses;
  for (std::size_t i = 0; i < addresses.size(); ++i)
    options.names.push_back("worker " + std::to_string(i) + " (" + addresses[i] + ")");
  return options;
}

// Runs fn(rank) on one thread for each rank; returns the messages of their exceptions.
inline std::vector<std::string> run(int size, const std::function<void(int)>& fn) {
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        fn(rank);
      } catch (const Error& error) {
        messages[static_cast<std::size_t>(rank)] = std::string(code_name(error.code())) + ": " + error.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return messages;
}

}  // namespace lockstep::collectives::threaded_job
