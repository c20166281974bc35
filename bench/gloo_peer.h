// LibTorch's Gloo, the peer of our sums over workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

class GlooPeer {
 public:
  // Rank 0 serves the rendezvous at a port that the system chooses. `host`: the address of this rank.
  GlooPeer(int rank, int size, const std::string& host);
  ~GlooPeer();
  int port() const;
  // Connects all ranks, after the others have got rank 0's address.
  void connect(const std::string& host, int port);
  void all_reduce(float* data, std::int64_t count);

 private:
  struct State;
  std::unique_ptr<State> state_;
};
