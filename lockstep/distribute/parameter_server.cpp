#include "lockstep/distribute/parameter_server_internal.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log_internal.h"
#include "lockstep/base/threads_internal.h"
#include "lockstep/collectives/message_channel_internal.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/call.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::distribute {
namespace {

using collectives::integer_of;
using collectives::Message;
using collectives::MessageChannel;
using std::chrono::milliseconds;

constexpr milliseconds kAcceptPoll{100};
constexpr std::size_t kMostTokens = 65536;
constexpr std::size_t kMostParts = 1 << 20;
constexpr int kMostConnections = 4096;

// A variable, or a shard of one.
struct Part {
  std::mutex mutex;
  Variable variable;
  std::int64_t version = 1;  // counts changes
  std::string optimizer;     // of its rule; empty: none yet
  Json rule_options;         // that the rule takes
  std::unique_ptr<UpdateRule> rule;
  std::vector<std::pair<std::string, Tensor>> restored_slots;  // until the rule is made
  std::optional<double> rate;                                  // that the rule was given last
};
using PartId = std::pair<std::int64_t, std::int64_t>;  // variable, shard

PartId part_id(const Json& entry) {
  if (!entry.is_array() || entry.size() < 2) throw_data_loss("invalid message: found no variable and shard");
  return {integer_of(entry[0]), integer_of(entry[1])};
}

Variable make_variable(const Tensor& value, const std::string& path) {
  Variable variable(value, {.name = path.substr(path.rfind('/') + 1)});
  variable->set_path(path);
  return variable;
}

void require_rows(const Tensor& indices, std::int64_t rows) {
  if (indices.dtype() != DType::kInt64 || indices.rank() != 1)
    throw_data_loss("invalid message: found no vector of rows");
  for (const std::int64_t row : indices.to_vector<std::int64_t>()) {
    if (row < 0 || row >= rows) throw_data_loss(fmt::format("invalid message: found row {} of {}", row, rows));
  }
}

}  // namespace

struct ParameterServer::State {
  State(std::string own_name, int port, MakeUpdateRule make, ParameterServerOptions how)
      : name(std::move(own_name)), options(how), make_rule(std::move(make)), listener(name, port) {}

  void serve(MessageChannel& channel);
  Message answer(MessageChannel& channel, const Message& request, bool& chief);
  void begin(const Message& request);
  void define(const Message& request);
  Message step(const Message& request);
  void set_slots(const Message& request);
  // Of a worker's step: its optimizer, the updates that one has made, and its learning rate.
  struct Step {
    std::string optimizer;
    std::int64_t count = 0;
    std::optional<double> rate = {};
  };
  void update(Part& part, const std::string& how, const Step& step, const Tensors& values);
  void require_rule(Part& part, const std::string& optimizer);
  Message rows(const Message& request);
  Message state_of(const Message& request);
  Part& part(const PartId& id);
  void require_generation(const Message& request);
  bool is_new(const std::string& token);

  const std::string name;
  const ParameterServerOptions options;
  const MakeUpdateRule make_rule;
  collectives::Listener listener;

  // Exclusive while parts are defined.
  std::shared_mutex layout;
  std::map<PartId, std::unique_ptr<Part>> parts;
  std::int64_t generation = 0;  // of the variables; 0: there are none
  bool ready = false;           // all of the generation's are here

  std::mutex mutex;  // of what follows
  std::map<std::string, Json> optimizers;
  std::map<std::string, std::int64_t> counts;  // updates made, by optimizer
  std::map<std::string, double> rates;
  std::set<std::string> tokens;
  std::deque<std::string> token_order;
  int chiefs = 0;
  bool had_chief = false;
  bool stopped = false;
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();  // no chief

  struct Connection {
    std::unique_ptr<MessageChannel> channel;
    std::thread thread;
    std::atomic<bool> over{false};
  };
  std::list<Connection> connections;
};

Part& ParameterServer::State::part(const PartId& id) {
  const auto found = parts.find(id);
  if (found == parts.end())
    throw_data_loss(fmt::format("invalid message: {} has no shard {} of variable {}", name, id.second, id.first));
  return *found->second;
}

void ParameterServer::State::require_generation(const Message& request) {
  if (ready && request.integer("generation") == generation) return;
  throw_error(Code::kAborted, fmt::format("{} holds other variables than this worker knows of", name));
}

bool ParameterServer::State::is_new(const std::string& token) {
  const std::lock_guard lock(mutex);
  if (!tokens.insert(token).second) return false;
  token_order.push_back(token);
  if (token_order.size() > kMostTokens) {
    tokens.erase(token_order.front());
    token_order.pop_front();
  }
  return true;
}

void ParameterServer::State::begin(const Message& request) {
  const std::unique_lock lock(layout);
  parts.clear();
  generation = request.integer("generation");
  ready = false;
  const std::lock_guard guard(mutex);
  optimizers.clear();
  counts.clear();
  rates.clear();
  tokens.clear();
  token_order.clear();
}

namespace {

void take_slots(Part& part, const Message& request, std::size_t first) {
  const Json& slots = request.list("slots");
  if (request.tensors.size() != slots.size() + first)
    throw_data_loss("invalid message: found a variable without values");
  part.rule_options = request.head.value("options", Json());
  if (!part.rule_options.is_object() || !part.rule_options.value("decays", Json(true)).is_boolean())
    throw_data_loss("invalid message: found a variable without the options of its rule");
  part.optimizer = request.text("optimizer");
  part.rule = nullptr;
  part.restored_slots.clear();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i].is_string()) throw_data_loss("invalid message: found a slot without a path");
    part.restored_slots.emplace_back(slots[i].get<std::string>(), Tensor::from_data(request.tensors[i + first]));
  }
}

}  // namespace

// The rule is made anew, with these slots.
void ParameterServer::State::set_slots(const Message& request) {
  const std::shared_lock lock(layout);
  Part& owner = part({request.integer("id"), request.integer("part")});
  const std::lock_guard guard(owner.mutex);
  take_slots(owner, request, 0);
}

void ParameterServer::State::define(const Message& request) {
  auto part = std::make_unique<Part>();
  const PartId id{request.integer("id"), request.integer("part")};
  take_slots(*part, request, 1);
  part->variable = make_variable(Tensor::from_data(request.tensors[0]), request.text("path"));
  const std::unique_lock lock(layout);
  if (parts.size() >= kMostParts) throw_resource_exhausted(fmt::format("{}: too many variables", name));
  parts[id] = std::move(part);
}

void ParameterServer::State::require_rule(Part& part, const std::string& optimizer) {
  if (part.rule && part.optimizer == optimizer) return;
  Json config;
  std::optional<double> rate;
  {
    const std::lock_guard lock(mutex);
    const auto found = optimizers.find(optimizer);
    if (found == optimizers.end()) throw_data_loss(fmt::format("invalid message: unknown optimizer '{}'", optimizer));
    config = found->second;
    if (rates.contains(optimizer)) rate = rates[optimizer];
  }
  part.rule = make_rule(config, part.variable, part.rule_options);
  part.optimizer = optimizer;
  part.rate = rate;
  if (rate) part.rule->set_learning_rate(*rate);
  for (const Variable& slot : part.rule->slots()) {
    for (const auto& [path, value] : part.restored_slots) {
      if (path == slot.path()) slot.assign(value);
    }
  }
  part.restored_slots.clear();
}

// The part is locked.
void ParameterServer::State::update(Part& part, const std::string& how, const Step& step, const Tensors& values) {
  const Shape shape = part.variable.shape();
  const DType dtype = part.variable.dtype();
  if (how == "rows") {
    require_rows(values[0], shape.rank() > 0 ? shape[0] : 0);
    Shape expected{values[0].dim(0)};
    for (int axis = 1; axis < shape.rank(); ++axis) expected.push_back(shape[axis]);
    if (!(values[1].shape() == expected) || values[1].dtype() != dtype)
      throw_data_loss("invalid message: found rows of another shape");
  } else if (!(values[0].shape() == shape) || values[0].dtype() != dtype) {
    throw_data_loss(fmt::format("invalid message: found {}{} for '{}', expected {}{}", dtype_name(values[0].dtype()),
                                values[0].shape().to_string(), part.variable.path(), dtype_name(dtype),
                                shape.to_string()));
  }
  if (how == "add") {
    part.variable.assign_add(values[0]);
  } else if (how == "assign") {
    part.variable.assign(values[0]);
  } else {
    require_rule(part, step.optimizer);
    if (step.rate && part.rate != step.rate) {
      part.rule->set_learning_rate(*step.rate);
      part.rate = step.rate;
    }
    Tensor gradient = values[0];
    if (how == "rows") {
      gradient = tensor_of_rows({values[0], values[1]}, shape);
    }
    part.rule->apply(gradient, step.count);
  }
  ++part.version;
}

Message ParameterServer::State::step(const Message& request) {
  const std::shared_lock lock(layout);
  require_generation(request);
  Step made_by{request.text("optimizer")};
  const std::string& optimizer = made_by.optimizer;
  if (request.head.contains("rate")) made_by.rate = request.number("rate");
  const Json& updates = request.list("updates");
  const std::string token = request.text("token");
  if (!token.empty() && is_new(token)) {
    if (!optimizer.empty()) {
      const std::lock_guard guard(mutex);
      if (request.head.contains("config")) optimizers.try_emplace(optimizer, request.head["config"]);
      made_by.count = counts[optimizer]++;
    }
    std::size_t next = 0;
    for (const Json& entry : updates) {
      Part& changed = part(part_id(entry));
      const std::string how = entry.size() == 3 && entry[2].is_string() ? entry[2].get<std::string>() : "";
      const std::size_t needed = how == "rows" ? 2 : 1;
      if ((how != "gradient" && how != "rows" && how != "add" && how != "assign") ||
          next + needed > request.tensors.size()) {
        throw_data_loss("invalid message: found an update without values");
      }
      Tensors values;
      for (std::size_t i = 0; i < needed; ++i) values.push_back(Tensor::from_data(request.tensors[next++]));
      const std::lock_guard guard(changed.mutex);
      update(changed, how, made_by, values);
    }
  }
  Message reply("values");
  reply.head["changed"] = Json::array();
  for (const Json& entry : request.list("wanted")) {
    const PartId id = part_id(entry);
    const auto found = parts.find(id);
    if (found == parts.end()) continue;  // the chief has not made it yet
    Part& wanted = *found->second;
    const std::lock_guard guard(wanted.mutex);
    if (entry.size() != 3 || integer_of(entry[2]) == wanted.version) continue;
    reply.head["changed"].push_back(Json::array({id.first, id.second, wanted.version}));
    reply.tensors.push_back(wanted.variable.numpy().to_data());  // updates leave memory alone that a message shares
  }
  const std::lock_guard guard(mutex);
  const auto made = counts.find(optimizer);
  reply.head["count"] = made == counts.end() ? 0 : made->second;
  return reply;
}

Message ParameterServer::State::rows(const Message& request) {
  const std::shared_lock lock(layout);
  require_generation(request);
  Part& from = part({request.integer("id"), request.integer("part")});
  if (request.tensors.size() != 1) throw_data_loss("invalid message: found no rows");
  const Tensor indices = Tensor::from_data(request.tensors[0]);
  const std::lock_guard guard(from.mutex);
  require_rows(indices, from.variable.shape().rank() > 0 ? from.variable.shape()[0] : 0);
  Message reply("values");
  reply.tensors.push_back(ops::gather(from.variable.numpy(), indices).to_data());
  return reply;
}

Message ParameterServer::State::state_of(const Message& request) {
  const std::shared_lock lock(layout);
  require_generation(request);
  Part& from = part({request.integer("id"), request.integer("part")});
  const std::lock_guard guard(from.mutex);
  Message reply("values");
  reply.head["version"] = from.version;
  reply.head["optimizer"] = from.optimizer;
  reply.head["slots"] = Json::array();
  reply.tensors.push_back(from.variable.numpy().to_data());
  if (from.rule) {
    for (const Variable& slot : from.rule->slots()) {
      reply.head["slots"].push_back(slot.path());
      reply.tensors.push_back(slot.numpy().to_data());
    }
  } else {
    for (const auto& [path, value] : from.restored_slots) {
      reply.head["slots"].push_back(path);
      reply.tensors.push_back(value.to_data());
    }
  }
  const std::lock_guard lock2(mutex);
  const auto made = counts.find(from.optimizer);
  reply.head["count"] = made == counts.end() ? 0 : made->second;
  return reply;
}

Message ParameterServer::State::answer(MessageChannel& channel, const Message& request, bool& chief) {
  const std::string kind = request.kind();
  if (kind == "step") return step(request);
  if (kind == "rows") return rows(request);
  if (kind == "state") return state_of(request);
  if (kind == "hello") {
    channel.set_peer(request.text("name"));
    if (request.flag("chief") && !chief) {
      chief = true;
      const std::lock_guard lock(mutex);
      ++chiefs;
      had_chief = true;
    }
    const std::shared_lock lock(layout);
    Message reply("state");
    reply.head["generation"] = generation;
    reply.head["ready"] = ready;
    return reply;
  }
  if (!chief) throw_data_loss(fmt::format("invalid message: found '{}' of another task than the chief", kind));
  if (kind == "begin") {
    begin(request);
  } else if (kind == "define") {
    define(request);
  } else if (kind == "slots") {
    set_slots(request);
  } else if (kind == "optimizer") {
    const std::lock_guard lock(mutex);
    optimizers[request.text("optimizer")] = request.head["config"];
    counts[request.text("optimizer")] = request.integer("count");
  } else if (kind == "ready") {
    const std::unique_lock lock(layout);
    ready = true;
  } else if (kind == "rate") {
    const std::unique_lock lock(layout);
    const std::string optimizer = request.text("optimizer");
    const double rate = request.number("rate");
    for (const auto& [id, each] : parts) {
      if (!each->rule || each->optimizer != optimizer) continue;
      each->rule->set_learning_rate(rate);
      each->rate = rate;
    }
    const std::lock_guard guard(mutex);
    rates[optimizer] = rate;
  } else if (kind == "stop") {
    const std::lock_guard lock(mutex);
    stopped = true;
  } else {
    throw_data_loss(fmt::format("invalid message: unknown kind '{}'", kind));
  }
  return Message("done");
}

// A connection, until it ends.
void ParameterServer::State::serve(MessageChannel& channel) {
  ops::set_grad_enabled(false);
  bool chief = false;
  try {
    for (;;) {
      if (!channel.readable(kAcceptPoll)) {
        const std::lock_guard lock(mutex);
        if (stopped) break;
        continue;
      }
      const Message request = channel.receive(options.timeout);
      Message reply;
      try {
        reply = answer(channel, request, chief);
      } catch (const Error& error) {
        reply = collectives::error_message(error.code(), error.message());
      }
      channel.send(std::move(reply), options.timeout);
    }
  } catch (const Error& error) {
    if (error.code() != Code::kUnavailable) log_warning("{}: {}", name, error.message());
  }
  channel.close();
  if (!chief) return;
  const std::lock_guard lock(mutex);
  if (--chiefs == 0) since = std::chrono::steady_clock::now();
}

ParameterServer::ParameterServer(std::string name, int port, MakeUpdateRule make_rule, ParameterServerOptions options)
    : state_(std::make_unique<State>(std::move(name), port, std::move(make_rule), options)) {}

ParameterServer::~ParameterServer() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopped = true;
  }
  for (State::Connection& connection : state_->connections) {
    connection.channel->close();
    connection.thread.join();
  }
}

void ParameterServer::join() {
  State& state = *state_;
  for (;;) {
    {
      const std::lock_guard lock(state.mutex);
      if (state.stopped) return;
      const bool late = std::chrono::steady_clock::now() - state.since > state.options.startup_timeout;
      if (state.chiefs == 0 && late) {
        const double seconds = std::chrono::duration<double>(state.options.startup_timeout).count();
        if (state.had_chief)
          throw_unavailable(
              fmt::format("{}: the chief is lost and has not come back within {:.0f} s", state.name, seconds));
        throw_deadline_exceeded(fmt::format("{}: no chief has connected within {:.0f} s", state.name, seconds));
      }
    }
    state.connections.remove_if([](State::Connection& connection) {
      if (!connection.over) return false;
      connection.thread.join();
      return true;
    });
    const int socket = state.listener.accept(kAcceptPoll);
    if (socket < 0) continue;
    State::Connection& connection = state.connections.emplace_back();
    connection.channel = std::make_unique<MessageChannel>(socket, "a peer");
    if (state.connections.size() > kMostConnections) connection.channel->close();
    try {
      connection.thread = start_thread([&state, &connection] {
        state.serve(*connection.channel);
        connection.over = true;
      });
    } catch (const Error& error) {  // the peer is disconnected
      log_warning("{}: a connection is closed: {}", state.name, error.message());
      state.connections.pop_back();
    }
  }
}

}  // namespace lockstep::distribute
