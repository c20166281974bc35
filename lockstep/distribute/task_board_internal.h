// How the chief of a job with parameter servers hands out tasks to its workers.
//
// Every process runs the same program. The tasks of workers form sections, which chief and workers pass in
// the same order; a task is a number within its section and a text. A worker asks for the next task, does it and
// reports a result. A worker that starts late, or again, passes the sections that are over and joins the one at hand.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/collectives/message_channel_internal.h"
#include "lockstep/collectives/tcp_internal.h"

namespace lockstep::distribute {

struct TaskResult {
  std::int64_t number = 0;
  int worker = 0;               // its number in the cluster
  std::int64_t connection = 0;  // differs when a worker was started again
  Json value = nullptr;
  std::vector<formats::TensorData> tensors = {};
};

struct TaskOptions {
  std::vector<std::string> workers;  // names, by number
  std::string own_name;
  std::string cluster;  // a text that is equal in all processes of the job
  std::uint64_t seed = 0;
  std::chrono::milliseconds startup_timeout{20000};
  std::chrono::milliseconds timeout{30000};
  std::function<void(const std::string&)> report;
};

// The chief's. All calls from one thread.
class TaskBoard {
 public:
  // Listens at once.
  TaskBoard(TaskOptions options, int port);
  // Waits until the workers have left, or are lost.
  ~TaskBoard();
  TaskBoard(const TaskBoard&) = delete;
  TaskBoard& operator=(const TaskBoard&) = delete;

  // Adds a task to the section at hand; returns its number.
  std::int64_t add(std::string input);
  // Waits until at most `most` tasks are not done. When a worker has lost a parameter server, `recover` is called and
  // the task is given out again. Throws the first error of a task, once all that run have ended; the others are
  // dropped. Throws DeadlineExceeded when there has been no worker for the startup timeout.
  void wait(std::size_t most, const std::function<void()>& recover);
  std::size_t unfinished();
  int num_connected();
  // Called for each result, in wait() and on its thread.
  std::function<void(const TaskResult&)> on_result;
  // Ends the section for all workers, which get `text`, or throw the error.
  void close_section(const std::string& text);
  void close_section(const Error& error);

 private:
  struct Task {
    std::int64_t section;
    std::int64_t number;
    std::string input;
  };
  struct Closed {
    Code code = {};  // of an error; none for a text
    std::string text;
  };
  struct Connection {
    std::unique_ptr<collectives::MessageChannel> channel;
    std::thread thread;
    std::atomic<bool> over{false};
  };
  void accept();
  void serve(Connection& connection, std::int64_t id);
  collectives::Message next(const collectives::Message& request, std::optional<Task>& running);
  void finish(const collectives::Message& message, std::optional<Task>& running, int worker, std::int64_t id);
  void give_back(std::optional<Task>& running, const std::string& why);
  void put_back(std::optional<Task>& running);
  void pass_results(std::unique_lock<std::mutex>& lock);
  std::string missing() const;

  TaskOptions options_;
  collectives::Listener listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  std::size_t running_ = 0;
  std::int64_t next_number_ = 0;
  std::vector<Closed> closed_;  // sections
  std::deque<TaskResult> results_;
  std::optional<std::pair<Code, std::string>> error_;
  bool servers_lost_ = false;
  bool ending_ = false;         // no tasks will come
  bool over_ = false;           // nobody is waited for any more
  std::vector<int> connected_;  // connections of each worker
  std::vector<bool> seen_;      // workers that have connected
  const std::chrono::steady_clock::time_point started_;
  std::chrono::steady_clock::time_point alone_since_ = std::chrono::steady_clock::now();
  std::list<Connection> connections_;
  std::thread acceptor_;
};

// A worker's.
class TaskClient {
 public:
  // Connects. Throws DeadlineExceeded when the chief does not answer, InvalidArgument when it is of another job.
  TaskClient(TaskOptions options, int worker, const std::string& chief, const std::string& address);
  ~TaskClient();
  TaskClient(const TaskClient&) = delete;
  TaskClient& operator=(const TaskClient&) = delete;

  std::uint64_t seed() const { return seed_; }
  // Does the tasks of the next section until the chief closes it; returns its text or throws its error. `work` gives
  // the result of a task; an Error it throws ends the section, but for one of a lost parameter server, after which the
  // task is done again. Throws Unavailable when the chief is lost.
  using Work = std::function<void(std::int64_t section, const std::string& input, TaskResult& result)>;
  std::string serve(const Work& work);

 private:
  TaskOptions options_;
  std::unique_ptr<collectives::MessageChannel> channel_;
  std::int64_t section_ = 0;
  std::uint64_t seed_ = 0;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;
  std::thread heartbeat_;
};

}  // namespace lockstep::distribute
