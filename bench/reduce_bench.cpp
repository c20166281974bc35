// A worker of a job that adds up one large tensor, several times each way, and prints the least seconds of the two ways
// as JSON:
//   reduce_bench MEGABYTES [ring] [ROUNDS]
// TF_CONFIG (or another launcher's variables) describes the job. "sum": collectives::sum of a tensor that it may sum in
// place; "gloo": LibTorch's Gloo on that tensor, a ring of all workers. With "ring" the sum does not use shared memory.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "lockstep/base/error.h"
#include "lockstep/collectives/tensors_internal.h"

#include "gloo_peer.h"

namespace {

namespace ls = lockstep;
using Clock = std::chrono::steady_clock;

double seconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void check(const std::vector<float>& values, double expected) {
  const auto wrong =
      std::find_if(values.begin(), values.end(), [&](float value) { return value != static_cast<float>(expected); });
  if (wrong != values.end()) ls::throw_internal(fmt::format("a sum is {}, expected {}", *wrong, expected));
}

void run(std::int64_t megabytes, bool ring, int rounds) {
  ls::distribute::CommunicationOptions communication;
  if (ring) communication.implementation = ls::distribute::CommunicationImplementation::kRing;
  ls::distribute::MultiWorkerMirroredStrategy strategy({.communication_options = communication});
  ls::collectives::Communicator* const group = strategy.communicator();
  if (!group) ls::throw_invalid_argument("there are no other workers: set TF_CONFIG");
  const auto host_of = [&](int rank) {
    const std::string& address = strategy.cluster_resolver().members()[static_cast<std::size_t>(rank)].address;
    return address.substr(0, address.rfind(':'));
  };
  GlooPeer peer(group->rank(), group->size(), host_of(group->rank()));
  peer.connect(host_of(0), std::stoi(group->broadcast(std::to_string(peer.port()), 0)));
  const ls::Shape shape{megabytes * 1000 * 1000 / 4};
  const double all = group->size() * (group->size() + 1) / 2.0;
  double sum = 1e9, gloo = 1e9;
  for (int round = 0; round < rounds; ++round) {
    ls::Tensors values;
    values.push_back(ls::Tensor::full(shape, group->rank() + 1));
    group->barrier();
    sum = std::min(sum, seconds([&] { ls::collectives::sum(*group, values); }));
    check(values[0].to_vector<float>(), all);
    std::vector<float> value(static_cast<std::size_t>(shape[0]), static_cast<float>(group->rank() + 1));
    group->barrier();
    gloo = std::min(gloo, seconds([&] { peer.all_reduce(value.data(), shape[0]); }));
    check(value, all);
  }
  fmt::print("{{\"megabytes\": {}, \"sum\": {:.5f}, \"gloo\": {:.5f}}}\n", megabytes, sum, gloo);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool ring = argc > 2 && std::string(argv[2]) == "ring";
    const int rounds = argc > 2 + ring ? std::atoi(argv[2 + ring]) : 9;
    run(argc > 1 ? std::atoll(argv[1]) : 100, ring, rounds);
  } catch (const ls::Error& e) {
    fmt::print(stderr, "reduce_bench: {}\n", e.message());
    return 1;
  }
  return 0;
}
