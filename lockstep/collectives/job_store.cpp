#include "lockstep/collectives/job_store_internal.h"

#include <cstdlib>
#include <mutex>

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"

namespace lockstep::collectives {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes to_bytes(const std::string& text) { return Bytes(text.begin(), text.end()); }
std::string to_text(const Bytes& bytes) { return std::string(bytes.begin(), bytes.end()); }

// LibTorch logs a trace for each connection that breaks; its cause is reported by our own error.
void quiet_libtorch() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!std::getenv("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = 3;  // fatal errors only
  });
}

// The first line of an exception of LibTorch, without its file names and traces.
std::string plain_reason(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  // "[…/socket.cpp:534] Connection closed by peer [127.0.0.1]:4711"
  if (text.starts_with("[") && text.find("] ") != std::string::npos) text = text.substr(text.find("] ") + 2);
  for (const char* tail : {" Exception raised from", ". This may indicate"}) text = text.substr(0, text.find(tail));
  return text;
}

// LibTorch's exceptions become StoreLost.
template <typename Fn>
auto guarded(const std::string& address, const char* what, Fn fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw StoreLost(fmt::format("the job's store at {} cannot {}: {}", address, what, plain_reason(error)));
  }
}

class TcpJobStore final : public JobStore {
 public:
  TcpJobStore(std::string address, c10::intrusive_ptr<c10d::Store> store)
      : address_(std::move(address)), store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    guarded(address_, "write", [&] { store_->set(key, to_bytes(value)); });
  }
  std::string get(const std::string& key) override {
    return guarded(address_, "read", [&] { return to_text(store_->get(key)); });
  }
  std::vector<std::string> get_all(const std::vector<std::string>& keys) override {
    return guarded(address_, "read", [&] {
      std::vector<std::string> out;
      for (const Bytes& value : store_->multiGet(keys)) out.push_back(to_text(value));
      return out;
    });
  }
  bool has(const std::string& key) override {
    return guarded(address_, "read", [&] { return store_->check({key}); });
  }
  bool set_once(const std::string& key, const std::string& value) override {
    return guarded(address_, "write", [&] { return to_text(store_->compareSet(key, {}, to_bytes(value))) == value; });
  }
  std::unique_ptr<JobStore> clone() override {
    return guarded(address_, "be reached again",
                   [&] { return std::make_unique<TcpJobStore>(address_, store_->clone()); });
  }

 private:
  std::string address_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace

std::unique_ptr<JobStore> serve_store(const std::string& host, int port, Listener& listener,
                                      std::chrono::milliseconds timeout) {
  quiet_libtorch();
  const std::string where = fmt::format("{}:{}", host, port);
  return guarded(where, "start", [&] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(port);
    options.isServer = true;
    options.waitWorkers = false;
    options.timeout = timeout;
    options.masterListenFd = listener.release();
    return std::make_unique<TcpJobStore>(where, c10::make_intrusive<c10d::TCPStore>(host, options));
  });
}

std::unique_ptr<JobStore> join_store(const HostPort& address, std::chrono::milliseconds timeout,
                                     const std::string& prefix) {
  quiet_libtorch();
  const std::string where = fmt::format("{}:{}", address.host, address.port);
  return guarded(where, "be reached", [&] {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(address.port);
    options.waitWorkers = false;
    options.timeout = timeout;
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
    if (!prefix.empty()) store = c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store));
    return std::make_unique<TcpJobStore>(where, std::move(store));
  });
}

}  // namespace lockstep::collectives
