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

constexpr milliseconds kTaskPoll{100};
constexpr milliseconds kIdle{500};       // how long a worker waits for an answer if there is no task
constexpr milliseconds kHeartbeat{500};  // while a worker computes
constexpr milliseconds kReportEvery{5000};
constexpr milliseconds kSilent{2000};  // a worker that has missed so many heartbeats is probably lost
// When a task takes too long: more than so many times the longest of its section that is done.
constexpr int kSlow = 4;
constexpr milliseconds kAtLeast{1000};

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
    const Clock::time_point end = Clock::now() + options_.timeout;
    const auto done = [this] {
      return std::ranges::all_of(connections_, [this](const Connection& each) { return each.left || is_silent(each); });
    };
    while (Clock::now() < end && !done()) changed_.wait_for(lock, kTaskPoll);
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
        connections_.remove_if([](Connection& connection) {
          if (connection.over) connection.thread.join();
          return connection.over.load();
        });
      }
      socket = listener_.accept(kTaskPoll);
    }
    const std::lock_guard lock(mutex_);
    Connection& connection = connections_.emplace_back();
    connection.channel = std::make_unique<MessageChannel>(socket, "a peer");
    connection.heard = Clock::now();
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

bool TaskBoard::is_silent(const Connection& connection) const { return Clock::now() - connection.heard > kSilent; }

// Whether the task is still to be done.
bool TaskBoard::counts(const Task& task) const {
  return task.section == static_cast<std::int64_t>(closed_.size()) && running_.contains(task.number);
}

void TaskBoard::give_back(Connection& from, const std::string& why) {
  const std::lock_guard lock(mutex_);
  const std::optional<Task> task = std::exchange(from.running, std::nullopt);
  if (!task || !counts(*task)) return;
  if (options_.report && !ending_) options_.report(fmt::format("{}; its task is repeated", why));
  put_back(*task);
  changed_.notify_all();
}

// One worker less does the task.
void TaskBoard::put_back(const Task& task) {
  if (--running_[task.number] > 0) return;
  running_.erase(task.number);
  if (!error_) queue_.push_front(task);
}

void TaskBoard::serve(Connection& connection, std::int64_t id) {
  MessageChannel& channel = *connection.channel;
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
      const std::lock_guard lock(mutex_);
      connection.left = true;
      return;
    }
    channel.set_peer(options_.workers[static_cast<std::size_t>(number)]);
    Message welcome("welcome");
    welcome.head["seed"] = std::to_string(options_.seed);
    channel.send(std::move(welcome), options_.timeout);
    {
      const std::lock_guard lock(mutex_);
      worker = connection.worker = static_cast<int>(number);
      ++connected_[static_cast<std::size_t>(worker)];
      seen_[static_cast<std::size_t>(worker)] = true;
      changed_.notify_all();
    }
    for (;;) {
      const Message message = channel.receive(options_.timeout);
      const std::string kind = message.kind();
      {
        const std::lock_guard lock(mutex_);
        connection.heard = Clock::now();
      }
      if (kind == "alive") continue;
      if (kind == "bye") break;
      if (kind == "done" || kind == "failed") {
        finish(message, connection, id);
      } else if (kind == "next") {
        channel.send(next(message, connection), options_.timeout);
      } else if (kind == "ask") {
        channel.send(answer(message), options_.timeout);
      } else {
        throw_data_loss(fmt::format("invalid message of {}: unknown kind '{}'", channel.peer(), kind));
      }
    }
  } catch (const Error& error) {
    give_back(connection, error.message());
  }
  channel.close();
  const std::lock_guard lock(mutex_);
  connection.left = true;
  if (worker >= 0) --connected_[static_cast<std::size_t>(worker)];
  if (std::ranges::all_of(connected_, [](int n) { return n == 0; })) alone_since_ = Clock::now();
  changed_.notify_all();
}

// A task that is given to a free worker although another one does it: of a worker that is silent, or slow.
const TaskBoard::Task* TaskBoard::overdue_task(const Connection& free) const {
  const auto allowed = std::max<Clock::duration>(kAtLeast, kSlow * longest_);
  for (const Connection& other : connections_) {
    if (&other == &free || !other.running || !counts(*other.running) || running_.at(other.running->number) > 1)
      continue;
    const bool slow = longest_.count() > 0 && Clock::now() - other.started > allowed;
    if (slow || is_silent(other)) return &*other.running;
  }
  return nullptr;
}

Message TaskBoard::next(const Message& request, Connection& to) {
  const std::int64_t section = request.integer("section");
  std::unique_lock lock(mutex_);
  const auto over = [&] { return section >= 0 && section < static_cast<std::int64_t>(closed_.size()); };
  const auto takes = [&] {
    return section == static_cast<std::int64_t>(closed_.size()) && !queue_.empty() && !servers_lost_ && !to.running;
  };
  changed_.wait_for(lock, kIdle, [&] { return over() || ending_ || takes(); });
  if (over()) {
    const Closed& closed = closed_[static_cast<std::size_t>(section)];
    Message message = closed.code != Code{} ? error_message(closed.code, closed.text) : Message("closed");
    if (closed.code == Code{}) message.head["text"] = closed.text;
    message.head["call"] = closed.call;
    return message;
  }
  if (ending_) return error_message(Code::kUnavailable, fmt::format("{} has ended the job", options_.own_name));
  if (takes()) {
    to.running = std::move(queue_.front());
    queue_.pop_front();
  } else {
    const bool may = section == static_cast<std::int64_t>(closed_.size()) && !servers_lost_ && !error_ && !to.running;
    const Task* const overdue = may ? overdue_task(to) : nullptr;
    if (!overdue) return Message("idle");
    to.running = *overdue;
  }
  to.started = Clock::now();
  ++running_[to.running->number];
  Message message("task");
  message.head["call"] = call_;
  message.head["number"] = to.running->number;
  message.head["input"] = to.running->input;
  return message;
}

void TaskBoard::finish(const Message& message, Connection& from, std::int64_t id) {
  const std::lock_guard lock(mutex_);
  if (!from.running || message.integer("number") != from.running->number)
    throw_data_loss(fmt::format("invalid message of {}: found the result of another task", from.channel->peer()));
  const Task task = *std::exchange(from.running, std::nullopt);
  if (!counts(task)) return;  // another worker was faster
  if (message.kind() == "failed") {
    const Code code = code_of(message);
    put_back(task);
    if (code == Code::kAborted || (is_loss(code) && message.flag("servers"))) {
      servers_lost_ = servers_lost_ || code != Code::kAborted;
      if (servers_lost_ && options_.report) options_.report(message.text("message"));
    } else if (!error_) {
      error_ = {code, message.text("message")};
      queue_.clear();
    }
  } else {
    longest_ = std::max<Clock::duration>(longest_, Clock::now() - from.started);
    running_.erase(task.number);
    results_.push_back({task.number, from.worker, id, message.head["value"], message.tensors});
  }
  changed_.notify_all();
}

Message TaskBoard::answer(const Message& request) {
  const std::string question = request.text("question");
  std::unique_lock lock(mutex_);
  if (!answers_.contains(question)) questions_.insert(question);
  changed_.notify_all();
  changed_.wait_for(lock, kIdle, [&] { return answers_.contains(question) || ending_; });
  const auto found = answers_.find(question);
  if (found == answers_.end()) return Message("idle");
  Message message = found->second;
  if (message.kind() == "error") answers_.erase(found);  // who asks again may get another answer
  return message;
}

void TaskBoard::answer_questions(std::unique_lock<std::mutex>& lock) {
  while (!questions_.empty()) {
    const std::string question = questions_.extract(questions_.begin()).value();
    Message message("answer");
    lock.unlock();
    try {
      if (on_question) on_question(question);
    } catch (const Error& error) {
      message = error_message(error.code(), error.message());
    }
    lock.lock();
    answers_[question] = std::move(message);
    changed_.notify_all();
  }
}

void TaskBoard::open_section(std::string call) {
  const std::lock_guard lock(mutex_);
  call_ = std::move(call);
}

std::int64_t TaskBoard::add(std::string input) {
  const std::lock_guard lock(mutex_);
  queue_.push_back({static_cast<std::int64_t>(closed_.size()), next_number_, std::move(input)});
  changed_.notify_all();
  return next_number_++;
}

std::size_t TaskBoard::unfinished() {
  const std::lock_guard lock(mutex_);
  return queue_.size() + running_.size();
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

void TaskBoard::attend(std::unique_lock<std::mutex>& lock, const std::function<void()>& recover) {
  pass_results(lock);
  answer_questions(lock);
  if (!servers_lost_ || !running_.empty()) return;
  lock.unlock();
  recover();
  lock.lock();
  servers_lost_ = false;
  alone_since_ = Clock::now();
  changed_.notify_all();
}

void TaskBoard::poll(const std::function<void()>& recover) {
  std::unique_lock lock(mutex_);
  attend(lock, recover);
}

void TaskBoard::wait(std::size_t most, const std::function<void()>& recover) {
  std::unique_lock lock(mutex_);
  Clock::time_point report_at = Clock::now() + kReportEvery;
  for (;;) {
    attend(lock, recover);
    if (error_ && running_.empty()) {
      const auto [code, text] = *std::exchange(error_, std::nullopt);
      throw_error(code, text);
    }
    if (!error_ && !servers_lost_ && results_.empty() && queue_.size() + running_.size() <= most) return;
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

void TaskBoard::close_section(Closed closed) {
  const std::lock_guard lock(mutex_);
  closed.call = call_;
  closed_.push_back(std::move(closed));
  queue_.clear();
  running_.clear();
  next_number_ = 0;
  longest_ = {};
  changed_.notify_all();
}

void TaskBoard::close_section(const std::string& text) { close_section(Closed{{}, {}, text}); }
void TaskBoard::close_section(const Error& error) { close_section(Closed{{}, error.code(), error.message()}); }

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

void TaskClient::require_same_call(const std::string& mine, const std::string& chiefs) const {
  if (mine == chiefs) return;
  throw_failed_precondition(
      fmt::format("{} has called {}, but the chief {}: chief and workers must make the same calls "
                  "of fit() and ClusterCoordinator::join() in the same order",
                  options_.own_name, mine, chiefs));
}

std::string TaskClient::serve(const std::string& call, const Work& work) {
  const std::int64_t section = section_++;
  for (;;) {
    Message request("next");
    request.head["section"] = section;
    channel_->send(std::move(request), options_.timeout);
    const Message reply = channel_->receive(options_.timeout);
    const std::string kind = reply.kind();
    if (kind == "idle") continue;
    if (reply.head.contains("call") && kind != "task") require_same_call(call, reply.text("call"));
    collectives::throw_error_of(reply);
    if (kind == "closed") return reply.text("text");
    TaskResult result;
    result.number = reply.integer("number");
    Message done("done");
    try {
      require_same_call(call, reply.text("call"));
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

void TaskClient::ask(const std::string& question) {
  for (;;) {
    Message request("ask");
    request.head["question"] = question;
    channel_->send(std::move(request), options_.timeout);
    const Message reply = channel_->receive(options_.timeout);
    collectives::throw_error_of(reply);
    if (reply.kind() != "idle") return;
  }
}

}  // namespace lockstep::distribute
