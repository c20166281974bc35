// A parameter server: holds variables, or shards of them, and applies the updates that workers send.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/distribute/variable.h"

namespace lockstep::distribute {

// How a server changes one of its variables by gradients: an optimizer.
class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // One update, before which the optimizer has made `count`. Gradients may have slices.
  virtual void apply(const Tensor& gradient, std::int64_t count) = 0;
  // The slots of the variable, whose paths are those of an optimizer of the whole model.
  virtual const std::vector<Variable>& slots() const = 0;
  virtual void set_learning_rate(double rate) = 0;
};
// The rule for a variable, from an optimizer's config. `options`: those of the variable (RemoteOptimizer::options).
using MakeUpdateRule =
    std::function<std::unique_ptr<UpdateRule>(const Json& optimizer, const Variable& variable, const Json& options)>;

struct ParameterServerOptions {
  // How long the server waits for the chief: to connect, and to come back when it was lost.
  std::chrono::milliseconds startup_timeout{20000};
  // How long a peer may be silent within a message.
  std::chrono::milliseconds timeout{30000};
};

// Serves until the chief ends the job. Variables come from the chief; each change is one message of a worker, applied
// once even where the worker sends it again. Workers connect and disconnect; their messages are checked, and a
// malformed one costs its sender the connection only.
class ParameterServer {
 public:
  // Listens at once. `name`: "ps 0 (127.0.0.1:2222)", for messages. Throws Unavailable when the port is in use.
  ParameterServer(std::string name, int port, MakeUpdateRule make_rule, ParameterServerOptions options = {});
  ~ParameterServer();
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;
  // Returns when the chief has ended the job. Throws DeadlineExceeded when no chief comes, Unavailable when it is lost.
  void join();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::distribute
