// How the chief of a job with parameter servers hands out tasks to its workers.
//
// Every process runs the same program. The tasks of workers form sections, which chief and workers pass in
// the same order; a task is a number within its section and a text. A worker asks for the next task, does it and
// reports a result. A worker that starts late, or again, passes the sections that are over and joins the one at hand.
//
// No worker is waited for while others are free: a task whose worker is silent, or takes much longer than the others of
// its section did, is given to a free worker too. The first result counts; servers ignore updates that were made.
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
#include <set>
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

  // Begins the section at hand, if it has not begun: `call` is the function that chief and workers must have called,
  // "fit()".
  void open_section(std::string call);
  // Adds a task to the section at hand; returns its number.
  std::int64_t add(std::string input);
  // Waits until at most `most` tasks are not done. When a worker has lost a parameter server, `recover` is called and
  // the task is given out again. Throws the first error of a task, once all that run have ended; the others are
  // dropped. Throws DeadlineExceeded when there has been no worker for the startup timeout.
  void wait(std::size_t most, const std::function<void()>& recover);
  // What wait() does while it waits, without waiting and without the errors of tasks.
  void poll(const std::function<void()>& recover);
  std::size_t unfinished();
  int num_connected();
  // Called in wait() and on its thread: for each result, and once for each different question of workers, which get
  // the Error that it throws.
  std::function<void(const TaskResult&)> on_result;
  std::function<void(const std::string&)> on_question;
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
    std::string call;
    Code code = {};  // of an error; none for a text
    std::string text;
  };
  using Clock = std::chrono::steady_clock;
  struct Connection {
    std::unique_ptr<collectives::MessageChannel> channel;
    std::thread thread;
    std::atomic<bool> over{false};
    int worker = -1;               // its number
    bool left = false;             // or lost
    Clock::time_point heard = {};  // when its last message came
    std::optional<Task> running;
    Clock::time_point started = {};  // when it got the task
  };
  void accept();
  void serve(Connection& connection, std::int64_t id);
  collectives::Message next(const collectives::Message& request, Connection& to);
  void finish(const collectives::Message& message, Connection& from, std::int64_t id);
  collectives::Message answer(const collectives::Message& request);
  void give_back(Connection& from, const std::string& why);
  void put_back(const Task& task);
  bool counts(const Task& task) const;
  const Task* overdue_task(const Connection& free) const;
  bool is_silent(const Connection& connection) const;
  void pass_results(std::unique_lock<std::mutex>& lock);
  void answer_questions(std::unique_lock<std::mutex>& lock);
  void attend(std::unique_lock<std::mutex>& lock, const std::function<void()>& recover);
  void close_section(Closed closed);
  std::string missing() const;

  TaskOptions options_;
  collectives::Listener listener_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  std::map<std::int64_t, int> running_;  // tasks of the section without a result: how many workers do each
  std::int64_t next_number_ = 0;
  std::string call_;            // of the section at hand
  Clock::duration longest_{0};  // of its tasks that are done
  std::vector<Closed> closed_;  // sections
  std::deque<TaskResult> results_;
  std::set<std::string> questions_;                      // without an answer
  std::map<std::string, collectives::Message> answers_;  // by question
  std::optional<std::pair<Code, std::string>> error_;
  bool servers_lost_ = false;
  bool ending_ = false;         // no tasks will come
  bool over_ = false;           // nobody is waited for any more
  std::vector<int> connected_;  // connections of each worker
  std::vector<bool> seen_;      // workers that have connected
  const Clock::time_point started_;
  Clock::time_point alone_since_ = Clock::now();
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
  // task is done again. Throws FailedPrecondition when the chief's section is of another call, Unavailable when the
  // chief is lost.
  using Work = std::function<void(std::int64_t section, const std::string& input, TaskResult& result)>;
  std::string serve(const std::string& call, const Work& work);
  // Within a task: returns when the chief has dealt with the question, or throws its error.
  void ask(const std::string& question);

 private:
  void require_same_call(const std::string& mine, const std::string& chiefs) const;

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
