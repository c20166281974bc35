#include "lockstep/distribute/parameter_servers_internal.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/distribute/variable_memory_internal.h"
#include "lockstep/ops/autograd_internal.h"
#include "lockstep/ops/functions.h"
#include "lockstep/ops/slices_internal.h"

namespace lockstep::distribute {
namespace {

using collectives::integer_of;
using collectives::Message;
using formats::TensorData;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRecent{5};

thread_local ParameterServers* t_current = nullptr;

Shape shape_of_rows(const Shape& shape, std::int64_t rows) {
  if (shape.rank() == 0) return shape;
  Shape out{rows};
  for (int axis = 1; axis < shape.rank(); ++axis) out.push_back(shape[axis]);
  return out;
}

// Rows begin … begin+rows-1, sharing memory.
TensorData rows_of(const TensorData& data, std::int64_t begin, std::int64_t rows) {
  if (data.shape.rank() == 0 || rows == data.shape[0]) return data;
  const std::size_t width = data.shape[0] > 0 ? data.bytes.size() / static_cast<std::size_t>(data.shape[0]) : 0;
  TensorData part = data;
  part.shape = shape_of_rows(data.shape, rows);
  part.bytes = data.bytes.subspan(static_cast<std::size_t>(begin) * width, static_cast<std::size_t>(rows) * width);
  return part;
}

std::string with_underscores(std::string path) {
  std::replace(path.begin(), path.end(), '/', '_');
  return path;
}

// Whether a slot is one of the variable's, or of none.
bool belongs(const Variable& slot, const std::string& optimizer, const Variable& variable) {
  if (slot.shape().rank() == 0) return true;
  return slot.shape() == variable.shape() &&
         slot.path().starts_with(optimizer + "/" + with_underscores(variable.path()) + "_");
}

[[noreturn]] void unexpected(const std::string& who) {
  throw_data_loss(fmt::format("invalid message of {}: found values other than those requested", who));
}

// Writes rows, in ascending order, into a variable's memory.
void write_rows(Tensor& value, const std::vector<std::int64_t>& rows, const TensorData& values) {
  ops::make_writable(value);
  const TensorData whole = value.to_data();
  auto* const to = const_cast<std::byte*>(whole.bytes.data());
  if (rows.empty()) return;
  const std::size_t width = values.bytes.size() / rows.size();
  if (rows.back() - rows.front() + 1 == static_cast<std::int64_t>(rows.size())) {
    std::memcpy(to + static_cast<std::size_t>(rows.front()) * width, values.bytes.data(), values.bytes.size());
    return;
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(to + static_cast<std::size_t>(rows[i]) * width, values.bytes.data() + i * width, width);
}

}  // namespace

ParameterServers::ParameterServers(Options options)
    : options_(std::move(options)), connections_(options_.servers.size()) {}

ParameterServers* ParameterServers::current() { return t_current; }

ParameterServers::Closure::Closure(ParameterServers& servers, std::string token, Introduce introduce) {
  servers.token_ = std::move(token);
  servers.token_number_ = 0;
  servers.introduce_ = std::move(introduce);
  t_current = &servers;
}
ParameterServers::Closure::~Closure() { t_current = nullptr; }

std::string ParameterServers::next_token() { return fmt::format("{}/{}", token_, token_number_++); }

// ---- Layout --------------------------------------------------------------------------------------------

std::optional<std::size_t> ParameterServers::index_of(const Variable& variable) const {
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    if (placed_[i].variable.get() == variable.get()) return i;
  }
  return std::nullopt;
}

void ParameterServers::place(const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    if (index_of(variable) || variable.dtype() == DType::kString) continue;
    const Shape shape = variable.shape();
    const std::int64_t rows = shape.rank() > 0 ? shape[0] : 1;
    std::int64_t shards = options_.partitioner ? options_.partitioner(shape, variable.dtype()) : 1;
    if (shards < 1 || (shards > 1 && (shape.rank() == 0 || shards > rows))) {
      throw_invalid_argument(fmt::format("invalid variable_partitioner: found {} shards for variable '{}' of shape {}",
                                         shards, variable.path(), shape.to_string()));
    }
    Placed placed{variable, {}, {}};
    std::int64_t begin = 0;
    for (std::int64_t shard = 0; shard < shards; ++shard) {  // the first ones take the remainder
      const std::int64_t count = rows / shards + (shard < rows % shards ? 1 : 0);
      placed.parts.push_back({next_server_++ % options_.servers.size(), begin, count, 0, shape_of_rows(shape, count)});
      begin += count;
    }
    placed_.push_back(std::move(placed));
  }
}

std::string ParameterServers::description() const {
  std::string text;
  for (const Placed& each : placed_) {
    text += fmt::format("{} {}{} {}\n", each.variable.path(), dtype_name(each.variable.dtype()),
                        each.variable.shape().to_string(), each.parts.size());
  }
  return text;
}

// ---- The chief -----------------------------------------------------------------------------------------

void ParameterServers::upload(const std::vector<RemoteOptimizer>& optimizers) {
  std::int64_t generation = 0;
  for (std::size_t i = 0; i < connections_.size(); ++i)
    generation = std::max(generation, hello(i).integer("generation"));
  generation_ = generation + 1;
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Message begin("begin");
    begin.head["generation"] = generation_;
    ask(i, std::move(begin));
    for (const RemoteOptimizer& optimizer : optimizers) send_optimizer(i, optimizer);
  }
  uploaded_ = 0;
  for (; uploaded_ < placed_.size(); ++uploaded_) define(uploaded_, optimizers);
  for (std::size_t i = 0; i < connections_.size(); ++i) ask(i, Message("ready"));
}

void ParameterServers::send_optimizer(std::size_t server, const RemoteOptimizer& optimizer) {
  Message known("optimizer");
  known.head["optimizer"] = optimizer.name;
  known.head["config"] = optimizer.config;
  known.head["count"] = optimizer.iterations.numpy().item<std::int64_t>();
  ask(server, std::move(known));
}

void ParameterServers::upload_optimizer(const RemoteOptimizer& optimizer) {
  for (std::size_t i = 0; i < connections_.size(); ++i) send_optimizer(i, optimizer);
  for (std::size_t v = 0; v < optimizer.variables.size(); ++v) {
    const std::size_t index = required_index(optimizer.variables[v]);
    const Json& options = options_of(optimizer, v, index);
    for (std::size_t k = 0; k < placed_[index].parts.size(); ++k) {
      const Part& part = placed_[index].parts[k];
      Message message("slots");
      message.head["id"] = index;
      message.head["part"] = k;
      message.head["options"] = options;
      message.head["optimizer"] = optimizer.name;
      message.head["slots"] = Json::array();
      add_slots(message, index, part, optimizer);
      ask(part.server, std::move(message));
    }
  }
}

const Json& ParameterServers::options_of(const RemoteOptimizer& optimizer, std::size_t v, std::size_t index) const {
  if (!optimizer.divisible[v] && placed_[index].parts.size() > 1) {
    throw_unimplemented(fmt::format(
        "{}: variable '{}' has a constraint that takes all its rows, but is partitioned into {} shards; use a "
        "partitioner that keeps it whole, or a constraint over other axes than 0",
        optimizer.name, placed_[index].variable.path(), placed_[index].parts.size()));
  }
  return optimizer.options[v];
}

void ParameterServers::add_slots(Message& message, std::size_t index, const Part& part,
                                 const RemoteOptimizer& owner) const {
  for (const Variable& slot : owner.slots) {
    if (!belongs(slot, owner.name, placed_[index].variable)) continue;
    message.head["slots"].push_back(slot.path());
    message.tensors.push_back(rows_of(slot.numpy().to_data(), part.begin, part.rows));
  }
}

void ParameterServers::upload_new() {
  for (; uploaded_ < placed_.size(); ++uploaded_) define(uploaded_, {});
}

void ParameterServers::define(std::size_t index, const std::vector<RemoteOptimizer>& optimizers) {
  Placed& placed = placed_[index];
  const RemoteOptimizer* owner = nullptr;
  Json options = Json::object();
  for (const RemoteOptimizer& optimizer : optimizers) {
    for (std::size_t v = 0; v < optimizer.variables.size(); ++v) {
      if (optimizer.variables[v].get() != placed.variable.get()) continue;
      owner = &optimizer;
      options = options_of(optimizer, v, index);
    }
  }
  const Tensor value = placed.variable->numpy();
  const TensorData data = value.to_data();
  for (std::size_t k = 0; k < placed.parts.size(); ++k) {
    Part& part = placed.parts[k];
    Message message("define");
    message.head["id"] = index;
    message.head["part"] = k;
    message.head["path"] = placed.variable.path();
    message.head["options"] = options;
    message.head["optimizer"] = owner ? owner->name : "";
    message.head["slots"] = Json::array();
    message.tensors.push_back(rows_of(data, part.begin, part.rows));
    if (owner) add_slots(message, index, part, *owner);
    ask(part.server, std::move(message));
    part.version = 1;
  }
  placed.known = value;
}

void ParameterServers::download(const std::vector<RemoteOptimizer>& optimizers) {
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    Placed& placed = placed_[i];
    for (std::size_t k = 0; k < placed.parts.size(); ++k) {
      Part& part = placed.parts[k];
      const std::string& server = options_.servers[part.server].name;
      Message request("state");
      request.head["generation"] = generation_;
      request.head["id"] = i;
      request.head["part"] = k;
      const Message reply = ask(part.server, std::move(request));
      const Json& slots = reply.list("slots");
      if (reply.tensors.size() != slots.size() + 1) unexpected(server);
      take_part(placed, part, reply.tensors[0]);
      part.version = reply.integer("version");
      const std::string name = reply.text("optimizer");
      for (const RemoteOptimizer& optimizer : optimizers) {
        if (optimizer.name != name) continue;
        optimizer.iterations.assign(Tensor::scalar(reply.integer("count")));
        for (std::size_t s = 0; s < slots.size(); ++s) {
          const std::string path = slots[s].is_string() ? slots[s].get<std::string>() : "";
          const auto slot = std::find_if(optimizer.slots.begin(), optimizer.slots.end(),
                                         [&](const Variable& each) { return each.path() == path; });
          if (slot == optimizer.slots.end()) continue;
          const TensorData& data = reply.tensors[s + 1];
          const bool whole = data.shape == slot->shape();
          if (data.dtype != slot->dtype() ||
              (!whole && (slot->shape() != placed.variable.shape() || data.shape != part.shape))) {
            throw_unimplemented(
                fmt::format("{} keeps a slot {} that is not of its variable's shape; it requires variables that no "
                            "partitioner cuts",
                            name, path));
          }
          if (whole) {
            slot->assign(Tensor::from_data(data));
            continue;
          }
          std::vector<std::int64_t> rows(static_cast<std::size_t>(part.rows));
          for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = part.begin + static_cast<std::int64_t>(r);
          write_rows((*slot)->shared_value(), rows, data);
        }
      }
    }
  }
}

void ParameterServers::push_assignments() {
  std::vector<Message> requests = step_requests("", false);
  const std::string token = next_token();
  for (Message& request : requests) request.head["token"] = "assign/" + token;
  add_changes(requests, "assign", {});
  const auto writes = [](const Message& request) { return !request.tensors.empty(); };
  if (std::any_of(requests.begin(), requests.end(), writes)) ask_all(std::move(requests));
}

void ParameterServers::set_learning_rate(const std::string& optimizer, double rate) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Message request("rate");
    request.head["optimizer"] = optimizer;
    request.head["rate"] = rate;
    ask(i, std::move(request));
  }
}

void ParameterServers::stop() noexcept {
  for (Connection& connection : connections_) {
    if (!connection.channel) continue;
    try {
      connection.channel->send(Message("stop"), options_.timeout);
      connection.channel->receive(options_.timeout);
    } catch (const Error&) {  // it has ended already
    }
    connection.channel = nullptr;
  }
}

// ---- Workers -------------------------------------------------------------------------------------------

void ParameterServers::pull(bool unless_recent) {
  if (unless_recent && generation_ != 0 && Clock::now() - taken_ < kRecent) return;
  for (;;) {
    if (generation_ == 0) synchronize();
    try {
      take(ask_all(step_requests("", true)));
      for (Placed& placed : placed_) {
        if (placed.known.defined()) placed.variable->shared_value() = placed.known;
      }
      return;
    } catch (const Error& error) {
      if (error.code() != Code::kAborted) throw;
    }
  }
}

void ParameterServers::pull_rows(const Variable& variable, const Tensor& indices) {
  const auto index = index_of(variable);
  if (!index) return;
  Placed& placed = placed_[*index];
  placed.by_rows = true;
  placed.known = Tensor();
  std::vector<std::int64_t> rows = ops::cast(indices, DType::kInt64).to_vector<std::int64_t>();
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  auto next = rows.begin();
  for (std::size_t k = 0; k < placed.parts.size(); ++k) {
    const Part& part = placed.parts[k];
    std::vector<std::int64_t> here, there;
    next = std::lower_bound(rows.begin(), rows.end(), part.begin);
    for (; next != rows.end() && *next < part.begin + part.rows; ++next) {
      here.push_back(*next);
      there.push_back(*next - part.begin);
    }
    if (here.empty()) continue;
    Message request("rows");
    request.head["generation"] = generation_;
    request.head["id"] = *index;
    request.head["part"] = k;
    request.tensors.push_back(Tensor::from_vector(there).to_data());
    const Message reply = ask(part.server, std::move(request));
    if (reply.tensors.size() != 1 || reply.tensors[0].dtype != variable.dtype() ||
        reply.tensors[0].shape != shape_of_rows(variable.shape(), static_cast<std::int64_t>(here.size()))) {
      unexpected(options_.servers[part.server].name);
    }
    write_rows(variable->shared_value(), here, reply.tensors[0]);
  }
}

void ParameterServers::add_whole(std::vector<Message>& requests, std::size_t index, const Tensor& value,
                                 const char* how) const {
  const Placed& placed = placed_[index];
  const TensorData data = value.to_data();
  for (std::size_t k = 0; k < placed.parts.size(); ++k) {
    Message& request = requests[placed.parts[k].server];
    request.head["updates"].push_back(Json::array({index, k, how}));
    request.tensors.push_back(rows_of(data, placed.parts[k].begin, placed.parts[k].rows));
  }
}

void ParameterServers::add_gradient(std::vector<Message>& requests, std::size_t index, const Tensor& gradient) const {
  const auto& slices = ops::slices_of(gradient);
  if (!slices) return add_whole(requests, index, gradient, "gradient");
  const Placed& placed = placed_[index];
  const std::vector<std::int64_t> rows = slices->indices.to_vector<std::int64_t>();
  const TensorData values = slices->values.to_data();
  const std::size_t width = rows.empty() ? 0 : values.bytes.size() / rows.size();
  for (std::size_t k = 0; k < placed.parts.size(); ++k) {
    const Part& part = placed.parts[k];
    std::vector<std::int64_t> local;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] < part.begin || rows[i] >= part.begin + part.rows) continue;
      local.push_back(rows[i] - part.begin);
      places.push_back(i);
    }
    if (local.empty()) continue;
    std::span<std::byte> bytes;
    TensorData chosen = TensorData::allocate(
        values.dtype, shape_of_rows(placed.variable.shape(), static_cast<std::int64_t>(local.size())), bytes);
    for (std::size_t i = 0; i < places.size(); ++i)
      std::memcpy(bytes.data() + i * width, values.bytes.data() + places[i] * width, width);
    Message& request = requests[part.server];
    request.head["updates"].push_back(Json::array({index, k, "rows"}));
    request.tensors.push_back(Tensor::from_vector(local).to_data());
    request.tensors.push_back(std::move(chosen));
  }
}

// This process's writes to variables since the last call: values, or differences.
void ParameterServers::add_changes(std::vector<Message>& requests, const char* how, const std::vector<bool>& without) {
  const bool difference = std::string_view(how) == "add";
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    Placed& placed = placed_[i];
    if (!placed.known.defined() || (!without.empty() && without[i])) continue;
    const Tensor value = VariableMemory::value_without_copy(*placed.variable);
    if (same(value, placed.known)) continue;
    const bool number = placed.variable.dtype() != DType::kBool;
    const char* const done = difference && number ? "add" : "assign";
    add_whole(requests, i, difference && number ? value - placed.known : value, done);
    placed.known = value;
  }
}

std::size_t ParameterServers::required_index(const Variable& variable) const {
  if (const auto index = index_of(variable)) return *index;
  throw_failed_precondition(
      fmt::format("variable '{}' is on no parameter server; make it, or build the model it belongs to, in the "
                  "scope of the ParameterServerStrategy and before its closure is scheduled",
                  variable.path()));
}

std::int64_t ParameterServers::apply(const RemoteOptimizer& optimizer, const Tensors& gradients,
                                     std::optional<double> rate) {
  if (introduce_ && !introduced_.contains(optimizer.name)) {
    std::vector<std::size_t> places;
    for (const Variable& variable : optimizer.variables) places.push_back(required_index(variable));
    introduce_(optimizer.name, places);
    introduced_.insert(optimizer.name);
  }
  std::vector<Message> requests = step_requests(optimizer.name, true);
  const std::string token = next_token();
  std::vector<bool> updated(placed_.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto& known = connections_[i].optimizers;
    requests[i].head["token"] = token;
    if (introduce_ && rate) requests[i].head["rate"] = *rate;
    if (std::find(known.begin(), known.end(), optimizer.name) != known.end()) continue;
    requests[i].head["config"] = optimizer.config;
    known.push_back(optimizer.name);
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const std::size_t index = required_index(optimizer.variables[i]);
    updated[index] = true;
    add_gradient(requests, index, gradients[i]);
  }
  add_changes(requests, "add", updated);
  const std::vector<Message> replies = ask_all(std::move(requests));
  take(replies);
  std::int64_t count = 0;
  for (const Message& reply : replies) count = std::max(count, reply.integer("count"));
  return count;
}

void ParameterServers::push_changes() {
  std::vector<Message> requests = step_requests("", true);
  const std::string token = next_token();
  for (Message& request : requests) request.head["token"] = token;
  add_changes(requests, "add", {});
  take(ask_all(std::move(requests)));
}

void ParameterServers::take(const std::vector<Message>& replies) {
  taken_ = Clock::now();
  for (std::size_t server = 0; server < replies.size(); ++server) {
    const Message& reply = replies[server];
    const Json& changed = reply.list("changed");
    if (changed.size() != reply.tensors.size()) unexpected(options_.servers[server].name);
    for (std::size_t i = 0; i < changed.size(); ++i) {
      if (!changed[i].is_array() || changed[i].size() != 3) unexpected(options_.servers[server].name);
      const auto index = static_cast<std::size_t>(integer_of(changed[i][0]));
      const auto shard = static_cast<std::size_t>(integer_of(changed[i][1]));
      if (index >= placed_.size() || shard >= placed_[index].parts.size()) unexpected(options_.servers[server].name);
      Part& part = placed_[index].parts[shard];
      take_part(placed_[index], part, reply.tensors[i]);
      part.version = integer_of(changed[i][2]);
    }
  }
}

void ParameterServers::take_part(Placed& placed, Part& part, const TensorData& data) {
  if (data.dtype != placed.variable.dtype() || data.shape != part.shape) unexpected(options_.servers[part.server].name);
  Tensor& value = placed.variable->shared_value();
  if (placed.parts.size() == 1) {
    value = Tensor::from_data(data);
  } else {
    placed.known = Tensor();  // else each shard would copy the whole
    std::vector<std::int64_t> rows(static_cast<std::size_t>(part.rows));
    for (std::size_t r = 0; r < rows.size(); ++r) rows[r] = part.begin + static_cast<std::int64_t>(r);
    write_rows(value, rows, data);
  }
  if (!placed.by_rows) placed.known = value;
}

}  // namespace lockstep::distribute
