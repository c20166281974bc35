// Jobs over loopback whose ranks are threads of this process; killed processes are tests/workers' matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/json.h"
#include "lockstep/collectives/job_store_internal.h"
#include "lockstep/collectives/tcp_internal.h"
#include "lockstep/collectives/threaded_job_internal.h"
#include "lockstep/collectives/workers_internal.h"

namespace lockstep::collectives {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using threaded_job::free_addresses;
using threaded_job::job;
using threaded_job::run;

TEST(Job, RanksReduceGatherAndBroadcast) {
  const auto addresses = free_addresses(3);
  const auto messages = run(3, [&](int rank) {
    const CommunicatorPtr group = join_job(job(rank, addresses));
    const Tensor value = Tensor::from_vector(std::vector<float>{1.0f + static_cast<float>(rank), 10.0f});
    group->all_reduce(value);
    EXPECT_THAT(value.to_vector<float>(), ElementsAre(6.0f, 30.0f));
    const std::string large(static_cast<std::size_t>(rank) * 10000, static_cast<char>('a' + rank));
    EXPECT_THAT(group->all_gather(large), ElementsAre("", std::string(10000, 'b'), std::string(20000, 'c')));
    EXPECT_THAT(group->all_gather(std::to_string(rank)), ElementsAre("0", "1", "2"));
    EXPECT_EQ(group->broadcast(rank == 1 ? "hello" : "", 1), "hello");
    const Tensor weights = Tensor::full(Shape({4}), rank);
    group->broadcast(weights, 2);
    EXPECT_THAT(weights.to_vector<float>(), ElementsAre(2, 2, 2, 2));
    const CommunicatorPtr second = group->duplicate("saving");
    second->barrier();
    group->barrier();
  });
  EXPECT_THAT(messages, ElementsAre("", "", ""));
}

// torchrun's agent serves one store for a job and its restarts.
TEST(Job, AttemptsShareAServedStore) {
  Listener listener("the agent", 0);
  const int port = listener.port();
  const auto agent = serve_store("127.0.0.1", port, listener, milliseconds(5000));
  const auto attempt = [&](const std::string& prefix) {
    return run(2, [&](int rank) {
      JobOptions options;
      options.rank = rank;
      options.names = {"worker 0", "worker 1"};
      options.addresses = {"127.0.0.1:" + std::to_string(port), ""};
      options.store_is_served = true;
      options.store_prefix = prefix;
      options.startup_timeout = milliseconds(5000);
      EXPECT_EQ(join_job(options)->broadcast(rank == 0 ? "hello" : "", 0), "hello");
    });
  };
  EXPECT_THAT(attempt("attempt_0"), ElementsAre("", ""));
  EXPECT_THAT(attempt("attempt_1"), ElementsAre("", ""));
}

TEST(Job, MissingWorkersAreNamed) {
  const auto addresses = free_addresses(3);
  std::vector<std::string> reports(2);
  const auto messages = run(2, [&](int rank) {
    JobOptions options = job(rank, addresses);
    options.startup_timeout = milliseconds(2500);
    options.report = [&, rank](const std::string& line) { reports[static_cast<std::size_t>(rank)] += line + "\n"; };
    join_job(options);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {  // reported while they wait, not only at the end
    EXPECT_THAT(reports[rank], AllOf(HasSubstr("worker " + std::to_string(rank) + " (" + addresses[rank] +
                                               ") waits for worker 2 (" + addresses[2] + ")"),
                                     HasSubstr("s left")));
  }
  EXPECT_THAT(messages[0],
              AllOf(HasSubstr("DeadlineExceeded"), HasSubstr("worker 2 (" + addresses[2] + ") did not start")));
  EXPECT_THAT(messages[1], HasSubstr("worker 2"));
}

TEST(Job, OfManyMissingWorkersTheFirstAreNamed) {
  const auto addresses = free_addresses(20);
  JobOptions options = job(0, addresses);
  options.startup_timeout = milliseconds(200);
  const auto messages = run(1, [&](int) { join_job(options); });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("worker 8 (" + addresses[8] + ") and 11 more did not start"),
                                 Not(HasSubstr("worker 9 ("))));
}

TEST(Job, AMissingChiefIsNamed) {
  const auto addresses = free_addresses(2);
  JobOptions options = job(1, addresses);
  options.startup_timeout = milliseconds(500);
  const auto messages = run(1, [&](int) { join_job(options); });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("DeadlineExceeded"),
                                 HasSubstr("worker 0 (" + addresses[0] + ") cannot be reached"), HasSubstr("refused")));
}

// The kernel takes the connection for a listener that nobody serves: as a worker 0 that is stopped, or a cut line.
TEST(Job, AChiefThatDoesNotAnswerIsNamed) {
  const auto addresses = free_addresses(2);
  const Listener mute("test", parse_address(addresses[0]).port);
  JobOptions options = job(1, addresses);
  options.startup_timeout = milliseconds(500);
  const auto begin = std::chrono::steady_clock::now();
  const auto messages = run(1, [&](int) { join_job(options); });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("DeadlineExceeded"), HasSubstr("worker 0 (" + addresses[0] + ")"),
                                 HasSubstr("did not answer")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  const Listener again("test", parse_address(addresses[1]).port);  // its own port is free
}

TEST(Job, PortsInUseAreNamed) {
  const auto addresses = free_addresses(2);
  const Listener other("test", parse_address(addresses[1]).port);
  const auto messages = run(2, [&](int rank) {
    JobOptions options = job(rank, addresses);
    options.startup_timeout = milliseconds(1000);
    join_job(options);
  });
  EXPECT_THAT(messages[1],
              AllOf(HasSubstr("Unavailable"), HasSubstr("port " + std::to_string(parse_address(addresses[1]).port)),
                    HasSubstr("in use")));
}

TEST(Job, ClustersMustAgree) {
  const auto addresses = free_addresses(2);
  const auto messages = run(2, [&](int rank) {
    JobOptions options = job(rank, addresses);
    if (rank == 1) options.names[1] = "worker 1 (elsewhere:1)";
    join_job(options);
  });
  EXPECT_THAT(messages[0], HasSubstr("elsewhere:1"));
  EXPECT_THAT(messages[1], HasSubstr("elsewhere:1"));
}

// Imitates a worker of another version: sends its registration.
TEST(Job, VersionsMustAgree) {
  const auto addresses = free_addresses(2);
  const auto messages = run(2, [&](int rank) {
    const JobOptions options = job(rank, addresses);
    if (rank == 0) {
      join_job(options);
      return;
    }
    std::string problem;
    while (!probe(parse_address(addresses[0]), milliseconds(500), problem))
      std::this_thread::sleep_for(milliseconds(20));
    const auto store = join_store(parse_address(addresses[0]), milliseconds(5000));
    store->set("hello/1", dump_json({{"version", "0.0.1"}, {"members", options.names}}));
    EXPECT_THAT(store->get("go"), HasSubstr("run the same version everywhere"));
  });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("InvalidArgument"),
                                 HasSubstr("worker 1 (" + addresses[1] + ") runs lockstep \"0.0.1\", worker 0")));
}

TEST(Job, AFailureIsReportedToTheOtherWorkers) {
  const auto addresses = free_addresses(2);
  const auto messages = run(2, [&](int rank) {
    const CommunicatorPtr group = join_job(job(rank, addresses));
    if (rank == 1) {
      group->fail("the disk is full");
    } else {
      group->barrier();
    }
  });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("Unavailable"), HasSubstr("worker 1"), HasSubstr("the disk is full")));
}

TEST(Job, AWorkerThatDoesNotArriveIsNamed) {
  const auto addresses = free_addresses(3);
  std::atomic<int> failed = 0;
  const auto messages = run(3, [&](int rank) {
    JobOptions options = job(rank, addresses);
    options.timeout = milliseconds(2500);
    const CommunicatorPtr group = join_job(options);
    if (rank == 1) {
      while (failed < 2) std::this_thread::sleep_for(milliseconds(50));
      return;
    }
    try {
      group->barrier();
    } catch (...) {
      ++failed;
      throw;
    }
    ++failed;
  });
  EXPECT_THAT(messages[0],
              AllOf(HasSubstr("DeadlineExceeded"), HasSubstr("worker 1 (" + addresses[1] + ") did not arrive")));
  EXPECT_THAT(messages[2], HasSubstr("worker 1"));
}

TEST(Job, AWorkerThatEndsIsNamed) {
  const auto addresses = free_addresses(2);
  const auto messages = run(2, [&](int rank) {
    const CommunicatorPtr group = join_job(job(rank, addresses));
    group->barrier();
    if (rank == 0) group->barrier();
  });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("Unavailable"), HasSubstr("worker 1")));
}

}  // namespace
}  // namespace lockstep::collectives
