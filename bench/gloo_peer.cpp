#include "gloo_peer.h"

#define USE_C10D_GLOO  // the headers hide Gloo behind it
#include <ATen/ops/from_blob.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

struct GlooPeer::State {
  int rank, size;
  std::string host;
  c10::intrusive_ptr<c10d::TCPStore> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
};

GlooPeer::GlooPeer(int rank, int size, const std::string& host) : state_(new State{rank, size, host, {}, {}}) {
  if (rank != 0) return;
  c10d::TCPStoreOptions options;
  options.port = 0;
  options.isServer = true;
  options.waitWorkers = false;
  state_->store = c10::make_intrusive<c10d::TCPStore>("localhost", options);
}
GlooPeer::~GlooPeer() = default;

int GlooPeer::port() const { return state_->store ? state_->store->getPort() : 0; }

void GlooPeer::connect(const std::string& host, int port) {
  if (!state_->store) {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(port);
    options.waitWorkers = false;
    state_->store = c10::make_intrusive<c10d::TCPStore>(host, options);
  }
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(state_->host));
  options->threads = 2;
  state_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(state_->store, state_->rank, state_->size, options);
}

void GlooPeer::all_reduce(float* data, std::int64_t count) {
  std::vector<at::Tensor> tensors{at::from_blob(data, {count}, at::kFloat)};
  state_->group->allreduce(tensors)->wait();
}
