// The parameter servers of a job as its chief and its workers see them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/json.h"
#include "lockstep/collectives/message_channel_internal.h"
#include "lockstep/distribute/partitioners.h"
#include "lockstep/distribute/variable.h"

namespace lockstep::distribute {

// The description of an optimizer for servers.
struct RemoteOptimizer {
  std::string name;
  Json config;
  std::vector<Variable> variables;  // that it updates
  std::vector<Json> options;        // of each, which its update rule takes
  std::vector<bool> divisible;      // of each: whether shards of it can be updated independently
  Variable iterations;
  std::vector<Variable> slots;
};

// Places variables on servers, in shards by a partitioner, and moves values, slots and gradients. Each process places
// the same variables in the same order; shards go round the servers. A process holds a copy of each variable, which is
// as new as the last call.
//
// A lost server is an Unavailable or DeadlineExceeded error; the next call connects again. Aborted: the chief has
// uploaded other values since; pull() takes them.
class ParameterServers {
 public:
  struct Server {
    std::string name;  // "ps 0 (10.0.0.2:2222)"
    std::string address;
  };
  struct Options {
    std::string own_name;
    bool chief = false;
    std::vector<Server> servers;
    Partitioner partitioner = {};
    std::chrono::milliseconds startup_timeout{20000};
    std::chrono::milliseconds timeout{30000};
  };
  explicit ParameterServers(Options options);

  // Waits for the servers, also after some were lost. Throws DeadlineExceeded naming the one that does not answer.
  void connect();
  // Adds those variables that are not placed yet.
  void place(const std::vector<Variable>& variables);
  // Names, shapes and dtypes of the variables on the servers.
  std::string description() const;

  // Of the chief: replaces the values of the servers by those of this process, those of the optimizers' slots included.
  void upload(const std::vector<RemoteOptimizer>& optimizers);
  // Adds the variables that were placed since the last upload.
  void upload_new();
  // Adds an optimizer, or replaces its slots and the number of its steps.
  void upload_optimizer(const RemoteOptimizer& optimizer);
  // The reverse.
  void download(const std::vector<RemoteOptimizer>& optimizers);
  // Values that this process has changed since the last call go to the servers.
  void push_assignments();
  void set_learning_rate(const std::string& optimizer, double rate);
  // Ends the servers.
  void stop() noexcept;

  // Brings this process's copies up to date, except those that are read by rows; its own writes to them are lost.
  // `unless_recent`: not if values have come within the last milliseconds, as at the end of a step.
  void pull(bool unless_recent = false);
  // The rows `indices` (int32 or int64) of a variable, which from now on is read by rows. Does nothing for a variable
  // that is not placed.
  void pull_rows(const Variable& variable, const Tensor& indices);
  // One step of an optimizer on the servers, whose new values are taken at once; the changes of other variables since
  // the last pull go along as differences. An undefined gradient leaves its variable alone. Returns the steps that the
  // optimizer has made. `rate`: the learning rate of this process, which counts within closures that have their own;
  // none for a schedule.
  std::int64_t apply(const RemoteOptimizer& optimizer, const Tensors& gradients, std::optional<double> rate);
  // The same without a step.
  void push_changes();

  // While an object of it exists, this thread's optimizers update the servers' variables. `token`: what is done is done
  // once, also if the same token is used again after a failure.
  class Closure {
   public:
    // `introduce` is called before an optimizer's first step, with its name and the places of its variables in the
    // order of place(). With it, steps are made with the learning rates of this process.
    using Introduce = std::function<void(const std::string& optimizer, const std::vector<std::size_t>& variables)>;
    Closure(ParameterServers& servers, std::string token, Introduce introduce = {});
    ~Closure();
    Closure(const Closure&) = delete;
    Closure& operator=(const Closure&) = delete;
  };
  static ParameterServers* current();
  const Variable& placed(std::size_t index) const { return placed_.at(index).variable; }

 private:
  using Message = collectives::Message;
  struct Part {
    std::size_t server = 0;
    std::int64_t begin = 0, rows = 0;  // of the first axis; a variable that is not cut is all of it
    std::int64_t version = 0;          // that this process has; 0: none
    Shape shape;
  };
  struct Placed {
    Variable variable;
    std::vector<Part> parts;
    Tensor known;  // the value after the last call, unless it is read by rows
    bool by_rows = false;
  };
  struct Connection {
    std::unique_ptr<collectives::MessageChannel> channel;
    std::vector<std::string> optimizers;  // whose config it has got
  };

  Message ask(std::size_t server, Message request);
  void define(std::size_t index, const std::vector<RemoteOptimizer>& optimizers);
  // Throws Unimplemented for a variable in shards that is not divisible.
  const Json& options_of(const RemoteOptimizer& optimizer, std::size_t v, std::size_t index) const;
  void add_slots(Message& message, std::size_t index, const Part& part, const RemoteOptimizer& owner) const;
  void send_optimizer(std::size_t server, const RemoteOptimizer& optimizer);
  std::size_t required_index(const Variable& variable) const;
  std::vector<Message> ask_all(std::vector<Message> requests);
  Message received(std::size_t server);
  collectives::MessageChannel& channel(std::size_t server);
  Message hello(std::size_t server);
  void synchronize();
  Message step_request(std::size_t server, const std::string& optimizer, bool wanted) const;
  std::string next_token();
  void add_gradient(std::vector<Message>& requests, std::size_t index, const Tensor& gradient) const;
  void add_whole(std::vector<Message>& requests, std::size_t index, const Tensor& value, const char* how) const;
  void add_changes(std::vector<Message>& requests, const char* how, const std::vector<bool>& without);
  void take(const std::vector<Message>& replies);
  void take_part(Placed& placed, Part& part, const formats::TensorData& data);
  std::optional<std::size_t> index_of(const Variable& variable) const;
  std::vector<Message> step_requests(const std::string& optimizer, bool wanted) const;

  Options options_;
  std::vector<Placed> placed_;
  std::size_t next_server_ = 0, uploaded_ = 0;
  std::vector<Connection> connections_;
  std::int64_t generation_ = 0;                       // 0: not known
  std::chrono::steady_clock::time_point taken_ = {};  // when values have come
  std::string token_;
  std::int64_t token_number_ = 0;
  Closure::Introduce introduce_;
  std::set<std::string> introduced_;  // optimizers
};

}  // namespace lockstep::distribute
