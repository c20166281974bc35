#include "lockstep/distribute/task_board_internal.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lockstep/base/error.h"
#include "lockstep/base/threads_internal.h"

namespace lockstep::distribute {
namespace {

using collectives::code_of;
using collectives::error_message;
using collectives::Message;
using collectives::MessageChannel;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kTaskPoll{100};
constexpr milliseconds kIdle{500};       // how long a worker waits for an answer if there is no task
constexpr milliseconds kHeartbeat{500};  // while a worker computes
constexpr milliseconds kReportEvery{5000};

bool is_loss(Code code) { return code == Code::kUnavailable || code == Code::kDeadlineExceeded; }

}  // namespace

// ---- The chief -----------------------------------------------------------------------------------------

TaskBoard::TaskBoard(TaskOptions options, int port)
    : options_(std::move(options)),
      listener_(options_.own_name, port),
      connected_(options_.workers.size()),
      seen_(options_.workers.size()),
      started_(Clock::now()) {
  acceptor_ = start_thread([this] { accept(); });
}

TaskBoard::~TaskBoard() {
  {
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    // A worker that is still starting finds the end of the job, not a lost chief.
    changed_.wait_until(lock, started_ + options_.startup_timeout,
                        [this] { return std::ranges::all_of(seen_, [](bool seen) { return seen; }); });
    changed_.wait_for(lock, options_.timeout,
                      [this] { return std::ranges::all_of(connected_, [](int n) { return n == 0; }); });
    over_ = true;
  }
  acceptor_.join();
  for (Connection& connection : connections_) {
    connection.channel->close();
    connection.thread.join();
  }
}

void TaskBoard::accept() {
  for (std::int64_t id = 0;; ++id) {
    int socket = -1;
    while (socket < 0) {
      {
        const std::lock_guard lock(mutex_);
        if (over_) return;
      }
      socket = listener_.accept(kTaskPoll);
      connections_.remove_if([](Connection& connection) {
        if (connection.over) connection.thread.join();
        return connection.over.load();
      });
    }
    Connection& connection = connections_.emplace_back();
    connection.channel = std::make_unique<MessageChannel>(socket, "a peer");
    try {
      connection.thread = start_thread([this, &connection, id] {
        serve(connection, id);
        connection.over = true;
      });
    } catch (const Error&) {  // the peer is disconnected
      connections_.pop_back();
    }
  }
}

std::string TaskBoard::missing() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < connected_.size(); ++i) {
    if (connected_[i] == 0) names.push_back(options_.workers[i]);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void TaskBoard::give_back(std::optional<Task>& running, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!running) return;
  if (options_.report && !ending_) options_.report(fmt::format("{}; its task is repeated", why));
  put_back(running);
  running.reset();
  --running_;
  changed_.notify_all();
}

// Unless its section is over.
void TaskBoard::put_back(std::optional<Task>& running) {
  if (running->section == static_cast<std::int64_t>(closed_.size()) && !error_) queue_.push_front(std::move(*running));
}

void TaskBoard::serve(Connection& connection, std::int64_t id) {
  MessageChannel& channel = *connection.channel;
  std::optional<Task> running;
  int worker = -1;
  try {
    const Message hello = channel.receive(options_.timeout);
    const std::int64_t number = hello.integer("worker");
    if (hello.kind() != "hello" || number < 0 || number >= static_cast<std::int64_t>(options_.workers.size()) ||
        hello.text("cluster") != options_.cluster) {
      channel.send(error_message(Code::kInvalidArgument,
                                 fmt::format("{} runs a job of another cluster or another version of lockstep; give "
                                             "all processes the same",
                                             options_.own_name)),
                   options_.timeout);
      return;
    }
    channel.set_peer(options_.workers[static_cast<std::size_t>(number)]);
    Message welcome("welcome");
    welcome.head["seed"] = std::to_string(options_.seed);
    channel.send(std::move(welcome), options_.timeout);
    {
      const std::lock_guard lock(mutex_);
      worker = static_cast<int>(number);
      ++connected_[static_cast<std::size_t>(worker)];
      seen_[static_cast<std::size_t>(worker)] = true;
      changed_.notify_all();
    }
    for (;;) {
      const Message message = channel.receive(options_.timeout);
      const std::string kind = message.kind();
      if (kind == "alive") continue;
      if (kind == "bye") break;
      if (kind == "done" || kind == "failed") {
        finish(message, running, worker, id);
      } else if (kind == "next") {
        channel.send(next(message, running), options_.timeout);
      } else {
        throw_data_loss(fmt::format("invalid message of {}: unknown kind '{}'", channel.peer(), kind));
      }
    }
  } catch (const Error& error) {
    give_back(running, error.message());
  }
  channel.close();
  if (worker < 0) return;
  const std::lock_guard lock(mutex_);
  --connected_[static_cast<std::size_t>(worker)];
  if (std::ranges::all_of(connected_, [](int n) { return n == 0; })) alone_since_ = Clock::now();
  changed_.notify_all();
}

Message TaskBoard::next(const Message& request, std::optional<Task>& running) {
  const std::int64_t section = request.integer("section");
  std::unique_lock lock(mutex_);
  const auto over = [&] { return section >= 0 && section < static_cast<std::int64_t>(closed_.size()); };
  const auto takes = [&] {
    return section == static_cast<std::int64_t>(closed_.size()) && !queue_.empty() && !servers_lost_;
  };
  changed_.wait_for(lock, kIdle, [&] { return over() || ending_ || (takes() && !running); });
  if (over()) {
    const Closed& closed = closed_[static_cast<std::size_t>(section)];
    if (closed.code != Code{}) return error_message(closed.code, closed.text);
    Message message("closed");
    message.head["text"] = closed.text;
    return message;
  }
  if (ending_) return error_message(Code::kUnavailable, fmt::format("{} has ended the job", options_.own_name));
  if (!takes() || running) return Message("idle");
  running = std::move(queue_.front());
  queue_.pop_front();
  ++running_;
  Message message("task");
  message.head["number"] = running->number;
  message.head["input"] = running->input;
  return message;
}

void TaskBoard::finish(const Message& message, std::optional<Task>& running, int worker, std::int64_t id) {
  const std::lock_guard lock(mutex_);
  if (!running || message.integer("number") != running->number)
    throw_data_loss(fmt::format("invalid message of {}: found the result of another task",
                                options_.workers[static_cast<std::size_t>(worker)]));
  if (message.kind() == "failed") {
    const Code code = code_of(message);
    if (code == Code::kAborted || (is_loss(code) && message.flag("servers"))) {
      servers_lost_ = servers_lost_ || code != Code::kAborted;
      if (servers_lost_ && options_.report) options_.report(message.text("message"));
      put_back(running);
    } else if (!error_) {
      error_ = {code, message.text("message")};
      queue_.clear();
    }
  } else if (running->section == static_cast<std::int64_t>(closed_.size())) {
    results_.push_back({running->number, worker, id, message.head["value"], message.tensors});
  }
  running.reset();
  --running_;
  changed_.notify_all();
}

std::int64_t TaskBoard::add(std::string input) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({static_cast<std::int64_t>(closed_.size()), next_number_, std::move(input)});
  changed_.notify_all();
  return next_number_++;
}

std::size_t TaskBoard::unfinished() {
  const std::lock_guard lock(mutex_);
  return queue_.size() + running_;
}

int TaskBoard::num_connected() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::ranges::count_if(connected_, [](int n) { return n > 0; }));
}

void TaskBoard::pass_results(std::unique_lock<std::mutex>& lock) {
  while (!results_.empty()) {
    const TaskResult result = std::move(results_.front());
    results_.pop_front();
    lock.unlock();
    if (on_result) on_result(result);
    lock.lock();
  }
}

void TaskBoard::wait(std::size_t most, const std::function<void()>& recover) {
  std::unique_lock lock(mutex_);
  Clock::time_point report_at = Clock::now() + kReportEvery;
  for (;;) {
    pass_results(lock);
    if (servers_lost_ && running_ == 0) {
      lock.unlock();
      recover();
      lock.lock();
      servers_lost_ = false;
      alone_since_ = Clock::now();
      changed_.notify_all();
    }
    if (error_ && running_ == 0) {
      const auto [code, text] = *std::exchange(error_, std::nullopt);
      throw_error(code, text);
    }
    if (!error_ && !servers_lost_ && results_.empty() && queue_.size() + running_ <= most) return;
    changed_.wait_for(lock, kTaskPoll);
    const bool alone = std::ranges::all_of(connected_, [](int n) { return n == 0; });
    if (!alone) continue;
    if (Clock::now() - alone_since_ > options_.startup_timeout) {
      throw_deadline_exceeded(
          fmt::format("no worker has been there for {:.0f} s: {}; start them, and check the address of {}",
                      std::chrono::duration<double>(options_.startup_timeout).count(), missing(), options_.own_name));
    }
    if (Clock::now() >= report_at) {
      report_at = Clock::now() + kReportEvery;
      if (options_.report) options_.report(fmt::format("waiting for {}", missing()));
    }
  }
}

void TaskBoard::close_section(const std::string& text) {
  const std::lock_guard lock(mutex_);
  closed_.push_back({{}, text});
  next_number_ = 0;
  changed_.notify_all();
}

void TaskBoard::close_section(const Error& error) {
  const std::lock_guard lock(mutex_);
  closed_.push_back({error.code(), error.message()});
  queue_.clear();
  next_number_ = 0;
  changed_.notify_all();
}

// ---- A worker ------------------------------------------------------------------------------------------

TaskClient::TaskClient(TaskOptions options, int worker, const std::string& chief, const std::string& address)
    : options_(std::move(options)), channel_(MessageChannel::connect(chief, address, options_.startup_timeout)) {
  Message hello("hello");
  hello.head["worker"] = worker;
  hello.head["cluster"] = options_.cluster;
  channel_->send(std::move(hello), options_.timeout);
  const Message welcome = channel_->receive(options_.timeout);
  collectives::throw_error_of(welcome);
  seed_ = std::strtoull(welcome.text("seed").c_str(), nullptr, 10);
  heartbeat_ = start_thread([this] {
    std::unique_lock lock(mutex_);
    while (!stopping_.wait_for(lock, kHeartbeat, [this] { return stop_; })) {
      try {
        channel_->send(Message("alive"), options_.timeout);
      } catch (const Error&) {  // the main thread finds out
        return;
      }
    }
  });
}

TaskClient::~TaskClient() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  heartbeat_.join();
  try {
    channel_->send(Message("bye"), options_.timeout);
  } catch (const Error&) {  // the chief has gone
  }
}

std::string TaskClient::serve(const Work& work) {
  const std::int64_t section = section_++;
  for (;;) {
    Message request("next");
    request.head["section"] = section;
    channel_->send(std::move(request), options_.timeout);
    const Message reply = channel_->receive(options_.timeout);
    const std::string kind = reply.kind();
    if (kind == "idle") continue;
    collectives::throw_error_of(reply);
    if (kind == "closed") return reply.text("text");
    TaskResult result;
    result.number = reply.integer("number");
    Message done("done");
    try {
      work(section, reply.text("input"), result);
      done.head["value"] = std::move(result.value);
      done.tensors = std::move(result.tensors);
    } catch (const Error& error) {
      done = error_message(error.code(), error.message());
      done.head["kind"] = "failed";
      done.head["servers"] = is_loss(error.code());
    }
    done.head["number"] = result.number;
    channel_->send(std::move(done), options_.timeout);
  }
}

}  // namespace lockstep::distribute
