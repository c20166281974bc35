// The key-value store that the workers of a job share: LibTorch's TCPStore, which lives in rank 0.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tcp_internal.h"

namespace lockstep::collectives {

// The connection to the store is lost (Unavailable, with LibTorch's message).
class StoreLost final : public errors::UnavailableError {
 public:
  explicit StoreLost(const std::string& message) : errors::UnavailableError(message) {}
};

// One connection to the store. Calls may come from several threads, one waiting for the other. All throw StoreLost.
// While the line is cut a call does not return for as long as TCP tries, which may be a quarter of an hour.
class JobStore {
 public:
  virtual ~JobStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits for the key up to the store's timeout.
  virtual std::string get(const std::string& key) = 0;
  virtual std::vector<std::string> get_all(const std::vector<std::string>& keys) = 0;
  virtual bool has(const std::string& key) = 0;
  // Sets a key that is not there yet; false when it is.
  virtual bool set_once(const std::string& key, const std::string& value) = 0;
  // Another connection.
  virtual std::unique_ptr<JobStore> clone() = 0;
};

// Opens the store on `listener` and serves it until the connection made here is dropped.
std::unique_ptr<JobStore> serve_store(const std::string& host, int port, Listener& listener,
                                      std::chrono::milliseconds timeout);
// `prefix`: begins all keys of this connection and its clones.
std::unique_ptr<JobStore> join_store(const HostPort& address, std::chrono::milliseconds timeout,
                                     const std::string& prefix = {});

}  // namespace lockstep::collectives
